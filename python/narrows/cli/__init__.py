"""The command `narrows`, and the options that several of its subcommands have."""

from narrows.cli.entry import main

__all__ = ["main"]
