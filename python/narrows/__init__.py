"""A laboratory for network bottlenecks.

>>> import narrows as nw
>>> path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp", queue=nw.queue.Fifo())
>>> run = nw.run(nw.Scenario(path, flows=[nw.Flow(nw.cc.Cubic(hystart="off"))], duration="5s",
...     seed=7))
>>> run.flows[0]["goodput_mbit"] > 15
True

Rates, durations and sizes are strings with a unit (`"40ms"`, `"50Mbit"`, `"1.5bdp"`, `"250kB"`).
The names of result columns contain the unit (`goodput_mbit`).
"""

TYPE_CHECKING = False

if TYPE_CHECKING:  # The import of `typing` takes longer than the whole package.
    from narrows import cc, errors, models, queue
    from narrows._core import __version__
    from narrows.errors import EngineError, NarrowsError, OutputError, ScenarioError
    from narrows.frames import to_pandas, to_polars
    from narrows.render.report import compare_report
    from narrows.render.run_plots import compare_plot
    from narrows.render.style import Style
    from narrows.runs.replications import Replications, replicate
    from narrows.runs.run import Run, run
    from narrows.runs.scenario import (
        Flow,
        Hop,
        Host,
        Link,
        Path,
        Ping,
        Scenario,
        Station,
        Switch,
        Wifi,
        load,
    )
    from narrows.runs.stepping import Observation, SteppedRun, start
    from narrows.sweeps.sweeping import Sweep, sweep
    from narrows.worst_case.running import WorstCase, find_worst_case

__all__ = [
    "EngineError",
    "Flow",
    "Hop",
    "Host",
    "Link",
    "NarrowsError",
    "Observation",
    "OutputError",
    "Path",
    "Ping",
    "Replications",
    "Run",
    "Scenario",
    "ScenarioError",
    "Station",
    "SteppedRun",
    "Style",
    "Sweep",
    "Switch",
    "Wifi",
    "WorstCase",
    "__version__",
    "cc",
    "compare_plot",
    "compare_report",
    "errors",
    "find_worst_case",
    "load",
    "models",
    "queue",
    "replicate",
    "run",
    "start",
    "sweep",
    "to_pandas",
    "to_polars",
]

_HOMES = {
    "narrows._core": ("__version__",),
    "narrows.errors": ("EngineError", "NarrowsError", "OutputError", "ScenarioError"),
    "narrows.frames": ("to_pandas", "to_polars"),
    "narrows.render.run_plots": ("compare_plot",),
    "narrows.render.report": ("compare_report",),
    "narrows.render.style": ("Style",),
    "narrows.runs.replications": ("Replications", "replicate"),
    "narrows.runs.run": ("Run", "run"),
    "narrows.runs.scenario": (
        "Flow",
        "Hop",
        "Host",
        "Link",
        "Path",
        "Ping",
        "Scenario",
        "Station",
        "Switch",
        "Wifi",
        "load",
    ),
    "narrows.runs.stepping": ("Observation", "SteppedRun", "start"),
    "narrows.sweeps.sweeping": ("Sweep", "sweep"),
    "narrows.worst_case.running": ("WorstCase", "find_worst_case"),
}
"""The public names that each module defines. A module is imported at the first access to one of its
names, so that the command `narrows` starts quickly.
"""


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - not for `narrows --version`

    if name in ("cc", "errors", "models", "queue"):
        return import_module(f"narrows.{name}")
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(home), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'narrows' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
