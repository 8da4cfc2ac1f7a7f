"""A training file, the specimens of its network model, and the score of a tree on them.

A specimen is a dumbbell: a rate, an RTT and a number of senders, drawn uniformly from the ranges of
the file. Each sender is alternately off and on, for exponentially distributed times. An on period
is a flow of its own with unlimited data. The sender's memory is therefore empty at its start. The
throughput of a sender is the data acknowledged in its on periods, divided by their length. Its
delay is the mean RTT, weighted by these data. Both are relative to the specimen: to the rate
divided by the number of senders, and to the base RTT.

Deviation from the paper: the senders' memories are sampled every 50 ms. The use of a rule is the
number of samples for which the tree selects it. The paper counts ACKs.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from narrows import _core
from narrows.errors import NarrowsError, ScenarioError
from narrows.json_object import JsonObject
from narrows.storage.text import name_of, text_of
from narrows.train import rules
from narrows.train.model import ResultJson, StepsJson, TaskJson, TrainingJson, UseJson

_SAMPLE_MS = 50
_LEAST_ON_S = 0.01
"""Shorter on periods are omitted, in s."""

_MOST_PERIODS = 50_000
"""Maximum mean number of on periods in a run. Each is a flow, and a scenario has at most 100 000.
"""

_MOST_STEPS = 8
"""Maximum number of geometric steps of a value in each direction."""

_NO_DATA = 1e-4
"""Throughput, relative to the fair share, of a sender that delivered no data."""

_RATES = {"kbit": 1e-3, "Mbit": 1.0, "Gbit": 1e3}
_STEPS: dict[str, StepsJson] = {
    "multiple": {"first": 0.01, "factor": 8, "count": 2, "least": 0, "most": 2},
    "increment": {"first": 1, "factor": 8, "count": 2, "least": -256, "most": 256},
    "intersend": {"first": 0.05, "factor": 8, "count": 2, "least": 0.05, "most": 100},
}
_KEYS: dict[str, dict[str, Any]] = {
    "network": {
        "rate": ["10Mbit", "20Mbit"],
        "rtt": ["100ms", "200ms"],
        "senders": [1, 16],
        "on": "5s",
        "off": "5s",
        "duration": "100s",
        "buffer": "1000p",
        "queue": "fifo",
    },
    "objective": {"alpha": 1.0, "beta": 1.0, "delta": 1.0},
    "search": {
        "seed": 1,
        "specimens": 16,
        "epochs_per_split": 4,
        **_STEPS,
        "shortlist": None,
    },
}
"""Sections and keys of a training file with their defaults, which are those of the paper."""


def load(file: str | Path) -> TrainingJson:
    """Reads a training file.

    Raises:
        NarrowsError: If it cannot be read, or is not valid. The message has a line for each error.
    """
    name = name_of(file)
    given = _core.toml_tables(text_of(file, "a training file"), name)
    wrong: list[str] = []
    merged: dict[str, dict[str, Any]] = {}
    for key in given:
        if key not in _KEYS and key != "title":
            wrong.append(f"`{key}` is not a key; write one of: title, {', '.join(_KEYS)}")
    for section, defaults in _KEYS.items():
        found = given.get(section, {})
        if not isinstance(found, dict):
            wrong.append(f"{section}: not a section; write [{section}]")
            continue
        wrong += [
            f"{section}.{key}: not a key of [{section}]; write one of: {', '.join(defaults)}"
            for key in found
            if key not in defaults
        ]
        merged[section] = {**defaults, **found}
    if not wrong:
        training = _checked(str(given.get("title", Path(file).stem)), merged, wrong)
    if wrong:
        raise NarrowsError("\n".join(f"{name}: {line}" for line in wrong))
    return training


def _checked(title: str, given: dict[str, dict[str, Any]], wrong: list[str]) -> TrainingJson:
    """The training with plain numbers; errors are added to `wrong`."""

    def value(place: str, convert: Any, least: float, fix: str) -> Any:  # noqa: ANN401
        section, key = place.split(".")
        try:
            found = convert(given[section][key])
        except (NarrowsError, TypeError, ValueError, AttributeError, KeyError, OverflowError):
            found = None
        numbers = found if isinstance(found, list) else [found]
        fits = found is not None and all(least <= x < math.inf for x in numbers)
        if not fits or numbers != sorted(numbers):
            wrong.append(f"{place}: not valid; write {key} = {fix}")
        return found

    def steps(key: str) -> StepsJson:
        found = given["search"][key]
        if not isinstance(found, dict) or any(one not in _STEPS[key] for one in found):
            wrong.append(f"search.{key}: write {key} = {{ first = 1, factor = 8, count = 2 }}")
            return _STEPS[key]
        merged = {**_STEPS[key], **found}
        numbers = all(_finite(x) for x in merged.values()) and isinstance(merged["count"], int)
        if not numbers or (
            merged["first"] <= 0
            or merged["factor"] <= 1
            or merged["count"] not in range(_MOST_STEPS + 1)
        ):
            wrong.append(
                f"search.{key}: `first` must be above 0, `factor` above 1, and `count` 0 to "
                f"{_MOST_STEPS}"
            )
        elif merged["least"] > merged["most"]:
            wrong.append(f"search.{key}: `least` must be at most `most`, {merged['most']:g}")
        return cast("StepsJson", merged)

    network = {
        "rate_mbit": value("network.rate", _range(_mbit), 1e-3, '["10Mbit", "20Mbit"]'),
        "rtt_ms": value("network.rtt", _range(_ms), 1e-3, '["100ms", "200ms"]'),
        "senders": value("network.senders", _range(_whole), 1, "[1, 16]"),
        "on_s": value("network.on", _core.seconds, 1e-3, '"5s"'),
        "off_s": value("network.off", _core.seconds, 0, '"5s"'),
        "duration_s": value("network.duration", _core.seconds, 1, '"100s"'),
        "buffer": given["network"]["buffer"],
        "queue": given["network"]["queue"],
    }
    search = {
        "seed": value("search.seed", _whole, 0, "1"),
        "specimens": value("search.specimens", _whole, 1, "16"),
        "epochs_per_split": value("search.epochs_per_split", _whole, 1, "4"),
        **{key: steps(key) for key in _STEPS},
    }
    shortlist = given["search"]["shortlist"]
    if shortlist is not None:
        try:
            search["shortlist"] = {key: _whole(shortlist[key]) for key in ("specimens", "keep")}
            fits = 0 < search["shortlist"]["specimens"] <= search["specimens"]
            fits = fits and search["shortlist"]["keep"] > 0
        except (KeyError, TypeError, ValueError):
            fits = False
        if not fits:
            wrong.append("search.shortlist: write shortlist = { specimens = 4, keep = 12 }")
    objective = {
        key: value(f"objective.{key}", _number, 0, str(usual))
        for key, usual in _KEYS["objective"].items()
    }
    training = {"title": title, "network": network, "objective": objective, "search": search}
    if not wrong:
        _check_specimen(cast("TrainingJson", training), wrong)
    return cast("TrainingJson", training)


def _check_specimen(training: TrainingJson, wrong: list[str]) -> None:
    """Adds the errors of a scenario of the training to `wrong`, under the keys of the file."""
    network: Any = training["network"]
    periods = network["senders"][1] * network["duration_s"] / (network["on_s"] + network["off_s"])
    if periods > _MOST_PERIODS:
        wrong.append(
            f"network.senders: they have {periods:.0f} on periods in a run, above "
            f"{_MOST_PERIODS}; write fewer senders, longer periods or a shorter duration"
        )
        return
    try:
        _core.scenario_defaults(specimen(training, "check", 0).scenario("small"))
    except ScenarioError as error:
        for one in error.errors:
            # The text begins with the key, which is one of the section [path] in a scenario.
            text = one.message.splitlines()[0].replace("path.", "network.", 1)
            wrong.append(f"{text}; write {one.fix}" if one.fix else text)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and value is not True and math.isfinite(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _range(convert: Any) -> Any:  # noqa: ANN401
    def both(value: object) -> list[Any]:
        ends = value if isinstance(value, list) else [value, value]
        if len(ends) != 2:  # noqa: PLR2004
            raise ValueError
        return [convert(end) for end in ends]

    return both


def _mbit(text: str) -> float:
    unit = next(unit for unit in (*_RATES, "") if text.endswith(unit))
    return float(text.removesuffix(unit)) * _RATES[unit]


def _ms(text: str) -> float:
    return _core.seconds(text) * 1e3


def digest(training: TrainingJson) -> str:
    """The SHA-256 of the settings of a training, without its title."""
    settings = {key: value for key, value in training.items() if key != "title"}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Specimen:
    """A network of the model.

    Attributes:
        rate_mbit: Rate of the link.
        rtt_ms: Base RTT.
        on: On periods of each sender: their start and end, in ms.
        network: The network model.
        seed: Seed of the run.
    """

    rate_mbit: float
    rtt_ms: float
    on: list[list[tuple[int, int]]]
    network: JsonObject
    seed: int

    def scenario(self, tree: str) -> JsonObject:
        """The scenario of the specimen, whose senders use the rules of `tree`."""
        return self.scenario_of({"kind": "remy", "tree": tree})

    def scenario_of(self, cc: str | JsonObject) -> JsonObject:
        """The scenario of the specimen, whose senders use `cc`."""
        duration_ms = round(self.network["duration_s"] * 1e3)
        flows: list[JsonObject] = []
        for sender, periods in enumerate(self.on):
            for number, (start, stop) in enumerate(periods):
                flow = {"cc": cc, "start": f"{start}ms", "id": f"{sender}-{number}"}
                flows.append(flow if stop >= duration_ms else {**flow, "stop": f"{stop}ms"})
        return {
            "duration": f"{duration_ms}ms",
            "warmup": "0s",
            "start_jitter": "0s",
            "path": {
                "rate": f"{round(self.rate_mbit * 1e6)}bit",
                "rtt": f"{round(self.rtt_ms * 1e3)}us",
                "buffer": self.network["buffer"],
                "queue": self.network["queue"],
            },
            "flow": flows,
        }


def specimen(training: TrainingJson, round_: str, number: int) -> Specimen:
    """The specimen with this number in a round of the search.

    It depends only on the file's seed, the round and the number.
    """
    network, seed = training["network"], training["search"]["seed"]
    draw = random.Random(f"{seed}/{round_}/{number}")
    rate = draw.uniform(*network["rate_mbit"])
    rtt = draw.uniform(*network["rtt_ms"])
    senders = draw.randint(*network["senders"])
    on = [_periods(draw, network) for _ in range(senders)]
    if not any(on):
        on[0] = [(0, round(network["duration_s"] * 1e3))]
    return Specimen(rate, rtt, on, cast("JsonObject", network), draw.getrandbits(32))


def _periods(draw: random.Random, network: Any) -> list[tuple[int, int]]:  # noqa: ANN401
    """The on periods of a sender, which begins off, in ms."""
    periods: list[tuple[int, int]] = []
    now = 0.0
    end = network["duration_s"]
    while True:
        now += draw.expovariate(1 / network["off_s"]) if network["off_s"] > 0 else 0.0
        lasts = draw.expovariate(1 / network["on_s"])
        if now >= end - _LEAST_ON_S:
            return periods
        if lasts >= _LEAST_ON_S:
            periods.append((round(now * 1e3), round(min(now + lasts, end) * 1e3)))
        now += lasts


def utility(x: float, alpha: float) -> float:
    """The utility `x^(1 − alpha) / (1 − alpha)`; `log x` for alpha = 1.

    >>> utility(math.e, 1), utility(4, 0.5)
    (1.0, 4.0)
    """
    return math.log(x) if alpha == 1 else x ** (1 - alpha) / (1 - alpha)


def senders(flows: list[JsonObject], of: Specimen) -> list[tuple[float, float]]:
    """Throughput and delay of each sender with an on period, relative to its fair share of the rate
    and to the base RTT.
    """
    mbit: dict[str, float] = defaultdict(float)
    on_s: dict[str, float] = defaultdict(float)
    waited: dict[str, float] = defaultdict(float)
    weight: dict[str, float] = defaultdict(float)
    for flow in flows:
        sender = flow["id"].split("-")[0]
        active = flow["active_s"] or 0.0
        data = (flow["active_goodput_mbit"] or 0.0) * active
        on_s[sender] += active
        mbit[sender] += data
        mean = (flow["rtt_ms"] or {}).get("mean")
        if mean is not None and data > 0:
            waited[sender] += mean * data
            weight[sender] += data
    found = []
    for sender, seconds in on_s.items():
        if seconds <= 0:
            continue
        share = mbit[sender] / seconds * len(of.on) / of.rate_mbit
        rtt = waited[sender] / weight[sender] if weight[sender] else seconds * 1e3
        found.append((max(share, _NO_DATA), max(rtt / of.rtt_ms, 1.0)))
    return found


def score_of(flows: list[JsonObject], of: Specimen, training: TrainingJson) -> float:
    """The mean of the objective over the senders of a run."""
    goal = training["objective"]
    return statistics.fmean(
        utility(throughput, goal["alpha"]) - goal["delta"] * utility(delay, goal["beta"])
        for throughput, delay in senders(flows, of)
    )


def evaluate(task: TaskJson) -> ResultJson:
    """Runs a tree on specimens. Equal tasks have equal scores and uses, on every machine."""
    begin = time.process_time()
    tree = rules.read(task["tree"]) if task["uses"] else None
    scores: list[float] = []
    seen: dict[int, list[tuple[float, ...]]] = defaultdict(list)
    for number in task["specimens"]:
        one = specimen(task["training"], task["round"], number)
        interval = f"{_SAMPLE_MS}ms" if tree else "off"
        run = _core.run_tree(
            one.scenario(task["tree"]),
            seed=one.seed,
            sample_interval=interval,
            states=tree is not None,
        )
        scores.append(score_of(json.loads(run.json())["flows"], one, task["training"]))
        if tree is not None:
            for memory in _memories(run):
                seen[rules.number_of(tree, memory)].append(memory)
    result: ResultJson = {"scores": scores, "cpu_s": 0.0}
    if tree is not None:
        result["uses"] = [_use(number, memories) for number, memories in sorted(seen.items())]
    result["cpu_s"] = time.process_time() - begin
    return result


def _use(number: int, memories: list[tuple[float, ...]]) -> UseJson:
    medians = [statistics.median(of) for of in zip(*memories, strict=True)]
    return {"rule": number, "count": len(memories), "medians": medians}


def _memories(run: _core.Run) -> list[tuple[float, ...]]:
    """The sampled memories of all senders, in the order of time."""
    columns = run.table("states").columns()
    by_sample: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for at, flow, name, value in zip(
        columns["t_s"], columns["flow"], columns["name"], columns["value"], strict=True
    ):
        if name in rules.AXES:
            by_sample[at, flow][name] = value
    whole = len(rules.AXES)
    return [
        tuple(memory[axis] for axis in rules.AXES)
        for memory in by_sample.values()
        if len(memory) == whole
    ]
