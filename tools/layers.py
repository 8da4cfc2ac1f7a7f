"""Checks the layers of the Rust crates and of the Python package that `layers.toml` declares:
`python -m tools.layers`.

A module is a folder or file directly below a crate's `src`. The root of the crate (`lib.rs`,
`main.rs`) is not a module and may use every module. The program reads `crate::…` and `super::…`
paths, in `use` declarations and inline. Code that is compiled only for tests is left out. A name
that the root re-exports counts as a name of the module that defines it.

In the Python package, every `import` counts, also in functions, but not below `if TYPE_CHECKING`. A
module of a package may be in another layer than the package; it is then written `package.module`.
`*.module` stands for every module of this name that no layer names. `!package.module` excepts a
module from this, which then belongs to its package. A package needs no layer if all its modules
have layers and its `__init__.py` imports nothing.

In a crate with `layers`, it is an error if a module uses another module of its own or of a higher
layer. In a crate without `layers`, it is an error if modules use each other in a circle. Exceptions
name both modules and the reason; an exception that is no longer needed is also an error.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOTS = ("lib.rs", "main.rs", "__init__.py")
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)"""
    r"""|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^\\'])'""",
    re.DOTALL,
)
TEST = re.compile(
    r"#\[cfg\(test\)\]\s*(?:#\[(?P<attribute>[^\]]*)\]\s*)*"
    r"(?P<module>(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;)?"
)
PATH = re.compile(r"(?<![\w$:])(?P<start>crate|super(?:\s*::\s*super)*)\s*::\s*(?P<rest>\{|\w+)")
REEXPORT = re.compile(r"^pub use (?P<module>\w+)::(?P<names>[^;]+);", re.MULTILINE)


@dataclass(frozen=True)
class Use:
    """A use of the module `used` by the module `user`, with its file and line."""

    file: Path
    line: int
    user: str
    used: str


@dataclass(frozen=True)
class Allowed:
    """An exception: the module `user` may use the module `used`, for the given reason."""

    user: str
    used: str
    reason: str


@dataclass
class Crate:
    """The entry of a crate, or of the Python package, in `layers.toml`."""

    source: Path
    layers: list[list[str]] = field(default_factory=list)
    exceptions: list[Allowed] = field(default_factory=list)


def blank(text: str) -> str:
    """Replaces each character of `text` by a space, except line ends, so that lines keep their
    numbers.
    """
    return re.sub(r"[^\n]", " ", text)


def without_tests(text: str) -> tuple[str, list[str]]:
    """Returns the text with comments, literals and items under `#[cfg(test)]` blanked, and the
    names of test modules that are separate files.
    """
    attributes = text
    text = TOKEN.sub(lambda found: blank(found[0]), text)
    files: list[str] = []
    while found := TEST.search(text):
        if found["module"]:
            whole = attributes[found.start() : found.end()]
            named = re.search(r'#\[path = "([^"]+)"\]', whole)
            files.append(named[1] if named else found["name"])
            end = found.end()
        else:
            end = end_of_item(text, found.end())
        text = text[: found.start()] + blank(text[found.start() : end]) + text[end:]
    return text, files


def end_of_item(text: str, start: int) -> int:
    """Returns the offset of the end of the Rust item at `start`: after its semicolon, comma or
    closing brace.
    """
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
            if depth < 0:
                return at
            if depth == 0 and text[at] == "}":
                return at + 1
        elif text[at] in ";," and depth == 0:
            return at + 1
    return len(text)


def first_names(text: str, brace: int) -> Iterator[tuple[int, str]]:
    """Yields the offset and the first name of every path in the `{…}` group that opens at
    `brace`.
    """
    depth, fresh = 0, False
    for token in re.finditer(r"\w+|[{},]|::", text[brace:]):
        if token[0] == "{":
            depth += 1
            fresh = depth == 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return
        elif token[0] == ",":
            fresh = depth == 1
        elif fresh and depth == 1:
            fresh = False
            yield brace + token.start(), token[0]


def paths(text: str, depth: int) -> Iterator[tuple[int, str]]:
    """Yields the offset and the first name of every path that starts at the root of the crate,
    which is `depth` modules above the file.
    """
    for found in PATH.finditer(text):
        if found["start"] != "crate" and found["start"].count("super") != depth:
            continue
        if found["rest"] == "{":
            yield from first_names(text, found.start("rest"))
        else:
            yield found.start("rest"), found["rest"]


def module_depth(inside: Path) -> int:
    """Returns the number of module levels between the root of the crate and the file `inside`."""
    return len(inside.parts) - (inside.name == "mod.rs")


def test_files(source: Path) -> set[Path]:
    """Returns the files and folders below `source` that belong to modules under `#[cfg(test)]`."""
    found: set[Path] = set()
    for file in source.rglob("*.rs"):
        _, names = without_tests(file.read_text(encoding="utf-8"))
        home = file.parent if file.name in ("mod.rs", *ROOTS) else file.parent / file.stem
        for name in names:
            if name.endswith(".rs"):
                found.add(file.parent / name)
            else:
                found |= {home / f"{name}.rs", home / name}
    return found


def uses(source: Path) -> Iterator[Use]:
    """Yields every use of a module by another one in the crate with the sources in `source`."""
    modules = {entry.stem for entry in source.iterdir() if entry.suffix == ".rs" or entry.is_dir()}
    modules -= {Path(root).stem for root in ROOTS}
    exported: dict[str, str] = {}
    for root in ROOTS:
        if (source / root).exists():
            for found in REEXPORT.finditer((source / root).read_text(encoding="utf-8")):
                for name in re.findall(r"\w+", found["names"]):
                    exported[name] = found["module"]
    tests = test_files(source)
    for file in sorted(source.rglob("*.rs")):
        inside = file.relative_to(source)
        if str(inside) in ROOTS or any(part in tests for part in (file, *file.parents)):
            continue
        user = inside.parts[0].removesuffix(".rs")
        text, _ = without_tests(file.read_text(encoding="utf-8"))
        shown = Path(os.path.relpath(file))
        for at, name in paths(text, module_depth(inside)):
            used = name if name in modules else exported.get(name, "the crate's root")
            if used != user:
                yield Use(shown, text.count("\n", 0, at) + 1, user, used)


def unit_of(name: str, units: Container[str]) -> str:
    """Returns the longest entry of `units` that contains the Python module `name`; without one, its
    package.
    """
    parts = name.split(".")
    longer = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    return next((unit for unit in longer if unit in units), parts[0])


def python_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields the line and the full name of every import, except those below `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from python_imports(ast.Module(node.orelse, []))
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        else:
            yield from python_imports(node)


def python_uses(source: Path, units: set[str]) -> Iterator[Use]:
    """Yields every use of a module by another one in the Python package in `source`."""
    known = {entry.stem for entry in source.iterdir() if not entry.name.startswith("__")}
    for file in sorted(source.rglob("*.py")):
        name = ".".join(file.relative_to(source).with_suffix("").parts)
        if name == "__init__":
            continue
        user = unit_of(name, units)
        for line, imported in python_imports(ast.parse(file.read_text(encoding="utf-8"))):
            package, _, inside = imported.partition(".")
            used = unit_of(inside, units)
            if package == source.name and used in known | units and used != user:
                yield Use(Path(os.path.relpath(file)), line, user, used)


def circle(graph: dict[str, set[str]], start: str, end: str) -> list[str] | None:
    """Returns the shortest path in the graph from `start` to `end`, or `None` if there is none."""
    ways, seen = [[start]], {start}
    for way in ways:
        if way[-1] == end:
            return way
        for next_ in sorted(graph.get(way[-1], set()) - seen):
            seen.add(next_)
            ways.append([*way, next_])
    return None


def expanded(crate: Crate) -> list[list[str]]:
    """Returns the layers, with each `*.module` replaced by the modules that it stands for."""
    named = {module.removeprefix("!") for row in crate.layers for module in row}

    def modules(entry: str) -> list[str]:
        if entry.startswith("!"):
            return []
        if not entry.startswith("*."):
            return [entry]
        files = crate.source.glob(f"*/{entry[2:]}.py")
        found = {f"{file.parent.name}{entry[1:]}" for file in files}
        return sorted(found - named)

    return [[module for entry in row for module in modules(entry)] for row in crate.layers]


def is_empty(file: Path) -> bool:
    """Returns whether `file` is the `__init__.py` of a package and imports nothing."""
    return file.name == "__init__.py" and not any(
        python_imports(ast.parse(file.read_text(encoding="utf-8")))
    )


def problems(name: str, crate: Crate) -> Iterator[str]:
    """Yields a message for each violation in a crate, with file, line and rule."""
    crate.layers = expanded(crate)
    units = {module for row in crate.layers for module in row}
    is_python = (crate.source / "__init__.py").exists()
    found = list(python_uses(crate.source, units) if is_python else uses(crate.source))
    allowed = {(entry.user, entry.used) for entry in crate.exceptions}
    for entry in crate.exceptions:
        pair = (entry.user, entry.used)
        if not any((use.user, use.used) == pair for use in found):
            yield f"layers.toml: {name}: {entry.user} uses {entry.used} no more; drop the exception"
        if not entry.reason.strip():
            yield f"layers.toml: {name}: the exception {entry.user} -> {entry.used} needs a reason"
    found = [use for use in found if (use.user, use.used) not in allowed]
    if crate.layers:
        yield from above(name, crate, found)
        return
    graph: dict[str, set[str]] = {}
    for use in found:
        graph.setdefault(use.user, set()).add(use.used)
    for use in found:
        if way := circle(graph, use.used, use.user):
            around = " -> ".join([use.user, *way])
            yield f"{use.file}:{use.line}: {use.user} uses {use.used}: a circle, {around}"


def above(name: str, crate: Crate, found: list[Use]) -> Iterator[str]:
    """Yields a message for each use of a module in the same or a higher layer, and for each module
    without a layer.
    """
    layer = {module: number for number, row in enumerate(crate.layers) for module in row}
    files = [file for ending in ("*.rs", "*.py", "*.pyi") for file in crate.source.rglob(ending)]
    empty = {file for file in files if file.parent.name not in layer and is_empty(file)}
    names = [
        file.relative_to(crate.source).with_suffix("").parts for file in files if file not in empty
    ]
    modules = {unit_of(".".join(parts), layer.keys()) for parts in names}
    modules -= {Path(root).stem for root in ROOTS}
    for module in sorted(modules - layer.keys()):
        yield f"layers.toml: {name}: the module {module} has no layer; add it to one"
    for module in sorted(layer.keys() - modules):
        yield f"layers.toml: {name}: there is no module {module}; remove it"
    for use in found:
        if use.user not in layer or use.used in modules - layer.keys():
            continue
        if use.used not in layer:
            place = "the crate's root; move it into a module"
            yield f"{use.file}:{use.line}: {use.user} uses a name of {place}"
        elif layer[use.used] >= layer[use.user]:
            where = "the same layer" if layer[use.used] == layer[use.user] else "a higher layer"
            rule = f"{where} (layers.toml, {name})"
            yield f"{use.file}:{use.line}: {use.user} uses {use.used} of {rule}"


def read(file: Path) -> dict[str, Crate]:
    """Reads `layers.toml`; paths in it are relative to the folder above it."""
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return {
        name: Crate(
            source=file.parent.parent / entry["source"],
            layers=entry.get("layers", []),
            exceptions=[
                Allowed(one["module"], one["uses"], one["reason"])
                for one in entry.get("exception", [])
            ],
        )
        for name, entry in table.items()
    }


def main(file: Path) -> int:
    """Prints every problem; returns the exit status."""
    found = [line for name, crate in read(file).items() for line in problems(name, crate)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).with_name("layers.toml")))
