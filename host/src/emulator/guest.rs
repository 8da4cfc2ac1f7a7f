//! The first process of the virtual machine of `--engine linux`: Linux as a user-space process
//! (`ARCH=um`) in virtual time.
//!
//! The root of the machine is the file system of the host, read-only. One folder of the host is
//! writable. It contains the input of the run and receives the result:
//!
//! | file | contents |
//! |---|---|
//! | `arguments` | arguments of `narrows-host run`, one per line |
//! | `stdin`, `stdout`, `stderr` | standard streams of the run |
//! | `code` | exit code of the run; absent if the machine ended before |
//!
//! Lines of progress are written to the console of the machine, which is the standard output of its
//! process on the host.

use crate::error::HostError;
use crate::sys::machine;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// File systems besides the root, with their places.
const MOUNTS: [(&str, &str); 3] = [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")];
/// The console.
const CONSOLE: &str = "/dev/console";

/// Prepares the machine and replaces the standard streams. Returns the arguments of the run and the
/// console.
pub fn enter(folder: &str) -> Result<(Vec<String>, File), HostError> {
    if std::process::id() != 1 {
        return Err(HostError::Unlike(
            "guest: this is not the first process of a virtual machine; write narrows run \
             --engine linux"
                .into(),
        ));
    }
    for (kind, place) in MOUNTS {
        match machine::mount(kind, place, "") {
            // A kernel can mount /dev itself.
            Err(e) if e.raw_os_error() != Some(libc::EBUSY) => {
                return Err(HostError::Failed("a file system", e));
            }
            _ => {}
        }
    }
    machine::mount("hostfs", folder, folder).map_err(HostError::failed("the folder of the run"))?;
    let folder = Path::new(folder);
    let streams = || -> io::Result<()> {
        machine::become_stream(&File::open(folder.join("stdin"))?, 0)?;
        machine::become_stream(&File::create(folder.join("stdout"))?, 1)?;
        machine::become_stream(&File::create(folder.join("stderr"))?, 2)
    };
    streams().map_err(HostError::failed("the standard streams"))?;
    let text = fs::read_to_string(folder.join("arguments"));
    let text = text.map_err(HostError::failed("the arguments"))?;
    let console = fs::OpenOptions::new().write(true).open(CONSOLE);
    let console = console.map_err(HostError::failed(CONSOLE))?;
    Ok((text.lines().map(String::from).collect(), console))
}

/// Stores the exit code of the run.
pub fn leave(folder: &str, code: u8) {
    // Without the file, the host reports that the machine ended early.
    let _ = fs::write(Path::new(folder).join("code"), code.to_string());
}
