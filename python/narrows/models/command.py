"""`narrows new`: the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from narrows.cli.command import Group, argument, option
from narrows.errors import named_by
from narrows.models import shaped_devices, traces
from narrows.models.skeleton import LANGUAGES, Skeleton, checkout, scenario_text, write_new
from narrows.render.terminal import echo

TOPOLOGIES = ("shaped-devices",)
"""The kinds of files from which a topology is read."""

F = TypeVar("F", bound=Callable[..., Any])


def _passed(command: F) -> F:
    """Adds the argument and the options that `narrows new cc` and `narrows new queue` share."""
    for declare in (
        option(
            "--core",
            group="Output",
            metavar="PATH",
            type=click.Path(file_okay=False, exists=True, path_type=Path),
            show_default="the folder of this checkout; without a checkout, the crate of "
            "the same version",
            help="Folder `core` of a source checkout of narrows, for a model in Rust",
        ),
        option(
            "--dir",
            "folder",
            group="Output",
            metavar="DIR",
            type=click.Path(path_type=Path),
            show_default="NAME",
            help="New directory of the files",
        ),
        option(
            "--lang",
            group="Output",
            type=click.Choice(LANGUAGES),
            default="python",
            help="Language of the model",
        ),
        argument("name", help="Name of the model in scenarios"),
    ):
        command = declare(command)
    return command


@click.group(
    cls=Group,
    examples=(
        "narrows new cc my_cc",
        "narrows new cc my_cc --lang rust",
        "narrows new queue my_queue",
        "narrows new scenario path.toml",
    ),
)
def new() -> None:
    """Write a new scenario, trace, topology or model.

    A model is a congestion control or a queue discipline: a skeleton that works, with a test, a
    scenario and a README. Traces describe the rate and the delay of a link that change with time.
    """


@new.command(examples=("narrows new cc my_cc", "narrows new cc my_cc --lang rust --dir plugin"))
@_passed
def cc(name: str, lang: str, folder: Path | None, core: Path | None) -> None:
    """Write the skeleton of a congestion control."""
    _write("cc", name, lang, folder, core)


@new.command(examples=("narrows new queue my_queue", "narrows new queue my_queue --lang rust"))
@_passed
def queue(name: str, lang: str, folder: Path | None, core: Path | None) -> None:
    """Write the skeleton of a queue discipline."""
    _write("queue", name, lang, folder, core)


@new.command(examples=("narrows new scenario path.toml",))
@argument("file", type=click.Path(dir_okay=False, path_type=Path), help="New file (TOML)")
def scenario(file: Path) -> None:
    """Write a scenario with comments, which you can adapt.

    Its hosts follow the rules of Linux 7.3, the newest release that narrows models.
    """
    write_new(file, scenario_text())
    echo(f"{file}: written; narrows run {file} runs it")


@new.command(
    examples=(
        "narrows new trace starlink sky.toml",
        "narrows new trace 5g street.toml --rate 50Mbit --duration 30s --seed 7",
    )
)
@option(
    "--seed",
    group="Link",
    metavar="N",
    type=click.IntRange(0),
    default=1,
    help="Seed of the random numbers; equal seeds write equal files",
)
@option(
    "--duration",
    group="Link",
    metavar="TIME",
    default="1min",
    help="Duration of the traces and of the scenario",
)
@option("--rate", group="Link", metavar="RATE", default="10Mbit", help="Expected mean rate")
@argument("kind", type=click.Choice(traces.KINDS), help="Kind of the link: starlink or 5g")
@argument("file", type=click.Path(dir_okay=False, path_type=Path), help="New scenario (TOML)")
def trace(kind: str, file: Path, rate: str, duration: str, seed: int) -> None:
    """Write synthetic traces of a link that changes with time.

    For FILE sky.toml, the command also writes sky.pps, a packet-delivery trace in the format of
    Mahimahi, and sky-delays.txt, a table of one-way delays. The traces are not measurements: they
    reproduce the mechanism of such a link with assumed values.
    """
    with named_by({"rate": rate}):
        made = traces.synthetic(kind, rate=rate, duration=duration, seed=seed)
    for written in made.write(file):
        echo(str(written))
    echo(f"narrows run {file} runs the scenario.")


@new.command(
    examples=(
        "narrows new topology shaped-devices ShapedDevices.csv isp.toml --network network.json",
        "narrows new topology shaped-devices ShapedDevices.csv isp.toml --rate 1Gbit --flows 4",
    )
)
@option(
    "--network",
    group="Network",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    show_default="all circuits are below the uplink",
    help="Tree of sites and access points (network.json of LibreQoS)",
)
@option(
    "--rate",
    group="Network",
    metavar="RATE",
    show_default="the sum of the rates below it",
    help="Rate of the uplink in both directions",
)
@option("--rtt", group="Network", metavar="TIME", default="20ms", help="Base RTT of the flows")
@option("--duration", group="Traffic", metavar="TIME", default="30s", help="Duration of the run")
@option("--cc", group="Traffic", metavar="CC", default="cubic", help="Congestion control")
@option(
    "--flows",
    group="Traffic",
    metavar="N",
    type=click.IntRange(1, 100),
    default=1,
    help="Number of downloads to each device",
)
@argument("kind", type=click.Choice(TOPOLOGIES), help="Kind of SOURCE: shaped-devices")
@argument(
    "source",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Devices of subscribers (ShapedDevices.csv of LibreQoS)",
)
@argument("file", type=click.Path(dir_okay=False, path_type=Path), help="New scenario (TOML)")
def topology(  # noqa: PLR0917 - Click calls it by keyword
    kind: str,
    source: Path,
    file: Path,
    network: Path | None,
    rate: str | None,
    rtt: str,
    duration: str,
    cc: str,
    flows: int,
) -> None:
    """Write a scenario of the access network of an internet provider.

    The queue of each direction is an HTB tree, as LibreQoS configures it. It has a class for the
    uplink, for each node of the network and for each circuit. A circuit has a guaranteed and a
    maximum rate, and CAKE as its queue discipline. Each device of a circuit downloads.
    """
    del kind  # There is one kind.
    others = {"duration": "duration", "flow[0].cc": "cc"}
    with named_by({"rate": rate, "rtt": rtt, "duration": duration, "cc": cc}, others):
        made = shaped_devices.scenario(
            source, network, rate=rate, rtt=rtt, duration=duration, cc=cc, flows=flows
        )
    write_new(file, made)
    echo(f"{file}: written; narrows run {file} runs it")


def _write(kind: str, name: str, lang: str, folder: Path | None, core: Path | None) -> None:
    if core is not None and lang != "rust":
        raise click.BadParameter("is for --lang rust; omit it", param_hint="--core")
    skeleton = Skeleton(
        kind=kind,
        name=name,
        language=lang,
        folder=folder or Path(name),
        core=core or (checkout() if lang == "rust" else None),
    )
    for file in skeleton.write():
        echo(str(file))
    echo(f"{skeleton.folder / 'README.md'} has the commands to test and to run the model.")
