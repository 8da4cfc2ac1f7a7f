"""Queue disciplines as objects, with tc's names for the parameters; `narrows list queues --verbose` describes them."""

from __future__ import annotations

from dataclasses import dataclass

from narrows._choice import Choice


@dataclass(frozen=True, kw_only=True)
class Fifo(Choice):
    """First in, first out; drops what does not fit. Its limit is the path's `buffer`.

    >>> Fifo().tree()
    {'kind': 'fifo'}
    """

    kind = "fifo"
