"""The dependencies: their licences, their sources, and the hashes of installed packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tomllib
from conftest import ROOT

REQUIREMENTS = sorted(path.name for path in (ROOT / "python").glob("requirements*.txt"))
_PIN = re.compile(r"^([\w.-]+)==([\w.]+)", re.MULTILINE)
_WORD = re.compile(r"\(|\)|\bAND\b|\bOR\b|[\w.+-]+(?: WITH [\w.+-]+)?")


@pytest.fixture(scope="module")
def packages() -> list[dict[str, Any]]:
    """The crates of the workspace and everything below them, as cargo reports them."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def permitted(expression: str, allowed: set[str]) -> bool:
    """Whether an SPDX expression can be met with allowed licences alone.

    >>> permitted("(MIT OR GPL-2.0) AND ISC", {"MIT", "ISC"})
    True
    """
    words = _WORD.findall(expression.replace("/", " OR "))

    def either() -> bool:
        found = both()
        while words and words[0] == "OR":
            words.pop(0)
            found = both() or found
        return found

    def both() -> bool:
        found = one()
        while words and words[0] == "AND":
            words.pop(0)
            found = one() and found
        return found

    def one() -> bool:
        word = words.pop(0)
        if word == "(":
            found = either()
            assert words.pop(0) == ")"
            return found
        return word in allowed

    found = either()
    assert not words, expression
    return found


def test_spdx_expressions_are_evaluated() -> None:
    allowed = {"MIT", "ISC", "Apache-2.0 WITH LLVM-exception"}
    met = [
        "MIT",
        "GPL-2.0 OR MIT",
        "MIT/GPL-2.0",
        "(MIT OR GPL-2.0) AND ISC",
        "Apache-2.0 WITH LLVM-exception",
    ]
    assert all(permitted(expression, allowed) for expression in met)
    unmet = ["GPL-2.0", "MIT AND GPL-2.0", "GPL-2.0 OR (MIT AND GPL-3.0)", "Apache-2.0"]
    assert not any(permitted(expression, allowed) for expression in unmet)


def test_every_crate_has_an_allowed_licence(packages: list[dict[str, Any]]) -> None:
    deny = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    allowed = set(deny["licenses"]["allow"])
    refused = [
        (p["name"], p["license"])
        for p in packages
        if not permitted(p["license"] or "none", allowed)
    ]
    assert not refused


def test_every_crate_comes_from_the_registry_or_this_repository(
    packages: list[dict[str, Any]],
) -> None:
    registry = "registry+https://github.com/rust-lang/crates.io-index"
    other = [(p["name"], p["source"]) for p in packages if p["source"] not in (None, registry)]
    assert not other


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_pinned_python_package_has_hashes(name: str) -> None:
    pinned = _PIN.findall((ROOT / "python" / name).read_text(encoding="utf-8"))
    text = (ROOT / "python/locked" / name).read_text(encoding="utf-8")
    lower = {(package.lower(), version) for package, version in pinned}
    assert {(p.lower(), v) for p, v in _PIN.findall(text)} == lower, "run make lock"
    for part in re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in part


TOOLS = {
    "rustup": "exit 0",
    "cargo-fuzz": "exit 0",
    # Builds a parser with the output of libFuzzer, in the given directory or in
    # CARGO_TARGET_DIR.
    "cargo": r"""
build=${CARGO_TARGET_DIR:-fuzz/target}
while [ $# -gt 0 ]; do [ "$1" = --target-dir ] && build=$2; shift; done
mkdir -p "$build/triple/release"
printf '#!/bin/sh\necho stat::number_of_executed_units: 7\n' > "$build/triple/release/parser"
chmod +x "$build/triple/release/parser"
""",
}


def tools(at: Path, **scripts: str) -> dict[str, str]:
    """An environment in which these programs come first."""
    at.mkdir()
    for name, script in scripts.items():
        (at / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (at / name).chmod(0o755)
    return {**os.environ, "PATH": f"{at}:{os.environ['PATH']}"}


def test_fuzzing_finds_its_program_in_another_target_directory(tmp_path: Path) -> None:
    environment = tools(tmp_path / "bin", **TOOLS) | {"CARGO_TARGET_DIR": str(tmp_path / "target")}
    parser = re.findall(
        r'^ *name: "(.*)",$',
        (ROOT / "host/src/parsers.rs").read_text("utf-8"),
        re.MULTILINE,
    )[0]
    done = subprocess.run(
        [str(ROOT / "fuzz/run.sh"), "1", parser],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{parser} " in done.stdout
    assert " 7 executions" in done.stdout
    assert (tmp_path / f"target/fuzz-{parser}.log").exists()


def test_a_failure_of_one_parser_fails_the_run_and_others_are_fuzzed(tmp_path: Path) -> None:
    broken = TOOLS["cargo"].replace(
        "#!/bin/sh", r'#!/bin/sh\n[ "$NARROWS_PARSER" != plan ] || exit 3'
    )
    environment = tools(tmp_path / "bin", **TOOLS | {"cargo": broken})
    done = subprocess.run(
        [str(ROOT / "fuzz/run.sh"), "1"],
        env=environment | {"CARGO_TARGET_DIR": str(tmp_path / "target")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    parsers = set(
        re.findall(
            r'^ *name: "(.*)",$', (ROOT / "host/src/parsers.rs").read_text("utf-8"), re.MULTILINE
        )
    )
    assert done.returncode == 1
    assert "fuzz: plan failed" in done.stdout
    assert set(re.findall(r"^(\S+) +7 executions", done.stdout, re.MULTILINE)) == parsers - {"plan"}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["asan", "tsan"])
def test_a_sanitizer_without_its_toolchain_is_an_error_with_a_remedy(
    tmp_path: Path, target: str
) -> None:
    environment = tools(
        tmp_path / "bin", rustup="exit 1", cargo="echo nothing may be built; exit 7"
    )
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", "-C", str(ROOT), target],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "nothing may be built" not in done.stdout
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert lines == [
        f"{target} needs the nightly toolchain of Rust: install it with rustup toolchain install "
        "nightly."
    ]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", ["asan", "tsan"])
def test_documentation_tests_are_sanitized_as_well(tmp_path: Path, target: str) -> None:
    (tmp_path / "root/lib/rustlib/src").mkdir(parents=True)
    environment = tools(
        tmp_path / "bin",
        rustup="exit 0",
        rustc=f"echo {tmp_path / 'root'}",
        cargo='echo "$RUSTFLAGS / $RUSTDOCFLAGS"',
    )
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", "-C", str(ROOT), target],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    (flags,) = (line for line in done.stdout.splitlines() if line.startswith("-Z"))
    compiler, documentation = flags.split(" / ")
    # Without its library, the program of a documentation test cannot be linked.
    assert documentation == compiler


ALWAYS = "deny --locked --offline check bans licenses sources"
NO_ADVISORIES = (
    "deny: skipped: the advisory database cannot be fetched; bans, licences and sources passed"
)


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("scripts", "code", "said"),
    [
        (None, 0, ["deny: skipped: it needs cargo-deny (cargo install cargo-deny --locked)"]),
        ((1, 0), 0, [ALWAYS, NO_ADVISORIES]),
        ((0, 0), 0, [ALWAYS, "deny --locked --offline check advisories"]),
        ((1, 1), 2, [ALWAYS]),
    ],
)
def test_dependencies_are_checked_if_cargo_deny_is_installed(
    tmp_path: Path, scripts: tuple[int, int] | None, code: int, said: list[str]
) -> None:
    """`scripts` are the exit codes of the download of the database, and of the checks."""
    if scripts is None and shutil.which("cargo-deny"):
        pytest.skip("cargo-deny is installed")
    fetch, check = scripts or (0, 0)
    cargo = f'if [ "$2" = fetch ]; then exit {fetch}; fi; echo "$@"; exit {check}'
    programs = {"cargo": cargo, "cargo-deny": "exit 0"} if scripts else {"cargo": cargo}
    environment = tools(tmp_path / "bin", **programs)
    environment.pop("MAKEFLAGS", None)
    done = subprocess.run(
        ["make", "-C", str(ROOT), "deny"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert (done.returncode, lines) == (code, said)
    assert "part deny" in (ROOT / ".ci/nightly").read_text(encoding="utf-8")
