"""Faults of models in Python: the text of an exception, and the end of an event that takes too
long.
"""

from __future__ import annotations

import ctypes
import traceback
from pathlib import Path
from types import TracebackType


class TookTooLongError(BaseException):
    """Raised in an event that does not return. It is no `Exception`, so that models do not catch
    it.
    """


def describe(error: BaseException, file: str, trace: TracebackType | None = None) -> str:
    """Type and text of an exception, and the last line of the model that it passed.

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
    return f"{text} ({Path(last[0].filename).name}:{last[0].lineno})" if last else text


def interrupt(thread: int) -> None:
    """Raises `TookTooLongError` in a thread, at its next instruction of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(TookTooLongError)
    )
