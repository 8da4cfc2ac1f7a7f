"""`narrows serve`: the far end of `narrows measure`, and of plain iperf3 clients.

This process becomes `narrows-host serve`: signals and the exit code are its own business.
"""

from __future__ import annotations

import os

import click

from narrows.errors import EngineError, reason
from narrows.live import HOST


@click.command()
@click.option("--port", help="TCP and UDP; 5201 without. Example: --port 5555")
@click.option("--bind", help="An address of this machine; all of them without. Example: --bind 192.0.2.1")
@click.option("--token", help="Who does not know it is refused; or in $NARROWS_TOKEN. Example: --token correct-horse")
@click.option("--token-file", help="The same, from the first line of a file. Example: --token-file /etc/narrows.token")
@click.option("--rate", help="Of one client each way. Example: --rate 100Mbit")
@click.option("--duration", help="Of one client's visit; 10min without. Example: --duration 1min")
@click.option("--clients", help="At once; 64 without. Example: --clients 4")
@click.option("--bytes", "most", help="Of one client's visit; 100GB without. Example: --bytes 10GB")
@click.option("--metrics", help="Counters for Prometheus, at /metrics. Example: --metrics 127.0.0.1:9201")
@click.option("--xdp", help="Answer datagrams inside the kernel, over this device; needs root. Example: --xdp eth0")
@click.option("--xdp-port", help="To this port; 5207 without. Example: --xdp-port 7007")
@click.option("--echo", help="Send every datagram to this port back as it came. Example: --echo 7777")
@click.option("--stamp", help="Reflect STAMP (RFC 8762) at this port. Example: --stamp 862")
@click.option("--irtt", help="Answer irtt clients at this port. Example: --irtt 2112")
@click.option("--board", help="Answer `narrows latency --speaks board` at this port. Example: --board 7778")
@click.option("--policy", help="How this host serves the threads that answer. Example: --policy spin")
@click.option("--stall", help="They stand still now and then, to see who is blamed. Example: --stall 4ms@100ms")
@click.option("--systemd-unit", is_flag=True, help="Print a unit for systemd, and end. Example: --systemd-unit")
def serve(most: str | None, systemd_unit: bool, **given: str | None) -> None:
    """Be the far end of `narrows measure`, and of plain iperf3 clients, until Ctrl-C. Needs no root.

    Example: narrows serve

    Example: narrows serve --token correct-horse --rate 100Mbit

    Example: narrows serve --xdp eth0
    """
    options = {"bytes": most, **given}
    words = [w for name, value in options.items() if value for w in (f"--{name.replace('_', '-')}", value)]
    words += ["--systemd-unit"] if systemd_unit else []
    try:
        os.execv(HOST, [str(HOST), "serve", *words])
    except OSError as error:
        raise EngineError(f"{HOST}: {reason(error)}; `make setup` builds it") from error
