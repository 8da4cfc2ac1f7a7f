"""The search for the point of a space at which an objective is worst.

Algorithm: a Latin hypercube of a quarter of the budget, and then the covariance matrix adaptation
evolution strategy (CMA-ES) from its worst point. CMA-ES ends if it converges, or if a generation
contains no new scenario. It then begins again at the worst point of the hypercube that is far from
all earlier beginnings. The population has a constant size.

Sources: Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772. Hamano, Saito, Nomura
and others, "CatCMA with Margin", arXiv 2504.07884 (whole numbers and lists). The package `cmaes`
implements both. The hypercube is that of a sweep.

Ranges are searched on their scale, linear or logarithmic, as shares from 0 to 1. The same budget,
seed and version of `cmaes` give the same scenarios, whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError
from narrows.sweeps.design import Design

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.worst_case.space import Space

POPULATION = 16
"""Default number of scenarios in a generation of CMA-ES."""

_FIRST_PART = 4
"""The hypercube has the budget divided by this number of scenarios."""

_SIGMA = 0.2
"""Initial standard deviation of each range, as a share of it."""

_FAR = 0.2
"""Least distance between two beginnings of CMA-ES in any range, as a share of it."""

_BEST_CATEGORY = 0.5
"""Initial probability of the value of a list with which CMA-ES begins."""

_TIE = 1e-9
"""Difference in cost between neighbours in a generation whose quartiles are equal."""

_IDLE = 20
"""Number of consecutive generations without a new scenario after which the search ends."""

Cost = Callable[["Sequence[JsonObject]"], "list[float | None]"]
"""Returns the cost of each set of values; None if it is not valid. The search minimises it."""


@dataclass(frozen=True)
class Point:
    """A point of the space: shares of ranges, and indices in lists."""

    continuous: tuple[float, ...]
    whole: tuple[float, ...]
    listed: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """An evaluated point.

    Attributes:
        values: The values of the keys.
        cost: The cost.
    """

    values: JsonObject
    cost: float


def require_cmaes() -> Any:  # noqa: ANN401 - a module without types
    """The module `cmaes`.

    Raises:
        NarrowsError: If it is not installed.
    """
    try:
        import cmaes  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise NarrowsError(
            "narrows worst-case needs cmaes, which is not installed\n"
            "    write: pip install 'narrows[search]'"
        ) from error
    return cmaes


class Search:
    """The state of a search."""

    def __init__(
        self, space: Space, cost: Cost, *, budget: int, seed: int, population: int = POPULATION
    ) -> None:
        """A search that ends with the generation in which `budget` scenarios are evaluated."""
        self._space, self._cost = space, cost
        self._budget, self._seed, self._population = budget, seed, population
        self._numbers = [space.numbers(of) for of in space.whole]
        self._known: dict[str, Found | None] = {}

    @property
    def evaluated(self) -> int:
        """The number of scenarios so far."""
        return len(self._known)

    def found(self) -> list[Found]:
        """All valid scenarios, the worst first."""
        valid = [one for one in self._known.values() if one is not None]
        return sorted(valid, key=lambda one: (one.cost, str(one.values)))

    def run(self) -> None:
        """Searches until the budget is spent."""
        cmaes = require_cmaes()
        first = self._hypercube(max(2, self._budget // _FIRST_PART))
        costs = self._evaluate(first)
        order = sorted(range(len(first)), key=lambda i: (costs[i], i))
        begun: list[Point] = []
        idle = 0
        while self.evaluated < self._budget and idle < _IDLE:
            point = next(
                (first[i] for i in order if all(self._far(first[i], one) for one in begun)),
                first[order[len(begun) % len(order)]],
            )
            begun.append(point)
            optimizer = self._optimizer(cmaes, point, len(begun))
            # The conditions of cmaes for an end are those of ranges.
            ranges = bool(point.continuous or point.whole)
            first_generation = True
            while self.evaluated < self._budget and not (ranges and optimizer.should_stop()):
                before = self.evaluated
                asked = [optimizer.ask() for _ in range(self._population)]
                got = self._evaluate([self._point(one) for one in asked])
                if self.evaluated == before:
                    idle += 1
                    break
                idle = 0
                told = _separated(got) if first_generation else got
                first_generation = False
                optimizer.tell(list(zip(asked, told, strict=True)))

    def _hypercube(self, count: int) -> list[Point]:
        """Points of a Latin hypercube in the unit cube."""
        share = {"from": 0.0, "to": 1.0}
        axes = {f"k{i}": share for i in range(len(self._space.axes))}
        points = []
        continuous, whole = len(self._space.continuous), len(self._space.whole)
        design = Design("latin_hypercube", axes, cases=count, seed=self._seed)
        for row in (design[i] for i in range(count)):
            shares = list(row.values())
            numbers = [
                each[min(int(at * len(each)), len(each) - 1)]
                for each, at in zip(self._numbers, shares[continuous:], strict=False)
            ]
            listed = [
                min(int(at * len(of.values)), len(of.values) - 1)
                for of, at in zip(self._space.listed, shares[continuous + whole :], strict=True)
            ]
            points.append(Point(tuple(shares[:continuous]), tuple(numbers), tuple(listed)))
        return points

    def _optimizer(self, cmaes: Any, begin: Point, number: int) -> Any:  # noqa: ANN401
        """CMA-ES that begins at a point."""
        import numpy as np  # noqa: PLC0415 - as cmaes

        ranges = len(begin.continuous) + len(begin.whole)
        most = max((len(of.values) for of in self._space.listed), default=0)
        chances = np.zeros((len(begin.listed), most))
        for row, of, best in zip(chances, self._space.listed, begin.listed, strict=True):
            count = len(of.values)
            row[:count] = (1 - _BEST_CATEGORY) / (count - 1)
            row[best] = _BEST_CATEGORY
        return cmaes.CatCMAwM(
            x_space=[[0.0, 1.0]] * len(begin.continuous) or None,
            z_space=self._numbers or None,
            c_space=[len(of.values) for of in self._space.listed] or None,
            population_size=self._population,
            mean=np.array([*begin.continuous, *begin.whole]) if ranges else None,
            sigma=_SIGMA if ranges else None,
            cov=np.eye(ranges) if ranges else None,
            cat_param=chances if begin.listed else None,
            seed=(self._seed + number) % 2**32,
        )

    def _point(self, solution: Any) -> Point:  # noqa: ANN401 - a type of cmaes
        return Point(
            tuple(map(float, solution.x)) if solution.x is not None else (),
            tuple(map(float, solution.z)) if solution.z is not None else (),
            tuple(int(row.argmax()) for row in solution.c) if solution.c is not None else (),
        )

    def _far(self, one: Point, other: Point) -> bool:
        shares = zip(one.continuous + one.whole, other.continuous + other.whole, strict=True)
        return one.listed != other.listed or any(abs(a - b) >= _FAR for a, b in shares)

    def _evaluate(self, points: Sequence[Point]) -> list[float]:
        """The costs of points. A point that is not valid has the highest cost of the others."""
        values = [self._space.values(p.continuous, p.whole, p.listed) for p in points]
        names = [str(one) for one in values]
        new = {
            name: one for name, one in zip(names, values, strict=True) if name not in self._known
        }
        for (name, one), cost in zip(new.items(), self._cost(list(new.values())), strict=True):
            self._known[name] = None if cost is None else Found(one, cost)
        costs = [found.cost if (found := self._known[name]) else None for name in names]
        highest = max((cost for cost in costs if cost is not None), default=0.0)
        return [highest if cost is None else cost for cost in costs]


def _separated(costs: list[float]) -> list[float]:
    """The costs of a first generation, with small differences if their quartiles are equal.

    The penalty of cmaes outside the ranges needs a generation whose quartiles differ. Without one,
    it is not a number, and it replaces all costs.
    """
    order = sorted(range(len(costs)), key=costs.__getitem__)
    if costs[order[len(costs) // 4]] < costs[order[3 * len(costs) // 4]]:
        return costs
    places = {at: place for place, at in enumerate(order)}
    return [cost + _TIE * places[at] for at, cost in enumerate(costs)]
