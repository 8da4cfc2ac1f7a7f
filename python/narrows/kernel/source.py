"""The source of a kernel: an archive of the user, or the package `linux-source-X.Y` of Debian.

The package index of this host is used if it lists the package. Otherwise apt runs with a private
configuration in the cache of narrows, which has its own list of sources, indexes and archives. The
apt sources of this host are read and not changed. The private configuration uses the mirror,
proxies, transports and keys of the host.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from narrows.errors import EngineError, reason
from narrows.kernel import store

MIRROR = "http://deb.debian.org/debian"
"""The mirror that is used on a host without Debian sources."""

SUITES = ("trixie", "trixie-backports", "sid", "bullseye")
"""Suites of Debian that are searched, in this order."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""The file with the keys of Debian's archive."""

_SOURCES = Path("/etc/apt")
_RELEASE = re.compile(r"\d+\.\d+")
_PATIENCE_S = 900

Progress = Callable[[str], object]
"""Receives a description of each step."""


@dataclass(frozen=True)
class Source:
    """The archive of a source.

    Attributes:
        archive: The file.
        origin: The package with its version, or the name of the file.
    """

    archive: Path
    origin: str


def is_release(name: str) -> bool:
    """Whether a name is that of a release and not of a file.

    >>> is_release("6.12"), is_release("linux-6.12.tar.xz")
    (True, False)
    """
    return _RELEASE.fullmatch(name) is not None


def of(name: str, tell: Progress) -> Source:
    """The source of a release, which is downloaded if necessary, or an archive of the user.

    Raises:
        EngineError: If there is no such package or file.
    """
    if is_release(name):
        return _of_release(name, tell)
    archive = Path(name)
    if not archive.is_file():
        raise EngineError(
            f"{name}: there is no such archive; write a release such as 6.12, or the path of a "
            "source archive"
        )
    return Source(archive.resolve(), archive.name)


def _of_release(release: str, tell: Progress) -> Source:
    package = f"linux-source-{release}"
    for command in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(command) is None:
            raise EngineError(
                f"narrows kernel build {release}: this host has no {command}, which downloads the "
                "source; write the path of a source archive, such as linux-6.12.tar.xz"
            )
    try:
        for options in ([], _private()):
            tell(f"searching {package}")
            version = _candidate(package, options)
            if options:
                version = _search(package, options, version, tell)
            if version is not None:
                return _download(package, version, options, tell)
    except OSError as error:
        raise EngineError(f"{store.folder()}: {reason(error)}") from error
    raise EngineError(
        f"narrows kernel build {release}: there is no package {package} on this host and in "
        f"{', '.join(SUITES)} of Debian; write the path of a source archive"
    )


def mirror(sources: Path = _SOURCES) -> str:
    """The first Debian mirror in the apt sources of the host; `MIRROR` if they have none."""
    files = [sources / "sources.list"]
    with suppress(OSError):
        files += sorted((sources / "sources.list.d").iterdir())
    for file in files:
        with suppress(OSError):
            for uri in uris(file.read_text(encoding="utf-8", errors="replace")):
                if uri.rstrip("/").endswith("/debian"):
                    return uri.rstrip("/")
    return MIRROR


def uris(text: str) -> list[str]:
    r"""The addresses in a file of apt's sources, in both formats.

    >>> uris("deb [arch=amd64] http://one/debian sid main")
    ['http://one/debian']
    >>> uris("Types: deb\nURIs: http://one/debian http://two/debian\nSuites: sid")
    ['http://one/debian', 'http://two/debian']
    """
    found = []
    for line in text.splitlines():
        if match := re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)", line):
            found.append(match[1])
        elif match := re.match(r"URIs:\s*(.*)", line):
            found += match[1].split()
    return found


def _private() -> list[str]:
    """Creates the folders of a private configuration of apt, and returns the options that select
    it.
    """
    place = store.folder() / "apt"
    for name in ("lists/partial", "archives/partial"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (place / "status").touch()
    values = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::Etc::Preferences": "-",
        "Dir::Etc::PreferencesParts": "-",
        "Dir::State": place,
        "Dir::State::Lists": place / "lists",
        "Dir::State::Status": place / "status",
        "Dir::Cache": place,
        "Dir::Cache::Archives": place / "archives",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
        "APT::Update::Post-Invoke-Success": "",
    }
    return [word for name, value in values.items() for word in ("-o", f"{name}={value}")]


def _search(package: str, options: list[str], version: str | None, tell: Progress) -> str | None:
    """The version of a package in the first of `SUITES` that has it; None if none has it."""
    at = mirror()
    signed = f" [signed-by={KEYRING}]" if KEYRING.is_file() else ""
    for number in range(1, len(SUITES) + 1):
        if version is not None:
            return version
        suites = SUITES[:number]
        lines = "".join(f"deb{signed} {at} {suite} main\n" for suite in suites)
        (store.folder() / "apt" / "sources.list").write_text(lines, encoding="utf-8")
        tell(f"searching {package} in {suites[-1]}")
        _apt(["apt-get", *options, "-q", "update"])
        version = _candidate(package, options)
    return version


def _candidate(package: str, options: list[str]) -> str | None:
    """The version that apt would download, or None."""
    said = _apt(["apt-cache", *options, "policy", package])
    match = re.search(r"^  Candidate: (\S+)$", said, re.MULTILINE)
    return match[1] if match and match[1] != "(none)" else None


def _download(package: str, version: str, options: list[str], tell: Progress) -> Source:
    """Downloads a package and extracts its source archive, unless the cache already has the
    archive.
    """
    place = store.folder() / "sources"
    place.mkdir(parents=True, exist_ok=True)
    archive = place / f"{package}_{version.replace(':', '_')}.tar.xz"
    if not archive.is_file():
        tell(f"downloading {package} {version}")
        part = place / f".{archive.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            download = ["apt-get", *options, "-q", "download", f"{package}={version}"]
            _apt([*download, "-o", "APT::Sandbox::User=root"], part)
            (file,) = part.glob("*.deb")
            _apt(["dpkg-deb", "-x", str(file), str(part / "tree")])
            found = sorted((part / "tree/usr/src").glob("linux-source-*.tar.*"))
            if not found:
                raise EngineError(f"{file.name}: the package contains no source archive")
            found[0].replace(archive)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return Source(archive, f"{package} {version}")


def _apt(command: list[str], folder: Path | None = None) -> str:
    """The output of a command.

    Raises:
        EngineError: If the command fails, with its error message.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{command[0]}: no result within {_PATIENCE_S} s") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        said = "; ".join(line[2:].strip() for line in lines) or f"exit code {done.returncode}"
        raise EngineError(f"{command[0]} {command[-1]}: {said}")
    return done.stdout
