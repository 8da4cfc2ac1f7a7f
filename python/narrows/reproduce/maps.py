"""Maps of BBR and CUBIC over rate, RTT and buffer, and the published decision tree."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import partial
from importlib import resources
from statistics import mean

from narrows.reproduce.lab import Lab
from narrows.reproduce.published import (
    TEST_S,
    Cell,
    Result,
    cells,
    criteria,
    gains,
    reproduce,
    third,
)
from narrows.study.cart import cross_validated
from narrows.study.paths import GAIN_MAP
from narrows.study.study import by
from narrows.sweeps.keys import put

CAO = "data/cao-2019-gain.csv"
"""The published values of figure 5: buffer size (KiB), rate (Mbit/s), RTT (ms), gain of BBR over
CUBIC (%)."""

_CLEAR_PCT = 10
_NOISY = (10, 10000)
"""Rate in Mbit/s and buffer size in KiB of the row whose gains (−34 to +35 %) are noise."""

Place = tuple[int, int, int]
"""Buffer size in KiB, rate in Mbit/s, RTT in ms."""


def published_gains() -> dict[Place, float]:
    """Gains of BBR over CUBIC that Cao et al. measured, in %, by cell.

    >>> len(published_gains()), published_gains()[100, 500, 200]
    (128, 115.0)
    """
    text = resources.files("narrows").joinpath(CAO).read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {
        (int(row["buffer_kb"]), int(row["rate_mbit"]), int(row["rtt_ms"])): float(row["gain_pct"])
        for row in rows
    }


def _results(lab: Lab, kernel: str, ccs: Sequence[str]) -> list[Result]:
    todo: list[Cell] = [
        c for cc in ccs for c in (third(cells(cc, kernel)) if lab.quick else cells(cc, kernel))
    ]
    return reproduce(todo, lab.did, seed=lab.first_seed, engine=lab.engine, file=lab.file)


def again_pct(result: Result) -> float:
    """Retransmission rate of a result, in % of the segments sent."""
    sent = result.goodput_mbit * 1e6 * TEST_S / 8 / 1448 + result.retransmits
    return 100 * result.retransmits / sent


def _mean_again(results: Sequence[Result], cc: str, buffer_kib: int) -> float:
    return mean(again_pct(r) for r in results if (r.cell.cc, r.cell.buffer_kib) == (cc, buffer_kib))


def grid(lab: Lab) -> dict[str, float]:
    """Comparison with Cao et al.: share of cells with the same sign of the gain, and goodput and
    retransmits of some cells.
    """
    results = _results(lab, "4.15", ("cubic", "bbr"))
    published = published_gains()
    signs = []
    for gain in gains(results):
        cell = gain.bbr.cell
        theirs = published[cell.buffer_kib, cell.rate_mbit, cell.rtt_ms]
        if abs(theirs) >= _CLEAR_PCT and (cell.rate_mbit, cell.buffer_kib) != _NOISY:
            signs.append((gain.ours > 0) == (theirs > 0))
    ours = {"sign": 100 * sum(signs) / len(signs)}
    for cc in ("bbr", "cubic"):
        for buffer in (100, 10000):
            ours[f"again-{cc}-{buffer}"] = _mean_again(results, cc, buffer)
    for r in results:
        place = (r.cell.buffer_kib, r.cell.rate_mbit, r.cell.rtt_ms)
        if place == (100, 500, 200):
            ours[f"{r.cell.cc}-500-200"] = r.goodput_mbit
        if place[1:] == (500, 25):
            ours[f"{r.cell.cc}-500-25-{place[0]}"] = float(r.retransmits)
    return ours


def replication(lab: Lab) -> dict[str, float]:
    """Comparison with Datta and Fund: share of the cells that agree by each criterion, and mean
    retransmission rates, in %.
    """
    ours = {}
    names = ("sign", "bbr", "again", "cubic-deep", "cubic-shallow")
    for kernel in ("4.15",) if lab.quick else ("4.15", "5.15"):
        results = _results(lab, kernel, ("cubic", "bbr"))
        for name, criterion in zip(names, criteria(results), strict=True):
            ours[f"{kernel}-{name}"] = 100 * criterion.agree / criterion.cells
        if not lab.quick:
            for cc in ("cubic", "bbr"):
                for buffer in (100, 10000):
                    ours[f"{kernel}-{cc}-{buffer}-pct"] = _mean_again(results, cc, buffer)
    if not lab.quick:
        results = _results(lab, "5.13.12", ("bbr2",))
        for name, criterion in zip(
            ("bbr2-100", "bbr2-100-again", "bbr2-10000", "bbr2-10000-again"),
            criteria(results),
            strict=True,
        ):
            ours[name] = 100 * criterion.agree / criterion.cells
        for buffer in (100, 10000):
            ours[f"bbr2-{buffer}-pct"] = _mean_again(results, "bbr2", buffer)
    return ours


_FAST_MBIT, _SLOW_MBIT, _DEEP_MB = 875, 375, 5.5
_BYTES = {"kB": 1e-3, "MB": 1.0}
_LEAVES, _LEAST, _FOLDS = 8, 3, 10
"""Parameters of the decision tree that narrows learns. They are the maximum number of leaves, the
minimum number of cells of a leaf, and the number of folds of the cross-validation."""


def published_tree(rate_mbit: float, buffer_mb: float) -> str:
    """The congestion control with the higher goodput, as the published decision tree predicts it.

    >>> published_tree(1000, 50), published_tree(500, 10), published_tree(500,
    ...     1), published_tree(50, 1)
    ('bbr', 'cubic', 'bbr', 'cubic')
    """
    if rate_mbit > _FAST_MBIT:
        return "bbr"
    if rate_mbit <= _SLOW_MBIT:
        return "cubic"
    return "bbr" if buffer_mb <= _DEEP_MB else "cubic"


def tree(lab: Lab) -> dict[str, float]:
    """Share of the cells of the study `gain-map`, in %, in which simulation and published tree name
    the same winner, and accuracy of an own tree.
    """
    whole = GAIN_MAP.parts(False)[""]
    assert not isinstance(whole.over, Sequence)
    buffers, rates, rtts = (list(whole.over[f"path.{key}"]) for key in ("buffer", "rate", "rtt"))
    if lab.quick:
        buffers, rates, rtts = buffers[::2], [*rates[::3], rates[5], rates[-1]], rtts[::3]
    cases = {
        (buffer, rate, rtt, cc): _with(
            whole.scenario.tree() | {"duration": lab.seconds(60)}, buffer, rate, rtt, cc
        )
        for buffer in buffers
        for rate in rates
        for rtt in rtts
        for cc in ("cubic", "bbr")
    }
    found = lab.play(cases, seeds=1, quick_seeds=1)
    rows = [
        {"buffer": b, "rate": r, "rtt": t, "cc": cc, "goodput": runs[0]["flows"][0]["goodput_mbit"]}
        for (b, r, t, cc), runs in found.items()
    ]
    at, said, told = [], [], []
    for (buffer, rate, rtt), pair in by(rows, "buffer", "rate", "rtt").items():
        one = {row["cc"]: row["goodput"] for row in pair}
        rate_mbit = float(str(rate).removesuffix("Mbit"))
        buffer_mb = float(str(buffer)[:-2]) * _BYTES[str(buffer)[-2:]]
        at.append((rate_mbit, float(str(rtt).removesuffix("ms")), buffer_mb))
        said.append("bbr" if one["bbr"] > one["cubic"] else "cubic")
        told.append(published_tree(rate_mbit, buffer_mb))

    def agree(which: Sequence[bool]) -> float:
        right = [a == b for a, b, here in zip(said, told, which, strict=True) if here]
        return 100 * sum(right) / len(right)

    middle = [_SLOW_MBIT < rate <= _FAST_MBIT for rate, _, _ in at]
    ours = {
        "published-tree": agree([True] * len(at)),
        "fast": agree([rate > _FAST_MBIT for rate, _, _ in at]),
        "slow": agree([rate <= _SLOW_MBIT for rate, _, _ in at]),
        "shallow": agree(
            [here and buffer <= _DEEP_MB for here, (_, _, buffer) in zip(middle, at, strict=True)]
        ),
        "deep": agree(
            [here and buffer > _DEEP_MB for here, (_, _, buffer) in zip(middle, at, strict=True)]
        ),
    }
    score = cross_validated(at, said, leaves=_LEAVES, least=_LEAST, folds=_FOLDS)
    return ours | {"own-tree": 100 * score}


def _with(tree: dict[str, object], buffer: str, rate: str, rtt: str, cc: str) -> dict[str, object]:
    set_ = partial(put, tree)
    for key, value in (
        ("path.buffer", buffer),
        ("path.rate", rate),
        ("path.rtt", rtt),
        ("flow[0].cc", cc),
    ):
        set_(key, value)
    return tree
