"""Checks the project's prose against the rules in `prose.toml`: `python -m tools.prose`.

The program reads the Markdown pages and the help of `narrows`, `narrows-host` and `make`. From
Python, Rust and TypeScript sources, it reads doc comments and string literals of several words.
From scenarios and sweeps, it reads comments and titles. Code blocks, inline code, link targets and
code that is compiled only for tests are left out.

The check fails on any violation and prints each with file and line. `python -m tools.prose PATH…`
checks these files or folders only.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools import layers

LONG = "long-sentence"
WIDE = "wide-line"
CODE = "CODE"
"""The word that replaces inline code in a sentence."""

FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"^\s*([-*+]|\d+[.)])\s+")
STARTS = re.compile(r"\s*([-*+]|1[.)])\s+")
SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Examples?|Note):\s*$")
ENTRY = re.compile(r"\**\w+( \([^)]*\))?: +(?=\S)")
INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\](\([^)]*\)|\[[^\]]*\])")
BARE = re.compile(r"<?https?://\S+|<[!/]?[a-zA-Z][^>]*>")
END = re.compile(
    r"""(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)(?<!cf\.)["')*_]*\s+(?=["'(\[*_]*[A-Z]|narrows\b)
    |(?<=[?!])\s+(?=\d)|(?<=[a-z]{4}\.)(?<!prox\.)\s+(?=\d)""",
    re.VERBOSE,
)
NAMES = re.compile(rf"{CODE}(,? (and |or )?{CODE})+|\b\w+(, \w+){{5,}}\b")
"""Matches a list of names in code, or of six or more single words. Such a list counts as one
word."""

WORDS = re.compile(r"[^\W\d_]\S*\s+[^\W\d_]")
OPTION = re.compile(r"^\s+(-\S+.*?|\S+)\s{2,}")
SCRIPT = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`""", re.DOTALL
)
ESCAPE = re.compile(r"\\\n\s*|\\[nrt]")
DECORATED = re.compile(r"\b(command|group)\b")


@dataclass(frozen=True)
class Text:
    """A piece of prose in one line, with inline code replaced. Its kind is paragraph, heading,
    table cell, help text, doc comment or message.
    """

    file: str
    line: int
    kind: str
    text: str


@dataclass(frozen=True)
class Rule:
    """A rule: a banned term or construction as a pattern, the kinds of text to which it applies,
    and its replacement.
    """

    name: str
    pattern: re.Pattern[str]
    use: str
    of: frozenset[str]
    wrong: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """One violation of a rule."""

    file: str
    line: int
    rule: str
    message: str


@dataclass
class Config:
    """The contents of `prose.toml`."""

    rules: list[Rule]
    sources: dict[str, list[str]]
    words: int
    columns: int


def plain(text: str) -> str:
    """Returns `text` with inline code replaced by a word, and without link targets and tags."""
    text = INLINE.sub(CODE, text)
    while (shorter := LINK.sub(lambda link: link[1], text)) != text:
        text = shorter
    return " ".join(BARE.sub(" ", text).replace("**", "").split())


def sentences(text: str) -> list[str]:
    """Splits a paragraph into its sentences."""
    return [part for part in END.split(text) if part]


def markdown(file: str, text: str, kind: str = "prose", start: int = 1) -> Iterator[Text]:
    """Yields the paragraphs, headings and table cells of a Markdown text."""
    text = re.sub(r"<!--.*?-->", lambda comment: layers.blank(comment[0]), text, flags=re.DOTALL)
    held: list[str] = []
    first = fenced = listed = 0
    lines = text.splitlines()
    for number, line in enumerate([*lines, ""], start):
        fence = FENCE.match(line)
        table = line.lstrip().startswith("|")
        heading = re.match(r"#+ +(.*)", line)
        item = STARTS.match(line) or (listed and ITEM.match(line))
        ends = not line.strip() or fence or table or heading or item
        if held and ends and not fenced:
            yield Text(file, first, kind, plain(" ".join(held)))
            held = []
        if fence:
            fenced = not fenced
        elif fenced or not line.strip() or (not held and not listed and line.startswith("    ")):
            continue
        elif heading:
            yield Text(file, number, "heading", plain(heading[1]))
        elif table:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from (
                Text(file, number, "cell", plain(cell)) for cell in cells if cell.strip(" -:")
            )
        else:
            if not held:
                first, listed = number, bool(ITEM.match(line))
            held.append((line if held else ITEM.sub("", line, count=1)).strip(" >"))


def wide(file: str, text: str, columns: int) -> Iterator[tuple[str, int]]:
    """Yields the file and number of each line of a page that is longer than `columns` and could be
    wrapped before this column.
    """
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
        elif (
            not fenced and len(line) > columns and not re.match(r"\s*(\||#|<!--|\[[^\]]+\]:)", line)
        ):
            whole = LINK.sub(
                lambda link: "x" * len(link[0]), INLINE.sub(lambda c: "x" * len(c[0]), line)
            )
            mark = ITEM.match(whole)
            if " " in whole[mark.end() if mark else len(whole) - len(whole.lstrip()) : columns + 1]:
                yield file, number


def makefile(file: str, text: str) -> Iterator[Text]:
    """Yields the descriptions of targets that `make help` prints."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.match(r"[a-z0-9-]+:.*## (.*)", line):
            yield Text(file, number, "help", plain(found[1]))


def scenario(file: str, text: str) -> Iterator[Text]:
    """Yields the comments and the title of a scenario or sweep."""
    comments = [re.match(r"#+ ?(.*)", line) for line in text.splitlines()]
    yield from markdown(file, "\n".join(line[1] if line else "" for line in comments), "doc")
    for number, line in enumerate(text.splitlines(), 1):
        if title := re.match(r'title = "(.*)"', line):
            yield Text(file, number, "message", plain(title[1]))


def typescript(file: str, text: str) -> Iterator[Text]:
    """Yields the comments of a TypeScript source and its string literals of several words."""
    for found in SCRIPT.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        if found["comment"]:
            words = re.sub(r"\n\s*\*+", " ", found["comment"].strip("/* "))
            yield Text(file, line, "doc", plain(words))
        else:
            yield from literals(file, line, re.sub(r"\$\{[^}]*\}", CODE, found[0][1:-1]))


def literal(node: ast.expr) -> str | None:
    """Returns the text of a string literal or f-string, with a word in place of each inserted
    value; None for other expressions.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [literal(part) if isinstance(part, ast.Constant) else CODE for part in node.values]
        return "".join(part or "" for part in parts)
    return None


def python(file: str, text: str) -> Iterator[Text]:
    """Yields the docstrings of a Python source and its string literals of several words. Help texts
    of commands are left out, because `helped` yields them.
    """
    tree = ast.parse(text)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        bodies = getattr(node, "body", None)
        if isinstance(bodies, list):
            for statement in bodies:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    skipped.add(id(statement.value))
                    if not isinstance(statement.value.value, str):
                        continue
                    of = [ast.unparse(one) for one in getattr(node, "decorator_list", [])]
                    if not any(DECORATED.search(one) for one in of):
                        doc = docstring(statement.value.value)
                        yield from markdown(file, doc, "doc", statement.lineno)
        if isinstance(node, ast.keyword) and node.arg in ("help", "short_help", "epilog"):
            skipped.update(id(part) for part in ast.walk(node.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(part) for part in ast.walk(node) if part is not node)
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        if (message := literal(node)) is not None:
            yield from literals(file, node.lineno, message)


def docstring(text: str) -> str:
    """Returns a docstring as Markdown: entries of its sections become list items, and examples are
    left out.
    """
    lines: list[str] = []
    section = ""
    for line in inspect.cleandoc(text).splitlines():
        if found := SECTION.match(line):
            section = found[1]
            lines.append("")
            continue
        if line[:1].strip():
            section = ""
        code = section.startswith("Example") or line.lstrip().startswith((">>>", "..."))
        lines.append("" if code else ENTRY.sub("- ", line.strip(), count=1) if section else line)
    return "\n".join(lines)


def literals(file: str, line: int, text: str) -> Iterator[Text]:
    """Yields the lines of a literal that contain several words."""
    for part in re.split(r"\n+", text):
        if WORDS.search(part):
            yield Text(file, line, "message", plain(part))


def rust(file: str, text: str) -> Iterator[Text]:
    """Yields the doc comments of a Rust source and its string literals of several words, except in
    code for tests.
    """
    blanked = layers.TOKEN.sub(lambda found: layers.blank(found[0]), text)
    tests = [
        range(found.start(), layers.end_of_item(blanked, found.end()))
        for found in layers.TEST.finditer(blanked)
        if not found["module"]
    ]
    held: list[str] = []
    first = last = 0
    for found in layers.TOKEN.finditer(text):
        if any(found.start() in test for test in tests):
            continue
        line = text.count("\n", 0, found.start()) + 1
        doc = re.match(r"//[/!](?!/) ?(.*)", found[0])
        if held and (not doc or line != last + 1):
            yield from markdown(file, "\n".join(held), "doc", first)
            held = []
        if doc:
            first = first if held else line
            last = line
            held.append(doc[1])
        elif '"' in found[0][:4] and not found[0].startswith("b"):
            inner = found[0][found[0].index('"') + 1 : found[0].rindex('"')]
            words = re.sub(r"\{[^{}]*\}", CODE, ESCAPE.sub(space, inner).replace('\\"', '"'))
            yield from literals(file, line, words)
    if held:
        yield from markdown(file, "\n".join(held), "doc", first)


def space(escape: re.Match[str]) -> str:
    """Returns the white space that replaces an escape sequence in a Rust string literal."""
    return "\n" if escape[0] == "\\n" else "" if escape[0].startswith("\\\n") else " "


def helped(command: Any, name: str, context: Any = None) -> Iterator[Text]:  # noqa: ANN401
    """Yields the help of a Click command, of its options and of its subcommands."""
    import click  # noqa: PLC0415 - pages can be checked without it

    at = f"{name} --help"
    if command.help:
        # Click prints paragraphs that begin with a backspace unchanged; they contain examples.
        text = re.sub(r"\x08\n.*?(?=\n\n|\Z)", "", command.help, flags=re.DOTALL)
        yield from markdown(at, text)
    for number, option in enumerate(command.params, 1):
        if shown := getattr(option, "help", None):
            yield Text(at, number, "help", plain(shown))
    context = click.Context(command, parent=context, info_name=name)
    for one in command.list_commands(context) if isinstance(command, click.Group) else ():
        yield from helped(command.get_command(context, one), f"{name} {one}", context)


def program_help() -> Iterator[Text]:
    """Yields the help of the installed programs, `narrows` and `narrows-host`."""
    import narrows  # noqa: PLC0415 - pages can be checked without it
    from narrows.cli import main as command  # noqa: PLC0415

    yield from helped(command, "narrows")
    program = Path(narrows.__file__).parent / "bin/narrows-host"
    if program.exists():
        done = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
        for number, line in enumerate(done.stdout.splitlines(), 1):
            if line.strip():
                yield Text("narrows-host --help", number, "help", plain(OPTION.sub("", line)))


def read(file: Path) -> Config:
    """Reads `prose.toml`."""
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    kinds = ["heading", "prose", "cell", "help", "doc", "message"]
    rules = [
        Rule(
            name=name,
            pattern=re.compile(row["pattern"], 0 if row.get("case") else re.IGNORECASE),
            use=row["use"],
            of=frozenset(row.get("of", kinds)),
            wrong=tuple(row["wrong"]),
            right=tuple(row["right"]),
        )
        for name, row in table["rule"].items()
    ]
    return Config(rules, table["sources"], table["limits"]["words"], table["limits"]["columns"])


def violations(texts: Iterable[Text], config: Config) -> Iterator[Hit]:
    """Yields each violation of a rule, and each sentence that is too long."""
    for text in texts:
        for sentence in sentences(text.text):
            for rule in config.rules:
                if text.kind in rule.of:
                    for found in rule.pattern.finditer(sentence):
                        shown = sentence[max(0, found.start() - 20) : found.end() + 30]
                        message = f"“{shown}”: write {rule.use}"
                        yield Hit(text.file, text.line, rule.name, message)
            count = len(re.findall(r"\S*\w\S*", NAMES.sub(CODE, sentence)))
            if count > config.words and text.kind not in ("cell", "message"):
                message = f"{count} words, at most {config.words}: “{sentence[:60]}…”"
                yield Hit(text.file, text.line, LONG, message)


def files(root: Path, patterns: Iterable[str]) -> Iterator[Path]:
    """Yields the files that match the patterns, except build results below `target`."""
    for pattern in patterns:
        yield from (file for file in sorted(root.glob(pattern)) if "target" not in file.parts)


def check(root: Path, config: Config) -> Iterator[Hit]:
    """Yields each violation in the files below `root` that match the patterns of `config`."""
    lessons = set(files(root, config.sources["lesson"]))
    for file in [*files(root, config.sources["markdown"]), *sorted(lessons)]:
        name, text = str(file.relative_to(root)), file.read_text(encoding="utf-8")
        texts = markdown(name, text)
        if file in lessons:
            texts = (replace(one, kind="prose") if one.line == 1 else one for one in texts)
        yield from violations(texts, config)
        for name_, number in wide(name, text, config.columns):
            message = f"more than {config.columns} columns: wrap the line"
            yield Hit(name_, number, WIDE, message)
    for reader in (makefile, python, scenario, typescript):
        for file in files(root, config.sources[reader.__name__]):
            name = str(file.relative_to(root))
            yield from violations(reader(name, file.read_text(encoding="utf-8")), config)
    tests: set[Path] = set()
    for source in {pattern.partition("/**")[0] for pattern in config.sources["rust"]}:
        tests |= layers.test_files(root / source)
    for file in files(root, config.sources["rust"]):
        if not any(part in tests for part in (file, *file.parents)):
            name = str(file.relative_to(root))
            yield from violations(rust(name, file.read_text(encoding="utf-8")), config)


def main(rules: Path, arguments: list[str], *, programs: bool = True) -> int:
    """Prints the violations and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description="Checks the prose.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders [default: all]")
    root, config = rules.parent.parent, read(rules)
    wanted = [os.path.relpath(path, root) for path in parser.parse_args(arguments).paths]
    hits = list(check(root, config))
    if programs:
        hits += violations(program_help(), config)
    if wanted:
        hits = [
            hit
            for hit in hits
            if any(f"{hit.file}/".startswith(f"{at}/") or at == "." for at in wanted)
        ]
    show(hits)
    return 1 if hits else 0


def show(hits: Iterable[Hit]) -> None:
    """Prints violations on stderr, each with file and line."""
    for hit in hits:
        print(f"{hit.file}:{hit.line}: {hit.rule}: {hit.message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(Path(__file__).with_name("prose.toml"), sys.argv[1:]))
