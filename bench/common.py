"""Shared code of the benchmarks: checked numbers, builds and runs of programs, handling of Ctrl-C.

The import of `validation.asked` installs a handler for Ctrl-C that prints one line instead of a
traceback.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from validation.asked import positive  # noqa: E402  the checkout is no package

__all__ = ["ROOT", "built", "positive", "run"]


def built(package: str, kind: str, name: str) -> str:
    """Builds the program `name` of the Cargo package `package`, where `kind` is "bin" or "example".
    Returns its path.
    """
    command = ["cargo", "build", "--quiet", "--release", "--package", package, f"--{kind}", name]
    try:
        if subprocess.run(command, check=False, cwd=ROOT).returncode:
            sys.exit(f"{' '.join(command)} failed")
    except FileNotFoundError:
        sys.exit("cargo is not installed")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return str(target / ("examples" if kind == "example" else "") / name)


def run(command: list[str], longest_s: float | None = None) -> dict[str, float]:
    """The results that a program prints as JSON in its last line. The CPU time of its process
    (user and system, in seconds) and its peak memory are added. A program that takes longer than
    `longest_s` is killed, and an error is raised.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        timer = threading.Timer(longest_s or threading.TIMEOUT_MAX, child.kill)
        timer.start()
        *_, last = child.stdout.read().splitlines() or [""]
        _, status, usage = os.wait4(child.pid, 0)
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    done = json.loads(last)
    return done | {"cpu_s": usage.ru_utime + usage.ru_stime, "rss_bytes": usage.ru_maxrss * 1024}
