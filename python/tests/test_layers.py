"""The check of layers (`tools/layers.py`), on small example trees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import ROOT
from tools import layers

TABLE = '[one]\nsource = "src"\nlayers = [["low", "side"], ["high"]]\n'


def check(at: Path, capsys: pytest.CaptureFixture[str], table: str, **files: str) -> list[str]:
    """Writes a tree and returns the lines that the check prints about it."""
    (at / "tools").mkdir()
    (at / "tools/layers.toml").write_text(table, encoding="utf-8")
    for name, text in {"lib": "", **files}.items():
        file = at / "src" / f"{name.replace('__', '/')}.rs"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    status = layers.main(at / "tools/layers.toml")
    lines = capsys.readouterr().err.splitlines()
    assert status == bool(lines)
    return [line.rpartition("src/")[2] for line in lines]


def test_this_checkout_keeps_its_layers() -> None:
    assert layers.main(ROOT / "tools/layers.toml") == 0


@pytest.mark.parametrize(
    "text",
    [
        "\nuse crate::high::Thing;\n",
        "\nuse crate::{high::{a, b}, side};\n".replace(", side", ""),
        "\npub fn f() -> crate::high::Thing { todo!() }\n",
        "/* crate::side */\nuse super::super::high::{self};\n",
        "// it isn't\nfn f<'a>(c: char) -> bool { c == '\"' && crate::high::g(c) }\n",
        "#[cfg(test)] mod tests { use crate::side::X; }\nuse crate::Name;\n",
    ],
)
def test_a_use_of_a_higher_layer_has_file_and_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"lib": "pub use high::Name;\n", "low__part": text, "high": "", "side": ""}
    found = check(tmp_path, capsys, TABLE, **files)
    assert found == ["low/part.rs:2: low uses high of a higher layer (layers.toml, one)"]


def test_allowed_uses_have_no_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    low = """
    //! crate::high in a comment, "crate::high" in a text below.
    const TEXT: &str = "crate::high \\" crate::high";
    use self::own::Thing;
    #[cfg(test)]
    mod probe;
    #[cfg(test)]
    fn helper() { crate::high::g(); }
    macro_rules! m { () => { $crate::high::g() } }
    #[cfg(test)]
    mod tests {
        use crate::high::Thing;
    }
    """
    probe = "use crate::high::Thing;\n"
    high = "use crate::{low::{Thing, side}, side};\n"
    files = {"low__mod": low, "low__probe": probe, "high": high, "side": ""}
    assert check(tmp_path, capsys, TABLE, **files) == []


def test_the_same_layer_and_a_missing_layer_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "low": "use crate::side::A;\n",
        "high": "use crate::other::B;\n",
        "other": "",
        "side": "",
    }
    assert check(tmp_path, capsys, TABLE, **files) == [
        "layers.toml: one: the module other has no layer; add it to one",
        "low.rs:1: low uses side of the same layer (layers.toml, one)",
    ]


def test_without_layers_only_circles_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "a": "use crate::b::B;\n",
        "b": "use crate::c::C;\n",
        "c": "use crate::a::A;\nuse crate::d::D;\n",
        "d": "",
    }
    found = check(tmp_path, capsys, '[one]\nsource = "src"\n', **files)
    assert found == [
        "a.rs:1: a uses b: a circle, a -> b -> c -> a",
        "b.rs:1: b uses c: a circle, b -> c -> a -> b",
        "c.rs:1: c uses a: a circle, c -> a -> b -> c",
    ]


def test_an_exception_needs_a_reason_and_a_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = '[one]\nsource = "src"\n'
    for module, uses, reason in (("a", "b", "because"), ("b", "c", "because"), ("b", "a", " ")):
        table += f'[[one.exception]]\nmodule = "{module}"\nuses = "{uses}"\nreason = "{reason}"\n'
    files = {"a": "use crate::b::B;\n", "b": "use crate::a::A;\n", "c": ""}
    assert check(tmp_path, capsys, table, **files) == [
        "layers.toml: one: b uses c no more; drop the exception",
        "layers.toml: one: the exception b -> a needs a reason",
    ]


PYTHON = '[one]\nsource = "one"\nlayers = [["low", "high.base"], ["high"], ["high.command"]]\n'


def check_python(at: Path, capsys: pytest.CaptureFixture[str], **files: str) -> list[str]:
    """Writes a Python package and returns the lines that the check prints about it."""
    (at / "tools").mkdir()
    (at / "tools/layers.toml").write_text(PYTHON, encoding="utf-8")
    empty = dict.fromkeys(("__init__", "low", "high/__init__", "high/base", "high/command"), "")
    for name, text in (empty | {k.replace("__of__", "/"): v for k, v in files.items()}).items():
        file = at / "one" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    layers.main(at / "tools/layers.toml")
    return [line.rpartition("one/")[2] for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    ("file", "text", "used"),
    [
        ("low", "from one import high\n", "low uses high of a higher layer"),
        ("low", "import one.high.thing\n", "low uses high of a higher layer"),
        ("low", "from one.high import base, thing\n", "low uses high of a higher layer"),
        ("low", "def f():\n    import one.high\n", "low uses high of a higher layer"),
        ("high__of__base", "import one.low\n", "high.base uses low of the same layer"),
        ("high__of__model", "import one.high.command\n", "high uses high.command of a higher"),
        ("low", "if TYPE_CHECKING:\n    pass\nelse:\n    import one.high\n", "low uses high"),
    ],
)
def test_a_python_import_of_a_higher_layer_has_file_and_line(
    file: str, text: str, used: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = check_python(tmp_path, capsys, **{file: text})
    assert any(line.startswith(f"{file.replace('__of__', '/')}.py:") for line in found)
    assert any(used in line for line in found)


def test_python_imports_of_lower_layers_and_of_types_are_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {
        "low": "import json\nif TYPE_CHECKING:\n    from one.high import Thing\n",
        "high__of__model": "from one import __version__, low\nfrom one.high.base import x\n",
        "high__of__command": "from one.high import model\n",
    }
    assert check_python(tmp_path, capsys, **texts) == []


def test_a_python_module_without_a_layer_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check_python(tmp_path, capsys, new="") == [
        "layers.toml: one: the module new has no layer; add it to one"
    ]


def test_a_pattern_is_the_layer_of_a_new_command_and_of_its_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = '[["low", "high.base"], ["high", "tools"], ["*.command", "!tools.command"]]\n'
    monkeypatch.setattr(sys.modules[__name__], "PYTHON", PYTHON.partition("[[")[0] + table)
    texts = {
        "new____init__": '"""About it."""\n',
        "new__of__command": "from one import high\n",
        "tools__of__command": "import one.low\n",
        "other____init__": "import one.low\n",
        "low": "import one.new.command\n",
    }
    texts = {name.replace("____", "__of____"): text for name, text in texts.items()}
    assert check_python(tmp_path, capsys, **texts) == [
        "layers.toml: one: the module other has no layer; add it to one",
        "low.py:1: low uses new.command of a higher layer (layers.toml, one)",
    ]
