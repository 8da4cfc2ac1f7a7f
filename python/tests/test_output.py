"""Results into files."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from narrows.errors import OutputError
from narrows.storage import output


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "answer.json"
    output.write(file, "old")
    file.chmod(0o640)
    output.write(file, "ü")
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == ("ü", 0o640)
    assert list(file.parent.iterdir()) == [file]


def test_a_link_stays_one_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    output.write(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"1"


def test_a_link_planted_where_the_parts_are_written_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_text("mine")
    guessed = uuid.UUID(int=0)
    monkeypatch.setattr(uuid, "uuid4", lambda: guessed)
    (tmp_path / f".{guessed.hex}.part").symlink_to("precious")
    with pytest.raises(OutputError, match="file exists"):
        output.write(tmp_path / "answer.json", "{}")
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_cannot_be_written_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/answer\.json: not a directory"):
        output.write(tmp_path / "file" / "answer.json", "{}")
