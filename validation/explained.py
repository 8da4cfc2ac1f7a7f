"""Disagreements that are explained: `explained.toml` names a file of evidence for each.

Evidence is an experiment or a trace of Linux; the first line of the file states which. The file has
the command that reproduces it in a block of `console`, and the measured values in a table. A file
without one of the three explains nothing. An entry that is no longer needed is reported, too.
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
        case: Pattern of cases, with `*`.
        figure: Pattern of metrics, with `*`.
        evidence: The file, relative to the directory of `explained.toml`.
        because: The reason in a few words; the file contains the details.
    """

    case: str
    figure: str
    evidence: str
    because: str

    def covers(self, case: str, figure: str) -> bool:
        """Whether it is an explanation of this disagreement."""
        return fnmatchcase(case, self.case) and fnmatchcase(figure, self.figure)


def load(file: Path = FILE) -> list[Explanation]:
    """The entries of `explained.toml`, all with valid evidence.

    Raises:
        ValueError: If the evidence of an entry is not valid.
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
