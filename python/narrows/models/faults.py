"""Faults of models in Python: describes exceptions, and ends functions that take too long."""

from __future__ import annotations

import ctypes
import traceback
from pathlib import Path
from types import TracebackType


class TookTooLongError(BaseException):
    """Raised in a function of a model that does not return. This exception is no subclass of
    `Exception`, so that `except Exception` in a model does not catch it.
    """


def describe(error: BaseException, file: str, trace: TracebackType | None = None) -> str:
    """Type and text of an exception, and the last line in the file of the model that its traceback
    contains.

    Args:
        error: The exception.
        file: The file of the model.
        trace: Its traceback, if the exception does not contain it.

    >>> describe(ZeroDivisionError("division by zero"), "aimd.py")
    'ZeroDivisionError: division by zero'
    """
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    frames = traceback.extract_tb(trace or error.__traceback__)
    own = [frame for frame in frames if frame.filename == file]
    last = (own or frames)[-1:]
    if isinstance(error, SyntaxError):
        return f"{text.partition(' (')[0]} ({Path(error.filename or file).name}:{error.lineno})"
    if not last or last[0].filename.startswith("<frozen"):
        return text  # A module that does not exist has no line.
    return f"{text} ({Path(last[0].filename).name}:{last[0].lineno})"


def interrupt(thread: int) -> None:
    """Raises `TookTooLongError` in a thread, at the next Python instruction of this thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(TookTooLongError)
    )
