//! Reads and writes kernel settings below `/proc/sys`.
//!
//! A new default congestion control is also permitted to all users. The kernel adds it to
//! `tcp_allowed_congestion_control` (ip-sysctl: "the default is always allowed") and does not
//! remove it later. The journal therefore contains the list, so that a revert restores it. In
//! network namespaces where the list is read-only, neither applies.

use crate::sys::files;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;

/// The default congestion control.
pub const CC: &str = "net.ipv4.tcp_congestion_control";
/// The congestion controls that all users may select.
pub const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";

fn path(key: &str) -> String {
    format!("/proc/sys/{}", key.replace('.', "/"))
}

fn at(key: &str) -> impl Fn(io::Error) -> io::Error + '_ {
    move |e| {
        let cure = match e.kind() {
            io::ErrorKind::NotFound => {
                "; this kernel, or this network namespace, has no such setting"
            }
            io::ErrorKind::PermissionDenied => {
                "; it needs root, and some only outside of namespaces"
            }
            _ => "",
        };
        io::Error::new(e.kind(), format!("{key}: {e}{cure}"))
    }
}

fn checked(key: &str, file: File) -> io::Result<File> {
    if files::is_proc(&file) {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{key}: {} is not a file of the kernel", path(key)),
    ))
}

/// The present value of a setting, byte for byte.
pub fn read(key: &str) -> io::Result<String> {
    let mut file = File::open(path(key))
        .and_then(|f| checked(key, f))
        .map_err(at(key))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(at(key))?;
    Ok(text)
}

/// Sets the value in one write, as the kernel requires.
pub fn write(key: &str, value: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path(key));
    let mut file = file.and_then(|f| checked(key, f)).map_err(at(key))?;
    file.write_all(value.as_bytes())
        .map_err(|e| io::Error::new(e.kind(), format!("{key} = {}: {e}", value.trim())))
}

/// Whether the setting is writable in this network namespace.
pub fn writable(key: &str) -> bool {
    fs::metadata(path(key)).is_ok_and(|meta| meta.permissions().mode() & 0o200 != 0)
}

/// The value with single spaces between its words, as in a plan.
pub fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a value, sorted and without duplicates, to compare lists whose order does not
/// matter.
pub fn words(value: &str) -> Vec<&str> {
    let mut words: Vec<&str> = value.split_whitespace().collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_the_kernel_prints_it() {
        assert!(
            read("net.ipv4.tcp_congestion_control")
                .unwrap()
                .ends_with('\n')
        );
        assert_eq!(plain("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(words("reno bbr\n"), words("bbr reno"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = read("net.ipv4.no_such_setting").unwrap_err().to_string();
        assert!(
            error.contains("no_such_setting") && error.contains("no such setting"),
            "{error}"
        );
    }
}
