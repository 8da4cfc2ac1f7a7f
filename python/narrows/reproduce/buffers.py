"""BBR and CUBIC for several buffer sizes: the whole grid of rates and RTTs beside the published
values, and the share of BBR.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from narrows.reproduce.lab import Grid, Lab, again, goodput, mid, part
from narrows.reproduce.maps import published_gains
from narrows.reproduce.published import KERNEL, Cell, Result, cells, reproduce
from narrows.runs.scenario import Flow, Host, Path, Scenario

BUFFERS_KIB = (100, 1000, 10_000, 20_000, 50_000)
"""Buffer sizes of the grid, in KiB, which `tc` writes as `kb`."""

Place = tuple[int, int, int]
"""Buffer size in KiB, rate in Mbit/s, RTT in ms."""

_EXAMPLE = (100, 500, 200)


def _place(cell: Cell) -> Place:
    return cell.buffer_kib, cell.rate_mbit, cell.rtt_ms


def _all_cells(lab: Lab, cc: str) -> list[Cell]:
    """All cells of the grid for a congestion control. Cells without a published result contain
    zeros as published values.
    """
    known = {_place(cell): cell for cell in cells(cc, KERNEL)}
    rates, rtts = (sorted({place[i] for place in known}) for i in (1, 2))
    buffers: Sequence[int] = BUFFERS_KIB
    if lab.quick:
        rates, rtts, buffers = rates[1::4], rtts[3::4], BUFFERS_KIB[::2]
    return [
        known.get((buffer, rate, rtt))
        or Cell(
            cc=cc, buffer_kib=buffer, rate_mbit=rate, rtt_ms=rtt, trials=0, goodput_mbit=0.0,
            goodput_mbit_sd=0.0, goodput_mbit_min=0.0, goodput_mbit_max=0.0, retransmits=0,
        )
        for buffer in buffers
        for rate in rates
        for rtt in rtts
    ]  # fmt: skip


def cells_by_buffer(lab: Lab) -> dict[str, float]:
    """Gain of BBR over CUBIC and retransmits, in each cell of the grid: 640 runs, fewer in a quick
    run.
    """
    todo = [cell for cc in ("cubic", "bbr") for cell in _all_cells(lab, cc)]
    results = reproduce(todo, lab.did, seed=lab.first_seed, engine=lab.engine, file=lab.file)
    by = {
        cc: {_place(one.cell): one for one in results if one.cell.cc == cc}
        for cc in ("cubic", "bbr")
    }
    gains = {
        place: 100 * (by["bbr"][place].goodput_mbit / max(one.goodput_mbit, 1e-9) - 1)
        for place, one in by["cubic"].items()
    }
    for buffer in sorted({place[0] for place in gains}):
        lab.tables += _panels(buffer, by, gains)
    small = [place for place in gains if place[0] == BUFFERS_KIB[0]]
    ours_ratio = _known(_ratio(by, place, _ours) for place in small)
    theirs_ratio = _known(_ratio(by, place, _theirs) for place in small)
    deep = {place: by["bbr"][place].cell.deep for place in gains}
    ours = {
        "ratio-100": median(ours_ratio),
        "ratio-most": max(ours_ratio),
        "theirs-100": median(theirs_ratio),
        "small-bdp": _percent([gains[place] < 0 for place in gains if deep[place]]),
        "large-bdp": _percent([gains[place] > 0 for place in gains if not deep[place]]),
    }
    if _EXAMPLE in gains:
        ours["gain-500-200"] = gains[_EXAMPLE]
    else:
        lab.lacks["gain-500-200"] = "left out: the cell is not part of a quick run"
    return ours


def _percent(which: list[bool]) -> float:
    return 100 * sum(which) / max(len(which), 1)


def _known(ratios: Iterable[float | None]) -> list[float]:
    """The ratios that are not None."""
    return [one for one in ratios if one is not None]


def _ours(result: Result) -> int | None:
    return result.retransmits


def _theirs(result: Result) -> int | None:
    return result.cell.retransmits if result.cell.trials else None


Both = Mapping[str, Mapping[Place, Result]]
"""Results by congestion control and cell."""


def _ratio(by: Both, place: Place, of: Callable[[Result], int | None]) -> float | None:
    """Retransmits of BBR divided by those of CUBIC; None if a number is unknown or CUBIC has no
    retransmits.
    """
    bbr, cubic = (of(by[cc][place]) for cc in ("bbr", "cubic"))
    return None if bbr is None or not cubic else bbr / cubic


def _panels(buffer: int, by: Both, gains: Mapping[Place, float]) -> list[Grid]:
    """The maps of a buffer size. Each cell has the value of narrows and the published value."""
    rates, rtts = (sorted({place[i] for place in gains if place[0] == buffer}) for i in (1, 2))
    published = published_gains()

    def panel(title: str, of: Callable[[Place], tuple[float | None, float | None]]) -> Grid:
        rows = tuple(
            (
                f"{rate} Mbit/s",
                *("|".join(map(_short, of((buffer, rate, rtt)))) for rtt in rtts),
            )
            for rate in rates
        )
        return Grid(
            f"{buffer} KiB: {title}; narrows|published", ("", *(f"{rtt} ms" for rtt in rtts)), rows
        )

    def again_of(cc: str) -> Callable[[Place], tuple[float | None, float | None]]:
        return lambda place: (_ours(by[cc][place]), _theirs(by[cc][place]))

    return [
        panel(
            "gain of BBR over CUBIC in %",
            lambda place: (gains[place], published.get(place)),
        ),
        panel("retransmits of BBR", again_of("bbr")),
        panel("retransmits of CUBIC", again_of("cubic")),
        panel(
            "retransmits of BBR / CUBIC",
            lambda place: (_ratio(by, place, _ours), _ratio(by, place, _theirs)),
        ),
    ]


def _short(value: float | None) -> str:
    """A number in at most four characters, with `k` for thousands.

    >>> [_short(one) for one in (None, 0, 7.3, -34.0, 471, 3540.0, 235798)]
    ['–', '0', '7.3', '−34', '471', '3.5k', '236k']
    """
    if value is None:
        return "–"
    if abs(value) >= 10_000:  # noqa: PLR2004
        return f"{value / 1000:.0f}k"
    if abs(value) >= 1000:  # noqa: PLR2004
        return f"{value / 1000:.1f}k".replace("-", "−")
    few = abs(value) < 10 and value != int(value)  # noqa: PLR2004
    return f"{value:{'.1f' if few else '.0f'}}".replace("-", "−")


_BUFFERS = ("10kB", "20kB", "50kB", "100kB", "200kB", "500kB", "1MB", "2MB", "5MB", "10MB")
_BDP_BYTES = 2.5e6
_BYTES = {"kB": 1e3, "MB": 1e6}
_HALF = 50.0


def _in_bdp(buffer: str) -> float:
    """A buffer size in multiples of the bandwidth-delay product of 1 Gbit/s and 20 ms."""
    return float(buffer[:-2]) * _BYTES[buffer[-2:]] / _BDP_BYTES


def share_by_buffer(lab: Lab) -> dict[str, float]:
    """Share of one BBR flow in the goodput beside one CUBIC flow, for several buffer sizes."""
    cases = {
        buffer: Scenario(
            Path(rate="1Gbit", rtt="20ms", buffer=buffer),
            flows=[Flow("bbr"), Flow("cubic")],
            host=Host(like="linux-4.15"),
            duration=lab.seconds(60),
            warmup="0s",
        )
        for buffer in (_BUFFERS[::3] if lab.quick else _BUFFERS)
    }
    found = lab.play(cases, seeds=3, partial=True)
    rows = []
    shares: dict[str, float] = {}
    for buffer, runs in found.items():
        if not runs:
            rows.append((buffer, f"{_in_bdp(buffer):.3g}", *["–"] * 5))
            continue
        shares[buffer] = mid(runs, part("bbr"))
        figures = (
            shares[buffer],
            mid(runs, goodput(0)),
            mid(runs, goodput(1)),
            mid(runs, again("bbr")),
            mid(runs, again("cubic")),
        )
        rows.append((buffer, f"{_in_bdp(buffer):.3g}", *map(_short, figures)))
    heads = ("buffer", "BDP", "BBR's share, %", "BBR, Mbit/s", "CUBIC, Mbit/s")
    lab.tables.append(
        Grid("Shares", (*heads, "BBR's retransmits", "CUBIC's retransmits"), tuple(rows))
    )
    ours = {}
    for id_, buffer, other in (
        ("bbr-10kB", "10kB", False),
        ("cubic-10MB", "10MB", True),
    ):
        if buffer in shares:
            ours[id_] = 100 - shares[buffer] if other else shares[buffer]
        else:
            lab.failed[id_] = "no run of this engine was trusted"
    equal = crossing([(_in_bdp(buffer), share) for buffer, share in shares.items()])
    if equal is None:
        lab.failed["equal"] = "not found: BBR's share does not cross one half between these buffers"
        return ours
    return ours | {"equal": equal}


def crossing(points: list[tuple[float, float]]) -> float | None:
    """Largest buffer size at which a share in % falls below 50 %, interpolated in the logarithm of
    the size; None if there is none.

    >>> round(crossing([(0.1, 90.0), (1.0, 60.0), (10.0, 40.0)]), 2)
    3.16
    >>> crossing([(0.1, 90.0), (1.0, 60.0)]) is None
    True
    """
    for (low, more), (high, less) in reversed(list(pairwise(points))):
        if more >= _HALF > less:
            share = (more - _HALF) / (more - less)
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return None
