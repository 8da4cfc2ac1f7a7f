"""The tutorial as a notebook: its cells, their execution and their outputs.

A block of `console` becomes code cells. `narrows run FILE`, where the page shows a result, becomes
`nw.run("FILE")`, so that the notebook shows its tables. Other commands of the tutorial become lines
with `!`, which IPython passes to a shell. Commands that build narrows remain text.

The cells are executed here by a small program, which needs no package of Jupyter. The notebook is
stored with the outputs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import NARROWS, ROOT
from pages import workplace

PAGE = ROOT / "docs/tutorial/first-run.md"
NOTEBOOK = ROOT / "docs/tutorial/first-run.ipynb"

Cell = dict[str, Any]

_FENCE = re.compile(r"^```console\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_MADE = re.compile(r"^<!-- .*? -->\n", re.MULTILINE)
_COMMAND = re.compile(r"^\$ ", re.MULTILINE)
_RUN = re.compile(r"narrows run (\S+\.toml)")
_HERE = ("narrows", "sed", "ls")

FIRST = """\
import os

import narrows as nw

if not os.path.isdir("scenarios"):
    os.chdir("../..")  # the root directory of the checkout"""
"""The first code cell; Jupyter starts in the directory of the notebook."""

EXECUTOR = """
import ast, contextlib, io, json, subprocess, sys

names = {}
outputs = []
for source in json.load(sys.stdin):
    found = []
    python = [line for line in source.splitlines() if not line.startswith("!")]
    for line in source.splitlines():
        if line.startswith("!"):
            done = subprocess.run(["bash", "-c", line[1:]], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True)
            found.append({"text": done.stdout})
    tree = ast.parse("\\n".join(python))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    if said.getvalue():
        found.append({"text": said.getvalue()})
    if value is not None:
        found.append({"html": value._repr_html_(), "plain": repr(value)})
    outputs.append(found)
json.dump(outputs, sys.stdout)
"""
"""Executes the cells that it reads, and prints their outputs; both as JSON."""


def cells(text: str) -> list[Cell]:
    """The cells of a page, without outputs."""
    found: list[Cell] = []

    def add(kind: str, source: str) -> None:
        if source.strip():
            found.append({"kind": kind, "source": source.strip()})

    end, first = 0, True
    for block in _FENCE.finditer(text):
        commands = [part.partition("\n") for part in _COMMAND.split(block[1])[1:]]
        if not all(command.split()[0] in _HERE for command, _, _ in commands):
            continue
        add("markdown", _prose(text[end : block.start()]))
        if first:
            add("code", FIRST)
            first = False
        shell: list[str] = []
        for command, _, shown in commands:
            run = _RUN.fullmatch(command)
            if run is None or "\nflow" not in shown:
                shell.append(f"!{command}")
                continue
            add("code", "\n".join(shell))
            shell.clear()
            add("code", f'nw.run("{run[1]}")')
        add("code", "\n".join(shell))
        end = block.end()
    add("markdown", _prose(text[end:]))
    return found


def _prose(text: str) -> str:
    """Text of a page; links to files of the checkout are relative to the page, as the notebook
    is.
    """
    return _MADE.sub("", text)


def executed(found: list[Cell]) -> list[list[dict[str, str]]]:
    """The outputs of the code cells, which are executed in an empty directory with the scenarios
    and sweeps of the checkout.
    """
    with workplace() as place:
        done = subprocess.run(
            [sys.executable, "-c", EXECUTOR],
            cwd=place, input=json.dumps([one["source"] for one in found if one["kind"] == "code"]),
            capture_output=True, text=True, check=False, timeout=600,
            env=os.environ | {"PATH": f"{NARROWS.parent}:{os.environ['PATH']}", "LC_ALL": "C"},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs: list[list[dict[str, str]]] = json.loads(done.stdout)
    return outputs


def notebook(text: str) -> str:
    """The notebook of a page, with outputs (nbformat 4.5)."""
    found = cells(text)
    outputs = iter(executed(found))
    made, number = [], 0
    for at, one in enumerate(found, 1):
        cell: Cell = {
            "cell_type": one["kind"],
            "id": f"cell-{at}",
            "metadata": {},
            "source": _lines(one["source"]),
        }
        if one["kind"] == "code":
            number += 1
            cell |= {
                "execution_count": number,
                "outputs": [_output(each, number) for each in next(outputs)],
            }
        made.append(cell)
    language = {"name": "python"}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": made,
        "metadata": {"kernelspec": kernel, "language_info": language},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _output(each: dict[str, str], number: int) -> Cell:
    if "text" in each:
        return {"output_type": "stream", "name": "stdout", "text": _lines(each["text"])}
    data = {"text/html": _lines(each["html"]), "text/plain": _lines(each["plain"])}
    return {
        "output_type": "execute_result",
        "execution_count": number,
        "metadata": {},
        "data": data,
    }


def stored(place: Path = NOTEBOOK) -> str:
    """The notebook of the checkout; empty if there is none."""
    return place.read_text(encoding="utf-8") if place.exists() else ""
