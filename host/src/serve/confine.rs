//! Drops the privileges that a server does not need once its sockets are open: root, access to
//! files, starting programs, and system calls.
//!
//! | what | how | without it |
//! |---|---|---|
//! | root | the user of `--user` ([`User::default`] without), with the capabilities of [`Keep`] alone; no new privileges | started by a user: nothing to give up |
//! | files | Landlock: `/proc` and `/sys` may be read, nothing may be written or executed; no TCP port may be opened | kernels before 5.13; [`Files`] lists the rights that an older one leaves |
//! | calls | the filters of `calls` | processors that `seccompiler` does not know |
//!
//! With all of them, an attacker who controls the process can send wrong answers and other packets.
//! The attacker can neither read files outside `/proc` and `/sys` nor start a program. If
//! `--net-admin` is set, the attacker can also change the network configuration.
//!
//! Sources: capabilities(7), landlock(7) (Linux man-pages 6.9).

use crate::HostError;
use crate::sys;
use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;

/// The user that root becomes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// User ID.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
}

impl Default for User {
    /// An ID that neither systemd nor Debian assigns, so that no other service has the same user.
    /// In systemd, 65520 to 65533 are unused (<https://systemd.io/UIDS-GIDS>). In Debian, 65000 to
    /// 65533 are reserved.
    fn default() -> User {
        User {
            uid: 65520,
            gid: 65520,
        }
    }
}

impl User {
    /// Reads a user: a number, which becomes user ID and group ID, or a name in /etc/passwd.
    pub fn parse(text: &str) -> Result<User, String> {
        let passwd = || std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        match text.parse() {
            Ok(0) => Err("that is root; write another user".into()),
            Ok(id) if id < u32::MAX => Ok(User { uid: id, gid: id }),
            _ => User::named(text, &passwd()),
        }
    }
    fn named(name: &str, passwd: &str) -> Result<User, String> {
        let mut lines = passwd
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let fields = lines.find(|fields| fields[0] == name && !name.is_empty());
        let fields = fields.ok_or(
            "/etc/passwd has no user of that name; write a name that `getent passwd` prints, or \
             a number",
        )?;
        let id = |at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
        match (id(2), id(3)) {
            (Some(0), _) => Err("that is root; write another user".into()),
            (Some(uid), Some(gid)) => Ok(User { uid, gid }),
            _ => Err("its line of /etc/passwd has no user ID; write the number of a user".into()),
        }
    }
}

/// The reasons for which a server started as root keeps a capability.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// Clients may select any loaded congestion control and delete cached TCP metrics
    /// (`CAP_NET_ADMIN`).
    pub net_admin: bool,
    /// The server's port is below 1024, and sockets for single clients are opened at it later
    /// (`CAP_NET_BIND_SERVICE`).
    pub low_port: bool,
    /// The scheduling policy locks memory (`CAP_IPC_LOCK`).
    pub lock: bool,
    /// The scheduling policy gives threads a higher priority than ordinary ones (`CAP_SYS_NICE`).
    pub nice: bool,
    /// The counters of an XDP program are read (`CAP_BPF`, and the call `bpf`).
    pub bpf: bool,
}

impl Keep {
    /// The capabilities to keep.
    fn capabilities(self) -> HashSet<Capability> {
        let each = [
            (self.net_admin, Capability::CAP_NET_ADMIN),
            (self.low_port, Capability::CAP_NET_BIND_SERVICE),
            (self.lock, Capability::CAP_IPC_LOCK),
            (self.nice, Capability::CAP_SYS_NICE),
            (self.bpf, Capability::CAP_BPF),
        ];
        each.into_iter()
            .filter_map(|(kept, one)| kept.then_some(one))
            .collect()
    }
}

/// The newest version of Landlock whose rules are used; an older kernel applies those that it has.
const LANDLOCK: ABI = ABI::V5;

/// For each version of Landlock: what it was the first to restrict, of what is used here, and its
/// Linux release.
const LANDLOCK_ADDED: [(ABI, &str); 5] = [
    (ABI::V1, "files (Linux 5.13)"),
    (ABI::V2, "moving files between directories (Linux 5.19)"),
    (ABI::V3, "truncating files (Linux 6.2)"),
    (ABI::V4, "opening TCP ports (Linux 6.7)"),
    (ABI::V5, "commands to devices (Linux 6.10)"),
];

/// Directories that the server reads while serving: congestion controls, clocks, devices.
const READ: [&str; 2] = ["/proc", "/sys"];

/// How far Landlock restricts access to files and TCP ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Files {
    /// All access that this module restricts is restricted.
    Confined,
    /// Only the kinds of access for which this version of Landlock has rules are restricted.
    Partly(ABI),
    /// Nothing is restricted: this kernel has no Landlock, or its use is not permitted.
    #[default]
    Free,
}

impl Files {
    fn kept(self) -> Option<String> {
        let Files::Partly(version) = self else {
            return (self == Files::Free)
                .then(|| "access to files (Landlock is not available)".into());
        };
        let (has, lacks): (Vec<_>, Vec<_>) = LANDLOCK_ADDED
            .into_iter()
            .partition(|(since, _)| *since <= version);
        let lacks: Vec<&str> = lacks.into_iter().map(|(_, what)| what).collect();
        Some(format!(
            "access that version {} of Landlock, which this kernel has, does not restrict: {}",
            has.len(),
            lacks.join(", ")
        ))
    }
}

/// The privileges that were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// Whether the process was root and has become another user.
    pub root: bool,
    /// Restriction of access to files and TCP ports.
    pub files: Files,
    /// Whether the seccomp filters that refuse system calls are installed.
    pub calls: bool,
}

impl Confined {
    /// A message about privileges that could not be dropped; `None` if all were dropped.
    pub fn kept(self) -> Option<String> {
        let root = !self.root && sys::ids().0 == 0;
        let parts = [
            root.then(|| "root's user, because this user namespace has no other".to_string()),
            self.files.kept(),
            (!self.calls).then(|| "all system calls (no seccomp filter could be installed)".into()),
        ];
        let kept: Vec<String> = parts.into_iter().flatten().collect();
        (!kept.is_empty()).then(|| format!("the process keeps {}", kept.join("; ")))
    }
}

fn failed(doing: &'static str, error: impl std::fmt::Display) -> HostError {
    HostError::Failed(doing, io::Error::other(error.to_string()))
}

/// Drops the privileges that serving does not need. Existing threads keep their access to files, so
/// threads must be started afterwards. `user`: the user that root becomes; `shared`: sockets whose
/// address and port later sockets will share, so that user must own them.
pub fn confine(user: Option<User>, keep: Keep, shared: &[&OwnedFd]) -> Result<Confined, HostError> {
    let root = leave_root(user, keep, shared)?;
    sys::no_new_privileges().map_err(HostError::failed("disabling new privileges"))?;
    // The kernel, a container or a systemd unit may prevent either step. The server then reports
    // that and serves nevertheless.
    Ok(Confined {
        root,
        files: confine_files().unwrap_or_default(),
        calls: confine_calls(keep.bpf),
    })
}

#[cfg(target_endian = "little")]
fn confine_calls(bpf: bool) -> bool {
    super::calls::confine_calls(bpf).unwrap_or(false)
}
#[cfg(target_endian = "big")]
fn confine_calls(_bpf: bool) -> bool {
    false
}

fn leave_root(user: Option<User>, keep: Keep, shared: &[&OwnedFd]) -> Result<bool, HostError> {
    if keep.net_admin
        && !caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false)
    {
        return Err(HostError::Missing(
            "--net-admin: this process does not have CAP_NET_ADMIN; start it as root, or leave \
             the option out"
                .into(),
        ));
    }
    if sys::ids().0 != 0 {
        return match user {
            None => Ok(false),
            Some(_) => Err(HostError::Missing(
                "--user: only root may become another user; leave the option out".into(),
            )),
        };
    }
    let doing = "leaving root";
    let wrong = |error: caps::errors::CapsError| failed(doing, error);
    let had = caps::read(None, CapSet::Permitted).map_err(wrong)?;
    let kept: HashSet<Capability> = keep.capabilities().intersection(&had).copied().collect();
    caps::securebits::set_keepcaps(true).map_err(wrong)?;
    let to = user.unwrap_or_default();
    let left = match sys::become_user(to.uid, to.gid) {
        Ok(()) => true,
        // A user namespace may lack such a user; its root has no privileges outside.
        Err(error)
            if user.is_none()
                && matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) =>
        {
            false
        }
        Err(error) => return Err(HostError::Failed(doing, error)),
    };
    if left && had.contains(&Capability::CAP_CHOWN) {
        // The owner is changed after the user: the kernel lets only sockets of the same user share
        // an address and port.
        caps::set(
            None,
            CapSet::Effective,
            &HashSet::from([Capability::CAP_CHOWN]),
        )
        .map_err(wrong)?;
        for socket in shared {
            sys::give(socket, to.uid, to.gid).map_err(HostError::failed(doing))?;
        }
    }
    caps::set(None, CapSet::Effective, &kept).map_err(wrong)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(wrong)?;
    caps::securebits::set_keepcaps(false).map_err(wrong)?;
    Ok(left)
}

fn confine_files() -> Result<Files, landlock::RulesetError> {
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| {
            ruleset.add_rules(path_beneath_rules(READ, AccessFs::from_read(LANDLOCK)))
        })
        .and_then(|ruleset| ruleset.restrict_self())?;
    Ok(match (restricted.ruleset, restricted.landlock) {
        (RulesetStatus::FullyEnforced, _) => Files::Confined,
        (RulesetStatus::PartiallyEnforced, LandlockStatus::Available { effective_abi, .. }) => {
            Files::Partly(effective_abi)
        }
        _ => Files::Free,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_landlock_leaves_is_named() {
        let confined = |files| Confined {
            root: true,
            files,
            calls: true,
        };
        assert_eq!(confined(Files::Confined).kept(), None);
        let third = confined(Files::Partly(ABI::V3))
            .kept()
            .expect("something is kept");
        assert!(
            third.contains("version 3 of Landlock") && third.contains("TCP ports (Linux 6.7)"),
            "{third}"
        );
        assert!(
            third.contains("Linux 6.10") && !third.contains("truncating"),
            "{third}"
        );
        assert!(
            confined(Files::Free)
                .kept()
                .is_some_and(|text| text.contains("not available"))
        );
        assert_eq!(
            LANDLOCK_ADDED.last().map(|(version, _)| *version),
            Some(LANDLOCK)
        );
    }

    #[test]
    fn a_user_is_a_number_or_a_name() {
        let passwd =
            "root:x:0:0::/root:/bin/sh\nserve:x:417:418::/:/bin/false\ntoor:x:0:7::/:\nhalf:x:1\n";
        assert_eq!(
            User::parse("4242"),
            Ok(User {
                uid: 4242,
                gid: 4242
            })
        );
        assert_eq!(
            User::named("serve", passwd),
            Ok(User { uid: 417, gid: 418 })
        );
        for (name, why) in [
            ("root", "root"),
            ("toor", "root"),
            ("half", "user ID"),
            ("nobody-here", "getent"),
            ("", "getent"),
        ] {
            assert!(
                User::named(name, passwd).is_err_and(|error| error.contains(why)),
                "{name}"
            );
        }
        assert!(User::parse("0").is_err() && User::parse("4294967295").is_err());
    }

    #[test]
    fn only_what_is_asked_for_keeps_a_capability() {
        assert!(Keep::default().capabilities().is_empty());
        let all = Keep {
            net_admin: true,
            low_port: true,
            lock: true,
            nice: true,
            bpf: true,
        };
        assert_eq!(all.capabilities().len(), 5);
    }
}
