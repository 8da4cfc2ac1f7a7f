"""Reads `explained.toml`, which names a file of evidence for each explained disagreement.

Evidence is an experiment or a trace of Linux, and the first line of the file states which. The file
must have the command that reproduces it in a `console` block, and the measured values in a table. A
file that lacks one of these three parts is not valid evidence. The report also names entries that
no longer explain a disagreement.
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
    """One entry of `explained.toml`.

    Attributes:
        case: Pattern of the names of cases, with `*` as a wildcard.
        figure: Pattern of the names of metrics, with `*` as a wildcard.
        evidence: The file, relative to the directory of `explained.toml`.
        because: The reason in a few words; the file contains the details.
    """

    case: str
    figure: str
    evidence: str
    because: str

    def covers(self, case: str, figure: str) -> bool:
        """Whether this entry explains the disagreement of this metric in this case."""
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
