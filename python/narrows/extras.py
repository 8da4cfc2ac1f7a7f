"""Optional packages, and the extra of narrows that installs each."""

from __future__ import annotations

from narrows.errors import NarrowsError

_PYARROW = (
    "Arrow tables and Parquet files need pyarrow, which is not installed\n"
    "    write: pip install 'narrows[tables]'"
)


def require_pyarrow() -> None:
    """Checks that pyarrow is installed, without importing it.

    Raises:
        NarrowsError: If it is not.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - a run without tables needs no search

    if find_spec("pyarrow") is None:
        raise NarrowsError(_PYARROW)
