"""The text that `narrows run` prints, for calls without other options than `--json` and
`--quiet`.
"""

from __future__ import annotations

import json

from narrows import _core
from narrows.errors import NarrowsError
from narrows.render.terminal import printable
from narrows.runs.run import run


def text(file: str, *, as_json: bool, quiet: bool) -> str | None:
    """Runs a scenario file and returns the text to print; None if Rich must lay out the text, or if
    there was an error.
    """
    _core.exit_if_locked()
    try:
        done = run(file, sample_interval="off")
    except NarrowsError:
        return None
    if as_json:
        return printable(json.dumps(done.json)) + "\n"
    if quiet:
        return ""
    from narrows.render.run import parts_of, plain  # noqa: PLC0415 - JSON needs no tables

    told = plain(list(parts_of(done.json)))
    return None if told is None else printable(told)
