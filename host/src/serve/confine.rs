//! Drops the privileges that a server does not need once its sockets are open: root, access to
//! files, starting programs, and system calls.
//!
//! | what | how | without it |
//! |---|---|---|
//! | root | the user of `--user` ([`User::default`] without), with the capabilities of [`Keep`] alone; no new privileges | started by a user: nothing to give up |
//! | files | Landlock: `/proc` and `/sys` may be read, nothing may be written or executed; no TCP port may be opened | kernels before 5.13; [`Files`] lists the rights that an older one leaves |
//! | calls | seccomp: those of [`REFUSED`] fail with EPERM, as do new namespaces, sockets but UDP and netlink, data that opens a TCP connection, schedules of other processes and calls of the x32 ABI; `clone3` with ENOSYS | processors that `seccompiler` does not know |
//!
//! With all of them, an attacker who controls the process can send wrong answers and other packets.
//! The attacker can neither read files outside `/proc` and `/sys` nor start a program. If
//! `--net-admin` is set, the attacker can also change the network configuration.
//!
//! `clone3` takes its flags from memory, which a filter cannot read: the C library falls back to
//! `clone`, whose flags can be compared. The server itself needs none of these calls, with one
//! exception. With `--xdp` it reads the counters of its XDP program by `bpf`, which then stays
//! permitted.
//!
//! Landlock's rule for TCP ports covers connect(2) of TCP sockets, but neither TCP Fast Open, which
//! connects by a call that sends, nor Multipath TCP. Therefore no more stream sockets can be
//! created; all listeners are open by then. Calls that send are refused with the flag
//! `MSG_FASTOPEN`. It would open a connection on the socket of an accepted connection after a
//! disconnect.
//!
//! Sources: capabilities(7), landlock(7), seccomp(2), clone(2), socket(2), tcp(7), sched(7),
//! ioprio_set(2) (Linux man-pages 6.9).

use crate::HostError;
use crate::sys;
use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use std::collections::{BTreeMap, HashSet};
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

/// Families of sockets that may still be opened: IPv4 and IPv6 for clients, and netlink for cached
/// TCP metrics.
pub const FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Types of sockets that are refused for every family except netlink: all but datagrams. The type
/// argument of socket(2) has flags in its upper bits.
const SOCKETS: [libc::c_int; 6] = [
    libc::SOCK_STREAM,
    libc::SOCK_RAW,
    libc::SOCK_RDM,
    libc::SOCK_SEQPACKET,
    libc::SOCK_DCCP,
    SOCK_PACKET,
];
/// `SOCK_PACKET` of linux/net.h.
const SOCK_PACKET: libc::c_int = 10;
/// `SOCK_TYPE_MASK` of linux/net.h.
const SOCKET_TYPE: u64 = 0xf;

/// Calls that send, and the index of their flags argument.
const SENDING: [(libc::c_long, u8); 3] = [
    (libc::SYS_sendto, 3),
    (libc::SYS_sendmsg, 2),
    (libc::SYS_sendmmsg, 3),
];

/// Scheduling calls, and the arguments by which they select a process. Each such argument must have
/// the value that means the calling thread. With `CAP_SYS_NICE` these calls could change any
/// process of the host.
const SCHEDULING: [(libc::c_long, &[(u8, libc::c_int)]); 6] = [
    (
        libc::SYS_setpriority,
        &[(0, libc::PRIO_PROCESS as libc::c_int), (1, 0)],
    ),
    (libc::SYS_ioprio_set, &[(0, IOPRIO_WHO_PROCESS), (1, 0)]),
    (libc::SYS_sched_setscheduler, &[(0, 0)]),
    (libc::SYS_sched_setparam, &[(0, 0)]),
    (libc::SYS_sched_setattr, &[(0, 0)]),
    (libc::SYS_sched_setaffinity, &[(0, 0)]),
];
/// `IOPRIO_WHO_PROCESS` of linux/ioprio.h.
const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// `__X32_SYSCALL_BIT` of asm/unistd.h. Call numbers of the x32 ABI have this bit; their
/// architecture is that of other x86-64 calls.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Flags of clone(2) that create namespaces.
const NAMESPACES: [libc::c_int; 8] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    CLONE_NEWTIME,
];
/// `CLONE_NEWTIME` of linux/sched.h.
const CLONE_NEWTIME: libc::c_int = 0x80;

/// The refused calls. They start programs, inspect other processes, change mounts or namespaces,
/// load code into the kernel, use keyrings, set clocks, or have comparable effects.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_mount_setattr,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_quotactl,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_mbind,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_personality,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Refused calls that only some architectures have.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

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
        calls: confine_calls(keep.bpf).unwrap_or(false),
    })
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

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The calls that fail with EPERM. A call without rules always fails; a call with rules fails if
/// one of them matches.
fn refused(bpf: bool) -> Result<Rules, seccompiler::BackendError> {
    #[allow(clippy::unnecessary_cast)] // Numbers of calls have 32 bits on some processors.
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .filter(|call| !(bpf && **call == libc::SYS_bpf))
        .map(|call| (*call as i64, Vec::new()))
        .collect();
    let when = |argument, operator, value: libc::c_int| {
        SeccompCondition::new(
            argument,
            SeccompCmpArgLen::Dword,
            operator,
            u64::from(value as u32),
        )
    };
    let has = |argument, flag: libc::c_int| {
        when(
            argument,
            SeccompCmpOp::MaskedEq(u64::from(flag as u32)),
            flag,
        )
    };
    let namespaces = NAMESPACES
        .iter()
        .map(|flag| SeccompRule::new(vec![has(0, *flag)?]));
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    let families = FAMILIES
        .iter()
        .map(|family| when(0, SeccompCmpOp::Ne, *family));
    let mut sockets = vec![SeccompRule::new(families.collect::<Result<_, _>>()?)?];
    let no_netlink = || when(0, SeccompCmpOp::Ne, libc::AF_NETLINK);
    for kind in SOCKETS {
        let kind = when(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), kind)?;
        sockets.push(SeccompRule::new(vec![no_netlink()?, kind])?);
    }
    // Protocol 0 of a datagram socket means UDP. For other protocols the kernel may load a module.
    let protocol = when(2, SeccompCmpOp::Ne, 0)?;
    sockets.push(SeccompRule::new(vec![no_netlink()?, protocol])?);
    rules.insert(libc::SYS_socket, sockets);
    for (call, whom) in SCHEDULING {
        let others = whom
            .iter()
            .map(|(at, own)| SeccompRule::new(vec![when(*at, SeccompCmpOp::Ne, *own)?]));
        rules.insert(call, others.collect::<Result<_, _>>()?);
    }
    for (call, flags) in SENDING {
        rules.insert(
            call,
            vec![SeccompRule::new(vec![has(flags, libc::MSG_FASTOPEN)?])?],
        );
    }
    Ok(rules)
}

/// A filter program that refuses all calls of the x32 ABI. Their numbers occur in no rule, and
/// `seccompiler` compares call numbers only for equality.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    let step = |code: u32, jt, jf, k| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    vec![
        // Loads the call number, the first field of struct seccomp_data.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn confine_calls(bpf: bool) -> Result<bool, seccompiler::Error> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(false);
    };
    let refused = refused(bpf).map_err(seccompiler::Error::Backend)?;
    let missing: Rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    for (rules, error) in [(refused, libc::EPERM), (missing, libc::ENOSYS)] {
        let action = SeccompAction::Errno(error as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, machine);
        let program: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
        seccompiler::apply_filter_all_threads(&program.map_err(seccompiler::Error::Backend)?)?;
    }
    #[cfg(target_arch = "x86_64")]
    seccompiler::apply_filter_all_threads(&no_x32())?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Environment variable of the child process in which the test confines itself.
    const CHILD: &str = "NARROWS_TEST_CONFINED";

    fn error_of(call: libc::c_long, arguments: &[usize]) -> Option<i32> {
        sys::call_for_test(call, arguments)
            .err()
            .and_then(|error| error.raw_os_error())
    }

    #[test]
    fn refused_calls_fail_and_others_work() {
        if std::env::var_os(CHILD).is_none() {
            let name = "serve::confine::tests::refused_calls_fail_and_others_work";
            let mut again = Command::new(std::env::current_exe().expect("this program"));
            again.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
            // AddressSanitizer looks for leaks at the end by ptrace, which is refused here.
            let done = again.env("ASAN_OPTIONS", "detect_leaks=0").output();
            let done = done.expect("it starts");
            let told = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success() && told.contains("1 passed"), "{told}");
            return;
        }
        match confine_calls(false) {
            Ok(true) => {}
            other => return println!("left out: {other:?}"),
        }
        for call in REFUSED.iter().chain(REFUSED_HERE) {
            // With arguments that could do no harm if they were looked at.
            assert_eq!(
                error_of(*call, &[usize::MAX]),
                Some(libc::EPERM),
                "call {call}"
            );
        }
        assert_eq!(error_of(libc::SYS_clone3, &[]), Some(libc::ENOSYS));
        for flag in NAMESPACES {
            // The kernel refuses a shared table of signal handlers without shared memory by EINVAL.
            let flags = (flag | libc::CLONE_SIGHAND) as usize;
            assert_eq!(
                error_of(libc::SYS_clone, &[flags]),
                Some(libc::EPERM),
                "{flag:#x}"
            );
        }
        assert_eq!(
            error_of(libc::SYS_clone, &[libc::CLONE_SIGHAND as usize]),
            Some(libc::EINVAL)
        );
        for family in [
            libc::AF_UNIX,
            libc::AF_PACKET,
            libc::AF_ALG,
            libc::AF_VSOCK,
            libc::AF_XDP,
        ] {
            assert_eq!(
                error_of(libc::SYS_socket, &[family as usize]),
                Some(libc::EPERM),
                "{family}"
            );
        }
        // No TCP, Multipath TCP (262) or SCTP, no ping, and no datagrams of a protocol whose module
        // would be loaded (L2TP, 115).
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        for family in [libc::AF_INET, libc::AF_INET6] {
            for (kind, protocol) in SOCKETS.map(|kind| (kind, 0)).into_iter().chain([
                (libc::SOCK_STREAM, 262),
                (libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
                (libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
                (libc::SOCK_DGRAM, 115),
            ]) {
                let arguments = [family, kind | flags, protocol].map(|number| number as usize);
                let error = error_of(libc::SYS_socket, &arguments);
                assert_eq!(error, Some(libc::EPERM), "{family} {kind} {protocol}");
            }
        }
        // Of no descriptor, of which the kernel says so if it looks at it.
        for (call, at) in SENDING {
            let mut arguments = [usize::MAX, 0, 0, 0, 0, 0];
            assert_eq!(error_of(call, &arguments), Some(libc::EBADF), "{call}");
            arguments[usize::from(at)] = (libc::MSG_FASTOPEN | libc::MSG_DONTWAIT) as usize;
            assert_eq!(error_of(call, &arguments), Some(libc::EPERM), "{call}");
        }
        for (call, whom) in SCHEDULING {
            let mut own = [0; 6];
            for (at, value) in whom {
                own[usize::from(*at)] = *value as usize;
            }
            // A niceness that everybody may have; of the others the kernel refuses zeros, or they
            // change nothing.
            if call == libc::SYS_setpriority {
                own[2] = 19;
            }
            assert_ne!(error_of(call, &own), Some(libc::EPERM), "{call}");
            for (at, _) in whom {
                let mut other = own;
                other[usize::from(*at)] = std::process::id() as usize;
                assert_eq!(error_of(call, &other), Some(libc::EPERM), "{call}");
            }
        }
        #[cfg(target_arch = "x86_64")]
        for call in [libc::SYS_getpid, 520, i64::from(X32) - 1] {
            assert_eq!(
                error_of(call | i64::from(X32), &[]),
                Some(libc::EPERM),
                "{call}"
            );
        }
        // What serving needs: threads, sockets, time.
        let thread = std::thread::spawn(|| std::net::UdpSocket::bind("127.0.0.1:0").map(drop));
        assert!(thread.join().expect("a thread").is_ok());
        assert!(crate::sys::netlink::open(libc::NETLINK_GENERIC).is_ok());
        assert!(sys::monotonic() > 0);
    }

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
