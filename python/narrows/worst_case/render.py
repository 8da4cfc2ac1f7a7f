"""The text of `narrows worst-case`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.render.tables import Cell, Table
from narrows.render.words import counted, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narrows.worst_case.evaluation import Measured
    from narrows.worst_case.running import WorstCase


_MOST_FLOWS = 6
"""Maximum number of flows in the table."""


_MOST_THREE_DIGITS = 999.5


def _number(value: float) -> str:
    """Three significant digits, or all digits of a whole number.

    >>> _number(7.8349), _number(0.04567), _number(1194.6)
    ('7.83', '0.0457', '1195')
    """
    return f"{value:.3g}" if value < _MOST_THREE_DIGITS else f"{value:.0f}"


def _percent(value: float) -> str:
    return f"{_number(value)} %"


def _span(values: Sequence[float]) -> str:
    """The smallest and the largest value; one value if both read the same.

    >>> _span([3.0, 9.5, 4.0]), _span([320.1, 320.2])
    ('3 % to 9.5 %', '320 %')
    """
    ends = [_percent(min(values)), _percent(max(values))]
    return " to ".join(dict.fromkeys(ends))


def _seeds(of: Measured) -> str:
    return f"seeds {of.seeds[0]} to {of.seeds[-1]}" if len(of.seeds) > 1 else f"seed {of.seeds[0]}"


def _limit(found: WorstCase) -> str:
    return f"{'above' if found.objective.large else 'below'} the limit of {found.limit:g} %"


def sentences(found: WorstCase) -> list[str]:
    """The result in sentences."""
    values = ", ".join(f"{key} = {value}" for key, value in found.values.items())
    first = (
        f"The worst of {counted(found.scenarios, 'scenario')} has {values}: "
        f"{_span(found.worst.values)} ({_what(found)}; {_seeds(found.worst)})."
    )
    if found.smallest is None or found.checked is None:
        return [
            first,
            f"No scenario is {_limit(found)} with every seed of the check; to reduce this "
            "scenario, write another --limit.",
        ]
    keys = counted(found.smallest.json()["keys"], "key")
    return [
        first,
        f"With {counted(len(found.checked), 'further seed')}: {_span(found.checked)}, "
        f"{_limit(found)}.",
        f"The smallest scenario {_limit(found)} sets {keys}: {_span(found.smallest.values)} "
        f"({_seeds(found.smallest)}).",
    ]


def failures(found: WorstCase) -> str:
    """The number of failed runs, and the first of them."""
    file, reason = found.failed[0]
    count = counted(len(found.failed), "run")
    return f"{count} failed; the search ignores their scenarios. {file}: {reason.splitlines()[0]}"


def _what(found: WorstCase) -> str:
    if found.flow is not None:
        return found.objective.what.replace(
            "smallest goodput of a flow", f"goodput of {found.flow}"
        )
    return found.objective.what


def runs(found: WorstCase) -> Table:
    """A row for each run of the printed scenario: the objective, and the goodput of each flow."""
    which = "worst" if found.smallest is None else "smallest"
    each = found.shown.json()["runs"]
    names = [flow["flow"] for flow in each[0]["flows"][:_MOST_FLOWS]]
    rows = [
        [
            Cell(str(run["seed"]), f"{which}.runs.{i}.seed"),
            Cell(_number(run["value_percent"]), f"{which}.runs.{i}.value_percent"),
            *(
                Cell(number(flow["goodput_mbit"], 3), f"{which}.runs.{i}.flows.{j}.goodput_mbit")
                for j, flow in enumerate(run["flows"][:_MOST_FLOWS])
            ),
        ]
        for i, run in enumerate(each)
    ]
    heads = (f"{found.objective.name} %", *(f"{name} Mbit/s" for name in names))
    return Table("", ("seed",), heads, rows)


def toml(found: WorstCase) -> str:
    """The scenario file, with a comment that states the measured values."""
    shown = found.shown
    values = ", ".join(_percent(value) for value in shown.values)
    head = [
        f"# {_what(found)[0].upper()}{_what(found)[1:]}: {values}.",
        f"# Values of {_seeds(shown)}.",
    ]
    return "\n".join([*head, "", shown.json()["toml"]])
