"""The format of a plan: a list of changes to a host, which are applied in order and reverted in the
opposite order.

The order is modules, queue disciplines, settings, routes, and files that make the changes
persistent. Queue disciplines come before the sysctl `net.core.default_qdisc`. A revert therefore
restores this sysctl before it lets the kernel attach its default again. docs/reference/tune.md
describes the JSON document.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from narrows import __version__, registry
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.tune import kernels, shaper
from narrows.tune.facts import Facts
from narrows.tune.findings import Path
from narrows.tune.model import ChangeJson, HostJson, LeftJson, NeedJson, PlanJson, State, Target

VERSION = 1


NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")


DEVICE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")


VALUE = re.compile(r"[a-z0-9_]+( [a-z0-9_]+)*")

SENTENCES = frozenset({"new", "interfaces", "connections", "smaller", "nothing"})
"""First words of titles that begin with a capital letter."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The options of `narrows tune plan`."""

    cc: str | None = None
    qdisc: str | None = None
    """A queue discipline, or `keep` for the present one. None means fq if the congestion control
    requires it for pacing, otherwise the present one."""
    devices: Sequence[str] = ()
    """Interfaces to which the queue discipline is limited; the default queue discipline is then not
    changed."""
    to: Sequence[str] = ()
    """Destinations to which the congestion control is limited; the default congestion control is
    then not changed."""
    ecn: str | None = None
    mtu_probing: bool = False
    path: Path = field(default_factory=Path)
    settings: Sequence[str] = ()
    """Sysctls, each as `key=value`."""
    sqm: str | None = None
    """On OpenWrt: the interface that sqm shapes to the rates `down_kbit` and `up_kbit`."""
    shape: str | None = None
    """The interface that is shaped to `down_kbit`, `up_kbit` or both, with `qdisc` or the best
    available queue discipline.
    """
    down_kbit: int | None = None
    up_kbit: int | None = None
    replace: bool = False
    install: bool = False
    netns: str | None = None


@dataclass(kw_only=True)
class Change:
    """One change of a plan; docs/reference/tune.md describes its keys.

    Attributes:
        kind: `sysctl`, `module`, `qdisc`, `route`, `file`, …
        phase: `live`, or `boot` for a file that is read when the host boots.
        target: The object of the change.
        before: The present value of the target; None if the target does not exist.
        after: The new value of the target.
        why: The reason.
        persist: The file that repeats the change after a reboot; None if there is none.
    """

    kind: str
    target: Target
    before: State
    after: State
    why: str
    phase: str = "live"
    persist: str | None = None

    @property
    def id(self) -> str:
        """The identifier of the change: its kind and the names of its target."""
        if isinstance(self.target, str):
            return f"{self.kind}:{self.target}"
        names = [v for k, v in self.target.items() if v != "main" and k != "ifb"]
        return ":".join([self.kind, *names])

    @classmethod
    def of(cls, row: ChangeJson) -> Change:
        """The change that an entry of a plan's JSON document describes."""
        return cls(
            kind=row["kind"],
            phase=row.get("phase", "live"),
            target=row["target"],
            before=row["from"],
            after=row["to"],
            why=row.get("why", ""),
            persist=row.get("persist"),
        )

    def json(self) -> ChangeJson:
        """The change in the document of a plan."""
        return {
            "id": self.id,
            "kind": self.kind,
            "phase": self.phase,
            "target": self.target,
            "from": self.before,
            "to": self.after,
            "why": self.why,
            "persist": self.persist,
        }


@dataclass(kw_only=True)
class Need:
    """Something that is missing on the host.

    Attributes:
        what: Kind of the requirement, such as `package`.
        name: Its name.
        command: The command that installs it; empty if there is none.
        why: The reason.
    """

    what: str
    name: str
    command: list[str]
    why: str

    @classmethod
    def of(cls, row: NeedJson) -> Need:
        """Reads a row of a document."""
        return cls(
            what=row.get("what", ""),
            name=row.get("name", ""),
            command=row["command"],
            why=row["why"],
        )

    def json(self) -> NeedJson:
        """The row in the document of a plan."""
        return {"what": self.what, "name": self.name, "command": self.command, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class Left:
    """Something that the plan does not change.

    Attributes:
        what: Its name.
        why: The reason.
        fix: A command that changes it; empty if there is none.
    """

    what: str
    why: str
    fix: str

    @classmethod
    def of(cls, row: LeftJson) -> Left:
        """Reads a row of a document."""
        return cls(what=row["what"], why=row["why"], fix=row["fix"])

    def json(self) -> LeftJson:
        """The row in the document of a plan."""
        return {"what": self.what, "why": self.why, "fix": self.fix}


@dataclass(kw_only=True)
class Plan:
    """A plan; docs/reference/tune.md describes its document.

    Attributes:
        title: The effects of the plan, as a sentence without its full stop.
        asked: The options with which the plan was made, by name.
        host: Name, kernel and system of the host.
        netns: Name of the network namespace; None for the host's own.
        changes: The changes, in the order of their application.
        needs: Requirements that are missing on the host; no change is possible without them.
        left: Settings that the plan does not change, with reasons.
        effects: Sentences about consequences of the changes.
        document: The document that the plan was read from; `narrows-host` receives it unchanged.
    """

    title: str
    asked: JsonObject
    host: HostJson
    netns: str | None
    changes: list[Change] = field(default_factory=list)
    needs: list[Need] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    document: PlanJson | None = None

    @classmethod
    def of(cls, document: PlanJson) -> Plan:
        """The plan that a JSON document describes; all keys except `changes` may be absent.

        >>> Plan.of({"changes": [], "able": False}).able
        False
        """
        return cls(
            title=document.get("title", "A plan"),
            asked=document.get("asked", {}),
            host=document.get("host") or cast("HostJson", {}),
            netns=document.get("netns"),
            changes=[Change.of(row) for row in document["changes"]],
            needs=[Need.of(row) for row in document.get("needs", [])],
            left=[Left.of(row) for row in document.get("left", [])],
            effects=document.get("effects", []),
            document=document,
        )

    @property
    def able(self) -> bool:
        """Whether the changes are possible: no requirement is missing."""
        return not self.needs if self.document is None else self.document.get("able") is not False

    def live(self) -> Plan:
        """The plan without the changes for the next boot."""
        document = self.json()
        rows = [row for row in document["changes"] if row.get("phase") == "live"]
        return Plan.of({**document, "changes": rows})

    def json(self) -> PlanJson:
        """The JSON document of the plan."""
        if self.document is not None:
            return self.document
        return {
            "narrows": __version__,
            "plan": VERSION,
            "title": self.title,
            "asked": self.asked,
            "host": self.host,
            "netns": self.netns,
            "able": not self.needs,
            "needs": [need.json() for need in self.needs],
            "changes": [change.json() for change in self.changes],
            "left": [left.json() for left in self.left],
            "effects": self.effects,
        }


def check(facts: Facts, ask: Ask) -> None:
    """Raises a `NarrowsError` if an option contains an invalid or unknown name, or if options
    cannot be combined or cannot apply to this host.
    """
    for option, name in (("--cc", ask.cc), ("--qdisc", ask.qdisc)):
        if name is not None and not NAME.fullmatch(name):
            raise NarrowsError(f"{option} {name!r}: a name has lower-case letters, digits and _")
    if ask.cc is not None and facts.has_cc(ask.cc) in {None, "missing"}:
        registry.check_cc(
            "--cc",
            ask.cc,
            list(dict.fromkeys([*registry.linux_ccs(), *facts.available])),
        )
    if ask.qdisc not in {None, "keep", *registry.qdiscs()}:
        assert ask.qdisc is not None
        if facts.has_module("sch_" + ask.qdisc) in {None, "missing"}:
            close = difflib.get_close_matches(ask.qdisc, sorted(registry.qdiscs()), 1)
            fix = f"; write --qdisc {close[0]}" if close else ", such as fq or fq_codel"
            raise NarrowsError(f"--qdisc {ask.qdisc}: not a queue discipline of Linux{fix}")
    for name in ask.devices:
        if not DEVICE.fullmatch(name):
            raise NarrowsError(f"--dev {name!r}: not a valid name of an interface")
        if facts.interfaces and facts.interface(name) is None:
            known = ", ".join(one.name for one in facts.interfaces if not one.loopback) or "none"
            raise NarrowsError(f"--dev {absent(name, known)}")
    if ask.to and ask.cc is None:
        raise NarrowsError(
            "--to: a destination needs a congestion control; write: --to PREFIX --cc bbr"
        )
    if ask.devices and ask.qdisc in {None, "keep"}:
        raise NarrowsError(
            "--dev: an interface needs a queue discipline; write: --dev eth0 --qdisc fq"
        )
    _check_shaper(facts, ask)
    if not (
        ask.shape
        or ask.sqm
        or ask.cc
        or ask.qdisc
        or ask.ecn
        or ask.mtu_probing
        or ask.settings
        or ask.path.bdp_bytes
    ):
        raise NarrowsError(
            "no change is requested; write, for instance: --cc bbr, --qdisc fq, or --rate 1Gbit "
            "--rtt 80ms"
        )
    if ask.cc and ask.netns and kernels.has(facts.kernel, "cc_netns") is False and not ask.to:
        raise NarrowsError(
            f"--netns {ask.netns}: namespaces share one default here; "
            f"{kernels.FEATURES['cc_netns'].told}; "
            "leave --netns out, or name destinations: --to 192.0.2.0/24"
        )


def absent(name: str, known: str) -> str:
    """The end of an error about an interface; `known` lists the interfaces of the host.

    >>> absent("eth9", "ens18")
    'eth9: this host has no interface eth9; its interfaces: ens18'
    """
    return f"{name}: this host has no interface {name}; its interfaces: {known or 'none'}"


def _check_shaper(facts: Facts, ask: Ask) -> None:
    if ask.shape is not None:
        known = [one.name for one in facts.interfaces if not one.loopback]
        there = ", ".join(known) or "none"
        asked = facts.interface(ask.shape)
        if asked is not None and asked.loopback:
            raise NarrowsError(
                f"--shape {ask.shape}: the loopback interface has no link to shape; there are: "
                f"{there}"
            )
        if not DEVICE.fullmatch(ask.shape) or (facts.interfaces and ask.shape not in known):
            raise NarrowsError(f"--shape {absent(ask.shape, there)}")
        if ask.sqm is not None or ask.devices:
            raise NarrowsError("--shape: its value is the interface; omit --sqm and --dev")
        if ask.up_kbit is None and ask.down_kbit is None:
            raise NarrowsError(
                f"--shape {ask.shape}: a rate is missing; write --up 18Mbit for outgoing traffic, "
                "--down 90Mbit for incoming traffic, or both"
            )
        if ask.qdisc is not None and ask.qdisc not in shaper.KINDS:
            raise NarrowsError(
                f"--qdisc {ask.qdisc}: a shaper has one of {', '.join(shaper.KINDS)}"
            )
        return
    if (ask.sqm is None) != (ask.down_kbit is None) or (ask.down_kbit is None) != (
        ask.up_kbit is None
    ):
        raise NarrowsError(
            "--sqm, --down and --up belong together: --sqm eth0 --down 90Mbit --up 18Mbit"
        )
    if ask.sqm is not None and not DEVICE.fullmatch(ask.sqm):
        raise NarrowsError(f"--sqm {ask.sqm!r}: this is not the name of an interface")
    if ask.sqm is not None and not facts.openwrt:
        raise NarrowsError(
            f"--sqm is for OpenWrt's shaper, and this is {facts.system}; cake-qos or sqm-scripts "
            "have others"
        )
