"""Stores the command line that is being executed, for the metadata of outputs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

_KEY = "narrows.command"

SECRETS = ("--token",)
"""Options whose values are secret and are never written to outputs."""


def remember(context: click.Context, words: Sequence[str]) -> None:
    """Stores the words of a command line, without secrets."""
    shown = []
    hidden = False
    for word in words:
        option, equals, _ = word.partition("=")
        secret = option in SECRETS
        shown.append("…" if hidden else f"{option}=…" if secret and equals else word)
        hidden = secret and not equals
    context.meta[_KEY] = shlex.join(["narrows", *shown])


def command() -> str:
    """The command line that is being executed; `Python` if a Python program calls the package.

    >>> command()
    'Python'
    """
    context = click.get_current_context(silent=True)
    return "Python" if context is None else str(context.meta.get(_KEY, "Python"))
