"""The command `narrows with`: runs one program with another congestion control.

This process is replaced (exec) by `narrows-host with`, which starts the program. The program uses
the same terminal. `narrows-host` forwards signals to it and ends with its exit code.
"""

from __future__ import annotations

import re

from narrows import operating_system
from narrows._behind import Behind, program
from narrows.cli.command import command, option
from narrows.errors import NarrowsError
from narrows.host.live import become


@command(
    "narrows with --cc bbr -- rsync -a here/ server:there/",
    "narrows with --cc cubic -- iperf3 -c server.example",
    name="with",
    cls=Behind,
)
@option(
    "--cc",
    group="Connection",
    required=True,
    metavar="CC",
    help="Congestion control of the TCP connections",
)
def with_(cc: str) -> None:
    """Run one program with a congestion control that you choose.

    The congestion control applies to the data that PROGRAM and its child processes send. The
    settings of the host do not change. The command requires Linux 5.9 or newer. It requires root
    only for a congestion control that is not in net.ipv4.tcp_allowed_congestion_control.
    """
    words = program()
    if not words:
        raise NarrowsError(
            f"PROGRAM: this argument is missing; write `narrows with --cc {cc} -- PROGRAM`"
        )
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,14}", cc):
        raise NarrowsError(
            f"--cc {cc}: must consist of lower-case letters, digits and _; write --cc bbr"
        )
    operating_system.require_linux("narrows with")
    become("with", "--cc", cc, "--", *words)
