"""The types of the JSON of audits and plans, and of the results of `narrows-host tune`.

docs/reference/tune.md describes each key. `apply.read` checks the form of a plan that a user
passes; `narrows-host` then checks it completely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from narrows.json_object import JsonObject

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.compare.model import DifferenceJson

Target = str | dict[str, str]
"""The target of a change: a name, or the keys that identify an interface, a queue discipline or a
route."""

State = Any
"""The state of a target: text, the words of a route, or an object; None if the target does not
exist. A queue discipline has a `QdiscJson`, and a file a `FileJson`.
"""


class HostJson(TypedDict):
    """The host of an audit or of a plan."""

    name: str
    kernel: str
    system: str


class AuditJson(TypedDict):
    """An audit; the keys of a finding are those of `Finding`."""

    narrows: str
    audit: int
    host: HostJson
    verdict: str
    counts: dict[str, int]
    findings: list[dict[str, str]]


class NeedJson(TypedDict):
    """A requirement that is missing on the host, and the command that installs it. The command is
    empty if there is none.
    """

    what: NotRequired[str]
    name: NotRequired[str]
    command: list[str]
    why: str


ChangeJson = TypedDict(
    "ChangeJson",
    {
        "id": "NotRequired[str]",
        "kind": str,
        "phase": "NotRequired[str]",
        "target": Target,
        "from": State,
        "to": State,
        "why": "NotRequired[str]",
        "persist": "NotRequired[str | None]",
    },
)
"""A change of a plan."""


class LeftJson(TypedDict):
    """A setting that the plan does not change, with the reason."""

    what: str
    why: str
    fix: str


class PlanJson(TypedDict):
    """A plan; a document that a user writes requires only the key `changes`."""

    narrows: NotRequired[str]
    plan: NotRequired[int]
    title: NotRequired[str]
    asked: NotRequired[JsonObject]
    host: NotRequired[HostJson]
    netns: NotRequired[str | None]
    able: NotRequired[bool]
    needs: NotRequired[list[NeedJson]]
    changes: list[ChangeJson]
    left: NotRequired[list[LeftJson]]
    effects: NotRequired[list[str]]


class QdiscJson(TypedDict):
    """The state of a queue discipline."""

    kind: str
    handle: str | None
    options: dict[str, str]


class FileJson(TypedDict):
    """The state of a file: its text and its mode, such as `0644`."""

    text: str
    mode: str


class DoneJson(TypedDict):
    """A change that was made: the states before and after it."""

    id: str
    before: State
    after: State


class LeftOutJson(TypedDict):
    """A change that was left out, because this network namespace does not allow it."""

    id: str
    why: str


class ConnectionProofJson(TypedDict):
    """The check of the congestion control of a new connection, and the number of users of its
    kernel module.
    """

    cc: str
    listed: bool
    module: str | None
    module_users: int | None


class ProgramJson(TypedDict):
    """A program with open connections."""

    program: str


class StillJson(TypedDict):
    """Open connections that keep another congestion control, and their programs."""

    cc: str
    connections: int
    programs: list[ProgramJson]


class AppliedJson(TypedDict):
    """The result of `apply`."""

    done: list[DoneJson]
    already: list[str]
    nothing_to_do: NotRequired[bool]
    left: NotRequired[list[LeftOutJson]]
    proof: NotRequired[ConnectionProofJson | None]
    still: NotRequired[list[StillJson]]
    overridden: NotRequired[list[str]]
    unconfirmed_s: NotRequired[float | None]
    confirm: NotRequired[str | None]
    revert: NotRequired[str | None]


class ConfirmedJson(TypedDict):
    """The result of `confirm`."""

    done: list[DoneJson]
    overridden: NotRequired[list[str]]


class ElsewhereJson(TypedDict):
    """A plan whose changes are in effect in another network namespace, and the command that reverts
    it.
    """

    title: str
    namespace: str
    revert: str


class RevertedJson(TypedDict):
    """The result of `revert`."""

    reverted: list[str]
    notes: list[str]
    nothing_to_do: NotRequired[bool]
    elsewhere: NotRequired[list[ElsewhereJson]]


DriftedJson = TypedDict("DriftedJson", {"id": str, "is": State, "fix": str})
"""A setting that is no longer in effect: its present value and the command that corrects it."""


class WatcherJson(TypedDict):
    """A process that reverts changes that are not confirmed in time, and its state."""

    pid: int
    state: str


class VerifiedJson(TypedDict):
    """The result of `verify`."""

    so: bool
    right: list[str]
    drifted: list[DriftedJson]
    overridden: list[str]
    new_connection: str | None
    unconfirmed: bool
    title: str
    made: str
    watched: NotRequired[bool | None]
    remaining_s: NotRequired[float | None]
    watchers: NotRequired[list[WatcherJson]]
    booted: NotRequired[bool]
    confirm: NotRequired[str]
    revert: NotRequired[str]


class ProofJson(TypedDict):
    """The result of `prove`, without the information whether the change was kept."""

    direction: str
    verdict: str
    rounds: int
    moved_bytes: int
    ended: str | None
    figures: dict[str, DifferenceJson]
