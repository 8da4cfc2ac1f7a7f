"""The plugins of this process, for the parts of narrows that run models.

This module imports little, because every command uses it. The module `plugins` loads plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from narrows.errors import EngineError

if TYPE_CHECKING:
    from narrows.json_object import JsonObject

LIBRARIES = (".so", ".dylib")
"""Suffixes of shared libraries."""

Names = tuple[tuple[str, str], ...]
"""The list (`cc`, `queue` or `transport`) and the name of each model."""


class Plugin(NamedTuple):
    """A plugin that was loaded.

    Attributes:
        name: Name of the plugin, as the user wrote it.
        kind: `file`, `module`, `class` or `package`.
        path: File of the plugin, if there is one.
        sha256: SHA-256 of this file.
        version: Version of the package that contains the plugin; None without a package.
        models: Its models.
    """

    name: str
    kind: str
    path: str | None
    sha256: str | None
    version: str | None
    models: Names

    def about(self) -> JsonObject:
        """For the provenance of a result."""
        given = {"from": self.name, "sha256": self.sha256, "version": self.version}
        return {key: value for key, value in given.items() if value is not None}

    def native(self) -> bool:
        """Whether the plugin is a shared library."""
        return self.path is not None and self.path.endswith(LIBRARIES)


LOADED: list[Plugin] = []
"""The loaded plugins, in the order of loading."""


def names(of: str) -> list[str]:
    """The names of the models of all loaded plugins.

    Args:
        of: `cc` or `queue`.
    """
    return [name for plugin in LOADED for kind, name in plugin.models if kind == of]


def only_here() -> bool:
    """Whether this program registered a class as a model, which another process cannot import."""
    return any(plugin.kind == "class" for plugin in LOADED)


def named(scenario: object) -> Iterator[tuple[str, str]]:
    """The lists and names of the models that the tables of a scenario name."""
    if isinstance(scenario, Mapping):
        for key, value in scenario.items():
            if key in {"cc", "queue", "transport"}:
                if isinstance(value, str):
                    yield key, value
                elif isinstance(value, Mapping) and isinstance(value.get("kind"), str):
                    yield key, value["kind"]
            yield from named(value)
    elif isinstance(scenario, (list, tuple)):
        for value in scenario:
            yield from named(value)


def used(scenario: Mapping[str, Any]) -> dict[str, JsonObject]:
    """The models of plugins that a scenario names, each with the origin of its plugin."""
    if not LOADED:
        return {}
    names = set(named(scenario))
    return {
        name: plugin.about()
        for plugin in LOADED
        for of, name in plugin.models
        if (of, name) in names
    }


def check_live(scenario: Mapping[str, Any], engine: str) -> list[str]:
    """The shared libraries of plugins that a run of a scenario with real packets needs.

    Args:
        scenario: The tables of the scenario.
        engine: `live` or `linux`, for the error.

    Raises:
        EngineError: If the scenario names a transport of a plugin or a model in Python, which only
            the simulator runs.
    """
    names = set(named(scenario))
    libraries = []
    for plugin in LOADED:
        models = [model for model in plugin.models if model in names]
        if not models:
            continue
        of, name = models[0]
        if of == "transport":
            raise EngineError(
                f"{name}: the TCP of --engine {engine} is the kernel's; write --engine sim"
            )
        if not plugin.native():
            why = (
                f"the congestion control of --engine {engine} is the kernel's; write --engine sim"
                if of == "cc"
                else f"--engine {engine} runs no Python; write the queue discipline in Rust, "
                "or write --engine sim"
            )
            raise EngineError(f"{name}: comes from {plugin.name}: {why}")
        assert plugin.path is not None
        libraries.append(plugin.path)
    return libraries
