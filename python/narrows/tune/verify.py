"""Verifies that applied changes are still in effect, for users and for monitoring systems."""

from __future__ import annotations

from narrows.tune.apply import Place, have
from narrows.tune.model import VerifiedJson


def verify(place: Place) -> VerifiedJson:
    """Checks whether the applied changes are still in effect.

    Raises:
        RefusedError: If nothing was applied here.
    """
    found: VerifiedJson = have(["verify"], place)[0]
    return found


def verified_lines(found: VerifiedJson) -> list[str]:
    r"""The result of a verification as lines of text, the verdict first.

    >>> row = {"id": "sysctl:net.ipv4.tcp_ecn", "is": "2", "fix": "narrows tune apply"}
    >>> found = {"so": False, "right": ["a"], "drifted": [row], "overridden": [],
    ...     "unconfirmed": False,
    ...     "made": "2026-01-01T00:00:00.000Z", "title": "ECN is requested",
    ...     "new_connection": None}
    >>> print("\n".join(verified_lines(found)))
    No longer in effect: ECN is requested (applied 2026-01-01T00:00:00.000Z).
    sysctl:net.ipv4.tcp_ecn: is 2 now; to correct it: narrows tune apply
    a: in effect
    """
    title = f"{found['title'] or 'the applied changes'} (applied {found['made']})"
    told = [f"In effect: {title}." if found["so"] else f"No longer in effect: {title}."]
    for row in found["drifted"]:
        is_ = ", ".join(row["is"]) if isinstance(row["is"], list) else row["is"]
        told.append(f"{row['id']}: is {is_} now; to correct it: {row['fix']}")
    told += [f"{name}: in effect" for name in found["right"]]
    if found["new_connection"]:
        told.append(f"A new connection uses {found['new_connection']}.")
    told += [f"Warning: {text}." for text in found["overridden"]]
    if found.get("booted"):
        told.append("The host has booted since; settings without a file for the boot are lost.")
    if found["unconfirmed"]:
        told.append(_waits(found))
    return told


def _waits(found: VerifiedJson) -> str:
    """A sentence about changes that wait for a confirmation."""
    confirm, revert, left = found["confirm"], found["revert"], found["remaining_s"]
    if left is None:
        return (
            "The changes were not confirmed before the host booted and cannot be confirmed any "
            f"more. To revert them: {revert}"
        )
    if not found["watched"]:
        keep = (
            f"To keep the changes: {confirm}; to revert them:"
            if left > 0
            else "It is too late for a confirmation; to revert the changes:"
        )
        stopped = [
            str(one["pid"]) for one in found.get("watchers") or [] if one["state"] == "stopped"
        ]
        why = (
            f"are stopped (kill -CONT {' '.join(stopped)} continues them)"
            if stopped
            else "were killed"
        )
        return (
            f"Warning: the processes that would revert the changes automatically {why}. {keep} "
            f"{revert}"
        )
    if left <= 0:
        return "The time for the confirmation is over; the changes are being reverted."
    return f"Not confirmed yet: the changes are reverted in {left:.0f} s unless you run: {confirm}"
