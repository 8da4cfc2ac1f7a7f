"""Passes a plan to the program `narrows-host tune`, which changes the host, and renders its report.

This process never changes the host itself and needs no privileges for its own work.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from narrows import operating_system
from narrows.deferred import deferred
from narrows.errors import EngineError, NarrowsError, reason
from narrows.host.live import HOST, STOPPED
from narrows.json_object import JsonObject
from narrows.tune.diff import lines
from narrows.tune.model import AppliedJson, ConfirmedJson, PlanJson, RevertedJson, State
from narrows.tune.plan import Plan

_OTHERS_WRITE = 0o022
_LONGEST = 1 << 20


class RefusedError(NarrowsError):
    """The operation or the check failed; no change was left half done.

    Attributes:
        code: Exit code of the command: 1 for a failure, 2 for a wrong call.
    """

    def __init__(self, message: str, code: int) -> None:
        """Creates the error with its message and exit code."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where an operation acts: the network namespace, the directory of the records that revert
    uses, and a prefix of all paths.
    """

    netns: str | None = None
    state: str | None = None
    root: str | None = None

    def words(self) -> list[str]:
        """The place as options of `narrows-host tune`."""
        given = {"--netns": self.netns, "--state": self.state, "--root": self.root}
        return [
            word for name, value in given.items() if value is not None for word in (name, value)
        ]


def have(
    words: Sequence[str], place: Place, *, plan: PlanJson | None = None
) -> tuple[Any, bool]:  # the result of a command; `model` has its type
    """Runs `narrows-host tune` and returns its JSON result and whether its exit code was 0.

    Raises:
        RefusedError: If the program printed no result, because the operation was not done.
        EngineError: If the program is missing.
        KeyboardInterrupt: If a signal arrived before the operation was complete; all changes were
            then reverted. A later signal is deferred. A caller that reports inside `deferred`
            therefore prints the result first.
    """
    operating_system.require_linux("narrows tune")
    command = [str(HOST), "tune", *words, *place.words()]
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    except OSError as error:
        raise EngineError(
            f"{HOST}: {reason(error)}; reinstall narrows, or run make setup in a checkout"
        ) from error
    given = "" if plan is None else json.dumps(plan)
    # On SIGTERM the program reverts everything before it ends, unless it has finished.
    with child, deferred(child.terminate):
        out, said = child.communicate(given)
    if child.returncode in STOPPED:
        raise KeyboardInterrupt
    if not out.strip():
        raise RefusedError(
            said.strip() or f"narrows-host ended with {child.returncode}", child.returncode or 1
        )
    return json.loads(out), child.returncode == 0


def read(file: str) -> Plan:
    """Reads a plan from a file that only its owner can write, or from stdin for `-`.

    Raises:
        NarrowsError: If the file is not a plan, or if other users may write to it.
    """
    if file == "-":
        text = sys.stdin.read(_LONGEST)
    else:
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NarrowsError(f"{file}: {reason(error)}; symbolic links are rejected") from error
        with os.fdopen(fd, encoding="utf-8", errors="replace") as opened:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise NarrowsError(f"{file}: not a regular file")
            if about.st_uid not in {0, os.geteuid()} or about.st_mode & _OTHERS_WRITE:
                raise NarrowsError(
                    f"{file}: other users may write to it\n"
                    f"    write: chown root {file}; chmod go-w {file}"
                )
            text = opened.read(_LONGEST)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NarrowsError(f"{file}: not a plan: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("changes"), list):
        raise NarrowsError(f"{file}: not a plan; `narrows tune plan --json` writes one")
    # narrows-host checks the whole plan. These keys are checked here, because they are printed
    # before.
    for change in document["changes"]:
        if not isinstance(change, dict) or not {
            "kind",
            "phase",
            "target",
            "from",
            "to",
            "why",
        } <= set(change):
            raise NarrowsError(f"{file}: a change lacks kind, phase, target, from, to or why")
    whole: JsonObject = {
        "title": "A plan",
        "needs": [],
        "left": [],
        "effects": [],
        "netns": None,
    } | document
    try:
        plan = Plan.of(cast("PlanJson", whole))
        "\n".join(lines(plan))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise NarrowsError(
            f"{file}: a part of the plan has another form than `narrows tune plan --json` writes"
        ) from error
    return plan


def _value(value: State) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def applied_lines(done: AppliedJson) -> list[str]:
    """The applied changes as lines of text.

    >>> applied_lines({"done": [], "already": ["a"], "nothing_to_do": True})
    ['Nothing to do: the host already has these settings.']
    """
    left = [f"Left out: {row['id']}: {row['why']}." for row in done.get("left") or []]
    if done.get("nothing_to_do"):
        return ["Nothing to do: the host already has these settings.", *left]
    # Rows `allowed:` are side effects in the kernel, which the change that caused them reports.
    rows = [row for row in done["done"] if not row["id"].startswith("allowed:")]
    told = [
        f"{row['id']}: changed from {_value(row['before'])} to {_value(row['after'])}"
        for row in rows
    ]
    told += [f"{name}: already set" for name in done.get("already") or []]
    told += left
    told += _proof(done)
    told += _still(done)
    told += [f"Warning: {text}." for text in done.get("overridden") or []]
    within = done.get("unconfirmed_s")
    if within:
        told += [
            f"The changes are reverted in {within:g} s unless you run: {done['confirm']}",
            "Nothing is written for the next boot before the confirmation.",
        ]
    if done.get("revert"):
        told.append(f"To revert the changes: {done['revert']}")
    return told


def _proof(done: AppliedJson) -> list[str]:
    proof = done.get("proof")
    if not proof:
        return []
    by = (
        " and by the connection list of the kernel"
        if proof["listed"]
        else "; the loopback interface is down, so the connection list was not checked"
    )
    text = f"Checked: a new connection uses {proof['cc']}, as shown by its socket{by}"
    if proof["module_users"] is not None:
        text += f"; the module {proof['module']} has {proof['module_users']} users"
    return [f"{text}."]


def _still(done: AppliedJson) -> list[str]:
    if not done.get("proof"):
        return []
    told = []
    for row in done.get("still") or []:
        one = row["connections"] == 1
        who = (
            ", ".join(p["program"] for p in row["programs"])
            or "the kernel, or programs that you may not see"
        )
        told.append(
            f"{row['connections']} existing connection{'' if one else 's'} "
            f"keep{'s' if one else ''} {row['cc']} until {'it ends' if one else 'they end'}: {who}."
        )
    told.append(
        "The kernel uses the new values now; neither `sysctl -p` nor a reboot is needed. New "
        "connections of running services use the new default, unless a service selects its own "
        "congestion control."
    )
    return told


def reverted_lines(done: RevertedJson) -> list[str]:
    """The reverted changes as lines of text.

    >>> reverted_lines({"reverted": ["sysctl:a"], "notes": []})
    ['sysctl:a: restored', 'All previous settings are restored.']
    """
    if done.get("nothing_to_do"):
        return ["Nothing to do: no changes are applied here."]
    told = [f"{name}: restored" for name in done["reverted"] if not name.startswith("allowed:")]
    notes = list(done["notes"])
    told += [f"Note: {note}." for note in notes] or ["All previous settings are restored."]
    for row in done.get("elsewhere") or []:
        told.append(
            f"Still applied in {row['namespace']}: {row['title']}. To revert it: {row['revert']}"
        )
    return told


def confirmed_lines(done: ConfirmedJson) -> list[str]:
    """The confirmed changes as lines of text."""
    told = [f"{row['id']}: is {_value(row['after'])}" for row in done["done"]]
    told += [f"Warning: {text}." for text in done.get("overridden") or []]
    return [
        *told,
        "Confirmed: the changes stay, also after a reboot."
        if done["done"]
        else "Confirmed: the changes stay.",
    ]
