"""Names of files as they can be shown, and texts that are written by hand."""

from __future__ import annotations

from os import PathLike, fsdecode, fsencode
from os.path import isfile

from narrows.errors import NarrowsError, reason
from narrows.storage import untrusted_input


def name_of(file: str | PathLike[str]) -> str:
    """A file's name as it can be shown, whatever bytes it has."""
    return fsencode(file).decode("utf-8", "replace")


def unread(file: str | PathLike[str], error: OSError) -> str:
    """Why a file could not be read, and which one may have been meant."""
    told = f"{name_of(file)}: {reason(error)}"
    near = (
        [fsdecode(file) + ending for ending in (".toml", ".json")]
        if isinstance(error, FileNotFoundError)
        else []
    )
    # Of os.path, for which a name that is too long is just not there.
    found = [f"{name_of(one)} is there" for one in near if isfile(one)]  # noqa: PTH113
    return "; ".join([told, *found])


def text_of(file: str | PathLike[str]) -> str:
    """The text of a file that is written by hand.

    Raises:
        NarrowsError: If it cannot be read.
    """
    try:
        text = untrusted_input.read(file).decode()
    except UnicodeDecodeError as error:
        raise NarrowsError(f"{name_of(file)}: not UTF-8 text, so not a scenario") from error
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
