"""Experiments that users published about one path. They are a web page beside downloads, goodput by
loss and RTT, and a server that changed from CUBIC to BBR.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from narrows.reproduce.lab import Grid, Lab, Runs, counted, finished, goodput, mid
from narrows.runs.model import RunJson, measured
from narrows.runs.scenario import Flow, Hop, Path, Ping, Scenario

_OBJECTS, _PAGE_BYTES, _PAGE_MBIT = 62, 1_800_000, 20.0
_PAGE_START_S = 10
_PAGE_S = {"alone": 30, "loaded": 420}
"""Duration of each run, in s."""
_LIVE_PAGE_S = {"alone": 30, "loaded": 300}
"""The same for a live run, which does not end when its page completes. The longest accepted load
time is 280 s."""


def page(lab: Lab) -> dict[str, float]:
    """Load time of a web page, alone and beside twelve downloads, with its parts."""
    web: dict[str, bool | int | float | str | list[str]] = {
        "kind": "web",
        "objects": _OBJECTS,
        "total": f"{_PAGE_BYTES}B",
        "fetch": "sequential",
        "tls": 0,
    }

    def fetched(downloads: int, duration_s: int) -> Scenario:
        flows = [Flow(workload=web, id="page", start=f"{_PAGE_START_S}s")]
        if downloads:
            flows.append(Flow("cubic", count=downloads))
        return Scenario(
            Path(rate=f"{_PAGE_MBIT:g}Mbit", rtt="45ms", buffer="2.5MB"),
            flows=flows,
            probes=[Ping()],
            duration=f"{duration_s}s",
            warmup="5s",
        )

    is_live = lab.engine.name == "live"
    longest_s = _LIVE_PAGE_S if is_live else _PAGE_S
    cases = {"alone": fetched(0, longest_s["alone"]), "loaded": fetched(12, longest_s["loaded"])}
    # A live run takes as long as its duration: one seed takes five and a half minutes.
    found = lab.play(cases, seeds=1 if is_live else 6, quick_seeds=1 if is_live else 2)
    ours: dict[str, float] = {}
    for name, runs in found.items():
        ours |= lab.median_time(name, runs, _load_s, longest_s[name] - _PAGE_START_S)
    if lab.failed:
        dependent = ("factor", "not-bytes", "before-data", "set-up", "queue")
        lab.failed |= dict.fromkeys(dependent, next(iter(lab.failed.values())))
        return ours
    ours["factor"] = ours["loaded"] / ours["alone"]
    bytes_s = _PAGE_BYTES * 8 / _PAGE_MBIT / 1e6
    ours["not-bytes"] = 100 * (1 - bytes_s / ours["loaded"])
    ours["before-data"] = 100 * mid(found["loaded"], _share("before_data_share"))
    ours["set-up"] = 100 * mid(found["loaded"], _share("setup_share"))
    ours["queue"] = mid(found["loaded"], lambda one: measured(one["probes"][0]["rtt_ms"]["p50"]))
    heads = ("page", "load time, s", "look-ups and handshakes, s", "waiting, s", "receiving, s")
    rows = tuple(
        (
            name,
            _text(ours[key]),
            *(_text(mid(found[key], _share(part))) for part in _PARTS),
        )
        for key, name in (("alone", "alone"), ("loaded", "beside 12 downloads"))
    )
    lab.tables.append(Grid("Parts of the page load time, medians over the seeds", heads, rows))
    return ours


_PARTS = ("setup_s", "waiting_s", "receiving_s")


def _load_s(figures: RunJson) -> float:
    """Median load time of the pages of the first flow, in s; infinite if no page completed."""
    loaded = figures["flows"][0]["workload"]["page_load_s"]["p50"]
    return math.inf if loaded is None else float(loaded)


def _share(key: str) -> Callable[[RunJson], float]:
    return lambda figures: float(figures["flows"][0]["workload"][key] or 0.0)


def _text(value: float) -> str:
    """A number with three significant digits, or without a fraction from 100 on.

    >>> _text(0.0345), _text(94.27), _text(12345.6)
    ('0.0345', '94.3', '12346')
    """
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004


_LOSSES_PCT, _RTTS_MS = (0, 5, 10, 20, 40), (3, 50, 100, 200)
_LONGEST_S = 1200
_SHORTER_S = {"bbr": 120, "cubic": 450}
"""Duration of a live run, in s, which does not end when its transfer completes."""


def loss_by_rtt(lab: Lab) -> dict[str, float]:
    """Goodput of BBR and CUBIC for each loss rate and RTT, and completion time of the transfer of
    an image of 1 MB.
    """

    def bulk(cc: str, loss: int, rtt: int) -> Scenario:
        return Scenario(
            Path(
                rate="100Mbit",
                rtt=f"{rtt}ms",
                buffer="1000p",
                loss=f"{loss}%" if loss else None,
            ),
            flows=[Flow(cc)],
            duration=lab.seconds(10, 5),
            warmup="0s",
            start_jitter="0s",
        )

    def image(cc: str, *, acks: bool) -> Scenario:
        back = Hop(rate="1Gbit", buffer="1000p", loss="20%") if acks else None
        return Scenario(
            Path(rate="20Mbit", rtt="200ms", buffer="500000B", loss="20%", reverse=back),
            flows=[Flow(cc, size="1000000B")],
            duration=f"{_limit_s(lab, cc)}s",
            start_jitter="0s",
        )

    cells = {
        (cc, loss, rtt): bulk(cc, loss, rtt)
        for cc in ("bbr", "cubic")
        for loss in (_LOSSES_PCT[::2] if lab.quick else _LOSSES_PCT)
        for rtt in (_RTTS_MS[::2] if lab.quick else _RTTS_MS)
    }
    got = lab.play(cells, seeds=3, quick_seeds=3, partial=True)
    middle = {key: mid(runs, goodput()) for key, runs in got.items() if runs}
    for cc in ("bbr", "cubic"):
        lab.tables.append(_losses(cc, got))
    seeds = 3 if lab.engine.name == "live" else 20
    images = {
        f"1MB-{cc}{'-acks' if acks else ''}": image(cc, acks=acks)
        for cc in ("bbr", "cubic")
        for acks in (False, True)
    }
    times = lab.play(images, seeds=seeds, quick_seeds=3, partial=True)
    for name in images:
        if not times[name]:
            lab.failed[name] = "no run of this engine was trusted"
    lab.tables.append(_spread(lab, times))
    ours: dict[str, float] = {}
    for name, runs in times.items():
        if not runs:
            continue
        longest_s = _limit_s(lab, name.split("-")[1])
        if longest_s < _LONGEST_S:
            ours |= lab.median_time(name, runs, finished(longest_s), longest_s)
        else:
            # A time-out agrees with the publication, whose range ends at this time.
            ours[name] = mid(runs, finished(longest_s))
    for cc in ("bbr", "cubic"):
        if (cc, 5, 100) in middle:
            ours[f"{cc}-5-100"] = middle[cc, 5, 100]
    pairs = [
        (middle["bbr", loss, rtt], middle["cubic", loss, rtt])
        for cc, loss, rtt in middle
        if cc == "bbr" and loss and ("cubic", loss, rtt) in middle
    ]
    if pairs:
        ours["bbr-wins"] = 100 * sum(bbr > cubic for bbr, cubic in pairs) / len(pairs)
    return ours


def _limit_s(lab: Lab, cc: str) -> int:
    """Duration of a run with a transfer, in s."""
    return _SHORTER_S[cc] if lab.engine.name == "live" else _LONGEST_S


def _losses(cc: str, got: dict[tuple[str, int, int], Runs]) -> Grid:
    """Table of the goodput of a congestion control: median and range over the runs."""
    losses, rtts = sorted({key[1] for key in got}), sorted({key[2] for key in got})

    def cell(loss: int, rtt: int) -> str:
        values = sorted(map(goodput(), got[cc, loss, rtt]))
        if not values:
            return "–"
        return f"{_text(median(values))} ({_text(values[0])} to {_text(values[-1])})"

    return Grid(
        f"{cc.upper()}: goodput in Mbit/s, median of "
        f"{counted(len(runs) for key, runs in got.items() if key[0] == cc)} (smallest to largest)",
        ("loss", *(f"{rtt} ms" for rtt in rtts)),
        tuple((f"{loss} %", *(cell(loss, rtt) for rtt in rtts)) for loss in losses),
    )


def _spread(lab: Lab, times: dict[str, Runs]) -> Grid:
    """Table of the completion times of the transfers."""

    def text(value: float, longest_s: int) -> str:
        return f"above {longest_s}" if math.isinf(value) else _text(value)

    rows = []
    for name, runs in times.items():
        values = sorted(map(finished(math.inf), runs))
        if values:
            _, cc, *acks = name.split("-")
            limit = _limit_s(lab, cc)
            rows.append(
                (
                    cc.upper(),
                    "data and ACKs" if acks else "data",
                    str(len(values)),
                    text(values[0], limit),
                    text(median(values), limit),
                    text(values[-1], limit),
                )
            )
    heads = ("cc", "lost", "runs", "smallest, s", "median, s", "largest, s")
    return Grid("1 MB at 20 % loss and 200 ms: completion time", heads, tuple(rows))


_BEFORE_MBIT, _STEPS = 9.9, 12
_LEAST_PCT, _MOST_PCT = 1e-3, 10.0
_INTERVAL_S = 2.0


def before_and_after(lab: Lab) -> dict[str, float]:
    """Goodput of CUBIC and BBR at the loss rate at which CUBIC has its published goodput."""

    def over(cc: str, loss_pct: float) -> Scenario:
        return Scenario(
            Path(
                rate="41.1Mbit",
                rtt="30ms",
                buffer="1bdp",
                loss={"probability": f"{loss_pct:.4g}%", "per": "packet"},
            ),
            flows=[Flow(cc)],
            duration="30s",
            warmup="0s",
            start_jitter="0s",
        )

    def cubic(loss_pct: float) -> float:
        return mid(lab.play({"": over("cubic", loss_pct)}, simulated=True)[""], goodput())

    loss = falls_below(cubic, _BEFORE_MBIT, _LEAST_PCT, _MOST_PCT, 6 if lab.quick else _STEPS)
    if loss is None:
        why = (
            f"not found: the goodput of CUBIC does not cross {_BEFORE_MBIT:g} Mbit/s between "
            f"{_LEAST_PCT:g} and {_MOST_PCT:g} % loss"
        )
        lab.failed |= dict.fromkeys(("loss", "before", "after", "ratio", "spread"), why)
        return {}
    found = lab.play(
        {cc: over(cc, loss) for cc in ("cubic", "bbr")}, interval="100ms", partial=False
    )
    ours = {
        "loss": loss,
        "before": mid(found["cubic"], goodput()),
        "after": mid(found["bbr"], goodput()),
        "spread": mid(found["bbr"], _variation),
    }
    ours["ratio"] = ours["after"] / ours["before"]
    return ours


def falls_below(
    of: Callable[[float], float], value: float, least: float, most: float, steps: int
) -> float | None:
    """The argument between `least` and `most` at which a falling function falls below `value`, by
    bisection of its logarithm; None if there is none.

    >>> round(falls_below(lambda x: 1 / x, 4.0, 0.01, 10, 20), 3)
    0.25
    >>> falls_below(lambda x: 1 / x, 400.0, 0.01, 10, 20) is None
    True
    """
    if not of(least) >= value > of(most):
        return None
    low, high = math.log(least), math.log(most)
    for _ in range(steps):
        middle = (low + high) / 2
        if of(math.exp(middle)) >= value:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def _variation(figures: RunJson) -> float:
    """Largest goodput in an interval of 2 s divided by the smallest, without the first 2 s."""
    rows = figures["flows"][0]["series"]
    points: list[tuple[float, float]] = []
    for row in rows:
        if row[0] >= _INTERVAL_S * (len(points) + 1) - 1e-9:
            points.append((row[0], row[1]))
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(points)]
    return max(rates) / max(min(rates), 1e-9) if rates else math.inf
