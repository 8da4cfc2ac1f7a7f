"""The target of conformance checks: a congestion control of narrows, or a transport of an adapter.

`narrows.conform.pair` has the third kind of target, a pair of commands.

The family of a target decides which checks apply. The registry has the families of narrows' own
congestion controls. A congestion control of another transport has the family of the congestion
control of narrows with the same name. A congestion control whose name begins with `bbr` belongs to
the family `model`.
"""

from __future__ import annotations

from dataclasses import dataclass

from narrows import _core, registry
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject


@dataclass(frozen=True, kw_only=True)
class Target:
    """A transport with one of its congestion controls.

    Attributes:
        cc: Its congestion control.
        family: Family of the congestion control, by the signals to which it responds.
        transport: The transport; None for the TCP of narrows.
        version: Package and version of its stack; empty for narrows itself.
        rules: The congestion control whose rules apply, usually `cc`.
    """

    cc: str
    family: str
    transport: str | None = None
    version: str = ""
    rules: str = ""

    @property
    def name(self) -> str:
        """The name of the target, such as `cubic` or `quinn:cubic`.

        >>> Target(cc="cubic", family="loss", transport="quinn").name
        'quinn:cubic'
        """
        return self.cc if self.transport is None else f"{self.transport}:{self.cc}"

    def flow(self, **keys: object) -> JsonObject:
        """The table of a flow of this target in a scenario, with further keys."""
        of = {} if self.transport is None else {"transport": self.transport}
        return {"cc": self.cc, **of, **keys}


def find(name: str, rules: str | None = None) -> Target:
    """The target of this name: `CC`, `TRANSPORT` or `TRANSPORT:CC`.

    Args:
        name: The name.
        rules: The congestion control whose rules apply, by default that of the name.

    >>> find("cubic").family
    'loss'

    Raises:
        NarrowsError: If there is no such target.
    """
    transport, _, cc = name.partition(":")
    loaded = {row[0]: row for row in _core.transports()}
    if transport in loaded:
        _, version, _, ccs = loaded[transport]
        if cc and cc not in ccs:
            raise NarrowsError(
                f"{name}: {transport} has no congestion control {cc}; known: {', '.join(ccs)}"
            )
        cc = cc or ccs[0]
        own = rules or cc
        return Target(cc=cc, family=family(own), transport=transport, version=version, rules=own)
    known = registry.names("cc")
    if not cc and (transport in known or _core.find_model("cc", transport)):
        own = rules or transport
        return Target(cc=transport, family=family(own), rules=own)
    if not transport:
        raise NarrowsError(
            f"{name}: the transport is missing; write {cc or 'cubic'} or quinn:cubic"
        )
    raise NarrowsError(
        f"{name}: neither a congestion control of narrows nor a loaded transport; to load the "
        f"adapter of a transport, write --plugin {transport} (make adapters builds it)"
    )


def family(cc: str) -> str:
    """The family of a congestion control.

    >>> family("bbr3")
    'model'
    """
    rows = {row["name"]: str(row["family"]) for row in registry.table("cc")}
    if cc.startswith("bbr"):
        return "model"
    return rows.get(cc, "loss")
