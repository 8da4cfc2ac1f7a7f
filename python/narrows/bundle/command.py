"""The command `bundle`."""

from __future__ import annotations

import json

import click

from narrows.bundle import bundle as bundles
from narrows.cli.command import argument, command, option
from narrows.cli.options import Number, file_option, json_option, plugin_option, quiet_option
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo, one_line
from narrows.render.words import counted


def _is_zip(file: str) -> None:
    if not file.endswith(".zip"):
        raise click.BadParameter(
            f"{file}: has no suffix .zip; write --out bundle.zip", param_hint="--out"
        )


@command(
    "narrows bundle commands.txt --out artefact.zip",
    "narrows bundle --verify artefact.zip",
    "narrows bundle --verify artefact.zip --json | jq .agrees",
)
@argument(
    "file",
    type=click.Path(dir_okay=False),
    help="Recipe, a text with a narrows command on each line; with --verify, the bundle (.zip)",
)
@plugin_option
@option("--verify", is_flag=True, help="Run the commands of a bundle again and compare the results")
@option(
    "--timeout",
    group="Execution",
    metavar="S",
    type=Number(1, 1_000_000),
    default=bundles.TIMEOUT_S,
    help="Time limit of each command in seconds",
)
@file_option(
    "--out",
    suffix=_is_zip,
    what="Write the bundle to FILE (.zip)",
)
@json_option("Print one JSON object instead of lines")
@quiet_option()
def bundle(  # noqa: PLR0917 - Click calls it by keyword
    file: str, verify: bool, timeout: float, out: str | None, as_json: bool, quiet: bool
) -> None:
    """Pack scenarios, commands and results into an archive, or verify it.

    The archive (bundle) lets reviewers of a publication repeat its results. The command runs the
    commands of the recipe on copies of their scenarios. The bundle contains the scenarios with the
    files that they name, the commands, the results and the version of narrows. It does not contain
    plugins: with --plugin, it names them, and --verify needs the same option. The exit code of
    --verify is 1 if a result differs or is missing. Figures are written again, but their contents
    are not compared.
    """
    if verify:
        if out is not None:
            raise click.BadParameter("is for a new bundle; omit --verify", param_hint="--out")
        _verify(file, timeout, as_json=as_json, quiet=quiet)
        return
    if out is None:
        raise click.UsageError("--out: is missing; write --out bundle.zip")
    with ProgressBar(quiet=quiet or as_json, of="commands") as bar:
        made = bundles.make(file, out, timeout_s=timeout, progress=bar)
    if as_json:
        echo(json.dumps(made))
    elif not quiet:
        for name, about in made["files"].items():
            echo(one_line(f"{about['bytes']:>10} {name}"))
        echo(
            one_line(
                f"{out}: {counted(len(made['commands']), 'command')}, "
                f"{counted(len(made['files']), 'file')}; verify it with narrows bundle --verify "
                f"{out}"
            )
        )


def _verify(file: str, timeout: float, *, as_json: bool, quiet: bool) -> None:
    with ProgressBar(quiet=quiet or as_json, of="commands") as bar:
        found = bundles.verify(file, timeout_s=timeout, progress=bar)
    if as_json:
        echo(json.dumps(found.json()))
    elif not quiet:
        told = found.json()
        if told["made_with"] != told["narrows"]:
            echo(
                one_line(
                    f"note: made with narrows {told['made_with']}, verified with "
                    f"{told['narrows']}; another version may have other results"
                )
            )
        for model in found.other_plugins:
            echo(one_line(f"note: {model}: the plugin differs from that of the bundle"))
        for item in found.items:
            echo(one_line(item.line()))
        compared = [item for item in found.items if item.state != "figure"]
        same = sum(item.state == "same" for item in compared)
        figures = len(found.items) - len(compared)
        echo(
            f"{same} of {len(compared)} results are the same; {figures} figures were written again."
        )
    if not found.agrees:
        click.get_current_context().exit(1)
