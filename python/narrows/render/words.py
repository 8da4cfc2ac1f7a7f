"""Describes the result of a run and its evidence in sentences. The core computes all values."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from narrows.storage.provenance import LIKE, follows_file, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from narrows.json_object import JsonObject
    from narrows.runs.model import EvidenceJson, FlowJson, QueueJson, RunJson, Spread

_FEW = 4
"""Maximum number of flows that are described individually."""

MOST_NAMES = 2
"""Maximum number of flows that are named at a node or a class; the rest is counted."""

_SAME, _NEAR = 0.05, 0.7
"""Distances between a scenario and a stored run. Up to `_SAME`, both are the same except for
rounding. `_NEAR` is a factor of two in one value.
"""

REFERENCE = "sim/tests/data/reference"
"""Folder of the repository that contains the stored runs."""

HALF = (
    "± is the half-width of the 95 % confidence interval of the mean; it is omitted if it rounds "
    "to 0."
)
"""The sentence below tables of means."""

_SHOWN = 0.01
"""Quantities that differ by at most this share of the larger value are not named as different."""

_MICROSECOND_MS = 1e-3
_LEAST_SHOWN_MS = 0.05


def number(value: float | None, digits: int = 1) -> str:
    """A number with `digits` digits after the point, or a dash if the value is missing.

    >>> number(18.26), number(None), number(-0.01), number(1234.5, 0)
    ('18.3', '–', '0.0', '1234')
    """
    # The addition turns -0.0 into 0.0, so that a rounded -0.01 has no sign.
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}"


def fine(value: float | None, digits: int) -> str:
    """A number with `digits` digits after the point. Below 1, it has at least two significant
    digits, but at most six digits after the point.

    >>> fine(18.26, 1), fine(0.0078, 2), fine(0.0, 2), fine(0.42, 0), fine(None, 1)
    ('18.3', '0.0078', '0.00', '0.42', '–')
    """
    if not value:
        return number(value, digits)
    return number(
        value,
        max(digits, min(6, 1 - math.floor(math.log10(abs(value))))) if abs(value) < 1 else digits,
    )


def with_half(value: float, half: float | None, most: int) -> str:
    """A mean with the half-width of its confidence interval. Both have as many decimal places as
    the first significant digit of the half-width needs, but at most `most`.

    >>> with_half(47.81234, 0.002, 2), with_half(42.4, 6.5, 0), with_half(1234.5, 140.0, 2)
    ('47.81', '42 ± 6', '1234 ± 140')
    """
    if half is None or half < 0.5 * 10.0**-most:
        return f"{value:.{most}f}"
    digits = min(most, max(0, -math.floor(math.log10(half))))
    return f"{value:.{digits}f} ± {half:.{digits}f}"


def millis(value: float | None) -> str:
    """A time in ms with one digit after the point, or three below 1 ms. A value above zero is never
    shown as zero.

    >>> millis(18.26), millis(0.0424), millis(0.0), millis(None)
    ('18.3', '0.042', '0.0', '–')
    >>> millis(0.00004), millis(1e-9)
    ('0.000040', '<0.000001')
    """
    if not value or abs(value) >= _MICROSECOND_MS / 2:
        return number(value, 3 if value and abs(value) < 1 else 1)
    text = fine(value, 3)
    return text if float(text) else "<0.000001"


def waited(value: float | None) -> str:
    """A delay in ms with one digit after the point, or more digits if one would show a delay above
    zero as zero.

    >>> waited(18.26), waited(0.42), waited(0.0424), waited(0.0), waited(None)
    ('18.3', '0.4', '0.042', '0.0', '–')
    """
    return number(value) if not value or abs(value) >= _LEAST_SHOWN_MS else millis(value)


def seconds(value: float | None) -> str:
    """A time in s with three digits after the point, or six below 0.01 s.

    >>> seconds(1.25), seconds(0.00065), seconds(None)
    ('1.250', '0.000650', '–')
    """
    return number(value, 6 if value and abs(value) < 0.01 else 3)  # noqa: PLR2004


def percent(share: float | None) -> str:
    """A share in %: without a fraction from 10 % on, with one digit after the point from 0.1 % on,
    else with two.

    >>> percent(0.953), percent(0.0012), percent(0.00021), percent(0.0), percent(None)
    ('95 %', '0.1 %', '0.02 %', '0 %', '–')
    """
    if share is None:
        return "–"
    of_hundred = 100 * share
    if of_hundred == 0:
        return "0 %"
    digits = 0 if of_hundred >= 10 else 1 if of_hundred >= 0.1 else 2  # noqa: PLR2004
    return f"{of_hundred:.{digits}f} %"


def plain(value: float) -> str:
    """A number with as many digits as necessary, at most six significant ones, and without an
    exponent.

    >>> plain(20.0), plain(2.5), plain(1e-06), plain(10_000_000.0)
    ('20', '2.5', '0.000001', '10000000')
    """
    short = f"{value:g}"
    return f"{value:.6f}".rstrip("0").rstrip(".") if "e" in short else short


def who(flows: Sequence[FlowJson]) -> str:
    """The flows, counted by congestion control.

    >>> who([{"cc": "cubic"}]), who([{"cc": "bbr"}, {"cc": "cubic"}, {"cc": "bbr"}])
    ('1 cubic flow', '2 bbr flows and 1 cubic flow')
    """
    parts = [
        f"{n} {cc} flow{'s' if n > 1 else ''}"
        for cc, n in Counter(flow["cc"] for flow in flows).items()
    ]
    return listed(parts) if parts else "Nobody"


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "rule"), counted(2, "rule"), counted(0, "rule")
    ('1 rule', '2 rules', '0 rules')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(parts: list[str], last: str = "and") -> str:
    """The parts, joined with commas and with `last` before the last part.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return f" {last} ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""


def some(ids: Sequence[str]) -> str:
    """The ids of flows, without those for which there is no room.

    >>> some(["a", "b"]), some(["a1", "a2", "a3", "b"])
    ('a, b', 'a1, a2 and 2 more')
    """
    shown = ", ".join(ids[:MOST_NAMES])
    left = len(ids) - MOST_NAMES
    return shown if left <= 0 else f"{shown} and {left} more"


def sentence(figures: RunJson) -> str:
    """Summary of a run in one sentence, as `narrows run` prints it."""
    flows = figures["flows"]
    delay = summarised(figures)[0]["delay_ms"]
    if not flows:
        parts = ["No flow sent data"]
    elif all(flow["goodput_mbit"] is None for flow in flows):
        parts = [f"{who(flows)} sent no data after the warm-up"]
    else:
        parts = _uses(figures)
        idle = sum(flow["goodput_mbit"] is None for flow in flows)
        parts += [f"{idle} of {len(flows)} flows sent no data after the warm-up"] if idle else []
    if delay and delay["mean"] is not None:
        where = f" of {summarised(figures)[0]['name']}" if has_links(figures) else ""
        parts.append(f"mean queueing delay{where} {_delays(figures)}")
    shares = (flow.get("summary_retransmit_rate", flow["retransmit_rate"]) for flow in flows)
    rates = [share for share in shares if share is not None]
    highest = max(rates, default=0.0)
    if highest:
        share = percent(highest)
        parts.append(
            f"{share} retransmitted"
            if len(flows) == 1
            else f"highest retransmission rate among the flows {share}"
        )
    elif rates:
        # The retransmission rate counts bytes of payload, and a SYN has none.
        bare = any(flow.get("summary_retransmits", flow["retransmits"]) for flow in flows)
        what = "only handshakes" if bare else "nothing"
        # The rate covers the time after the warm-up only, but drops are counted in the whole run.
        earlier = not bare and any(flow["retransmits"] for flow in flows)
        parts.append(f"{what} retransmitted{' after the warm-up' if earlier else ''}")
    return "; ".join(parts) + "."


def _delays(figures: RunJson) -> str:
    """The mean queueing delay and its 95th percentile; if flows use the reverse path, those of each
    direction.
    """
    down, up = summarised(figures)[0]["delay_ms"], None
    if not has_links(figures) and any(_ways_up(figures)):
        up = next(
            (queue["delay_ms"] for queue in figures["queues"] if queue["name"] == "reverse"), None
        )

    def told(delay: Spread, way: str = "") -> str:
        return f"{waited(delay['mean'])} ms{way} (p95 {waited(delay['p95'])} ms)"

    if up is None or up["mean"] is None:
        return told(down)
    return f"{told(down, ' down')} and {told(up, ' up')}"


def rate(figures: RunJson, *, reverse: bool = False) -> str:
    """The rate of the path with its unit. If saved tokens of a token bucket increase it by more
    than 0.5 %, they are mentioned.

    >>> rate({"path": {"rate_mbit": 26.1106, "capacity_mbit": 26.1106}})
    '26.11 Mbit/s'
    >>> rate({"path": {"rate_mbit": 10, "capacity_mbit": 10.4}})
    '10.4 Mbit/s (10 Mbit/s and saved tokens)'
    """
    mbit = figures["path"]["reverse_mbit" if reverse else "rate_mbit"]
    most = capacity(figures, reverse=reverse)
    if mbit and most and most > _TOKENS * mbit:
        return f"{_four(most)} Mbit/s ({_four(mbit)} Mbit/s and saved tokens)"
    return f"{_four(mbit)} Mbit/s"


_TOKENS = 1.005
"""Saved tokens of a token bucket are mentioned if they increase the rate by more than this factor.
"""


def _four(mbit: float) -> str:
    """A rate with four significant digits below 10 000 and at most six above; no exponent."""
    return plain(float(f"{mbit:.4g}")) if abs(mbit) < 1e4 else plain(mbit)  # noqa: PLR2004


def capacity(figures: RunJson, *, reverse: bool = False) -> float | None:
    """The maximum mean rate that the path allows over the time after the warm-up, in Mbit/s."""
    path = figures["path"]
    mbit: float | None = (
        path["reverse_mbit"] if reverse else path.get("capacity_mbit", path["rate_mbit"])
    )
    return mbit


def _arriving(figures: RunJson, *, reverse: bool = False) -> float | None:
    """The maximum mean rate of arriving data after the warm-up, in Mbit/s; goodput never exceeds
    it.
    """
    path = figures["path"]
    mbit = path.get("reverse_arriving_mbit") if reverse else path.get("arriving_mbit")
    return capacity(figures, reverse=reverse) if mbit is None else mbit


def has_links(figures: RunJson) -> bool:
    """Whether the scenario is a network of links, in which flows have different bottlenecks."""
    return "link" in figures["scenario"]


_SAME_LOAD = 0.01
"""Links are equally busy if their utilisation differs from the highest one by less than this share
of it."""


def summarised(figures: RunJson) -> tuple[QueueJson, int]:
    """The queue that the sentences about a run describe, and the number of equally busy links.

    In a network of links, this is the link with the highest utilisation. Of equally busy links, it
    is the one with the largest mean queueing delay. In other runs, it is the bottleneck.

    >>> links = [{"name": name, "utilisation": used, "delay_ms": {"mean": mean}}
    ...     for name, used, mean in (("a", 0.999, 0.01), ("b", 0.995, 1.4), ("c", 0.5, 9))]
    >>> queue, alike = summarised({"scenario": {"link": {}}, "queues": links})
    >>> queue["name"], alike
    ('b', 2)
    """
    if not has_links(figures):
        return figures["queue"], 1
    # The queues of hosts have no utilisation.
    links = [queue for queue in figures["queues"] if "utilisation" in queue] or figures["queues"]
    highest = max(queue.get("utilisation") or 0 for queue in links)
    near = [
        queue
        for queue in links
        if (used := queue.get("utilisation") or 0) == highest
        or highest - used < _SAME_LOAD * highest
    ]
    return max(near, key=lambda queue: queue["delay_ms"]["mean"] or 0), len(near)


def busiest(figures: RunJson) -> str:
    """The busiest link of a network; see `summarised`.

    >>> links = [{"name": name, "utilisation": used, "delay_ms": {"mean": mean}}
    ...     for name, used, mean in (("a", 0.999, 0.01), ("b", 0.995, 1.4), ("c", 0.5, 9))]
    >>> busiest({"scenario": {"link": {}}, "queues": links[1:]})
    'The busiest link, b, had a utilisation of 100 %'
    >>> busiest({"scenario": {"link": {}}, "queues": links})
    'Of the 2 busiest links (loads within 1 %), b had the largest mean queueing delay and ...'
    """
    link, alike = summarised(figures)
    name, used = link["name"], percent(link.get("utilisation") or 0)
    if alike == 1:
        return f"The busiest link, {name}, had a utilisation of {used}"
    return (
        f"Of the {alike} busiest links (loads within {100 * _SAME_LOAD:.0f} %), {name} had the "
        f"largest mean queueing delay and a utilisation of {used}"
    )


def _ways(figures: RunJson) -> tuple[list[FlowJson], list[FlowJson]]:
    """The flows with the direction `down` (downloads), and those with the direction `up`
    (uploads).
    """
    written = figures["scenario"].get("flow", [])
    ups = [flow.get("direction") == "up" for flow in written]
    down, up = (
        [flow for flow, is_up in zip(figures["flows"], ups, strict=True) if is_up == reverse]
        for reverse in (False, True)
    )
    return down, up


def _used(
    figures: RunJson, flows: list[FlowJson], both: list[FlowJson], *, reverse: bool = False
) -> str:
    """The sentence about the share of a direction's rate that its flows used. `both` are flows of
    the other direction whose application also sends in this direction.
    """
    mean = " on average" if figures["path"]["varies"] and not reverse else ""
    senders = [who(flows)] if flows or not both else []
    senders += [f"the uploads of {who(both)}"] if both else []
    return (
        f"{listed(senders)} used {percent(_share(figures, flows, both, reverse=reverse))} of "
        f"{rate(figures, reverse=reverse)}{mean}"
    )


def _share(
    figures: RunJson, flows: list[FlowJson], both: list[FlowJson], *, reverse: bool
) -> float | None:
    """The share of a direction's rate that its flows used; see `_used`."""
    mbit = _arriving(figures, reverse=reverse)
    total = sum(flow["goodput_mbit"] or 0 for flow in flows)
    total += sum(flow["workload"]["up_mbit"] or 0 for flow in both)
    return total / mbit if mbit else None


def used(figures: RunJson, *, reverse: bool = False) -> float | None:
    """The share of the bottleneck's rate, or of the reverse hop's rate, that the flows used; None
    without flows of this direction.
    """
    flows, both = _ways_up(figures) if reverse else (_ways(figures)[0], [])
    return _share(figures, flows, both, reverse=reverse) if flows or both else None


def _uses(figures: RunJson) -> list[str]:
    """The sentences about the share of each direction's rate that the flows used; in a network, the
    busiest link.
    """
    if has_links(figures):
        return [busiest(figures)]
    down, _ = _ways(figures)
    up, both = _ways_up(figures)
    way = " down" if up or both else ""
    return [
        *([f"{_used(figures, down, [])}{way}"] if down or not up else []),
        *([f"{_used(figures, up, both, reverse=True)} up"] if up or both else []),
    ]


def _ways_up(figures: RunJson) -> tuple[list[FlowJson], list[FlowJson]]:
    """The uploads, and the downloads whose application also sends. The goodput of the latter counts
    what their client receives.
    """
    down, up = _ways(figures)
    return up, [flow for flow in down if flow.get("workload", {}).get("up_mbit")]


def fairness(figures: RunJson) -> str:
    """Jain's fairness index for each direction in which several flows with a congestion control
    share the path; empty if there is no such direction.

    Streams of datagrams are left out, because they do not adapt to others. Flows of opposite
    directions do not share a link.

    >>> down, up = {"flows": 2, "jain": 0.98}, {"flows": 3, "jain": 1}
    >>> fairness({"fairness": {"by_direction": {"down": down}}})
    '0.980'
    >>> fairness({"fairness": {"by_direction": {"down": down, "up": up}}})
    '0.980 down and 1.000 up'
    >>> fairness({"fairness": {"by_direction": {"down": {"flows": 1, "jain": 1}, "up": up}}})
    '1.000 up'
    """
    parts = figures["fairness"]["by_direction"].items()
    of = {
        direction: part["jain"]
        for direction, part in parts
        if part["flows"] > 1 and part["jain"] is not None
    }
    told = [
        number(jain, 3) if set(of) == {"down"} else f"{number(jain, 3)} {direction}"
        for direction, jain in sorted(of.items())
    ]
    return listed(told)


def answer(figures: RunJson) -> list[str]:
    """The sentences at the top of a report page: goodput and shares, queueing delay, losses,
    completed transfers, notices.
    """
    flows = figures["flows"]
    told = [_shares(figures), _latency(figures), _losses(figures)]
    if flows and any(flow["fct_s"] is not None for flow in flows):
        done = [flow["fct_s"] for flow in flows if flow["fct_s"] is not None]
        sized = sum("size" in flow for flow in figures["scenario"]["flow"])
        told.append(
            f"{len(done)} of {sized} transfers completed, the slowest after {seconds(max(done))} s."
        )
    told += [f"Note: {notice}" for notice in figures.get("notices", [])]
    return [sentence for sentence in told if sentence]


def _shares(figures: RunJson) -> str:
    flows = figures["flows"]
    spoke = [flow for flow in flows if flow["goodput_mbit"] is not None]
    if not flows:
        return "No flow sent data."
    if not spoke:
        return f"{who(flows)} sent no data after the warm-up."
    groups = figures["fairness"]["by_cc"]
    total = sum(group["goodput_mbit"] or 0 for group in groups.values())
    if len(spoke) == 1:
        one = spoke[0]
        reverse = one in _ways(figures)[1]
        mbit = _arriving(figures, reverse=reverse)
        if has_links(figures):
            return f"{one['id']} had a goodput of {number(total, 2)} Mbit/s. {busiest(figures)}."
        return (
            f"{one['id']} had a goodput of {number(total, 2)} Mbit/s, which is "
            f"{percent(total / mbit if mbit else None)} of {rate(figures, reverse=reverse)}."
        )

    def share(mbit: float) -> str:
        return f"{number(mbit, 2)} Mbit/s ({percent(mbit / total if total else None)})"

    if len(spoke) <= _FEW:
        shares = listed([f"{flow['id']} {share(flow['goodput_mbit'] or 0)}" for flow in spoke])
    else:
        shares = listed([
            f"{group['flows']} {cc} flow{'s' if group['flows'] > 1 else ''} "
            f"{share(group['goodput_mbit'] or 0)}"
            for cc, group in groups.items()
        ])  # fmt: skip
    told = fairness(figures)
    index = f" (Jain's index {told})" if told else ""
    uses = _uses(figures)
    if len(uses) > 1 or has_links(figures) or _ways(figures)[1]:
        return f"Goodput and share of the total: {shares}. {listed(uses)}{index}."
    mbit = _arriving(figures)
    used = percent(total / mbit if mbit else None)
    return (
        f"Goodput and share of the total: {shares}. Together they used {used} of "
        f"{rate(figures)}{index}."
    )


def _latency(figures: RunJson) -> str:
    queue, _ = summarised(figures)
    delay = queue["delay_ms"]
    where = f" of the link {queue['name']}" if has_links(figures) else ""
    if delay["mean"] is None:
        return f"No packet left the queue{where} after the warm-up."
    told = (
        f"The mean queueing delay{where} was {waited(delay['mean'])} ms, and the 99th percentile "
        f"{waited(delay['p99'])} ms"
    )
    answered = [probe for probe in figures["probes"] if probe["rtt_ms"]["p50"] is not None]
    if answered:
        # A ping crosses the path only, and not the additional RTT of single flows.
        base = f" (base RTT {figures['path']['rtt_ms']:g} ms)" if not has_links(figures) else ""
        told += f". The median RTT of the ping was {waited(answered[0]['rtt_ms']['p50'])} ms{base}"
    return told + "."


def _losses(figures: RunJson) -> str:
    flows = figures["flows"]
    again = sum(flow["retransmits"] for flow in flows)
    told = f"In the whole run, {_dropped(figures)}"
    return f"{told}; the senders retransmitted {again} packets." if flows else f"{told}."


def _dropped(figures: RunJson) -> str:
    """The packets that the queue of the bottleneck dropped and marked. In a network, they are those
    of all queues together and of the queue with the most drops.
    """
    if not has_links(figures):
        queue = figures["queue"]
        marks = f" and marked {queue['marks']}" if queue["marks"] else ""
        return f"the queue dropped {queue['drops']} packets{marks}"
    queues = figures["queues"]
    drops, marked = (sum(q[of] for q in queues) for of in ("drops", "marks"))
    most = max(queues, key=lambda queue: queue["drops"])
    whose = f" ({most['drops']} of them in the queue of {most['name']})" if drops else ""
    marks = f" and marked {marked}" if marked else ""
    return f"all queues together dropped {drops} packets{whose}{marks}"


def how_sure(figures: RunJson) -> list[str]:
    """The sentences about the certainty of the results: comparisons with Linux, their limits, and
    random variation.
    """
    return [_evidence(figures), *_limits(figures)]


def _evidence(figures: RunJson) -> str:
    cases = figures["provenance"]["evidence"]
    word = "these results have not been compared with Linux"
    if cases is None:
        return f"No reference runs are stored with this copy of narrows: {word}."
    if not cases:
        like = figures["scenario"]["host"]["like"]
        if like != LIKE:
            return (
                f"The hosts follow the rules of {like}, but all stored runs are of Linux 6.12: "
                f"{word}."
            )
        ccs = listed(sorted({flow["cc"] for flow in figures["flows"]}))
        return (
            f"There is no stored run of Linux 6.12 with {ccs or 'no flow'} over {_path(figures)}, "
            f"so {word}."
        )
    near = cases[0]
    agreed = "The simulator reproduces that run: " + (
        "every compared metric is within its tolerance"
        if near["agreement"] == 1
        else f"{percent(near['agreement'])} of the compared metrics are within their tolerances"
    )
    if near["distance"] <= _SAME:
        return (
            f"A stored run of Linux 6.12 ({near['case']} in {REFERENCE}) has the same queue "
            f"discipline. Its rate, RTT and buffer differ by at most {100 * _SAME:.0f} %. {agreed}."
        )
    unlike = listed(differences(near, numbers(figures)))
    text = (
        f"The nearest stored run of Linux 6.12 ({near['case']} in {REFERENCE}) has {unlike}. "
        f"{agreed}."
    )
    if near["distance"] <= _NEAR:
        return text
    return (
        f"{text} That path differs much from this one, so rely on the direction of the results "
        "rather than on the exact numbers."
    )


_LONG = 100
"""Largest number of characters of a queue discipline and its parameters in a sentence. The classes
of a tree have thousands.
"""


def _path(figures: RunJson) -> str:
    """The features of the path that determine its comparable runs, in words."""
    if "wifi" in figures["scenario"]:
        return "a Wi-Fi network"
    if has_links(figures):
        return "a network of links"
    path = figures["scenario"]["path"]
    if follows_file(path):
        return "a path with a trace"
    here = numbers(figures)
    limit = "its default limit" if here["buffer_bdp"] is None else "a buffer that the scenario sets"
    policer = [f"the policer {here['policer']}"] if here["policer"] else []
    queue = here["queue"]
    if len(queue) > _LONG:
        queue = f"{queue.partition(' ')[0]} as the scenario configures it"
    parts = [f"the queue discipline {queue}", limit, *policer, *here["besides"]]
    return f"a path with {listed(parts)}"


def differences(case: EvidenceJson, here: JsonObject) -> list[str]:
    """The quantities in which the path of a stored run differs from that of this run, in words.

    >>> case = {"rate_mbit": 50, "rtt_ms": 80, "buffer_bdp": 1.0, "headroom": 1, "loss": 0,
    ...     "policer": None}
    >>> differences(case, case | {"rtts_ms": [80.0], "rate_mbit": 100.0, "loss": 0.01})
    ['a rate of 50 instead of 100 Mbit/s', 'a random loss of 0 instead of 1 %']
    """
    farthest = max(here["rtts_ms"], key=lambda rtt: abs(math.log(rtt / case["rtt_ms"])))
    room = "burst" if case["policer"] else "buffer"
    pairs = (
        ("rate", case["rate_mbit"], here["rate_mbit"], "Mbit/s"),
        ("base RTT", case["rtt_ms"], farthest, "ms"),
        (room, case["buffer_bdp"] or 0.0, here["buffer_bdp"] or 0.0, "BDP"),
        ("link rate", case["headroom"] or 0.0, here["headroom"], "times the rate of the policer"),
        ("random loss", 100 * case["loss"], 100 * here["loss"], "%"),
    )
    return [
        f"a {what} of {its:.3g} instead of {own:.3g} {unit}"
        for what, its, own, unit in pairs
        if abs(its - own) > _SHOWN * max(its, own)
    ]


def _limits(figures: RunJson) -> list[str]:
    scenario, told = figures["scenario"], []
    if figures["provenance"]["evidence"]:
        told.append(
            "Similarity considers congestion controls, queue, policer, other path elements, rate, "
            "RTT, buffer and "
            "random loss. It does not consider the number of flows, the amount of data, or other "
            "host settings."
        )
    jitter = scenario["start_jitter"]
    starts = (
        "" if float(jitter.rstrip("nums")) == 0 else f" Start times are random within {jitter}."
    )
    told.append(
        f"One run with one seed ({figures['seed']}).{starts} Another seed may give other shares."
    )
    told.append("This is a simulation; no packets were sent over a network.")
    return told


def called(name: str) -> str:
    """The name of a run in a sentence: the title of a scenario is in quotes, a file name is not.

    >>> called("One CUBIC flow"), called("small.toml")
    ('"One CUBIC flow"', 'small.toml')
    """
    return name if name.endswith(".toml") else f'"{name}"'


def comparison(runs: list[tuple[str, RunJson]]) -> str:
    """Comparison of several runs in one sentence: highest goodput, lowest queueing delay. Runs are
    equal if their values are equal as printed.
    """
    goodputs = [
        (name, number(goodput, 2), goodput)
        for name, f in runs
        for goodput in [sum(g["goodput_mbit"] or 0 for g in f["fairness"]["by_cc"].values())]
    ]
    delays = [
        (name, waited(mean), mean)
        for name, f in runs
        if (mean := summarised(f)[0]["delay_ms"]["mean"]) is not None
    ]
    where = " of the busiest link" if any(has_links(f) for _, f in runs) else ""
    most, text = _holders(goodputs, max)
    same = len(most) == len(runs)
    told = f"Of these {len(runs)} runs, " + (
        f"all have the same goodput ({text} Mbit/s)"
        if same
        else f"{_have(most)} the highest goodput ({text} Mbit/s)"
    )
    if not delays:
        return told + "."
    (least, low), (worst, high) = (_holders(delays, pick) for pick in (min, max))
    if low == high:
        whose = "the same" if same else "all have the same"
        return f"{told} and {whose} mean queueing delay{where} ({low} ms)."
    lowest = "the lowest" if least == most else f"{_have(least)} the lowest"
    return (
        f"{told} and {lowest} mean queueing delay{where} ({low} ms; highest: {high} ms in "
        f"{_several(worst)})."
    )


def _holders(
    rows: list[tuple[str, str, float]], pick: Callable[..., tuple[str, str, float]]
) -> tuple[list[str], str]:
    """The names of the runs whose value is printed like the extreme one, and this text. `rows` has
    the name, the printed value and the value of each run; `pick` is `min` or `max`.
    """
    text = pick(rows, key=lambda row: row[2])[1]
    return [name for name, shown, _ in rows if shown == text], text


def _several(names: list[str]) -> str:
    return (
        listed([called(name) for name in names]) if len(names) <= _FEW else f"{len(names)} of them"
    )


def _have(names: list[str]) -> str:
    return f"{_several(names)} {'has' if len(names) == 1 else 'have'}"
