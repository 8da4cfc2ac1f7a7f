"""What can go wrong, as one tree of exceptions.

NarrowsError
├── ScenarioError   a scenario is not right: every mistake at once, each with its place and its fix
├── EngineError     a right scenario could not be run
└── OutputError     a result could not be written
    └── RecordError what was run is there, and the capture of its packets is not
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narrows.runs.run import Run


class NarrowsError(Exception):
    """Base of everything that narrows raises on purpose; its text is meant for people."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One mistake in a scenario.

    Attributes:
        message: The whole of it in a person's words, with place and fix.
        file: The file's name as it was given; empty where there is none.
        line: Its line, from 1; None where the scenario did not come from text.
        column: Its column, from 1; for errors of syntax only.
        key: The key's path (`path.rate`, `flow[1].cc`); empty for errors of syntax.
        value: The value as it was written, if there is one.
        problem: What is wrong.
        fix: The corrected line, where there is one.
    """

    message: str
    file: str
    line: int | None
    column: int | None
    key: str
    value: str | None
    problem: str
    fix: str | None


class ScenarioError(NarrowsError):
    """A scenario is not right.

    Attributes:
        errors: Every mistake, in the order of the file.
    """

    def __init__(self, message: str, errors: Sequence[Problem] = ()) -> None:
        """Keeps the whole text as the message and the single mistakes beside it."""
        super().__init__(message, tuple(errors))
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """The text for people, without the structure."""
        return str(self.args[0])


@contextmanager
def named_by(
    given: Mapping[str, str | None], others: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Reports mistakes in a path that options describe by the names of these options.

    Args:
        given: The value of each option, by its name without dashes; the option of a key of the path
            has the name of the key.
        others: The option of each other key (`{"path.reverse.rate": "up"}`).

    Raises:
        NarrowsError: In the place of a `ScenarioError` whose keys all come from options.
    """
    names = {f"path.{name}": name for name in given} | dict(others or {})
    try:
        yield
    except ScenarioError as error:
        if not error.errors or any(given.get(names.get(e.key, "")) is None for e in error.errors):
            raise
        lines = []
        for e in error.errors:
            option, value = f"--{names[e.key]}", given[names[e.key]]
            problem, fix = e.problem, (e.fix or "").partition(" = ")[2].strip('"')
            if fix == value:
                # A scenario has bare numbers for shares, an option has text.
                problem, fix = "needs a percent sign", f"{100 * float(fix):g}%"
            lines.append(
                f"{option} {value}: {problem}" + (f"; write {option} {fix}" if fix else "")
            )
        raise NarrowsError("\n".join(dict.fromkeys(lines))) from error


def reason(error: OSError) -> str:
    """What the system says, as the end of a sentence.

    >>> reason(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    told = error.strerror or str(error)
    return told[:1].lower() + told[1:]


class EngineError(NarrowsError):
    """A right scenario could not be run by this engine."""


class OutputError(NarrowsError):
    """A result could not be written."""


class RecordError(OutputError):
    """The capture of a run could not be written to its end; the run itself is whole.

    Attributes:
        run: The run.
    """

    def __init__(self, message: str, run: Run) -> None:
        """Keeps the run beside the text."""
        super().__init__(message)
        self.run = run
