"""Renders a path model as sentences, and adds it to a report page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.measure.result import LOADS
from narrows.render.words import listed, number, percent

if TYPE_CHECKING:
    from narrows.path_model import DirectionModel, Known, PathModel
    from narrows.render.model import PageRunJson


def known(value: Known, unit: str, digits: int, scale: float = 1.0) -> str:
    """A value with its interval.

    >>> from narrows.path_model import Known
    >>> known(Known(20.0, 19.5, 20.4), "Mbit/s", 1), known(Known(None, why="an AQM"), "kB", 0)
    ('20.0 Mbit/s (19.5 to 20.4)', 'unknown: an AQM')
    """
    if value.value is None:
        both = (("at least", value.low), ("at most", value.high))
        ends = [f"{word} {number(end * scale, digits)} {unit}" for word, end in both if end]
        return f"unknown{f' ({listed(ends)})' if ends else ''}: {value.why}"
    text = f"{number(value.value * scale, digits)} {unit}"
    if value.high is None:
        least = f" (at least {number(value.low * scale, digits)})" if value.low is not None else ""
        return f"{text}{least}{f': {value.why}' if value.why else ''}"
    if value.low is None:
        return text
    return f"{text} ({number(value.low * scale, digits)} to {number(value.high * scale, digits)})"


_KINDS = {
    "drop-tail": "drop-tail buffer",
    "policer": "policer",
    "aqm": "AQM with one queue for all flows",
    "fair": "fair queueing, one queue per flow",
}
_CERTAINTY = {"sure": "no other family of queue disciplines fits", "likely": "likely"}


_UNMEASURED = "unknown"


def model_lines(model: PathModel) -> list[str]:
    """The path model as lines of text."""
    out = [
        "Path model, with 90 % intervals in parentheses:",
        f"Base RTT: {known(model.rtt, 'ms', 2)}.",
    ]
    for name, direction in model.directions.items():
        out += [f"{LOADS[name].capitalize()} {line}" for line in _direction(direction)]
    out.append(f"Cross traffic: {_others(model)}.")
    marks = {
        "ECN negotiated": model.marks.get("negotiated"),
        "DSCP preserved by the path": model.marks.get("dscp_survives"),
    }
    ce = model.marks.get("ce_rate")
    if ce is None and all(told is None for told in marks.values()):
        # A simulated measurement reports none of these.
        return [*out, "ECN, DSCP and CE marks: not measured."]
    for what, told in marks.items():
        out.append(f"{what}: {_UNMEASURED if told is None else 'yes' if told else 'no'}.")
    out.append(f"CE marks: {_UNMEASURED if ce is None else percent(ce) + ' of packets'}.")
    return out


def _others(model: PathModel) -> str:
    """Whether cross traffic was detected; otherwise the directions for which this is unknown, or
    the limits of detection.
    """
    if model.others:
        return listed(
            list(
                dict.fromkeys(
                    f"detected: {one.others.why}"
                    for one in model.directions.values()
                    if one.others.seen
                )
            )
        )
    unknown = {
        name: one.others.why for name, one in model.directions.items() if one.others.seen is None
    }
    if not unknown:
        limits = [one.others.why for one in model.directions.values() if one.others.why]
        return f"none detected; {'; '.join(dict.fromkeys(limits))}" if limits else "none detected"
    directions = listed([LOADS[name] for name in unknown])
    return f"unknown ({directions}): {'; '.join(dict.fromkeys(unknown.values()))}"


def _direction(model: DirectionModel) -> list[str]:
    varies = {None: "", True: "; the rate varies", False: "; the rate is constant"}[model.varies]
    out = [f"bottleneck rate: {known(model.rate, 'Mbit/s', 2)}{varies}."]
    if model.rate.high is None and model.left.high is not None:
        out.append(f"rate available to this load: {known(model.left, 'Mbit/s', 2)}.")
    if model.sure == "cannot tell":
        return [*out, f"queue: unknown: {model.why}.", _loss(model)]
    sure = f"{_CERTAINTY.get(model.sure, model.sure)}{f': {model.why}' if model.why else ''}"
    out.append(f"queue: {_KINDS[model.family]} ({sure}).")
    if model.family == "drop-tail":
        out.append(f"buffer size: {known(model.depth, 'kB', 0, 1e-3)}.")
    if model.family in ("aqm", "fair"):
        out.append(f"most similar qdisc: {model.guess.kind}.")
        out.append(f"buffer size: unknown: {model.depth.why}.")
    if model.family == "policer":
        out.append(f"burst size: {known(model.burst, 'kB', 0, 1e-3)}.")
    return [*out, _loss(model)]


def _loss(model: DirectionModel) -> str:
    """A sentence about random loss: packet loss that the queue does not explain."""
    if model.loss.value is None:
        most = f" (at most {percent(model.loss.high)})" if model.loss.high else ""
        return f"random loss: unknown{most}: {model.loss.why}."
    if model.loss.value:
        ends = (
            ""
            if model.loss.high is None
            else f" ({percent(model.loss.low)} to {percent(model.loss.high)})"
        )
        return f"random loss: about {percent(model.loss.value)}{ends}."
    most = f" (at most {percent(model.loss.high)})" if model.loss.high else ""
    return f"random loss: none detected{most}."


def add_to_page(model: PathModel, run: PageRunJson) -> None:
    """Adds a path model to the entry of its measurement on a report page."""
    run["sure"] = [*run["sure"], *model_lines(model)]
    run["toml"] = run["canonical"] = model.toml()
