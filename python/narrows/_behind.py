"""A program that stands behind the options, `narrows COMMAND OPTIONS -- PROGRAM ARGUMENTS`."""

from __future__ import annotations

import click

_PROGRAM = "narrows.behind.program"
EPILOG = "Behind `--` stands the command and its arguments."


class Behind(click.Command):
    """What stands behind `--` is the program, and before it is not: Click alone would not tell."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes the program away."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_PROGRAM] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def program() -> list[str]:
    """The program of the command that is at work, and its arguments; empty where there is none."""
    found: list[str] = click.get_current_context().meta.get(_PROGRAM, [])
    return found
