"""Checks for optional Python packages; errors name the extra of narrows that installs them."""

from __future__ import annotations

from narrows.errors import NarrowsError

_PYARROW = (
    "Arrow tables and Parquet files need pyarrow, which is not installed\n"
    "    write: pip install 'narrows[tables]'"
)


def require_pyarrow() -> None:
    """Checks that pyarrow is installed, without importing it.

    Raises:
        NarrowsError: If pyarrow is not installed.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - a run without tables needs no search

    if find_spec("pyarrow") is None:
        raise NarrowsError(_PYARROW)
