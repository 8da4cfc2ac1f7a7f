"""Features of Linux releases, kernels of distributions, and packages of newer kernels.

The source of a feature is the subject of the commit that introduced it in Linux. A distribution may
backport a feature, so that the release does not prove its absence. Findings prefer facts of the
host itself, if they are visible.
"""

from __future__ import annotations

from dataclasses import dataclass

Release = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A feature that a release of Linux introduced."""

    name: str
    since: Release
    what: str
    source: str

    @property
    def told(self) -> str:
        """Release and commit as text."""
        return f'Linux {self.since[0]}.{self.since[1]}, commit "{self.source}"'


def _feature(name: str, since: Release, what: str, source: str) -> tuple[str, Feature]:
    return name, Feature(name=name, since=since, what=what, source=source)


FEATURES: dict[str, Feature] = dict(
    [
        _feature(
            "bql",
            (3, 3),
            "byte queue limits (BQL): limit the queue of a driver in bytes",
            "dql: Dynamic queue limits",
        ),
        _feature("fq_codel", (3, 5), "queue discipline fq_codel", "fq_codel: Fair Queue Codel AQM"),
        _feature(
            "tsq",
            (3, 6),
            "TCP small queues (TSQ): limit the data of a socket below TCP",
            "tcp: TCP Small Queues",
        ),
        _feature(
            "fq",
            (3, 12),
            "queue discipline fq, with pacing",
            "pkt_sched: fq: Fair Queue packet scheduler",
        ),
        _feature(
            "default_qdisc",
            (3, 12),
            "sysctl net.core.default_qdisc",
            "qdisc: allow setting default queuing discipline",
        ),
        _feature(
            "congctl",
            (4, 0),
            "congestion control per route",
            "net: tcp: add per route congestion control",
        ),
        _feature(
            "ecn_fallback",
            (4, 2),
            "ECN fallback, which connects without ECN where its negotiation fails",
            "tcp: add rfc3168, section 6.1.1.1. fallback",
        ),
        _feature("bbr", (4, 9), "BBR", "tcp_bbr: add BBR congestion control"),
        _feature(
            "wifi_fq",
            (4, 10),
            "FQ-CoDel inside mac80211 instead of a qdisc, for drivers that use it",
            "mac80211: Move reorder-sensitive TX handlers to after TXQ dequeue",
        ),
        _feature(
            "pacing",
            (4, 13),
            "TCP-internal pacing where fq is not used",
            "tcp: internal implementation for pacing",
        ),
        _feature(
            "cc_netns",
            (4, 15),
            "default congestion control per network namespace",
            "tcp: Namespace-ify sysctl_tcp_default_congestion_control",
        ),
        _feature(
            "buffers_netns",
            (4, 15),
            "tcp_rmem and tcp_wmem per network namespace",
            "tcp: Namespace-ify sysctl_tcp_rmem and sysctl_tcp_wmem",
        ),
        _feature(
            "cake",
            (4, 19),
            "queue discipline cake",
            "sched: Add Common Applications Kept Enhanced (cake) qdisc",
        ),
        _feature(
            "edt",
            (4, 20),
            "pacing by earliest departure times, which is exact with and without fq",
            "tcp: switch tcp and sch_fq to new earliest departure time model",
        ),
        _feature(
            "bbr_aggregation",
            (5, 1),
            "compensation for ACK aggregation, as on Wi-Fi, in BBR",
            "tcp_bbr: adapt cwnd based on ack aggregation estimation",
        ),
        _feature(
            "airtime",
            (5, 1),
            "airtime fairness in mac80211 for drivers that use it",
            "mac80211: Add TXQ scheduling API",
        ),
        _feature(
            "aql",
            (5, 5),
            "airtime queue limits (AQL), which limit the hardware queue of a Wi-Fi card in time",
            "mac80211: Implement Airtime-based Queue Limit (AQL)",
        ),
        _feature(
            "fq_pie",
            (5, 6),
            "queue discipline fq_pie",
            "net: sched: add Flow Queue PIE packet scheduler",
        ),
        _feature(
            "addfd",
            (5, 9),
            "seccomp notifications that pass a socket to the notified process",
            "seccomp: Introduce addfd ioctl to seccomp user notifier",
        ),
    ]
)
"""Features by name; the descriptions are for users."""


def has(release: Release | None, feature: str) -> bool | None:
    """Whether a release is at least the one that introduced a feature; None if the release is
    unknown.

    >>> has((4, 9), "bbr"), has((4, 9), "pacing"), has(None, "bbr")
    (True, False, None)
    """
    return None if release is None else release >= FEATURES[feature].since


def own_timers(release: Release | None, cc: str) -> list[str]:
    """The note of a plan about releases whose TCP paces with one timer per connection.

    Such a release does not need fq, but fq takes less processor time.

    >>> own_timers((5, 4), "bbr"), len(own_timers((4, 15), "bbr"))
    ([], 1)
    """
    if not has(release, "pacing") or has(release, "edt"):
        return []
    return [
        f"{cc} needs no fq on this kernel: TCP paces itself, with a timer for each connection "
        f"({FEATURES['pacing'].told}). With fq, these timers are not needed, which saves CPU time. "
        "To use it, add --qdisc fq."
    ]


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """The kernel of a distribution release, and the package of a newer kernel."""

    distribution: str
    version: str
    kernel: Release
    package: str | None
    """The package of a newer kernel; `{arch}` is Debian's name of the architecture."""
    newer: Release | None
    manager: str
    command: str
    """The command that installs the package; `{package}` stands for its name."""
    needs: str | None = None
    """A condition that must hold before the command can install the package."""


def _ubuntu(version: str, kernel: Release, newer: Release | None) -> Shipped:
    return Shipped(
        distribution="ubuntu",
        version=version,
        kernel=kernel,
        newer=newer,
        package=None if newer is None else f"linux-generic-hwe-{version}",
        manager="apt",
        command="apt-get install --install-recommends {package}",
    )


def _debian(version: str, name: str, kernel: Release, newer: Release | None) -> Shipped:
    return Shipped(
        distribution="debian",
        version=version,
        kernel=kernel,
        newer=newer,
        package=None if newer is None else "linux-image-{arch}",
        manager="apt",
        command="apt-get install -t " + name + "-backports {package}",
        needs=f"{name}-backports in the sources of apt",
    )


def _openwrt(version: str, kernel: Release) -> Shipped:
    return Shipped(
        distribution="openwrt",
        version=version,
        kernel=kernel,
        newer=None,
        package=None,
        manager="opkg",
        command="opkg install {package}",
    )


SHIPPED = (
    _ubuntu("14.04", (3, 13), None),
    _ubuntu("16.04", (4, 4), (4, 15)),
    _ubuntu("18.04", (4, 15), (5, 4)),
    _ubuntu("20.04", (5, 4), (5, 15)),
    _ubuntu("22.04", (5, 15), (6, 8)),
    _ubuntu("24.04", (6, 8), (6, 11)),
    _debian("8", "jessie", (3, 16), (4, 9)),
    _debian("9", "stretch", (4, 9), (4, 19)),
    _debian("10", "buster", (4, 19), (5, 10)),
    _debian("11", "bullseye", (5, 10), (6, 1)),
    _debian("12", "bookworm", (6, 1), (6, 12)),
    _debian("13", "trixie", (6, 12), None),
    _openwrt("18.06", (4, 14)),
    _openwrt("19.07", (4, 14)),
    _openwrt("21.02", (5, 4)),
    _openwrt("22.03", (5, 10)),
    _openwrt("23.05", (5, 15)),
    _openwrt("24.10", (6, 6)),
)
"""Distribution releases: the kernel of each, and the oldest kernel that its package of a newer
kernel has had.
"""

_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "armv7l": "armmp",
    "i686": "686",
    "ppc64le": "powerpc64le",
    "riscv64": "riscv64",
}


def shipped(distribution: str, version: str) -> Shipped | None:
    """The entry of a distribution release; a point release (24.10.2) has the entry of its release
    (24.10). None if unknown.
    """
    for each in SHIPPED:
        if each.distribution == distribution and (
            version == each.version or version.startswith(each.version + ".")
        ):
            return each
    return None


@dataclass(frozen=True, kw_only=True)
class Cure:
    """A package that would add a missing feature, and the command that installs it."""

    name: str
    command: list[str]
    why: str


def newer_kernel(
    distribution: str, version: str, machine: str | None, since: Release
) -> Cure | None:
    """The package of a kernel that is at least `since`; None if no such package is known.

    >>> newer_kernel("ubuntu", "16.04", "x86_64", (4, 9)).name
    'linux-generic-hwe-16.04'
    >>> newer_kernel("debian", "8", "aarch64", (4, 9)).command
    ['apt-get', 'install', '-t', 'jessie-backports', 'linux-image-arm64']
    """
    found = shipped(distribution, version)
    if found is None or found.package is None or found.newer is None or found.newer < since:
        return None
    package = found.package.format(arch=_ARCHITECTURES.get(machine or "", "amd64"))
    why = f"it contains Linux {found.newer[0]}.{found.newer[1]} or newer"
    if found.needs:
        why += f"; it requires {found.needs}"
    return Cure(name=package, command=found.command.format(package=package).split(), why=why)


def module_package(
    distribution: str, module: str, release: str, *, apk: bool = False
) -> Cure | None:
    """The package that contains a missing module for the running kernel; None if no such package is
    known.

    >>> module_package("openwrt", "tcp_bbr", "5.15.134").command
    ['opkg', 'install', 'kmod-tcp-bbr']
    >>> module_package("ubuntu", "sch_cake", "5.15.0-91-generic").name
    'linux-modules-extra-5.15.0-91-generic'
    """
    if distribution == "openwrt":
        name = (
            "kmod-" + module.replace("_", "-")
            if module.startswith("tcp_")
            else _OPENWRT_QDISCS.get(module)
        )
        if name is None:
            return None
        tool = ["apk", "add"] if apk else ["opkg", "install"]
        why = f"the package {name} contains {module}"
        if module == "tcp_bbr":
            why += " and makes BBR the default in /etc/sysctl.d/12-tcp-bbr.conf"
        return Cure(name=name, command=[*tool, name], why=why)
    if distribution == "ubuntu":
        name = f"linux-modules-extra-{release}"
        return Cure(
            name=name,
            command=["apt-get", "install", name],
            why=f"the package {name} contains {module}",
        )
    if distribution in {"rhel", "centos", "rocky", "almalinux", "fedora"}:
        name = f"kernel-modules-extra-{release}"
        why = f"the package {name} contains {module}"
        return Cure(name=name, command=["dnf", "install", name], why=why)
    return None


_OPENWRT_QDISCS = {
    "sch_cake": "kmod-sched-cake",
    "sch_fq": "kmod-sched",
    "sch_htb": "kmod-sched-core",
    "sch_fq_pie": "kmod-sched-fq-pie",
}
"""Packages of qdisc modules of OpenWrt; fq_codel is missing, because it is built into the kernels
of OpenWrt."""
