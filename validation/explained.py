"""Disagreements that are understood: `explained.toml` names for each a file of evidence.

Evidence is an experiment that was made or a trace of Linux that was read: the file tells in its
first line which, has the command that makes it again in a block of `console`, and the measured
values in a table. A file without any of the three explains nothing, and an entry that nothing needs
any more is reported too.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from validation.stored import HERE

FILE = HERE / "explained.toml"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One entry.

    Attributes:
        case: Which cases, with `*`.
        figure: Which of their figures, with `*`.
        evidence: The file, from the directory of `explained.toml`.
        because: In a few words; the file tells the rest.
    """

    case: str
    figure: str
    evidence: str
    because: str

    def covers(self, case: str, figure: str) -> bool:
        """Is it about this?"""
        return fnmatchcase(case, self.case) and fnmatchcase(figure, self.figure)


def load(file: Path = FILE) -> list[Explanation]:
    """The entries whose evidence is some.

    Raises:
        ValueError: What is wrong with the others.
    """
    entries = [
        Explanation(**entry)
        for entry in tomllib.loads(file.read_text(encoding="utf-8")).get("explained", [])
    ]
    wrong = [f"{e.evidence}: {w}" for e in entries for w in _wrong(file.parent / e.evidence)]
    if wrong:
        raise ValueError("\n".join(wrong))
    return entries


def _wrong(file: Path) -> list[str]:
    if not file.exists():
        return ["there is no such file"]
    text = file.read_text(encoding="utf-8")
    first = text.partition("\n")[0]
    found = []
    if not re.match(r"# (Experiment|Trace): \S", first):
        found.append("the first line is neither `# Experiment: …` nor `# Trace: …`")
    if not re.search(r"^```console\n\$ ", text, re.MULTILINE):
        found.append("no block of `console` has the command that makes it again")
    if not re.search(r"^\|[ :|-]+\|\n\|.*\d.*\|$", text, re.MULTILINE):
        found.append("no table has measured values")
    return found
