"""`narrows with`: one program with another congestion control.

This process becomes `narrows-host with`: terminal, signals and the exit code are the program's own
business.
"""

from __future__ import annotations

import os
import re
import sys

import click

from narrows._behind import EPILOG, Behind, program
from narrows.errors import EngineError, NarrowsError, reason
from narrows.host.live import HOST


@click.command(
    "with",
    cls=Behind,
    options_metavar="--cc NAME -- COMMAND...",
    epilog=EPILOG,
)
@click.option(
    "--cc", required=True, metavar="NAME", help="The congestion control. Example: --cc bbr"
)
def with_(cc: str) -> None:
    """Run a program whose TCP connections use another congestion control; the host stays as it is.

    It acts on what the program sends, and on whatever it starts. It needs Linux 5.9, and no root
    where everybody may choose that congestion control.

    Example: narrows with --cc bbr -- rsync -a here/ server:there/
    """
    command = program()
    if not command:
        raise NarrowsError(f"which program? narrows with --cc {cc} -- COMMAND")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,14}", cc):
        raise NarrowsError(f"--cc {cc!r}: a name is made of small letters, digits and _")
    if not sys.platform.startswith("linux"):
        raise EngineError("choosing a congestion control for a program needs Linux")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(HOST, [str(HOST), "with", "--cc", cc, "--", *command])
    except OSError as error:
        raise EngineError(f"{HOST}: {reason(error)}; `make setup` builds it") from error
