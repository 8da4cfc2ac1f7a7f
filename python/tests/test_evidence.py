"""Evidence: which stored cases are similar to a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.storage.provenance import evidence


def evidence_of(
    path: dict[str, object], ccs: str = "cubic", **flow: object
) -> list[dict[str, Any]]:
    """The evidence that the package carries for one flow of each of `ccs` over a path; nothing is
    run.
    """
    flows = [{"cc": cc, **flow} for cc in ccs.split()]
    whole = path if "hop" in path else {"rate": "20Mbit", "rtt": "40ms"} | path
    tree = {"duration": "1s", "path": whole, "flow": flows}
    figures = {
        "flows": [{"cc": cc} for cc in ccs.split()],
        "scenario": tree | {"host": {"like": "linux-6.12"}},
    }
    found = evidence(figures)
    assert found is not None
    return found


POLICED = {"rate": "1Gbit", "rtt": "10ms", "policer": {"rate": "2Mbit", "burst": "62500B"}}


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ({"queue": "codel"}, "F-codel-c4"),
        ({"queue": {"kind": "codel", "target": "5ms"}}, "F-codel-c4"),
        (POLICED, "E-police-cubic1-10"),
        ({"rate": "2Mbit", "rtt": "50ms", "buffer": "128kB"}, "E-shape-cubic1-50"),
        ({"rate": "50Mbit", "rtt": "100ms", "buffer": "1bdp", "loss": "1%"}, "B-cubic-0.01"),
        ({"rate": "50Mbit", "rtt": "100ms", "buffer": "1bdp"}, "A-cubic-50-100-1"),
    ],
)
def test_a_similar_case_is_evidence(path: dict[str, object], nearest: str) -> None:
    assert (evidence_of(path)[0]["case"], evidence_of(path)[0]["distance"]) == (nearest, 0.0)


@pytest.mark.parametrize(
    "path",
    [
        {"link": {"kind": "shape_peak", "bc": "4kB", "be": "4kB"}},
        {"link": {"kind": "shape_average", "bc": "4kB"}},
        {"link": {"kind": "htb", "burst": "100kB"}},
        {"link": {"kind": "tbf", "burst": "100kB"}},
        {"policer": {"rate": "2Mbit", "burst": "62500B", "peakrate": "4Mbit", "mtu": "3000B"}},
        {"policer": {"rate": "50Mbit", "burst": "62500B"}},
        {"policer": {"kind": "cir", "cir": "2Mbit", "bc": "62500B"}},
        {"reverse": {"rate": "1Mbit"}},
        {"jitter": "1ms"},
        {"reorder": {"kind": "late", "probability": 0.01, "late": "1ms"}},
        {"duplicate": "1%"},
        {"corrupt": "1%"},
        {"steps": [{"at": "0.5s", "rate": "5Mbit"}]},
        {"outages": [{"at": "0.5s", "lasts": "0.1s"}]},
        {"loss": {"kind": "independent", "probability": 0.01, "per": "packet"}},
        {"loss": {"kind": "gilbert_elliott", "p": 0.01, "r": 0.3}},
        {"queue": {"kind": "codel", "target": "6ms"}},
        {"queue": {"kind": "codel", "ecn": True}},
        {"queue": "drr"},
    ],
    ids=str,
)
def test_a_path_without_a_similar_case_has_no_evidence(path: dict[str, object]) -> None:
    assert evidence_of(path if "queue" in path else {"buffer": "100kB"} | path) == []


def test_several_hops_have_no_evidence_of_a_single_hop() -> None:
    hop = {"rate": "20Mbit", "rtt": "40ms", "buffer": "100kB"}
    assert evidence_of({"hop": [hop]}) == evidence_of(hop) != []
    assert evidence_of({"hop": [hop, {"rate": "1Gbit", "rtt": "1us"}]}) == []


def test_ecn_and_congestion_controls_of_the_flows_are_compared() -> None:
    marking: dict[str, object] = {"queue": {"kind": "codel", "ecn": True}}
    assert "F-codel-ecn-c4" in [c["case"] for c in evidence_of(marking, ecn=True)]
    assert "F-codel-c4" not in [c["case"] for c in evidence_of(marking, ecn=True)]
    assert evidence_of({"buffer": "100kB"}, ecn=True) == []
    assert evidence_of({"buffer": "100kB"}) != []
    assert evidence_of({"buffer": "100kB"}, "reno bbr")[0]["cc"] == ["bbr", "reno"]
