"""The command `narrows convert`."""

from __future__ import annotations

import click

from narrows import files
from narrows.cli.command import argument, command
from narrows.cli.options import anonymize_option
from narrows.errors import NarrowsError, reason
from narrows.files import capture, writer_of
from narrows.render.terminal import echo
from narrows.storage import output, untrusted_input
from narrows.storage.anonymous import Anonymizer, key


@command(
    "narrows convert iperf3.json today.flent.gz",
    "narrows convert today.json today.parquet",
    "narrows convert capture.pcapng public.pcapng --anonymize",
)
@argument(
    "source",
    metavar="FROM",
    type=click.Path(dir_okay=False),
    help="narrows' JSON, .flent.gz, iperf3's -J or --json-stream, iperf2's text, or a capture",
)
@argument(
    "target",
    metavar="TO",
    type=output.File(),
    help="File ending in .json, .flent.gz, .csv, .jsonl, .hlog (HdrHistogram) or .parquet; "
    "for a capture .pcapng",
)
@anonymize_option
def convert(source: str, target: str, anonymize: bool) -> None:
    """Convert a measurement to another file format.

    With --anonymize, FROM may be a capture (pcap or pcapng). TO is then a capture in the format
    pcapng that has only the headers of IP and transport. In all files of this user, a host has the
    same pseudonym; the secret key of the pseudonyms is narrows/anonymize.key under $XDG_DATA_HOME
    (~/.local/share if it is not set). An attacker whose packets with known addresses are in a
    published capture can recognise these packets, and thereby the pseudonyms of the addresses.
    """
    if target.endswith(".pcapng"):
        _capture(source, target, anonymize=anonymize)
        return
    bare, _, suffix = target.rpartition(".")
    if suffix in {"pcap", "cap"}:
        raise NarrowsError(f"{target}: a capture is written as .pcapng; write {bare}.pcapng")
    writer_of(target)
    measured = files.read(source)
    files.write(measured.anonymous() if anonymize else measured, target)


def _capture(source: str, target: str, *, anonymize: bool) -> None:
    if not anonymize:
        raise NarrowsError(f"{target}: only an anonymized capture can be written; add --anonymize")
    try:
        content = untrusted_input.read(source, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(f"{source}: {reason(error)}") from error
    cut: list[int] = []
    output.write(target, capture.anonymize(content, Anonymizer(key()), source, cut.append))
    if cut:
        echo(
            f"{source}: warning: the last packet is cut off, as after an interruption of the "
            f"capture; {target} has all packets before it",
            err=True,
        )
