"""The commands of `narrows kernel`: build, list, remove."""

from __future__ import annotations

import json
from pathlib import Path

import click

from narrows.cli.command import Group, argument, option
from narrows.cli.options import json_option, quiet_option
from narrows.errors import NarrowsError
from narrows.kernel import build as building
from narrows.kernel import model, store
from narrows.kernel.render import table
from narrows.render.progress import ProgressBar
from narrows.render.styled import table as draw
from narrows.render.terminal import console, echo


@click.group(
    cls=Group,
    examples=(
        "narrows kernel build 6.12",
        "narrows kernel list",
        "narrows run scenarios/first/cubic.toml --engine linux --kernel 6.12",
    ),
)
def kernel() -> None:
    """Build Linux kernels that run scenarios instead of the simulator.

    Each kernel is Linux as a program (user-mode Linux), which runs in virtual time. The option
    --engine linux of `narrows run` and other commands uses it.
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
    stays as it is. The binary is stored in $XDG_CACHE_HOME/narrows/kernels (~/.cache).
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
    """List releases of Linux: rules of the simulator and built kernels."""
    found = model.releases()
    if as_json:
        echo(json.dumps({"releases": [release.as_object() for release in found]}))
    else:
        draw(console(), table(found))


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
