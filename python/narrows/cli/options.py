"""Options that several commands have, and constants of the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from narrows.cli.command import option
from narrows.cli.outputs import Picture
from narrows.storage import output

F = TypeVar("F", bound=Callable[..., Any])

WRONG = 2
"""Exit code of errors that the caller can correct, such as a wrong option."""

WIDEST_SKETCH = 100
"""A sketch in a terminal is no wider, in characters."""

SEED = click.IntRange(0, 2**64 - 1)
"""Type of a seed."""

MOST_SEEDS = 100_000
"""Largest value of `--seeds`."""

IN_TERMINAL = ""
"""The file of a plot that is drawn in the terminal."""


plot_option = option(
    "--plot",
    group="Output",
    is_flag=False,
    flag_value=IN_TERMINAL,
    metavar="[FILE]",
    is_eager=True,
    type=Picture(),
    help="Write a plot as PNG, SVG or PDF; without FILE, draw it in the terminal",
)
report_option = option(
    "--report",
    "page",
    group="Output",
    metavar="FILE",
    type=output.File(),
    help="Write an HTML report",
)
seed_option = option(
    "--seed",
    group="Simulation",
    metavar="N",
    type=SEED,
    show_default="the seed of the scenario",
    help="Seed of all random numbers",
)


def seeds_option(what: str, **more: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Declares `--seeds`, the number of seeds."""
    return option(
        "--seeds",
        group="Simulation",
        metavar="N",
        type=click.IntRange(1, MOST_SEEDS),
        help=what,
        **more,
    )


def _allow_files(
    _context: click.Context, _param: click.Parameter, folders: tuple[str, ...]
) -> None:
    """Workers and the live engine inherit it."""
    if folders:
        os.environ["NARROWS_FILES_FROM"] = os.pathsep.join(map(os.path.abspath, folders))


files_option = option(
    "--files-from",
    group="Input",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    expose_value=False,
    callback=_allow_files,
    help="Let scenarios read files from DIR in addition to their own directory; may be repeated",
)


_PATH = {"rate": "RATE", "rtt": "TIME", "buffer": "BUFFER", "queue": "QDISC", "loss": "PERCENT"}
"""The keys of a path that are options, and their metavars."""


def path_option(key: str, what: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401
    """Declares the option of a key of the path. `errors.named_by` names it in errors."""
    return option(f"--{key}", group="Path", metavar=_PATH[key], help=what, **attributes)


def json_option(what: str = "Print one JSON object instead of tables") -> Callable[[F], F]:
    """Declares `--json`."""
    return option("--json", "as_json", group="Output", is_flag=True, help=what)


def quiet_option(what: str = "Print neither results nor progress, only errors") -> Callable[[F], F]:
    """Declares `--quiet`."""
    return option("--quiet", group="Output", is_flag=True, help=what)
