"""Runs experiments and stores their results."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import __version__
from narrows.inference import Interval, of_mean
from narrows.reproduce import losses, maps, shares
from narrows.reproduce.checks import Experiment, Outcome, experiments, misses
from narrows.reproduce.lab import Lab
from narrows.reproduce.wifi import wifi
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
}
"""Function that computes the figures of each experiment."""

INTO = "reproduced"
"""Default directory of the results."""

SETUPS = ("lab", "losses", "maps", "shares", "wifi")
"""Modules that define the configuration of the experiments."""


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
    told: Callable[[int], object] = lambda _: None,
) -> Outcome:
    """Outcome of an experiment, from a stored result of this build or from a new run.

    With `replications`, the experiment is repeated so many times with other seeds. Each figure is
    then the mean over the replications, with its 95 % confidence interval.

    Raises:
        OutputError: If the result cannot be stored.
    """
    experiment = experiments()[name]
    of = "" if replications is None else f"-{replications}"
    file = Path(into) / f"{name}{'-quick' if quick else ''}{of}.json"
    made = build()
    kept = None if anew else _kept(file, made)
    # A result that lacks figures because of a missing package is computed again.
    if kept is None or not _wanted(experiment, quick=quick) <= {
        *kept["ours"],
        *kept.get("failed", {}),
    }:
        kept = (
            _run(experiment, quick=quick, told=told)
            if replications is None
            else _replicate(experiment, replications, quick=quick, told=told)
        ) | {"made": made}
        output.write(file, json.dumps(kept, indent=1) + "\n")
    return Outcome(
        experiment=experiment,
        ours=kept["ours"],
        quick=quick,
        runs=kept["runs"],
        seconds=kept["seconds"],
        made=__version__,
        misses=misses(name),
        failed=kept.get("failed", {}),
        lacks=kept.get("lacks", {}),
        replications=replications,
        intervals={name: Interval(**one) for name, one in kept.get("intervals", {}).items()},
    )


def _wanted(experiment: Experiment, *, quick: bool) -> set[str]:
    return {check.id for check in experiment.checks if not (quick and check.full)}


def _replicate(
    experiment: Experiment, replications: int, *, quick: bool, told: Callable[[int], object]
) -> dict[str, Any]:
    """The means over several replications, with their intervals; a figure that one of them could
    not determine has failed.
    """
    each: list[dict[str, Any]] = []

    def tell(runs: int) -> None:
        told(sum(one["runs"] for one in each) + runs)

    for number in range(replications):
        each.append(_run(experiment, quick=quick, told=tell, nth=number))
    failed = {name: why for one in each for name, why in one["failed"].items()}
    ours = [name for name in each[0]["ours"] if all(name in one["ours"] for one in each)]
    values = {name: [float(one["ours"][name]) for one in each] for name in ours}
    # A threshold that was never reached is infinite, and so is its mean.
    finite = {name: of for name, of in values.items() if all(map(math.isfinite, of))}
    found = {name: of_mean(of, least=-math.inf) for name, of in finite.items()}
    return {
        "ours": {name: found[name].mean if name in found else math.inf for name in ours},
        "intervals": {name: asdict(one) for name, one in found.items()},
        "failed": failed,
        "lacks": each[0]["lacks"],
        "runs": sum(one["runs"] for one in each),
        "seconds": math.fsum(one["seconds"] for one in each),
    }


def _run(
    experiment: Experiment, *, quick: bool, told: Callable[[int], object], nth: int = 0
) -> dict[str, Any]:
    lab, begin = Lab(quick=quick, told=told, replication=nth), time.monotonic()
    ours = ANSWERS[experiment.name](lab)
    wanted = _wanted(experiment, quick=quick)
    return {
        "ours": {
            id_: value for id_, value in ours.items() if id_ in wanted and id_ not in lab.failed
        },
        "failed": lab.failed,
        "lacks": lab.lacks,
        "runs": lab.runs,
        "seconds": time.monotonic() - begin,
    }


def _kept(file: Path, made: str) -> dict[str, Any] | None:
    """The stored result, if it is of this build and readable."""
    try:
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.get("made") == made else None
