"""The exceptions that narrows raises.

```text
NarrowsError
├── ScenarioError   a scenario is not valid: all mistakes, each with its place and its fix
├── EngineError     a valid scenario could not be run
└── OutputError     a result could not be written
    └── RecordError the run is complete, but the capture of its packets is not
```
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from narrows.runs.run import Run


class NarrowsError(Exception):
    """Base of all exceptions that narrows raises on purpose; their text is meant for users."""


class Problem(NamedTuple):
    """One mistake in a scenario.

    Attributes:
        message: The whole message for users, with place and fix.
        file: The name of the file as given; empty if there is none.
        line: The line, from 1; None if the scenario did not come from text.
        column: The column, from 1; for syntax errors only.
        key: The path of the key (`path.rate`, `flow[1].cc`); empty for syntax errors.
        value: The value as it was written, if there is one.
        problem: The description of the mistake.
        fix: The corrected line, if there is one.
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
    """A scenario is not valid.

    Attributes:
        errors: All mistakes, in the order of the file.
    """

    def __init__(self, message: str, errors: Sequence[Problem] = ()) -> None:
        """Stores the whole text as the message, and the individual mistakes."""
        super().__init__(message, tuple(errors))
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """The text for users, without the structure."""
        return str(self.args[0])


@contextmanager
def named_by(
    given: Mapping[str, str | None], others: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Makes errors in a path that command-line options describe name these options instead of
    scenario keys.

    Args:
        given: The value of each option, by the name of the option without leading dashes. An option
            `--NAME` sets the key `path.NAME`.
        others: The option of each key whose option has another name (`{"path.reverse.rate":
            "reverse-rate"}`).

    Raises:
        NarrowsError: Instead of a `ScenarioError`, if options set the keys of all its mistakes.
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
            if (share := _number(fix)) is not None:
                # A scenario accepts a share without quotes (`0.01`); an option is a percentage.
                bare = _number(value or "")
                problem = problem if bare is None else "needs a percent sign"
                fix = f"{100 * share:g}%" if bare is None or fix == value else f"{bare:g}%"
            lines.append(
                f"{option} {value}: {problem}" + (f"; write {option} {fix}" if fix else "")
            )
        raise NarrowsError("\n".join(dict.fromkeys(lines))) from error


def _number(text: str) -> float | None:
    """The number that a text without a unit stands for; None for other texts."""
    try:
        return float(text)
    except ValueError:
        return None


def reason(error: OSError) -> str:
    """The error text of the operating system, with a lowercase first letter, to end a sentence.

    >>> reason(FileNotFoundError(2, "No such file or directory"))
    'no such file or directory'
    """
    told = error.strerror or str(error)
    return told[:1].lower() + told[1:]


class EngineError(NarrowsError):
    """A valid scenario could not be run by this engine."""


class OutputError(NarrowsError):
    """A result could not be written."""


class RecordError(OutputError):
    """The capture of a run could not be written completely; the run itself is complete.

    Attributes:
        run: The run.
    """

    def __init__(self, message: str, run: "Run") -> None:
        """Stores the run and the text."""
        super().__init__(message)
        self.run = run
