"""A metric that the caller of a sweep defines, as a function of a run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.runs.run import Run

Function = Callable[[Run], "float | Mapping[str, float | None] | None"]
"""Computes a metric of a run, or several by name."""


@dataclass(frozen=True)
class Metric:
    """A function that computes metrics, and the sample interval of the runs that it receives.

    Attributes:
        function: The function.
        sample_interval: Interval of the samples of the run; `"off"` takes none.
    """

    function: Function
    sample_interval: str = "off"

    def about(self) -> str:
        """A digest of the code of the function and the sample interval, which is a part of the key
        under which a run is stored.
        """
        digest = hashlib.sha256(self.sample_interval.encode())
        code = getattr(self.function, "__code__", None)
        if code is None:
            raise NarrowsError(f"metric = {self.function!r}: write a function: def metric(run): …")
        _update(digest, code)
        cells = getattr(self.function, "__closure__", None) or ()
        held = [cell.cell_contents for cell in cells]
        defaults = getattr(self.function, "__defaults__", None)
        digest.update(repr((held, defaults)).encode())
        return digest.hexdigest()[:16]


def _update(digest: Any, code: CodeType) -> None:  # noqa: ANN401 - of hashlib
    """Adds the code of a function, and of the functions defined in it, to the digest."""
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _update(digest, constant)
        else:
            digest.update(repr(constant).encode())


def numbers(value: object) -> dict[str, float | None]:
    """The checked result of a function as numbers by name; a single number gets the name `metric`.
    NaN becomes None.

    >>> numbers(1.5), numbers({"late": 2, "early": None})
    ({'metric': 1.5}, {'late': 2.0, 'early': None})

    Raises:
        NarrowsError: If a value is no number.
    """
    given: JsonObject = dict(value) if isinstance(value, Mapping) else {"metric": value}
    found: dict[str, float | None] = {}
    for name, one in given.items():
        try:
            found[name] = None if one is None or math.isnan(one) else float(one)
        except TypeError:
            raise NarrowsError(
                f"metric {name}: {one!r} is no number; return a number, or numbers by name"
            ) from None
    return found
