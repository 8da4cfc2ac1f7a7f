"""File names for display, suggestions for misspelt names, and reading of hand-written text
files.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from os import PathLike, fsdecode, fsencode, scandir
from os.path import isfile, join, split

from narrows.errors import NarrowsError, reason
from narrows.storage import untrusted_input


def name_of(file: str | PathLike[str]) -> str:
    """A file name as text for display; bytes that are not UTF-8 are replaced."""
    return fsencode(file).decode("utf-8", "replace")


_NEAR = 0.75
"""Minimum similarity (0 to 1) with which a name is taken for a misspelling of another one."""

_MOST_FILES = 10_000
"""Maximum number of files in a directory that are compared with a misspelt name."""


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name of which `name` is probably a misspelling; None if there is none.

    >>> near("--plott", ["--report", "--plot", "--plot-size"]), near("--ssh", ["--yes", "--set"])
    ('--plot', None)
    """
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only

    plain = {each.lstrip("-"): each for each in known}
    found = get_close_matches(name.lstrip("-"), plain, 1, _NEAR)
    return plain[found[0]] if found else None


def near_file(file: str | PathLike[str]) -> str | None:
    """The existing file that may have been meant: the name with `.toml` or `.json` appended, or a
    file with a similar name.
    """
    name = fsdecode(file)
    # `os.path.isfile` is used because it returns False for a name that is too long.
    for ending in (".toml", ".json"):
        if isfile(name + ending):  # noqa: PTH113
            return name + ending
    folder, base = split(name)
    try:
        with scandir(folder or ".") as entries:
            files = [one.name for one in islice(entries, _MOST_FILES) if one.is_file()]
    except OSError:
        return None
    found = near(base, files)
    return None if found is None else join(folder, found)  # noqa: PTH118


def unread(file: str | PathLike[str], error: OSError) -> str:
    """The message that a file could not be read, with the file that may have been meant."""
    told = f"{name_of(file)}: {reason(error)}"
    meant = near_file(file) if isinstance(error, FileNotFoundError) else None
    return told if meant is None else f"{told}; did you mean {name_of(meant)}?"


def text_of(file: str | PathLike[str], what: str = "a scenario") -> str:
    """The text of a hand-written file, with all line ends converted to newlines; `what` the file
    should be is for errors.

    Raises:
        NarrowsError: If the file cannot be read or is not UTF-8.
    """
    try:
        text = untrusted_input.read(file).decode()
    except UnicodeDecodeError as error:
        raise NarrowsError(f"{name_of(file)}: not UTF-8 text, so not {what}") from error
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
