"""A bundle for the review of an artefact: made from a recipe, and verified by repetition.

The archive has a manifest (`bundle.json`), the inputs below `inputs/`, the results below `results/`
and a README. The manifest contains the commands, the version of narrows and the version of the
scenario format. The manifest also contains the size and the SHA-256 of each file, and a digest of
the values of each table. If the user loaded plugins, it contains their names and SHA-256, not
their code.

JSON results are compared without provenance and durations, tables by their values, LaTeX without
its comments, and other texts as they are. Figures and reports are written again and not compared,
because fonts and versions of Matplotlib change their pixels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Literal, cast

from narrows import _core, extras
from narrows.bundle import archive, execution, recipe
from narrows.bundle.model import ItemJson, ManifestJson, PluginJson, VerificationJson
from narrows.bundle.recipe import Command
from narrows.errors import NarrowsError
from narrows.models import loaded, plugins
from narrows.storage import output, provenance, scratch
from narrows.storage.text import name_of, text_of

KIND = "narrows bundle"
FORMAT = 1
"""Version of the format of the manifest."""

TIMEOUT_S = 3600
"""Default time limit of each command, in s."""

FIGURES = (".png", ".svg", ".pdf", ".html")
"""Suffixes of results that are written again and not compared."""

_TABLES = (".parquet", ".csv")
_VOLATILE = ("provenance", "took_s")
"""Keys of JSON that differ between runs."""

_SHOWN = 3

State = Literal["same", "differs", "missing", "figure"]
Progress = Callable[[float, float], object]


@dataclass(frozen=True, kw_only=True)
class Item:
    """The comparison of one result.

    Attributes:
        name: Name of the result.
        state: `same` or `differs` for the content of the repetition, `missing` if the repetition
            does not write the result, and `figure` for a result that is not compared.
        about: The first differences, or the reason of the state; empty if there is none.
    """

    name: str
    state: State
    about: str = ""

    def line(self) -> str:
        """One line for a person."""
        words = {"same": "same", "differs": "DIFFERS", "missing": "MISSING", "figure": "written"}
        about = self.about or ("figure, not compared" if self.state == "figure" else "")
        return f"{words[self.state]:8} {self.name}{f': {about}' if about else ''}"

    def json(self) -> ItemJson:
        """Machine-readable form."""
        return {"name": self.name, "state": self.state, "about": self.about}


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The comparison of all results of a bundle.

    Attributes:
        bundle: The manifest.
        items: The results.
        other_plugins: The models whose plugin has another SHA-256 or version than in the bundle.
    """

    bundle: ManifestJson
    items: list[Item]
    other_plugins: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether all compared results are the same."""
        return all(item.state in {"same", "figure"} for item in self.items)

    def json(self) -> VerificationJson:
        """Machine-readable form."""
        found: VerificationJson = {
            "agrees": self.agrees,
            "made_with": self.bundle["narrows"],
            "narrows": _core.__version__,
            "commands": self.bundle["commands"],
            "results": [item.json() for item in self.items],
        }
        if self.other_plugins:
            found["other_plugins"] = self.other_plugins
        return found


def make(
    file: str | PathLike[str],
    out: str | PathLike[str],
    *,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda _now, _end: None,
) -> ManifestJson:
    """Executes the commands of a recipe on copies of their inputs, and writes a bundle.

    The commands can use the models of all loaded plugins.

    Returns:
        The manifest.

    Raises:
        NarrowsError: If the recipe, an input or a command has errors.
        OutputError: If the bundle cannot be written.
    """
    watch = provenance.Watch()
    commands = recipe.lines(text_of(file, "a recipe"), name_of(file))
    inputs = execution.inputs(commands, Path(file).absolute().parent)
    with scratch.folder("bundle") as place:
        found = _executed(commands, inputs, place, timeout_s, progress)
        contents = {name: _content(made) for name, made in found.items()}
        digests = {name: _digest(name, made) for name, made in found.items()}
    members = {f"inputs/{name}": content for name, content in inputs.items()}
    members |= {f"results/{name}": content for name, content in contents.items()}
    manifest: ManifestJson = {
        "kind": KIND,
        "format": FORMAT,
        "narrows": _core.__version__,
        "scenario_format": _core.SCENARIO_FORMAT,
        "commands": [list(command.words) for command in commands],
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in members.items()
        },
        "contents": {name: digest for name, digest in digests.items() if digest is not None},
        "provenance": provenance.of_host(watch),
    }
    if used := _loaded():
        manifest["plugins"] = used
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    readme = _readme(manifest, PurePosixPath(name_of(out)).name)
    output.write(
        out,
        archive.packed({archive.MANIFEST: text.encode(), "README.md": readme.encode(), **members}),
    )
    return manifest


def verify(
    file: str | PathLike[str],
    *,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda _now, _end: None,
) -> Verification:
    """Executes the commands of a bundle in a temporary folder, and compares the results.

    Raises:
        NarrowsError: If the bundle is damaged or not safe, if a command fails, or if the model of a
            plugin is missing.
    """
    members = archive.unpacked(file)
    manifest = _manifest(members, name_of(file))
    others = _other_plugins(manifest.get("plugins", []), name_of(file))
    commands = [recipe.command(words) for words in manifest["commands"]]
    inputs = _below(members, "inputs/")
    stored = _below(members, "results/")
    with scratch.folder("bundle") as place:
        checked = place / "checked"
        _write(inputs, checked)
        # All files that the commands read must be among the inputs of the bundle.
        execution.inputs(commands, checked)
        found = _executed(commands, inputs, place, timeout_s, progress)
        items = [
            _compare(name, content, found.get(name), manifest["contents"].get(name))
            for name, content in stored.items()
        ]
    return Verification(bundle=manifest, items=items, other_plugins=others)


def _loaded() -> list[PluginJson]:
    """The plugins that the user loaded.

    Raises:
        NarrowsError: If one is a class of this program, which another process cannot load.
    """
    found: list[PluginJson] = []
    for plugin in loaded.LOADED:
        if plugin.kind == "package":
            continue  # The processes of the commands find it themselves.
        if plugin.kind == "class":
            raise NarrowsError(
                f"{plugin.name}: is a class of this program; write it to a file and load the file"
            )
        # Only the end of the name, because other machines have other folders.
        about: PluginJson = {
            "name": PurePosixPath(plugin.name).name,
            "models": [name for _, name in plugin.models],
        }
        if plugin.sha256 is not None:
            about["sha256"] = plugin.sha256
        if plugin.version is not None:
            about["version"] = plugin.version
        found.append(about)
    return found


def _other_plugins(wanted: Sequence[PluginJson], name: str) -> list[str]:
    """The models whose plugin has another SHA-256 or version than in a bundle.

    Raises:
        NarrowsError: If a model of these plugins is not loaded.
    """
    here = {model: plugin for plugin in loaded.LOADED for _, model in plugin.models}
    missing, others = [], []
    for plugin in wanted:
        sha256 = plugin.get("sha256")
        for model in plugin["models"]:
            if model not in here:
                of = f" with the SHA-256 {sha256}" if sha256 else ""
                missing.append(
                    f"{name}: needs the model {model} of the plugin {plugin['name']}{of}\n"
                    f"    write: narrows bundle --verify {name} --plugin {plugin['name']}"
                )
            elif (here[model].sha256, here[model].version) != (sha256, plugin.get("version")):
                others.append(model)
    if missing:
        raise NarrowsError("\n".join(missing))
    return others


def _executed(
    commands: Sequence[Command],
    inputs: Mapping[str, bytes],
    place: Path,
    timeout_s: float,
    progress: Progress,
) -> dict[str, Path]:
    """Executes commands on copies of their inputs, and returns the files of the results by name."""
    work = place / "work"
    _write(inputs, work)
    sent = [one for one in plugins.cargo() if one.model is None]
    said: dict[str, Path] = {}
    for number, command in enumerate(commands, 1):
        for name in command.outputs:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
        text = execution.execute(command, work, timeout_s, sent)
        suffix = "json" if "--json" in command.words else "txt"
        file = place / "stdout" / f"{number}.{suffix}"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        if text:
            said[f"stdout/{file.name}"] = file
        progress(number, len(commands))
    return execution.results(work, commands) | said


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    if len(content) > archive.MOST_BYTES:
        raise NarrowsError(
            f"{file.name}: is larger than {archive.MOST_BYTES >> 20} MiB; write a longer "
            "--sample-interval"
        )
    return content


def _below(members: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    return {
        name.removeprefix(folder): content
        for name, content in members.items()
        if name.startswith(folder)
    }


def _manifest(members: Mapping[str, bytes], name: str) -> ManifestJson:
    """The manifest, which must describe all members.

    Raises:
        NarrowsError: If the manifest is invalid, or a member does not have the stated SHA-256.
    """
    try:
        found = json.loads(members[archive.MANIFEST])
        right = (
            found["kind"] == KIND
            and isinstance(found["format"], int)
            and isinstance(found["narrows"], str)
            and isinstance(found["commands"], list)
            and len(found["commands"]) <= recipe.MOST_COMMANDS
            and all(isinstance(words, list) for words in found["commands"])
            and isinstance(found["files"], dict)
            and isinstance(found["contents"], dict)
            and _right_plugins(found.get("plugins", []))
        )
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise NarrowsError(f"{name}: is no bundle: it has no valid {archive.MANIFEST}") from error
    if not right:
        raise NarrowsError(f"{name}: is no bundle: {archive.MANIFEST} has values of other types")
    if found["format"] > FORMAT:
        raise NarrowsError(
            f"{name}: has the format {found['format']}; this version of narrows reads format "
            f"{FORMAT}; install a newer version"
        )
    there = {
        one: hashlib.sha256(content).hexdigest()
        for one, content in members.items()
        if one not in {archive.MANIFEST, "README.md"}
    }
    stated = {
        one: about.get("sha256") if isinstance(about, dict) else None
        for one, about in found["files"].items()
    }
    for one in sorted(there.keys() | stated.keys()):
        if there.get(one) != stated.get(one):
            raise NarrowsError(f"{name}: {one}: does not agree with its SHA-256; it was changed")
    return cast("ManifestJson", found)


def _right_plugins(found: object) -> bool:
    """Whether the plugins in a manifest have the keys and types of `PluginJson`."""
    return isinstance(found, list) and all(
        isinstance(one, dict)
        and isinstance(one.get("name"), str)
        and isinstance(one.get("models"), list)
        and all(isinstance(model, str) for model in one["models"])
        and all(isinstance(one.get(key, ""), str) for key in ("sha256", "version"))
        for one in found
    )


def _digest(name: str, file: Path) -> str | None:
    """A digest of the values of a table; None for other files.

    Only tables that a repeated command has just written are read. For the stored tables, which may
    come from a stranger, the manifest has the digests.
    """
    if not name.endswith(_TABLES):
        return None
    extras.require_pyarrow()
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    table = pq.read_table(file) if name.endswith(".parquet") else csv.read_csv(file)
    digest = hashlib.sha256()

    class Sink:
        closed = False

        def write(self, piece: bytes) -> int:
            digest.update(piece)
            return len(piece)

        def writable(self) -> bool:
            return True

        def flush(self) -> None:
            pass

        def close(self) -> None:
            pass

    for column in table.column_names:
        digest.update(f"{column}\n".encode())
    csv.write_csv(table, Sink())
    return digest.hexdigest()


def _compare(name: str, stored: bytes, made: Path | None, digest: object) -> Item:
    if made is None:
        return Item(name=name, state="missing", about="the commands do not write it")
    if name.endswith(FIGURES):
        return Item(name=name, state="figure")
    if name.endswith(_TABLES):
        same = _digest(name, made) == digest
        return Item(name=name, state="same" if same else "differs", about="" if same else "values")
    content = made.read_bytes()
    if name.endswith(".json"):
        return _compare_json(name, stored, content)
    before, after = _lines(stored, name), _lines(content, name)
    if before == after:
        return Item(name=name, state="same")
    pairs = zip([*before, ""], [*after, ""], strict=False)
    number = next((n for n, (a, b) in enumerate(pairs, 1) if a != b), len(before) + 1)
    return Item(name=name, state="differs", about=f"line {number}")


def _lines(content: bytes, name: str) -> list[str]:
    """The lines of a text, without the comments of LaTeX, which name the version."""
    lines = content.decode(errors="replace").splitlines()
    return [line for line in lines if not (name.endswith(".tex") and line.startswith("%"))]


def _compare_json(name: str, stored: bytes, made: bytes) -> Item:
    try:
        before = json.loads(stored)
    except (ValueError, RecursionError):
        return Item(name=name, state="differs", about="the stored file is no JSON")
    try:
        found = _differences(before, json.loads(made), "")
        first = [one for one, _ in zip(found, range(_SHOWN + 1), strict=False)]
    except RecursionError:
        return Item(name=name, state="differs", about="the stored file is nested too deeply")
    if not first:
        return Item(name=name, state="same")
    more = " and others" if len(first) > _SHOWN else ""
    return Item(name=name, state="differs", about=", ".join(first[:_SHOWN]) + more)


def _differences(before: object, after: object, at: str) -> Iterator[str]:
    """The places where two trees differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key not in _VOLATILE:
                place = f"{at}.{key}" if at else str(key)
                yield from _differences(before.get(key), after.get(key), place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{at}.{number}")
    elif before != after:
        yield f"{at}: {str(before)[:40]} before, {str(after)[:40]} now"


def _readme(manifest: ManifestJson, name: str) -> str:
    lines = [Command(tuple(words), (), (), None).line for words in manifest["commands"]]
    commands = "\n".join(lines)
    used = manifest.get("plugins", [])
    options = "".join(f" --plugin {plugin['name']}" for plugin in used)
    needed = "".join(
        f"- `{plugin['name']}`: {', '.join(plugin['models'])}"
        f"{' (SHA-256 ' + plugin['sha256'] + ')' if 'sha256' in plugin else ''}\n"
        for plugin in used
    )
    about = f"The commands need plugins, which are not in the bundle:\n\n{needed}\n"
    return (
        f"# Bundle of narrows {manifest['narrows']}\n\n"
        f"`narrows bundle --verify {name}{options}` runs these commands again in a temporary\n"
        "folder and compares their results with the files in `results/`. It reports each file.\n\n"
        f"{about if used else ''}"
        f"```sh\n{commands}\n```\n\n"
        "The commands ran in the folder `inputs/`. Their standard output is in "
        "`results/stdout/`.\n"
    )
