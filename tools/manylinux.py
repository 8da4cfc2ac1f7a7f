"""Checks that no program or library in a wheel requires a newer glibc than the name of the wheel
states.

    python -m tools.manylinux FILE.whl

maturin checks the extension module only; the wheel also contains the program `narrows-host`. If
auditwheel is installed, it checks the wheel, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_TAG = re.compile(r"manylinux_(\d+)_(\d+)_")
_VERSION = re.compile(r"\bGLIBC_(\d+)\.(\d+)")
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+?)\]")
_ELF = b"\x7fELF"
PERMITTED = frozenset(
    {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
)
"""Libraries that every manylinux system has; the dynamic loader is also permitted."""


def problems(wheel: Path) -> list[str]:
    """A message for each file that requires a newer glibc than the name of the wheel states, or
    another library.
    """
    tag = _TAG.search(wheel.name)
    if tag is None:
        return [f"{wheel.name}: the name has no tag manylinux_X_Y"]
    stated = (int(tag[1]), int(tag[2]))
    found = []
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if not content.startswith(_ELF):
                continue
            file = Path(folder) / "file"
            file.write_bytes(content)
            command = ["readelf", "--wide", "--dynamic", "--version-info", str(file)]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            newest = max(((int(a), int(b)) for a, b in _VERSION.findall(told)), default=(0, 0))
            if newest > stated:
                found.append(f"{name}: needs glibc {newest[0]}.{newest[1]}")
            for library in _NEEDED.findall(told):
                if library not in PERMITTED and not library.startswith("ld-linux"):
                    found.append(f"{name}: needs {library}")
    return found


def main(names: list[str]) -> int:
    """Checks each wheel, prints the problems, and returns the exit code."""
    wrong = [line for name in names for line in problems(Path(name))]
    for line in wrong:
        print(line)
    if not wrong and shutil.which("auditwheel"):
        for name in names:
            subprocess.run(["auditwheel", "show", name], check=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
