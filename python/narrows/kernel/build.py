"""Building a kernel: unpack, change, patch, configure, compile.

The source tree is in the cache during the build and takes 1.3 GB with its objects. The source tree
is removed at the end, after an error and after Ctrl-C. A tree that a killed process left is removed
by the next build.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from narrows import operating_system
from narrows.errors import EngineError, reason
from narrows.kernel import options, source, store
from narrows.storage import untrusted_input

TOOLS = {
    "make": "make",
    "gcc": "gcc",
    "ld": "binutils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "awk": "mawk",
    "tar": "tar",
    "xz": "xz-utils",
}
"""Programs that the build starts, and the Debian packages that contain them."""

PATCH = ("patch", "patch")
"""The program that applies patches, and its package."""

HEADERS = ("/usr/include/stdio.h", "libc6-dev")
"""A file of the C library that the build needs, and its package."""

OBJECTS = 1027
"""Number of lines about objects that a build of 6.12 prints, for the progress bar."""

LEAST_FREE = 2 << 30
"""Required free space, bytes: the tree and its objects take 1.3 GB."""

MOST_PATCH_BYTES = 64 * 1024 * 1024
"""Size limit of a patch, bytes."""
_CHANGES = re.compile(rb"^(@@ -\d|diff --git |\*{15})", re.MULTILINE)
"""A line of a patch: of a change in the unified format, of a file of git, of a context diff."""

Progress = Callable[[float, float, str], object]
"""Receives the amount of work done, the whole amount, and a description."""

_WITHOUT = (
    "*/Documentation/*.rst",
    "*/Documentation/*.yaml",
    "*/arch/[a-tv-w]*/*.[chS]",
    "*/arch/xt*/*.[chS]",
    "*/drivers/gpu/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/testing/*",
    "*.dts",
    "*.dtsi",
)
"""Files that no configuration of `ARCH=um` reads. All Kconfig files are needed."""

_OBJECT = re.compile(rb"^\s+(CC|AS|HOSTCC|LD|AR)\s")
_SHOWN = 12


def missing_tools(*, patched: bool) -> list[str]:
    """The Debian packages of programs and files that a build needs and that this host lacks."""
    wanted = TOOLS | (dict([PATCH]) if patched else {})
    packages = [package for tool, package in wanted.items() if shutil.which(tool) is None]
    if not Path(HEADERS[0]).exists():
        packages.append(HEADERS[1])
    return packages


def build(
    name: str, patches: Sequence[Path], progress: Progress, *, again: bool = False
) -> tuple[store.Kernel, bool]:
    """The kernel of a release or of a source archive, which is built if necessary, and whether it
    was built by this call.

    Raises:
        EngineError: If the kernel cannot be built.
    """
    machine = operating_system.machine()[3]
    if machine != "x86_64":
        raise EngineError(
            f"narrows kernel build: user-mode Linux supports x86_64, and this is {machine}"
        )
    hashes = _hashes(patches)
    packages = missing_tools(patched=bool(patches))
    if packages:
        raise EngineError(
            "narrows kernel build: programs are missing; write sudo apt-get install "
            + " ".join(packages)
        )
    found = source.of(name, lambda text: progress(0, 1, text))
    progress(0, 1, "reading the source archive")
    digest = store.file_hash(found.archive)
    key = store.key(digest, hashes.values())
    for kernel in store.built():
        if kernel.key == key and not again:
            return kernel, False
    begin = time.monotonic()
    try:
        with _tree() as tree:
            progress(0, 1, "unpacking the source")
            _unpack(found.archive, tree)
            release = _release(tree, found)
            if source.is_release(name) and not release.startswith(f"{name}."):
                raise EngineError(f"{found.origin}: the release of this source is {release}")
            _change(tree)
            for patch in patches:
                progress(0, 1, f"applying {patch.name}")
                _patch(tree, patch)
            progress(0, 1, "configuring")
            _configure(tree, release)
            _compile(tree, progress)
            kernel = store.Kernel(
                name=store.name_of_kernel(release, map(str, patches)),
                release=release,
                key=key,
                configuration=store.configuration_hash(),
                source=digest,
                origin=found.origin,
                patches=hashes,
                build_s=round(time.monotonic() - begin, 1),
            )
            _run(["strip", store.BINARY], tree, "strip")
            store.add(kernel, tree / store.BINARY)
    except OSError as error:
        raise EngineError(f"{store.folder()}: {reason(error)}") from error
    return kernel, True


def _hashes(patches: Sequence[Path]) -> dict[str, str]:
    """Names and hashes of patches."""
    hashes: dict[str, str] = {}
    for patch in patches:
        try:
            content = untrusted_input.read(patch, MOST_PATCH_BYTES)
            if _CHANGES.search(content) is None:
                raise EngineError(
                    f"--patch {patch}: is not a patch, because it changes no line; write a file of "
                    "`git diff` or `diff -u`"
                )
            hashes[patch.name] = hashlib.sha256(content).hexdigest()
        except FileNotFoundError as error:
            raise EngineError(f"--patch {patch}: no such file") from error
        except OSError as error:
            raise EngineError(f"--patch {patch}: {reason(error)}") from error
    if len(hashes) < len(patches):
        raise EngineError("--patch: two patches have the same file name; rename one")
    return hashes


@contextmanager
def _tree() -> Iterator[Path]:
    """An empty folder for a source tree, which is removed at the end. Other builds wait until this
    one ends. Trees that killed builds left are removed first.
    """
    place = store.folder() / "build"
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        operating_system.lock(lock, operating_system.EXCLUSIVE)
        for left in place.glob("tree-*"):
            shutil.rmtree(left, ignore_errors=True)
        free = shutil.disk_usage(place).free
        if free < LEAST_FREE:
            raise EngineError(
                f"{place}: {free / 1e9:.1f} GB are free, and a build needs "
                f"{LEAST_FREE / 1e9:.1f} GB; remove files, or set XDG_CACHE_HOME"
            )
        tree = Path(tempfile.mkdtemp(prefix="tree-", dir=place))
        try:
            yield tree
        finally:
            shutil.rmtree(tree, ignore_errors=True)


def _unpack(archive: Path, tree: Path) -> None:
    excluded = [f"--exclude={pattern}" for pattern in _WITHOUT]
    command = ["tar", "-xf", str(archive), "--strip-components=1", "--wildcards", *excluded]
    _run(command, tree, archive.name, XZ_DEFAULTS="-T0")


def _release(tree: Path, found: source.Source) -> str:
    """The release of a tree, from its Makefile."""
    try:
        text = (tree / "Makefile").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise EngineError(f"{found.archive.name}: the archive contains no kernel source") from error
    release = release_of(text)
    if release is None:
        raise EngineError(f"{found.archive.name}: the Makefile contains no kernel release")
    return release


def release_of(makefile: str) -> str | None:
    r"""The release in the text of a kernel's Makefile.

    >>> release_of("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n")
    '6.12.117'
    """
    words = dict(re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = *(\d+)$", makefile, re.MULTILINE))
    if len(words) < len(("VERSION", "PATCHLEVEL", "SUBLEVEL")):
        return None
    return f"{words['VERSION']}.{words['PATCHLEVEL']}.{words['SUBLEVEL']}"


def _change(tree: Path) -> None:
    for change in options.CHANGES:
        if not _changed(tree, change) and not (
            change.older and all(_changed(tree, one) for one in change.older)
        ):
            raise EngineError(
                f"{change.file}: narrows cannot change {change.why} in this release; write another "
                "release, such as 6.12"
            )


def _changed(tree: Path, change: options.Change) -> bool:
    """Applies a change; returns whether the source has the text that it changes."""
    file = tree / change.file
    text = change.apply(file.read_text(encoding="utf-8")) if file.is_file() else None
    if text is None:
        return False
    file.write_text(text, encoding="utf-8")
    return True


def _patch(tree: Path, patch: Path) -> None:
    command = ["patch", "-p1", "--forward", "--batch", "--input", str(patch.resolve())]
    _run(command, tree, f"--patch {patch}")


def _configure(tree: Path, release: str) -> None:
    (tree / "narrows.config").write_text(options.text(release), encoding="utf-8")
    command = ["make", "ARCH=um", "KCONFIG_ALLCONFIG=narrows.config", "allnoconfig"]
    _run(command, tree, "the configuration")
    lacking = options.missing((tree / ".config").read_text(encoding="utf-8"))
    if lacking:
        raise EngineError(
            f"Linux {release}: this release does not support {', '.join(lacking)}; write another "
            "release, such as 6.12"
        )


def _compile(tree: Path, progress: Progress) -> None:
    """Runs make; after an exception such as Ctrl-C, make and all its children are ended."""
    command = ["make", "ARCH=um", f"-j{os.cpu_count() or 1}", store.BINARY]
    kept: list[bytes] = []
    done = 0
    with subprocess.Popen(
        command,
        cwd=tree,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
        start_new_session=True,
    ) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                kept = [*kept[-_SHOWN:], line]
                if _OBJECT.match(line):
                    done += 1
                    progress(done, max(OBJECTS, done + 1), "compiling")
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            raise
    if child.returncode != 0:
        raise _failed("make", b"".join(kept))


def _environment(**more: str) -> dict[str, str]:
    """The environment of the build, without variables that change the behaviour of make."""
    removed = ("MAKEFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "KCFLAGS", "O")
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    return kept | {"LC_ALL": "C"} | more


def _run(command: list[str], tree: Path, what: str, **environment: str) -> None:
    """Runs a command in the source tree; if it fails, the error contains its output.

    Raises:
        EngineError: If the command fails.
    """
    done = subprocess.run(
        command,
        cwd=tree,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(**environment),
        check=False,
    )
    if done.returncode != 0:
        raise _failed(what, done.stdout)


def _failed(what: str, output: bytes) -> EngineError:
    if b"does not look like a tar archive" in output:
        return EngineError(
            f"{what}: not a source archive; write a release such as 6.12, or the path of an "
            "archive such as linux-6.12.tar.xz"
        )
    lines = output.decode(errors="replace").splitlines()
    wrong = [line for line in lines if re.search(r"error|failed|FAILED|No space", line)] or lines
    said = "\n".join(f"    {line}" for line in wrong[-_SHOWN:])
    return EngineError(f"{what}: the build failed:\n{said}")
