"""`narrows serve`: the far end of `narrows measure`, and of plain iperf3 clients.

This process becomes `narrows-host serve`: signals and the exit code are its own business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import click

from narrows.errors import EngineError, reason
from narrows.host.live import HOST

LIMITS: list[dict[str, str]] = json.loads(
    files("narrows").joinpath("data/serve_limits.json").read_text(encoding="utf-8")
)
"""What `narrows-host serve --limits` prints."""

_EXAMPLES = {"RATE": "100Mbit", "SPAN": "1min", "BYTES": "10GB", "N": "100"}
"""A value of each kind."""


def _limits(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that set limits, in the order of their table."""
    for row in reversed([row for row in LIMITS if row["option"]]):
        of = "" if row["of"] == "host" else f" of one {row['of']}"
        text = f"{row['text'][0].upper()}{row['text'][1:]}{of} [default: {row['default']}]"
        text += f". Example: {row['option']} {_EXAMPLES[row['metavar']]}"
        command = click.option(row["option"], metavar=row["metavar"], help=text)(command)
    return command


@click.command()
@click.option("--port", help="TCP and UDP; 5201 without. Example: --port 5555")
@click.option(
    "--bind", help="An address of this machine; all of them without. Example: --bind 192.0.2.1"
)
@click.option(
    "--token",
    help="Who does not know it is refused; or in $NARROWS_TOKEN. Example: --token correct-horse",
)
@click.option(
    "--token-file",
    help="The same, from the first line of a file. Example: --token-file /etc/narrows.token",
)
@click.option(
    "--public",
    multiple=True,
    metavar="ADDRESS[:PORT]",
    help="Address of this host outside of a NAT; needed with a token there. Example: --public "
    "192.0.2.1",
)
@_limits
@click.option(
    "--metrics", help="Counters for Prometheus, at /metrics. Example: --metrics 127.0.0.1:9201"
)
@click.option(
    "--xdp",
    help="Answer datagrams inside the kernel, over this device; needs root. Example: --xdp eth0",
)
@click.option("--xdp-port", help="To this port; 5207 without. Example: --xdp-port 7007")
@click.option("--echo", help="Send datagrams to this port back as they came. Example: --echo 7777")
@click.option("--stamp", help="Reflect STAMP (RFC 8762) at this port. Example: --stamp 862")
@click.option("--irtt", help="Answer irtt clients at this port. Example: --irtt 2112")
@click.option(
    "--board", help="Answer `narrows latency --speaks board` at this port. Example: --board 7778"
)
@click.option(
    "--policy", help="How this host serves the threads that answer. Example: --policy spin"
)
@click.option(
    "--stall",
    help="They stand still now and then, to see who is blamed. Example: --stall 4ms@100ms",
)
@click.option(
    "--user",
    help="User to become once the sockets are open; root only [default: 65520]. Example: --user "
    "nobody",
)
@click.option(
    "--net-admin",
    is_flag=True,
    help="Let clients use every loaded congestion control, and make the kernel forget what it "
    "remembers of them; "
    "root only. Example: --net-admin",
)
@click.option(
    "--systemd-unit",
    is_flag=True,
    help="Print a unit for systemd, and end. Example: --systemd-unit",
)
def serve(
    systemd_unit: bool, net_admin: bool, public: tuple[str, ...], **given: str | None
) -> None:
    """Be the far end of `narrows measure`, and of plain iperf3 clients, until Ctrl-C. Needs no
    root.

    Example: narrows serve

    Example: narrows serve --token correct-horse --rate 100Mbit

    Example: narrows serve --xdp eth0
    """
    words = [
        w
        for name, value in given.items()
        if value is not None
        for w in (f"--{name.replace('_', '-')}", value)
    ]
    words += [w for address in public for w in ("--public", address)]
    words += ["--net-admin"] if net_admin else []
    words += ["--systemd-unit"] if systemd_unit else []
    try:
        os.execv(HOST, [str(HOST), "serve", *words])
    except OSError as error:
        raise EngineError(f"{HOST}: {reason(error)}; `make setup` builds it") from error
