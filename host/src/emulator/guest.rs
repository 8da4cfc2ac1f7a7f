//! The first process of the virtual machine of `--engine linux`: Linux as a user-space process
//! (`ARCH=um`) in virtual time.
//!
//! The root file system of the virtual machine is that of the host, read-only. One folder of the
//! host is writable. It contains the input of the run, and the machine writes the result there:
//!
//! | file | contents |
//! |---|---|
//! | `arguments` | the subcommand, `run` or `shell`, and its arguments, separated by zero bytes |
//! | `scenario` | the scenario of a shell |
//! | `environment`, `directory` | variables and working directory of the programs of a shell |
//! | `stdin`, `stdout`, `stderr` | standard streams |
//! | `code` | exit code; absent if the machine ended before |
//!
//! Lines of progress are written to the console of the machine, which is the standard output of the
//! machine's process on the host.
//!
//! A shell has an overlay file system: programs can write to all files, and the changes are lost
//! when the machine ends. The first process mounts the overlay in the folder, makes it its root,
//! and executes itself again.

use crate::error::HostError;
use crate::sys::machine;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// File systems besides the root, with their mount points.
const MOUNTS: [(&str, &str); 3] = [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")];
/// File systems below `/dev`, for the programs of a shell.
const BELOW: [(&str, &str); 2] = [("devpts", "/dev/pts"), ("tmpfs", "/dev/shm")];
/// Symbolic links below `/dev`: target and name.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];
/// The console of the machine.
const CONSOLE: &str = "/dev/console";
/// The subcommand that needs an overlay.
pub const SHELL: &str = "shell";

/// Mounts the file systems of the machine and replaces the standard streams. Returns the subcommand
/// with its arguments, and the console. `inside`: the overlay is the root already.
pub fn enter(folder: &str, inside: bool) -> Result<(Vec<String>, File), HostError> {
    if std::process::id() != 1 {
        return Err(HostError::Unlike(
            "guest: this is not the first process of a virtual machine; write narrows run \
             --engine linux"
                .into(),
        ));
    }
    let shared = || machine::mount("hostfs", folder, folder);
    shared().map_err(HostError::failed("the folder of the run"))?;
    let place = Path::new(folder);
    let text = fs::read_to_string(place.join("arguments"));
    let text = text.map_err(HostError::failed("the arguments"))?;
    let arguments: Vec<String> = text.split('\0').map(String::from).collect();
    let shell = arguments.first().is_some_and(|first| first == SHELL);
    if shell && !inside {
        return Err(behind_overlay(place));
    }
    for (kind, place) in MOUNTS {
        match machine::mount(kind, place, "") {
            // The kernel may have mounted /dev already.
            Err(e) if e.raw_os_error() != Some(libc::EBUSY) => {
                return Err(HostError::Failed("a file system", e));
            }
            _ => {}
        }
    }
    if shell {
        for (kind, place) in BELOW {
            fs::create_dir_all(place)
                .and_then(|()| machine::mount(kind, place, ""))
                .map_err(HostError::failed("a file system below /dev"))?;
        }
        for (to, link) in LINKS {
            // The link may exist.
            let _ = symlink(to, link);
        }
    }
    let streams = || -> io::Result<()> {
        machine::become_stream(&File::open(place.join("stdin"))?, 0)?;
        machine::become_stream(&File::create(place.join("stdout"))?, 1)?;
        machine::become_stream(&File::create(place.join("stderr"))?, 2)
    };
    streams().map_err(HostError::failed("the standard streams"))?;
    let console = fs::OpenOptions::new().write(true).open(CONSOLE);
    let console = console.map_err(HostError::failed(CONSOLE))?;
    Ok((arguments, console))
}

/// Makes an overlay over the host's file system the root, and executes this program again in it,
/// with the environment of the user. Returns only after an error.
fn behind_overlay(folder: &Path) -> HostError {
    let failed = HostError::failed("the overlay");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    let (environment, directory) = (read("environment"), read("directory"));
    let place = |name: &str| folder.join(name).display().to_string();
    let made = || -> io::Result<()> {
        machine::mount("tmpfs", &folder.display().to_string(), "")?;
        for name in ["upper", "work", "root"] {
            fs::create_dir(folder.join(name))?;
        }
        let (upper, work) = (place("upper"), place("work"));
        let options = format!("lowerdir=/,upperdir={upper},workdir={work}");
        machine::mount("overlay", &place("root"), &options)?;
        machine::become_root(&place("root"))
    };
    if let Err(error) = made() {
        return failed(error);
    }
    let directory = Some(directory).filter(|name| Path::new(name).is_dir());
    let variables = environment
        .split('\0')
        .filter_map(|line| line.split_once('='));
    let error = Command::new(folder.join("init"))
        .args(["guest", &folder.display().to_string(), "inside"])
        .env_clear()
        .envs(variables)
        .current_dir(directory.unwrap_or("/".into()))
        .exec();
    failed(error)
}

/// Stores the exit code.
pub fn leave(folder: &str, code: u8) {
    // Without the file, the host reports that the machine ended early.
    let _ = fs::write(Path::new(folder).join("code"), code.to_string());
}
