"""Reads the output of `tc -j qdisc show`. Rates in this output are in bytes per second, and times
in s or µs, depending on the queue discipline.
"""

from __future__ import annotations

import json
import math

from narrows.advise.importers.disciplines import OPTIONS, unusual, value
from narrows.advise.importers.layers import Layer, compose, refuse
from narrows.advise.importers.reading import ConfigError, Reading
from narrows.json_object import JsonObject

_CHOICES = {"diffserv", "flowmode", "ack-filter", "atm"}
_ACKS = {
    "enabled": "ack-filter",
    "aggressive": "ack-filter-aggressive",
    "disabled": "no-ack-filter",
}
_PER_S = {"time": 1e-6, "seconds": 1.0, "milliseconds": 1e-3}

_MOST = 10_000
"""Maximum number of queue disciplines in the text."""


def read(text: str, name: str) -> Reading:
    """Reads the JSON.

    Raises:
        ConfigError: If the text is not output of `tc -j`.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ConfigError(f"{name}: line {line}: not JSON: {error}") from error
    rows = tree if isinstance(tree, list) else [tree]
    if len(rows) > _MOST:
        raise ConfigError(f"{name}: line 1: {len(rows)} queue disciplines are too many")
    layers = []
    left: list[str] = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ConfigError(
                f"{name}: entry {number}: not an object; write the output of tc -j qdisc show"
            )
        # The type has the key `class` in the output of `tc -j class`, and `kind` in that of `tc -j
        # qdisc`.
        kind = row.get("kind", row.get("class"))
        if not isinstance(kind, str):
            raise ConfigError(
                f"{name}: entry {number}: the kind is missing\n    write: tc -j qdisc show dev eth0"
            )
        refuse(kind, f"{name}: entry {number}")
        told = row.get("options", {})
        options = told if isinstance(told, dict) else {}
        parent = "root" if row.get("root") is True else str(row.get("parent", ""))
        here = _Row(
            name,
            number,
            options | ({"rate": row["rate"]} if "rate" in row and "class" in row else {}),
        )
        layers.append(
            Layer(
                kind,
                "class" in row,
                "",
                str(row.get("dev", "")),
                parent,
                str(row.get("handle", "")),
                here.read(kind),
                number,
            )
        )
        left += here.left()
    if not layers:
        raise ConfigError(f"{name}: line 1: the list has no queue discipline")
    return compose("tc -j", name, layers, left=left)


class _Row:
    """One object with checked numbers."""

    def __init__(self, name: str, number: int, options: JsonObject) -> None:
        self._name, self._number, self._options = name, number, options
        self._read: set[str] = set()

    def left(self) -> list[str]:
        """Options that were not read, except those with a value that means off, zero or empty."""
        return [
            f"entry {self._number}: `{key[:40]} {json.dumps(told)[:40]}`"
            for key, told in self._options.items()
            if key not in self._read and told not in (None, False, 0, "", [], {}, "0x0")
        ]

    def number(self, key: str, of: JsonObject | None = None, most: float = 1e15) -> float | None:
        if of is None:
            self._read.add(key)
        value = (self._options if of is None else of).get(key)
        if value is None or isinstance(value, str | bool):
            return None
        try:
            known = float(value)
        except (TypeError, ValueError, OverflowError):
            known = math.nan
        if not math.isfinite(known) or not 0 <= known <= most:
            raise ConfigError(
                f"{self._name}: entry {self._number}: {key}: must be a number of at least 0"
            )
        return known

    def part(self, key: str) -> JsonObject:
        self._read.add(key)
        value = self._options.get(key)
        return value if isinstance(value, dict) else {}

    def rate(self, key: str, of: JsonObject | None = None) -> float | None:
        per_s = self.number(key, of, 1.25e11)
        return None if not per_s else 8 * per_s

    def read(self, kind: str) -> JsonObject:
        if kind == "netem":
            return _known(self.netem())
        if kind in {"tbf", "htb"}:
            lat = self.number("lat", most=1e9)
            self._read |= {"direct_packets_stat"}
            return _known({
                **{key: self.rate(key) for key in ("rate", "ceil", "peakrate")},
                **{key: self.number(key, most=1e9) for key in ("burst", "limit", "mtu")},
                "latency": lat and lat / 1e6,
            })  # fmt: skip
        if kind in {"pfifo", "bfifo"}:
            limit = self.number("limit", most=1e9)
            return _known({"limit": int(limit) if limit else None})
        if kind not in OPTIONS:
            return {}
        rate = self.rate("bandwidth") if kind == "cake" else None
        if kind == "cake":
            self._read |= {"bandwidth", "raw"}
        return _known({"rate": rate, "params": unusual(kind, self.params(kind))})

    def params(self, kind: str) -> JsonObject:
        """Converts the parameters of a queue discipline: most times are in µs, and rates in bytes
        per second. A flag is a boolean or the word of tc(8).
        """
        out: JsonObject = {}
        for key in self._options:
            # In JSON, these keys of cake have the word of tc(8) as value.
            word = self._options[key] if key in _CHOICES and kind == "cake" else key
            option = OPTIONS[kind].get(_ACKS.get(word, word)) if isinstance(word, str) else None
            if option is None:
                continue
            self._read.add(key)
            if isinstance(option, tuple):
                flag = self._options[key]
                if flag is True or (isinstance(flag, str) and flag):
                    out[option[0]] = option[1]
                elif flag is False and option[1] is True:
                    out[option[0]] = False
                continue
            number = self.rate(key) if option == "rate" else self.number(key, most=1e12)
            if number is not None:
                times = _PER_S.get(option, 1.0) if key != "timer_slack" else 1e-9
                out[key] = value(option, number * times)
        return out

    def netem(self) -> JsonObject:
        delay, loss, limit = (
            self.part("delay"),
            self.part("loss-random"),
            self.number("limit", most=1e9),
        )
        ge = self.part("loss-gemodel")
        model = [self.number(key, ge, 1.0) for key in ("p", "r", "1-h", "1-k")]
        parts = {
            name: self.number(name, self.part(name), 1.0)
            for name in ("corrupt", "duplicate", "reorder")
        }
        probability, correlation = (
            self.number("loss", loss, 1.0),
            self.number("correlation", loss, 1.0),
        )
        return {
            "limit": int(limit) if limit else None,
            "delay": self.number("delay", delay, 1000.0),
            "jitter": self.number("jitter", delay, 1000.0),
            "correlation": self.number("correlation", delay, 1.0),
            "loss": probability and 100 * probability,
            "loss_correlation": correlation,
            "gemodel": [x for x in model if x is not None] or None,
            "rate": self.rate("rate", self.part("rate")),
            **{name: value and 100 * value for name, value in parts.items()},
        }


def _known(options: JsonObject) -> JsonObject:
    return {name: value for name, value in options.items() if value is not None}
