"""The Rust side: thin, low-level; `narrows` is what people use."""

from collections.abc import Callable, Mapping
from typing import Any, final

__all__ = [
    "SCENARIO_FORMAT",
    "Run",
    "Table",
    "__version__",
    "check_toml",
    "compare_engines",
    "compare_metric",
    "list_json",
    "path_json",
    "path_numbers",
    "remy_from_dna",
    "run_elsewhere",
    "run_toml",
    "run_tree",
    "scenario_defaults",
    "scenario_files",
    "scenario_to_toml",
    "toml_tables",
    "toml_to_tree",
]

__version__: str
SCENARIO_FORMAT: int

@final
class Table:
    """One table of samples in the memory of the engine.

    `pyarrow.table`, polars and others read it without a copy.
    """

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Run:
    """What the engine saw."""

    def json(self) -> str: ...
    def table(self, name: str) -> Table: ...
    @property
    def files(self) -> dict[str, str]: ...
    @property
    def verdicts_left_out(self) -> int: ...
    @property
    def record_error(self) -> str | None: ...

def run_toml(
    text: str,
    file_name: str,
    *,
    seed: int | None = None,
    sample_interval: str | None = None,
    verdicts: int = 0,
    states: bool = False,
    record: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Run: ...
def run_tree(
    tree: Mapping[str, Any],
    *,
    seed: int | None = None,
    sample_interval: str | None = None,
    verdicts: int = 0,
    states: bool = False,
    record: str | None = None,
    progress: Callable[[float, float], object] | None = None,
) -> Run: ...
def run_elsewhere(json: str, samples: bytes, record_error: str | None = None) -> Run: ...
def check_toml(text: str, file_name: str, *, built: bool = False) -> list[str]: ...
def toml_tables(text: str, file_name: str) -> dict[str, Any]: ...
def toml_to_tree(text: str, file_name: str) -> dict[str, Any]: ...
def scenario_defaults(tree: Mapping[str, Any]) -> dict[str, Any]: ...
def scenario_files(text: str, file_name: str, *, built: bool = False) -> dict[str, str]: ...
def scenario_to_toml(tree: Mapping[str, Any], files: Mapping[str, str] | None = None) -> str: ...
def list_json(*only: str) -> str: ...
def remy_from_dna(dna: bytes, name: str) -> tuple[str, int]: ...
def path_json(tree: Mapping[str, Any]) -> str: ...
def path_numbers(tree: Mapping[str, Any]) -> dict[str, Any]: ...
def compare_metric(
    name: str,
    reference: list[float],
    ours: float,
    *,
    rate_mbit: float,
    rtt_ms: float,
    duration_s: float,
    flows: int,
) -> tuple[bool, float, float]: ...
def compare_engines(
    name: str,
    reference: list[float],
    ours: list[float],
    *,
    rate_mbit: float,
    rtt_ms: float,
    flows: int,
) -> tuple[str, float, float, float, float]: ...
