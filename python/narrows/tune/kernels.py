"""Features of Linux releases, from `core/src/tune/features.rs`."""

from __future__ import annotations

from dataclasses import dataclass

from narrows import _core

Release = tuple[int, int]


@dataclass(frozen=True)
class Feature:
    """A feature that a release of Linux introduced."""

    name: str
    since: Release
    what: str
    source: str


FEATURES: dict[str, Feature] = {row[0]: Feature(*row) for row in _core.linux_features()}
"""Features by name; the descriptions are for users."""


def has(release: Release | None, feature: str) -> bool | None:
    """Whether a release is at least the one that introduced a feature; None if the release is
    unknown.

    >>> has((4, 9), "bbr"), has((4, 9), "pacing"), has(None, "bbr")
    (True, False, None)
    """
    return None if release is None else release >= FEATURES[feature].since
