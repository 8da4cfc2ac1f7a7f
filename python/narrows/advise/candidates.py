"""What could be switched on: by who asks, and by what the kernel has or can load.

| who | what |
|---|---|
| sender | congestion controls |
| forwarder | queue disciplines where the queue is its own; shapers with a good queue where it is not |
| receiver | shapers behind the queue, on what comes in |
| operator | a policer or a shaper, bursts, limits and disciplines (`contract`) |

A congestion control that this kernel has not, or that narrows has no model of, is no candidate.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from narrows.advise.asked import Asked
from narrows.errors import NarrowsError
from narrows.scenario import Hop, Path

LINUX = (
    "cubic", "bbr", "reno", "bic", "cdg", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "scalable",
    "vegas", "veno", "westwood", "yeah",
)  # fmt: skip
"""The congestion controls of Linux that narrows knows by the kernel's own name, what people use first.

Linux's `bbr` is version 1; versions 2 and 3 are no part of a released kernel."""

ENCLOSED = {
    "dctcp": "needs switches that mark, and starves what does not react to each mark: data centres only",
    "scalable": "takes from others whatever it can: data centres only",
    "highspeed": "takes from others on fast paths: data centres only",
}
"""Who is recommended only where the path is said to be inside a data centre, and why."""

QUEUES = ("fq_codel", "cake", "codel", "pie", "fq_pie", "sfq", "fq")
"""Disciplines that a forwarder may set."""

SHARES = (0.95, 0.9, 0.8)
"""Shares of the narrowest hop's rate that a shaper before or behind it may have."""

SHAPED = ("cake", "fq_codel")
"""Disciplines below a shaper."""

HERE = FilePath("/")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Something that could be switched on.

    Attributes:
        key: Its name among the others.
        says: What it is, for people.
        cc: The congestion control that it sets; None for one that leaves it.
        queue: The discipline that it sets.
        share: Of the rate, for a shaper.
        behind: The shaper stands behind the narrowest hop, not before it.
        present: It is what there is.
        only: Where else it may be recommended, where that is not everywhere.
    """

    key: str
    says: str
    cc: str | None = None
    queue: str | None = None
    share: float | None = None
    behind: bool = False
    present: bool = False
    only: str = ""

    def on(self, path: Path, rate_mbit: float) -> Path:
        """The path with it switched on.

        >>> from narrows.scenario import Path
        >>> shaper = Candidate(key="x", says="x", queue="cake", share=0.9)
        >>> [hop.rate for hop in shaper.on(Path(rate="10Mbit", rtt="20ms"), 10.0).hop]
        ['9000000bit', '10Mbit']
        """
        if self.queue is None:
            return path
        if self.share is None:
            return replace(path, queue=self.queue, buffer=None)
        shaper = Hop(rate=f"{round(self.share * rate_mbit * 1e6)}bit", rtt="1us", queue=self.queue)
        hops = list(path.hop) if path.hop is not None else [_only_hop(path)]
        placed = [*hops, shaper] if self.behind else [shaper, *hops]
        return Path(hop=tuple(placed), **{name: getattr(path, name) for name in _OF_PATH if name != "hop"})


_OF_PATH = tuple(name for name in Path.__dataclass_fields__ if name not in Hop.__dataclass_fields__)
"""What is the path's and no hop's."""


def _only_hop(path: Path) -> Hop:
    return Hop(**{name: getattr(path, name) for name in Hop.__dataclass_fields__})


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What a kernel has or can load.

    Attributes:
        ccs: Congestion controls.
        says: Whose they are, in words.
        default: The one in use; None where that is not known.
    """

    ccs: tuple[str, ...]
    says: str
    default: str | None = None


def here(root: FilePath = HERE) -> Kernel | None:
    """What this host's kernel has or could load, without loading it; None where that cannot be read."""
    ipv4 = root / "proc/sys/net/ipv4"
    try:
        loaded = (ipv4 / "tcp_available_congestion_control").read_text(encoding="ascii").split()
        now = (ipv4 / "tcp_congestion_control").read_text(encoding="ascii").strip()
        release = (root / "proc/sys/kernel/osrelease").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    modules = root / "lib/modules" / release / "kernel/net/ipv4"
    try:
        names = [re.match(r"tcp_(\w+)\.ko", entry.name) for entry in os.scandir(modules)]
        files = [found.group(1) for found in names if found]
    except OSError:
        files = []
    able = {*loaded, *files}
    return Kernel(ccs=tuple(cc for cc in LINUX if cc in able), says=f"this host's kernel, {release}", default=now)


def kernel(told: str | None) -> Kernel:
    """The kernel that was told: `here`, a release (`6.12`: all that its sources have), or a list of names.

    >>> kernel("reno,cubic,bbr").ccs
    ('reno', 'cubic', 'bbr')

    Raises:
        NarrowsError: If it is none of these.
    """
    if told in {None, "here"}:
        found = here()
        if found is not None:
            return found
        if told == "here":
            raise NarrowsError("this host's kernel cannot be asked\n    write: --kernel 6.12")
        told = "6.12"
    assert told is not None
    release = re.fullmatch(r"(\d{1,2})\.(\d{1,3})(?:[.\-+].*)?", told)
    if release:
        # BBR came with Linux 4.9, New Vegas and CDG before; the others are older.
        since = (int(release[1]), int(release[2]))
        ccs = tuple(cc for cc in LINUX if cc != "bbr" or since >= (4, 9))
        return Kernel(ccs=ccs, says=f"Linux {told}")
    names = tuple(name.strip() for name in told.split(",") if name.strip())
    unknown = [name for name in names if name not in LINUX]
    if unknown or not names:
        raise NarrowsError(
            f"no congestion control of Linux is called `{unknown[0] if unknown else told}`; known: {', '.join(LINUX)}\n"
            "    write: --kernel 6.12, or --kernel reno,cubic,bbr"
        )
    return Kernel(ccs=names, says="as told")


def candidates(asked: Asked, has: Kernel) -> list[Candidate]:
    """Everything that who asks could switch on, what there is first."""
    if asked.role == "sender":
        present = Candidate(key=asked.now, says=f"{asked.now}, as it is", cc=asked.now, present=True)
        others: Sequence[str] = [cc for cc in has.ccs if cc != asked.now]
        enclosed = {} if asked.data_centre else ENCLOSED
        return [present, *(Candidate(key=cc, says=cc, cc=cc, only=enclosed.get(cc, "")) for cc in others)]
    present = Candidate(key="as it is", says="the queue as it is", present=True)
    behind = asked.role == "receiver"
    where = "on what comes in, " if behind else ""
    shapers = [
        Candidate(
            key=f"{queue} at {share:.0%}",
            says=f"a shaper {where}at {share:.0%} of the rate, with {queue}",
            queue=queue,
            share=share,
            behind=behind,
        )
        for queue in SHAPED
        for share in SHARES
    ]
    if behind:
        return [present, *shapers]
    own = [Candidate(key=queue, says=f"{queue} in the narrow queue itself", queue=queue) for queue in QUEUES]
    return [present, *own, *shapers]
