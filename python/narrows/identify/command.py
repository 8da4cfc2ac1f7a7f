"""The command `narrows identify`."""

from __future__ import annotations

import json

import click

from narrows.cli.command import argument, command
from narrows.cli.options import json_option
from narrows.identify import render, running
from narrows.render.styled import table
from narrows.render.terminal import console, echo


@command(
    "narrows identify capture.pcap",
    "narrows identify capture.pcapng --json | jq '.flows[].cc'",
)
@argument(
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Capture in the format pcap or pcapng, as tcpdump -w writes it",
)
@json_option("Print one JSON object instead of a table")
def identify(file: str, as_json: bool) -> None:
    """Identify the congestion controls of the senders in a capture.

    The command compares the backoff of each sender after losses, the growth of its window and its
    ProbeRTTs with the rules of Reno, CUBIC and BBR. It also reports whether losses occur with a
    full queue, as behind a shaper, or without a queue, as behind a policer.

    The capture may be from the sender, from the receiver or from a host between them. It needs the
    headers of both directions and the handshake. An identification needs three loss events, or 20 s
    for BBR.
    """
    found = running.identified(file)
    if found["cut_bytes"]:
        echo(render.warning(found), err=True)
    if as_json:
        echo(json.dumps(found))
        return
    table(console(), render.table(found))
    for line in render.sentences(found):
        echo(line)
