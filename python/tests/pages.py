"""The pages of this repository, and the parts of them that are made, not written.

A page marks such a part with `<!-- made: WHAT -->` and `<!-- end -->`; the test compares it with
its source. WHAT is one of these:

    params cc cubic       the parameters of a model, as `narrows list cc cubic --json` has them
    keys path             the keys of a section of the scenario
    keys later            the keys that the format knows and this version does not support
    rules                 the rules of Linux by release, as `narrows list rules --json` has them
    file PATH             a file, as a block of code
    skeleton cc python    the model that `narrows new` writes
    runs FOLDER           the results of the scenarios of a folder, a row each
    ladder home           the steps of `narrows explain ladder` with results; or `ladder beyond`
    ladder sources        the release and the commits of each step
    limits                the limits of the server, as `narrows-host serve --limits` has them
    kernels               the features that `narrows tune` asks about, by release of Linux
    pages cc              links to the pages of a registry, in alphabetical order
    commands              the help of every command

In a block of `console`, what follows a line `$ narrows …` (or `sed`, `ls`) is what that command
prints in a directory that has the checkout's scenarios and sweeps, and what the page's commands
before it left there. With NARROWS_GOLDEN=write in the environment, which `make renew` sets, the
tests write these parts instead of comparing them.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
import re
import shlex
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from conftest import NARROWS, ROOT

import narrows as nw
from narrows import _core
from narrows.cli import main
from narrows.cli.entry import COMMANDS
from narrows.host.serve import LIMITS
from narrows.models.skeleton import Skeleton
from narrows.runs.scenario import from_tree
from narrows.teach import ladder
from narrows.tune.kernels import FEATURES

RENEW = os.environ.get("NARROWS_GOLDEN") == "write"
TOLD = "the stored text is out of date; make renew writes it"

LISTED = json.loads(_core.list_json())
"""The output of `narrows list`, including the keys of a scenario."""

_MADE = re.compile(r"(<!-- made: (?P<what>.+?) -->\n)(?P<body>.*?)(<!-- end -->)", re.DOTALL)
_BLOCK = re.compile(r"^```(?P<language>[a-z]+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_OF_A_SHELL = re.compile(r"[|<>;&$*?]|--plugin")
"""A command line that needs a shell, or a process of its own because it loads a model."""

_FIRST = re.compile(r"^\$ ", re.MULTILINE)


def pages() -> list[Path]:
    """Every Markdown file of the checkout."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in sorted(names) if (ROOT / name).exists()]


def name(page: Path) -> str:
    """As people say it."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of code in this language."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block["body"] for block in found if block["language"] == language]


def commands(page: Path) -> list[str]:
    """Every line after a `$` in a block of `console`."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def compare(page: Path, remade: Callable[[str], str]) -> None:
    """Check that the page has its generated content."""
    text = page.read_text(encoding="utf-8")
    made = remade(text)
    if RENEW and made != text:
        page.write_text(made, encoding="utf-8")
    else:
        assert made == text, f"{TOLD}\n{_difference(text, made)}"


def _difference(text: str, made: str) -> str:
    """The first lines that differ."""
    lines = difflib.unified_diff(text.splitlines(), made.splitlines(), "stored", "made", "", "", 1)
    return "\n".join(itertools.islice(lines, 40))


def with_parts(text: str) -> str:
    """The page with every marked part made anew."""
    return _MADE.sub(lambda m: f"{m[1]}{_made(*m['what'].split())}{m[4]}", text)


def with_output(text: str) -> str:
    """The page with the output of every `narrows` command in it."""
    with workplace() as place:

        def block(match: re.Match[str]) -> str:
            if match["language"] != "console":
                return match[0]
            parts = [_printed(part, place) for part in _FIRST.split(match["body"])[1:]]
            return "```console\n" + "".join(f"$ {part}" for part in parts) + "```"

        return _BLOCK.sub(block, text)


@contextmanager
def workplace() -> Iterator[Path]:
    """A directory of its own, with the checkout's scenarios and sweeps, and hosts of many
    systems.
    """
    with tempfile.TemporaryDirectory() as name:
        for folder in ("scenarios", "sweeps", "python/tests/data/hosts"):
            here = Path(name) / folder
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(ROOT / folder)
        yield Path(name)


def _printed(part: str, place: Path) -> str:
    command, _, shown = part.partition("\n")
    if command.split()[0] not in {"narrows", "sed", "ls"}:
        return f"{command}\n{shown}"
    if command.startswith("narrows ") and not _OF_A_SHELL.search(command):
        # In this process, which has the modules of most commands already.
        with chdir(place):
            words = shlex.split(command)[1:]
            told = CliRunner().invoke(main, words, prog_name="narrows").output
    else:
        told = subprocess.run(
            ["bash", "-c", command], cwd=place, text=True, check=False, timeout=600,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {"PATH": f"{NARROWS.parent}:{os.environ['PATH']}", "LC_ALL": "C"},
        ).stdout  # fmt: skip
    return f"{command}\n" + "".join(f"{line.rstrip()}\n" for line in told.splitlines())


def _pages(of: str) -> str:
    """Links to the pages of the congestion controls, or of the queue disciplines."""
    names = sorted(kind["name"] for kind in LISTED[of])
    return textwrap.fill(f"Pages: {', '.join(f'[{n}]({of}/{n}.md)' for n in names)}.", 100) + "\n"


def _skeleton(kind: str, language: str) -> str:
    """The model of a skeleton, as a block of code."""
    name = f"my_{kind}"
    files = Skeleton(kind=kind, name=name, language=language, folder=Path(name)).files()
    file = {"python": f"{name}.py", "rust": "src/lib.rs"}[language]
    return f"```{language}\n{files[file]}```\n"


def _commands() -> str:
    """The help of every command, in the order of `narrows --help`."""
    parts = []
    for heading, commands in COMMANDS.items():
        parts.append(f"\n## {heading}\n")
        root = click.Context(main, info_name="narrows", terminal_width=100, **main.context_settings)
        for name in commands:
            command = main.get_command(root, name)
            assert command is not None
            for path, each, context in _with_subcommands(command, name, root):
                shown = each.get_help(context)
                parts.append(f"\n### narrows {path}\n\n```text\n{shown}\n```\n")
    return "".join(parts) + "\n"


def _with_subcommands(
    command: click.Command, name: str, parent: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """A command, then those below it, each with its words and its context."""
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    yield name, command, context
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                for words, each, its in _with_subcommands(found, inner, context):
                    yield f"{name} {words}", each, its


def _kernels() -> str:
    rows = [
        f"| {f.since[0]}.{f.since[1]} | {f.what} | {f.source} |"
        for f in sorted(FEATURES.values(), key=lambda f: f.since)
    ]
    return "\n".join(["", "| since Linux | feature | commit |", "|---|---|---|", *rows, "", ""])


def _limits() -> str:
    def option(row: dict[str, str]) -> str:
        return f"`{row['option']} {row['metavar']}`" if row["option"] else "–"

    rows = [f"| {row['text']} | {row['of']} | {option(row)} | {row['default']} |" for row in LIMITS]
    return "\n".join(
        ["", "| limit | scope | option | default |", "|---|---|---|---|", *rows, "", ""]
    )


def _made(what: str, *of: str) -> str:
    if what == "params":
        (kind,) = (k for k in LISTED[of[0]] if k["name"] == of[1])
        return _params(kind["params"])
    if what in {"rules", "kernels", "limits", "commands"}:
        made = {
            "rules": lambda: _rules(LISTED["rules"]),
            "kernels": _kernels,
            "limits": _limits,
            "commands": _commands,
        }
        return made[what]()
    if what == "keys":
        keys = [k for k in LISTED["scenario"] if k["supported"] == (of[0] != "later")]
        return (
            _later(keys)
            if of[0] == "later"
            else _keys([k for k in keys if k["section"] == of[0].replace("top", "")])
        )
    if what == "skeleton":
        return _skeleton(*of)
    (file,) = of
    of_one = {"pages": _pages, "runs": _runs, "ladder": _ladder}
    if what in of_one:
        return of_one[what](file)
    language = {"rs": "rust", "py": "python", "toml": "toml", "patch": "diff"}[
        file.rpartition(".")[2]
    ]
    return f"```{language}\n{(ROOT / file).read_text(encoding='utf-8')}```\n"


def _runs(folder: str) -> str:
    """A row for each scenario that has a ping: the longest wait first."""
    rows: list[tuple[float, str]] = []
    for file in sorted((ROOT / folder).glob("*.toml")):
        run = nw.run(file).json
        if not run["probes"]:
            continue
        ping, queue = run["probes"][0]["rtt_ms"], run["queue"]
        goodput = sum(flow["goodput_mbit"] for flow in run["flows"])
        again = sum(flow["retransmits"] for flow in run["flows"])
        link = f"[`{file.stem}`]({Path('../..') / file.relative_to(ROOT)})"
        cells = (
            link,
            f"{goodput:.1f}",
            f"{run['fairness']['jain']:.3f}",
            f"{ping['p50']:.0f}",
            f"{ping['p95']:.0f}",
            f"{queue['delay_ms']['p50']:.1f}",
            f"{queue['drops']}",
            f"{queue['marks']}",
            f"{again}",
        )
        rows.append((-ping["p50"], _row(*cells)))
    heads = (
        "queue",
        "goodput Mbit/s",
        "Jain",
        "ping p50 ms",
        "ping p95 ms",
        "queueing delay p50 ms",
        "drops",
        "marks",
    )
    return _table(*heads, "retransmits") + "".join(row for _, row in sorted(rows))


def _ladder(what: str) -> str:
    """The rungs in their order."""
    if what == "sources":
        rows = [
            (rung.since, rung.date, rung.what, rung.source) for rung in ladder.RUNGS if rung.source
        ]
        return _table("Linux", "released", "change", "commits") + "".join(
            _row(*cells) for cells in rows
        )
    table = _table("Linux", *ladder.HEADS)
    for name, toml in ladder.scenarios().items():
        if name.startswith(ladder.BEYOND) == (what == "beyond"):
            run = nw.run(from_tree(_core.toml_to_tree(f'title = "{name}"\n{toml}', name)))
            table += _row(name.removeprefix(ladder.BEYOND), *ladder.cells(ladder.row(run.json)))
    return table


def _row(*cells: str) -> str:
    return (
        "| " + " | ".join(cell.replace("|", "\\|").replace("<", "\\<") for cell in cells) + " |\n"
    )


def _table(*head: str) -> str:
    return _row(*head) + "|---" * len(head) + "|\n"


def _params(params: list[dict[str, object]]) -> str:
    if not params:
        return "None.\n"

    def values(p: dict[str, object]) -> str:
        if "params" in p:
            return "a list of tables, as below"
        words = p.get("words") or (["true", "false"] if p["kind"] == "bool" else [])
        if isinstance(words, list) and words:
            return ", ".join(f"`{word}`" for word in words)
        return f"`{p['min']}` to `{p['max']}`"

    rows = [
        _row(
            f"`{p['name']}`",
            f"`{json.dumps(p['default'])}`",
            values(p),
            str(p["help"]),
            str(p["source"]),
        )
        for p in params
    ]
    inner = "".join(
        f"\nOf each of `{p['name']}`:\n\n{_params(p['params'])}" for p in params if "params" in p
    )
    return _table("parameter", "default", "values", "meaning", "source") + "".join(rows) + inner


def _rules(rules: list[dict[str, Any]]) -> str:
    rows = [
        _row(
            r["since"], ", ".join(r["backports"]), r["of"], f"`{r['name']}`", r["help"], r["source"]
        )
        for r in rules
    ]
    head = ("since Linux", "ported back to", "component", "rule", "change", "source")
    return _table(*head) + "".join(rows)


def _keys(keys: list[dict[str, str]]) -> str:
    rows = [
        _row(f"`{k['name']}`", k["takes"], k["default"], k["range"], k["help"] + _engine(k))
        for k in keys
    ]
    return _table("key", "type", "default", "range", "meaning") + "".join(rows)


def _engine(key: dict[str, str]) -> str:
    return "" if key.get("live", True) else " (simulator only)"


def _later(keys: list[dict[str, str]]) -> str:
    rows = [_row(f"`{k['section']}.{k['name']}`", k["help"]) for k in keys]
    return _table("key", "meaning") + "".join(rows)
