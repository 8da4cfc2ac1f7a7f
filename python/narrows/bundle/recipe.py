r"""Recipes: the command lines of a bundle.

A recipe is a text with a command on each line. As in a shell, there are quotes and comments (`#`),
and a line that ends with `\` continues. Only simulations and figures are accepted, with the options
of `COMMANDS`. Every file has a relative name in the folder of the recipe. Therefore, the commands
of an untrusted bundle cannot name other files of this machine, send packets or load code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from narrows.errors import NarrowsError

MOST_COMMANDS = 1000
"""Maximum number of commands of a recipe."""

APPEARANCE = ("--log", "--size", "--font", "--font-size", "--dpi", "--look")
"""Options for the appearance of figures."""


@dataclass(frozen=True)
class Grammar:
    """The words that a command may have.

    Attributes:
        arguments: Kind of the arguments of the command: `scenario`, `sweep`, `table` or `word`.
        outputs: Options whose value is a file or a folder to write.
        values: Options with a value that names no file.
        flags: Options without a value.
    """

    arguments: str
    outputs: tuple[str, ...]
    values: tuple[str, ...]
    flags: tuple[str, ...]


COMMANDS: Mapping[str, Grammar] = {
    "run": Grammar(
        "scenario",
        ("--out", "--plot", "--report", "--latex"),
        ("--seed", "--seeds", "--sample-interval", *APPEARANCE),
        ("--states", "--json", "--quiet"),
    ),
    "compare": Grammar(
        "scenario",
        ("--plot", "--report", "--latex"),
        ("--seed", "--seeds", *APPEARANCE),
        ("--json",),
    ),
    "race": Grammar(
        "word",
        ("--plot", "--latex"),
        ("--rate", "--rtt", "--buffer", "--queue", "--loss", "--only", "--duration", "--seed",
         "--seeds", *APPEARANCE),
        ("--json",),
    ),
    "study": Grammar(
        "word",
        ("--plot", "--latex", "--rules", "--into"),
        ("--seeds", *(name for name in APPEARANCE if name != "--log")),
        ("--quick", "--json"),
    ),
    "sweep": Grammar("sweep", ("--table", "--into"), ("--jobs",), ("--json", "--quiet")),
    "worst-case": Grammar(
        "scenario",
        ("--out", "-o", "--into"),
        ("--over", "--for", "--flow", "--limit", "--budget", "--population", "--seed", "--seeds",
         "--checks", "--jobs"),
        ("--json", "--quiet"),
    ),
    "plot": Grammar(
        "table",
        ("--out",),
        ("--x", "--y", "--by", "--where", "--kind", "--interval", "--title", *APPEARANCE),
        (),
    ),
}  # fmt: skip
"""The commands of bundles."""

STORES = {"study": "sweep-results", "sweep": "sweep-results", "worst-case": "sweep-results"}
"""Folder in which a command stores its runs if it has no `--into`; this folder is not among the
results.
"""

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@ -]*")
_MOST_NAME = 200
_CODE = (".py", ".pyc", ".pyd", ".pyi", ".so", ".pth", ".sh")
_WORD = re.compile(r"[\w.,+%=\[\] -]{1,200}")
_RANGES = re.compile(r"[\w.,:+%=\[\] -]{1,200}")
"""Values of `--over`, which contain ranges."""


@dataclass(frozen=True)
class Command:
    """A command of a recipe.

    Attributes:
        words: Words of the command line, without `narrows`.
        inputs: The files that the command reads.
        outputs: The files and folders that the command writes.
        store: The folder in which the command stores its runs; None if it stores none.
    """

    words: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    store: str | None

    @property
    def kind(self) -> str:
        """The kind of its inputs."""
        return COMMANDS[self.words[0]].arguments

    @property
    def line(self) -> str:
        """The command line."""
        return shlex.join(["narrows", *self.words])


def safe_name(name: object) -> str:
    """Returns the name if it is relative, leads to no other folder with `..`, and has only plain
    characters.

    >>> safe_name("figures/a.pdf")
    'figures/a.pdf'

    Raises:
        NarrowsError: If the name is not such a name, or if it is that of a program or of settings
            of Matplotlib.
    """
    text = name if isinstance(name, str) else ""
    parts = text.split("/")
    if not text or len(text) > _MOST_NAME or not all(_PART.fullmatch(part) for part in parts):
        raise NarrowsError(
            f"{str(name)[:_MOST_NAME]!r}: a bundle has only files below its own folder; write a "
            "relative name of letters, digits and ._+=@-, without .."
        )
    if PurePosixPath(text).suffix.lower() in _CODE or parts[-1].lower() == "matplotlibrc":
        raise NarrowsError(f"{text}: a bundle has no programs and no settings; remove it")
    return text


def lines(text: str, name: str) -> list[Command]:
    """The commands of a recipe.

    >>> [one.outputs for one in lines("narrows run a.toml --plot a.pdf  # Figure 1", "recipe")]
    [('a.pdf',)]

    Raises:
        NarrowsError: If a line is no command of a bundle; the error contains all such lines.
    """
    found, wrong = [], []
    for number, line in _joined(text):
        try:
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] != "narrows":
                raise NarrowsError(f"{words[0]}: no command of narrows; write narrows run …")
            found.append(command(words[1:]))
        except (NarrowsError, ValueError) as error:
            wrong.append(f"{name}:{number}: {error}")
    if not found and not wrong:
        wrong.append(f"{name}: has no command; write a line such as narrows run a.toml --out a")
    if len(found) > MOST_COMMANDS:
        wrong.append(f"{name}: has {len(found)} commands; a bundle has at most {MOST_COMMANDS}")
    if wrong:
        raise NarrowsError("\n".join(wrong))
    return found


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yields each line, joined with the lines that continue it, after its line number."""
    first, begin = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        if line.endswith("\\"):
            begin += f"{line[:-1]} "
            continue
        yield first, begin + line
        first, begin = 0, ""
    if begin:
        yield first, begin


def command(words: Sequence[Any]) -> Command:
    """Parses the words of a command, without `narrows`.

    Raises:
        NarrowsError: If a bundle may not have this command, or one of its words.
    """
    if not words or not all(isinstance(word, str) for word in words):
        raise NarrowsError("a command is a list of words")
    grammar = COMMANDS.get(words[0])
    if grammar is None:
        raise NarrowsError(
            f"narrows {words[0]}: is no command of bundles; write one of {', '.join(COMMANDS)}"
        )
    inputs, outputs, store = [], [], STORES.get(words[0])
    rest = list(words[1:])
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            inputs.append(_argument(word, grammar.arguments))
            continue
        option, equals, value = word.partition("=")
        if option in grammar.flags and not equals:
            continue
        if option == "--plugin":
            raise NarrowsError(
                "--plugin: a bundle loads no plugin; write the option after narrows bundle"
            )
        if option not in (*grammar.outputs, *grammar.values):
            known = ", ".join((*grammar.outputs, *grammar.values, *grammar.flags))
            raise NarrowsError(f"{word}: no option of bundles; narrows {words[0]} has {known}")
        if not equals:
            if not rest:
                raise NarrowsError(f"{option}: the value is missing")
            value = rest.pop(0)
        if option in grammar.values:
            _plain(option, value)
        elif option == "--into":
            store = safe_name(value)
        else:
            outputs.append(safe_name(value))
    files = tuple(inputs) if grammar.arguments != "word" else ()
    return Command(tuple(words), files, tuple(outputs), store)


def _argument(word: str, kind: str) -> str:
    return _plain("the argument", word) if kind == "word" else safe_name(word)


def _plain(option: str, value: str) -> str:
    """Returns a value if it has no slash and no special character, so that it names no file
    elsewhere.
    """
    allowed = _RANGES if option == "--over" else _WORD
    if not allowed.fullmatch(value):
        raise NarrowsError(f"{option} {value[:_MOST_NAME]!r}: a bundle has only plain values")
    return value
