"""The facts about a host and its network configuration, which `_core` reads from the output of the
collector script.

A missing value is `None` or empty and never guessed. A finding about it reports that the value is
not visible.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from narrows import _core


class Record(dict[str, Any]):
    """A JSON object whose values are also attributes; `core/src/tune/facts.rs` describes them."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a JSON value
        """Returns the value of a key."""
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error

    def __setattr__(self, name: str, value: object) -> None:
        """Sets the value of a key."""
        self[name] = value

    def json(self) -> str:
        """The object as JSON."""
        return json.dumps(self)


class Interface(Record):
    """A network interface."""


class Facts(Record):
    """The facts about a host that the collector found.

    If the collector read a directory tree, it called no programs.
    """

    def _summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_core.host_summary(self.json()))
        return found

    @property
    def kernel(self) -> tuple[int, int] | None:
        """The major and minor number of the kernel release; None if unknown."""
        found = self._summary()["kernel"]
        return found and (found[0], found[1])

    @property
    def forwards(self) -> bool:
        """Whether the host forwards IPv4 or IPv6 packets."""
        return bool(self._summary()["forwards"])

    @property
    def default_cc(self) -> str | None:
        """The default congestion control of new connections."""
        return self.value("net.ipv4.tcp_congestion_control")

    @property
    def available(self) -> list[str]:
        """The congestion controls that are built in or loaded now."""
        return list(self._summary()["available"])

    def value(self, key: str) -> str | None:
        """The value of a sysctl, by its key with dots; None if unknown."""
        found: str | None = self["sysctl"].get(key)
        return found

    def interface(self, name: str) -> Interface | None:
        """The interface with this name; None if there is none."""
        return next((each for each in self["interfaces"] if each["name"] == name), None)

    def module_states(self, modules: Sequence[str]) -> dict[str, str | None]:
        """The state of each of these kernel modules: `builtin`, `loaded`, `loadable` or `missing`;
        None if unknown.
        """
        return dict(zip(modules, _core.module_states(self.json(), list(modules)), strict=True))

    def cc_states(self, names: Sequence[str]) -> dict[str, str | None]:
        """The states of these congestion controls, as `module_states` returns them. One that the
        kernel lists as available is never `missing` or unknown.
        """
        return dict(zip(names, _core.cc_states(self.json(), list(names)), strict=True))


def _record(row: dict[str, Any]) -> dict[str, Any]:
    return Interface(row) if "qdiscs" in row else row


def parse(text: str, name: str = "the collector's text") -> Facts:
    """Parses the collector's text.

    Raises:
        NarrowsError: If the text is something else, is incomplete, or has another version.
    """
    return Facts(json.loads(_core.host_facts(text, name), object_hook=_record))
