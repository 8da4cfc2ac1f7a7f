//! Reads untrusted files with a size limit. It is the counterpart of the Python module of the same
//! name.
//!
//! Only regular files are read: a pipe could block forever, and a device may be endless. The file
//! type is checked before the file is opened, because opening a device can have effects. It is
//! checked again on the open file, because the name may have been replaced in between.

use std::fs::{self, FileType, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Size limit of a scenario, bytes.
pub const MOST_TEXT_BYTES: u64 = 8 << 20;
/// Size limit of a file that a scenario names, such as a trace, bytes.
pub const MOST_TRACE_BYTES: u64 = 100 << 20;

/// Reads a regular file of at most `most` bytes as text; the error is the end of a sentence.
pub fn read_text(file: &Path, most: u64) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("cannot be read ({error})");
    regular(fs::metadata(file).map_err(wrong)?.file_type())?;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(file)
        .map_err(wrong)?;
    regular(opened.metadata().map_err(wrong)?.file_type())?;
    let mut bytes = Vec::new();
    opened
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(wrong)?;
    if bytes.len() as u64 > most {
        return Err(format!(
            "is larger than {} MiB, the most that is read",
            most >> 20
        ));
    }
    String::from_utf8(bytes).map_err(|_| "is not text".into())
}

/// Fails unless a file lies, after links are resolved, in the scenario's folder or in a folder of
/// `NARROWS_FILES_FROM`.
pub fn lies_inside(folder: &Path, file: &Path) -> Result<(), String> {
    let real = fs::canonicalize(file).map_err(|e| format!("cannot be read ({e})"))?;
    let more = std::env::var_os("NARROWS_FILES_FROM").unwrap_or_default();
    let mut folders =
        std::iter::once(Path::new(".").join(folder)).chain(std::env::split_paths(&more));
    if folders.any(|folder| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder))) {
        return Ok(());
    }
    Err(
        "lies outside of the scenario's folder; copy it there, or allow its folder with \
        --files-from"
            .into(),
    )
}

fn regular(kind: FileType) -> Result<(), String> {
    let what = match kind {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        kind if kind.is_socket() => "a socket",
        _ => "something else",
    };
    Err(format!(
        "is not a regular file but {what}; write its content to a file first"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn refusal(file: &str) -> String {
        read_text(Path::new(file), 10).unwrap_err()
    }

    #[test]
    fn only_regular_files_of_a_limited_size_are_read() {
        assert_eq!(
            refusal("/dev/zero"),
            "is not a regular file but a device; write its content to a file first"
        );
        assert!(refusal("/").contains("a directory"));
        assert!(refusal("/nowhere").contains("No such file"));
        let folder = std::env::temp_dir().join(format!("narrows-untrusted-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let file = folder.join("a");
        for (bytes, read) in [
            (&b"0123456789"[..], true),
            (b"0123456789a", false),
            (b"\xff", false),
        ] {
            fs::File::create(&file).unwrap().write_all(bytes).unwrap();
            assert_eq!(read_text(&file, 10).is_ok(), read, "{bytes:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
