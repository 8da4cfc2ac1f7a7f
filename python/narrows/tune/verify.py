"""Is it still so? For a person, and for what watches hosts."""

from __future__ import annotations

from narrows.tune.apply import Json, Place, have


def verify(place: Place) -> Json:
    """Looks.

    Raises:
        RefusedError: If nothing was applied here.
    """
    return have(["verify"], place)[0]


def verified_lines(found: Json) -> list[str]:
    r"""What was found, the answer first.

    >>> row = {"id": "sysctl:net.ipv4.tcp_ecn", "is": "2", "fix": "narrows tune apply"}
    >>> found = {"so": False, "right": ["a"], "drifted": [row], "overridden": [],
    ...     "unconfirmed": False,
    ...     "made": "2026-01-01T00:00:00.000Z", "title": "ECN is asked for",
    ...     "new_connection": None}
    >>> print("\n".join(verified_lines(found)))
    No longer so: ECN is asked for (applied 2026-01-01T00:00:00.000Z).
    sysctl:net.ipv4.tcp_ecn: is 2 now; narrows tune apply
    a: is so
    """
    title = f"{found['title'] or 'what was applied'} (applied {found['made']})"
    told = [f"Still so: {title}." if found["so"] else f"No longer so: {title}."]
    for row in found["drifted"]:
        is_ = ", ".join(row["is"]) if isinstance(row["is"], list) else row["is"]
        told.append(f"{row['id']}: is {is_} now; {row['fix']}")
    told += [f"{name}: is so" for name in found["right"]]
    if found["new_connection"]:
        told.append(f"A new connection uses {found['new_connection']}.")
    told += [f"Careful: {text}." for text in found["overridden"]]
    if found.get("booted"):
        told.append("The host has booted since: what no file says for the boot is forgotten.")
    if found["unconfirmed"]:
        told.append(_waits(found))
    return told


def _waits(found: Json) -> str:
    """Who undoes it, and when, where nobody confirms."""
    confirm, revert, left = found["confirm"], found["revert"], found["remaining_s"]
    if left is None:
        return f"It was not confirmed before the host booted, and cannot be any more: {revert}"
    if not found["watched"]:
        keep = (
            f"keep it with {confirm}, or undo it with"
            if left > 0
            else "it is too late to confirm it; undo it with"
        )
        stopped = [
            str(one["pid"]) for one in found.get("watchers") or [] if one["state"] == "stopped"
        ]
        why = (
            f"are stopped, and nothing undoes it while they are (kill -CONT {' '.join(stopped)} "
            "lets them go on)"
            if stopped
            else "were killed, and nothing undoes it by itself"
        )
        return f"Careful: the processes that would undo it {why}: {keep} {revert}"
    if left <= 0:
        return "Its time has passed, and it is being undone."
    return f"It waits to be confirmed, and is undone in {left:.0f} s otherwise: {confirm}"
