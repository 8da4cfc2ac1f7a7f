"""`narrows new`: the commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from narrows.cli.command import Group, argument, option
from narrows.errors import named_by
from narrows.models import traces
from narrows.models.skeleton import LANGUAGES, Skeleton, checkout, scenario_text, write_new
from narrows.render.terminal import echo

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
    """Write a new scenario, trace or model.

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
