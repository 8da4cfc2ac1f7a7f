//! What a far end gives up once its sockets are open: being root, files, programs, and the calls of the kernel that a
//! server never needs.
//!
//! | what | how | without it |
//! |---|---|---|
//! | root | the user and group 65534 (nobody), with the capabilities of [`KEPT`] alone, and `CAP_BPF` with `--xdp`; no new privileges | started by a user: nothing to give up |
//! | files | Landlock: `/proc` and `/sys` may be read, nothing may be written or executed; no TCP port may be opened | kernels before 5.13 |
//! | calls | seccomp: those of [`REFUSED`] fail with EPERM | processors that `seccompiler` does not know |
//!
//! A peer that takes over the process can then answer wrongly, send packets and, where root started it, change the network
//! (`CAP_NET_ADMIN`), but it can neither read the host's files nor start a program. Start the server as a user to keep
//! nothing.
//!
//! Sources: capabilities(7), landlock(7), seccomp(2) (Linux man-pages 6.9).

use crate::{sys, HostError};
use caps::{CapSet, Capability};
use landlock::{
    path_beneath_rules, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, ABI,
};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
use std::collections::{BTreeMap, HashSet};
use std::io;

/// Capabilities that a far end of root keeps: for a congestion control that only root may choose and for forgetting a
/// destination (`CAP_NET_ADMIN`), for the scheduling policy of the threads that answer (`CAP_SYS_NICE`, `CAP_IPC_LOCK`),
/// and for the sockets of single clients at a port below 1024 (`CAP_NET_BIND_SERVICE`).
pub const KEPT: [Capability; 4] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_SYS_NICE,
    Capability::CAP_IPC_LOCK,
    Capability::CAP_NET_BIND_SERVICE,
];

/// The newest version of Landlock whose rules are used; an older kernel applies those that it has.
const LANDLOCK: ABI = ABI::V5;

/// Directories that are read while serving: congestion controls, clocks, devices.
const READ: [&str; 2] = ["/proc", "/sys"];

/// Calls that start programs, look into other processes, change what is mounted or which namespace this is, load code
/// into the kernel, or open other ways to the same.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
];

/// What was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// The process was root and is not any more.
    pub root: bool,
    /// Files and TCP ports are out of reach.
    pub files: bool,
    /// Some calls are refused.
    pub calls: bool,
}

impl Confined {
    /// What could not be given up, as a message; `None` where everything was.
    pub fn kept(self) -> Option<String> {
        let parts = [
            (self.root || sys::ids().0 != 0, "root's privileges"),
            (self.files, "access to files (Landlock is not available)"),
            (self.calls, "all system calls (no seccomp filter could be installed)"),
        ];
        let kept: Vec<&str> = parts
            .into_iter()
            .filter(|(gone, _)| !gone)
            .map(|(_, what)| what)
            .collect();
        (!kept.is_empty()).then(|| format!("the process keeps {}", kept.join(", ")))
    }
}

fn failed(doing: &'static str, error: impl std::fmt::Display) -> HostError {
    HostError::Failed(doing, io::Error::other(error.to_string()))
}

/// Gives up what serving does not need. Threads that exist already keep their files; start them afterwards. `bpf`: counters
/// of a program in the kernel are read while serving, so `bpf(2)` and `CAP_BPF` stay.
pub fn confine(bpf: bool) -> Result<Confined, HostError> {
    let root = leave_root(bpf)?;
    sys::no_new_privileges().map_err(HostError::failed("giving up new privileges"))?;
    // A kernel, a container or a unit may refuse either: the server says so and serves.
    Ok(Confined {
        root,
        files: confine_files().unwrap_or(false),
        calls: confine_calls(bpf).unwrap_or(false),
    })
}

fn leave_root(bpf: bool) -> Result<bool, HostError> {
    if sys::ids().0 != 0 {
        return Ok(false);
    }
    let doing = "leaving root";
    let wrong = |error: caps::errors::CapsError| failed(doing, error);
    let had = caps::read(None, CapSet::Permitted).map_err(wrong)?;
    let kept: HashSet<Capability> = KEPT
        .into_iter()
        .chain(bpf.then_some(Capability::CAP_BPF))
        .filter(|one| had.contains(one))
        .collect();
    caps::securebits::set_keepcaps(true).map_err(wrong)?;
    match sys::become_nobody() {
        Ok(()) => {}
        // A user namespace may have no such user: root there is nobody outside of it.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EPERM)) => return Ok(false),
        Err(error) => return Err(HostError::Failed(doing, error)),
    }
    caps::set(None, CapSet::Effective, &kept).map_err(wrong)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(wrong)?;
    caps::securebits::set_keepcaps(false).map_err(wrong)?;
    Ok(true)
}

fn confine_files() -> Result<bool, landlock::RulesetError> {
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(READ, AccessFs::from_read(LANDLOCK))))
        .and_then(|ruleset| ruleset.restrict_self())?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

fn confine_calls(bpf: bool) -> Result<bool, seccompiler::Error> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(false);
    };
    #[allow(clippy::unnecessary_cast)] // Numbers of calls have 32 bits on some processors.
    let rules: BTreeMap<i64, Vec<_>> = REFUSED
        .iter()
        .filter(|call| !(bpf && **call == libc::SYS_bpf))
        .map(|call| (*call as i64, Vec::new()))
        .collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine).map_err(seccompiler::Error::Backend)?;
    let program: seccompiler::BpfProgram = filter.try_into().map_err(seccompiler::Error::Backend)?;
    seccompiler::apply_filter_all_threads(&program)?;
    Ok(true)
}
