"""No control character of untrusted text reaches the terminal."""

from __future__ import annotations

import io
import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE_HEAD
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

import narrows
from narrows.render import report
from narrows.render.terminal import console, echo, one_line, printable

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r\x08\u202e\u061c[/red][bold]\u200b\U000e0041\ud800"
"""A window's title, a cleared screen, colours, a line written over, a line reversed, an Arabic
letter mark, Rich's own markup, and characters that nobody sees."""

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode's categories of controls, format characters, halves of surrogate pairs, and separators of
lines.
"""


def is_shown(text: str) -> bool:
    """Whether a text has no control or format character but newlines and tabs."""
    return not any(unicodedata.category(c) in _HIDDEN and c not in "\n\t" for c in text)


def test_the_gate_knows_every_format_character_of_unicode() -> None:
    hidden = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) in _HIDDEN]
    assert [c for c in hidden if printable(c) == c] == ["\t", "\n"]
    seen = [
        chr(c)
        for c in range(0xD800)
        if unicodedata.category(chr(c)) in {"Ll", "Lu", "Lo", "Nd", "Po", "Zs"}
    ]
    assert all(printable(c) == c for c in seen)


def test_newlines_in_foreign_text_are_escaped() -> None:
    for shown in (printed_by_console, lambda text: printed_by_console(Table(title=one_line(text)))):
        assert "\nforged" not in shown("the server\nforged: all is well\n")
    assert one_line("\nours, and theirs\n\nforged\n") == "\nours, and theirs\\u000a\\u000aforged\n"


def printed_by_console(thing: object) -> str:
    stream = io.StringIO()
    console(stream).print(thing, soft_wrap=True)
    return stream.getvalue()


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text(st.characters()))
def test_a_printable_text_has_no_control_character(text: str) -> None:
    shown = printable(text)
    assert is_shown(shown)
    assert printable(shown) == shown


def test_echo_makes_control_characters_visible(capsys: pytest.CaptureFixture[str]) -> None:
    echo(HOSTILE)
    echo(HOSTILE, err=True)
    captured = capsys.readouterr()
    assert captured.out == captured.err
    assert captured.out.startswith(
        r"\u001b]0;title\u0007\u001b[2J\u009b31m\u007f\u000d\u0008\u202e\u061c[/red][bold]"
    )


def test_tables_and_bars_make_control_characters_visible() -> None:
    for terminal in (True, False):
        stream = _Terminal() if terminal else io.StringIO()
        out = console(stream)
        table = Table(HOSTILE, title=HOSTILE, box=SIMPLE_HEAD)
        table.add_row(HOSTILE)
        table.add_row(Text(HOSTILE, style="red"))
        out.print(HOSTILE, style="bold", soft_wrap=True)
        out.print(table, soft_wrap=True)
        with Progress(TextColumn("{task.description}", markup=False), console=out) as bar:
            bar.add_task(HOSTILE, total=1)
        printed = stream.getvalue()
        # Remove the sequences of Rich: colours, the cursor, rewritten lines.
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed)
        assert is_shown(plain.replace("\r", ""))
        assert "\x1b[2J" not in printed
        assert "\x1b]0" not in printed
        assert "[/red][bold]" in printed


def test_only_this_module_prints_to_the_terminal() -> None:
    sources = (Path(narrows.__file__).parent).rglob("*.py")
    # Progress in our own words. `__main__` prints the version, and texts of `runs.short` that were
    # made printable.
    own = {"__main__.py", "reproduce/command.py", "teach/demo.py"}
    # The programs of a shell write to their user's terminal; `-` is a file that the user names.
    streams = {"kernel/machine.py", "storage/output.py"}
    place = Path(narrows.__file__).parent
    elsewhere = {
        str(source.relative_to(place))
        for source in sources
        if source.name != "terminal.py"
        and re.search(
            r"\bConsole\(|click\.s?echo\(|^ *print\(|\bstd(out|err)\.(write|buffer)|\bpprint\(",
            source.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    assert elsewhere == own | streams


def test_a_page_makes_control_characters_visible() -> None:
    made = {
        "narrows": "0",
        "title": HOSTILE,
        "first": HOSTILE,
        "runs": [],
        HOSTILE: [{"name": (HOSTILE,)}],
    }
    text = report.page(made)
    # The template's own script has newlines only.
    assert is_shown(text)
    assert r"\\u001b]0;title" in text
