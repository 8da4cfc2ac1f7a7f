"""The suite `bbr` of `narrows conform`: BBRv3 passes it, and BBRv3 with another parameter does not.

The draft defines a value for each of these parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from narrows.conform.appendix import BBR
from narrows.conform.running import Conformance, conform
from narrows.conform.target import Target, find
from narrows.json_object import JsonObject

BROKEN = {
    "drain_gain = 0.35": "bbr-drain-gain",
    "down_gain = 0.75": "bbr-down-gain",
    "probe_rtt_interval = 2s": "bbr-probe-rtt-interval",
    "probe_rtt_time = 1s": "bbr-probe-rtt-duration",
    "probe_rtt_cwnd_gain = 1.0": "bbr-probe-rtt-gain",
    "min_cwnd = 1": "bbr-sub-packet-window",
    "startup_losses = 0": "bbr-startup-loss",
    "loss_threshold = 1.0": "bbr-up-loss",
}
"""A wrong value of a parameter, and a check that it fails."""


@dataclass(frozen=True, kw_only=True)
class Changed(Target):
    """BBRv3 with a parameter."""

    key: str
    value: object

    def flow(self, **keys: object) -> JsonObject:
        """A flow with the parameter."""
        return {"cc": {"kind": "bbr3", self.key: self.value}, **keys}


def judged(target: Target, only: Sequence[str]) -> Conformance:
    return conform(target, "bbr", seeds=2, only=only)


@pytest.mark.parametrize(("change", "broken"), BROKEN.items())
def test_a_wrong_parameter_fails(change: str, broken: str) -> None:
    key, _, text = change.partition(" = ")
    value: object = text if text.endswith("s") else float(text)
    if key in {"min_cwnd", "startup_losses"}:
        value = int(text)
    target = Changed(cc="bbr3", family="model", rules="bbr3", key=key, value=value)
    found = judged(target, [broken])
    assert [result.verdict for result in found.results] == ["fail"], found.json()


def test_bbr3_passes_every_check() -> None:
    found = conform(find("bbr3"), "bbr", seeds=3)
    assert found.count("pass") == len(BBR), found.json()


def test_the_checks_of_the_state_need_the_state() -> None:
    of = Target(cc="bbr3", family="model", transport="other", rules="bbr3")
    names = ["bbr-drain-gain", "bbr-up-exit"]
    assert {result.verdict for result in judged(of, names).results} == {"not decided"}
    assert {r.verdict for r in judged(find("cubic"), names).results} == {"not applicable"}
