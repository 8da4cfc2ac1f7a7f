"""Tables of `narrows kernel`."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.kernel.model import Release
from narrows.kernel.store import Kernel
from narrows.render.tables import Cell, Table


def table(releases: Sequence[Release]) -> Table:
    """A row per built kernel, and one for each release without any."""
    rows = []
    for release in releases:
        known = [
            Cell(release.name),
            Cell(f"linux-{release.name}" if release.modelled else "–"),
        ]
        for kernel in release.kernels:
            rows.append([*known, Cell(kernel.name), Cell(_state(kernel)), Cell(str(release.rules))])
        if not release.kernels:
            rows.append([*known, Cell("–"), Cell("not built"), Cell(str(release.rules))])
    return Table("Kernels", ("release", "modelled as", "--kernel", "binary"), ("rules",), rows)


def _state(kernel: Kernel) -> str:
    try:
        size = f"{kernel.binary.stat().st_size / 1e6:.1f} MB"
    except OSError:
        return "missing"
    state = f"{kernel.release}, {size}, built in {kernel.build_s:.0f} s"
    return state if kernel.current else f"{state}, by another version of narrows"
