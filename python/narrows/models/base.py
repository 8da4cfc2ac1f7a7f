"""The classes that a model in Python extends, and its specification for the core.

The core calls the functions that a class defines, and no others.
"""

from __future__ import annotations

import inspect
import math
import re
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from narrows._core import (
        Ack,
        Loss,
        LostPacket,
        QueuedPacket,
        QueueState,
        Reduced,
        Rto,
        Sample,
        Sent,
        SpuriousLoss,
        Start,
        StateChange,
        Window,
    )
    from narrows.models.model import SpecificationJson

FAMILIES = ("loss", "delay", "model", "network-assisted", "computer-generated")
"""The families of congestion controls, by the main signal to which they respond."""

_TIME = re.compile(r"[\d.]+ ?(ns|us|ms|s|min|h)")
_RATE = re.compile(r"[\d.]+ ?[kKMGT]?i?bit")

_ACKS = (
    ("time_s", "<f8"), ("rtt_s", "<f8"), ("delivered", "<i8"), ("lost", "<i8"), ("marked", "<i8"),
    ("in_flight", "<i8"),
)  # fmt: skip
"""Name and type of each column of the array that `on_interval` receives."""


@dataclass(frozen=True)
class Parameter:
    """The declaration of a parameter of a model. An instance of the model has the value under the
    same name.
    """

    default: bool | int | float | str
    minimum: float | str | None
    maximum: float | str | None
    words: tuple[str, ...]
    help: str
    source: str

    def kind(self) -> str:
        """The name of the type of the parameter in the core."""
        if self.words:
            return "word"
        if not isinstance(self.default, str):
            return {bool: "bool", int: "count"}.get(type(self.default), "number")
        if _TIME.fullmatch(self.default):
            return "time"
        return "rate" if _RATE.fullmatch(self.default) else "bytes"


def parameter(
    default: bool | float | str,
    minimum: float | str | None = None,
    maximum: float | str | None = None,
    *,
    words: tuple[str, ...] = (),
    help: str,  # noqa: A002 - the name of the field in the core
    source: str = "this model",
) -> Any:  # noqa: ANN401 - an instance has the value
    """Declares a parameter as an attribute of a class.

    The type of the default is the type of the parameter: a bool, a whole number, a number, or text
    with a unit (`"5ms"`, `"10Mbit"`, `"64kB"`). In an instance a time is in seconds, a rate in bits
    per second, and a size in bytes.

    Args:
        default: The default, one of `words` if there are words.
        minimum: The least value.
        maximum: The largest value.
        words: The words to choose from.
        help: Description of the parameter, in one line.
        source: Source of the default, such as an RFC.
    """
    if words and default in words:
        words = (str(default), *(word for word in words if word != default))
    return Parameter(default, minimum, maximum, words, help, source)


class _Model:
    """The common part of congestion controls and queue disciplines in Python.

    Attributes:
        name: The name in a scenario.
        source: The specification that the model implements.
        seed: The seed of its random choices, which differs between all flows and queues.
    """

    name: ClassVar[str] = ""
    source: ClassVar[str] = "a plugin"
    seed: int = 1

    @cached_property
    def random(self) -> Random:
        """A generator of random numbers with the seed `seed`. Random numbers from elsewhere make
        runs irreproducible.
        """
        return Random(self.seed)


class CongestionControl(_Model):
    """A congestion control; `on_ack` or `on_interval` is required.

    Each call receives the window of the connection. For one ACK, the order is `on_sample`,
    `on_packet_lost`, then `on_loss`, `on_spurious_loss`, `on_reduced` and `on_state` if the state
    of recovery changed, and `on_ack` or `on_interval`.

    Attributes:
        family: The main signal, one of `FAMILIES`.
        year: The year of publication; 0 if it is not published.
        paced: Whether packets are paced.
        owns_recovery: Whether the class sets the window in recovery itself, without PRR.
        needs: Requirements on the connection: `ecn_echo`, `ecn_count`, `no_sack`, `pacing`.
        interval: The length of an interval of `on_interval`, in seconds; 0 is one smoothed RTT.
        send_buffer_windows: The size of the send buffer, in congestion windows.
    """

    family: ClassVar[str] = "loss"
    year: ClassVar[int] = 0
    paced: ClassVar[bool] = False
    owns_recovery: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ()
    interval: ClassVar[float] = 0.0
    send_buffer_windows: ClassVar[int] = 2

    def on_start(self, window: Window, start: Start) -> None:
        """Called when the connection is established."""

    def on_sent(self, window: Window, sent: Sent) -> None:
        """Called when data leaves while no other data is in flight."""

    def on_sample(self, window: Window, sample: Sample) -> None:
        """Called with the measurements of an ACK, before loss detection."""

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Called for an ACK, after loss detection. The window may grow only if `ack.may_grow`."""

    def on_interval(self, window: Window, acks: Any) -> None:  # noqa: ANN401 - a NumPy array
        """Called with the ACKs of an interval, as a NumPy array with a field per column.

        The columns are `time_s`, `rtt_s` (NaN if unknown), `delivered`, `lost`, `marked` and
        `in_flight`.
        """

    def on_loss(self, window: Window, loss: Loss) -> None:
        """Called at a congestion event, at most once per round trip. The function sets `ssthresh`,
        by default to half the window.

        PRR then reduces the window to `ssthresh`, unless the class sets `owns_recovery`.
        """

    def on_packet_lost(self, window: Window, lost: LostPacket) -> None:
        """Called for each packet that was marked lost."""

    def on_rto(self, window: Window, rto: Rto) -> None:
        """Called when the retransmission timer has fired."""

    def on_reduced(self, window: Window, reduced: Reduced) -> None:
        """Called when a reduction of the window is complete."""

    def on_state(self, window: Window, change: StateChange) -> None:
        """Called when the state of recovery changes."""

    def on_spurious_loss(self, window: Window, spurious: SpuriousLoss) -> None:
        """Called when a reduction turns out to be spurious. By default, the window returns to its
        larger, earlier value.
        """

    def in_slow_start(self, window: Window) -> bool:
        """Whether the flow is in slow start, for reports; by default, if `cwnd` is below
        `ssthresh`.
        """
        return window.in_slow_start

    def describe(self) -> dict[str, float | str]:
        """Named numbers for the table of states; the word under `mode` names the mode."""
        return {}


class QueueDiscipline(_Model):
    """A queue discipline; if no function is overridden, it is first in, first out.

    A packet is in the queue from `enqueue` on, until `dequeue` returns it or `packet.drop()` is
    called. The discipline stores the packets in the order of its choice.

    Attributes:
        state: The backlog, the buffer (`state.admits(packet)`) and the rate of the link.
    """

    state: QueueState

    @cached_property
    def fifo(self) -> deque[QueuedPacket]:
        """The packets in the queue, if `enqueue` and `dequeue` are not overridden."""
        return deque()

    def enqueue(self, now_s: float, packet: QueuedPacket) -> None:
        """Takes an arriving packet, or drops it."""
        if self.state.admits(packet):
            self.fifo.append(packet)
        else:
            packet.drop("overflow")

    def dequeue(self, now_s: float) -> QueuedPacket | None:
        """Returns the next packet; None if there is none."""
        return self.fifo.popleft() if self.fifo else None

    def next_wakeup(self) -> float | None:
        """The time in seconds at which `on_wakeup` is called even if no packet moves."""
        return None

    def on_wakeup(self, now_s: float) -> None:
        """Handles a time that `next_wakeup` returned."""


_EVENTS = (
    "on_start", "on_sent", "on_sample", "on_ack", "on_interval", "on_loss", "on_packet_lost",
    "on_rto", "on_reduced", "on_state", "on_spurious_loss", "in_slow_start", "describe",
)  # fmt: skip
_DUTIES = ("enqueue", "dequeue", "next_wakeup", "on_wakeup")


def _check_functions(of: type[_Model], base: type[_Model], names: tuple[str, ...]) -> None:
    """Checks that the core can call the functions that a class defines.

    Raises:
        ValueError: If the attribute of such a name is no function, is asynchronous, or takes other
            arguments.
    """
    for name in names:
        if not _defines(of, base, name):
            continue
        function = inspect.getattr_static(of, name)
        if isinstance(function, (staticmethod, classmethod)):
            continue
        expected = ", ".join(inspect.signature(getattr(base, name)).parameters)
        write = f"write def {name}({expected})"
        if not callable(function):
            raise ValueError(f"{name} is not a function; {write}")
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise ValueError(f"{name} is asynchronous or a generator, so it never runs; {write}")
        try:
            inspect.signature(function).bind(*expected.split(", "))
        except TypeError as error:
            raise ValueError(f"{name} has other arguments ({error}); {write}") from error


def _defines(of: type, base: type, function: str) -> bool:
    return getattr(of, function) is not getattr(base, function)


def _check_parameter(name: str, of: Parameter) -> None:
    """Checks a parameter for mistakes that the core would report as errors of the scenario.

    Raises:
        ValueError: If the name is reserved, or a number is not in its range.
    """
    if name == "kind":
        raise ValueError("kind is the key of the model's name; rename the parameter")
    if isinstance(of.default, str) or of.words:
        return
    if not math.isfinite(of.default):
        raise ValueError(f"{name}: the default {of.default} is not a finite number")
    low, high = of.minimum, of.maximum
    if (isinstance(low, int | float) and of.default < low) or (
        isinstance(high, int | float) and of.default > high
    ):
        raise ValueError(f"{name}: the default {of.default} is not between {low} and {high}")


def parameters(of: type[_Model]) -> list[tuple[Any, ...]]:
    """The rows of a class's table of parameters."""
    found: dict[str, Parameter] = {}
    for base in reversed(of.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Parameter):
                _check_parameter(name, value)
                found[name] = value
    return [
        (name, p.kind(), p.default, p.minimum, p.maximum, list(p.words), p.help, p.source)
        for name, p in found.items()
    ]


def specification(of: type[_Model], came_from: str, file: str) -> SpecificationJson:
    """The description of a class for the core.

    Args:
        of: The class.
        came_from: The name of its plugin in errors.
        file: The file of its code.

    Raises:
        ValueError: If the class is not complete.
    """
    lines = (of.__doc__ or "").strip().splitlines()
    spec: SpecificationJson = {
        "name": of.name,
        "from": came_from,
        "file": file,
        "help": lines[0].rstrip(".") if lines else of.__name__,
        "source": of.source,
        "params": parameters(of),
    }
    if issubclass(of, CongestionControl):
        _check_functions(of, CongestionControl, _EVENTS)
        events = [name for name in _EVENTS if _defines(of, CongestionControl, name)]
        if not {"on_ack", "on_interval"} & set(events):
            raise ValueError(f"{of.__name__} defines neither on_ack nor on_interval")
        if of.family not in FAMILIES:
            raise ValueError(f'family = "{of.family}": write one of {", ".join(FAMILIES)}')
        if not (math.isfinite(of.interval) and of.interval >= 0):
            raise ValueError(f"interval = {of.interval}: write a number of seconds, at least 0")
        spec["events"] = events
        spec["interval_s"] = float(of.interval)
        spec["family"] = of.family
        spec["year"] = of.year
        spec["paced"] = of.paced
        spec["owns_recovery"] = of.owns_recovery
        spec["needs"] = list(of.needs)
        spec["send_buffer_windows"] = of.send_buffer_windows
        if "on_interval" in events:
            _numpy()
    else:
        _check_functions(of, QueueDiscipline, _DUTIES)
        spec["wakes"] = _defines(of, QueueDiscipline, "next_wakeup")
    return spec


def _numpy() -> Any:  # noqa: ANN401 - the module
    try:
        import numpy  # noqa: PLC0415 - only a model with on_interval needs it
    except ImportError as error:
        raise ValueError("on_interval needs NumPy: pip install numpy") from error
    return numpy


def acks(rows: bytes) -> Any:  # noqa: ANN401 - a NumPy array
    """The array of the ACKs of an interval, from the bytes that the core provides."""
    return _numpy().frombuffer(rows, dtype=list(_ACKS))
