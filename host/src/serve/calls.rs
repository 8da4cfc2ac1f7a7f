//! The filters of system calls of a server ([`confine`](super::confine)).
//!
//! The calls of `REFUSED` fail with EPERM. So do calls that create namespaces, sockets other than
//! UDP and netlink, data that opens a TCP connection, and schedules of other processes. Calls of
//! the x32 ABI fail, too. `clone3` fails with ENOSYS: it takes its flags from memory, which a
//! filter cannot read. The C library then falls back to `clone`, whose flags can be compared. The
//! server itself needs none of these calls, with one exception. With `--xdp` it reads the counters
//! of its XDP program by `bpf`, which then stays permitted.
//!
//! No more stream sockets can be created; all listeners are open by then. Landlock's rule for TCP
//! ports covers neither TCP Fast Open, which connects by a call that sends, nor Multipath TCP.
//! Calls that send fail with the flag `MSG_FASTOPEN`. With this flag, they could open a connection
//! on the socket of an accepted connection after it is disconnected.
//!
//! `seccompiler` supports little-endian processors only. On others no filter is installed, and the
//! server reports that.
//!
//! Sources: seccomp(2), clone(2), socket(2), tcp(7), sched(7), ioprio_set(2) (Linux man-pages 6.9).

use crate::sys;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Families of sockets that may still be opened: IPv4 and IPv6 for clients, and netlink for cached
/// TCP metrics.
const FAMILIES: [libc::c_int; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

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

/// `kexec_file_load` of asm/unistd.h; `libc` has it only for some architectures.
const KEXEC_FILE_LOAD: libc::c_long = if cfg!(target_arch = "x86_64") {
    320
} else if cfg!(target_arch = "arm") {
    401
} else {
    294
};

/// `migrate_pages` of asm/unistd.h; `libc` lacks it for ARM.
#[cfg(target_arch = "arm")]
const MIGRATE_PAGES: libc::c_long = 400;
#[cfg(not(target_arch = "arm"))]
const MIGRATE_PAGES: libc::c_long = libc::SYS_migrate_pages;

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
    KEXEC_FILE_LOAD,
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
    MIGRATE_PAGES,
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
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The calls that fail with EPERM. A call without rules always fails; a call with rules fails if
/// one of them matches.
fn refused(bpf: bool) -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED
        .iter()
        .chain(REFUSED_HERE)
        .filter(|call| !(bpf && **call == libc::SYS_bpf))
        .map(|call| (sys::wide(*call), Vec::new()))
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
    rules.insert(
        sys::wide(libc::SYS_clone),
        namespaces.collect::<Result<_, _>>()?,
    );
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
    rules.insert(sys::wide(libc::SYS_socket), sockets);
    for (call, whom) in SCHEDULING {
        let others = whom
            .iter()
            .map(|(at, own)| SeccompRule::new(vec![when(*at, SeccompCmpOp::Ne, *own)?]));
        rules.insert(sys::wide(call), others.collect::<Result<_, _>>()?);
    }
    for (call, flags) in SENDING {
        rules.insert(
            sys::wide(call),
            vec![SeccompRule::new(vec![has(flags, libc::MSG_FASTOPEN)?])?],
        );
    }
    Ok(rules)
}

/// A filter program that refuses all calls of the x32 ABI. Their numbers occur in no rule, and
/// `seccompiler` compares call numbers only for equality.
#[cfg(target_arch = "x86_64")]
fn no_x32() -> BpfProgram {
    let step = |code: u32, jt, jf, k| seccompiler::sock_filter {
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

/// Installs the filters for all threads. Returns `false` if `seccompiler` does not support the
/// processor.
pub fn confine_calls(bpf: bool) -> Result<bool, seccompiler::Error> {
    let Ok(machine) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(false);
    };
    let refused = refused(bpf).map_err(seccompiler::Error::Backend)?;
    let missing: Rules = BTreeMap::from([(sys::wide(libc::SYS_clone3), Vec::new())]);
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
            let name = "serve::calls::tests::refused_calls_fail_and_others_work";
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
}
