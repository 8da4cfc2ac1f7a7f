"""Congestion controls as objects: a class for each name of `narrows list cc`, a keyword for each of
its parameters.

>>> import narrows as nw
>>> nw.cc.Cubic(hystart="off").tree()
{'kind': 'cubic', 'hystart': 'off'}
"""

from __future__ import annotations

from narrows.runs import schema


def __getattr__(name: str) -> object:
    return schema.attribute("cc", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *schema.tables("cc")})
