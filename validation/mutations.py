"""Removes or changes the rules of each model one by one, and checks that a test fails.

`validation/mutations/NAME.toml` lists the rules of one model, each with a piece of its source and
the replacement:

    [[rule]]
    rule = "The window changes once per round trip"
    find = '''if ev.una > self.round_end {'''
    replace = '''if true {'''
    file = "core/src/cc/vegas.rs"    # unless it is core/src/cc/NAME.rs or core/src/cc/NAME/mod.rs

A list of dated rules of Linux has, at its beginning, the parts of TCP whose rules it switches off,
one at a time. One build of the copy is enough for all of them: there, no release follows the rule
that the environment names.

    parts  = ["loss detection"]
    prefix = ["tcp::rack::", "tcp::sender::"]

`make mutations` applies them to a copy of `core`, builds its tests and runs them. A mutation is
detected if a test of the same model fails (`cc::NAME…`, `queue::NAME…`, `host::NAME…`,
`net::NAME…`, or one with a `prefix` that the list has at its beginning). Tests in `core/tests` are
used only if the list names them at its beginning: `tests = ["replay"]`. Models do not share rules,
so one build contains one mutation of every model. The results are in docs/reference/mutations.md;
the exit code is 1 if a removed rule is not detected.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "validation/mutations"
RULES = "core/src/kernel/rules.rs"
KERNEL = "core/src/kernel/mod.rs"
SWITCHABLE = (
    ("pub const fn receive_buffer(self)", "pub fn receive_buffer(self)"),
    (
        "pub const fn follows(self, rule: Rule) -> bool {",
        """pub fn follows(self, rule: Rule) -> bool {
        extern crate std;
        static OFF: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let off = OFF.get_or_init(|| std::env::var("RULE_OFF").unwrap_or_default());
        if rule.row().name == off {
            return false;
        }""",
    ),
)
"""The changes of `KERNEL` by which the environment switches off a dated rule."""
ROW = re.compile(
    r'of: "(?P<part>[^"]*)", name: "(?P<name>\w+)", since: \((?P<major>\d+), (?P<minor>\d+)\)'
)
"""The beginning of a row of the table of dated rules of Linux."""
PAGE = ROOT / "docs/reference/mutations.md"
ROOMS = ("cc", "queue", "host", "net")
FAILED = re.compile(
    r"^test (\S+) (?:\.\.\. FAILED|has been running for over 60 seconds)$", re.MULTILINE
)
LONGEST_S = 100
LONGEST_ALONE_S = 30
SHOWN = 2
"""Maximum number of tests that a row of the page names."""


@dataclass
class Mutation:
    """The removal of one rule of one model, and its result.

    Attributes:
        noticed: The tests that failed without the rule.
        off: The dated rule of Linux that is switched off, instead of a change of the source.
        problem: The reason why the mutation could not be tried, or an empty text.
    """

    model: str
    rule: str
    file: str
    find: str
    replace: str
    prefix: tuple[str, ...]
    tests: tuple[str, ...] = ()
    off: str = ""
    noticed: tuple[str, ...] = ()
    problem: str = ""


def usual_file(model: str) -> str:
    """The usual source file of a model."""
    for room in ROOMS:
        for file in (f"core/src/{room}/{model}.rs", f"core/src/{room}/{model}/mod.rs"):
            if (ROOT / file).exists():
                return file
    raise SystemExit(f"validation/mutations/{model}.toml: there is no model of this name")


def pattern(text: str) -> re.Pattern[str]:
    r"""Matches a piece of Rust source, however `rustfmt` has broken its lines.

    >>> bool(pattern("set(flow, Some(now));").search("set(\n    flow,\n    Some(now),\n);"))
    True
    """
    tokens = re.findall(r"\w+|[^\w\s]", text)
    parts = [re.escape(tokens[0])]
    for before, token in pairwise(tokens):
        words = re.match(r"\w+ \w", f"{before} {token}")
        comma = r",?\s*" if token in ")]}" else ""
        parts.append((r"\s+" if words else r"\s*") + comma + re.escape(token))
    return re.compile("".join(parts))


def switched_off(
    model: str, parts: list[str], prefix: tuple[str, ...], tests: tuple[str, ...]
) -> list[Mutation]:
    """The mutations that switch off each rule of Linux that these parts of TCP follow."""
    rows = ROW.finditer((ROOT / RULES).read_text(encoding="utf-8"))
    return [
        Mutation(
            model,
            f"`{row['name']}` of Linux {row['major']}.{row['minor']}",
            KERNEL,
            "",
            "",
            prefix,
            tests,
            off=row["name"],
        )
        for row in rows
        if row["part"] in parts
    ]


def listed(which: str) -> dict[str, list[Mutation]]:
    """The mutations of each model whose name matches one of the comma-separated patterns in
    `which`.
    """
    found: dict[str, list[Mutation]] = {}
    for file in sorted(LISTS.glob("*.toml")):
        model = file.stem
        if not any(fnmatchcase(model, pattern) for pattern in which.split(",")):
            continue
        read = tomllib.loads(file.read_text(encoding="utf-8"))
        own = "" if "prefix" in read else usual_file(model)
        tests = tuple(read.get("tests", ()))
        given = read.get("prefix", [])
        prefixes = tuple([given] if isinstance(given, str) else given)
        parts = read.get("parts", [])
        found[model] = switched_off(model, parts, prefixes, tests)
        for entry in read.get("rule", []):
            where = entry.get("file", own)
            # Some models have parts in two of the folders `ROOMS`.
            rooms = [path.split("/")[2] for path in (where, own) if path]
            prefix = prefixes or (f"{next(p for p in rooms if p in ROOMS)}::{model}::",)
            mutation = Mutation(
                model, entry["rule"], where, entry["find"], entry["replace"], prefix, tests
            )
            times = len(pattern(entry["find"]).findall((ROOT / where).read_text(encoding="utf-8")))
            if times != 1:
                mutation.problem = f"its text is {times} times in {where}"
            found[model].append(mutation)
    return found


def tried(
    copy: Path,
    target: Path,
    also: tuple[str, ...] = (),
    *,
    only: tuple[str, ...] = ("cc::", "queue::", "host::", "net::wifi::", "tcp::"),
    off: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs the unit tests of core in the copy whose names contain one of `only`, or the tests of
    `core/tests` that `also` names. The dated rule `off` is switched off.
    """
    command = ["cargo", "test", "--package", "narrows-core", "--no-fail-fast"]
    if also:
        command += ["--test", "all", "--", *(f"{name}::" for name in also)]
    else:
        command += ["--lib", "--", *only]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(target),
        "RUSTFLAGS": "-Awarnings",
        "RULE_OFF": off,
    }
    # The tests are built first, because on a busy machine the build takes longer than the limit of
    # the tests.
    words = command[: command.index("--")] if "--" in command else command
    built = subprocess.run(
        [*words, "--no-run"], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    if built.returncode:
        return built
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, errors = child.communicate(timeout=LONGEST_ALONE_S if also else LONGEST_S)
        except subprocess.TimeoutExpired:
            # Without a rule, a test may run for ever; its whole process group is then killed.
            os.killpg(child.pid, signal.SIGKILL)
            out, errors = child.communicate()
            out += "\ntest it_does_not_end ... FAILED\ntest result: it did not end\n"
        except KeyboardInterrupt:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
    return subprocess.CompletedProcess(command, child.returncode, out, errors)


def applied(batch: list[Mutation], copy: Path) -> dict[str, str]:
    """Writes the mutations into the copy; returns the previous text of each changed file."""
    before = {m.file: (copy / m.file).read_text(encoding="utf-8") for m in batch}
    for m in batch:
        text = (copy / m.file).read_text(encoding="utf-8")
        start, end = next(pattern(m.find).finditer(text)).span()
        (copy / m.file).write_text(text[:start] + m.replace + text[end:], encoding="utf-8")
    return before


def restored(files: dict[str, str], copy: Path) -> None:
    """Restores the previous texts."""
    for file, text in files.items():
        (copy / file).write_text(text, encoding="utf-8")


def own_failures(m: Mutation, failed: list[str]) -> tuple[str, ...]:
    """The failed tests of the mutated model, without the prefix."""
    return tuple(
        name.removeprefix(prefix)
        for name in failed
        for prefix in m.prefix
        if name.startswith(prefix)
    )


def try_batch(batch: list[Mutation], copy: Path, target: Path) -> None:
    """Builds and tests one mutation of each model together. Mutations that do not compile are
    removed, and the others are tried again.
    """
    batch = [m for m in batch if not m.problem]
    while batch:
        touched = applied(batch, copy)
        done = tried(copy, target)
        restored(touched, copy)
        failed = FAILED.findall(done.stdout)
        if "test result:" in done.stdout:
            for m in batch:
                m.noticed = own_failures(m, failed)
            return
        broken = [m for m in batch if re.search(rf"--> {re.escape(m.file)}\b", done.stderr)]
        if not broken:
            raise SystemExit(f"the copy cannot be built:\n{done.stderr[-3000:]}")
        for m in broken:
            m.problem = "does not compile"
        batch = [m for m in batch if m not in broken]


def try_alone(m: Mutation, copy: Path, target: Path) -> None:
    """Tries a mutation that no unit test detected with the tests of `core/tests` that its list
    names.
    """
    touched = applied([m], copy)
    done = tried(copy, target, m.tests)
    restored(touched, copy)
    m.noticed = tuple(name.partition("::")[2] or name for name in FAILED.findall(done.stdout))


def switch_off(rules: list[Mutation], copy: Path, target: Path) -> None:
    """Switches off dated rules of Linux, one after the other, with one build."""
    file = copy / KERNEL
    before = text = file.read_text(encoding="utf-8")
    for find, replace in SWITCHABLE:
        if text.count(find) != 1:
            raise SystemExit(f"{KERNEL} has {text.count(find)} times: {find}")
        text = text.replace(find, replace)
    file.write_text(text, encoding="utf-8")
    for m in rules:
        done = tried(copy, target, only=m.prefix, off=m.off)
        if "test result:" not in done.stdout:
            raise SystemExit(f"the copy cannot be built:\n{done.stderr[-3000:]}")
        m.noticed = own_failures(m, FAILED.findall(done.stdout))
        if m.tests and not m.noticed:
            done = tried(copy, target, m.tests, off=m.off)
            m.noticed = tuple(
                name.partition("::")[2] or name for name in FAILED.findall(done.stdout)
            )
        print_result(m)
    file.write_text(before, encoding="utf-8")


def print_result(m: Mutation, place: str = "") -> None:
    """Prints the result of a mutation."""
    seen = ", ".join(m.noticed[:SHOWN])
    text = f"{m.model}: {m.rule}: {len(m.noticed)} tests {seen} {m.problem}"
    print(f"{place}{text}", flush=True)


def sections(models: dict[str, list[Mutation]]) -> dict[str, list[str]]:
    """The lines of the table of each model."""
    made = {}
    for model, rules in models.items():
        lines = ["", f"## {model}", "", "| rule | detected by |", "|---|---|"]
        for m in rules:
            names = [name.removeprefix("tests::") for name in m.noticed]
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            told = ", ".join(f"`{name}`" for name in names[:SHOWN]) + more
            lines.append(f"| {m.rule} | {told or '**' + (m.problem or 'no test') + '**'} |")
        made[model] = lines
    return made


def stored() -> dict[str, list[str]]:
    """The tables of the present page, by model."""
    found: dict[str, list[str]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        model = part.split("\n", 1)[0]
        found[model] = ["", *f"## {part}".rstrip("\n").split("\n")]
    return found


def page(tables: dict[str, list[str]]) -> str:
    """The text of the page."""
    rows = [line for table in tables.values() for line in table[5:]]
    held = sum(not line.endswith("** |") for line in rows)
    lines = [
        "# Mutation tests",
        "",
        "`make mutations` writes this page. For each row, a rule of a model was removed in a copy "
        "of the",
        "source. The row names the tests of the model that failed. The changes of the source are "
        "in",
        "[validation/mutations](../../validation/mutations).",
        "",
        f"{held} of {len(rows)} rules are detected when removed.",
    ]
    for _, table in sorted(tables.items()):
        lines += table
    return "\n".join(lines) + "\n"


def main() -> None:
    """Tries every mutation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        default="*",
        help="patterns of the models to test: 'bbr*,cake'; other parts of the page remain",
    )
    asked = parser.parse_args()
    models = listed(asked.only)
    if not models:
        parser.error(f"no model is called {asked.only}")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "mutations"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
        for name in workspace["members"]:
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("target", "node_modules")
            )
        for name in ("Cargo.toml", "Cargo.lock"):
            shutil.copy2(ROOT / name, copy / name)
        edits = {name: [m for m in rules if not m.off] for name, rules in models.items()}
        rounds = max(len(rules) for rules in edits.values())
        for number in range(rounds):
            batch = [rules[number] for rules in edits.values() if number < len(rules)]
            try_batch(batch, copy, target)
            for m in batch:
                if m.tests and not m.noticed and not m.problem:
                    try_alone(m, copy, target)
            for m in batch:
                print_result(m, f"{number + 1}/{rounds} ")
        off = [m for rules in models.values() for m in rules if m.off]
        if off:
            switch_off(off, copy, target)
    kept = {} if asked.only == "*" else stored()
    PAGE.write_text(page(kept | sections(models)), encoding="utf-8")
    missed = [m for rules in models.values() for m in rules if not m.noticed]
    for m in missed:
        print(f"not detected: {m.model}: {m.rule} {m.problem}", file=sys.stderr)
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
