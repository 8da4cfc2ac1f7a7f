"""`narrows shell`: runs any program over an emulated path.

With the engine `live`, this process becomes `narrows-host shell`, which then controls the terminal,
handles signals and sets the exit code.
"""

from __future__ import annotations

from typing import Any, NoReturn

import click

from narrows import operating_system
from narrows._behind import Behind, program
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    files_option,
    kernel_option,
    need_linux,
    path_option,
    queues_option,
    seed_option,
)
from narrows.errors import NarrowsError, named_by
from narrows.host.live import become
from narrows.json_object import JsonObject
from narrows.kernel import machine
from narrows.runs.scenario import Hop, Path, Ping, Scenario
from narrows.runs.source import read
from narrows.storage.text import name_of

_FLAGS = "the options"
_UNLIMITED: JsonObject = {"rate": "1Tbit", "buffer": "100000p"}
"""Keys of a direction without a rate if the other direction has one. A path needs a rate, so this
one is practically unlimited.
"""


class _Shell(Behind):
    program_required = False


@command(
    "narrows shell --rate 20Mbit --rtt 80ms --queue fq_codel -- ping -c 3 far",
    "narrows shell --down 100Mbit --up 20Mbit --far 'iperf3 -s -1' -- iperf3 -c far",
    "narrows shell scenarios/first/cubic.toml --record packets.pcapng",
    cls=_Shell,
)
@argument(
    "file",
    metavar="[SCENARIO]",
    required=False,
    type=click.Path(dir_okay=False),
    help="Scenario whose path is emulated, instead of the options under Path",
)
@path_option("rate", "Rate of each direction")
@option("--down", group="Path", metavar="RATE", help="Rate of the download, towards near")
@option("--up", group="Path", metavar="RATE", help="Rate of the upload, towards far")
@path_option("rtt", "Base RTT", show_default="1us, practically no delay")
@path_option("queue", "Queue discipline of each direction", show_default="fifo")
@path_option(
    "buffer",
    "Buffer of each direction",
    show_default="the default limit of the queue discipline",
)
@path_option("loss", "Random loss in each direction, before the queue")
@seed_option()
@option(
    "--engine",
    group="Simulation",
    type=click.Choice(["live", "linux"]),
    default="live",
    help="live: this host, in real time; linux: a kernel of `narrows kernel build`. Its clock "
    "is simulated, so that results do not depend on the load of this host",
)
@kernel_option
@queues_option
@files_option
@option(
    "--at",
    group="Programs",
    type=click.Choice(["near", "far"]),
    default="near",
    help="Host that runs PROGRAM",
)
@option(
    "--far",
    group="Programs",
    metavar="COMMAND",
    multiple=True,
    help="Run COMMAND in the background on the host far, before PROGRAM starts; may be repeated",
)
@option(
    "--near",
    group="Programs",
    metavar="COMMAND",
    multiple=True,
    help="Run COMMAND in the background on the host near, before PROGRAM starts; may be repeated",
)
@option(
    "--record",
    group="Output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write all packets to a capture file for Wireshark (pcapng)",
)
@option(
    "--out",
    "--json",
    "json_file",
    group="Output",
    aliases=("--json",),
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the metrics to FILE as JSON",
)
@option("--quiet", group="Output", is_flag=True, help="Print no summary")
def shell(  # noqa: PLR0917 - Click calls it by keyword
    file: str | None,
    engine: str,
    kernel: str | None,
    queues: str | None,
    at: str,
    far: tuple[str, ...],
    near: tuple[str, ...],
    seed: int | None,
    record: str | None,
    json_file: str | None,
    quiet: bool,
    **path: str | None,
) -> None:
    """Run a program over an emulated path.

    The command creates two hosts, `near` and `far`, as network namespaces. A path that the options
    or SCENARIO describe connects them. PROGRAM (by default a shell) runs on the host near,
    or with --at far on the host far. Download is the direction towards near.
    """
    text, name = _scenario(file, {key: value for key, value in path.items() if value is not None})
    operating_system.require_linux("narrows shell")
    need_linux(engine, kernel=kernel, queues=queues)
    words = ["--name", name, "--at", at]
    for start, values in (("--far", far), ("--near", near)):
        for value in values:
            words += [start, value]
    if seed is not None:
        words += ["--seed", str(seed)]
    given = {"--record": record, "--json": json_file}
    outputs = {option: value for option, value in given.items() if value is not None}
    if quiet:
        words.append("--quiet")
    behind = ["--", *words_behind] if (words_behind := program()) else []
    if engine == "linux":
        if not behind:
            raise NarrowsError("--engine linux: the program is missing; write -- iperf3 -c far")
        words += ["--queues", queues or "kernel"]
        _in_machine(words + behind, text, name, kernel=kernel, seed=seed, outputs=outputs)
    options = [word for pair in outputs.items() for word in pair]
    become("shell", "--toml", text, *words, *options, *behind)


def _in_machine(words: list[str], toml: str, name: str, **how: Any) -> NoReturn:  # noqa: ANN401
    """Runs the programs in a virtual machine, and exits with the exit code of PROGRAM."""
    click.get_current_context().exit(machine.shell(words, toml, name, **how))


def _scenario(file: str | None, path: JsonObject) -> tuple[str, str]:
    """The text of the scenario, and its name in errors."""
    if file is not None:
        if path:
            given = ", ".join(f"--{key}" for key in path)
            raise NarrowsError(
                f"{given}: {name_of(file)} specifies the path already; omit the options, or omit "
                f"{name_of(file)}"
            )
        return read(file), name_of(file)
    rate = path.get("rate")
    down, up = path.get("down", rate), path.get("up", rate)
    if down is None and up is None:
        raise NarrowsError("--rate: missing; write --rate 20Mbit, or the name of a scenario")
    each = {key: path[key] for key in ("queue", "buffer", "loss") if key in path}
    forward: JsonObject = {"rate": down} | each if down is not None else _UNLIMITED
    reverse = None if up is None else Hop(rate=up, **each)
    others: dict[str, str] = {f"path.reverse.{key}": key for key in each}
    others["path.rate"] = "down" if "down" in path else "rate"
    others["path.reverse.rate"] = "up" if "up" in path else "rate"
    with named_by(path, others):
        # A scenario needs a duration and a flow or ping; `narrows shell` ignores both.
        scenario = Scenario(
            Path(rtt=path.get("rtt", "1us"), reverse=reverse, **forward),
            probes=[Ping()],
            duration="10s",
        )
        return scenario.toml(), _FLAGS
