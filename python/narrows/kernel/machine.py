"""The engine `linux`: runs scenarios and programs inside a virtual machine in virtual time.

The machine is a process of this host: Linux for `ARCH=um`, started with `time-travel=inf-cpu`. The
clock of the machine advances from event to event, and processing takes no virtual time. The first
process in the machine is `narrows-host guest`, which runs a scenario or a shell as `narrows-host`
does on a host. The folder that this process and the machine share is described in
host/src/emulator/guest.rs.

The machine reads the file system of this host and can write only to the folder of the run. Programs
of a shell write to an overlay. The machine prints its progress on its console. All processes of the
machine end when this process ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO

from narrows import _core, operating_system
from narrows.errors import EngineError, reason
from narrows.host.live import HOST, run_options
from narrows.kernel import store
from narrows.storage import scratch, untrusted_input

MEMORY = 1 << 30
"""Memory of the machine, bytes. Only pages in use take memory of the host."""

START_NS = 1_704_067_200_000_000_000
"""Time of day in the machine at its start, in ns since 1970: 2024-01-01."""

STALLED_S = 60.0
"""Processor time in s without progress of virtual time, after which a run is ended with an error.
"""

MOST_RECORD_BYTES = 64 << 30
"""Size limit of a capture, bytes."""

_MOST_LINE_BYTES = 1 << 16
"""Maximum length of a line of the console, and of the message of an error, bytes."""

_MOST_CODE_BYTES = 16

_PROCESSOR = 36
"""Place of the last used processor in /proc/PID/stat after the name, from 0 on (proc(5): field 39).
"""

_LOOK_S = 0.5
_FOLLOW_S = 0.05
_END_S = 5.0
_SECCOMP = (6, 16)
"""From this release on, the kernel needs no ptrace, because it intercepts its programs with
seccomp.
"""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_LINES = 200
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,12})?")
_PLAIN = re.compile(r"[\w./+-]+")

Progress = Callable[[float, float], object]


def run(
    toml: str,
    name: str,
    *,
    kernel: str | None,
    seed: int | None,
    sample_interval: str | None,
    verdicts: int,
    states: bool = False,
    record: str | None,
    progress: Progress | None,
    plugins: Sequence[str] = (),
    built: bool = False,
    queues: str = "kernel",
) -> tuple[_core.Run, store.Kernel]:
    """Runs the scenario in the text `toml`, which errors call `name`. A scenario that was `built`
    in Python may name any file. `plugins` are shared libraries with queue disciplines. `queues`
    selects the queue disciplines of the `kernel` or those of `narrows`.

    Raises:
        EngineError: If the kernel is not built, or the run fails.
    """
    found = _ready(kernel)
    _core.check_toml(toml, name, built=built)
    place = str(Path(name).resolve()) if not built else name
    words = ["run", "-", "--name", place, "--stream", "--verdicts", str(verdicts)]
    words += ["--queues", queues]
    words += run_options(
        seed=seed, sample_interval=sample_interval, states=states, plugins=plugins, built=built
    )
    with _folder() as folder:
        if record is not None:
            words += ["--record", str(folder / "record")]
        try:
            parameters = _parameters(toml, words)
            _write(folder, words, toml.encode())
            seeded = _seed(toml, name, seed)
            said = _boot(found, folder, seeded, progress, parameters=parameters)
            return _result(folder, said, record), found
        except OSError as error:
            raise EngineError(f"{folder}: {reason(error)}") from error


def shell(
    words: list[str],
    toml: str,
    name: str,
    *,
    kernel: str | None,
    seed: int | None,
    outputs: dict[str, str],
) -> int:
    """Runs the programs in `words`, the arguments of `narrows-host shell`, over the path of a
    scenario. Returns the exit code. `outputs` has output files by option, such as `--record`.

    Standard input is read to its end before the start, unless it is a terminal. The standard
    streams of the programs are those of this process.

    Raises:
        EngineError: If the kernel is not built, or the machine fails.
    """
    found = _ready(kernel)
    given = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    with _folder() as folder:
        try:
            inside = {option: folder / option.strip("-") for option in outputs}
            options = [word for option, file in inside.items() for word in (option, str(file))]
            cut = words.index("--") if "--" in words else len(words)
            _write(folder, ["shell", *words[:cut], *options, *words[cut:]], given)
            (folder / "scenario").write_text(toml, encoding="utf-8")
            environment = "\0".join(f"{key}={value}" for key, value in os.environ.items())
            (folder / "environment").write_bytes(os.fsencode(environment))
            (folder / "directory").write_bytes(os.fsencode(Path.cwd()))
            with _following(folder):
                said = _boot(found, folder, _seed(toml, name, seed), None, running=programs(words))
            code = _code(folder, said)
            for option, file in outputs.items():
                if inside[option].exists():
                    _copy(inside[option], Path(file))
        except OSError as error:
            raise EngineError(f"{folder}: {reason(error)}") from error
        return code


def programs(words: list[str]) -> list[str]:
    """The command lines of the programs of a shell, for error messages.

    >>> programs(["shell", "--far", "iperf3 -s", "--", "iperf3", "-c", "far"])
    ['iperf3 -c far', 'iperf3 -s']
    """
    cut = words.index("--") if "--" in words else len(words)
    front = [" ".join(words[cut + 1 :])] if cut + 1 < len(words) else []
    pairs = pairwise(words[:cut])
    return front + [value for option, value in pairs if option in {"--far", "--near"}]


def _ready(kernel: str | None) -> store.Kernel:
    """The kernel of this name; an error if it is not built or this user cannot run it."""
    operating_system.require_linux("--engine linux")
    found = store.find(kernel)
    if tuple(map(int, found.release.split(".")[:2])) < _SECCOMP:
        check_ptrace()
    return found


def _write(folder: Path, words: list[str], given: bytes) -> None:
    """Writes the arguments, standard input and first program of a machine into its folder."""
    (folder / "arguments").write_text("\0".join(words), encoding="utf-8")
    (folder / "stdin").write_bytes(given)
    (folder / "init").symlink_to(HOST)


@contextmanager
def _following(folder: Path) -> Iterator[None]:
    """Copies the output of a machine to the streams of this process while it is written."""
    ended = threading.Event()
    streams = {"stdout": sys.stdout.buffer, "stderr": sys.stderr.buffer}
    done = dict.fromkeys(streams, 0)

    def copy() -> None:
        for name, stream in streams.items():
            with suppress(OSError), (folder / name).open("rb") as file:
                file.seek(done[name])
                while chunk := file.read(1 << 16):
                    done[name] += len(chunk)
                    stream.write(chunk)
                stream.flush()

    def follow() -> None:
        while not ended.wait(_FOLLOW_S):
            copy()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        copy()


def _seed(toml: str, name: str, seed: int | None) -> int:
    """The given seed, otherwise that of the scenario, otherwise the default."""
    if seed is not None:
        return seed
    keys = json.loads(_core.list_json("scenario"))["scenario"]
    default = next(key["default"] for key in keys if (key["section"], key["name"]) == ("", "seed"))
    return int(_core.toml_tables(toml, name).get("seed", default))


def check_ptrace(yama: Path = Path("/proc/sys/kernel/yama/ptrace_scope")) -> None:
    """Checks that this user may trace processes. A kernel of a virtual machine before Linux 6.16
    needs this permission to run its programs.

    Raises:
        EngineError: If this user may not trace processes, with the remedy.
    """
    with suppress(OSError, ValueError):
        scope = int(yama.read_text(encoding="ascii"))
        if scope > 2 or (scope == 2 and os.geteuid() != 0):  # noqa: PLR2004 - ptrace(2)
            raise EngineError(
                f"--engine linux: this user may not trace processes ({yama} is {scope}); write "
                "sudo sysctl kernel.yama.ptrace_scope=1, or run as root"
            )


@contextmanager
def _folder() -> Iterator[Path]:
    """A temporary folder for a run, whose name has only characters that the command line of a
    kernel can contain.
    """
    places = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
    place = next((p for p in places if _PLAIN.fullmatch(p) and os.access(p, os.W_OK)), None)
    if place is None:
        raise EngineError("--engine linux: no folder for temporary files; set TMPDIR")
    with ExitStack() as opened:
        try:
            made = opened.enter_context(scratch.folder("linux", place))
        except OSError as error:
            raise EngineError(f"{place}: {reason(error)}") from error
        yield made


def most() -> int:
    """Number of machines that fit into the free memory of this host; at least 1."""
    free = [_free(_memory_folder())]
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free.append(int(line.split()[1]) << 10)
    return max(1, min(free) // MEMORY)


def _memory_folder() -> str:
    """The folder of the file that holds the memory of the machine: `/dev/shm` if it has enough free
    space, otherwise a folder for temporary files.
    """
    for place in ("/dev/shm", "/tmp"):
        with suppress(OSError):
            if _free(place) >= MEMORY and os.access(place, os.W_OK):
                return place
    return tempfile.gettempdir()


def _free(place: str) -> int:
    """Free space of a file system, bytes."""
    seen = os.statvfs(place)
    return seen.f_bavail * seen.f_frsize


def _parameters(toml: str, words: Sequence[str]) -> list[str]:
    """The module parameters of the congestion controls of a scenario, for the command line of the
    kernel. `words` are the subcommand and the options of the run.

    Raises:
        EngineError: If a kernel cannot have them.
    """
    done = subprocess.run(
        [str(HOST), *words, "--kernel-parameters"],
        input=toml,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EngineError(done.stderr.strip())
    return done.stdout.split()


def command(kernel: Path, folder: Path, parameters: Sequence[str] = ()) -> list[str]:
    """The command line of a machine."""
    return [
        str(kernel),
        f"mem={MEMORY >> 20}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "ro",
        f"init={folder}/init",
        "time-travel=inf-cpu",
        f"time-travel-start={START_NS}",
        "con0=null,fd:1",
        "con=null",
        "quiet",
        "seccomp=auto",
        f"uml_dir={folder}/",
        "umid=machine",
        f"PATH={_PATH}",
        *parameters,
        "--",
        "guest",
        str(folder),
    ]


def _boot(
    kernel: store.Kernel,
    folder: Path,
    seed: int,
    progress: Progress | None,
    *,
    running: Sequence[str] = (),
    parameters: Sequence[str] = (),
) -> list[str]:
    """Runs the machine until it switches itself off; returns the last lines of its console.
    `running` are the programs that an error names, and `parameters` those of modules.
    """
    place = _memory_folder()
    free = _free(place)
    if free < MEMORY // 4:
        raise EngineError(
            f"{place}: {free / 1e6:.0f} MB are free, and the memory of the machine can take "
            f"{MEMORY / 1e6:.0f} MB; remove files, or set TMPDIR"
        )
    environment = {
        "PATH": _PATH,
        "HOME": str(folder),
        "TMPDIR": place,
        "NARROWS_SEED": str(seed),
    }
    lines: list[str] = []
    stalled = threading.Event()
    with subprocess.Popen(
        [str(HOST), "tied", *command(kernel.binary, folder, parameters)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        keep_on_one_processor(child.pid)
        watch = Watchdog(child.pid, stalled)
        try:
            watch.start()
            _listen(child.stdout, lines, progress, watch)
            with suppress(subprocess.TimeoutExpired):
                lines += killed(child.wait(_END_S))
        finally:
            watch.end()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
    if stalled.is_set():
        busy = " or ".join(running) or "a process in the machine"
        raise EngineError(
            f"--engine linux: virtual time did not advance for {STALLED_S:.0f} s of processor "
            f"time, because {busy} does not sleep; write a pause into its loop"
        )
    return lines


def keep_on_one_processor(process: int) -> None:
    """Restricts a process, and the processes that it starts from now on, to the processor on which
    it was started.

    The processes of a machine execute in turn, never at the same time. On one processor, a switch
    between them takes less processor time, because none of them is woken on another processor.
    """
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        processor = int(text.rpartition(")")[2].split()[_PROCESSOR])
        os.sched_setaffinity(process, {processor})


def killed(code: int) -> list[str]:
    """A line about the signal that ended a machine, from the exit code of its process; no line
    without a signal.

    >>> killed(-9)
    ['signal 9 (Killed) ended its process; this host may have too little free memory']
    >>> killed(-15), killed(1)
    (['signal 15 (Terminated) ended its process'], [])
    """
    if code >= 0:
        return []
    why = "; this host may have too little free memory" if code == -signal.SIGKILL else ""
    return [f"signal {-code} ({signal.strsignal(-code)}) ended its process{why}"]


class Watchdog(threading.Thread):
    """Ends the machine if virtual time does not advance while it uses processor time."""

    def __init__(self, session: int, stalled: threading.Event) -> None:
        """Creates a watchdog for the session and process group with this number."""
        super().__init__(daemon=True)
        self._session, self._stalled = session, stalled
        self._ended = threading.Event()
        self._advanced = threading.Event()

    def advanced(self) -> None:
        """Reports to the watchdog that virtual time has advanced."""
        self._advanced.set()

    def end(self) -> None:
        """Ends the thread of the watchdog."""
        self._ended.set()

    def run(self) -> None:
        """Compares the processor times of the session while virtual time does not advance."""
        last: float | None = 0.0
        while not self._ended.wait(_LOOK_S):
            if self._advanced.is_set():
                self._advanced.clear()
                last = None
            elif last is None:
                last = processor_time(self._session)
            elif processor_time(self._session) - last > STALLED_S:
                self._stalled.set()
                with suppress(ProcessLookupError):
                    os.killpg(self._session, signal.SIGKILL)
                return


def processor_time(session: int) -> float:
    """Processor time of all processes of a session, in s. All processes of the session are counted,
    because a kernel before 6.16 executes its programs in separate processes.
    """
    ticks = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError, ValueError, IndexError):
            text = (process / "stat").read_text(encoding="utf-8", errors="replace")
            fields = text.rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _listen(
    console: IO[bytes], lines: list[str], progress: Progress | None, watch: Watchdog
) -> None:
    """Reports the lines of progress on the console, and stores the last of the other lines in
    `lines`.
    """
    for raw in iter(lambda: console.readline(_MOST_LINE_BYTES), b""):
        line = raw.decode(errors="replace").rstrip()
        match line.split():
            case ["progress", now, end] if _NUMBER.fullmatch(now) and _NUMBER.fullmatch(end):
                watch.advanced()
                if progress is not None:
                    progress(float(now), float(end))
            case _:
                lines[:] = [*lines[-_KEPT_LINES:], line]


def _code(folder: Path, console: list[str]) -> int:
    """The exit code that the machine wrote into the folder.

    Raises:
        EngineError: If there is no exit code, because the machine ended early.
        OSError: If the folder is full.
    """
    try:
        return int(untrusted_input.head(folder / "code", _MOST_CODE_BYTES))
    except (OSError, ValueError) as error:
        _check_space(folder)
        raise EngineError(ended(console)) from error


def _check_space(folder: Path) -> None:
    """Checks that a file can be written into the folder, because a machine that could not write
    does not report the reason.

    Raises:
        OSError: If the file system of the folder is full.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(_MOST_LINE_BYTES))


def _copy(captured: Path, to: Path) -> None:
    """Copies a file that the machine wrote."""
    with (
        untrusted_input.opened(captured, MOST_RECORD_BYTES) as source,
        to.open("wb") as copy,
    ):
        shutil.copyfileobj(source, copy, 1 << 20)


def _result(folder: Path, console: list[str], record: str | None) -> _core.Run:
    """The run whose result the machine wrote into the folder.

    Raises:
        EngineError: If there is no result, with the reason.
    """
    code = _code(folder, console)
    words = untrusted_input.head(folder / "stderr", _MOST_LINE_BYTES)
    said = words.decode(errors="replace").strip()
    result = untrusted_input.read(folder / "stdout", untrusted_input.MOST_DATA_BYTES)
    head, _, rest = result.partition(b"\n")
    match head.split():
        case [b"run", json_size, size] if _sizes(json_size, size) == len(rest):
            document, samples = rest[: int(json_size)], rest[int(json_size) :]
        case _:
            _check_space(folder)
            raise EngineError(
                said or f"--engine linux: the run ended with {code}, without a result"
            )
    wrong = None
    if code != 0:
        wrong = said.removeprefix(f"--record {folder / 'record'}: ")
    elif record is not None:
        try:
            _copy(folder / "record", Path(record))
        except OSError as error:
            wrong = reason(error)
    return _core.run_elsewhere(document.decode(errors="replace"), samples, wrong)


def _sizes(*texts: bytes) -> int | None:
    """The sum of sizes that a machine has written; None if one of them is no number."""
    if not all(text.isdigit() and len(text) <= _MOST_CODE_BYTES for text in texts):
        return None
    return sum(map(int, texts))


def ended(console: list[str]) -> str:
    """The reason why a machine ended before its run, from the lines of its console.

    >>> ended(["Kernel panic - not syncing: Out of memory"])
    '--engine linux: the kernel of the virtual machine stopped: Out of memory'
    """
    for line in console:
        if match := re.search(r"Kernel panic - not syncing: (.*)", line):
            return f"--engine linux: the kernel of the virtual machine stopped: {match[1]}"
    for line in console:
        if re.search(r"ptrace|PTRACE", line) and re.search(r"fail|errno|not permitted", line):
            return (
                f"--engine linux: this user may not trace processes ({line.strip()}); for a "
                "container, write --cap-add SYS_PTRACE"
            )
    said = "; ".join(line.strip() for line in console[-3:] if line.strip())
    return f"--engine linux: the virtual machine ended early: {said or 'without a message'}"
