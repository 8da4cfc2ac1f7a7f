"""The command `narrows model`."""

from __future__ import annotations

import json

import click

from narrows import files
from narrows.cli.command import argument, command
from narrows.cli.options import file_option, json_option, quiet_option, seed_option
from narrows.cli.outputs import every
from narrows.path_model import infer
from narrows.path_model.render import model_lines
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo
from narrows.storage import output


@command(
    "narrows measure server.example --out today.json",
    "narrows model today.json --path here.toml",
    "narrows model today.json --json | jq .down",
    name="model",
)
@argument(
    "file",
    type=click.Path(dir_okay=False),
    help="Measurement: narrows' .json, .flent.gz, iperf3's JSON or iperf2's text",
)
@seed_option(default=1)
@file_option(
    "--path",
    "path_file",
    what="Write the path model as a [path] section for scenarios",
)
@json_option("Print one JSON object instead of text")
@quiet_option()
def model(file: str, as_json: bool, path_file: str | None, seed: int, quiet: bool) -> None:
    """Fit a path model to a measurement.

    The path model has the base RTT, and for each measured direction the rate, buffer, queue
    discipline and random loss, as far as the measurement shows them. narrows prints it as a [path]
    section for scenarios unless --path writes it to a file.
    """
    measured = files.read(file)
    with ProgressBar(quiet=quiet, of="simulations") as bar:
        found = infer(measured, seed=seed, progress=bar)
    with every() as attempt:
        if path_file is not None:
            with attempt():
                output.write(path_file, found.toml())
        if as_json:
            echo(json.dumps(found.json()))
        elif not quiet:
            for line in model_lines(found):
                echo(line)
            if path_file is None:
                echo(f"\n{found.toml()}", nl=False)
