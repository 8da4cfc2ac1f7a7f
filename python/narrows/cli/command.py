"""The classes of all commands: help with groups of options, notations of values, and examples.

A command is declared with `@command(EXAMPLE, …)` and its options with `@option(…, group=GROUP)`.
`narrows COMMAND --help` then prints the summary, the options by group, the notation of each metavar
in `NOTATIONS` that the options use, and the examples.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

OTHER = "Other"
"""The heading in the help of options without a group; it comes last."""

NOTATIONS = {
    "RATE": "bits per second: 20Mbit, 1.5Gbit",
    "TIME": "200us, 40ms, 10s, 1min",
    "SIZE": "bytes: 64B, 100kB, 2GB",
    "BUFFER": "bytes, packets or bandwidth-delay products: 64kB, 100p, 1.5bdp",
    "QDISC": "queue discipline: fq, codel, fq_codel, cake; narrows list queues prints all names",
    "PERCENT": "1%, 0.05%",
    "ADDRESS": "IP address and port: 127.0.0.1:9201",
}
"""Metavars of quantities, and how their values are written."""

WRONG = 2
"""Exit code of errors that the caller can correct, such as a wrong option."""

_HUGE = re.compile(r"; 0<=x<=\d{10,}(?=\])|  \[0<=x<=\d{10,}\]")
"""Matches a range up to a number of ten or more digits, such as that of a seed, which the help does
not show.
"""

_WIDEST_OPTION = 26
"""Maximum width of the names and the metavar of an option, in characters. The help text of a wider
option begins on the next line.
"""


class _Parameter(click.Parameter):
    """A parameter whose errors contain the value that was given."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:  # noqa: ANN401 - click's own
        """Converts the value as click does.

        Raises:
            click.BadParameter: If the value is not of the type.
        """
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as error:
            if error.param_hint is not None:
                raise
            from narrows.cli import usage  # noqa: PLC0415 - for errors only

            raise usage.invalid(self, value, error) from error


class Option(_Parameter, click.Option):
    """An option of a group, whose help ends with its default.

    Args:
        group: The heading in the help of the command.
        aliases: Names that are accepted and not shown.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        group: str = OTHER,
        aliases: Sequence[str] = (),
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """See the class."""
        attributes.setdefault("show_default", True)
        super().__init__(*args, **attributes)
        self.group = group
        self.aliases = frozenset(aliases)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The names of the option without aliases, and its help text with the default."""
        shown = copy.copy(self)
        shown.opts = [name for name in self.opts if name not in self.aliases]
        shown.secondary_opts = [name for name in self.secondary_opts if name not in self.aliases]
        record = click.Option.get_help_record(shown, ctx)
        if record is None:
            return None
        left, text = record
        if isinstance(self.show_default, str):
            # click puts a default that is given as text in parentheses, which are removed here.
            text = text.replace(f"default: ({self.show_default})", f"default: {self.show_default}")
        text = _HUGE.sub("", text)
        text = re.sub(r"(\d+)(?:\.0)?<=x<=(\d+)(?:\.0)?\]", r"range: \1 to \2]", text)
        return left, re.sub(r"x>=(\d+)(?:\.0)?\]", r"minimum: \1]", text)


class Argument(_Parameter, click.Argument):
    """An argument with a help text."""

    group = "Arguments"

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        help: str = "",  # noqa: A002 - as of options
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """See the class."""
        super().__init__(*args, **attributes)
        self.about = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Name and help."""
        name = (self.metavar or (self.name or "").upper()).strip("[].")
        return name, self.about


def option(*names: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Declares an option; see `Option`."""
    return click.option(*names, cls=Option, **attributes)


def argument(name: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Declares an argument."""
    return click.argument(name, cls=Argument, **attributes)


def by_group(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Help records of arguments and options by group, in the order of declaration. Options without
    a group come last.
    """
    groups: dict[str, list[tuple[str, str]]] = {Argument.group: []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and record[1]:
            groups.setdefault(getattr(param, "group", OTHER), []).append(record)
    other = groups.pop(OTHER, [])
    groups = {heading: rows for heading, rows in groups.items() if rows}
    return groups | ({OTHER if groups else "Options": other} if other else {})


def _write(
    formatter: click.HelpFormatter, groups: Mapping[str, Sequence[tuple[str, str]]], widest: int
) -> None:
    """Writes lists under headings; all lists have the same columns."""
    lefts = [left for rows in groups.values() for left, _ in rows if len(left) <= widest]
    wide = max(map(len, lefts), default=0)
    for heading, rows in groups.items():
        with formatter.section(heading):
            formatter.write_dl([(left.ljust(wide), text) for left, text in rows], wide)


class _WithHelp(click.Command):
    """A command with the options `-h` and `--help`, in whatever context its help is printed."""

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Those of the names `-h` and `--help` that no other parameter of the command has."""
        ctx.help_option_names = ["-h", "--help"]
        return super().get_help_option_names(ctx)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The option `--help`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = "Print this help"
        return option


class Command(_WithHelp):
    """A command with groups of options and examples.

    Args:
        examples: Command lines; the help shows them as they are.
        lists: Names and their descriptions, by heading; the help shows them after the arguments.
    """

    allow_extra_args = True
    """`parse_args` reports an unexpected argument, not click."""

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        examples: Sequence[str] = (),
        lists: Mapping[str, Mapping[str, str]] | None = None,
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """See the class."""
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)
        self.lists = {heading: [*rows.items()] for heading, rows in (lists or {}).items()}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses as click does.

        Raises:
            click.UsageError: If there is an unexpected argument, or an option is wrong.
        """
        try:
            left = super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        if left and not ctx.resilient_parsing:
            raise click.UsageError(f"{left[0]}: unexpected argument; {_usage(ctx)}", ctx)
        return left

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the arguments, the lists, the options by group, and the notations of the metavars
        in use.
        """
        groups = by_group(self, ctx)
        arguments = {head: groups.pop(head) for head in (Argument.group,) if head in groups}
        _write(formatter, arguments | self.lists | groups, _WIDEST_OPTION)
        used = {param.metavar for param in self.params}
        if rows := [(name, text) for name, text in NOTATIONS.items() if name in used]:
            _write(formatter, {"Values": rows}, _WIDEST_OPTION)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        super().format_epilog(ctx, formatter)
        write_examples(formatter, self.examples)


def _usage(ctx: click.Context) -> str:
    pieces = " ".join(ctx.command.collect_usage_pieces(ctx))
    return f"the usage is {ctx.command_path} {pieces}"


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Writes example commands under the heading Examples, each on its own line."""
    if examples:
        with formatter.section("Examples"):
            for example in examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class Group(_WithHelp, click.Group):
    """A command with subcommands under headings.

    Args:
        examples: Command lines; the help shows them as they are.
    """

    command_class: ClassVar[type[click.Command]] = Command  # type: ignore[misc]

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - click's own
        examples: Sequence[str] = (),
        **attributes: Any,  # noqa: ANN401 - click's own
    ) -> None:
        """See the class."""
        super().__init__(*args, **attributes)
        self.examples = tuple(examples)

    def summaries(self, ctx: click.Context) -> Iterator[tuple[str, str, str]]:
        """Yields heading, name and summary of each subcommand that is shown."""
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield "Commands", name, summary(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the subcommands under their headings."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for heading, name, text in self.summaries(ctx):
            headings.setdefault(heading, []).append((name, text))
        _write(formatter, headings, _WIDEST_OPTION)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the subcommands, then the options."""
        self.format_commands(ctx, formatter)
        _write(formatter, by_group(self, ctx), _WIDEST_OPTION)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        super().format_epilog(ctx, formatter)
        write_examples(formatter, self.examples)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the subcommand.

        Raises:
            click.UsageError: If there is no subcommand of this name.
        """
        name = args[0]
        if (
            not name.startswith("-")
            and not ctx.resilient_parsing
            and self.get_command(ctx, name) is None
        ):
            from narrows.cli import usage  # noqa: PLC0415 - for errors only

            raise usage.unknown_command(name, self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


def summary(command: click.Command) -> str:
    """The first sentence of a command's help, without its full stop."""
    first = " ".join((command.help or "").partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".")


def command(
    *examples: str,
    name: str | None = None,
    cls: type[Command] = Command,
    **attributes: Any,  # noqa: ANN401 - click's own
) -> Callable[[Callable[..., Any]], Command]:
    """Declares a command with examples; see `Command`."""
    return click.command(name, cls=cls, examples=examples, **attributes)
