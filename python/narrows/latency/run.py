"""Measures response times with `narrows-host latency`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from narrows.host import live
from narrows.latency.model import ResultJson

Tell = Callable[[float, str], object]
"""Receives the progress from 0 to 1 and a summary in words."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C after the first replies, with the result up to that time.

    Attributes:
        told: The result so far.
    """

    def __init__(self, told: ResultJson) -> None:
        """With the result so far."""
        super().__init__()
        self.told = told


def measure(host: str, arguments: Sequence[str] = (), *, tell: Tell | None = None) -> ResultJson:
    """Measures the response time of a host and returns the result.

    Args:
        host: A name or an address.
        arguments: Options of `narrows-host latency`.
        tell: Called periodically; its exceptions stop the measurement.

    Raises:
        EngineError: If the measurement fails.
        Interrupted: If the user stopped the measurement; it contains the result so far. It is a
            `KeyboardInterrupt`.
    """
    share = 0.0

    def each(line: list[str]) -> None:
        nonlocal share
        match line:
            case ["progress", now, end]:
                share = float(now) / max(float(end), 1e-9)
            case ["live", answered, lost, median, most] if tell is not None:
                said = (
                    f"{int(answered):,} replies, {lost} lost, response time {median} µs (median), "
                    f"{most} µs (max)"
                )
                tell(share, said)

    told: ResultJson = json.loads(live.stream(["latency", host, *arguments], each))
    if told["interrupted"]:
        raise Interrupted(told)
    return told
