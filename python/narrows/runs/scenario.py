"""The scenario as Python objects: path, flows and probes, but not the engine or outputs of a run.

This module checks nothing. It passes the values unchanged to the parser in the Rust core, which
knows all units, defaults and ranges and reports all mistakes at once. Values that are None are left
out, so that the documented default applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from html import escape
from os import PathLike
from pathlib import Path as FilePath
from typing import cast

from narrows import _core, registry
from narrows.json_object import JsonObject
from narrows.runs import schema
from narrows.runs.choice import Chosen, python_name
from narrows.runs.sections import (
    Flow,
    Hop,
    Host,
    Link,
    Path,
    Ping,
    Settings,
    Station,
    Switch,
    Wifi,
)
from narrows.runs.source import read
from narrows.storage.text import name_of

__all__ = [
    "Flow", "Hop", "Host", "Link", "Path", "Ping", "Scenario", "Settings", "Station", "Switch",
    "Tree", "Wifi", "from_tree", "load",
]  # fmt: skip

Tree = JsonObject
"""A scenario as nested tables, with the content of a scenario file."""


@dataclass(frozen=True)
class Scenario(Settings):
    """A scenario: its sections, and the keys before the first section (`Settings`).

    >>> path = Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> Scenario(path, flows=[Flow("cubic")], duration="5s", seed=7).tree()["flow"]
    [{'cc': 'cubic'}]

    Attributes:
        path: The path between the hosts.
        wifi: An access point and its stations, instead of a path or behind it.
        links: The links of a network by their names, instead of a path.
        switches: The switches of the network by their names.
        flows: The flows.
        probes: The probes, which measure the RTT of the path while the flows send.
        host: The hosts at both ends.
        hosts: Hosts with settings of their own by their names, for `sender` and `receiver` of a
            flow.
    """

    path: Path | None = None
    _: KW_ONLY
    wifi: Wifi | None = None
    links: Mapping[str, Link] | None = None
    switches: Mapping[str, Switch] | None = None
    flows: Sequence[Flow] = ()
    probes: Sequence[Ping] = ()
    host: Host | None = None
    hosts: Mapping[str, Host] | None = None

    def __post_init__(self) -> None:
        """Converts lists to tuples, because the class is frozen."""
        object.__setattr__(self, "flows", tuple(self.flows))
        object.__setattr__(self, "probes", tuple(self.probes))

    def tree(self) -> Tree:
        """The scenario as nested tables, with the names of a scenario file."""
        tree = super().tree()
        for plural, singular in (("flows", "flow"), ("probes", "probe")):
            tables = tree.pop(plural)
            if tables:
                tree[singular] = tables
        for plural, singular in (("links", "link"), ("switches", "switch")):
            if plural in tree:
                tree[singular] = tree.pop(plural)
        if "hosts" in tree:
            tree["host"] = {**tree.get("host", {}), **tree.pop("hosts")}
        return tree

    def toml(self) -> str:
        """The scenario as a file.

        Raises:
            ScenarioError: If the scenario is not valid.
        """
        return _core.scenario_to_toml(self.tree())

    def _repr_html_(self) -> str:
        """The text of the scenario file as HTML, for notebooks."""
        return f"<pre>{escape(self.toml())}</pre>"


def _chosen(what: str, value: object) -> Chosen:
    made = schema.of_kind(what, value.get("kind")) if isinstance(value, dict) else None
    if isinstance(value, dict) and made is not None:
        return made(**{name: v for name, v in value.items() if name != "kind"})
    return cast("Chosen", value)


def _hop(tree: Tree, folder: FilePath) -> Tree:
    hop = dict(tree)
    if "queue" in hop:
        hop["queue"] = _chosen("queue", hop["queue"])
    for key in ("trace", "delay_trace"):
        if isinstance(hop.get(key), dict):
            hop[key] = hop[key] | {"file": str(folder / hop[key]["file"])}
        elif key in hop:
            hop[key] = str(folder / hop[key])
    return hop


def _named(tree: Tree) -> Tree:
    return {python_name(key): value for key, value in tree.items()}


def _flow(tree: Tree, folder: FilePath) -> Flow:
    tree = _named(tree)
    if "cc" not in tree:
        return Flow(**tree)
    choice = tree["cc"]
    if isinstance(choice, dict) and choice.get("kind") == "remy" and _is_file(choice.get("tree")):
        choice = choice | {"tree": str(folder / choice["tree"])}
    return Flow(**{**tree, "cc": _chosen("cc", choice)})


def _is_file(tree: str | None) -> bool:
    """Whether the value names a file. It may also be the text of a tree, or the name of a tree that
    narrows contains.
    """
    return (
        tree is not None and "\n" not in tree and tree not in registry.shipped("cc", "remy", "tree")
    )


def from_tree(tree: Tree, folder: FilePath = FilePath()) -> Scenario:
    """The scenario object for nested tables that the core has accepted. Names of files in it are
    relative to `folder`.
    """
    rest = dict(tree)
    wifi = rest.pop("wifi", None)
    if wifi is not None:
        stations = [Station(**station) for station in wifi["station"]]
        rest["wifi"] = Wifi(**{**wifi, "station": tuple(stations)})
    path = _hop(rest.pop("path", {}), folder)
    if "hop" in path:
        path["hop"] = tuple(Hop(**_hop(hop, folder)) for hop in path["hop"])
    if "reverse" in path:
        path["reverse"] = Hop(**_hop(path["reverse"], folder))
    flows = [_flow(flow, folder) for flow in rest.pop("flow", [])]
    probes = [
        Ping(**{k: v for k, v in _named(probe).items() if k != "kind"})
        for probe in rest.pop("probe", [])
    ]
    host = rest.pop("host", None)
    if host is not None:
        own = {field.name for field in fields(Host)}
        named = {name: of for name, of in host.items() if name not in own and isinstance(of, dict)}
        host = {name: value for name, value in host.items() if name not in named}
        if named:
            rest["hosts"] = {name: Host(**settings) for name, settings in named.items()}
    links = rest.pop("link", None)
    if links is not None:
        rest["links"] = {name: Link(**_named(_hop(link, folder))) for name, link in links.items()}
    switches = rest.pop("switch", None)
    if switches is not None:
        rest["switches"] = {name: Switch(**switch) for name, switch in switches.items()}
    # A path may also carry the traffic of a Wi-Fi.
    whole = None if not path and (wifi is not None or links is not None) else Path(**path)
    return Scenario(
        whole, flows=flows, probes=probes, host=Host(**host) if host is not None else None, **rest
    )


def load(file: str | PathLike[str]) -> Scenario:
    """Reads a scenario file.

    Raises:
        ScenarioError: If the scenario is not valid; the error contains all mistakes.
        NarrowsError: If the file cannot be read.
    """
    return from_tree(_core.toml_to_tree(read(file), name_of(file)), FilePath(file).parent)
