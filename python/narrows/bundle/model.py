"""The types of the JSON of bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired

    from narrows.runs.model import HostProvenanceJson


class FileJson(TypedDict):
    """A file of a bundle."""

    bytes: int
    sha256: str


class PluginJson(TypedDict):
    """A plugin with which the commands of a bundle ran. The bundle does not contain its code."""

    name: str
    models: list[str]
    sha256: NotRequired[str]
    version: NotRequired[str]


class ManifestJson(TypedDict):
    """The manifest of a bundle."""

    kind: str
    format: int
    narrows: str
    scenario_format: int
    commands: list[list[str]]
    files: dict[str, FileJson]
    contents: dict[str, str]
    """For each result that is a table, the digest of its values."""
    plugins: NotRequired[list[PluginJson]]
    provenance: HostProvenanceJson


class ItemJson(TypedDict):
    """The comparison of one result."""

    name: str
    state: str
    about: str


class VerificationJson(TypedDict):
    """The comparison of all results, as `narrows bundle --verify --json` prints it."""

    agrees: bool
    made_with: str
    narrows: str
    commands: list[list[str]]
    results: list[ItemJson]
    other_plugins: NotRequired[list[str]]
    """The models that come from another version of their plugin than in the bundle."""
