"""Executes the commands of a bundle in a separate folder.

Each command is a process whose working directory is this folder. This process imports no modules
from the folder (`-I`), has no settings of the user, and cannot write a file larger than
`MOST_FILE_BYTES`. The words of a command (checked by `recipe`) and its input files (checked by
`inputs`) name no files outside of the folder. The process loads the plugins that the user loaded;
a bundle cannot load one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from narrows import _core
from narrows.bundle.recipe import Command, safe_name
from narrows.errors import NarrowsError, reason
from narrows.operating_system import limiter
from narrows.storage import untrusted_input

if TYPE_CHECKING:
    from narrows.models.plugins import Cargo

MOST_FILE_BYTES = 1 << 30
"""Maximum size of a file that a command writes, in bytes."""

_NAMING = frozenset({"trace", "delay_trace", "tree", "file"})
"""Keys of a scenario that may name a file."""

_LAST_LINES = 5

_WITH_PLUGINS = (
    "import sys, json; sys.path[:] = json.loads(sys.argv.pop(1)); from narrows import _interrupt; "
    "from narrows.models.plugins import Cargo; "
    "[Cargo(**one).unpack() for one in json.loads(sys.argv.pop(1))]; "
    "from narrows.cli import main; main(prog_name='narrows')"
)
"""Program of a process that loads plugins before it executes a command."""


def read(folder: Path, name: str) -> bytes:
    """The content of a file in a folder; a link to a file outside of the folder is an error.

    Raises:
        NarrowsError: If the file cannot be read, or is not below the folder.
    """
    file = folder / safe_name(name)
    try:
        if not file.resolve().is_relative_to(folder.resolve()):
            raise NarrowsError(f"{name}: is a link out of the folder of the bundle; copy the file")
        return untrusted_input.read(file, untrusted_input.MOST_TRACE_BYTES)
    except OSError as error:
        raise NarrowsError(f"{name}: {reason(error)}") from error


def inputs(commands: Iterable[Command], folder: Path) -> dict[str, bytes]:
    """The content of files that commands read, and of those that their scenarios name, by file
    name.

    Files that an earlier command writes are left out.

    Raises:
        NarrowsError: If a file cannot be read, is not valid, or names files outside of the folder.
    """
    found: dict[str, bytes] = {}
    made: set[str] = set()
    for command in commands:
        for name in command.inputs:
            if any(PurePosixPath(name).is_relative_to(output) for output in made):
                continue
            if command.kind == "table" and not name.endswith(".csv"):
                raise NarrowsError(
                    f"{command.line}: no earlier command writes {name}; add this command"
                )
            found[name] = read(folder, name)
            if command.kind == "sweep":
                found |= _of_sweep(found[name], name, folder)
            elif command.kind == "scenario":
                found |= _of_scenario(found[name], name, folder)
        made |= set(command.outputs)
    return found


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise NarrowsError(f"{name}: is no text in UTF-8") from error


def _of_scenario(content: bytes, name: str, folder: Path) -> dict[str, bytes]:
    """The files that a scenario names."""
    text = _text(content, name)
    before = os.environ.pop("NARROWS_FILES_FROM", None)
    try:
        named = _core.scenario_files(text, str(folder / name))
    finally:
        if before is not None:
            os.environ["NARROWS_FILES_FROM"] = before
    place = PurePosixPath(name).parent
    return {one: read(folder, one) for one in (str(place / each) for each in named)}


def _of_sweep(content: bytes, name: str, folder: Path) -> dict[str, bytes]:
    """The scenario of a sweep and the files that it names. A sweep may not vary file names."""
    tree = _core.toml_tables(_text(content, name), name)
    if not isinstance(tree.get("scenario"), str):
        raise NarrowsError(f'{name}: needs the file of its scenario: scenario = "base.toml"')
    for key, value in (*_pairs(tree.get("over")), *_pairs(tree.get("case"))):
        if key.rpartition(".")[2] in _NAMING:
            raise NarrowsError(
                f"{name}: {key} = {value!r}: a sweep of a bundle varies no file; write one "
                "scenario for each file"
            )
    scenario = safe_name(str(PurePosixPath(name).parent / tree["scenario"]))
    text = read(folder, scenario)
    return {scenario: text} | _of_scenario(text, scenario, folder)


def _pairs(value: object) -> Iterable[tuple[str, Any]]:
    """Every key in nested tables and lists, with its value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key), inner
            yield from _pairs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner)


def execute(command: Command, folder: Path, timeout_s: float, plugins: Sequence[Cargo] = ()) -> str:
    """Executes a command, and returns its standard output.

    Args:
        command: The command.
        folder: The folder in which the command runs.
        timeout_s: Maximum run time, in s.
        plugins: The plugins that the user loaded. The process of the command loads them, too, and
            has the import path of this process.

    Raises:
        NarrowsError: If the exit code of the command is not 0, or if it takes longer than
            `timeout_s`.
    """
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    own = {"HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "TMPDIR"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NARROWS_", "PYTHON", "MPL"))
    }
    environment = kept | dict.fromkeys(own, str(home)) | {"COLUMNS": "160", "NO_COLOR": "1"}
    begin = ["-m", "narrows"]
    if plugins:
        paths = [str(Path(path).absolute()) for path in sys.path]
        given = [{"name": one.name, "path": one.path, "sha256": one.sha256} for one in plugins]
        begin = ["-c", _WITH_PLUGINS, json.dumps(paths), json.dumps(given)]
    try:
        done = subprocess.run(
            [sys.executable, "-I", *begin, *command.words],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", check=False, timeout=timeout_s,
            preexec_fn=limiter(MOST_FILE_BYTES),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NarrowsError(
            f"{command.line}: takes longer than {timeout_s:.0f} s; write a longer --timeout"
        ) from None
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        raise NarrowsError(f"{command.line}: exit code {done.returncode}\n{said}")
    return done.stdout


def results(folder: Path, commands: Iterable[Command]) -> dict[str, Path]:
    """The files that the commands wrote, by name; of a folder, all files below it."""
    found: dict[str, Path] = {}
    for command in commands:
        for output in command.outputs:
            place = folder / output
            files = sorted(place.rglob("*")) if place.is_dir() else [place]
            found |= {
                str(file.relative_to(folder)): file
                for file in files
                if file.is_file() and not file.is_symlink()
            }
    return found
