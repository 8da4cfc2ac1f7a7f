"""The check of the length of files and lines (`tools/sizes.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT
from tools import sizes

WIDE = "x" * 101


def check(at: Path, name: str, text: str, **known: int) -> list[str]:
    (at / name).write_text(text, encoding="utf-8")
    return list(sizes.problems(at, [name], {f"{k}.rs": most for k, most in known.items()}))


def test_this_checkout_keeps_the_sizes() -> None:
    assert sizes.main(ROOT) == 0


@pytest.mark.parametrize("name", ["a.rs", "a.py", "a.pyi", "a.ts"])
def test_a_file_has_at_most_800_lines(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, name, "x\n" * 800) == []
    assert check(tmp_path, name, "x\n" * 801) == [
        f"{name}: 801 lines; the limit is 800; split the file"
    ]


def test_a_known_file_must_not_grow_and_its_entry_must_be_needed(tmp_path: Path) -> None:
    assert check(tmp_path, "a.rs", "x\n" * 850, a=850) == []
    assert check(tmp_path, "a.rs", "x\n" * 851, a=850) == [
        "a.rs: 851 lines; the limit is 850; split the file"
    ]
    assert check(tmp_path, "a.rs", "x\n" * 800, a=850, b=900) == [
        "sizes.toml: a.rs has 800 lines; remove the entry",
        "sizes.toml: there is no file b.rs; remove the entry",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", f"# {WIDE}\n"),
        ("a.py", f"# | {WIDE} |\n"),
        ("a.pyi", f"{WIDE}\n"),
        ("a.rs", f"{WIDE}\n"),
        ("a.rs", f"// | {WIDE} |\n"),
        ("a.rs", f"/// {WIDE}\n"),
        ("a.rs", f"//! ```\n//! {WIDE}\n//! ```\n"),
        ("a.rs", f"//! ```text\n//! ```\n//! {WIDE}\n"),
        ("a.rs", f"//! ```text\nfn f() {{}}\n//! {WIDE}\n"),
    ],
)
def test_a_line_has_at_most_100_columns(name: str, text: str, tmp_path: Path) -> None:
    (line,) = check(tmp_path, name, text)
    assert line.startswith(f"{name}:{text[: text.index(WIDE)].count(chr(10)) + 1}: 1")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ts", f"{WIDE}\n"),
        ("a.md", f"{WIDE}\n" * 900),
        ("a.rs", f"//! | {WIDE} |\n    /// | {WIDE} |\n"),
        ("a.rs", f"//! ```text\n//!   {WIDE}\n//! ```\n"),
        ("a.py", "é" * 100 + "\n"),
    ],
)
def test_tables_and_diagrams_of_rust_may_be_wider(name: str, text: str, tmp_path: Path) -> None:
    assert check(tmp_path, name, text) == []
