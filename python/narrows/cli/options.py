"""Options that several commands have, and constants of the command line."""

from __future__ import annotations

import os

import click

from narrows.storage import output

WRONG = 2
"""Exit code of whatever is the caller's to mend, the same as for a wrong option."""

WIDEST_SKETCH = 100
"""A sketch in a terminal is no wider, in characters."""

IN_TERMINAL = ""
"""The file of a plot that is drawn in the terminal."""


plot_option = click.option(
    "--plot",
    is_flag=False,
    flag_value=IN_TERMINAL,
    metavar="[FILE]",
    is_eager=True,
    type=output.Picture(),
    help="Draw it into a PNG, SVG or PDF; without a file, here. Example: --plot out.png",
)
report_option = click.option(
    "--report",
    "page",
    type=output.File(),
    help="Write a page with pictures, verdicts and how sure it is. Example: --report out.html",
)


def _allow_files(
    _context: click.Context, _param: click.Parameter, folders: tuple[str, ...]
) -> None:
    """Workers and the live engine inherit it."""
    if folders:
        os.environ["NARROWS_FILES_FROM"] = os.pathsep.join(map(os.path.abspath, folders))


files_option = click.option(
    "--files-from",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    expose_value=False,
    callback=_allow_files,
    help="A folder besides the scenario's own to read its files from; may be repeated. Example: "
    "--files-from traces",
)
