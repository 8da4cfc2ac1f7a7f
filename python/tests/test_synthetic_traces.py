"""`narrows new trace`: the synthetic traces have the properties that their module states."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import Cli

from narrows import _core
from narrows.errors import NarrowsError
from narrows.models.traces import (
    FRAME_BITS,
    KINDS,
    MOST_LINES,
    SLOT_MS,
    STATES,
    shares,
    synthetic,
)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_traces(kind: str) -> None:
    first, again, other = (synthetic(kind, duration="40s", seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first.capacity_text() == again.capacity_text()
    assert first.rates != other.rates


@pytest.mark.parametrize("kind", KINDS)
def test_the_packets_of_a_trace_are_the_integral_of_its_rate(kind: str) -> None:
    made = synthetic(kind, rate="7Mbit", duration="50s", seed=2)
    times = made.opportunities()
    frames = sum((end - at) * mbit * 1e3 / FRAME_BITS for at, end, mbit in made.spans())
    # The last line, which ends the repetition, may be one packet more.
    assert math.floor(frames) <= len(times) <= math.floor(frames) + 1
    assert times == sorted(times)
    assert times[-1] == made.duration_ms


def test_starlink_changes_rate_and_delay_at_each_handover() -> None:
    made = synthetic("starlink", rate="2Mbit", duration="2h", seed=5)
    slots = list(range(0, made.duration_ms, SLOT_MS))
    assert [at for at, _ in made.rates] == [at for at, _ in made.delays] == slots
    assert [begin for begin, _ in made.losses] == slots[1:]
    assert all(20 <= end - begin <= 120 for begin, end in made.losses)
    assert all(15 <= delay <= 35 for _, delay in made.delays)
    rates = [mbit for _, mbit in made.rates]
    assert all(0.8 <= mbit <= 3.2 for mbit in rates)
    # The standard deviation of a uniform number is its range over √12.
    deviation = 2.4 / math.sqrt(12 * len(rates))
    assert abs(sum(rates) / len(rates) - 2) < 4 * deviation


def test_5g_spends_the_expected_share_of_time_in_each_state() -> None:
    made = synthetic("5g", rate="1Mbit", duration="10h", seed=1)
    found = {state.delay_ms: [0.0] * 40 for state in STATES}
    batch_ms = made.duration_ms / 40
    delays = made.delays
    ends = [at for at, _ in delays[1:]] + [made.duration_ms]
    for (at, delay), end in zip(delays, ends, strict=True):
        found[delay][min(39, int(at / batch_ms))] += (end - at) / batch_ms
    for state, share in zip(STATES, shares(), strict=True):
        batches = found[state.delay_ms]
        mean = sum(batches) / 40
        error = math.sqrt(sum((x - mean) ** 2 for x in batches) / 39 / 40)
        assert abs(mean - share) < 4 * error, state.name
    mean = sum((end - at) * mbit for at, end, mbit in made.spans()) / made.duration_ms
    assert mean == pytest.approx(1, rel=0.03)


def test_shares_are_the_stationary_distribution_of_the_process() -> None:
    # The flow out of each state equals the flow into it.
    leaves = [share / state.mean_ms for share, state in zip(shares(), STATES, strict=True)]
    for j, rate in enumerate(leaves):
        enters = sum(leaves[i] * state.next[j] for i, state in enumerate(STATES))
        assert rate == pytest.approx(enters)
    assert sum(shares()) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scenario_runs_with_its_traces(command: Cli, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "link.toml"
    words = ["--rate", "8Mbit", "--duration", "32s", "--seed", "6"]
    written = command("new", "trace", kind, file, *words).stdout.splitlines()
    assert written[:3] == [str(tmp_path / n) for n in ("link.toml", "link.pps", "link-delays.txt")]
    figures = json.loads(command("run", file, "--json").stdout)
    made = synthetic(kind, rate="8Mbit", duration="32s", seed=6)
    warmup_ms = _core.seconds(figures["scenario"]["warmup"]) * 1000
    packets = sum(at > warmup_ms for at in made.opportunities())
    mbit = packets * FRAME_BITS / 1e3 / (made.duration_ms - warmup_ms)
    assert figures["path"]["rate_mbit"] == pytest.approx(mbit, rel=0.01)
    delays = [delay for _, delay in made.delays]
    back = {"starlink": 25, "5g": 10}[kind]
    assert figures["probes"][0]["rtt_ms"]["p50"] > min(delays) + back
    again = command("new", "trace", kind, file)
    assert (again.returncode, "link.toml: exists" in again.stderr) == (2, True)


def test_invalid_arguments_are_errors() -> None:
    for words, message in (
        ({"kind": "6g"}, "6g: is not a kind"),
        ({"kind": "5g", "duration": "0.5s"}, "1s to 24h"),
        ({"kind": "5g", "rate": "10Gbit"}, f"at most {MOST_LINES} packets"),
        ({"kind": "5g", "rate": "fast"}, "fast"),
    ):
        with pytest.raises(NarrowsError, match=message):
            synthetic(**words)
