"""What `narrows demo` shows: one flow that fills a buffer."""

from __future__ import annotations

from narrows.runs import run
from narrows.scenario import Flow, Path, Ping, Scenario
from narrows.show import show

SCENARIO = Scenario(
    Path(rate="20Mbit", rtt="40ms", buffer="1bdp"),
    title="One CUBIC flow",
    flows=[Flow("cubic")],
    probes=[Ping(interval="20ms")],
    duration="10s",
)


def demo() -> None:
    """Runs it and shows it."""
    done = run(SCENARIO)
    show(done.json)
