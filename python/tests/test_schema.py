"""Classes that are generated from the registry: their type stubs and their behaviour."""

from __future__ import annotations

import copy
import doctest
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields
from importlib import import_module

import pytest
from conftest import ROOT
from pages import RENEW, TOLD
from stubs import MODULES, stub, tables

import narrows as nw
from narrows.runs import schema

CLASSES = [(module, name) for module in MODULES for name in tables(module)]


def made(module: str, name: str) -> type:
    found: type = getattr(import_module(MODULES[module]), name)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_the_stub_agrees_with_the_registry(module: str) -> None:
    file = ROOT / "python" / f"{MODULES[module].replace('.', '/')}.pyi"
    if RENEW:
        file.write_text(stub(module), encoding="utf-8")
    assert file.read_text(encoding="utf-8") == stub(module), TOLD


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_the_example_of_a_class_is_true(module: str, name: str) -> None:
    cls = made(module, name)
    for example in doctest.DocTestFinder(recurse=False).find(cls, name, globs=globs(module)):
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0
    assert all(len(line) <= schema.WIDTH for line in (inspect.getdoc(cls) or "").split("\n"))


def globs(module: str) -> dict[str, object]:
    return {name: made(module, name) for name in tables(module)}


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_a_class_can_be_pickled_compared_and_shown(module: str, name: str) -> None:
    cls = made(module, name)
    given = {f.name: "1:1" for f in fields(cls) if f.default is not None}
    one = cls(**given)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one) == cls(**given)
    assert repr(one).startswith(f"{name}(")
    assert (cls.__module__, cls.__qualname__) == (MODULES[module], name)
    with pytest.raises(FrozenInstanceError):
        one.kind = "another"


def test_a_name_that_the_registry_lacks_is_an_attribute_error() -> None:
    assert {"Cubic", "Bbr"} <= set(dir(nw.cc))
    assert {"Htb", "HtbClass"} <= set(nw.queue.__all__)
    with pytest.raises(AttributeError, match=r"module 'narrows\.cc' has no attribute 'Cubik'"):
        _ = nw.cc.Cubik  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="hystarts"):
        nw.cc.Cubic(hystarts="off")  # type: ignore[call-arg]
