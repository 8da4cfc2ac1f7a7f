"""Arrow tables as data frames of pandas and Polars, which are not installed with narrows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.errors import NarrowsError

if TYPE_CHECKING:
    import pyarrow as pa


def to_pandas(table: pa.Table) -> Any:  # noqa: ANN401 - a DataFrame of an optional package
    """A table, such as `run.samples`, as a data frame of pandas.

    Raises:
        NarrowsError: If pandas is not installed, or `table` is no table.
    """
    _require(table)
    try:
        return table.to_pandas()
    except ModuleNotFoundError as error:
        raise _missing("pandas") from error


def to_polars(table: pa.Table) -> Any:  # noqa: ANN401 - a DataFrame of an optional package
    """A table, such as `run.samples`, as a data frame of Polars.

    Raises:
        NarrowsError: If Polars is not installed, or `table` is no table.
    """
    try:
        import polars  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise _missing("polars") from error
    _require(table)
    return polars.from_arrow(table)


def _require(table: object) -> None:
    if not (hasattr(table, "to_pandas") and hasattr(table, "column_names")):
        raise NarrowsError(
            f"{type(table).__name__}: is not an Arrow table; pass one, such as run.samples"
        )


def _missing(package: str) -> NarrowsError:
    return NarrowsError(f"{package}: is not installed\n    write: pip install {package}")
