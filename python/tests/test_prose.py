"""The check of prose (`tools/prose.py`): the examples of every rule, and example texts."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from conftest import ROOT
from tools import prose

CONFIG = prose.read(ROOT / "tools/prose.toml")
WRONG = [(rule.name, text) for rule in CONFIG.rules for text in rule.wrong]
RIGHT = [(rule.name, text) for rule in CONFIG.rules for text in rule.right]


def kind(name: str) -> str:
    """The kind of text in which a rule's examples stand."""
    (rule,) = (rule for rule in CONFIG.rules if rule.name == name)
    return "prose" if "prose" in rule.of else min(rule.of)


def found(text: str, of: str = "prose") -> list[str]:
    """The rules that a text breaks, in order."""
    return [hit.rule for hit in prose.violations([prose.Text("a.md", 1, of, text)], CONFIG)]


def in_page(text: str) -> list[tuple[int, str]]:
    """Line and rule of each violation on a page."""
    hits = prose.violations(prose.markdown("a.md", text), CONFIG)
    return [(hit.line, hit.rule) for hit in hits]


def test_every_rule_has_examples_of_both_kinds() -> None:
    assert all(rule.wrong and rule.right and rule.use for rule in CONFIG.rules)


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_wrong_examples_break_their_rule(name: str, text: str) -> None:
    assert name in found(prose.plain(text), kind(name))


@pytest.mark.parametrize(("name", "text"), RIGHT)
def test_right_examples_break_no_rule(name: str, text: str) -> None:
    assert found(prose.plain(text), kind(name)) == []


def test_code_link_targets_and_comments_are_excluded() -> None:
    page = """
        A `law` and [a page](twin.md#law), <!-- blame --> ``a ` law``.

        ```console
        $ narrows twin law
        ```

        | Key | Meaning |
        |---|---|
        | `law` | the blame |
    """
    assert in_page(page.replace("\n        ", "\n")) == [(10, "blame")]


def test_a_sentence_over_several_lines_has_one_place() -> None:
    page = (
        "A sentence ends. What\nis dropped counts.\n\n- first, lost\n  by chance\n- What is up?\n"
    )
    assert in_page(page) == [(1, "fused-relative"), (4, "random-loss")]


def test_an_indented_block_is_code() -> None:
    page = "Text:\n\n    python law.py  the law\n\n- item\n\n    its law\n"
    assert in_page(page) == [(7, "law")]


def test_a_mark_inside_a_paragraph_is_no_item() -> None:
    (text,) = prose.markdown("a.md", "**Bold.** The text of 6. Then - more\n")
    assert text.text == "Bold. The text of 6. Then - more"


def test_a_number_at_the_start_of_a_line_is_no_item() -> None:
    assert in_page("The reference is Linux\n6. What is measured\n") == [(1, "fused-relative")]


@pytest.mark.parametrize(("words", "rules"), [(25, []), (26, [prose.LONG])])
def test_long_sentences(words: int, rules: list[str]) -> None:
    sentence = "One" + " word" * (words - 2) + " `inline code of many words`."
    assert found(prose.plain(f"Before it. {sentence} After it.")) == rules


def test_a_list_of_names_counts_as_one_word() -> None:
    names = ", ".join(f"`{name}`" for name in "abcdefghijklmnopqrstuvwxyz")
    assert found(prose.plain(f"The kinds are {names} and `others`.")) == []
    links = ", ".join(f"[cc{n}](cc/cc{n}.md)" for n in range(30))
    assert found(prose.plain(f"Pages: {links}.")) == []


def test_abbreviations_and_decimals_do_not_end_a_sentence() -> None:
    assert len(prose.sentences("Rates, e.g. Linux and 1.5 Mbit/s, vs. BBR. Next.")) == 2
    assert len(prose.sentences("Section 3, approx. 5 ms of Sec. 4, and no. 7.")) == 1


def test_a_sentence_may_begin_with_a_number_or_the_name_of_the_program() -> None:
    assert prose.sentences("What is it? 1000 frames. 27 cases agree. narrows runs them.") == [
        "What is it?",
        "1000 frames.",
        "27 cases agree.",
        "narrows runs them.",
    ]


def test_wide_lines_are_those_that_can_be_wrapped() -> None:
    words, link = "word " * 25, f"[{'x' * 60}]({'y' * 60})"
    page = f"{words}\n| {words} |\n```\n{words}\n```\n{link}\n- {link}\n# {words}\na b {link}\n"
    assert [line for _, line in prose.wide("a.md", page, 100)] == [1, 9]


def test_docstrings_and_messages_of_python_are_checked() -> None:
    source = '''
"""What the module is for."""
A = "one"
B = {"key of a law": 1}
raise ValueError(f"the law {B} takes {A!r}")


@click.command()
@click.option("--x", help="the law")
def command() -> None:
    """The law of a command, which is read off the command."""


class Thing:
    """A thing.

    Attributes:
        name: What it is called.

    Example:
        >>> print("the law")
        the law
    """
'''
    hits = prose.violations(prose.python("a.py", source), CONFIG)
    assert sorted((hit.line, hit.rule) for hit in hits) == [
        (2, "fused-relative"), (4, "law"), (5, "law"), (18, "fused-relative"),
    ]  # fmt: skip


def test_the_help_of_targets_of_a_makefile_is_checked() -> None:
    text = "# What a comment has.\nall: setup ## What is built\n\techo law\n"
    hits = prose.violations(prose.makefile("Makefile", text), CONFIG)
    assert [(hit.line, hit.rule) for hit in hits] == [(2, "fused-relative")]


def test_comments_and_titles_of_scenarios_are_checked() -> None:
    text = '# What is it? It is\n# a law.\ntitle = "The law of it"\n# The blame.\n'
    hits = prose.violations(prose.scenario("a.toml", text), CONFIG)
    assert [(hit.line, hit.rule) for hit in hits] == [(1, "law"), (4, "blame"), (3, "law")]


def test_comments_and_messages_of_typescript_are_checked() -> None:
    text = '/** What it is\n * of. */\nf("law", "a law", `${law} of a law`); // The blame.\n'
    hits = prose.violations(prose.typescript("a.ts", text), CONFIG)
    found = [(hit.line, hit.rule) for hit in hits]
    assert found == [(1, "fused-relative"), (3, "law"), (3, "law"), (3, "blame")]


def test_doc_comments_and_messages_of_rust_are_checked_outside_of_tests() -> None:
    source = r"""//! What the module is for,
//! in two lines.
// the law
/// The blame: `law`.
fn f() { panic!("the law {x} \
    of it"); let c = 'l'; let one = "law"; }
#[cfg(test)]
mod tests { /// The law.
  const A: &str = "the law of it"; }
"""
    hits = prose.violations(prose.rust("a.rs", source), CONFIG)
    assert [(hit.line, hit.rule) for hit in hits] == [
        (1, "fused-relative"),
        (4, "blame"),
        (5, "law"),
    ]


def test_help_of_commands_and_options() -> None:
    @click.group()
    def group() -> None:
        """A group."""

    @group.command()
    @click.option("--x", help="The span; 3s without. Example: --x 1s")
    @click.option("--y")
    def one(x: str, y: str) -> None:
        """What it does.

        \b
        $ g one --x the law
        """  # noqa: D301 - Click reads the escape

    hits = list(prose.violations(prose.helped(group, "g"), CONFIG))
    assert [(hit.file, hit.rule) for hit in hits] == [
        ("g one --help", "fused-relative"), ("g one --help", "default-without"),
        ("g one --help", "option-example"),
    ]  # fmt: skip


def test_the_installed_programs_have_help() -> None:
    files = {text.file for text in prose.program_help()}
    assert {"narrows --help", "narrows run --help", "narrows tune plan --help"} <= files


def test_the_program_fails_on_any_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "tools/prose.toml"
    rules.parent.mkdir()
    rules.write_text((ROOT / "tools/prose.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for crate in ("core", "sim", "host", "endpoint", "plugin", "lab", "python/bindings"):
        (tmp_path / crate / "src").mkdir(parents=True)
    page = tmp_path / "README.md"

    def run(text: str, *arguments: str) -> int:
        page.write_text(text, encoding="utf-8")
        return prose.main(rules, list(arguments), programs=False)

    assert run("A page.\n") == 0
    assert not capsys.readouterr().err
    assert run("A law.\n\nThe blame.\n") == 1
    printed = capsys.readouterr().err
    assert "README.md:1: law: " in printed
    assert "README.md:3: blame: " in printed
    assert run("A law.\n", str(page)) == 1
    assert run("A law.\n", str(tmp_path / "docs")) == 0
    assert run("A page.\n", str(tmp_path)) == 0

    # The title of a lesson may be a question; its other headings name a topic.
    lesson = tmp_path / "web/lab/lessons/1.md"
    lesson.parent.mkdir(parents=True)
    lesson.write_text("# Why does a call stall?\n\nA law.\n", encoding="utf-8")
    capsys.readouterr()
    assert run("A page.\n") == 1
    assert capsys.readouterr().err.count("\n") == 1
    lesson.write_text("# A call\n\n## Why does it stall?\n", encoding="utf-8")
    assert run("A page.\n") == 1
