"""Candidates for a recommendation, by role and by the capabilities of the kernel.

| role | candidates |
|---|---|
| sender | congestion controls |
| forwarder | queue disciplines for its own bottleneck queue, and shapers before the bottleneck |
| receiver | shapers behind the queue, for incoming traffic |
| operator | a policer or a shaper, bursts, limits and disciplines (`contract`) |

A congestion control is a candidate if the kernel has or can load it and narrows has a model of it.
A queue discipline or shaper is a candidate if the kernel has or can load its modules. Queue
disciplines, shapers and common congestion controls are also candidates if a package of the
distribution contains the missing modules. The command that installs the package is then printed
first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path as FilePath

from narrows import _core, registry
from narrows.advise.asked import Asked
from narrows.errors import EngineError, NarrowsError
from narrows.runs.scenario import Hop, Path
from narrows.tune import collect, kernels, shaper
from narrows.tune.facts import Facts

LINUX = registry.linux_ccs()
"""The congestion controls of Linux."""

ENCLOSED = {
    "dctcp": "it requires switches that mark packets and starves flows that do not react to each "
    "mark; it is for data centres only",
    "scalable": "it starves other flows; it is for data centres only",
    "highspeed": "it takes goodput from other flows on fast paths; it is for data centres only",
}
"""Candidates that are recommended only with --data-centre, with the reason."""

UNCHANGED = "as it is"
"""Key of the candidate that changes no queue."""

QUEUES = registry.at_bottleneck()
"""Disciplines that a forwarder may set."""

SHARES = (0.95, 0.9, 0.8)
"""Rates of a shaper before or behind the bottleneck, as shares of the rate of the bottleneck."""

SHAPED = registry.below_shaper()
"""Disciplines below a shaper."""

HERE = FilePath("/")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A change that can be recommended.

    Attributes:
        key: Name that identifies the candidate, such as `bbr` or `cake at 90%`.
        says: Its description.
        cc: The congestion control that it sets; None if it sets none.
        queue: The queue discipline that it sets; None if it sets none.
        share: Rate of the shaper, as a share of the rate of the bottleneck; None without a shaper.
        behind: Whether the shaper is behind the bottleneck instead of before it.
        present: Whether the candidate is the current state.
        only: The reason why the candidate is recommended only with --data-centre; empty for others.
        needs: The command that installs missing modules; empty if none is missing.
    """

    key: str
    says: str
    cc: str | None = None
    queue: str | None = None
    share: float | None = None
    behind: bool = False
    present: bool = False
    only: str = ""
    needs: str = ""

    def on(self, path: Path, rate_mbit: float) -> Path:
        """The path with the queue discipline or shaper of this candidate. A congestion control does
        not change the path.

        >>> from narrows.runs.scenario import Path
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
        return Path(
            hop=tuple(placed), **{name: getattr(path, name) for name in _OF_PATH if name != "hop"}
        )


_OF_HOP = tuple(field.name for field in fields(Hop))
_OF_PATH = tuple(field.name for field in fields(Path) if field.name not in _OF_HOP)
"""Fields of a path that a hop does not have."""


def _only_hop(path: Path) -> Hop:
    return Hop(**{name: getattr(path, name) for name in _OF_HOP})


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """The capabilities of a kernel.

    Attributes:
        ccs: Congestion controls.
        says: Description of the kernel.
        default: The congestion control in use; None if unknown.
        missing: The modules that the kernel neither has nor can load, each with the command that
            installs its package. The command is empty if no package is known.
        paces: Whether TCP paces flows without the queue discipline fq (Linux 4.13).
    """

    ccs: tuple[str, ...]
    says: str
    default: str | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    paces: bool = True

    def lacks(self, modules: Sequence[str]) -> list[str]:
        """The modules of this list that are missing and that no known package contains."""
        return [module for module in modules if self.missing.get(module) == ""]

    def install(self, modules: Sequence[str]) -> str:
        """The command that installs the missing ones of these modules; empty if none is missing."""
        return " && ".join(
            dict.fromkeys(self.missing[module] for module in modules if self.missing.get(module))
        )


_SHAPER = tuple(
    dict.fromkeys(module for kind in SHAPED for module in shaper.modules(kind, incoming=True))
)
_MODULES = tuple(dict.fromkeys([*(f"sch_{queue}" for queue in QUEUES), *_SHAPER]))
"""The modules of all queue disciplines and shapers that are candidates."""


def here(root: FilePath = HERE) -> Kernel | None:
    """The capabilities of this host's kernel, without loading a module; None if they cannot be
    read.
    """
    try:
        facts = collect.facts() if root == HERE else collect.facts(root=str(root))
    except (EngineError, NarrowsError):
        return None
    return None if not facts.available else _of(facts)


def _of(facts: Facts) -> Kernel:
    able = {cc for cc, state in facts.cc_states(LINUX).items() if state in _THERE}
    states = facts.module_states(_MODULES)
    missing = {name: _package(facts, name) for name in _MODULES if states[name] not in _THERE}
    wanted = {f"tcp_{cc}": _package(facts, f"tcp_{cc}") for cc in KNOWN if cc not in able}
    return Kernel(
        ccs=tuple(cc for cc in LINUX if cc in able or wanted.get(f"tcp_{cc}")),
        says=f"this host's kernel, {facts.release}",
        default=facts.default_cc,
        missing=missing | {name: command for name, command in wanted.items() if command},
        paces=kernels.has(facts.kernel, "pacing") is not False,
    )


_THERE = ("builtin", "loaded", "loadable")

KNOWN = registry.linux_ccs(common=True)
"""Congestion controls for which the installation of a package is recommended."""


def _package(facts: Facts, module: str) -> str:
    """The command that installs the package of a module; empty if no package is known."""
    feature = module.removeprefix("sch_").removeprefix("tcp_")
    if feature in kernels.FEATURES and kernels.has(facts.kernel, feature) is False:
        return ""
    found = _core.module_package(facts.json(), module)
    return "" if found is None else " ".join(found[0])


def kernel(told: str | None) -> Kernel:
    """The kernel of `--kernel`: `here`, a release (`6.12`: all that its sources contain), or a
    list of names.

    >>> kernel("reno,cubic,bbr").ccs
    ('reno', 'cubic', 'bbr')
    >>> sorted(kernel("4.4").missing)
    ['sch_cake', 'sch_fq_pie']

    Raises:
        NarrowsError: If `told` is none of these.
    """
    if told in {None, "here"}:
        found = here()
        if found is not None:
            return found
        if told == "here":
            raise NarrowsError(
                "--kernel here: the kernel of this host cannot be read; write --kernel 6.12"
            )
        told = "6.12"
    assert told is not None
    if re.fullmatch(r"(\d{1,2})\.(\d{1,3})(?:[.\-+].*)?", told):
        # Congestion controls without an entry in `FEATURES` are older than the releases listed
        # there.
        since = _core.kernel_release(told)
        ccs = tuple(cc for cc in LINUX if cc not in kernels.FEATURES or kernels.has(since, cc))
        missing = {
            f"sch_{queue}": ""
            for queue in QUEUES
            if queue in kernels.FEATURES and kernels.has(since, queue) is False
        }
        paces = kernels.has(since, "pacing") is not False
        return Kernel(ccs=ccs, says=f"Linux {told}", missing=missing, paces=paces)
    names = tuple(name.strip() for name in told.split(",") if name.strip())
    unknown = [name for name in names if name not in LINUX]
    if unknown or not names:
        raise NarrowsError(
            f"--kernel {told}: Linux has no congestion control {unknown[0] if unknown else told}; "
            f"write --kernel 6.12, or names from {', '.join(LINUX)}"
        )
    return Kernel(ccs=names, says=f"as specified ({', '.join(names)})")


def candidates(asked: Asked, has: Kernel) -> list[Candidate]:
    """All candidates for this role and kernel, the current state first."""
    return [one for one, lacks in _all(asked, has) if not lacks]


def lacking(asked: Asked, has: Kernel) -> dict[str, list[str]]:
    """Candidates that the kernel cannot load, with their missing modules."""
    return {one.key: lacks for one, lacks in _all(asked, has) if lacks}


def _all(asked: Asked, has: Kernel) -> list[tuple[Candidate, list[str]]]:
    """All candidates, each with its modules that are missing and that no known package contains."""
    if asked.role == "sender":
        present = Candidate(
            key=asked.now, says=f"{asked.now}, which is in use", cc=asked.now, present=True
        )
        others: Sequence[str] = [cc for cc in has.ccs if cc != asked.now]
        enclosed = {} if asked.data_centre else ENCLOSED
        return [
            (present, []),
            *(
                (
                    Candidate(
                        key=cc,
                        says=cc,
                        cc=cc,
                        only=enclosed.get(cc, ""),
                        needs=has.install([f"tcp_{cc}"]),
                    ),
                    [],
                )
                for cc in others
            ),
        ]
    present = Candidate(key=UNCHANGED, says="the present queue", present=True)
    behind = asked.role == "receiver"
    kind = "an ingress shaper" if behind else "a shaper"
    found: list[tuple[Candidate, list[str]]] = [(present, [])]
    if not behind:
        for queue in QUEUES:
            modules = [f"sch_{queue}"]
            says = f"{queue} at the bottleneck"
            found.append(
                (
                    Candidate(key=queue, says=says, queue=queue, needs=has.install(modules)),
                    has.lacks(modules),
                )
            )
    for queue in SHAPED:
        modules = shaper.modules(queue, incoming=behind)
        for share in SHARES:
            shaped = Candidate(
                key=f"{queue} at {share:.0%}",
                says=f"{kind} at {share:.0%} of the rate with {queue}",
                queue=queue,
                share=share,
                behind=behind,
                needs=has.install(modules),
            )
            found.append((shaped, has.lacks(modules)))
    return found
