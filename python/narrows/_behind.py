"""Commands that run a program: `narrows COMMAND [OPTIONS] -- PROGRAM [ARGUMENTS]`."""

from __future__ import annotations

import click

from narrows.cli.command import Command

_PROGRAM = "narrows.behind.program"


class Behind(Command):
    """A command whose arguments after `--` are a program and its arguments."""

    program_required = True

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Adds the program to the usage line."""
        piece = "-- PROGRAM [ARGUMENTS]"
        if not self.program_required:
            piece = f"[{piece}]"
        return [*super().collect_usage_pieces(ctx), piece]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments before `--`, and stores those after it for `program`."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PROGRAM] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def program() -> list[str]:
    """The program after `--` and its arguments; empty if the command line has no `--`."""
    found: list[str] = click.get_current_context().meta.get(_PROGRAM, [])
    return found
