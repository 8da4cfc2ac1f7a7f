"""Results into files: all of one or nothing, so that a full disk takes no older result away."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from os import PathLike
from pathlib import Path

from narrows.errors import OutputError, reason
from narrows.runs.scenario import name_of
from narrows.storage.durable import replacing


def check(*files: str | PathLike[str] | None) -> None:
    """Before a command takes its time: can these files be written when it ends?

    Raises:
        OutputError: If one of them cannot be written where it is to be.
    """
    for file in files:
        if not file:
            continue
        target = Path(file)
        parent = target.absolute().parent
        if not parent.is_dir():
            raise OutputError(f"{name_of(file)}: there is no directory {name_of(parent)}")
        if not os.access(target if target.exists() else parent, os.W_OK):
            raise OutputError(f"{name_of(file)}: permission denied")


def write(file: str | PathLike[str], content: str | bytes) -> None:
    """Writes a file; its folders are made.

    A device or a pipe takes what comes, and so does a file in a folder that may not be changed.

    Raises:
        OutputError: If it cannot be written.
    """
    content = content.encode() if isinstance(content, str) else content
    try:
        target = Path(file)
        if target.exists() and not (target.is_file() and os.access(target.resolve().parent, os.W_OK)):
            target.write_bytes(content)
            return
        # A file in the place of a folder is told of below, as no folder.
        with suppress(FileExistsError):
            target.parent.mkdir(parents=True)
        target = target.resolve()
        # The new file has a random name: what somebody else has put there, a link for one, is not followed.
        with replacing(target.parent, target.name) as part:
            part.write_bytes(content)
            if target.exists():
                shutil.copymode(target, part)
    except OSError as error:
        raise OutputError(f"{name_of(file)}: {reason(error)}") from error
