"""The live engine: runs `narrows-host`, the only program that accesses the host.

The program receives the text of the scenario. It prints lines of progress, `progress 1.25 30.000`
(elapsed time and end, in s). Finally it prints `run J S`, followed by J bytes of JSON and S bytes
of samples. The namespaces of the program disappear when it ends, and it ends when this process
ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn

from narrows import _core, operating_system
from narrows.errors import EngineError, reason

HOST = Path(__file__).parents[1] / "bin" / "narrows-host"
"""The program."""

STOPPED = frozenset(128 + number for number in operating_system.SIGNALS)
"""Exit codes of the program after a signal."""

_STOP = signal.SIGTERM
"""Signal that ends the program. The signal is not SIGINT, because a background job and its children
may ignore SIGINT.
"""

_PATIENCE_S = 5
"""Time in s that the program has to end after the signal `_STOP`, before it is killed."""


def become(*words: str) -> NoReturn:
    """Replaces this process with narrows-host, which then handles signals and sets the exit code.

    Raises:
        EngineError: If the program cannot be executed.
    """
    operating_system.require_linux(f"narrows {words[0]}")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(HOST, [str(HOST), *words])
    except OSError as error:
        raise EngineError(
            f"{HOST}: {reason(error)}; reinstall narrows, or run make setup in a checkout"
        ) from error


def run_options(
    *,
    seed: int | None,
    sample_interval: str | None,
    states: bool,
    plugins: Sequence[str],
    built: bool,
) -> list[str]:
    """The options of `narrows-host run` that the engines `live` and `linux` share."""
    words = [word for plugin in plugins for word in ("--plugin", plugin)]
    words += ["--built"] if built else []
    words += ["--states"] if states else []
    words += [] if seed is None else ["--seed", str(seed)]
    return words + ([] if sample_interval is None else ["--sample-interval", sample_interval])


def run(
    toml: str,
    name: str,
    *,
    seed: int | None,
    sample_interval: str | None,
    verdicts: int,
    states: bool = False,
    record: str | None,
    progress: Callable[[float, float], object] | None,
    plugins: Sequence[str] = (),
    built: bool = False,
) -> _core.Run:
    """Runs the scenario in the text `toml`, which errors call `name`. A scenario that was `built`
    in Python may name any file. `plugins` are shared libraries with queue disciplines.
    """
    _core.check_toml(toml, name, built=built)
    command = [
        str(HOST),
        "run",
        "-",
        "--name",
        name,
        "--stream",
        "--tied",
        "--verdicts",
        str(verdicts),
    ]
    command += run_options(
        seed=seed, sample_interval=sample_interval, states=states, plugins=plugins, built=built
    )
    if record is not None:
        command += ["--record", record]
    with _started(command) as child:
        assert child.stdin is not None and child.stdout is not None  # noqa: PT018
        child.stdin.write(toml.encode())
        child.stdin.close()
        answer = _listen(child.stdout, progress)
        said, wrong = "", None
        try:
            said = _end(child)
        except EngineError as error:
            if answer is None or record is None:
                raise
            # The run is complete; only its capture failed.
            wrong = str(error).removeprefix(f"--record {record}: ")
    if answer is None:
        raise EngineError(said or "the live engine ended without an answer")
    return _core.run_elsewhere(*answer, wrong)


def ask(*question: str, progress: Callable[[float, float], object] | None = None) -> str:
    """Runs a query of the program (`machine`, `ready cubic bbr`, `doctor --stream`) and returns its
    output.

    Raises:
        EngineError: If the query fails, with its message.
    """
    answer = []
    with _started([str(HOST), *question]) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if not _progressed(line, progress):
                answer.append(line.decode())
        _end(child)
    return "".join(answer)


def measure(
    arguments: Sequence[str],
    progress: Callable[[float, float], object] | None = None,
    interval: Callable[[list[str]], object] | None = None,
) -> tuple[str, str]:
    """Measures a path; returns the JSON of the measurement and the notes of the program. The words
    of each line about an interval are passed to `interval`.

    Ctrl-C ends a measurement that has begun; its JSON contains the reason.

    Raises:
        EngineError: If the program ends without a measurement.
        KeyboardInterrupt: If the operation was stopped before it had begun.
    """
    with _started([str(HOST), "measure", *arguments, "--stream", "--tied"]) as child:
        assert child.stdout is not None
        try:
            answer = _measured(child.stdout, progress, interval)
        except KeyboardInterrupt:
            # The program stops and returns the results so far. After a second Ctrl-C, they are not
            # awaited.
            child.send_signal(_STOP)
            answer = _measured(child.stdout, None, interval)
        if answer is not None:
            assert child.stderr is not None
            said = child.stderr.read().decode(errors="replace").strip()
            child.wait()
            return answer, said.removesuffix("stopped").strip()
        said = _end(child)
    raise EngineError(said or "the measurement ended without an answer")


def _measured(
    out: IO[bytes],
    progress: Callable[[float, float], object] | None,
    interval: Callable[[list[str]], object] | None,
) -> str | None:
    for line in out:
        if _progressed(line, progress):
            continue
        match line.split():
            case [b"interval", *words] if interval is not None:
                interval([word.decode(errors="replace") for word in words])
            case [b"measurement", size]:
                return out.read(int(size)).decode()
    return None


def stream(arguments: Sequence[str], tell: Callable[[list[str]], object]) -> str:
    """Passes the words of each line of the program to `tell`; returns its result.

    Ctrl-C ends an operation that has begun; its result contains the reason.

    Raises:
        EngineError: If the program ends without a result.
        KeyboardInterrupt: If the operation was stopped before it had begun.
    """
    with _started([str(HOST), *arguments, "--stream", "--tied"]) as child:
        assert child.stdout is not None
        for heard in (tell, lambda _: None, lambda _: None):
            # As with `measure`, the program returns the results so far after Ctrl-C. After a second
            # Ctrl-C, the program awaits no more responses. After a third one, the results are not
            # awaited.
            try:
                answer = _told(child.stdout, arguments[0], heard)
                break
            except KeyboardInterrupt:
                child.send_signal(_STOP)
        else:
            raise KeyboardInterrupt
        if answer is not None:
            child.wait()
            return answer
        said = _end(child)
    raise EngineError(said or "the measurement ended without an answer")


def _told(out: IO[bytes], name: str, tell: Callable[[list[str]], object]) -> str | None:
    for line in out:
        words = line.decode().split()
        if words[0] == name:
            return out.read(int(words[1])).decode()
        tell(words)
    return None


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the program for a block, and ends the program if the block ends with an exception."""
    operating_system.require_linux("--engine live")
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise EngineError(
            f"{HOST}: {reason(error)}; reinstall narrows, or run make setup in a checkout"
        ) from error
    with child:
        try:
            yield child
        except BaseException:
            child.send_signal(_STOP)
            try:
                child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


def _end(child: subprocess.Popen[bytes]) -> str:
    """Waits until the program ends, and returns its messages on stderr. An exit code other than 0
    raises an `EngineError`, and that of a signal a `KeyboardInterrupt`.
    """
    assert child.stderr is not None
    said = child.stderr.read().decode(errors="replace").strip()
    code = child.wait()
    if code in STOPPED:
        raise KeyboardInterrupt
    if code != 0:
        raise EngineError(said or f"the live engine ended with {code}")
    return said


def _progressed(line: bytes, progress: Callable[[float, float], object] | None) -> bool:
    """Whether a line of the program is a line of progress, which is then passed to `progress`."""
    match line.split():
        case [b"progress", now, end]:
            if progress is not None:
                progress(float(now), float(end))
            return True
    return False


def _listen(
    out: IO[bytes], progress: Callable[[float, float], object] | None
) -> tuple[str, bytes] | None:
    """Reports the progress and returns the result of the run, or None without a result."""
    for line in out:
        if _progressed(line, progress):
            continue
        match line.split():
            case [b"run", json, samples]:
                return out.read(int(json)).decode(), out.read(int(samples))
    return None
