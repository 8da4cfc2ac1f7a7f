"""The result of an import, and functions that read and write rates, sizes and times."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from narrows.errors import NarrowsError
from narrows.runs.scenario import Path


class ConfigError(NarrowsError):
    """A configuration cannot be read; the error text contains the number of the line."""


@dataclass(frozen=True)
class Warned:
    """A probable mistake.

    Attributes:
        line: Line, from 1.
        says: Effect of the line, as a sentence.
        fix: Correction; empty if unknown.
    """

    line: int
    says: str
    fix: str = ""


@dataclass(kw_only=True)
class Reading:
    """An imported configuration.

    Attributes:
        dialect: One of `DIALECTS`.
        path: The path.
        assumed: Assumptions, as sentences.
        warned: Probable mistakes.
        left: Parts that the path does not model.
    """

    dialect: str
    path: Path
    assumed: list[str] = field(default_factory=list)
    warned: list[Warned] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Words:
    """The words of a line, with its position for errors.

    Attributes:
        name: Name of the file.
        line: Number of the line.
        words: The words, in lower case if the syntax ignores case.
        raw: The words as the file has them; empty if they are equal to `words`.
    """

    name: str
    line: int
    words: tuple[str, ...]
    raw: tuple[str, ...] = ()

    def written(self, *words: str) -> str:
        """Words of this line with the case that the file has."""
        raw = {word.lower(): word for word in reversed(self.raw)}
        return " ".join(raw.get(word, word) for word in words)

    def wrong(self, problem: str, fix: str = "") -> ConfigError:
        """An error of this line."""
        return ConfigError(
            f"{self.name}: line {self.line}: {problem}" + (f"\n    write: {fix}" if fix else "")
        )


_RATES = {
    "": 1.0, "bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12,
    "kibit": 1024.0, "mibit": 1024.0**2, "gibit": 1024.0**3, "tibit": 1024.0**4,
    "bps": 8.0, "kbps": 8e3, "mbps": 8e6, "gbps": 8e9, "tbps": 8e12,
    "kibps": 8 * 1024.0, "mibps": 8 * 1024.0**2, "gibps": 8 * 1024.0**3,
}  # fmt: skip
"""tc(8): `bps` is bytes per second, and a bare number is bits per second."""

_SIZES = {
    "": 1.0, "b": 1.0, "k": 1024.0, "kb": 1024.0, "m": 1024.0**2, "mb": 1024.0**2, "g": 1024.0**3,
    "gb": 1024.0**3,
    "kbit": 128.0, "mbit": 128.0 * 1024, "gbit": 128.0 * 1024**2,
}  # fmt: skip
"""tc(8): k is 1024, and a bare number is bytes."""

_TIMES = {"": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "ms": 1e-3, "msec": 1e-3, "msecs": 1e-3,
"us": 1e-6,
          "usec": 1e-6, "usecs": 1e-6}  # fmt: skip
"""tc(8): a bare number is in microseconds."""

_MOST = {"rate": 1e12, "size": 1e9, "time": 1000.0}
_QUANTITY = re.compile(r"(\d{1,15}(?:\.\d{1,9})?|\.\d{1,9})([a-zA-Z]{0,6})")


def quantity(kind: str, text: str, at: Words) -> float:
    """A rate in bit/s, a size in bytes or a time in s, in the syntax of tc.

    >>> at = Words("text", 1, ())
    >>> quantity("rate", "2mbit", at), quantity("rate", "250kbps", at), quantity("size", "15k", at)
    (2000000.0, 2000000.0, 15360.0)

    Raises:
        ConfigError: If the text is not a valid quantity of this kind.
    """
    units = {"rate": _RATES, "size": _SIZES, "time": _TIMES}[kind]
    found = _QUANTITY.fullmatch(text)
    if not found or found[2].lower() not in units:
        example = {"rate": "2mbit", "size": "15kb", "time": "100ms"}[kind]
        raise at.wrong(f"`{_shown(text)}` is not a {kind}", example)
    value = float(found[1]) * units[found[2].lower()]
    if not math.isfinite(value) or value > _MOST[kind]:
        raise at.wrong(f"`{_shown(text)}` is above the largest {kind} that narrows supports")
    return value


def bare(text: str) -> bool:
    """Whether the text is a number without a unit."""
    found = _QUANTITY.fullmatch(text)
    return bool(found) and not found[2] if found else False


def percent(text: str, at: Words) -> float:
    """A probability in percent, with or without the percent sign.

    Raises:
        ConfigError: If the text is not a percentage.
    """
    found = re.fullmatch(r"(\d{1,3}(?:\.\d{1,12})?|\.\d{1,12})%?", text)
    if not found or float(found[1]) > 100:  # noqa: PLR2004 - percent
        raise at.wrong(f"`{_shown(text)}` is not a probability from 0 % to 100 %", "loss 1%")
    return float(found[1])


def whole(text: str, at: Words) -> int:
    """A count.

    Raises:
        ConfigError: If the text is not a count.
    """
    if not re.fullmatch(r"\d{1,10}", text):
        raise at.wrong(f"`{_shown(text)}` is not a count", "limit 1000")
    return int(text)


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "…"  # noqa: PLR2004


def bits(per_s: float) -> str:
    """A rate in the syntax of a scenario.

    >>> bits(2e6), bits(1234567.0)
    ('2Mbit', '1234567bit')
    """
    for unit, times in (("Gbit", 1e9), ("Mbit", 1e6), ("kbit", 1e3)):
        short = f"{per_s / times:.6g}"
        if per_s >= times and round(float(short) * times) == round(per_s):
            return f"{short}{unit}"
    return f"{round(per_s)}bit"


def span(seconds: float) -> str:
    """A time in the syntax of a scenario.

    >>> span(0.1), span(0.00025)
    ('100ms', '0.25ms')
    """
    return f"{seconds * 1000:.7g}ms"


def size(number: float) -> str:
    """A size in the syntax of a scenario."""
    return f"{round(number)}B"
