"""Results into files: all of one or nothing, so that a full disk takes no older result away."""

from __future__ import annotations

import os
import shutil
from os import PathLike
from pathlib import Path

from narrows.errors import OutputError
from narrows.scenario import name_of


def write(file: str | PathLike[str], content: str | bytes) -> None:
    """Writes a file; its folders are made. A device or a pipe takes what comes.

    Raises:
        OutputError: If it cannot be written.
    """
    content = content.encode() if isinstance(content, str) else content
    try:
        target = Path(file)
        if target.exists() and not target.is_file():
            target.write_bytes(content)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target = target.resolve()
        part = target.with_name(f".narrows.{os.getpid()}")
        try:
            part.write_bytes(content)
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{name_of(file)}: {(error.strerror or str(error)).lower()}") from error
