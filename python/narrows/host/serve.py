"""`narrows serve`: the server for `narrows measure`, `narrows latency` and iperf3 clients.

This process becomes `narrows-host serve`, which then handles signals and sets the exit code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from narrows.cli.command import command, option
from narrows.cli.options import passed_words
from narrows.host.live import become

LIMITS: list[dict[str, str]] = json.loads(
    files("narrows").joinpath("data/serve_limits.json").read_text(encoding="utf-8")
)
"""Output of `narrows-host serve --limits`."""

_METAVARS = {"SPAN": "TIME", "BYTES": "SIZE"}
"""For metavars of the table of limits, those that other commands use."""


def _limits(server: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that set limits to the command, in the order of `LIMITS`."""
    for row in reversed([row for row in LIMITS if row["option"]]):
        text = row["text"]
        server = option(
            row["option"],
            group="Limits",
            metavar=_METAVARS.get(row["metavar"], row["metavar"]),
            show_default=row["default"],
            help=f"{text[0].upper()}{text[1:]}",
        )(server)
    return server


@command(
    "narrows serve",
    "narrows serve --token correct-horse --rate 100Mbit",
    "narrows serve --bind 127.0.0.1 --port 5555 --metrics 127.0.0.1:9201",
    "narrows serve --systemd-unit",
)
@option("--port", group="Connection", metavar="PORT", show_default="5201", help="TCP and UDP port")
@option(
    "--bind",
    group="Connection",
    metavar="IP",
    show_default="all",
    help="Address of this host to listen on",
)
@option(
    "--public",
    group="Connection",
    multiple=True,
    metavar="IP[:PORT]",
    help="Public address of this host, if clients reach it through a NAT; may be repeated. With "
    "--token, such clients are refused without --public, because the proof that they know the "
    "token contains the address to which they connect",
)
@option(
    "--token",
    group="Access",
    metavar="TOKEN",
    show_default="$NARROWS_TOKEN",
    help="Refuse clients that do not know this token",
)
@option(
    "--token-file",
    group="Access",
    metavar="FILE",
    help="Read the token from the first line of FILE",
)
@option(
    "--user",
    group="Access",
    metavar="USER",
    show_default="uid 65520",
    help="If started as root: drop privileges to this user after the sockets are open",
)
@option(
    "--net-admin",
    group="Access",
    is_flag=True,
    help="Let clients use any loaded congestion control, and let them delete the cached TCP "
    "metrics of their own address (ip tcp_metrics); requires root",
)
@_limits
@option(
    "--plugin",
    group="Services",
    multiple=True,
    metavar="FILE",
    help="Load the congestion controls of a shared library, for clients with --transport udp; may "
    "be repeated",
)
@option("--echo", group="Services", metavar="PORT", help="Return datagrams to this port unchanged")
@option(
    "--stamp",
    group="Services",
    metavar="PORT",
    help="Answer STAMP packets (RFC 8762), a standard test of delay, at this port",
)
@option(
    "--irtt",
    group="Services",
    metavar="PORT",
    help="Answer clients of the latency tester irtt at this port",
)
@option(
    "--board",
    group="Services",
    metavar="PORT",
    help="Answer requests of `narrows latency --speaks board` at this port: this host then acts as "
    "a microcontroller board, which has no TCP",
)
@option(
    "--xdp",
    group="Services",
    metavar="DEVICE",
    help="Answer datagrams in the kernel (XDP) if they arrive on DEVICE at --xdp-port, without "
    "token and limits; requires root",
)
@option(
    "--xdp-port", group="Services", metavar="PORT", show_default="5207", help="UDP port of --xdp"
)
@option(
    "--metrics",
    group="Services",
    metavar="ADDRESS",
    help="Serve counters for Prometheus at /metrics",
)
@option(
    "--policy",
    group="Threads",
    metavar="POLICY",
    show_default="default",
    help="Scheduling policy of the threads that answer, as in `narrows latency`",
)
@option(
    "--stall",
    group="Threads",
    metavar="LENGTH@INTERVAL",
    help="To test `narrows latency`: suspend these threads for LENGTH once per INTERVAL, such as "
    "5ms@1s. Its report should attribute this delay to this host",
)
@option("--systemd-unit", is_flag=True, help="Print a systemd unit and exit")
def serve(
    systemd_unit: bool,
    net_admin: bool,
    public: tuple[str, ...],
    plugin: tuple[str, ...],
    **given: str | None,
) -> None:
    """Run the server for narrows measure, narrows latency and iperf3.

    The server runs until Ctrl-C and requires no root.
    """
    words = passed_words(given)
    words += [w for address in public for w in ("--public", address)]
    words += [w for file in plugin for w in ("--plugin", file)]
    words += ["--net-admin"] if net_admin else []
    words += ["--systemd-unit"] if systemd_unit else []
    become("serve", *words)
