"""The configuration of the kernel, and the changes that narrows makes to its source.

The configuration starts from `make allnoconfig`, so that everything without an entry here is off.
The configuration has no modules and no drivers of devices, which makes the build short. `REQUIRED`
options must be in effect after the configuration; `OPTIONAL` ones exist in some releases only.

The changes concern the machine and the TUN driver, not the network:

- The configuration cannot set the tick rate of `ARCH=um`; it becomes `HZ`, the default of
scenarios.
- Random numbers of the machine, which come from the host, are replaced by a stream that depends
only on the seed. Initial sequence numbers, hash seeds and the drops of an AQM are therefore the
same in each run. The command line, which contains the name of a temporary folder, no longer
contributes to random numbers.
- A TUN device with the flag `IFF_ONE_QUEUE` accepts one packet per read. The emulator is then the
  network card behind a queue discipline (host/src/sys/gate.rs).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HZ = 1000
"""Timer interrupts per second; the default of scenarios."""

LOCALVERSION = "-narrows"
"""End of the release name of the kernel."""

_SYSTEM = """
64BIT EXPERT PRINTK BUG UML_TIME_TRAVEL_SUPPORT HIGH_RES_TIMERS NO_HZ_IDLE PREEMPT_VOLUNTARY
BINFMT_ELF BINFMT_SCRIPT POSIX_TIMERS FUTEX EPOLL SIGNALFD TIMERFD EVENTFD SHMEM ADVISE_SYSCALLS
MEMBARRIER MULTIUSER FILE_LOCKING SYSVIPC INOTIFY_USER SYSFS PROC_FS SYSCTL TMPFS TMPFS_XATTR
DEVTMPFS HOSTFS OVERLAY_FS UNIX98_PTYS NAMESPACES UTS_NS IPC_NS USER_NS PID_NS NET_NS
STDERR_CONSOLE NULL_CHAN
"""
_NETWORK = """
NET PACKET UNIX INET IPV6 IP_ADVANCED_ROUTER IP_MULTIPLE_TABLES SYN_COOKIES INET_DIAG INET_TCP_DIAG
NETDEVICES NET_CORE DUMMY IFB TUN VETH
"""
_CCS = """
BIC CUBIC WESTWOOD HTCP HSTCP HYBLA VEGAS NV SCALABLE LP VENO YEAH ILLINOIS DCTCP CDG BBR
"""
_QUEUES = """
HTB HFSC PRIO MULTIQ RED SFB SFQ TBF ETF GRED NETEM DRR SKBPRIO CHOKE QFQ CODEL FQ_CODEL CAKE FQ
HHF PIE FQ_PIE INGRESS ETS
"""
_CLASSIFIERS = """
CLS_BASIC CLS_FLOW CLS_FW CLS_U32 CLS_MATCHALL CLS_ACT ACT_POLICE ACT_GACT ACT_MIRRED
"""


def _named(prefix: str, words: str) -> list[str]:
    return [f"CONFIG_{prefix}{word}=y" for word in words.split()]


REQUIRED: tuple[str, ...] = (
    f'CONFIG_LOCALVERSION="{LOCALVERSION}"',
    *_named("", _SYSTEM),
    'CONFIG_CON_ZERO_CHAN="null,fd:1"',
    'CONFIG_CON_CHAN="null"',
    'CONFIG_SSL_CHAN="null"',
    *_named("", _NETWORK),
    "CONFIG_TCP_CONG_ADVANCED=y",
    *_named("TCP_CONG_", _CCS),
    "CONFIG_DEFAULT_CUBIC=y",
    "CONFIG_NET_SCHED=y",
    *_named("NET_SCH_", _QUEUES),
    *_named("NET_", _CLASSIFIERS),
)
"""Options that must be in effect after the configuration."""

OPTIONAL: tuple[str, ...] = (
    "CONFIG_PROC_SYSCTL=y",
    "CONFIG_NET_SCH_DUALPI2=y",
    "CONFIG_INIT_STACK_NONE=y",
)
"""Options that some releases do not have."""

NEWER = frozenset({"CONFIG_PREEMPT_VOLUNTARY=y"})
"""Required options that user-mode Linux does not have in old releases, such as 6.1. These releases
never preempt the kernel.
"""

BEFORE_5_14 = ("CONFIG_BLOCK=y",)
"""Options of releases before 5.14, which need block devices to mount the root file system."""


def text(release: str) -> str:
    """The configuration of a release as a file for `KCONFIG_ALLCONFIG`."""
    old = BEFORE_5_14 if tuple(map(int, release.split(".")[:2])) < (5, 14) else ()
    lines = ("# CONFIG_LOCALVERSION_AUTO is not set", *REQUIRED, *OPTIONAL, *old)
    return "".join(f"{line}\n" for line in lines)


def missing(config: str) -> list[str]:
    """The required options that are not in effect in `config`, the `.config` of a kernel.

    >>> missing("CONFIG_NET=y")[:2]
    ['CONFIG_LOCALVERSION', 'CONFIG_64BIT']
    """
    lines = frozenset(config.splitlines())
    absent = NEWER if "CONFIG_ARCH_NO_PREEMPT=y" in lines else frozenset()
    wanted = (*REQUIRED, f"CONFIG_HZ={HZ}")
    return [line.partition("=")[0] for line in wanted if line not in lines | absent]


@dataclass(frozen=True)
class Change:
    """A change of one file of the source.

    Attributes:
        file: The file.
        old: A regular expression that matches once.
        new: The replacement.
        why: The effect, for an error message.
        older: The changes with the same effect in releases in which `old` does not match.
    """

    file: str
    old: str
    new: str
    why: str
    older: tuple[Change, ...] = ()

    def text(self) -> str:
        """The change and those of older releases, for the hash of the configuration."""
        return "\n".join((self.file, self.old, self.new, *(one.text() for one in self.older)))

    def apply(self, text: str) -> str | None:
        """The changed text; None if the pattern does not match exactly once."""
        changed, count = re.subn(self.old, lambda found: found.expand(self.new), text)
        return changed if count == 1 else None


_RANDOM = r"""
	static unsigned long long state;
	static int seeded;
	unsigned char *to = buf;
	size_t i;

	if (!seeded) {
		const char *seed = getenv("NARROWS_SEED");

		state = seed ? strtoull(seed, 0, 10) : 0;
		seeded = 1;
	}
	for (i = 0; i < len; i++) {
		unsigned long long z = state += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		to[i] = z ^ (z >> 31);
	}
	return len;
}
"""
"""SplitMix64 (Steele, Lea and Flood 2014), one byte of each number."""

_HARDWARE = r"""static inline bool __must_check arch_get_random_long(unsigned long *v)
{
	ssize_t os_getrandom(void *buf, size_t len, unsigned int flags);

	return os_getrandom(v, sizeof(*v), 0) == sizeof(*v);
}
"""
"""The random numbers of the machine in releases whose user-mode Linux has none."""

_GATE_CLOSES = r"""	if (tun->flags & IFF_ONE_QUEUE)
		netif_tx_stop_queue(queue);
\g<0>"""
"""Stops the queue of a TUN device with the flag `IFF_ONE_QUEUE` after each packet; this flag has no
other effect.
"""

_GATE_OPENS = r"""		if ((tun->flags & IFF_ONE_QUEUE) && ptr_ring_empty(&tfile->tx_ring)) {
			local_bh_disable();
			netif_tx_wake_queue(netdev_get_tx_queue(tun->dev, 0));
			local_bh_enable();
		}
\g<0>"""
"""Wakes the queue of such a device when it is read, which requests the next packet from the queue
discipline.
"""

CHANGES: tuple[Change, ...] = (
    Change(
        "arch/um/Kconfig",
        r"(?m)(^config HZ\n(?:.+\n)*?\s+default )\d+",
        rf"\g<1>{HZ}",
        "the tick rate",
    ),
    Change(
        "arch/um/os-Linux/util.c",
        r"(ssize_t os_getrandom\([^)]*\)\s*\{)[^}]*\}\n",
        rf"\1{_RANDOM}",
        "random numbers from the seed",
        (
            Change(
                "arch/um/os-Linux/util.c",
                r"(?m)^void stack_protections\(",
                f"ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)\n{{{_RANDOM}\n"
                r"\g<0>",
                "random numbers from the seed",
            ),
            Change(
                "include/linux/random.h",
                r"static inline bool __must_check arch_get_random_long\(unsigned long \*v\) .*\n",
                _HARDWARE,
                "random numbers from the seed",
            ),
        ),
    ),
    Change(
        "drivers/char/random.c",
        r"\t_mix_pool_bytes\(command_line, strlen\(command_line\)\);\n",
        "",
        "random numbers that do not depend on the command line",
    ),
    Change(
        "drivers/net/tun.c",
        r"\t(?:txq_trans_cond_update\(queue\)|queue->trans_start = jiffies);\n",
        _GATE_CLOSES,
        "the end of a transmission",
    ),
    Change(
        "drivers/net/tun.c",
        r"\t\t/\* Read frames from ring \*/\n",
        _GATE_OPENS,
        "the request for a packet",
    ),
)
"""The changes of narrows to the source."""
