"""Handing a plan to what changes hosts, `narrows-host tune`, and saying what it did.

This process asks and explains; it never changes anything itself, and it needs no privilege that the
other does not.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from narrows.deferred import deferred
from narrows.errors import EngineError, NarrowsError, reason
from narrows.host.live import HOST, STOPPED

Json = dict[str, Any]

_WRONG = 2
_OTHERS_WRITE = 0o022
_LONGEST = 1 << 20


class RefusedError(NarrowsError):
    """It was not done, or it is not so; nothing is left half done.

    Attributes:
        code: The exit code that says which: 1 for what failed, 2 for a mistake of the caller's.
    """

    def __init__(self, message: str, code: int) -> None:
        """Keeps both."""
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the journal is, and of which network namespace."""

    netns: str | None = None
    state: str | None = None
    root: str | None = None

    def words(self) -> list[str]:
        """As options of `narrows-host tune`."""
        given = {"--netns": self.netns, "--state": self.state, "--root": self.root}
        return [
            word for name, value in given.items() if value is not None for word in (name, value)
        ]


def have(words: Sequence[str], place: Place, *, plan: Json | None = None) -> tuple[Json, bool]:
    """Has it done; answers what came of it, and whether that is a yes.

    Raises:
        RefusedError: If it was not done.
        EngineError: If the program is not there.
        KeyboardInterrupt: If a signal came before all of it was done: everything was put back. One
            that came later
            is not lost, and what was done is reported first where the caller reports it in
            `deferred`.
    """
    if not sys.platform.startswith("linux"):
        raise EngineError("changing a host needs Linux")
    command = [str(HOST), "tune", *words, *place.words()]
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    except OSError as error:
        raise EngineError(f"{HOST}: {reason(error)}; `make setup` builds it") from error
    given = "" if plan is None else json.dumps(plan)
    # It puts everything back before it ends, unless it has done all of it already.
    with child, deferred(child.terminate):
        out, said = child.communicate(given)
    if child.returncode in STOPPED:
        raise KeyboardInterrupt
    if not out.strip():
        raise RefusedError(
            said.strip() or f"narrows-host ended with {child.returncode}", child.returncode or 1
        )
    return json.loads(out), child.returncode == 0


def read(file: str) -> Json:
    """A plan from a file that nobody else could have written, or from stdin for `-`.

    Raises:
        NarrowsError: If it is none, or others may write to it.
    """
    if file == "-":
        text = sys.stdin.read(_LONGEST)
    else:
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise NarrowsError(f"{file}: {reason(error)}; links are not followed") from error
        with os.fdopen(fd, encoding="utf-8", errors="replace") as opened:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode):
                raise NarrowsError(f"{file}: is no file")
            if about.st_uid not in {0, os.geteuid()} or about.st_mode & _OTHERS_WRITE:
                raise NarrowsError(
                    f"{file}: others may write to it; chown root {file}; chmod go-w {file}"
                )
            text = opened.read(_LONGEST)
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise NarrowsError(f"{file}: is no plan: {error}") from error
    if not isinstance(plan, dict) or not isinstance(plan.get("changes"), list):
        raise NarrowsError(f"{file}: is no plan; `narrows tune plan --json` writes one")
    # What changes the host checks all of it; this is what a person is shown before.
    for change in plan["changes"]:
        if not isinstance(change, dict) or not {
            "kind",
            "phase",
            "target",
            "from",
            "to",
            "why",
        } <= set(change):
            raise NarrowsError(
                f"{file}: a change in it has no kind, phase, target, from, to or why"
            )
    return {"title": "A plan", "needs": [], "left": [], "effects": [], "netns": None} | plan


def live_only(plan: Json) -> Json:
    """The plan without what is written for the next boot."""
    return plan | {"changes": [c for c in plan["changes"] if c.get("phase") == "live"]}


def _value(value: Any) -> str:  # noqa: ANN401 - text, or a row per queue discipline
    return ", ".join(value) if isinstance(value, list) else str(value)


def applied_lines(done: Json) -> list[str]:
    """What was done, in a person's words.

    >>> applied_lines({"done": [], "already": ["a"], "nothing_to_do": True})
    ['Nothing to do: it is so already.']
    """
    left = [f"Left out: {row['id']}: {row['why']}." for row in done.get("left") or []]
    if done.get("nothing_to_do"):
        return ["Nothing to do: it is so already.", *left]
    # The kernel's own doing is told by the change that caused it.
    rows = [row for row in done["done"] if not row["id"].startswith("allowed:")]
    told = [f"{row['id']}: was {_value(row['before'])}, is {_value(row['after'])}" for row in rows]
    told += [f"{name}: is so already" for name in done.get("already") or []]
    told += left
    told += _proof(done)
    told += _still(done)
    told += [f"Careful: {text}." for text in done.get("overridden") or []]
    within = done.get("unconfirmed_s")
    if within:
        told += [
            f"Nothing is written for the next boot yet, and all of it is undone in {within:g} s, "
            "also if this session "
            f"ends, unless you say: {done['confirm']}"
        ]
    if done.get("revert"):
        told.append(f"To undo it: {done['revert']}")
    return told


def _proof(done: Json) -> list[str]:
    proof = done.get("proof")
    if not proof:
        return []
    by = (
        " and in the kernel's list of connections"
        if proof["listed"]
        else "; the loopback is down, so only by its socket"
    )
    text = f"Proved: a new connection uses {proof['cc']}, by its own socket{by}"
    if proof["module_users"] is not None:
        text += f"; {proof['module_users']} use the module {proof['module']}"
    return [f"{text}."]


def _still(done: Json) -> list[str]:
    if not done.get("proof"):
        return []
    told = []
    for row in done.get("still") or []:
        one = row["connections"] == 1
        who = (
            ", ".join(p["program"] for p in row["programs"])
            or "the kernel, or programs that are not yours to see"
        )
        told.append(
            f"{row['connections']} connection{'' if one else 's'} that began before "
            f"keep{'s' if one else ''} "
            f"{row['cc']} until {'it ends' if one else 'they end'}: {who}."
        )
    told.append(
        "Neither `sysctl -p` nor a reboot is needed: the kernel has the values now. Services need "
        "no restart for new "
        "connections, since a listener hands each the default of the moment, unless it chose one "
        "itself."
    )
    return told


def reverted_lines(done: Json) -> list[str]:
    """What was undone.

    >>> reverted_lines({"reverted": ["sysctl:a"], "notes": []})
    ['sysctl:a: as it was', 'Everything is as it was.']
    """
    if done.get("nothing_to_do"):
        return ["Nothing to do: nothing was applied here."]
    told = [f"{name}: as it was" for name in done["reverted"] if not name.startswith("allowed:")]
    notes = list(done["notes"])
    told += [f"Note: {note}." for note in notes] or ["Everything is as it was."]
    for row in done.get("elsewhere") or []:
        told.append(
            f"Still applied in {row['namespace']}: {row['title']}. To undo it: {row['revert']}"
        )
    return told


def confirmed_lines(done: Json) -> list[str]:
    """What is kept."""
    told = [f"{row['id']}: is {_value(row['after'])}" for row in done["done"]]
    told += [f"Careful: {text}." for text in done.get("overridden") or []]
    return [
        *told,
        "Confirmed: it stays, after a reboot, too." if done["done"] else "Confirmed: it stays.",
    ]
