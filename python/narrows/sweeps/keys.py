"""Sets a key of a scenario, which is named as in error messages of scenarios: `path.rate`,
`flow[1].cc`.

A key without a number, `flow.cc`, is set in every table of the list. A key of a parameter, such as
`path.queue.target`, also works if the scenario has only the name, `queue = "fq_codel"`. The name is
then replaced by a table with this `kind`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from narrows.errors import NarrowsError
from narrows.json_object import JsonObject

_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(\d+)\])?")


@lru_cache(maxsize=1000)
def steps(key: str) -> tuple[tuple[str, int | None], ...]:
    """The parts of a key: names, each with its index in a list or None.

    >>> steps("flow[1].cc.hystart")
    (('flow', 1), ('cc', None), ('hystart', None))

    Raises:
        NarrowsError: If the text is not a key.
    """
    found = [_STEP.fullmatch(part) for part in key.split(".")]
    if not all(found):
        raise NarrowsError(
            f"`{key}` is no key of a scenario; write one like `path.rate`, `flow[1].cc` or "
            "`flow.cc`"
        )
    return tuple(
        (match[1], None if match[2] is None else int(match[2]))
        for match in found
        if match is not None
    )


def put(tree: JsonObject, key: str, value: object) -> None:
    """Sets a key to a value, in the given scenario.

    >>> scenario = {"path": {"queue": "fq_codel"}, "flow": [{"cc": "bbr"}, {"cc": "cubic"}]}
    >>> put(scenario, "path.queue.target", "10ms")
    >>> put(scenario, "flow.start", "1s")
    >>> put(scenario, "flow[1].cc", "reno")
    >>> scenario["path"], scenario["flow"][1]
    ({'queue': {'kind': 'fq_codel', 'target': '10ms'}}, {'cc': 'reno', 'start': '1s'})

    Raises:
        NarrowsError: If the scenario has no such list or index.
    """
    *way, (last, nth) = steps(key)
    tables = [tree]
    for name, number in way:
        tables = [found for table in tables for found in _inside(table, name, number, key)]
    for table in tables:
        if nth is None:
            table[last] = value
        else:
            items = table.get(last)
            if not isinstance(items, list) or nth >= len(items):
                raise _absent(key, last, items)
            items[nth] = value


def _inside(table: JsonObject, name: str, number: int | None, key: str) -> list[JsonObject]:
    here = table.setdefault(name, {})
    if isinstance(here, str):
        here = table[name] = {"kind": here}
    if isinstance(here, list):
        if number is None:
            return [item for item in here if isinstance(item, dict)]
        if number < len(here) and isinstance(here[number], dict):
            return [here[number]]
        raise _absent(key, name, here)
    if number is not None or not isinstance(here, dict):
        raise _absent(key, name, here)
    return [here]


def _absent(key: str, name: str, here: object) -> NarrowsError:
    count = len(here) if isinstance(here, list) else 0
    has = f"has {count} of `{name}`, counted from 0" if count else f"has no list `{name}`"
    return NarrowsError(f"`{key}`: the scenario {has}")
