//! Identifies a network namespace, and determines whether it may write files for the next boot.
//!
//! Settings, queue disciplines and routes belong to a network namespace. Files for the next boot
//! belong to a host. Only two kinds of namespaces may write such files ([`owns_files`]):
//!
//! | namespace | recognised by |
//! |---|---|
//! | the initial one | `net.core.netdev_max_backlog`, which only this namespace has |
//! | that of a whole container | process 1 of this `/proc`, its session, and a mark of a container manager |
//!
//! Two kinds of namespaces inside a container have the mark, but are excluded. In a host of
//! `narrows shell`, process 1 is `narrows-host`. After `unshare --net --pid --fork`, process 1
//! belongs to a session that began outside its PID namespace, so its session is 0 in this `/proc`.
//! Container managers begin a session for process 1 (`setsid`).
//!
//! Every other namespace (`ip netns`, `unshare -n`) shares `/etc` and `/var/lib` with a host whose
//! settings differ, so no file is written there.
//!
//! A namespace is identified by device and inode of `/proc/thread-self/ns/net`, by the boot, and by
//! the cookie of the kernel (`SO_NETNS_COOKIE`, Linux 5.14). The cookie is necessary because the
//! kernel may give the inode of a namespace that has ended to a new one.

use crate::sys;
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Directory in which `ip netns` has a file for each named namespace.
const NAMES: &str = "/run/netns";
/// Marks of container managers: systemd-nspawn and LXC, Docker, Podman.
const MARKS: [&str; 3] = [
    "/run/systemd/container",
    "/.dockerenv",
    "/run/.containerenv",
];
/// Content of `/proc/1/comm` on a host of `narrows shell`.
const EMULATED: &str = "narrows-host\n";
/// A setting that exists only in the initial network namespace.
const INITIAL_ONLY: &str = "/proc/sys/net/core/netdev_max_backlog";

/// A network namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Namespace {
    /// Device number of the file system (`nsfs`) that the inode belongs to.
    pub device: u64,
    /// The inode of the namespace, as in `net:[4026531840]`.
    pub inode: u64,
    /// The kernel's cookie, which is unique within a boot; `None` before Linux 5.14.
    pub cookie: Option<u64>,
    /// Whether it is the initial one.
    pub initial: bool,
    /// The boot in which the namespace was seen (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
}

/// The identifier of the present boot.
pub fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_string()
}

fn inode(path: impl AsRef<Path>) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

impl Namespace {
    /// The namespace of this thread.
    pub fn own() -> io::Result<Namespace> {
        let (device, inode) = inode("/proc/thread-self/ns/net")?;
        Ok(Namespace {
            device,
            inode,
            cookie: sys::network_cookie(),
            initial: Path::new(INITIAL_ONLY).exists(),
            boot: boot(),
        })
    }
    /// Whether both are the same namespace. The initial namespace counts as the same after a
    /// reboot.
    pub fn is(&self, other: &Namespace) -> bool {
        let cookies =
            self.cookie.is_none() || other.cookie.is_none() || self.cookie == other.cookie;
        let alike = self.boot == other.boot
            && (self.device, self.inode) == (other.device, other.inode)
            && cookies;
        self.initial && other.initial || alike
    }
    /// Whether the host has booted since the namespace was recorded. Except for the initial one, it
    /// no longer exists.
    pub fn ended_with_its_boot(&self) -> bool {
        self.boot != boot()
    }
    /// Returns the name of the namespace's subdirectory for its journal.
    pub fn directory(&self) -> String {
        match self.cookie {
            Some(cookie) => format!("netns-{}-{cookie}", self.inode),
            None => format!("netns-{}", self.inode),
        }
    }
    /// Returns the name of the namespace in `ip netns`, if it has one.
    pub fn name(&self) -> Option<String> {
        let mut names: Vec<String> = fs::read_dir(NAMES)
            .ok()?
            .flatten()
            .filter(|entry| {
                inode(entry.path()).is_ok_and(|found| found == (self.device, self.inode))
            })
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| super::plan::namespace(name))
            .collect();
        names.sort();
        names.into_iter().next()
    }
    /// The lowest process ID, of the processes visible in `/proc`, that is in this namespace.
    pub fn process(&self) -> Option<u32> {
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut numbers: Vec<u32> = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers.into_iter().find(|pid| {
            inode(format!("/proc/{pid}/ns/net"))
                .is_ok_and(|found| found == (self.device, self.inode))
        })
    }
    /// A short description of the namespace, for messages.
    pub fn described(&self) -> String {
        if self.initial {
            return "the host's initial network namespace".to_string();
        }
        let number = format!("net:[{}]", self.inode);
        match self.name() {
            Some(name) if !self.ended_with_its_boot() => {
                format!("the network namespace {name} ({number})")
            }
            _ => format!("the network namespace {number}"),
        }
    }
    /// The words before and after `narrows tune VERB` that run it in this namespace; `None` if the
    /// namespace has ended or cannot be found.
    pub fn reached(&self) -> Option<(String, String)> {
        if self.ended_with_its_boot() && !self.initial {
            return None;
        }
        if let Some(name) = self.name() {
            return Some((String::new(), format!(" --netns {name}")));
        }
        let enter = |pid| (format!("nsenter --net=/proc/{pid}/ns/net "), String::new());
        // For the initial namespace, process 1 is named even if `/proc` hides it. Seen from an
        // administrator's shell, process 1 is in that namespace.
        self.process().or(self.initial.then_some(1)).map(enter)
    }
    /// The namespace as JSON, as in the journal.
    pub fn to_json(&self) -> Value {
        json!({ "device": self.device, "inode": self.inode, "cookie": self.cookie,
        "initial": self.initial, "boot": self.boot })
    }
    /// Reads the JSON of [`to_json`](Self::to_json); `None` if invalid.
    pub fn from_json(json: &Value) -> Option<Namespace> {
        Some(Namespace {
            device: json["device"].as_u64()?,
            inode: json["inode"].as_u64()?,
            cookie: json["cookie"].as_u64(),
            initial: json["initial"].as_bool()?,
            boot: json["boot"].as_str()?.to_string(),
        })
    }
}

/// Whether files for the next boot may be written from this namespace.
pub fn owns_files(here: &Namespace) -> bool {
    let of_process_1 =
        || inode("/proc/1/ns/net").is_ok_and(|found| found == (here.device, here.inode));
    let emulated = || fs::read_to_string("/proc/1/comm").is_ok_and(|name| name == EMULATED);
    let begun = || fs::read_to_string("/proc/1/stat").is_ok_and(|stat| session(&stat) > Some(0));
    let marked = || MARKS.iter().any(|mark| Path::new(mark).exists());
    here.initial || of_process_1() && marked() && begun() && !emulated()
}

/// The session ID in a line of `/proc/PID/stat`; 0 if the session began outside of the PID
/// namespace. The fields are counted after the name of the program, which stands in parentheses and
/// may contain any character.
fn session(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_the_same_only_with_inode_cookie_and_boot() {
        let own = Namespace::own().unwrap();
        assert!(own.is(&own));
        assert_eq!(Namespace::from_json(&own.to_json()), Some(own.clone()));
        let one = Namespace {
            initial: false,
            cookie: Some(7),
            ..own.clone()
        };
        let others = [
            Namespace {
                cookie: Some(8),
                ..one.clone()
            },
            Namespace {
                inode: 1,
                ..one.clone()
            },
            Namespace {
                boot: "x".to_string(),
                ..one.clone()
            },
        ];
        for other in others {
            assert!(!one.is(&other), "{other:?}");
        }
        // A kernel without cookies has nothing more to compare.
        assert!(one.is(&Namespace {
            cookie: None,
            ..one.clone()
        }));
        let initial = Namespace {
            initial: true,
            ..one
        };
        let after_a_boot = Namespace {
            boot: "x".to_string(),
            inode: 1,
            ..initial.clone()
        };
        assert!(initial.is(&after_a_boot));
    }

    #[test]
    fn a_session_is_the_fourth_field_after_the_name() {
        assert_eq!(session("1 (sh) S 0 1 1 34816 1 4194560"), Some(1));
        assert_eq!(session("1 (a) b) S 0 0 0 0 -1 4194560"), Some(0));
        assert_eq!(session("1 (sh S 0 1"), None);
    }

    #[test]
    fn a_record_of_another_format_is_no_namespace() {
        assert_eq!(Namespace::from_json(&json!({ "inode": 1 })), None);
        assert_eq!(Namespace::from_json(&Value::Null), None);
    }
}
