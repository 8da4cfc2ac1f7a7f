"""The facts about a host and its network configuration, read from the text that `collect.sh`
prints.

The text has sections, which begin with `@ NAME WORDS`. Each line of a section follows a `|`, and
lines of files have the form `path:line`. A missing value is `None` or empty and never guessed. A
finding about it reports that the value is not visible.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from narrows.errors import NarrowsError

VERSION = 1
"""Version of the format of the collector's text."""

BBR_RELEASE = (4, 9)

_NOT_CC = {
    "ts",
    "sack",
    "ecn",
    "ecnseen",
    "fastopen",
    "accecn",
    "syn_ack_data",
    "app_limited",
    "cong_control",
}
_MODULE = re.compile(r"(?:^|/)((?:tcp|sch|cls|act)_[a-z0-9_]+|ifb)\.ko")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
_ETHERNET, _LOOPBACK, _IEEE80211 = 1, 772, 801


@dataclass(kw_only=True)
class Qdisc:
    """One queue discipline of an interface, as tc prints it."""

    kind: str
    handle: str
    dev: str
    parent: str
    """`root`, `ingress`, or the handle of the class to which the queue discipline is attached."""
    words: list[str] = field(default_factory=list)
    """The options of the queue discipline, as tc prints them."""
    dropped: int | None = None
    overlimits: int | None = None

    @property
    def attached_by_kernel(self) -> bool:
        """Whether the kernel attached the queue discipline by default; it then has the handle
        `0:`.
        """
        return self.handle == "0:"


@dataclass(kw_only=True)
class Interface:
    """A network interface."""

    name: str
    index: int | None = None
    mtu: int | None = None
    state: str = "unknown"
    speed_mbit: int | None = None
    kind: int | None = None
    """`ARPHRD_…`: 1 is Ethernet, 772 loopback."""
    address: str | None = None
    driver: str | None = None
    devtype: str | None = None
    hardware: bool = False
    wireless: bool = False
    bridge: bool = False
    queues: int = 0
    tx_queue_len: int | None = None
    tx_bytes: int | None = None
    bql_limits: list[int] = field(default_factory=list)
    """Current byte queue limit of each transmit queue that has one, in bytes."""
    qdiscs: list[Qdisc] = field(default_factory=list)
    offloads: dict[str, str] = field(default_factory=dict)
    """Values of `ethtool -k`: `on`, `off`, `off [fixed]`."""
    ring_tx: int | None = None
    coalesce: dict[str, str] = field(default_factory=dict)
    link: list[str] = field(default_factory=list)
    """Lines of `iw dev NAME link`."""
    about: list[str] = field(default_factory=list)
    """Lines of `iw dev NAME info`."""

    @property
    def loopback(self) -> bool:
        """Whether this is the loopback interface."""
        return self.kind == _LOOPBACK or self.name == "lo"

    @property
    def up(self) -> bool:
        """Whether the interface can carry traffic: its state is `up`, or `unknown` as for
        tunnels.
        """
        return self.state in {"up", "unknown"}

    @property
    def root(self) -> Qdisc | None:
        """The root qdisc of the interface, if tc printed it."""
        return next((q for q in self.qdiscs if q.parent == "root"), None)

    @property
    def leaves(self) -> list[Qdisc]:
        """The queue disciplines in which packets wait: those under mq or mqprio, otherwise the
        root.
        """
        root = self.root
        if root is None:
            return []
        if root.kind in {"mq", "mqprio"}:
            return [
                q
                for q in self.qdiscs
                if q.parent not in {"root", "ingress"} and q.kind != "ingress"
            ]
        return [root]


@dataclass(kw_only=True)
class Line:
    """A line with a sysctl in a file that is read at boot."""

    file: str
    key: str
    value: str
    text: str


@dataclass(kw_only=True)
class Space:
    """Another network namespace, with its default congestion control and the number of its
    connections by congestion control.
    """

    number: str
    pid: str
    cc: str | None
    sockets: dict[str, int]


@dataclass(kw_only=True)
class Facts:
    """The facts about a host that the collector found.

    If the collector read a directory tree, it called no programs.
    """

    uid: int | None = None
    machine: str | None = None
    release: str = ""
    hostname: str = ""
    boot_id: str | None = None
    os: dict[str, str] = field(default_factory=dict)
    openwrt: dict[str, str] = field(default_factory=dict)
    there: set[str] = field(default_factory=set)
    writes_sysctl: bool = False
    netns: str | None = None
    """The network namespace: `initial`, `container` (that of a container) or `other` (not that of
    the host whose files were read). None if it is not visible."""
    cgroup: list[str] = field(default_factory=list)
    container: str | None = None
    virtual: str | None = None
    """Output of systemd-detect-virt."""
    vendor: str | None = None
    product: str | None = None
    cpu: list[str] = field(default_factory=list)
    governors: list[str] = field(default_factory=list)
    sysctl: dict[str, str] = field(default_factory=dict)
    loaded: list[str] = field(default_factory=list)
    loadable: list[str] = field(default_factory=list)
    builtin: list[str] = field(default_factory=list)
    modules_seen: bool = False
    """Whether the modules of this kernel are known, from a directory or from lists of modules."""
    config: dict[str, str] = field(default_factory=dict)
    config_file: str | None = None
    boot: list[Line] = field(default_factory=list)
    """Lines of sysctl files, in the order in which they were collected. `boot_order` sorts them by
    their effect."""
    boot_files: dict[str, list[str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    boot_modules: list[tuple[str, str]] = field(default_factory=list)
    networkd: dict[str, list[str]] = field(default_factory=dict)
    network_files: list[str] = field(default_factory=list)
    """Texts with the index of an interface and the file with which networkd configures it."""
    own: dict[str, str] = field(default_factory=dict)
    """Files that narrows wrote before: content by path."""
    sqm: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)
    interfaces: list[Interface] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    """Names of the interfaces of this network namespace. /sys may show the interfaces of another
    one."""
    routes: list[tuple[str, str]] = field(default_factory=list)
    """Address family and line of each route that `ip route` printed."""
    sockets: dict[str, int] = field(default_factory=dict)
    spaces: list[Space] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    debug: dict[str, list[str]] = field(default_factory=dict)
    phys: list[str] = field(default_factory=list)
    lacks: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    """The names of the programs that the collector called."""

    @property
    def kernel(self) -> tuple[int, int] | None:
        """The major and minor number of the kernel release; None if unknown."""
        return release(self.release)

    @property
    def system(self) -> str:
        """The name of the operating system, as shown to users."""
        if self.openwrt:
            return f"OpenWrt {self.openwrt.get('DISTRIB_RELEASE', '')}".strip()
        return self.os.get("PRETTY_NAME") or self.os.get("NAME") or "an unknown system"

    @property
    def distribution(self) -> tuple[str, str]:
        """The id and version of the distribution, such as `("ubuntu", "16.04")`."""
        if self.openwrt:
            return "openwrt", self.openwrt.get("DISTRIB_RELEASE", "")
        return self.os.get("ID", ""), self.os.get("VERSION_ID", "")

    def value(self, key: str) -> str | None:
        """The value of a sysctl, by its key with dots; None if unknown."""
        return self.sysctl.get(key)

    def numbers(self, key: str) -> list[int]:
        """The numbers in the value of a sysctl; empty if it is unknown."""
        words = (self.value(key) or "").split()
        return [number for word in words if (number := _number(word)) is not None]

    @property
    def locked(self) -> bool:
        """Whether sysctls are read-only even for root. It is False if another user ran the
        collector, because only root can test this.
        """
        return not self.writes_sysctl and self.uid in {None, 0}

    def interface(self, name: str) -> Interface | None:
        """The interface with this name; None if there is none."""
        return next((each for each in self.interfaces if each.name == name), None)

    @property
    def forwards(self) -> bool:
        """Whether the host forwards IPv4 or IPv6 packets."""
        return (
            self.value("net.ipv4.ip_forward") == "1"
            or self.value("net.ipv6.conf.all.forwarding") == "1"
        )

    @property
    def default_cc(self) -> str | None:
        """The default congestion control of new connections."""
        return self.value("net.ipv4.tcp_congestion_control")

    @property
    def available(self) -> list[str]:
        """The congestion controls that are built in or loaded now."""
        return (self.value("net.ipv4.tcp_available_congestion_control") or "").split()

    def has_module(self, module: str) -> str | None:
        """The state of a kernel module: `builtin`, `loaded`, `loadable` or `missing`; None if
        unknown.
        """
        if module in self.builtin or self.config.get(option(module)) == "y":
            return "builtin"
        if module in self.loaded:
            return "loaded"
        if module in self.loadable:
            return "loadable"
        return "missing" if self.modules_seen or self.config else None

    def has_cc(self, name: str) -> str | None:
        """The state of a congestion control, as `has_module` returns it. One that the kernel lists
        as available is never `missing` or unknown.
        """
        where = self.has_module("tcp_" + name)
        if name == "reno" or name in self.available:
            return (
                where
                if where in {"builtin", "loaded"}
                else "builtin"
                if where in {None, "missing"}
                else "loaded"
            )
        return where

    def boot_order(self) -> list[Line]:
        """The lines of sysctl files in the order in which they take effect at boot. Of several
        lines with the same key, the last one is effective.

        systemd-sysctl and `sysctl --system` of procps sort files by name, whatever their folder. A
        file in `/etc` hides files with the same name in `/run` and `/usr/lib`. `/etc/sysctl.conf`
        has the place of a link to it in `sysctl.d` (Debian until 12, Ubuntu), and is otherwise read
        last, as by OpenWrt and `sysctl --system`.
        """
        hidden: set[tuple[str, str]] = set()
        folders = [
            "etc/sysctl.d",
            "run/sysctl.d",
            "usr/local/lib/sysctl.d",
            "usr/lib/sysctl.d",
            "lib/sysctl.d",
        ]
        seen: dict[str, str] = {}
        for folder in folders:
            for name in self.boot_files.get(folder, []):
                if name.endswith(".conf"):
                    if name in seen:
                        hidden.add((folder, name))
                    seen.setdefault(name, folder)
        linked = any(target.endswith("sysctl.conf") for target in self.links.values())
        lines = []
        for at, line in enumerate(self.boot):
            folder, _, name = line.file.rpartition("/")
            if (folder, name) in hidden:
                continue
            if line.file == "etc/sysctl.conf":
                if linked:
                    continue  # It comes again under the name of the link.
                lines.append(("\uffff", at, line))
            else:
                lines.append((name, at, line))
        return [line for _, _, line in sorted(lines, key=lambda each: each[:2])]

    def decided(self, key: str) -> Line | None:
        """The line that determines the value of a sysctl at boot; None if there is none."""
        found = [line for line in self.boot_order() if line.key == key]
        return found[-1] if found else None


_OPTIONS = {"tcp": "TCP_CONG", "sch": "NET_SCH", "cls": "NET_CLS", "act": "NET_ACT"}


def option(module: str) -> str:
    """The option of a module in the kernel configuration.

    >>> option("sch_fq"), option("act_mirred"), option("ifb")
    ('CONFIG_NET_SCH_FQ', 'CONFIG_NET_ACT_MIRRED', 'CONFIG_IFB')
    """
    kind, _, name = module.partition("_")
    return "_".join(["CONFIG", _OPTIONS.get(kind, kind.upper()), *([name.upper()] if name else [])])


def release(text: str) -> tuple[int, int] | None:
    """The major and minor number of a kernel release; None if the text has none.

    >>> release("6.1.0-13-amd64"), release("4.9"), release("odd")
    ((6, 1), (4, 9), None)
    """
    found = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", text)
    return (int(found[1]), int(found[2])) if found else None


def _number(text: str) -> int | None:
    """A whole number of at most 19 digits; None for other texts, because the kernel prints no
    longer numbers.
    """
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None


@dataclass
class _Section:
    words: list[str]
    lines: list[str] = field(default_factory=list)


def _sections(text: str, name: str) -> list[_Section]:
    sections: list[_Section] = []
    for each in text.splitlines():
        # Control characters are replaced, because the text of an untrusted host is printed later.
        line = _CONTROL.sub("?", each)
        if line.startswith("@ ") and line[2:].split():
            sections.append(_Section(line[2:].split()))
        elif line.startswith("|") and sections:
            sections[-1].lines.append(line[1:].rstrip())
    if not sections or sections[0].words[:1] != ["collector"]:
        raise NarrowsError(
            f"{name}: not the output of the script that `narrows tune audit --collector` prints"
        )
    if sections[0].words[1:] != [str(VERSION)]:
        raise NarrowsError(f"{name}: the collector's version is not {VERSION}; collect it anew")
    if sections[-1].words != ["end"]:
        raise NarrowsError(f"{name}: the collector's text ends in the middle; collect it anew")
    return sections


def _by_path(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        path, colon, value = line.partition(":")
        if colon:
            yield path, value


def parse(text: str, name: str = "the collector's text") -> Facts:
    """Parses the collector's text.

    Raises:
        NarrowsError: If the text is something else, is incomplete, or has another version.
    """
    facts = Facts()
    for section in _sections(text, name):
        what, words = section.words[0], section.words[1:]
        reader = _READERS.get(what)
        if reader is not None:
            reader(facts, words, section.lines)
    return facts


def _who(facts: Facts, _words: list[str], lines: list[str]) -> None:
    for line in lines:
        key, _, value = line.partition(" ")
        if key == "uid":
            facts.uid = _number(value)
        elif key == "netns":
            facts.netns = value if value in {"initial", "container", "other"} else None
        elif key == "machine":
            facts.machine = value
        elif key == "there":
            facts.there.add(value)
        elif line == "writes sysctl":
            facts.writes_sysctl = True


def _files(facts: Facts, words: list[str], lines: list[str]) -> None:
    reader = _FILES.get(words[0] if words else "")
    if reader is not None:
        reader(facts, list(_by_path(lines)))


Rows = list[tuple[str, str]]


def _assigned(value: str) -> tuple[str, str]:
    key, _, text = value.partition("=")
    return key, text.strip("\"'")


def _system(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        if path.endswith("osrelease"):
            facts.release = value
        elif path.endswith("hostname"):
            facts.hostname = value
        elif path.endswith("boot_id"):
            facts.boot_id = value
        elif path.endswith("os-release"):
            key, text = _assigned(value)
            facts.os[key] = text
        elif path.endswith("openwrt_release"):
            key, text = _assigned(value)
            facts.openwrt[key] = text
        elif path.endswith("cgroup"):
            facts.cgroup.append(value)
        elif path.endswith("systemd/container"):
            facts.container = value


def _machine(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        if path.endswith("scaling_governor"):
            facts.governors.append(value)
        elif path.endswith("sys_vendor"):
            facts.vendor = value
        elif path.endswith("product_name"):
            facts.product = value


def _cpu(facts: Facts, rows: Rows) -> None:
    facts.cpu = [value for _, value in rows]


def _modules(where: str) -> Callable[[Facts, Rows], None]:
    def read(facts: Facts, rows: Rows) -> None:
        found = getattr(facts, where)
        for path, value in rows:
            # A line of modules.dep is `path: dependencies`. The dependencies have lines of their
            # own.
            text = path if where == "loaded" and not value else value.partition(":")[0]
            module = _MODULE.search(text) if where != "loaded" else re.match(r"([a-z0-9_]+)", value)
            if module:
                found.append(module[1].replace("-", "_"))
        if rows and where != "loaded":
            facts.modules_seen = True

    return read


def _config(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        facts.config_file = "/" + path
        _option_of(facts, value)


def _option_of(facts: Facts, line: str) -> None:
    found = re.match(r"(CONFIG_\w+)=(.*)", line)
    if found:
        facts.config[found[1]] = found[2].strip('"')
    else:
        off = re.match(r"# (CONFIG_\w+) is not set", line)
        if off:
            facts.config[off[1]] = "n"


def _sysctl(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        facts.sysctl[path.replace("/", ".")] = " ".join(value.split())


def _boot(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        found = re.match(r"\s*-?\s*([\w./*-]+?)\s*=\s*(.*?)\s*$", value)
        if found:
            key = found[1].replace("/", ".")
            facts.boot.append(
                Line(file=path, key=key, value=" ".join(found[2].split()), text=value.strip())
            )


def _boot_modules(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        word = value.split()
        if word and not value.lstrip().startswith(("#", ";")):
            facts.boot_modules.append((path, word[0]))


def _networkd(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        facts.networkd.setdefault(path, []).append(value.strip())


def _links(facts: Facts, rows: Rows) -> None:
    facts.network_files = [
        f"{path.rpartition('/')[2]} {value.partition('=')[2]}" for path, value in rows
    ]


def _debug(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        facts.debug.setdefault(path, []).append(value)


def _devices(facts: Facts, rows: Rows) -> None:
    facts.devices = [value.partition(":")[0].strip() for _, value in rows if ":" in value]


def _own(facts: Facts, rows: Rows) -> None:
    for path, value in rows:
        facts.own["/" + path] = facts.own.get("/" + path, "") + value + "\n"


def _sqm(facts: Facts, rows: Rows) -> None:
    facts.sqm = [value for _, value in rows]


def _packages(facts: Facts, rows: Rows) -> None:
    facts.packages = [value.partition(":")[2].strip() for _, value in rows]


_FILES: dict[str, Callable[[Facts, Rows], None]] = {
    "system": _system,
    "machine": _machine,
    "cpu": _cpu,
    "loaded": _modules("loaded"),
    "loadable": _modules("loadable"),
    "builtin": _modules("builtin"),
    "config": _config,
    "sysctl": _sysctl,
    "boot": _boot,
    "modules": _boot_modules,
    "networkd": _networkd,
    "links": _links,
    "sqm": _sqm,
    "packages": _packages,
    "wireless": _debug,
    "devices": _devices,
    "own": _own,
}


def _plain_config(facts: Facts, words: list[str], lines: list[str]) -> None:
    facts.config_file = words[0] if words else None
    for line in lines:
        _option_of(facts, line)


def _list(facts: Facts, words: list[str], lines: list[str]) -> None:
    if words and words[0] == "/run/netns":
        facts.namespaces = lines
    elif words:
        facts.boot_files[words[0]] = lines


def _link(facts: Facts, words: list[str], _lines: list[str]) -> None:
    if len(words) > 1:
        facts.links[words[0]] = words[1]


def _module(facts: Facts, words: list[str], _lines: list[str]) -> None:
    found = _MODULE.search(words[0]) if words else None
    if found:
        facts.loadable.append(found[1])
        facts.modules_seen = True


def _interface(facts: Facts, words: list[str], lines: list[str]) -> None:
    # The name of an interface may contain any characters except white space, `/` and `:`.
    one = Interface(name=words[0] if words else "")
    for line in lines:
        path, colon, value = line.partition(":")
        if not colon:
            one.hardware |= line == "device"
            one.wireless |= line == "wireless"
            one.bridge |= line == "bridge"
            one.queues += line.startswith("queue ")
            continue
        _attribute(one, path.removeprefix(f"sys/class/net/{one.name}/"), value)
    facts.interfaces.append(one)


def _attribute(one: Interface, what: str, value: str) -> None:
    number = _number(value)
    if what == "operstate":
        one.state = value
    elif what == "address":
        one.address = value
    elif what == "speed":
        one.speed_mbit = number if number is not None and number > 0 else None
    elif what == "mtu":
        one.mtu = number
    elif what == "ifindex":
        one.index = number
    elif what == "type":
        one.kind = number
    elif what == "tx_queue_len":
        one.tx_queue_len = number
    elif what == "statistics/tx_bytes":
        one.tx_bytes = number
    elif what == "device/uevent" and value.startswith("DRIVER="):
        one.driver = value.removeprefix("DRIVER=")
    elif what == "uevent" and value.startswith("DEVTYPE="):
        one.devtype = value.removeprefix("DEVTYPE=")
    elif what.endswith("byte_queue_limits/limit") and number is not None:
        one.bql_limits.append(number)


def _say(facts: Facts, words: list[str], lines: list[str]) -> None:
    facts.said.update(words[:1])
    if words[:1] == ["tc"]:
        _here(facts)
        _qdiscs(facts, lines)
    elif words[:2] == ["ip", "-o"]:
        family = "inet6" if "-6" in words else "inet"
        facts.routes += [(family, line.strip()) for line in lines if line.strip()]
    elif words[:1] == ["ethtool"] and len(words) == 3:  # noqa: PLR2004 - ethtool -k NAME
        one = facts.interface(words[2])
        if one is not None:
            _ethtool(one, words[1], lines)
    elif words[:2] == ["iw", "dev"] and len(words) == 4:  # noqa: PLR2004 - iw dev NAME link
        one = facts.interface(words[2])
        if one is not None:
            setattr(
                one, "link" if words[3] == "link" else "about", [line.strip() for line in lines]
            )
    elif words[:2] == ["iw", "phy"]:
        facts.phys += [line.strip() for line in lines]
    elif words[:1] == ["systemd-detect-virt"]:
        facts.virtual = lines[0] if lines else None


def _here(facts: Facts) -> None:
    """Removes interfaces of other network namespaces, and adds those that /sys does not show."""
    if facts.devices:
        seen = {one.name for one in facts.interfaces}
        facts.interfaces = [one for one in facts.interfaces if one.name in facts.devices]
        facts.interfaces += [Interface(name=name) for name in facts.devices if name not in seen]


def _qdiscs(facts: Facts, lines: list[str]) -> None:
    last: Qdisc | None = None
    for line in lines:
        words = line.split()
        # qdisc KIND HANDLE dev NAME ...
        if words[:1] == ["qdisc"] and words[3:4] == ["dev"] and words[4:]:
            rest = words[5:]
            parent = "root"
            if rest[:1] == ["parent"] and len(rest) > 1:
                parent, rest = rest[1], rest[2:]
            elif rest[:1] == ["root"]:
                rest = rest[1:]
            elif rest[:1] == ["ingress"] or words[1] in {"ingress", "clsact"}:
                parent = "ingress"
            if rest[:1] == ["refcnt"]:
                rest = rest[2:]
            last = Qdisc(kind=words[1], handle=words[2], dev=words[4], parent=parent, words=rest)
            one = facts.interface(last.dev.partition("@")[0])
            if one is not None:
                one.qdiscs.append(last)
        elif last is not None and line.lstrip().startswith("Sent "):
            told = re.search(r"dropped ([0-9]{1,19}), overlimits ([0-9]{1,19})", line)
            if told:
                last.dropped, last.overlimits = int(told[1]), int(told[2])


def _ethtool(one: Interface, what: str, lines: list[str]) -> None:
    current = False
    for line in lines:
        key, _, value = line.strip().partition(":")
        value = value.strip()
        if what == "-i" and key == "driver" and not one.driver:
            one.driver = value
        elif what == "-k" and value:
            one.offloads[key] = value
        elif what == "-g":
            current |= key.startswith("Current hardware")
            if current and key == "TX" and _number(value) is not None:
                one.ring_tx = _number(value)
        elif what == "-c" and value:
            one.coalesce[key] = value


def cc_of(line: str) -> str | None:
    """The congestion control in a line of `ss -ti`: the last word that is not a known flag, before
    the first word with a colon.

    >>> cc_of(" ts sack ecn cubic wscale:7,7 rto:204"), cc_of(" bbr wscale:7,7")
    ('cubic', 'bbr')
    >>> cc_of(" rto:204 cwnd:10")
    """
    found = None
    for word in line.split():
        if ":" in word:
            break
        if word not in _NOT_CC:
            found = word
    return found


def _counted(lines: list[str]) -> dict[str, int]:
    return dict(Counter(cc for line in lines if (cc := cc_of(line)) is not None).most_common())


def _sockets(facts: Facts, _words: list[str], lines: list[str]) -> None:
    facts.said.add("ss")
    facts.sockets = _counted(lines)


def _space(facts: Facts, words: list[str], lines: list[str]) -> None:
    if len(words) > 1:
        cc = lines[0] if lines and re.fullmatch(r"[a-z0-9_]+", lines[0]) else None
        facts.spaces.append(
            Space(number=words[0], pid=words[1], cc=cc, sockets=_counted(lines[1:]))
        )


def _lacks(facts: Facts, words: list[str], _lines: list[str]) -> None:
    facts.lacks.update(words[:1])


def _modules_there(facts: Facts, _words: list[str], _lines: list[str]) -> None:
    facts.modules_seen = True


_READERS: dict[str, Callable[[Facts, list[str], list[str]], None]] = {
    "who": _who,
    "files": _files,
    "config": _plain_config,
    "list": _list,
    "link": _link,
    "module": _module,
    "modules": _modules_there,
    "interface": _interface,
    "says": _say,
    "sockets": _sockets,
    "space": _space,
    "lacks": _lacks,
}
