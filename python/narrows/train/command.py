"""The command `narrows train`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from narrows.cli.command import Group, argument, option
from narrows.cli.options import Number, jobs_option, json_option, quiet_option
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo
from narrows.render.words import counted
from narrows.storage import output

if TYPE_CHECKING:
    from narrows.train.model import StepJson


@click.group(
    cls=Group,
    examples=("narrows train remy validation/remy/dumbbell.toml --budget 600",),
)
def train() -> None:
    """Search for a congestion control by simulation."""


@train.command(
    examples=(
        "narrows train remy validation/remy/dumbbell.toml --budget 600",
        "narrows train remy training.toml --steps 40 --on ray --into remy-results",
    )
)
@argument(
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.toml",
    help="Training file; docs/how-to/train-remy.md describes the format",
)
@option(
    "--budget",
    group="Search",
    metavar="SECONDS",
    type=Number(0),
    default=600,
    help="CPU time in seconds after which the search ends; the step that reaches it is finished",
)
@option(
    "--steps",
    group="Search",
    metavar="N",
    type=click.IntRange(0),
    show_default="no limit",
    help="Number of steps after which the search ends",
)
@option(
    "--on",
    group="Execution",
    metavar="EXECUTOR",
    default="local",
    help="Where trees are evaluated: local (this host), ray (a Ray cluster, https://ray.io) or "
    "ray://HOST:PORT",
)
@jobs_option("Number of processes on this host")
@option(
    "--into",
    group="Output",
    metavar="DIR",
    default="remy-training",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the journal and of the trained tree, tree.remy",
)
@json_option("Print one JSON object instead of text")
@quiet_option()
def remy(  # noqa: PLR0917 - Click calls it by keyword
    file: Path,
    budget: float,
    steps: int | None,
    on: str,
    jobs: int | None,
    into: Path,
    as_json: bool,
    quiet: bool,
) -> None:
    """Search for a tree of rules for the congestion control `remy`.

    The search is that of Winstein and Balakrishnan (2013). It improves the action of the most used
    rule, and splits the most used rule after some epochs. The training file describes the networks
    and the objective.

    Each evaluation is stored. After an interruption, the same command continues, and has the same
    result as without the interruption. The search depends only on the file and the number of steps,
    not on the number of processes.
    """
    from narrows.train.network import load  # noqa: PLC0415 - the help needs no engine
    from narrows.train.pool import pool  # noqa: PLC0415
    from narrows.train.training import Limits, Training  # noqa: PLC0415

    training = load(file)
    output.check_folder(into, "--into")
    silent = quiet or as_json
    with ProgressBar(quiet=silent, of="search") as bar:

        def print_step(step: StepJson) -> None:
            if not silent:
                echo(_line(step, search.left_s), err=True)

        search = Training(
            training,
            into,
            Limits(budget, steps),
            progress=lambda share: bar(share, 1.0),
            on_step=print_step,
        )
        done = search.run(pool(on, jobs))
    if as_json:
        echo(json.dumps(done))
    elif not quiet:
        echo(
            f"{counted(done['rules'], 'rule')} after {counted(len(done['steps']), 'step')} and "
            f"{done['cpu_s']:.0f} s of CPU time."
        )
        echo(
            f"Mean objective on {done['specimens']} unseen specimens: {done['score_after']:.3f}; "
            f"initial tree: {done['score_before']:.3f}."
        )
        echo(f'{done["file"]}: written; cc = {{ kind = "remy", tree = "{done["file"]}" }}')


_DID = {
    "improved": "rule {rule} improved",
    "kept": "rule {rule} kept",
    "split": "rule {rule} split",
    "epoch": "next epoch",
}


def _line(step: StepJson, left_s: float | None) -> str:
    rule = None if step["rule"] is None else step["rule"] + 1
    did = _DID[step["did"]].format(rule=rule)
    line = (
        f"step {step['step']}: {did}; {counted(step['rules'], 'rule')}, epoch {step['epoch']}, "
        f"objective {step['score']:.4f}, {step['cpu_s']:.0f} s of CPU time"
    )
    if left_s is None:
        return line
    return f"{line}, expected end {time.strftime('%H:%M', time.localtime(time.time() + left_s))}"
