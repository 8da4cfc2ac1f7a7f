"""Congestion controls and queue disciplines of your own, as Python classes or in Rust.

>>> from narrows import models
>>> class Half(models.CongestionControl):
...     "Doubles per round trip, and halves after a loss."
...     name = "half"
...     def on_ack(self, window, ack):
...         if ack.may_grow:
...             window.cwnd += ack.delivered
>>> models.register(Half)
>>> import narrows as nw
>>> path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
>>> done = nw.run(nw.Scenario(path, flows=[nw.Flow("half")], duration="2s"))
>>> done.flows[0]["cc"]
'half'
>>> models.unregister(Half)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.models.base import CongestionControl, QueueDiscipline, parameter
    from narrows.models.plugins import load, register, unregister

__all__ = ["CongestionControl", "QueueDiscipline", "load", "parameter", "register", "unregister"]

_HOMES = dict.fromkeys(("CongestionControl", "QueueDiscipline", "parameter"), "base") | (
    dict.fromkeys(("load", "register", "unregister"), "plugins")
)
"""The module of each public name; it is imported when the name is first used."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'narrows.models' has no attribute {name!r}")
    value: object = getattr(import_module(f"narrows.models.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
