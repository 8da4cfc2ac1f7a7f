"""Generates the manual pages and shell completions of `narrows` from its commands.

    python -m tools.manual

The manual page of the program `narrows-host` consists of its help texts, and its completion for
bash of their options. The Debian package installs both, and a unit for systemd. The other files are
below `python/narrows.data/data/share`. The wheel installs them into `share` below its prefix, where
`man` and shells find them. A completion script calls `narrows` for the matching names. It therefore
needs no change when a command changes.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from narrows.cli import main
from narrows.cli.command import NOTATIONS, Command, Group, by_group, summary
from narrows.host.live import HOST

ROOT = Path(__file__).resolve().parents[1]
SHARE = ROOT / "python/narrows.data/data/share"

OF_HOST = ROOT / "packaging/narrows-host.8"
COMPLETION_OF_HOST = ROOT / "packaging/narrows-host.bash"
UNIT = ROOT / "packaging/debian/narrows-serve.service"
HOST_COMMANDS = ("measure", "latency", "serve", "tune", "with", "machine")
"""The commands that every build of `narrows-host` has."""

SHELLS: dict[str, type[ShellComplete]] = {
    "bash-completion/completions/narrows": BashComplete,
    "zsh/site-functions/_narrows": ZshComplete,
    "fish/vendor_completions.d/narrows.fish": FishComplete,
}


def files() -> dict[str, str]:
    """The content of each generated file, by its path below `share`."""
    found = {f"man/man1/{name}.1": text for name, text in manual()}
    for name, shell in SHELLS.items():
        found[name] = shell(main, {}, "narrows", "_NARROWS_COMPLETE").source().rstrip() + "\n"
    return found


def manual() -> Iterator[tuple[str, str]]:
    """The name and the text of each manual page: one for each command and subcommand."""
    for ctx in _commands(click.Context(main, info_name="narrows")):
        yield ctx.command_path.replace(" ", "-"), page(ctx)


def _commands(ctx: click.Context) -> Iterator[click.Context]:
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield from _commands(click.Context(command, info_name=name, parent=ctx))


def page(ctx: click.Context) -> str:
    """The manual page of a command, in troff with the macros of man(7)."""
    command = ctx.command
    name = ctx.command_path.replace(" ", "-")
    about = _paragraphs(command.help or "")
    lines = [
        f'.TH "{name.upper()}" "1" "" "narrows" "User commands"',
        ".SH NAME",
        f"{_text(name)} \\- {_text(summary(command))}",
        ".SH SYNOPSIS",
        f".B {_text(ctx.command_path)}",
        _text(" ".join(command.collect_usage_pieces(ctx))),
        ".SH DESCRIPTION",
    ]
    for number, text in enumerate(about):
        lines += [".PP", _text(text)] if number else [_text(text)]
    if isinstance(command, Group):
        lines.append(".SH COMMANDS")
        for _, of, text in command.summaries(ctx):
            page_of = _text(f"{name}-{of}")
            lines += [".TP", f".B {_text(of)}", f"{_text(text)}; see {page_of}(1)."]
    for heading, rows in _lists(command, ctx).items():
        lines.append(f".SH {heading.upper()}")
        for left, text in rows:
            lines += [".TP", f".B {_text(left)}", _text(text)]
    if isinstance(command, Command | Group) and command.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_text, command.examples), ".fi"]
    parent = ctx.parent.command_path.replace(" ", "-") if ctx.parent else ""
    if parent:
        lines += [".SH SEE ALSO", f"{_text(parent)}(1)"]
    return "\n".join(lines) + "\n"


def _lists(command: click.Command, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    found = by_group(command, ctx)
    if isinstance(command, Command):
        found |= command.lists
    used = {param.metavar for param in command.params}
    values = [(name, text) for name, text in NOTATIONS.items() if name in used]
    return found | ({"Values": values} if values else {})


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n") if part.strip()]


def _text(text: str) -> str:
    r"""A text, escaped as input of troff.

    >>> _text("--cc CC uses `bbr`\n.x")
    '\\-\\-cc CC uses `bbr`\n\\&.x'
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def page_of_host() -> str:
    """The manual page of the program `narrows-host`."""
    lines = [
        '.TH "NARROWS-HOST" "8" "" "narrows" "System administration"',
        ".SH NAME",
        "narrows\\-host \\- measure a network path, and tune a host reversibly",
        ".SH SYNOPSIS",
        ".B narrows\\-host",
        "COMMAND [options]",
    ]
    for command in HOST_COMMANDS:
        lines += [f".SH {command.upper()}", ".nf", *map(_text, _help_of(command)), ".fi"]
    lines += [".SH SEE ALSO", "narrows(1)"]
    return "\n".join(lines) + "\n"


def _help_of(command: str) -> list[str]:
    told = subprocess.run([HOST, command, "--help"], capture_output=True, text=True, check=True)
    return told.stdout.splitlines()


def completion_of_host() -> str:
    """The completion of `narrows-host` for bash: commands, subcommands and options."""
    options, actions = [], []
    for command in HOST_COMMANDS:
        lines = _help_of(command)
        # Options are the indented lines; a usage line may have a subcommand.
        names = sorted({name for line in lines for name in re.findall(r"^  (--[\w-]+)", line)})
        options.append(f"        {command}) words='{' '.join([*names, '--help'])}' ;;")
        used = {name for line in lines for name in re.findall(rf"^\S+ {command} ([a-z]+)\b", line)}
        if used:
            actions.append(f"        {command}) words='{' '.join(sorted(used))}' ;;")
    return f"""# Completion of narrows-host for bash, written by tools/manual.py.
_narrows_host() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} words=
    if [[ $COMP_CWORD == 1 ]]; then
        words='{" ".join(HOST_COMMANDS)}'
    elif [[ $word == -* ]]; then
        case ${{COMP_WORDS[1]}} in
{chr(10).join(options)}
        esac
    elif [[ $COMP_CWORD == 2 ]]; then
        case ${{COMP_WORDS[1]}} in
{chr(10).join(actions)}
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}}
complete -o default -F _narrows_host narrows-host
"""


def unit() -> str:
    """The unit for systemd of the Debian package: that of the program, with its installed path."""
    told = subprocess.run(
        [HOST, "serve", "--systemd-unit"], capture_output=True, text=True, check=True
    )
    return told.stdout.replace(str(HOST.resolve()), "/usr/bin/narrows-host")


def write(share: Path = SHARE) -> None:
    """Writes all files, and removes files of commands that no longer exist."""
    OF_HOST.write_text(page_of_host(), encoding="utf-8")
    COMPLETION_OF_HOST.write_text(completion_of_host(), encoding="utf-8")
    UNIT.write_text(unit(), encoding="utf-8")
    made = files()
    for old in share.rglob("*"):
        if old.is_file() and str(old.relative_to(share)) not in made:
            old.unlink()
    for name, text in made.items():
        (share / name).parent.mkdir(parents=True, exist_ok=True)
        (share / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
