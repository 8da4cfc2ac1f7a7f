"""Texts of errors on the command line: the option and its value, what is wrong, what to write.

`--seed x: must be a whole number from 0 to 2^64-1; write --seed 1`
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from narrows.storage.text import name_of, near, near_file

_MOST = 2**64 - 1
"""The highest seed."""


def invalid(
    param: click.Parameter,
    value: Any,  # noqa: ANN401 - as it was given
    error: click.BadParameter,
) -> click.BadParameter:
    """Returns the error for a value that is not of a parameter's type."""
    values = value if isinstance(value, list | tuple) else (value,)
    given = " ".join(map(str, values))
    name = _name(param)
    place = f"{name} {given}" if isinstance(param, click.Option) else given
    words = f"{name} " if isinstance(param, click.Option) else ""
    kind = param.type
    message = error.message[:1].lower() + error.message[1:].rstrip(".")
    if isinstance(kind, click.IntRange) or kind is click.INT:
        message = f"must be a whole number{_range(kind)}; write {words}{_number(param, given)}"
    elif isinstance(kind, click.FloatRange):
        message = f"must be a number{_range(kind)}; write {words}{_number(param, given)}"
    elif type(kind) is click.Choice or "is not one of" in message:
        choices = [str(choice) for choice in kind.choices]  # type: ignore[attr-defined]
        message = f"must be one of {', '.join(choices)}"
        if close := near(given, choices):
            message += f"; did you mean {words}{close}?"
    elif isinstance(kind, click.Path):
        message = _path(kind, given) or message
    return click.BadParameter(message, error.ctx, param, param_hint=place)


def _path(kind: click.Path, given: str) -> str | None:
    """The problem with the name of a file or folder; None if there is none."""
    if not os.path.lexists(given):
        if not kind.file_okay:
            return "no such directory"
        meant = near_file(given)
        return "no such file" + (f"; did you mean {name_of(meant)}?" if meant else "")
    if os.path.isdir(given) and not kind.dir_okay:  # noqa: PTH112 - no error for any name
        return "is a directory; write the name of a file"
    if not os.path.isdir(given) and not kind.file_okay:  # noqa: PTH112 - no error for any name
        return "is no directory; write the name of a directory"
    return None


def _range(kind: object) -> str:
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is None:
        return ""
    last = "2^64-1" if high == _MOST else high
    return f" of at least {low}" if high is None else f" from {low} to {last}"


def _number(param: click.Parameter, given: str) -> int:
    """A value that the option accepts, for the fix: the one nearest to the given number. For text
    that is no number, the value is the default of the option.
    """
    low, high = getattr(param.type, "min", None), getattr(param.type, "max", None)
    try:
        number = round(float(given))
    except (ValueError, OverflowError):
        number = _default(param)
    if low is not None:
        number = max(low, number)
    return number if high is None else min(high, number)


def _default(param: click.Parameter) -> int:
    """The default of an option for a number, also one that only the help shows; otherwise 1."""
    for default in (param.default, getattr(param, "show_default", None)):
        with suppress(TypeError, ValueError):
            return round(float(default))  # type: ignore[arg-type] # of any type
    return 1


def _name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return param.opts[0]
    return (param.metavar or (param.name or "").upper()).strip("[].")


def unknown_command(name: str, known: Sequence[str], ctx: click.Context) -> click.UsageError:
    """Returns the error for a subcommand that does not exist."""
    close = near(name, known)
    fix = (
        f"did you mean {ctx.command_path} {close}?"
        if close
        else f"{ctx.command_path} --help lists the commands"
    )
    return click.UsageError(f"{name}: {ctx.command_path} has no such command; {fix}", ctx)


def text(error: click.UsageError) -> str:
    """Returns the text of an error: the place, what is wrong, what to write instead."""
    ctx = error.ctx
    path = ctx.command_path if ctx is not None else "narrows"
    lists = f"{path} --help lists the options"
    if isinstance(error, click.NoSuchOption):
        close = near(error.option_name, _shown(ctx)) if ctx is not None else None
        fix = f"did you mean {close}?" if close else lists
        return f"{error.option_name}: {path} has no such option; {fix}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _missing(error.param, ctx, path)
    if isinstance(error, click.BadOptionUsage):
        param = next(
            (
                each
                for each in (ctx.command.params if ctx else ())
                if error.option_name in (*each.opts, *each.secondary_opts)
            ),
            None,
        )
        if isinstance(param, click.Option) and param.is_flag:
            return f"{error.option_name}: this option takes no value; write {error.option_name}"
        return (
            f"{error.option_name}: the value is missing; "
            f"write {error.option_name} {_metavar(param)}"
        )
    if isinstance(error, click.BadParameter):
        hint = error.param_hint or (_name(error.param) if error.param is not None else None)
        if hint is not None:
            return f"{hint if isinstance(hint, str) else ' and '.join(hint)}: {error.message}"
    return error.format_message()


def _shown(ctx: click.Context) -> list[str]:
    """The names of the options that the help of the command shows."""
    options = [param for param in ctx.command.get_params(ctx) if isinstance(param, click.Option)]
    return [
        name
        for param in options
        if not param.hidden
        for name in (*param.opts, *param.secondary_opts)
        if name not in getattr(param, "aliases", ())
    ]


def _metavar(param: click.Parameter | None) -> str:
    return (param and param.metavar) or "VALUE"


def _missing(param: click.Parameter, ctx: click.Context | None, path: str) -> str:
    name = _name(param)
    if isinstance(param, click.Option):
        return f"{name}: this option is required; write {name} {_metavar(param)}"
    if isinstance(param.type, click.Choice):
        choices = ", ".join(str(choice) for choice in param.type.choices)
        return f"{name}: this argument is missing; write one of {choices}"
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx)) if ctx is not None else name
    return f"{name}: this argument is missing; the usage is {path} {pieces}"
