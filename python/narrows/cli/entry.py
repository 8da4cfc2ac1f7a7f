"""The command `narrows`. A subcommand's module is imported when the subcommand is used: a small run
starts at once.
"""

from __future__ import annotations

from narrows import _interrupt  # isort: skip - before anything that takes time
import errno
import io
import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from narrows import __version__
from narrows.cli.options import WRONG
from narrows.errors import NarrowsError, reason
from narrows.render.terminal import echo

_EMPTY = re.compile(r"(--[\w-]+=)?")
"""A word with nothing in it, or an option's with nothing behind its sign."""

COMMANDS = {
    "advise": "narrows.advise.command:advise",
    "agree": "narrows.host.command:agree",
    "check": "narrows.runs.command:check",
    "compare": "narrows.compare.command:compare",
    "convert": "narrows.measure.command:convert",
    "demo": "narrows.teach.command:demo",
    "doctor": "narrows.host.command:doctor",
    "explain": "narrows.teach.command:explain",
    "from": "narrows.advise.command:from_",
    "history": "narrows.measure.command:history",
    "latency": "narrows.latency.command:latency",
    "list": "narrows.runs.command:list_",
    "measure": "narrows.measure.command:measure",
    "race": "narrows.runs.race_command:race",
    "record": "narrows.advise.command:record",
    "remy": "narrows.runs.command:remy",
    "reproduce": "narrows.reproduce.command:reproduce",
    "run": "narrows.runs.command:run",
    "serve": "narrows.host.serve:serve",
    "shell": "narrows.host.shell:shell",
    "study": "narrows.study.command:study",
    "sweep": "narrows.sweeps.command:sweep",
    "tune": "narrows.tune.changing:tune",
    "twin": "narrows.measure.command:twin",
    "with": "narrows.tune.with_:with_",
}
"""Where each subcommand is: module and object."""


class _LazyGroup(click.Group):
    """A group that imports the module of a subcommand when it is asked for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


class _Narrows(_LazyGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An empty word is a variable that was never set: `--token "$TOKEN"` must not come to mean
        nobody's.
        """
        ours = args[: args.index("--")] if "--" in args else args
        for at, word in enumerate(ours):
            if _EMPTY.fullmatch(word):
                of = word.rstrip("=") or next(
                    (w for w in ours[at - 1 : at] if w.startswith("-")), "an argument"
                )
                raise click.UsageError(f"{of} is empty: give it a value, or leave it out", ctx)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """After the import of the subcommand's module, a signal is an exception."""
        found = super().resolve_command(ctx, args)
        _interrupt.loaded()
        return found

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Mistakes are told in the core's words and without a traceback; a signal is not a
        mistake.
        """
        _ready_stdout()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            with suppress(OSError):
                echo("stopped", err=True)
            _interrupt.silence()
            ctx.exit(_interrupt.code())
        except NarrowsError as error:
            echo(str(error), err=True)
            ctx.exit(WRONG)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # Click's: a reader that has seen enough is no mistake
            echo(f"output: {reason(error)}", err=True)
            ctx.exit(WRONG)


def _ready_stdout() -> None:
    """A locale that lacks a sign gets a question mark for it; who closed stdout wants nothing
    there.
    """
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@click.group(
    cls=_Narrows, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="narrows")
def main() -> None:
    """A laboratory for the narrow part of a network path.

    Example: narrows run scenarios/first/cubic.toml
    """
