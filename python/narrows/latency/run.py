"""Measures response times with `narrows-host latency`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from narrows.host import live
from narrows.latency.model import ResultJson

Tell = Callable[[float, str], object]
"""Receives the progress from 0 to 1, and a summary of the replies so far in words."""


class Interrupted(KeyboardInterrupt):
    """A measurement was stopped by Ctrl-C, SIGTERM or SIGHUP after it had begun.

    Attributes:
        told: The result so far.
    """

    def __init__(self, told: ResultJson) -> None:
        """Stores the result up to the time of the signal."""
        super().__init__()
        self.told = told


def measure(
    host: str,
    arguments: Sequence[str] = (),
    *,
    tell: Tell | None = None,
    interval: Callable[[list[str]], object] | None = None,
) -> ResultJson:
    """Measures the response time of a host and returns the result.

    Args:
        host: A name or an address.
        arguments: Options of `narrows-host latency`.
        tell: Called periodically; its exceptions stop the measurement.
        interval: Called with the words about each interval, if `arguments` request them.

    Raises:
        EngineError: If the measurement fails.
        Interrupted: If the user stopped the measurement. This exception contains the result so far,
            and is a `KeyboardInterrupt`.
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
            case ["interval", *words] if interval is not None:
                interval(words)

    told: ResultJson = json.loads(live.stream(["latency", host, *arguments], each))
    if told["interrupted"]:
        raise Interrupted(told)
    return told
