"""The cache of built kernels.

`$XDG_CACHE_HOME/narrows/kernels` (`~/.cache`) has one folder per binary. The name of the folder is
the key of the kernel: a hash of the source, the patches, the configuration and the changes. The
folder contains `linux`, the binary, and `kernel.json`, its description.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from narrows.errors import EngineError, NarrowsError, reason
from narrows.kernel import options
from narrows.storage.durable import replacing

BINARY = "linux"
"""Name of the binary in its folder."""

_DESCRIPTION = "kernel.json"
_KEY_DIGITS = 16


def folder() -> Path:
    """The cache of kernels and their sources."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "narrows" / "kernels"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A built kernel.

    Attributes:
        name: The name of `--kernel`: the release, and the names of patches after a plus sign.
        release: The whole release, such as 6.12.117.
        key: The hash that names the folder.
        configuration: The hash of the configuration and of the changes to the source.
        source: The hash of the source archive.
        origin: The package or file of the source.
        patches: Names and hashes of the patches.
        build_s: Duration of the build, in s.
    """

    name: str
    release: str
    key: str
    configuration: str
    source: str
    origin: str
    patches: dict[str, str]
    build_s: float

    @property
    def binary(self) -> Path:
        """The program."""
        return folder() / self.key / BINARY

    @property
    def current(self) -> bool:
        """Whether the kernel was built with the configuration and changes of this version of
        narrows.
        """
        return self.configuration == configuration_hash()

    def as_object(self) -> dict[str, Any]:
        """The description as JSON."""
        return asdict(self) | {"current": self.current, "binary": str(self.binary)}


def configuration_hash() -> str:
    """The hash of the configuration and of the changes to the source."""
    configurations = (options.text(release) for release in ("5.10", "6.12"))
    parts = [*configurations, *(change.text() for change in options.CHANGES)]
    return _hash(part.encode() for part in parts)


def file_hash(file: Path) -> str:
    """The hash of the contents of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def key(source: str, patches: Iterable[str]) -> str:
    """The key of a kernel: a hash of its configuration and of the hashes of its source and its
    patches, in their order.
    """
    parts = (source, configuration_hash(), *patches)
    return _hash(part.encode() for part in parts)[:_KEY_DIGITS]


def _hash(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def name_of_kernel(release: str, patches: Iterable[str]) -> str:
    """The name of a kernel, from its release and the file names of its patches.

    >>> name_of_kernel("6.12.117", ["fixes/cubic-beta.patch"])
    '6.12+cubic-beta'
    """
    short = ".".join(release.split(".")[:2])
    return "+".join((short, *(re.sub(r"\.(patch|diff)$", "", Path(p).name) for p in patches)))


def built() -> list[Kernel]:
    """The built kernels, by release and name."""
    kernels = []
    with suppress(OSError):
        for place in sorted(folder().iterdir()):
            with suppress(OSError, ValueError, TypeError):
                kernel = Kernel(**json.loads((place / _DESCRIPTION).read_text(encoding="utf-8")))
                if kernel.key == place.name and kernel.binary.is_file():
                    kernels.append(kernel)

    def numbers(kernel: Kernel) -> list[int]:
        return [int(n) for n in re.findall(r"\d+", kernel.release)]

    return sorted(kernels, key=lambda kernel: (numbers(kernel), kernel.name, kernel.key))


def find(name: str | None) -> Kernel:
    """The newest kernel of a name or key; without a name, the newest without patches. Kernels that
    another version of narrows built with another configuration are left out.

    Raises:
        EngineError: If there is no such kernel, with the command that builds it.
    """
    kernels = built()
    if name is None:
        found = [kernel for kernel in kernels if not kernel.patches]
    else:
        found = [kernel for kernel in kernels if name in {kernel.name, kernel.key}]
    current = [kernel for kernel in found if kernel.current]
    if current:
        return current[-1]
    place = "--engine linux" if name is None else f"--kernel {name}"
    if found:
        raise EngineError(
            f"{place}: this kernel was built by another version of narrows; write "
            f"{_build_command(found[-1].name, found[-1].patches)}"
        )
    names = ", ".join(dict.fromkeys(kernel.name for kernel in kernels if kernel.current))
    known = f" (built: {names})" if names else ""
    raise EngineError(f"{place}: this kernel is not built{known}; write {_build_command(name)}")


def _build_command(name: str | None, patches: Iterable[str] = ()) -> str:
    """The command that builds a kernel of this name, with the file names of its patches if they are
    known. The command accepts neither a key nor a whole release such as 6.12.117.
    """
    match = re.match(r"(\d+\.\d+)(\.\d+)*(\+|$)", name or "6.12")
    if match is None:
        return "narrows kernel build RELEASE, such as 6.12"
    options = "".join(f" --patch {patch}" for patch in patches)
    known = options or (" with its patches" if match[3] else "")
    return f"narrows kernel build {match[1]}{known}"


def add(kernel: Kernel, binary: Path) -> None:
    """Copies a binary into the cache, with the description of its kernel.

    Raises:
        OSError: If the cache cannot be written.
    """
    place = folder() / kernel.key
    with replacing(place, BINARY) as part:
        shutil.copy2(binary, part)
        part.chmod(0o755)
    with replacing(place, _DESCRIPTION) as part:
        part.write_text(json.dumps(asdict(kernel), indent=1) + "\n", encoding="utf-8")


def remove(kernel: Kernel) -> None:
    """Removes a built kernel from the cache.

    Raises:
        NarrowsError: If the kernel cannot be removed.
    """
    try:
        shutil.rmtree(folder() / kernel.key)
    except OSError as error:
        raise NarrowsError(f"{folder() / kernel.key}: {reason(error)}") from error
