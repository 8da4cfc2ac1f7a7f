"""Skeletons of models: a model that works, its test, a scenario and a README."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from narrows import _core, registry
from narrows.errors import NarrowsError, OutputError, reason

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KINDS = {"cc": "congestion control", "queue": "queue discipline"}
_LISTS = {"cc": "cc", "queue": "queues"}
_FILES = {
    "python": {
        "{kind}.py": "{name}.py",
        "{kind}.test.py": "test_{name}.py",
        "{kind}.toml": "{name}.toml",
        "python.md": "README.md",
    },
    "rust": {
        "Cargo.toml": "Cargo.toml",
        "{kind}.rs": "src/lib.rs",
        "{kind}.test.rs": "tests/scenario.rs",
        "{kind}.toml": "{name}.toml",
        "rust.md": "README.md",
    },
}
"""The templates for each language, with the name of the file that is made from each."""

LANGUAGES = tuple(_FILES)


@dataclass(frozen=True, kw_only=True)
class Skeleton:
    """A skeleton to write.

    Attributes:
        kind: `cc` or `queue`.
        name: The name of the model.
        language: One of `LANGUAGES`.
        folder: The new folder.
        core: The folder `core` of a checkout, for a model in Rust; None for the crates of this
            version.
    """

    kind: str
    name: str
    language: str
    folder: Path
    core: Path | None = None

    def check(self) -> None:
        """Checks the name, the new folder and `core` before any file is written.

        Raises:
            NarrowsError: If the name is invalid or taken, the new folder exists, or `core` has no
                Cargo.toml.
        """
        if not _NAME.fullmatch(self.name) or keyword.iskeyword(self.name):
            raise NarrowsError(
                f"{self.name}: a name has lower-case letters, digits and underscores, and begins "
                f"with a letter; write narrows new {self.kind} my_model"
            )
        if self.name in registry.names(self.kind) or self.name in {"pfifo", "bfifo", "test"}:
            raise NarrowsError(
                f"{self.name}: narrows has a model of this name; write narrows new {self.kind} "
                f"my_{self.name}"
            )
        if self.folder.exists():
            raise OutputError(
                f"{self.folder}: exists; write another directory with --dir, or remove it"
            )
        if self.core is not None and not (self.core / "Cargo.toml").is_file():
            raise NarrowsError(
                f"--core {self.core}: has no Cargo.toml; write the folder core of a checkout"
            )

    def files(self) -> dict[str, str]:
        """The text of each file, by file name."""
        words = {
            "@NAME@": self.name,
            "@CLASS@": "".join(part.capitalize() for part in self.name.split("_")),
            "@KIND@": _KINDS[self.kind],
            "@LIST@": _LISTS[self.kind],
            "@PLUGIN@": self._crate("plugin"),
            "@SIM@": self._crate("sim"),
        }
        found = {}
        for template, file in _FILES[self.language].items():
            source = _TEMPLATES / f"{template.format(kind=self.kind)}.txt"
            text = source.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            found[file.format(name=self.name)] = text
        return found

    def _crate(self, folder: str) -> str:
        if self.core is None:
            return f'"{_core.__version__.rpartition(".")[0]}"'
        return f'{{ path = "{(self.core.parent / folder).resolve()}" }}'

    def write(self) -> list[Path]:
        """Writes the files; returns their names.

        Raises:
            OutputError: If the files cannot be written.
        """
        self.check()
        try:
            for name, text in self.files().items():
                file = self.folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            if self.language == "rust" and self.core is not None:
                locked = self.core.parent / "Cargo.lock"
                if locked.is_file():
                    # With the versions of the checkout, cargo needs no network.
                    shutil.copyfile(locked, self.folder / "Cargo.lock")
        except OSError as error:
            raise OutputError(f"{self.folder}: {reason(error)}") from error
        return sorted(file for file in self.folder.rglob("*") if file.is_file())


def checkout() -> Path | None:
    """The folder `core` of the checkout that contains this Python environment or this package; None
    without a checkout.
    """
    for place in (Path(sys.prefix).parent, Path(__file__).parents[3]):
        if (place / "core" / "Cargo.toml").is_file() and (place / "plugin").is_dir():
            return place / "core"
    return None


def scenario_text() -> str:
    """A scenario with comments."""
    return (_TEMPLATES / "scenario.toml.txt").read_text(encoding="utf-8")


def write_new(file: Path, text: str) -> None:
    """Writes a file that does not exist yet.

    Raises:
        OutputError: If the file exists, or cannot be written.
    """
    try:
        with file.open("x", encoding="utf-8") as to:
            to.write(text)
    except FileExistsError as error:
        raise OutputError(f"{file}: exists; write another name, or remove it") from error
    except OSError as error:
        raise OutputError(f"{file}: {reason(error)}; write another name") from error
