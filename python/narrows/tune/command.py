"""`narrows tune`: the group of commands."""

from __future__ import annotations

import click


@click.group()
def tune() -> None:
    """Look at this host's congestion control and queues, plan a change, make it, prove it, undo it.

    Example: narrows tune audit
    """
