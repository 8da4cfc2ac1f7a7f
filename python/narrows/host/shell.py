"""`narrows shell`: any program over an emulated path.

This process becomes `narrows-host shell`: the terminal, signals and the exit code are the program's
own business.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from narrows._behind import EPILOG, Behind, program
from narrows.cli.options import files_option
from narrows.errors import EngineError, NarrowsError, named_by, reason
from narrows.host.live import HOST
from narrows.runs.scenario import Hop, Path, Ping, Scenario, name_of, read

_FLAGS = "the options"
_UNLIMITED: dict[str, Any] = {"rate": "1Tbit", "buffer": "100000p"}
"""A direction without a rate of its own while the other one has one: a path cannot be without a
rate.
"""


@click.command(cls=Behind, options_metavar="[OPTIONS]", epilog=EPILOG)
@click.argument("file", metavar="[SCENARIO]", required=False, type=click.Path(dir_okay=False))
@files_option
@click.option(
    "--rate", help="Rate of each direction, in the place of a scenario. Example: --rate 20Mbit"
)
@click.option(
    "--down", help="Rate of the download, towards near. Example: --down 100Mbit --up 20Mbit"
)
@click.option(
    "--up", help="Rate of the upload, away from near. Example: --down 100Mbit --up 20Mbit"
)
@click.option("--rtt", help="Base RTT of the path [default: 1us]. Example: --rtt 80ms")
@click.option(
    "--queue", help="Queue discipline of each direction [default: fifo]. Example: --queue fq_codel"
)
@click.option("--buffer", help="Buffer of each direction. Example: --buffer 1bdp")
@click.option("--loss", help="Random loss in each direction, before the queue. Example: --loss 1%")
@click.option(
    "--at",
    type=click.Choice(["near", "far"]),
    default="near",
    show_default=True,
    help="Where the command runs. Example: --at far",
)
@click.option(
    "--far", multiple=True, help="Start this at the far end first. Example: --far 'iperf3 -s -1'"
)
@click.option(
    "--near", multiple=True, help="Start this at the near end first. Example: --near 'iperf3 -s -1'"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), help="Instead of the scenario's. Example: --seed 7"
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False),
    help="Every packet, for Wireshark. Example: --record out.pcapng",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False),
    help="Figures as JSON. Example: --json seen.json",
)
@click.option("--quiet", is_flag=True, help="Tell nothing on stderr at the end. Example: --quiet")
def shell(  # noqa: PLR0917 - Click calls it by keyword
    file: str | None,
    at: str,
    far: tuple[str, ...],
    near: tuple[str, ...],
    seed: int | None,
    record: str | None,
    json_file: str | None,
    quiet: bool,
    **path: str | None,
) -> None:
    """Run a program over an emulated path; a shell, where none is named.

    Two hosts, `near` and `far`, know each other by these names; between them lies the path of
    SCENARIO, or of the options. Download is towards near, where the command runs, and upload is
    away from it.

    Example: narrows shell --rate 20Mbit --rtt 80ms --queue fq_codel -- ping far
    """
    text, name = _scenario(file, {key: value for key, value in path.items() if value is not None})
    if not sys.platform.startswith("linux"):
        raise EngineError("a shell needs Linux: its network namespaces")
    words = [str(HOST), "shell", "--toml", text, "--name", name, "--at", at]
    for option, values in (("--far", far), ("--near", near)):
        for value in values:
            words += [option, value]
    if seed is not None:
        words += ["--seed", str(seed)]
    if record is not None:
        words += ["--record", record]
    if json_file is not None:
        words += ["--json", json_file]
    if quiet:
        words.append("--quiet")
    command = program()
    if command:
        words += ["--", *command]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(HOST, words)
    except OSError as error:
        raise EngineError(f"{HOST}: {reason(error)}; `make setup` builds it") from error


def _scenario(file: str | None, path: dict[str, Any]) -> tuple[str, str]:
    """The text of the scenario and what it is called."""
    if file is not None:
        if path:
            given = ", ".join(f"--{key}" for key in path)
            raise NarrowsError(
                f"{given}: the path is that of {name_of(file)}; take one of the two out"
            )
        return read(file), name_of(file)
    rate = path.get("rate")
    down, up = path.get("down", rate), path.get("up", rate)
    if down is None and up is None:
        raise NarrowsError("there is no path: name a scenario, or write --rate 20Mbit")
    each = {key: path[key] for key in ("queue", "buffer", "loss") if key in path}
    there: dict[str, Any] = {"rate": down} | each if down is not None else _UNLIMITED
    back = None if up is None else Hop(rate=up, **each)
    options = {
        f"path.{place}{key}": f"--{key}" for place in ("", "reverse.") for key in ("rtt", *each)
    }
    options["path.rate"] = "--down" if "down" in path else "--rate"
    options["path.reverse.rate"] = "--up" if "up" in path else "--rate"
    with named_by(options, lambda option: path.get(option.removeprefix("--"))):
        # A scenario has a duration and somebody who sends; here both count for nothing.
        scenario = Scenario(
            Path(rtt=path.get("rtt", "1us"), reverse=back, **there), probes=[Ping()], duration="10s"
        )
        return scenario.toml(), _FLAGS
