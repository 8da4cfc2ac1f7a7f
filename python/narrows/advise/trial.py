"""One simulation of one candidate on one variant of the path: its scenario and its metrics.

A congestion control is simulated alone, beside one CUBIC flow, among three CUBIC flows, and with
pages. A queue or shaper is simulated with four CUBIC flows, with BBR and CUBIC flows together, and
with pages beside a flow. A ping every 20 ms measures the delay.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from narrows import _core
from narrows.advise.asked import Asked
from narrows.advise.candidates import Candidate
from narrows.advise.utility import PAGE_BYTES, PAGE_ROUNDS
from narrows.json_object import JsonObject
from narrows.runs.model import RunJson
from narrows.runs.run import Progress
from narrows.runs.scenario import Flow, Path, Ping, Scenario

PACKETS = 600_000_000
"""Packet budget of a search: about 150 s of one core. The budget shortens the simulations of fast
paths.
"""

LEAST_S, LEAST_RTTS = 3.0, 40
"""Minimum duration of a simulation that the budget shortens: in s, and in RTTs."""

RIVAL = "cubic"
"""The congestion control of the competing flows."""

AMONG = 3
"""Number of competing flows in the setting `among`."""

MIX = 4
"""Number of CUBIC flows in the setting `mix`."""

PAGES, THINK_S, PATIENCE = 3, 0.5, 6
"""Number of pages, pause between two pages, and maximum load time as a multiple of that on an empty
path.
"""

FRAME = 1514
"""Size of a full packet, bytes."""

SETTINGS = {"sender": ("alone", "beside", "among", "page"), "queue": ("mix", "rivals", "page")}
"""The settings for candidates that change flows (`sender`), and for those that change queues."""

SETTINGS_SAID = {
    "alone": "one flow alone",
    "beside": "one flow beside a CUBIC flow",
    "among": "one flow beside three CUBIC flows",
    "mix": "four CUBIC flows",
    "rivals": "CUBIC and BBR flows together",
    "page": "page loads",
}
"""The settings in words."""

OF_CARE: dict[str, dict[str, tuple[str, ...]]] = {
    "sender": {"bulk": ("alone", "beside"), "calls": ("alone",), "pages": ("page",),
    "fairness": ("beside",),
               "retransmissions": ("alone",)},
    "queue": {"bulk": ("mix",), "calls": ("mix",), "pages": ("page",), "fairness": ("rivals",),
              "retransmissions": ("mix",)},
}  # fmt: skip
"""The settings that each goal requires."""


def side(asked: Asked) -> str:
    """`sender` if candidates for the role change flows, `queue` if they change queues."""
    return "sender" if asked.role == "sender" else "queue"


@dataclass(frozen=True)
class Trial:
    """One simulation.

    Attributes:
        key: Key of the candidate.
        setting: One of `SETTINGS`.
        variant: Index of the variant of the path.
        seed: Seed of all random numbers.
        seconds: Duration, in s.
    """

    key: str
    setting: str
    variant: int
    seed: int
    seconds: int


def scenario(asked: Asked, candidate: Candidate, trial: Trial) -> Scenario:
    """The scenario of a trial."""
    place = asked.place
    path: Path = candidate.on(place.variants[trial.variant].path, place.rate_mbit)
    cc = candidate.cc or RIVAL
    probes = [Ping(interval="20ms")]
    flows = {
        "alone": [Flow(cc, id="it")],
        "beside": [Flow(cc, id="it"), Flow(RIVAL, id="rival")],
        "among": [Flow(cc, id="it"), Flow(RIVAL, id="rival", count=AMONG)],
        "mix": [Flow(RIVAL, id="it", count=MIX)],
        "rivals": [Flow("bbr", id="it"), Flow(RIVAL, id="rival")],
        "page": [
            Flow(cc, id="it", workload={"kind": "web", "pages": PAGES, "think": f"{THINK_S}s"}),
            *([] if asked.role == "sender" else [Flow(RIVAL, id="bulk")]),
        ],
    }[trial.setting]
    return Scenario(path, flows=flows, probes=probes, duration=f"{trial.seconds}s")


def page_seconds(rate_mbit: float, rtt_ms: float) -> int:
    """Duration of a simulation with pages, in s."""
    one = 8e-6 * PAGE_BYTES / rate_mbit + PAGE_ROUNDS * rtt_ms / 1000
    return math.ceil(max(10.0, PAGES * (PATIENCE * one + THINK_S)))


def packets(asked: Asked, trial: Trial) -> float:
    """Approximate number of packets of a trial, which determines its cost."""
    full = asked.place.rate_mbit * trial.seconds * 1e6 / 8 / FRAME
    if trial.setting == "page" and asked.role == "sender":
        # The path is idle between the pages.
        full = min(full, PAGES * PAGE_BYTES / FRAME)
    return full + 50 * trial.seconds


def affordable(asked: Asked, seconds: int, cost: Callable[[int], float], most: float) -> int:
    """The duration of each simulation, in s, such that all of them cost at most `most` packets.

    The result is at least the minimum duration, even if that costs more.

    Args:
        asked: The request.
        seconds: The intended duration, in s.
        cost: The number of packets of all simulations, by their duration in s.
        most: The maximum number of packets.
    """
    least = math.ceil(max(LEAST_S, LEAST_RTTS * asked.place.rtt_ms / 1000))
    while seconds > least and (packets := cost(seconds)) > most:
        # Pages have their own duration, so that one step may not suffice.
        seconds = max(least, min(seconds - 1, math.floor(seconds * most / packets)))
    return seconds


def play(
    asked: Asked, candidate: Candidate, trial: Trial, progress: Progress | None = None
) -> dict[str, float | None]:
    """The metrics of a trial, by name."""
    tree = scenario(asked, candidate, trial).tree()
    return figures(trial.setting, run(tree, trial.seed, progress))


def run(tree: JsonObject, seed: int, progress: Progress | None = None) -> RunJson:
    """Runs a scenario without samples, and returns its result."""
    done: RunJson = json.loads(
        _core.run_tree(tree, seed=seed, sample_interval="off", progress=progress).json()
    )
    return done


def figures(setting: str, done: RunJson) -> dict[str, float | None]:
    """The metrics that a run of this setting yields, by name."""
    flows = done["flows"]
    its = [flow for flow in flows if flow["id"].startswith("it")]
    rivals = [flow["goodput_mbit"] or 0.0 for flow in flows if flow["id"].startswith("rival")]
    own = math.fsum(flow["goodput_mbit"] or 0.0 for flow in its)
    p95 = done["probes"][0]["rtt_ms"]["p95"] if done["probes"] else None
    again = 100 * math.fsum(flow["run_retransmit_rate"] or 0.0 for flow in its) / len(its)
    total = own + math.fsum(rivals)
    if setting in {"alone", "mix"}:
        return {"goodput_mbit": own, "p95_ms": p95, "again_pct": again}
    if setting == "beside":
        share = 100 * own / total if total else None
        return {
            "beside_mbit": own,
            "rival_mbit": rivals[0],
            "share_pct": share,
            "beside_p95_ms": p95,
        }
    if setting == "rivals":
        share = 100 * own / total if total else None
        return {"rival_mbit": rivals[0], "rival_fair_mbit": total / 2, "share_pct": share}
    if setting == "among":
        times = (len(rivals) + 1) * own / total if total else None
        return {"times_fair": times, "others_mbit": math.fsum(rivals)}
    seen = its[0]["workload"]["page_load_s"]
    return {"page_s": seen["mean"]}
