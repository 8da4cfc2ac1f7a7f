"""The plain text of a run equals Rich's, and short commands import no heavy module."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, scenario

import narrows as nw
from narrows import _core
from narrows.render import run as plain
from narrows.render.styled import show_parts
from narrows.render.tables import Cell, Table
from narrows.runs.scenario import from_tree

SCENARIOS = sorted((ROOT / "scenarios").rglob("*.toml"))
WIDE = "x" * 161


def rich(parts: list[plain.Part]) -> str:
    out = io.StringIO()
    show_parts(parts, out)
    return out.getvalue()


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_plain_text_of_a_scenario_is_that_of_rich(file: Path) -> None:
    tree = _core.toml_to_tree(file.read_text(encoding="utf-8"), str(file))
    flows = [flow for flow in tree.get("flow", []) if "start" not in flow]
    short = tree | {"duration": "1s", "warmup": "0s", "flow": flows}
    try:
        figures = nw.run(from_tree(short, file.parent), sample_interval="off").json
    except nw.ScenarioError:
        pytest.skip("the scenario has parts that begin after its first second")
    parts = list(plain.parts_of(figures))
    text = plain.plain(parts)
    assert text is None or text == rich(parts)


@pytest.mark.parametrize(
    "part",
    [
        "",
        "one",
        ("styled", "bold"),
        "\nbefore and after\n",
        "a\nb",
        "x" * 160,
        "é – µ ≥ → …",
        "[bold]no markup[/bold] :smile:",
        Table("", ("a", ""), ("b", "c"), [[Cell("é"), Cell(""), Cell("1"), Cell("–")]]),
        Table("", ("a",), ("b",), []),
        Table("", ("a\nb",), ("b",), [[Cell("c\nd"), Cell("e")]]),
    ],
)
def test_texts_and_tables_are_equal(part: plain.Part) -> None:
    assert plain.plain([part]) == rich([part])


@pytest.mark.parametrize(
    "part",
    [
        WIDE,
        "日本",
        "e\u0301",
        "a\tb",
        "\x1b[2J",
        Table("", (WIDE,), ("b",), [[Cell(""), Cell("")]]),
        Table("", ("a",), ("b",), [[Cell(""), Cell("\x1b[1m")]]),
    ],
)
def test_lines_that_need_layout_are_printed_by_rich(part: plain.Part) -> None:
    assert plain.plain([part]) is None


@pytest.mark.parametrize(
    "command",
    [("run",), ("run", "--json"), ("run", "--quiet"), ("check",), ("--help",)],
)
def test_short_commands_import_no_heavy_module(command: tuple[str, ...], tiny: Path) -> None:
    code = (
        "import sys; from narrows.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*sorted(sys.modules))"
    )
    words = [sys.executable, "-c", code, *command, *([] if "--help" in command else [tiny])]
    done = subprocess.run(words, cwd=tiny.parent, capture_output=True, text=True, check=True)
    heavy = {
        "asyncio", "concurrent.futures", "importlib.metadata", "matplotlib", "multiprocessing",
        "narrows.registry", "narrows.runs.scenario", "narrows.runs.sections", "numpy", "pyarrow",
        "rich.console", "sqlite3", "tempfile",
    }  # fmt: skip
    assert heavy & set(done.stdout.splitlines()[-1].split()) == set()


VERSION = {
    "narrows", "narrows._core", "narrows._interrupt", "narrows.cli", "narrows.cli.command",
    "narrows.cli.entry", "narrows.errors", "narrows.operating_system", "narrows.render",
    "narrows.render.terminal", "narrows.storage", "narrows.storage.command_line",
}  # fmt: skip
"""The modules that `narrows --version` and `narrows --help` may import."""

RUN = VERSION | {
    "narrows.cli.options", "narrows.cli.outputs", "narrows.extras", "narrows.models",
    "narrows.models.loaded", "narrows.render.progress", "narrows.runs", "narrows.runs.command",
    "narrows.runs.run", "narrows.runs.source", "narrows.storage.durable", "narrows.storage.output",
    "narrows.storage.provenance", "narrows.storage.text", "narrows.storage.untrusted_input",
}  # fmt: skip
"""The modules that `narrows run` may import before it prints the result."""

SHOWN = RUN | {"narrows.render.run", "narrows.render.tables", "narrows.render.words"}
"""The modules that it may import to print the result as text."""


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        (("--version",), VERSION),
        (("--help",), VERSION),
        (("run", "--json"), RUN),
        (("run", "--quiet"), RUN),
        (("run",), SHOWN),
    ],
)
def test_short_commands_import_few_modules_of_narrows(
    words: tuple[str, ...], allowed: set[str], tiny: Path
) -> None:
    code = (
        "import sys; from narrows.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*sorted(m for m in sys.modules if m.partition('.')[0] == 'narrows'))"
    )
    line = [sys.executable, "-c", code, *words, *([tiny] if "run" in words else [])]
    done = subprocess.run(line, cwd=tiny.parent, capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) - allowed == set()


OUTSIDE_CLICK = [
    (("--version",), True),
    (("run", "scenario.toml"), True),
    (("run", "--json", "scenario.toml"), True),
    (("run", "scenario.toml", "--quiet"), True),
    (("run", "--seed", "3", "scenario.toml"), False),
    (("run", "missing.toml"), False),
    (("run", "wrong.toml"), False),
    (("run", "--json"), False),
    (("run", ""), False),
    (("run", "scenario.toml", "scenario.toml"), False),
]
"""Command lines, and whether `narrows.__main__` executes them without Click."""


@pytest.mark.parametrize(("words", "outside"), OUTSIDE_CLICK)
def test_a_short_command_has_the_same_output_without_click(
    words: tuple[str, ...], outside: bool, tiny: Path
) -> None:
    (tiny.parent / "scenario.toml").write_bytes(tiny.read_bytes())
    (tiny.parent / "wrong.toml").write_text("[path]\n", encoding="utf-8")
    loaded = "import atexit, sys; atexit.register(lambda: print('click' in sys.modules))"

    def done(module: str) -> tuple[int, object, str, bool]:
        code = f"{loaded}; from {module} import main; main()"
        command = [sys.executable, "-c", code, *words]
        one = subprocess.run(command, cwd=tiny.parent, capture_output=True, text=True, check=False)
        text, _, click = one.stdout.rstrip("\n").rpartition("\n")
        told: object = text
        if text.startswith("{"):
            told = {key: value for key, value in json.loads(text).items() if key != "provenance"}
        return one.returncode, told, one.stderr, click == "True"

    short, full = done("narrows.__main__"), done("narrows.cli")
    assert short[:3] == full[:3]
    assert (short[3], full[3]) == (not outside, True)


def test_a_notebook_shows_runs_and_scenarios() -> None:
    one = scenario(flows=[nw.Flow("cubic")])
    run = nw.run(one, sample_interval="off")
    shown = run._repr_html_()
    assert "<td>cubic</td>" in shown
    assert "<caption>Flows</caption>" in shown
    assert f"{run.flows[0]['goodput_mbit']:.2f}</td>" in shown
    assert one._repr_html_().startswith("<pre>")
