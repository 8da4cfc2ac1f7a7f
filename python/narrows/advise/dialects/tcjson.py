"""What `tc -j qdisc show` prints, with its own units: rates in bytes per second, times in s or µs by kind."""

from __future__ import annotations

import json
import math
from typing import Any

from narrows.advise.dialects.layers import Layer, compose
from narrows.advise.dialects.reading import ConfigError, Json, Reading

_MOST = 10_000
"""Disciplines of one host."""


def read(text: str, name: str) -> Reading:
    """Reads the JSON.

    Raises:
        ConfigError: If it is not what tc prints.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ConfigError(f"{name}: line {line}: not JSON: {error}") from error
    rows = tree if isinstance(tree, list) else [tree]
    if len(rows) > _MOST:
        raise ConfigError(f"{name}: line 1: {len(rows)} disciplines are too many")
    layers = []
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise ConfigError(f"{name}: entry {number}: an object is needed, as `tc -j qdisc show` prints it")
        # `tc -j class` says class, `tc -j qdisc` kind.
        kind = row.get("kind", row.get("class"))
        if not isinstance(kind, str):
            raise ConfigError(f"{name}: entry {number}: it has no kind\n    write: tc -j qdisc show dev eth0")
        told = row.get("options", {})
        options = told if isinstance(told, dict) else {}
        parent = "root" if row.get("root") is True else str(row.get("parent", ""))
        here = _Row(name, number, options | ({"rate": row["rate"]} if "rate" in row and "class" in row else {}))
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
    if not layers:
        raise ConfigError(f"{name}: line 1: an empty list: no discipline")
    return compose("tc -j", name, layers)


class _Row:
    """One object, its numbers taken with care."""

    def __init__(self, name: str, number: int, options: dict[str, Any]) -> None:
        self._name, self._number, self._options = name, number, options

    def number(self, key: str, of: dict[str, Any] | None = None, most: float = 1e15) -> float | None:
        value = (self._options if of is None else of).get(key)
        if value is None or isinstance(value, str | bool):
            return None
        try:
            known = float(value)
        except (TypeError, ValueError, OverflowError):
            known = math.nan
        if not math.isfinite(known) or not 0 <= known <= most:
            raise ConfigError(f"{self._name}: entry {self._number}: {key}: a number from 0 on is needed")
        return known

    def part(self, key: str) -> dict[str, Any]:
        value = self._options.get(key)
        return value if isinstance(value, dict) else {}

    def rate(self, key: str, of: dict[str, Any] | None = None) -> float | None:
        per_s = self.number(key, of, 1.25e11)
        return None if not per_s else 8 * per_s

    def read(self, kind: str) -> Json:
        if kind == "netem":
            return _known(self.netem())
        if kind == "cake":
            rtt = self.number("rtt", most=1e9)
            return _known({"rate": self.rate("bandwidth"), "rtt": rtt and rtt / 1e6, "diffserv": self.word("diffserv"),
                           "flows": self.word("flowmode")})  # fmt: skip
        if kind in {"tbf", "htb"}:
            lat = self.number("lat", most=1e9)
            return _known({
                **{key: self.rate(key) for key in ("rate", "ceil", "peakrate")},
                **{key: self.number(key, most=1e9) for key in ("burst", "limit")},
                "latency": lat and lat / 1e6,
            })  # fmt: skip
        times = {key: (v / 1e6 if (v := self.number(key, most=1e9)) else None) for key in ("target", "interval")}
        limit = self.number("limit", most=1e9)
        flows = self.number("flows", most=65536) if kind == "fq_codel" else None
        return _known({**times, "limit": int(limit) if limit else None, "flows": int(flows) if flows else None,
                       "ecn": self._options.get("ecn") is True or None})  # fmt: skip

    def word(self, key: str) -> str | None:
        value = self._options.get(key)
        return value if isinstance(value, str) and value.replace("-", "").isalnum() else None

    def netem(self) -> Json:
        delay, loss, limit = self.part("delay"), self.part("loss-random"), self.number("limit", most=1e9)
        ge = self.part("loss-gemodel")
        model = [self.number(key, ge, 1.0) for key in ("p", "r", "1-h", "1-k")]
        parts = {name: self.number(name, self.part(name), 1.0) for name in ("corrupt", "duplicate", "reorder")}
        probability, correlation = self.number("loss", loss, 1.0), self.number("correlation", loss, 1.0)
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


def _known(options: Json) -> Json:
    return {name: value for name, value in options.items() if value is not None}
