"""The provenance of a result: the data needed to reproduce it, and the nearest reference cases."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING, Any

from narrows import _core, operating_system

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.runs.model import EvidenceJson, HostProvenanceJson, ProvenanceJson, RunJson

_PACKAGE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib loads slowly
EVIDENCE = f"{_PACKAGE}/_evidence.json"
"""File of the stored reference cases; the validation writes it."""

NEAREST = 3
"""Maximum number of reference cases in a result."""

LIKE = "linux-6.12"
"""Value of `host.like` of every stored case."""

KINDS = ("queue", "policer", "besides")
"""Keys whose values must be equal in a reference case and a result, in addition to the congestion
controls."""

ONE_LOST = 1e-5
"""One packet in 100 000: added to both shares of random loss before they are compared."""


class Watch:
    """Measures wall-clock and processor time since its construction."""

    def __init__(self) -> None:
        """Starts to measure both times."""
        self.start = time.gmtime()
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def read(self) -> tuple[float, float]:
        """Wall-clock and processor time since the construction, in s."""
        return time.perf_counter() - self._wall, time.process_time() - self._cpu


def files_sha256(files: Mapping[str, str]) -> dict[str, str]:
    """The SHA-256 hashes of the files that a scenario names, by these names.

    >>> files_sha256({"rates.csv": "t_s,rate_mbit"})["rates.csv"][:8]
    '00482029'
    """
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(files.items())}


_NAMING = (".trace.file", ".delay_trace.file", ".cc.tree", ".workload.sizes")
"""Ends of the keys of a scenario whose value may name a file."""


def scenario_sha256(scenario: JsonObject, files: Mapping[str, str] | None = None) -> str:
    """The SHA-256 hash of a scenario with its defaults filled in. It is the same for a scenario
    from a file and from Python objects.

    Files that it names count by their content, not by their location.

    >>> scenario_sha256({"b": 1, "a": 2}) == scenario_sha256({"a": 2, "b": 1})
    True
    """
    hashes = files_sha256(files or {})

    def named(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: named(part, f"{key}.{name}") for name, part in value.items()}
        if isinstance(value, list):
            return [named(part, key) for part in value]
        return (
            hashes.get(value, value) if isinstance(value, str) and key.endswith(_NAMING) else value
        )

    canonical = json.dumps(
        named(scenario), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def follows_file(path: JsonObject) -> bool:
    """Whether a hop of a path has its rates or delays from a file.

    >>> follows_file({"hop": [{"rate": "1Mbit"}, {"delay_trace": {"file": "delays.txt"}}]})
    True
    """
    hops = (path, path.get("reverse", {}), *path.get("hop", []))
    return any("trace" in hop or "delay_trace" in hop for hop in hops)


@lru_cache(maxsize=4)
def _cases(file: str, _changed_ns: int, _size: int) -> dict[tuple[str, ...], list[Any]]:
    """The cases of a file by their congestion controls. The result is cached, so that a program
    with many runs reads the file once.
    """
    found: dict[tuple[str, ...], list[Any]] = {}
    with open(file, "rb") as source:  # noqa: PTH123 - likewise
        for case in json.load(source)["cases"]:
            found.setdefault(tuple(sorted(case["cc"])), []).append(case)
    return found


def evidence(figures: RunJson, file: str | PathLike[str] = EVIDENCE) -> list[EvidenceJson] | None:
    """The reference cases nearest to a result, with their agreement; None if none are stored.

    The file holds `{"cases": [{"case", "cc": [names], "queue", "policer", "besides": [words],
    "rate_mbit", "rtt_ms", "buffer_bdp", "headroom", "loss", "agreement"}, …]}`. Only comparable
    cases are returned. A case must have the congestion controls of the result, and the same queue
    and policer with the same parameters. The other elements of the path (`besides`: a shaper,
    several hops, a reverse hop, jitter …) must also be equal.

    The distance is the sum of the absolute logarithms of the ratios of four quantities: rate, RTT,
    buffer and random loss. The RTT is that of the flow whose RTT differs most from the case. Behind
    a policer, the burst
    stands for the buffer, and the ratio of link rate and policer rate is a fifth quantity. One
    packet in 100 000 is added to each share of random loss. A `distance` of 0 means equal values;
    0.7 is a factor of two in one quantity. All cases are of one release of Linux. The list is empty
    for hosts like another release, and for Wi-Fi, networks of links and paths with a trace.
    """
    try:
        about = os.stat(file)  # noqa: PTH116 - pathlib loads slowly
    except OSError:
        return None
    cc = sorted({flow["cc"] for flow in figures["flows"]})
    if "wifi" in figures["scenario"] or "link" in figures["scenario"]:
        return []  # No stored case is one of a Wi-Fi or of a network of links.
    path = figures["scenario"]["path"]
    if follows_file(path):
        return []  # No stored case follows a file, and the file need not be here.
    here = numbers(figures)

    def apart(a: float | None, b: float | None) -> float:
        return abs(math.log(a / b)) if a and b else 0.0 if a == b else math.inf

    def distance(case: JsonObject) -> float:
        by_rtt = max(apart(rtt, case["rtt_ms"]) for rtt in here["rtts_ms"])
        by_loss = apart(here["loss"] + ONE_LOST, case["loss"] + ONE_LOST)
        return (
            by_rtt
            + by_loss
            + sum(apart(here[name], case[name]) for name in ("rate_mbit", "buffer_bdp", "headroom"))
        )

    if figures["scenario"]["host"]["like"] != LIKE:
        return []
    cases = _cases(os.fspath(file), about.st_mtime_ns, about.st_size)
    alike = [c for c in cases.get(tuple(cc), ()) if all(c[kind] == here[kind] for kind in KINDS)]
    near = [c | {"distance": round(distance(c), 3)} for c in alike]
    near = [c for c in near if math.isfinite(c["distance"])]
    return sorted(near, key=lambda c: (c["distance"], c["case"]))[:NEAREST]


def numbers(figures: RunJson) -> JsonObject:
    """The properties of the path of a result that `evidence` compares with the cases.

    Rule trees and flow sizes may be files that are not here. They are no properties of the path, so
    that those of narrows take their place.
    """
    scenario = figures["scenario"]
    flows = [
        {key: _without_file(value) for key, value in flow.items()}
        for flow in scenario.get("flow", ())
    ]
    return dict(_core.path_numbers({**scenario, "flow": flows} if flows else scenario))


_FILES = (("remy", "tree"), ("empirical", "sizes"))
"""Kind and parameter of the congestion controls and workloads whose parameter may name a file."""


def _without_file(value: object) -> object:
    if not isinstance(value, dict):
        return value
    left_out = {parameter for kind, parameter in _FILES if value.get("kind") == kind}
    return {key: part for key, part in value.items() if key not in left_out}


def of(figures: RunJson, watch: Watch, files: Mapping[str, str]) -> ProvenanceJson:
    """The provenance of a result.

    `watch` was constructed at the start of the run; `files` are the files that its scenario names.
    """
    about = of_host(watch)
    return {
        "version": about["version"],
        "seed": figures["seed"],
        "scenario_sha256": scenario_sha256(figures["scenario"], files),
        "files_sha256": files_sha256(files),
        "host": about["host"],
        "started": about["started"],
        "wall_s": about["wall_s"],
        "cpu_s": about["cpu_s"],
        "evidence": evidence(figures),
    }


def of_host(watch: Watch) -> HostProvenanceJson:
    """The part of the provenance that does not depend on a run: version, host and times."""
    wall, cpu = watch.read()
    system, release, _, machine = operating_system.machine()
    return {
        "version": _core.__version__,
        "host": {
            "platform": f"{system} {release} {machine}",
            "python": ".".join(map(str, sys.version_info[:3])),
            "cpus": os.cpu_count(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", watch.start),
        "wall_s": round(wall, 6),
        "cpu_s": round(cpu, 6),
    }
