"""Runs experiments and stores their results."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import __version__
from narrows.inference import Interval, of_mean
from narrows.reproduce import buffers, losses, maps, pages, response, shares
from narrows.reproduce.checks import Experiment, Outcome, experiments, misses
from narrows.reproduce.lab import Grid, Lab, Told
from narrows.reproduce.wifi import wifi
from narrows.runs.engines import SIM, EngineChoice
from narrows.storage import output
from narrows.sweeps.sweeping import build as of_narrows

ANSWERS: dict[str, Callable[[Lab], dict[str, float]]] = {
    "grid": maps.grid,
    "replication": maps.replication,
    "decision-tree": maps.tree,
    "fairness": shares.fairness,
    "cliff": losses.cliff,
    "bbr-article": losses.article,
    "loss-by-law": losses.loss_based,
    "bbr-faq": shares.faq,
    "joiners": shares.joiners,
    "loss-and-delay": losses.megabyte,
    "mixes": shares.mixes,
    "share-model": shares.share_model,
    "queue-model": shares.queue_model,
    "response": losses.response,
    "wifi": wifi,
    "page-under-load": pages.page,
    "loss-rtt-grid": pages.loss_by_rtt,
    "before-and-after": pages.before_and_after,
    "map-cells": buffers.cells_by_buffer,
    "fairness-by-buffer": buffers.share_by_buffer,
    "response-time": response.search,
}
"""Function that computes the figures of each experiment."""

INTO = "reproduced"
"""Default directory of the results."""

SETUPS = ("buffers", "lab", "losses", "maps", "pages", "response", "shares", "wifi")
"""Modules that define the configuration of the experiments."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A result of an experiment, as it is stored.

    Attributes:
        ours: The figures, by check.
        failed: The reason for each figure that could not be determined.
        lacks: The reason for each figure that was not computed.
        runs: Number of runs.
        seconds: Wall-clock time, in s.
        made: The version and build that computed the result.
        intervals: The 95 % confidence interval of the mean of each figure; None without
            replications.
        tables: Additional tables of the experiment.
    """

    ours: dict[str, float]
    failed: dict[str, str]
    lacks: dict[str, str]
    runs: int
    seconds: float
    made: str
    intervals: dict[str, Interval] | None = None
    tables: tuple[Grid, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Kept:
        """Reads a stored result.

        Raises:
            KeyError: If a part is missing.
        """
        intervals = stored.get("intervals")
        return cls(
            ours=stored["ours"],
            failed=stored.get("failed", {}),
            lacks=stored.get("lacks", {}),
            runs=stored["runs"],
            seconds=stored["seconds"],
            made=stored["made"],
            intervals=intervals and {name: Interval(**one) for name, one in intervals.items()},
            tables=tuple(map(Grid.of, stored.get("tables", ()))),
        )

    def text(self) -> str:
        """The result as the JSON text of its file."""
        intervals = {name: asdict(one) for name, one in (self.intervals or {}).items()}
        parts = {
            "ours": self.ours,
            **({} if self.intervals is None else {"intervals": intervals}),
            "failed": self.failed,
            "lacks": self.lacks,
            "runs": self.runs,
            "seconds": self.seconds,
            "made": self.made,
            **({"tables": [one.json() for one in self.tables]} if self.tables else {}),
        }
        return json.dumps(parts, indent=1) + "\n"


def build() -> str:
    """Version and build of narrows, and a digest of the configuration of the experiments."""
    sources = resources.files("narrows").joinpath("reproduce")
    setups = [sources.joinpath(f"{module}.py").read_bytes() for module in SETUPS]
    return f"{of_narrows()} {hashlib.sha256(b''.join(setups)).hexdigest()[:12]}"


def reproduce(
    name: str,
    *,
    quick: bool = False,
    into: str | PathLike[str] = INTO,
    anew: bool = False,
    replications: int | None = None,
    engine: EngineChoice = SIM,
    told: Told = lambda *_: None,
) -> Outcome:
    """Outcome of an experiment, from a stored result of this build or from a new run.

    Runs of other engines than the simulator are stored one by one, so that an interrupted
    experiment continues.

    With `replications`, the experiment is repeated this number of times with other seeds. Each
    figure is then the mean over the replications, with its 95 % confidence interval.

    Raises:
        OutputError: If the result cannot be stored.
        EngineError: If the engine cannot run a scenario of the experiment.
    """
    experiment = experiments()[name]
    of = "" if replications is None else f"-{replications}"
    of += "" if engine == SIM else f"-{engine.name}"
    of += "" if engine.kernel_name is None else f"-{engine.kernel_name}"
    file = Path(into) / f"{name}{'-quick' if quick else ''}{of}.json"
    made = f"{build()} {engine.about()}".strip()
    how = _How(
        quick=quick, told=told, made=made, engine=engine, store=Path(into) / "runs", anew=anew
    )
    kept = None if anew else _kept(file, made)
    # A stored result without some of the wanted figures is computed again.
    if kept is None or not _wanted(experiment, quick=quick) <= {*kept.ours, *kept.failed}:
        kept = (
            _run(experiment, how)
            if replications is None
            else _replicate(experiment, replications, how)
        )
        output.write(file, kept.text())
    return Outcome(
        experiment=experiment,
        ours=kept.ours,
        quick=quick,
        runs=kept.runs,
        seconds=kept.seconds,
        made=__version__,
        misses=misses(name),
        failed=kept.failed,
        lacks=kept.lacks,
        replications=replications,
        intervals=kept.intervals or {},
        engine=engine,
        tables=kept.tables,
    )


@dataclass(frozen=True, kw_only=True)
class _How:
    """The arguments that all runs of an experiment share."""

    quick: bool
    told: Told
    made: str
    engine: EngineChoice
    store: Path
    anew: bool


def _wanted(experiment: Experiment, *, quick: bool) -> set[str]:
    return {check.id for check in experiment.checks if not (quick and check.full)}


def _replicate(experiment: Experiment, replications: int, how: _How) -> Kept:
    """The means over several replications, with their confidence intervals. A figure that a
    replication could not determine has failed.
    """
    each: list[Kept] = []

    def tell(runs: int, planned: int, current: str) -> None:
        before = sum(one.runs for one in each)
        how.told(before + runs, before + planned, current)

    for number in range(replications):
        each.append(_run(experiment, replace(how, told=tell), nth=number))
    ours = [name for name in each[0].ours if all(name in one.ours for one in each)]
    values = {name: [float(one.ours[name]) for one in each] for name in ours}
    # A time is infinite if its threshold was never reached. The mean is then infinite, too.
    finite = {name: of for name, of in values.items() if all(map(math.isfinite, of))}
    found = {name: of_mean(of, least=-math.inf) for name, of in finite.items()}
    return Kept(
        ours={name: found[name].mean if name in found else math.inf for name in ours},
        intervals=found,
        failed={name: why for one in each for name, why in one.failed.items()},
        lacks=each[0].lacks,
        runs=sum(one.runs for one in each),
        seconds=math.fsum(one.seconds for one in each),
        made=how.made,
        tables=each[0].tables,
    )


def _run(experiment: Experiment, how: _How, nth: int = 0) -> Kept:
    lab = Lab(
        quick=how.quick, told=how.told, replication=nth, engine=how.engine, store=how.store,
        anew=how.anew,
    )  # fmt: skip
    begin = time.monotonic()
    ours = ANSWERS[experiment.name](lab)
    wanted = _wanted(experiment, quick=how.quick)
    return Kept(
        ours={id_: value for id_, value in ours.items() if id_ in wanted and id_ not in lab.failed},
        failed=lab.failed,
        lacks=lab.lacks,
        runs=lab.runs,
        seconds=time.monotonic() - begin,
        made=how.made,
        tables=tuple(lab.tables),
    )


def _kept(file: Path, made: str) -> Kept | None:
    """The stored result; None if it is not of this build or not readable."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(stored, dict) or stored.get("made") != made:
        return None
    try:
        return Kept.of(stored)
    except (KeyError, TypeError):
        return None
