"""The format of a plan: a list of changes to a host, which are applied in order and reverted in the
opposite order.

The order is modules, queue disciplines, settings, routes, and files that make the changes
persistent. Queue disciplines come before the sysctl `net.core.default_qdisc`. A revert therefore
restores this sysctl before it lets the kernel attach its default again. docs/reference/tune.md
describes the JSON document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from narrows.json_object import JsonObject
from narrows.tune.findings import Path
from narrows.tune.model import ChangeJson, HostJson, LeftJson, NeedJson, PlanJson, State, Target

NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")


DEVICE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")


VALUE = re.compile(r"[a-z0-9_]+( [a-z0-9_]+)*")


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
    changes: list[Change]
    needs: list[Need]
    left: list[Left]
    effects: list[str]
    document: PlanJson

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
        return self.document.get("able") is not False

    def live(self) -> Plan:
        """The plan without the changes for the next boot."""
        document = self.json()
        rows = [row for row in document["changes"] if row.get("phase") == "live"]
        return Plan.of({**document, "changes": rows})

    def json(self) -> PlanJson:
        """The JSON document of the plan."""
        return self.document
