"""Manual pages and shell completions agree with the commands; `groff` and shells read them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import NARROWS
from pages import RENEW, TOLD
from tools import manual


def test_the_stored_files_are_those_of_the_commands() -> None:
    if RENEW:
        manual.write()
    stored = {
        str(file.relative_to(manual.SHARE)): file.read_text(encoding="utf-8")
        for file in manual.SHARE.rglob("*")
        if file.is_file()
    }
    assert stored == manual.files(), TOLD


def test_the_page_of_the_program_has_its_usage() -> None:
    assert manual.OF_HOST.read_text(encoding="utf-8") == manual.page_of_host(), TOLD
    completion = manual.COMPLETION_OF_HOST.read_text(encoding="utf-8")
    assert completion == manual.completion_of_host(), TOLD
    assert manual.UNIT.read_text(encoding="utf-8") == manual.unit(), TOLD


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ser"], ["serve"]),
        (["serve", "--met"], ["--metrics"]),
        (["tune", "ver"], ["verify"]),
        (["tune", "revert", "--las"], ["--last"]),
        (["measure", "exam"], []),
    ],
    ids=str,
)
def test_bash_completes_the_program(words: list[str], found: list[str]) -> None:
    script = (
        'source "$0"; COMP_WORDS=(narrows-host "$@"); COMP_CWORD=$#; _narrows_host; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-uc", script, manual.COMPLETION_OF_HOST, *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == found


def test_every_command_has_a_page() -> None:
    pages = dict(manual.manual())
    assert {"narrows", "narrows-run", "narrows-tune-apply"} <= set(pages)
    assert "\\-\\-sample\\-interval" in pages["narrows-run"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_warning() -> None:
    for name, text in manual.manual():
        done = subprocess.run(
            ["groff", "-Kutf8", "-man", "-Tutf8", "-ww", "-z"],
            input=text, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == "", name


@pytest.mark.parametrize(
    ("line", "found"), [("narrows ra", "race"), ("narrows run --sam", "--sam")]
)
def test_bash_completes_commands_and_options(line: str, found: str) -> None:
    words = line.split()
    done = subprocess.run(
        [NARROWS],
        env={
            "_NARROWS_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert any(row.partition(",")[2].startswith(found) for row in done.stdout.splitlines())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_accept_their_completion(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (name,) = (name for name in manual.SHELLS if shell in name)
    subprocess.run([shell, "-n", str(manual.SHARE / name)], check=True)
