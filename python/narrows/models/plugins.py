"""Plugins: files, modules and installed packages that contain models.

The code of a plugin has all rights of the user. Only the option `--plugin`, a call of `load` or
`register`, or the entry point of an installed package loads a plugin. A scenario cannot name a file
of a plugin. An unknown name of a model in a scenario is looked up among the entry points of
packages that the user has installed.
"""

from __future__ import annotations

import atexit
import hashlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import Any

from narrows import _core, registry
from narrows.errors import EngineError, NarrowsError, reason
from narrows.models import faults
from narrows.models.base import CongestionControl, QueueDiscipline, specification
from narrows.models.loaded import LIBRARIES, LOADED, Names, Plugin
from narrows.storage import scratch, untrusted_input

GROUP = "narrows.models"
"""The group of entry points; an entry point has the name of its model."""

Model = type[CongestionControl] | type[QueueDiscipline]


@dataclass(frozen=True, kw_only=True)
class Cargo:
    """A plugin in a form that can be sent to another process, possibly on another machine.

    Attributes:
        name: Name of the plugin, as the user wrote it.
        path: File of the plugin; None for a module or a class.
        content: The content of the file, for another machine.
        sha256: SHA-256 of the file.
        model: A class, which only Ray can send.
    """

    name: str
    path: str | None = None
    content: bytes | None = None
    sha256: str | None = None
    model: Any = None

    def unpack(self) -> None:
        """Loads the plugin in this process, unless it is already loaded."""
        if any(p.name == self.name and p.sha256 == self.sha256 for p in LOADED):
            return
        if self.model is not None:
            _register([self.model], self.name, "class", None, self.sha256)
        elif self.path is None:
            load(self.name)
        elif self.content is None:
            _file(self.name, Path(self.path), self.sha256)
        elif self.path.endswith(LIBRARIES):
            file = _folder() / f"{self.sha256}{Path(self.path).suffix}"
            file.write_bytes(self.content)
            _file(self.name, file, self.sha256)
        else:
            _source(self.name, Path(self.path), self.content, self.sha256)


ADAPTERS = Path(__file__).parents[1] / "adapters"
"""The folder of the adapters of transports, which `make adapters` builds."""
ADAPTERS_BY_NAME = ("quinn", "noq", "smoltcp", "quiche")
"""The adapters of narrows. A module of one of these names may exist, too."""

_CLASSES: dict[tuple[str, str], Model] = {}
_MISSING: set[tuple[str, str]] = set()


@cache
def _folder() -> Path:
    """A temporary folder of this process, which only this user can read."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(scratch.folder("plugins"))


def load(name: str | PathLike[str]) -> Names:
    """Loads the plugin of this name: a Python file, a shared library, an adapter, or a module.

    Raises:
        NarrowsError: If the plugin cannot be loaded.
    """
    text = str(name)
    if text.endswith((".py", *LIBRARIES)) or "/" in text or Path(text).is_file():
        return _file(text, Path(name))
    if (adapter := _adapter(text)) is not None:
        return _file(text, adapter)
    if not all(part.isidentifier() for part in text.split(".")):
        raise NarrowsError(f"{text}: neither a file (.py, .so) nor the name of a module")
    if text in ADAPTERS_BY_NAME and find_spec(text) is None:
        raise NarrowsError(
            f"{text}: this adapter is not built; write make adapters ADAPTERS='{text}' in a "
            "checkout of narrows"
        )
    with _named(text, ""):
        module = import_module(text)
    return _module(text, module, "module", module.__file__)


def _adapter(name: str) -> Path | None:
    """The library of the adapter of this name; None without one."""
    found = (ADAPTERS / f"libnarrows_{name}{suffix}" for suffix in LIBRARIES)
    return next((file for file in found if file.is_file()), None)


class _named:  # noqa: N801 - a context manager
    """Turns an exception in the code of a plugin into an `EngineError` that names the plugin."""

    def __init__(self, name: str, file: str) -> None:
        self._name, self._file = name, file

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, (KeyboardInterrupt, NarrowsError)):
            return
        said = (
            str(error)
            if isinstance(error, ValueError) and not self._file
            else faults.describe(error, self._file)
        )
        raise EngineError(f"{self._name}: {said}") from error


def _file(name: str, file: Path, sha256: str | None = None) -> Names:
    path = str(file.absolute())
    try:
        content = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(f"{name}: {reason(error)}") from error
    if path.endswith(LIBRARIES):
        digest = _digest(name, content, sha256)
        try:
            found = tuple(_core.load_plugin(file, name))
        except ValueError as error:
            raise NarrowsError(f"{name}: {error}") from error
        _note(Plugin(name=name, kind="file", path=path, sha256=digest, version=None, models=found))
        return found
    if not path.endswith(".py"):
        raise NarrowsError(f"{name}: a plugin is a Python file (.py) or a shared library (.so)")
    return _source(name, file, content, sha256)


def _digest(name: str, content: bytes, sha256: str | None) -> str:
    digest = hashlib.sha256(content).hexdigest()
    if sha256 not in {None, digest}:
        raise NarrowsError(f"{name}: changed while its models were in use; run the command again")
    return digest


def _source(name: str, file: Path, content: bytes, sha256: str | None) -> Names:
    """Loads the content of a Python file, which may be on another machine."""
    path, digest = str(file.absolute()), _digest(name, content, sha256)
    module = ModuleType(f"narrows_plugin_{file.stem}_{digest[:8]}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    with _named(name, path):
        exec(compile(content, path, "exec"), vars(module))
    return _module(name, module, "file", path, digest)


def _classes(module: ModuleType) -> Iterator[Model]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, (CongestionControl, QueueDiscipline))
            and value.__module__ == module.__name__
            and value.name
        ):
            yield value


def _module(
    name: str, module: ModuleType, kind: str, path: str | None, sha256: str | None = None
) -> Names:
    classes = list(_classes(module))
    if not classes:
        raise NarrowsError(
            f"{name}: has no model: no class with a `name` that extends "
            "narrows.models.CongestionControl or QueueDiscipline"
        )
    return _register(classes, name, kind, path, sha256)


def register(model: Model) -> None:
    """Registers a class of this program as a model under its `name`. A registered class of the same
    name is replaced.

    Raises:
        NarrowsError: If the class is not complete, or its name is taken.
    """
    try:
        path = inspect.getsourcefile(model)
    except (OSError, TypeError):
        path = None
    _register([model], model.__name__, "class", path)


def unregister(model: Model) -> None:
    """Removes a class that was registered."""
    _core.unregister(_list(model), model.name)
    _forget(((_list(model), model.name),))
    registry.forget()


def _list(model: Model) -> str:
    return "cc" if issubclass(model, CongestionControl) else "queue"


def _register(
    classes: Iterable[Model], name: str, kind: str, path: str | None, sha256: str | None = None
) -> Names:
    found = []
    for model in classes:
        with _named(name, ""):
            spec = specification(model, name, path or "")
        try:
            (_core.register_cc if _list(model) == "cc" else _core.register_queue)(model, spec)
        except (ValueError, TypeError) as error:
            raise EngineError(f"{name}: {model.__name__}: {error}") from error
        found.append((_list(model), model.name))
        _CLASSES[_list(model), model.name] = model
    if sha256 is None and path is not None and Path(path).is_file():
        sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    version = None
    if kind == "module":
        version = _version(name.partition(".")[0])
    models = tuple(found)
    _note(Plugin(name=name, kind=kind, path=path, sha256=sha256, version=version, models=models))
    return models


@cache
def _version(module: str) -> str | None:
    names = metadata.packages_distributions().get(module)
    return metadata.version(names[0]) if names else None


def _forget(models: Names) -> None:
    kept = [p for p in LOADED if not set(p.models) & set(models)]
    LOADED[:] = kept


def _note(plugin: Plugin) -> None:
    _forget(plugin.models)
    LOADED.append(plugin)
    # The registry has no list of transports.
    registry.EXTERNAL.update(model for model in plugin.models if model[0] != "transport")
    registry.forget()


def _entry_points(name: str | None = None) -> Iterable[metadata.EntryPoint]:
    found = metadata.entry_points(group=GROUP)
    return [point for point in found if name in {None, point.name}]


def installed(of: str, name: str) -> bool:
    """Loads the model of this name from an installed package; returns whether a package has it.

    Args:
        of: `cc` or `queue`.
        name: The name of the model, which is that of the entry point.

    Raises:
        EngineError: If the code of the package raises an exception.
    """
    if (of, name) in _MISSING:
        return False
    for point in _entry_points(name):
        if (of, name) in _enter(point):
            return True
    _MISSING.add((of, name))
    return False


def load_installed() -> list[str]:
    """Loads the models of all installed packages; returns the errors, each once."""
    wrong = []
    for point in _entry_points():
        try:
            _enter(point)
        except NarrowsError as error:
            wrong.append(str(error))
    return list(dict.fromkeys(wrong))


def _enter(point: metadata.EntryPoint) -> Names:
    package = point.dist
    name = f"package {package.name}" if package else f"entry point {point.name}"
    with _named(name, ""):
        value = point.load()
        if isinstance(value, type) and issubclass(value, (CongestionControl, QueueDiscipline)):
            path = sys.modules[value.__module__].__file__
            models = _register([value], name, "package", path)
        elif isinstance(value, ModuleType):
            models = _module(name, value, "package", value.__file__)
        elif isinstance(value, (str, Path)):
            models = _file(name, Path(value))
        else:
            raise NarrowsError(
                f"{name}: the entry point {point.name} is neither a class, a module nor the path "
                "of a shared library"
            )
    if package is not None:
        plugin = next(p for p in LOADED if p.models == models)
        _note(plugin._replace(kind="package", version=package.version))
    return models


def cargo(*, content: bool = False) -> list[Cargo]:
    """The plugins for another process; with their `content` for another machine.

    Plugins of installed packages are not among them, because the other process finds them itself.
    """
    found = []
    for plugin in LOADED:
        if plugin.kind == "file":
            assert plugin.path is not None
            held = Path(plugin.path).read_bytes() if content else None
            found.append(
                Cargo(name=plugin.name, path=plugin.path, content=held, sha256=plugin.sha256)
            )
        elif plugin.kind == "module":
            found.append(Cargo(name=plugin.name, sha256=plugin.sha256))
        elif plugin.kind == "class":
            found.append(
                Cargo(name=plugin.name, sha256=plugin.sha256, model=_CLASSES.get(plugin.models[0]))
            )
    return found
