"""Known faults of real stacks: an earlier release shows the fault, the corrected release does not.

The commands and the values are in docs/how-to/test-a-transport.md.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

import narrows as nw
from narrows.conform.running import conform
from narrows.conform.target import find
from narrows.models import plugins
from narrows.runs.scenario import from_tree

FAULTS = {
    "smoltcp 1154, window": ("smoltcp_0_13:cubic", "smoltcp:cubic", "initial-window"),
    "smoltcp 1154, losses": ("smoltcp_0_13:reno", "smoltcp:reno", "retransmits"),
}
"""Project and number of the pull request that corrected the fault; earlier and present transport;
check.
"""

SEGMENTS = (1 << 20) // 1460
"""Full segments in the send buffer of the adapter."""


def load(stack: str) -> None:
    """Loads the adapters of the earlier and of the present release."""
    for adapter in (f"earlier_{stack}", stack):
        if not list(plugins.ADAPTERS.glob(f"libnarrows_{adapter}.*")):
            pytest.skip(f"{adapter} is not built (make adapters ADAPTERS='{stack} earlier')")
        plugins.load(adapter)


@pytest.mark.parametrize(("earlier", "present", "name"), FAULTS.values(), ids=FAULTS)
def test_a_known_fault_fails_its_check(earlier: str, present: str, name: str) -> None:
    load(present.partition(":")[0])
    before, after = (conform(find(of), "basics", seeds=3, only=[name]) for of in (earlier, present))
    assert before.results[0].verdict == "fail", before.json()
    assert after.results[0].verdict == "pass", after.json()


def test_a_fast_retransmit_sent_the_whole_buffer() -> None:
    load("smoltcp")
    counts = {}
    for transport in ("smoltcp_0_13", "smoltcp"):
        path = {"rate": "1Gbit", "rtt": "20ms", "buffer": "2000p", "loss": 0.00002}
        flow = {"transport": transport, "cc": "none"}
        one = nw.run(from_tree({"duration": "10s", "path": path, "flow": [flow]}), seed=3)
        counts[transport] = one.flows[0]["retransmits"]
    assert 0 < counts["smoltcp"] < 20, counts
    assert counts["smoltcp_0_13"] >= SEGMENTS * counts["smoltcp"], counts


def test_retransmitted_segments_had_one_ack_per_second() -> None:
    load("smoltcp")
    times = {}
    for transport in ("smoltcp_0_13", "smoltcp"):
        path = {"rate": "1Gbit", "rtt": "20ms", "buffer": "2000p"}
        back = {"rate": "1Gbit", "loss": 0.3}
        flow = {"transport": transport, "cc": "none", "size": "20kB"}
        tree = {"duration": "20s", "path": {**path, "reverse": back}, "flow": [flow]}
        one = nw.run(from_tree(tree), seed=2)
        times[transport] = one.flows[0]["fct_s"] or 20.0
    # The timeouts are at 1 s, 2 s and 4 s.
    assert 2.0 < times["smoltcp"] < 2.2, times
    assert 4.0 < times["smoltcp_0_13"] < 4.2, times


def test_fast_convergence_reduced_the_window_twice() -> None:
    load("quinn")
    ratios: dict[str, list[float]] = {}
    for transport in ("quinn_0_11_14", "quinn"):
        path = {"rate": "200Mbit", "rtt": "100ms", "buffer": "2bdp", "loss": 0.0003}
        tree = {"duration": "60s", "path": path, "flow": [{"transport": transport, "cc": "cubic"}]}
        rows = nw.run(from_tree(tree), seed=1).columns("samples")
        windows = [
            float(cwnd)
            for t, cwnd in zip(rows["t_s"], rows["cwnd_packets"], strict=True)
            if t > 5 and cwnd
        ]
        ratios[transport] = [b / a for a, b in pairwise(windows) if b < 0.95 * a]
    # The window grows by up to 2 % between two samples.
    assert min(ratios["quinn"]) > 0.68, ratios
    # After a loss below the last maximum: 0.7 × (1 + 0.7) / 2 = 0.595.
    twice = [ratio for ratio in ratios["quinn_0_11_14"] if 0.57 < ratio < 0.63]
    assert len(twice) >= 5, ratios
