"""The packet budget and the time limit of `narrows advise`."""

from __future__ import annotations

import json
import math
import time
from importlib import import_module

import pytest
from click.testing import CliRunner

from narrows.advise import Asked, Candidate, Found, advise, candidates, contract, search, stated
from narrows.advise import Kernel as Kernels
from narrows.advise import command as advise_command
from narrows.advise.render import sentences
from narrows.advise.search import ROUNDS
from narrows.advise.sensitivity import exceeds
from narrows.advise.sensitivity import sentences as boundaries
from narrows.advise.trial import PACKETS, Trial, packets
from narrows.advise.verdict import Advice
from narrows.errors import NarrowsError
from narrows.runs.run import Progress
from narrows.runs.scenario import Path

HAS = Kernels(ccs=("cubic", "bbr", "reno"), says="three")
VALUES = {
    "alone": {"goodput_mbit": 1.0, "p95_ms": 1.0, "again_pct": 0.0},
    "beside": {"beside_mbit": 1.0, "rival_mbit": 1.0, "share_pct": 50.0, "beside_p95_ms": 1.0},
    "among": {"times_fair": 1.0, "others_mbit": 3.0},
    "page": {"page_s": 1.0},
}


def asked(rate: str, rtt: str = "20ms", role: str = "sender") -> Asked:
    return Asked(place=stated(Path(rate=rate, rtt=rtt)), role=role, cares=("bulk",))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[Trial]:
    """The trials of a search, which take no time."""
    seen: list[Trial] = []

    def play(_asked: Asked, _one: Candidate, trial: Trial, _progress: Progress) -> dict[str, float]:
        seen.append(trial)
        return VALUES[trial.setting]

    monkeypatch.setattr(import_module("narrows.advise.search"), "play", play)
    return seen


def advice(found: Found) -> Advice:
    return advise(found, HAS, thorough=False)


@pytest.mark.parametrize("rate", ["50Mbit", "1Gbit", "10Gbit", "40Gbit", "100Gbit"])
@pytest.mark.parametrize("rtt", ["1ms", "100ms", "800ms"])
def test_no_search_exceeds_its_budget(played: list[Trial], rate: str, rtt: str) -> None:
    question = asked(rate, rtt)
    if (rate, rtt) == ("100Gbit", "800ms"):
        with pytest.raises(NarrowsError, match="exceed the budget of 600 million packets; write a"):
            search(question, candidates(question, HAS))
        return
    found = search(question, candidates(question, HAS))
    assert math.fsum(packets(question, trial) for trial in played) <= PACKETS
    shorter = any(t.seconds < ROUNDS[0][0] for t in played if t.setting != "page")
    assert not shorter or found.limited


def test_an_ordinary_path_has_full_rounds(played: list[Trial]) -> None:
    question = asked("100Mbit")
    found = search(question, candidates(question, HAS))
    assert found.durations == [(seconds, seconds) for seconds, _ in ROUNDS]
    assert not found.limited
    assert played
    assert not any("budget" in sentence for sentence in sentences(advice(found)))
    assert advice(found).json()["budget"]["reached"] is False


def test_an_exhausted_budget_is_reported() -> None:
    question = asked("20Mbit")
    found = search(question, candidates(question, HAS), budget=600_000)
    told = advice(found)
    assert [planned for planned, _ in found.durations] == [15, 30, 60][: len(found.durations)]
    assert all(lasts < planned for planned, lasts in found.durations)
    said = next(s for s in sentences(told) if s.startswith("The packet budget was reached: "))
    assert f"simulations of the first round last {found.durations[0][1]} s instead of 15 s" in said
    assert told.json()["budget"]["reached"] is True
    assert told.json()["budget"]["durations_s"] == [lasts for _, lasts in found.durations]


def test_a_round_beyond_the_budget_is_omitted(played: list[Trial]) -> None:
    question = asked("20Mbit")
    found = search(question, candidates(question, HAS), budget=60_000)
    assert (found.rounds, found.omitted) == (1, 2)
    assert {trial.seconds for trial in played} == {3}
    assert advice(found).preliminary
    said = next(s for s in sentences(advice(found)) if s.startswith("The packet budget"))
    assert "the second round is omitted and the last round is omitted." in said


def test_a_budget_below_the_first_round_is_refused() -> None:
    question = asked("20Mbit")
    with pytest.raises(NarrowsError, match="20 Mbit/s: the candidates on this path exceed"):
        search(question, candidates(question, HAS), budget=10_000)


def slow(monkeypatch: pytest.MonkeyPatch, quick: tuple[str, ...]) -> None:
    """Candidates other than these are simulated for a minute."""

    def play(_asked: Asked, one: Candidate, trial: Trial, progress: Progress) -> dict[str, float]:
        end = time.monotonic() + (0 if one.key in quick else 60)
        while time.monotonic() < end:
            progress(0, 1)
            time.sleep(0.01)
        return VALUES[trial.setting]

    monkeypatch.setattr(import_module("narrows.advise.search"), "play", play)


def test_a_time_limit_ends_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, ("cubic", "bbr"))
    question = asked("20Mbit")
    begin = time.monotonic()
    found = search(question, candidates(question, HAS), limit_s=0.5, jobs=1)
    assert time.monotonic() - begin < 30
    assert (found.rounds, found.late, found.stopped) == (0, True, True)
    told = advice(found)
    assert told.preliminary
    assert "The time limit was reached; 2 of 3 candidates are compared." in sentences(told)
    assert told.json()["budget"]["time_limit_reached"] is True


def test_quick_without_a_comparison_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slow(monkeypatch, ("cubic",))
    monkeypatch.setattr("narrows.advise.command._WITHIN_S", 0.3)
    words = ["--rate", "20Mbit", "--rtt", "20ms", "--kernel", "cubic,bbr,reno", "--quick"]
    done = CliRunner().invoke(advise_command.advise, [*words, "--jobs", "1"])
    assert done.exit_code != 0
    assert "the candidates could not be compared in 0.3 s; omit --quick" in str(done.exception)


def test_quick_shortens_the_first_round(played: list[Trial]) -> None:
    question = asked("5Gbit")
    found = search(question, candidates(question, HAS), limit_s=10)
    assert found.durations[0][1] < ROUNDS[0][0]
    # The trials of the first round come first.
    keys = [(trial.key, trial.setting) for trial in played]
    first = played[: next(n for n, key in enumerate(keys) if key in keys[:n])]
    assert math.fsum(packets(question, trial) for trial in first) <= 20e6


def test_boundaries_have_a_budget() -> None:
    assert not exceeds(asked("500Mbit"))
    fast = asked("10Gbit")
    assert exceeds(fast)
    one, other = candidates(fast, HAS)[:2]
    assert boundaries(fast, one, other) == []


def test_rate_limiters_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "PACKETS", 500_000)
    offered = contract.offers(asked("20Mbit", role="operator"))
    assert offered.seconds < contract.SECONDS
    assert json.loads(json.dumps(offered.json()))["budget"]["reached"] is True
    with pytest.raises(NarrowsError, match="the rate limiters on this path exceed the budget"):
        contract.offers(asked("200Mbit", role="operator"))
