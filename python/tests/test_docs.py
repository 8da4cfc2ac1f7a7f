"""The documentation is correct: links have targets, tables are those of the core, and outputs are
those of the commands.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
import tomllib
from conftest import ROOT
from pages import LISTED, blocks, commands, compare, name, pages, with_output, with_parts, workplace

from narrows.cli import main

PAGES = pages()
PINNED = tuple(
    f"python/requirements{of}.txt" for of in ("", "-browser", "-docs", "-frames", "-ray")
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings give, as the usual renderers make them."""
    headings = _HEADING.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    dead = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (fragment and fragment not in anchors(there)):
            dead.append(link)
    assert not dead


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_and_copied_files_are_the_originals(page: Path) -> None:
    compare(page, with_parts)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_commands_print_what_the_page_shows(page: Path) -> None:
    compare(page, with_output)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_commands_that_build_exist(page: Path) -> None:
    lines = [command.split() for command in commands(page)]
    if targets := [word for words in lines if words[0] == "make" for word in words[1:]]:
        done = subprocess.run(
            ["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    for words in lines:
        if words[:2] == ["cargo", "test"] and "--test" in words:
            package, test = words[words.index("-p") + 1], words[words.index("--test") + 1]
            manifest = ROOT / package.removeprefix("narrows-") / "Cargo.toml"
            programs = tomllib.loads(manifest.read_text(encoding="utf-8"))["test"]
            assert test in {program["name"] for program in programs}, words


def invalid_arguments(words: list[str]) -> str:
    """The arguments in a sentence that its command rejects; empty if it accepts all of them."""
    command: click.Command = main
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    # The words behind these signs belong to another program.
    ours = list(itertools.takewhile(lambda word: word not in {"--", "|", ">"}, words))
    try:
        _, left, _ = command.make_parser(context).parse_args(ours)
    except click.BadOptionUsage:
        return ""  # `--rate`, named without a value
    except click.UsageError as error:
        return error.format_message()
    return " ".join(left)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_sentences_have_valid_arguments(page: Path) -> None:
    named = re.findall(r"`narrows ([^`]+)`", _CODE.sub("", page.read_text(encoding="utf-8")))
    wrong = {span: invalid_arguments(shlex.split(span.replace("…", ""))) for span in named}
    assert {span: problem for span, problem in wrong.items() if problem} == {}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name)
def test_python_on_a_page_runs(page: Path) -> None:
    program = "\n".join(blocks(page, "python"))
    with workplace() as place:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=place, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    # The page shows the output in the blocks of `text` that follow.
    shown = "".join(blocks(page, "text"))
    assert not shown or done.stdout.strip() in shown, done.stdout


def test_the_table_of_contents_names_every_page_once() -> None:
    index = ROOT / "docs/index.md"
    links = _LINK.findall(index.read_text(encoding="utf-8"))
    named = sorted(str((index.parent / link).resolve().relative_to(ROOT)) for link in links)
    # Each algorithm has a page, which docs/reference/algorithms.md names.
    algorithms = ROOT / "docs/reference/algorithms.md"
    listed = {
        (algorithms.parent / link).resolve()
        for link in _LINK.findall(algorithms.read_text(encoding="utf-8"))
    }
    written = [p for p in PAGES if p.is_relative_to(index.parent) and p != index]
    kinds = {p for p in written if p.parent.name in {"cc", "queue"}}
    assert kinds <= listed
    assert named == sorted(["README.md", *(name(page) for page in written if page not in kinds)])


_VALUE = re.compile(
    r"(?<![\w.,/−–-])(\d+(?:\.\d+)?)(?:\s(?:and|to|instead of)\s(\d+(?:\.\d+)?))?\s(?:ms|Mbit/s|%)"
)
DERIVED = {
    # Of the animation, and values that the text computes.
    "README.md": {"10", "28.9", "95.6"},
    "docs/tutorial/first-run.md": {"95.6", "0.6", "0.3"},
    "docs/tutorial/improve-a-path.md": set(),
    "docs/how-to/choose-by-a-race.md": set(),
    "docs/how-to/share-a-line.md": {"16"},
}
"""Pages whose text describes the output on the page, and values that are not in the output."""


@pytest.mark.parametrize("page", DERIVED)
def test_values_in_the_text_of_a_page_are_those_of_its_output(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", "".join(_CODE.findall(text)))]
    prose = " ".join(_LINK.sub("", _CODE.sub("", text)).split())
    unlike = set()
    for value in filter(None, itertools.chain(*_VALUE.findall(prose))):
        digits = len(value.partition(".")[2])
        if f"{float(value):.{digits}f}" not in {f"{n:.{digits}f}" for n in shown}:
            unlike.add(value)
    assert unlike == DERIVED[page]


def test_the_tables_of_the_glossary_are_in_alphabetical_order() -> None:
    text = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8")
    for table in text.split("| term | definition | source |")[1:]:
        rows = [line for line in table.splitlines() if line.startswith("| ")]
        terms = [row.split("|")[1].replace("`", "").strip().casefold() for row in rows]
        assert terms == sorted(terms)


def test_every_key_of_a_scenario_is_on_its_page() -> None:
    text = (ROOT / "docs/reference/scenario.md").read_text(encoding="utf-8")
    sections = {key["section"] or "top" for key in LISTED["scenario"] if key["supported"]}
    assert {
        section for section in sections if f"<!-- made: keys {section} -->" not in text
    } == set()
    assert "<!-- made: keys later -->" in text


def test_the_validation_page_and_the_page_of_the_published_experiment_agree() -> None:
    page = (ROOT / "docs/explanation/published-experiments.md").read_text(encoding="utf-8")
    validation = (ROOT / "docs/reference/validation.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?:BBR|CUBIC).*? \| (\d+ of \d+) \(\d+\) \| \d+ of \d+ \(\d+\) \|$",
        page,
        re.MULTILINE,
    )
    assert len(rows) == 5
    for agree in rows:
        assert f"{agree} " in validation


def rust_dependencies() -> set[str]:
    """Direct dependencies of the workspace's crates, one another left out."""
    found: set[str] = set()
    for manifest in (
        ROOT.glob("*/Cargo.toml"),
        ROOT.glob("python/*/Cargo.toml"),
        ROOT.glob("adapters/*/Cargo.toml"),
    ):
        for file in manifest:
            crate = tomllib.loads(file.read_text(encoding="utf-8"))
            for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
                found |= set(crate.get(kind, {}))
    return {crate for crate in found if not crate.startswith("narrows-")}


def python_dependencies() -> set[str]:
    """Direct dependencies of the package and of the tools of a checkout."""
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text(encoding="utf-8"))
    wanted = project["project"]["dependencies"] + project["build-system"]["requires"]
    wanted += [
        extra for extras in project["project"]["optional-dependencies"].values() for extra in extras
    ]
    for file in PINNED:
        direct = True
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                direct = "What the above need" not in line and direct
            elif direct:
                wanted.append(line)
    return {re.split(r"[<>=~[]", w)[0] for w in wanted} - {"narrows"}


def page_dependencies() -> set[str]:
    """Dependencies of the report page and of its build."""
    package = json.loads((ROOT / "web/package.json").read_text(encoding="utf-8"))
    return {*package["dependencies"], *package["devDependencies"]}


def test_every_direct_dependency_has_its_reason_and_no_other() -> None:
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))
    assert named == rust_dependencies() | python_dependencies() | page_dependencies()


def test_versions_of_dependencies_are_those_that_are_locked() -> None:
    text = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    locks = [
        tomllib.loads((ROOT / at).read_text(encoding="utf-8"))
        for at in ("Cargo.lock", "fuzz/Cargo.lock", "adapters/Cargo.lock")
    ]
    locked = {
        (p["name"], p["version"].partition("+")[0]) for lock in locks for p in lock["package"]
    }
    pinned = "\n".join((ROOT / file).read_text(encoding="utf-8") for file in PINNED)
    pages = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))["packages"]
    locked |= {
        (path.removeprefix("node_modules/"), package["version"])
        for path, package in pages.items()
        if path
    }
    locked |= {(n, v) for n, _, v in (line.partition("==") for line in pinned.splitlines()) if v}
    told = set(re.findall(r"^\| `([\w-]+)` \| ([\w.]+) \|", text, re.MULTILINE))
    assert told <= locked, told - locked


def missing(page: Path) -> list[str]:
    """Files and functions that a page for developers names and that do not exist.

    A function is written `name()` or `Type::name()`. One of the files of its paragraph must define
    it, and name its type.
    """
    wrong = []
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    for paragraph in re.split(r"\n\n|\n(?=\d+\. |- |\|)", text):
        spans = re.findall(r"`([^`]+)`", paragraph)
        paths = [span for span in spans if re.fullmatch(r"[\w.-]+/[\w./-]*", span)]
        wrong += [path for path in paths if not (ROOT / path).exists()]
        sources = [(ROOT / path).read_text("utf-8") for path in paths if (ROOT / path).is_file()]
        for kind, function in re.findall(r"`(?:(\w+)::)?(\w+)\(\)`", paragraph):
            defined = re.compile(rf"\b(fn|def) {function}\b")
            if not any(defined.search(source) and kind in source for source in sources):
                wrong.append(f"{kind}::{function}()".removeprefix("::"))
    return wrong


@pytest.mark.parametrize("page", [p for p in PAGES if p.name.startswith("life-of-")], ids=name)
def test_pages_for_developers_name_files_and_functions_that_exist(page: Path) -> None:
    assert missing(page) == []


def test_a_file_or_function_that_does_not_exist_is_found(tmp_path: Path) -> None:
    page = tmp_path / "life-of-a-test.md"
    page.write_text(
        "`Nic::send()`, `Nic::sends()` and `Cable::send()` (`sim/src/datapath.rs`).\n\n"
        "1. `sim/src/none.rs`\n2. `send()` without a file; `sim/src/` and `rtt` are ignored.\n",
        encoding="utf-8",
    )
    assert missing(page) == ["Nic::sends()", "Cable::send()", "sim/src/none.rs", "send()"]
