"""The command `narrows`. The module of a subcommand is imported when the subcommand is used, so
that a small run starts quickly.
"""

from __future__ import annotations

from narrows import _interrupt  # isort: skip - before anything that takes time
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from narrows import __version__, _core
from narrows.cli.command import WRONG, Group
from narrows.errors import NarrowsError, reason
from narrows.render.terminal import echo, shown_warnings
from narrows.storage.command_line import remember

_EMPTY = re.compile(r"(--[\w-]+=)?")
"""Matches an empty word, or a long option with an empty value, such as `--token=`."""

COMMANDS = {
    "Simulate": {
        "run": ("narrows.runs.command:run", "Run a scenario and report its metrics"),
        "check": ("narrows.runs.command:check", "Check scenario files for errors"),
        "race": ("narrows.runs.race_command:race", "Compare congestion controls on one path"),
        "conform": (
            "narrows.conform.command:conform",
            "Check a QUIC stack, TCP or congestion control against RFCs",
        ),
        "shell": ("narrows.host.shell:shell", "Run a program over an emulated path"),
        "from": (
            "narrows.advise.from_command:from_",
            "Convert a tc or router configuration to a scenario",
        ),
        "list": (
            "narrows.runs.command:list_",
            "List congestion controls, queue disciplines and other models",
        ),
        "remy": (
            "narrows.runs.command:remy",
            "Convert a congestion control that the search program Remy found",
        ),
        "train": ("narrows.train.command:train", "Search for a congestion control by simulation"),
        "doctor": (
            "narrows.host.command:doctor",
            "Check whether this host supports runs with real packets",
        ),
        "new": ("narrows.models.command:new", "Write a new scenario, trace, topology or model"),
        "kernel": (
            "narrows.kernel.command:kernel",
            "Build Linux kernels for runs in virtual time, compare TCP rules",
        ),
    },
    "Measure": {
        "measure": (
            "narrows.measure.command:measure",
            "Measure goodput and latency under load to a host",
        ),
        "latency": (
            "narrows.latency.command:latency",
            "Measure UDP response times, split into host and network time",
        ),
        "serve": (
            "narrows.host.serve:serve",
            "Run the server for narrows measure, narrows latency and iperf3",
        ),
        "compare": ("narrows.compare.command:compare", "Compare measurements or scenarios"),
        "model": ("narrows.path_model.command:model", "Fit a path model to a measurement"),
        "identify": (
            "narrows.identify.command:identify",
            "Identify the congestion controls of the senders in a capture",
        ),
        "convert": (
            "narrows.files.command:convert",
            "Convert a measurement to another file format",
        ),
        "history": ("narrows.measure.history_command:history", "List stored measurements"),
    },
    "Decide": {
        "advise": (
            "narrows.advise.command:advise",
            "Recommend a congestion control or queue for a path",
        ),
        "record": (
            "narrows.advise.record_command:record",
            "Check predictions of `narrows advise` against later measurements",
        ),
    },
    "Change a host": {
        "tune": (
            "narrows.tune.changing:tune",
            "Audit, plan, apply and revert network settings of a host",
        ),
        "with": (
            "narrows.tune.with_:with_",
            "Run one program with a congestion control that you choose",
        ),
    },
    "Study": {
        "sweep": ("narrows.sweeps.command:sweep", "Run the cases of a sweep file"),
        "worst-case": (
            "narrows.worst_case.command:worst_case",
            "Search for the scenario values that cause the largest problem",
        ),
        "plot": (
            "narrows.sweeps.plot_command:plot",
            "Plot a table of results, or results in the same axes",
        ),
        "bundle": (
            "narrows.bundle.command:bundle",
            "Pack scenarios, commands and results into an archive, or verify it",
        ),
        "study": (
            "narrows.study.command:study",
            "Run a predefined study: a sweep that answers one question",
        ),
        "reproduce": (
            "narrows.reproduce.command:reproduce",
            "Repeat published experiments and compare the results",
        ),
        "agree": (
            "narrows.host.command:agree",
            "Compare the simulator with Linux kernels on the same scenarios",
        ),
        "record-reference": (
            "narrows.reference.command:record_reference",
            "Run validation scenarios on a real kernel, and store the results",
        ),
    },
    "Learn": {
        "demo": (
            "narrows.teach.command:demo",
            "Repeat a published experiment with BBR and CUBIC",
        ),
        "lab": (
            "narrows.teach.lab_command:lab",
            "Open the lab, an interactive simulation, in a browser",
        ),
        "explain": ("narrows.teach.command:explain", "Explain a topic with simulations"),
        "exercise": (
            "narrows.teach.exercise_command:exercise",
            "Work through exercises, and check the answers",
        ),
    },
}
"""Module, object and summary of each subcommand, by heading of the help.

The summary is the first sentence of the help of the subcommand. The summaries are stored here so
that `narrows --help` imports no module of a subcommand.
"""

_PLACES = {name: place for each in COMMANDS.values() for name, (place, _) in each.items()}
_ALIASES = {"twin": "model"}
"""Earlier names of subcommands, which still work and which the help does not show."""


class _LazyGroup(Group):
    """A group that imports the module of a subcommand when the subcommand is used."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_PLACES)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        place = _PLACES.get(_ALIASES.get(name, name))
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def summaries(self, _ctx: click.Context) -> Iterator[tuple[str, str, str]]:
        for heading, commands in COMMANDS.items():
            for name, (_, text) in commands.items():
                yield heading, name, text


class _Narrows(_LazyGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rejects empty words: `--token "$TOKEN"` with an unset variable must not mean no token."""
        ours = args[: args.index("--")] if "--" in args else args
        for at, word in enumerate(ours):
            if _EMPTY.fullmatch(word):
                of = word.rstrip("=") or next(
                    (w for w in ours[at - 1 : at] if w.startswith("-")),
                    " ".join(("argument of narrows", *ours[:1])).rstrip(),
                )
                raise click.UsageError(f"{of}: the value is empty; write a value or omit it", ctx)
        remember(ctx, args)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's own
        """Parses the options before the subcommand."""
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            _refuse(error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Imports the module of the subcommand; from then on, signals raise `KeyboardInterrupt`."""
        found = super().resolve_command(ctx, args)
        _interrupt.loaded()
        return found

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Executes the subcommand, and prints its errors without a traceback. After a signal, the
        exit code is 128 plus the number of the signal.
        """
        _ready_stdout()
        _core.exit_if_locked()
        try:
            with shown_warnings():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            with suppress(OSError):
                echo("stopped", err=True)
            _interrupt.silence()
            ctx.exit(_interrupt.code())
        except NarrowsError as error:
            echo(str(error), err=True)
            ctx.exit(WRONG)
        except click.UsageError as error:
            _refuse(error)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # Click ends silently: a closed pipe, as by `head`, is no error.
            echo(f"output: {reason(error)}", err=True)
            ctx.exit(WRONG)


def _refuse(error: click.UsageError) -> NoReturn:
    """Prints an error of the command line, and exits with the code `WRONG`."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        raise error
    from narrows.cli import usage  # noqa: PLC0415 - for errors only

    echo(usage.text(error), err=True)
    raise click.exceptions.Exit(WRONG)


def _ready_stdout() -> None:
    """Makes stdout print `?` for a character that its encoding lacks. If stdout is closed, the
    output is discarded.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@click.group(
    cls=_Narrows,
    context_settings={"max_content_width": 100},
    examples=(
        "narrows run scenarios/first/cubic.toml",
        "narrows measure server.example",
        "narrows advise --rate 50Mbit --rtt 40ms --loss 1%",
        "narrows COMMAND --help",
    ),
)
@click.version_option(__version__, prog_name="narrows", help="Print the version")
def main() -> None:
    """Measure, simulate and improve the bottleneck of a network path."""
