//! Loads kernel modules with `modprobe`, which resolves dependencies, and removes them with a
//! system call (`delete_module`).

use crate::sys::kernel;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Paths of `modprobe`; `$PATH` belongs to the caller and is not used.
const MODPROBE: [&str; 4] = [
    "/usr/sbin/modprobe",
    "/sbin/modprobe",
    "/usr/bin/modprobe",
    "/bin/modprobe",
];

/// Whether the module is loaded or built into the kernel.
pub fn present(name: &str) -> bool {
    let builtin = |text: &str| {
        let file = format!("/{name}.ko");
        text.lines()
            .any(|line| line.replace('-', "_").ends_with(&file))
    };
    Path::new(&format!("/sys/module/{name}")).exists()
        || name
            .strip_prefix("tcp_")
            .is_some_and(|cc| kernel::ccs().available.iter().any(|have| have == cc))
        || fs::read_to_string(format!(
            "/lib/modules/{}/modules.builtin",
            kernel::release()
        ))
        .is_ok_and(|text| builtin(&text))
}

/// Number of users of the module: connections, qdiscs, other modules; `None` if it is built in or
/// not loaded.
pub fn users(name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/sys/module/{name}/refcnt")).ok()?;
    text.trim().parse().ok()
}

/// Loads the module.
pub fn load(name: &str) -> io::Result<()> {
    let lacking = |text: String| io::Error::new(io::ErrorKind::NotFound, text);
    let program = MODPROBE.iter().find(|p| Path::new(p).exists());
    let program =
        program.ok_or_else(|| lacking(format!("module {name}: modprobe is not installed")))?;
    let done = Command::new(program)
        .args(["-q", "--", name])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::null())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said
        .lines()
        .next()
        .unwrap_or("it is not installed for this kernel")
        .trim();
    Err(lacking(format!("module {name}: {said}")))
}

/// Removes the module. Returns `false` if it is in use, and `true` if it was removed or is not
/// loaded.
pub fn unload(name: &str) -> io::Result<bool> {
    match kernel::unload(name) {
        Ok(()) => Ok(true),
        Err(e) => match e.raw_os_error() {
            Some(libc::ENOENT) => Ok(true),
            Some(libc::EAGAIN | libc::EBUSY) => Ok(false),
            _ => Err(io::Error::new(e.kind(), format!("module {name}: {e}"))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_congestion_control_of_the_kernel_itself_is_present() {
        // Every kernel has it, and it cannot be a module.
        assert!(present("tcp_reno"));
        assert!(!present("tcp_no_such"));
    }
}
