"""Shared code of the benchmarks: checked numbers, builds of programs, handling of Ctrl-C.

The import of `validation.asked` installs a handler for Ctrl-C that prints one line instead of a
traceback.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from validation.asked import positive  # noqa: E402  the checkout is no package

__all__ = ["ROOT", "built", "positive"]


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
