"""The commands of `narrows kernel`: build, list, remove."""

from __future__ import annotations

import json
from pathlib import Path

import click

from narrows.cli.command import Group, argument, option
from narrows.cli.options import files_option, json_option, quiet_option, seeds_option
from narrows.errors import NarrowsError
from narrows.kernel import build as building
from narrows.kernel import effects, model, rules, store
from narrows.kernel import render as tables
from narrows.kernel.render import table
from narrows.render.progress import ProgressBar
from narrows.render.styled import table as draw
from narrows.render.terminal import console, echo
from narrows.runs.scenario import load

SEEDS = 5
"""Default of `narrows kernel diff --seeds`."""


@click.group(
    cls=Group,
    examples=(
        "narrows kernel build 6.12",
        "narrows kernel list",
        "narrows kernel diff 6.12 7.3",
        "narrows run scenarios/first/cubic.toml --engine linux --kernel 6.12",
    ),
)
def kernel() -> None:
    """Build Linux kernels for runs in virtual time, compare TCP rules.

    A built kernel is Linux as a program (user-mode Linux), which runs on a simulated clock. The
    option --engine linux of `narrows run` and other commands uses it instead of the simulator.
    A rule is a change of the behaviour of TCP that the simulator models, with the release that
    introduced it. `diff` lists the rules that only one of two releases has.
    """


@kernel.command(
    examples=(
        "narrows kernel build 6.12",
        "narrows kernel build 6.12 --patch cubic-beta.patch",
        "narrows kernel build linux-6.12.tar.xz",
    )
)
@argument(
    "source",
    metavar="[RELEASE|FILE]",
    default="6.12",
    help="Release of a Debian package linux-source-RELEASE, or a source archive [default: 6.12]",
)
@option(
    "--patch",
    "patches",
    group="Source",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Apply a patch (patch -p1) to the source; may be repeated",
)
@json_option("Print the kernel as one JSON object instead of text")
@quiet_option()
def build(source: str, patches: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Build a kernel from the source package of Debian or from a source archive.

    The source is downloaded with a private configuration of apt; the configuration of this host
    stays as it is. The binary is stored in narrows/kernels under $XDG_CACHE_HOME, or under ~/.cache
    if this variable is not set.
    """
    with ProgressBar(quiet=quiet, of="build") as bar:
        made, new = building.build(source, patches, bar)
    if as_json:
        echo(json.dumps(made.as_object()))
    elif not quiet:
        done = f"built in {made.build_s:.0f} s" if new else "already built"
        echo(f"Linux {made.release}: {done}; narrows run FILE --engine linux --kernel {made.name}")


@kernel.command("list", examples=("narrows kernel list", "narrows kernel list --json"))
@json_option()
def list_(as_json: bool) -> None:
    """List the built kernels and Linux releases, and count the TCP rules of each release.

    A rule is a behaviour of TCP that not all releases share; `narrows list rules` prints all rules.
    The simulator models every release from 4.4 to 7.3. The table has five of these releases and the
    releases of built kernels.
    """
    found = model.releases()
    if as_json:
        echo(json.dumps({"releases": [release.as_object() for release in found]}))
    else:
        draw(console(), table(found))


@kernel.command(
    examples=(
        "narrows kernel diff 6.12 7.3",
        "narrows kernel diff 6.12.0 6.12.117",
        "narrows kernel diff 6.12 7.3 --path scenarios/first/cubic.toml --seeds 10",
    )
)
@argument("first", metavar="A", help="Release: 6.12 (its last stable release) or 6.12.5")
@argument("second", metavar="B", help="Release to compare with A")
@option(
    "--path",
    "file",
    group="Simulation",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Simulate this scenario with and without each rule, and rank the rules by their effect",
)
@seeds_option("Number of runs with and without each rule, for --path", show_default="5")
@files_option
@json_option()
@quiet_option("Print no progress")
def diff(
    first: str, second: str, *, file: Path | None, seeds: int | None, as_json: bool, quiet: bool
) -> None:
    """List the rules of TCP in which two releases differ.

    With --path, the effect of each rule is simulated: release A with this rule as in B, compared
    with release A unchanged. An effect is a mean over the seeds with its 95 % confidence interval.
    """
    if seeds is not None and file is None:
        raise click.BadParameter(
            "is for a simulation; write --path scenario.toml", param_hint="--seeds"
        )
    found = rules.differences(first, second)
    names = [rules.release(name) for name in (first, second)]
    measured = None
    if file is not None:
        with ProgressBar(quiet=quiet, of="runs") as bar:
            measured = effects.effects(
                load(file), first, second, seeds=seeds or SEEDS, progress=bar
            )
    if as_json:
        told = {"releases": names, "differences": [one.as_object() for one in found]}
        if measured is not None:
            told["effects"] = measured.as_object()
        echo(json.dumps(told))
        return
    one, other = names
    if not found:
        echo(f"{one} and {other} have the same rules.")
    elif measured is None:
        draw(console(), tables.differences(found, one, other))
    else:
        draw(console(), tables.effects(measured, one, other))
        echo(
            f"The first row has the metrics of {one}; the other rows have the differences to it: "
            f"means over {measured.seeds} seeds ± half of the 95 % confidence interval."
        )


@kernel.command(examples=("narrows kernel remove 6.12+cubic-beta",))
@argument("name", metavar="NAME", help="Name or key of a built kernel")
def remove(name: str) -> None:
    """Remove a built kernel from the cache."""
    found = [made for made in store.built() if name in {made.name, made.key}]
    if not found:
        names = ", ".join(made.name for made in store.built()) or "none"
        raise NarrowsError(f"{name}: no such kernel is built (built: {names})")
    for made in found:
        store.remove(made)
        echo(f"{made.name}: removed")
