"""Checks the length of source files and lines: `python -m tools.sizes`.

A Rust, Python or TypeScript file must have at most 800 lines. A line of a Rust or Python file must
have at most 100 columns, except rows of Markdown tables and diagrams in Rust doc comments. A
diagram is a block between "```text" and "```". `sizes.toml` lists longer files, each with its
maximum number of lines. An entry that is no longer needed is also an error.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

LINES = 800
COLUMNS = 100
LIMITED = {".rs": True, ".py": True, ".pyi": True, ".ts": False}
"""Suffixes of the checked files, each with whether the length of their lines is limited. The number
of lines is limited for all of them."""


def long_lines(name: str, lines: list[str]) -> Iterator[str]:
    """Yields a message for each line that is too long."""
    diagram = False
    for number, line in enumerate(lines, 1):
        comment = line.lstrip()
        if name.endswith(".rs") and comment.startswith(("//!", "///")):
            text = comment[3:].strip()
            if text.startswith("```"):
                diagram = text == "```text" and not diagram
            if diagram or text.startswith("|"):
                continue
        else:
            diagram = False
        if len(line) > COLUMNS:
            yield f"{name}:{number}: {len(line)} columns; the limit is {COLUMNS}"


def problems(root: Path, names: list[str], known: dict[str, int]) -> Iterator[str]:
    """Yields a message for each file or line that is too long among the files `names` below `root`,
    and for each needless entry of `sizes.toml`.
    """
    for name in sorted(names):
        suffix = Path(name).suffix
        if suffix not in LIMITED:
            continue
        lines = (root / name).read_text(encoding="utf-8").splitlines()
        most = known.get(name, LINES)
        if len(lines) > most:
            yield f"{name}: {len(lines)} lines; the limit is {most}; split the file"
        elif name in known and len(lines) <= LINES:
            yield f"sizes.toml: {name} has {len(lines)} lines; remove the entry"
        if LIMITED[suffix]:
            yield from long_lines(name, lines)
    for name in sorted(known.keys() - set(names)):
        yield f"sizes.toml: there is no file {name}; remove the entry"


def sources(root: Path) -> list[str]:
    """Returns the names of all files below `root` that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [name for name in set(listed.split("\0")) if (root / name).is_file()]


def main(root: Path) -> int:
    """Prints all problems and returns the exit status."""
    known = tomllib.loads((root / "tools/sizes.toml").read_text(encoding="utf-8"))["lines"]
    found = list(problems(root, sources(root), known))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1]))
