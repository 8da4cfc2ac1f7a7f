//! Safe access to files as root. Symbolic links are not followed, and files that other users may
//! write are not trusted. A file is replaced completely or not at all, even at a power failure
//! ([`Dir::replace`]).
//!
//! The directories of a path are opened one by one with `openat` and `O_NOFOLLOW`. Every operation
//! is relative to an open directory, so that another user cannot replace a part of the path
//! meanwhile. To replace a file, a new file is written beside it, synced, and renamed over it; then
//! the directory is synced.

use crate::sys;
use crate::sys::files::{lock, make_directory_at, open_at, rename_at, unlink_at};
use std::ffi::c_int;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Largest file of narrows, bytes. [`Dir::read`] rejects a longer file as one of another program.
pub const LONGEST: u64 = 1 << 20;
/// Permission bits by which the group or other users may write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Mode of missing parents of a new directory.
const ON_THE_WAY: u32 = 0o755;

/// A file and its metadata.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Content.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// User ID and group ID.
    pub owner: (u32, u32),
}

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    name: String,
}

fn refused(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

/// Adds the path to an error, and explains the error of a symbolic link.
fn at(place: &str) -> impl Fn(io::Error) -> io::Error + '_ {
    move |e| match e.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => refused(format!(
            "{place}: is a symbolic link or not a directory; links are not followed"
        )),
        _ => io::Error::new(e.kind(), format!("{place}: {e}")),
    }
}

/// Checks that a file or directory belongs to root or this user, and that no one else may write it.
/// A directory with the sticky bit may be writable.
fn trusted(place: &str, meta: &std::fs::Metadata) -> io::Result<()> {
    let own = sys::ids().0;
    if meta.uid() != 0 && meta.uid() != own {
        return Err(refused(format!(
            "{place}: belongs to user {}; chown root {place}",
            meta.uid()
        )));
    }
    // In a directory with the sticky bit, other users cannot replace the file.
    if meta.mode() & OTHERS_WRITE != 0 && !(meta.is_dir() && meta.mode() & STICKY != 0) {
        return Err(refused(format!(
            "{place}: other users may write to it; chmod go-w {place}"
        )));
    }
    Ok(())
}

/// Reads the file at `path` (at most 1 MiB), whose content is used with privilege. The file must
/// not be a symbolic link, and no other user may write it.
pub fn read_trusted(path: &Path) -> io::Result<Vec<u8>> {
    let place = path.display().to_string();
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    // The user selected the path, so its directories may be symbolic links; the file itself must
    // not be one.
    let dir = OwnedFd::from(File::open(folder).map_err(at(&place))?);
    let file =
        File::from(open_at(&dir, name, libc::O_RDONLY | libc::O_NONBLOCK, 0).map_err(at(&place))?);
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(refused(format!("{place}: is not a file")));
    }
    trusted(&place, &meta)?;
    read_whole(file, &place)
}

/// Reads all bytes of `source`.
///
/// # Errors
///
/// If it cannot be read, or if it has more than [`LONGEST`] bytes.
pub fn read_whole(source: impl Read, place: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(refused(format!(
            "{place}: is longer than {} KiB",
            LONGEST >> 10
        )));
    }
    Ok(bytes)
}

impl Dir {
    /// Opens the directory `path` (absolute) below `root`; `None` if it does not exist. With
    /// `make`, a missing directory is created with that mode. Missing parents are created with
    /// 0755, because directories of the system, such as `/var/lib`, must be accessible to all.
    pub fn open(root: &Path, path: &str, make: Option<u32>) -> io::Result<Option<Dir>> {
        let fd = OwnedFd::from(File::open(root).map_err(at(&root.display().to_string()))?);
        let mut dir = Dir {
            fd,
            name: String::new(),
        };
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        while let Some(part) = parts.next() {
            let name = format!("{}/{part}", dir.name);
            let make = make.map(|mode| {
                if parts.peek().is_some() {
                    ON_THE_WAY
                } else {
                    mode
                }
            });
            let flags = libc::O_RDONLY | libc::O_DIRECTORY;
            let next = match (open_at(&dir.fd, part, flags, 0), make) {
                (Err(e), None) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
                (Err(e), Some(mode)) if e.kind() == io::ErrorKind::NotFound => {
                    make_directory_at(&dir.fd, part, mode).map_err(at(&name))?;
                    dir.sync()?;
                    let made = open_at(&dir.fd, part, flags, 0).map(File::from);
                    // Regardless of the umask: networkd, for example, runs as another user and must
                    // read its files.
                    if let Ok(made) = &made {
                        made.set_permissions(Permissions::from_mode(mode))
                            .map_err(at(&name))?;
                    }
                    made
                }
                (found, _) => found.map(File::from),
            };
            let next = next.map_err(at(&name))?;
            trusted(&name, &next.metadata()?)?;
            dir = Dir {
                fd: next.into(),
                name,
            };
        }
        Ok(Some(dir))
    }
    /// The directories of `path` that do not exist, the outermost first.
    pub fn missing(root: &Path, path: &str) -> io::Result<Vec<String>> {
        let mut missing = Vec::new();
        let mut whole = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            whole = format!("{whole}/{part}");
            if !missing.is_empty() || Dir::open(root, &whole, None)?.is_none() {
                missing.push(whole.clone());
            }
        }
        Ok(missing)
    }
    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }
    fn sync(&self) -> io::Result<()> {
        match File::from(self.fd.try_clone()?).sync_all() {
            // Some file systems do not support syncing a directory.
            Err(e) if e.raw_os_error() != Some(libc::EINVAL) => Err(e),
            _ => Ok(()),
        }
    }
    /// Waits for an exclusive lock of this directory. Dropping the returned file releases the lock.
    pub fn lock(&self) -> io::Result<File> {
        let fd = open_at(&self.fd, ".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        lock(&fd, libc::LOCK_EX)?;
        Ok(fd.into())
    }
    /// Whether the directory belongs to this user, and no one else has access.
    pub fn is_private(&self) -> io::Result<bool> {
        let meta = File::from(self.fd.try_clone()?).metadata()?;
        Ok(meta.mode() & 0o077 == 0 && meta.uid() == sys::ids().0)
    }
    /// Reads a file of the directory; `None` if it does not exist.
    pub fn read(&self, name: &str) -> io::Result<Option<Found>> {
        let place = self.place(name);
        let file = match open_at(&self.fd, name, libc::O_RDONLY | libc::O_NONBLOCK, 0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => File::from(found.map_err(at(&place))?),
        };
        let meta = file.metadata()?;
        if !meta.is_file() || meta.len() > LONGEST {
            return Err(refused(format!("{place}: is not a file of narrows")));
        }
        trusted(&place, &meta)?;
        let mut bytes = Vec::new();
        file.take(LONGEST)
            .read_to_end(&mut bytes)
            .map_err(at(&place))?;
        Ok(Some(Found {
            bytes,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
        }))
    }
    /// Replaces a file atomically; `step` is called after each step.
    pub fn replace(&self, name: &str, file: &Found, step: &mut dyn FnMut()) -> io::Result<()> {
        let done = self.replace_by(name, file, step);
        if done.is_err() {
            // On a full disk, the temporary file must not take up space.
            let _ = self.tidy(name);
        }
        done
    }
    /// Overwrites an existing file in place, which is not atomic. This is for a full disk, which
    /// has no space for a second file.
    pub fn overwrite(&self, name: &str, file: &Found) -> io::Result<()> {
        let place = self.place(name);
        let old = File::from(
            open_at(&self.fd, name, libc::O_WRONLY | libc::O_NONBLOCK, 0).map_err(at(&place))?,
        );
        let meta = old.metadata()?;
        if !meta.is_file() {
            return Err(refused(format!("{place}: is not a file")));
        }
        trusted(&place, &meta)?;
        (&old).write_all(&file.bytes).map_err(at(&place))?;
        old.set_len(file.bytes.len() as u64).map_err(at(&place))?;
        old.set_permissions(Permissions::from_mode(file.mode))
            .map_err(at(&place))?;
        old.sync_all().map_err(at(&place))
    }
    /// Appends a line to a file. If the file would become longer than [`LONGEST`], its old content
    /// is deleted first.
    pub fn append(&self, name: &str, line: &str) -> io::Result<()> {
        let place = self.place(name);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_NONBLOCK;
        let mut file = File::from(open_at(&self.fd, name, flags, 0o600).map_err(at(&place))?);
        let meta = file.metadata()?;
        trusted(&place, &meta)?;
        if meta.len() + line.len() as u64 > LONGEST {
            file.set_len(0).map_err(at(&place))?;
        }
        file.write_all(line.as_bytes()).map_err(at(&place))
    }
    /// Creates an empty file, unless it exists.
    pub fn mark(&self, name: &str) -> io::Result<()> {
        open_at(&self.fd, name, libc::O_WRONLY | libc::O_CREAT, 0o600)
            .map(drop)
            .map_err(at(&self.place(name)))
    }
    /// Takes a shared lock of a file. The lock lasts as long as this process, or one forked from
    /// it, has the returned file open.
    pub fn hold(&self, name: &str) -> io::Result<File> {
        let fd = open_at(&self.fd, name, libc::O_RDONLY | libc::O_CREAT, 0o600)
            .map_err(at(&self.place(name)))?;
        lock(&fd, libc::LOCK_SH)?;
        Ok(fd.into())
    }
    /// Whether any process has a lock of the file from [`hold`](Self::hold).
    pub fn is_held(&self, name: &str) -> io::Result<bool> {
        let fd = match open_at(&self.fd, name, libc::O_RDONLY, 0) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(at(&self.place(name)))?,
        };
        // Closing the descriptor releases the lock.
        match lock(&fd, libc::LOCK_EX | libc::LOCK_NB) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(true),
            done => done.map(|()| false),
        }
    }
    fn replace_by(&self, name: &str, file: &Found, step: &mut dyn FnMut()) -> io::Result<()> {
        let place = self.place(name);
        // The suffix hides the temporary file from `sysctl --system`, networkd and udev.
        let beside = format!(".{name}.narrows-new");
        self.remove(&beside)?;
        step();
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let mut new = File::from(open_at(&self.fd, &beside, flags, 0o600).map_err(at(&place))?);
        step();
        new.write_all(&file.bytes).map_err(at(&place))?;
        if file.owner != sys::ids() {
            fchown(&new, Some(file.owner.0), Some(file.owner.1)).map_err(at(&place))?;
        }
        new.set_permissions(Permissions::from_mode(file.mode))
            .map_err(at(&place))?;
        new.sync_all().map_err(at(&place))?;
        step();
        rename_at(&self.fd, &beside, name).map_err(at(&place))?;
        step();
        self.sync()
    }
    /// Removes the temporary file of an interrupted [`replace`](Self::replace).
    pub fn tidy(&self, name: &str) -> io::Result<()> {
        self.remove(&format!(".{name}.narrows-new"))
    }
    fn unlink(&self, name: &str, flags: c_int) -> io::Result<()> {
        match unlink_at(&self.fd, name, flags) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(at(&self.place(name))(e)),
            Ok(()) => self.sync(),
        }
    }
    /// Removes a file, if it exists.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.unlink(name, 0)
    }
    /// Removes a directory, if it exists and is empty.
    pub fn remove_empty(&self, name: &str) -> io::Result<()> {
        match self.unlink(name, libc::AT_REMOVEDIR) {
            Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn tree(name: &str) -> std::path::PathBuf {
        let root =
            std::env::temp_dir().join(format!("narrows-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("etc/sysctl.d")).unwrap();
        for dir in ["", "etc", "etc/sysctl.d"] {
            fs::set_permissions(root.join(dir), fs::Permissions::from_mode(0o755)).unwrap();
        }
        root
    }

    fn found(bytes: &[u8]) -> Found {
        Found {
            bytes: bytes.to_vec(),
            mode: 0o644,
            owner: sys::ids(),
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_comes_back_byte_for_byte() {
        let root = tree("whole");
        let dir = Dir::open(&root, "/etc/sysctl.d", None).unwrap().unwrap();
        assert_eq!(dir.read("99-narrows.conf").unwrap(), None);
        let mut steps = 0;
        dir.replace("99-narrows.conf", &found(b"a = 1\n"), &mut || steps += 1)
            .unwrap();
        assert!(steps >= 4);
        assert_eq!(
            dir.read("99-narrows.conf").unwrap(),
            Some(found(b"a = 1\n"))
        );
        dir.remove("99-narrows.conf").unwrap();
        assert_eq!(fs::read_dir(root.join("etc/sysctl.d")).unwrap().count(), 0);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn links_are_not_followed_neither_at_the_end_nor_on_the_way() {
        let root = tree("links");
        fs::write(root.join("secret"), "x").unwrap();
        symlink(
            root.join("secret"),
            root.join("etc/sysctl.d/99-narrows.conf"),
        )
        .unwrap();
        symlink("/", root.join("etc/away")).unwrap();
        let dir = Dir::open(&root, "/etc/sysctl.d", None).unwrap().unwrap();
        assert!(
            dir.read("99-narrows.conf")
                .unwrap_err()
                .to_string()
                .contains("link")
        );
        assert!(
            Dir::open(&root, "/etc/away", None)
                .unwrap_err()
                .to_string()
                .contains("link")
        );
        assert!(Dir::open(&root, "/etc/away/etc", Some(0o755)).is_err());
        assert!(read_trusted(&root.join("etc/sysctl.d/99-narrows.conf")).is_err());
        // Replacing it replaces the link, not what it leads to.
        dir.replace("99-narrows.conf", &found(b"y"), &mut || ())
            .unwrap();
        assert_eq!(fs::read(root.join("secret")).unwrap(), b"x");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_others_may_write_is_not_trusted() {
        let root = tree("others");
        let file = root.join("plan.json");
        fs::write(&file, "{}").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(
            read_trusted(&file)
                .unwrap_err()
                .to_string()
                .contains("chmod go-w")
        );
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read_trusted(&file).unwrap(), b"{}");
        fs::set_permissions(root.join("etc"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Dir::open(&root, "/etc/sysctl.d", None).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_plan_that_is_too_long_is_refused_and_not_cut() {
        let most = LONGEST as usize;
        assert_eq!(read_whole(&vec![b' '; most][..], "-").unwrap().len(), most);
        let error = read_whole(&vec![b' '; most + 1][..], "-").unwrap_err();
        assert_eq!(error.to_string(), "-: is longer than 1024 KiB");
    }

    #[test]
    fn what_is_missing_on_the_way_is_told() {
        let root = tree("missing");
        let missing = Dir::missing(&root, "/etc/systemd/network").unwrap();
        assert_eq!(missing, ["/etc/systemd", "/etc/systemd/network"]);
        fs::remove_dir_all(root).unwrap();
    }
}
