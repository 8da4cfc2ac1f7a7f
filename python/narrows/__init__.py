"""A laboratory for the narrow part of a network path.

>>> import narrows as nw
>>> path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp", queue=nw.queue.Fifo())
>>> run = nw.run(nw.Scenario(path, flows=[nw.Flow(nw.cc.Cubic(hystart="off"))], duration="5s", seed=7))
>>> run.flows[0]["goodput_mbit"] > 15
True

Quantities are text with their unit (`"40ms"`, `"50Mbit"`, `"1.5bdp"`, `"250kB"`); columns carry the unit in their name.
"""

from narrows import cc, errors, queue
from narrows._core import __version__
from narrows.errors import EngineError, NarrowsError, OutputError, ScenarioError
from narrows.runs import Run, run
from narrows.scenario import Flow, Host, Path, Ping, Scenario, load

__all__ = [
    "EngineError",
    "Flow",
    "Host",
    "NarrowsError",
    "OutputError",
    "Path",
    "Ping",
    "Run",
    "Scenario",
    "ScenarioError",
    "__version__",
    "cc",
    "errors",
    "load",
    "queue",
    "run",
]
