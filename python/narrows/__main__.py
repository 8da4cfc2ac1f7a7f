"""`python -m narrows` is `narrows`.

Two frequent commands need no Click, whose import takes longer than they do: `narrows --version`,
and `narrows run` of a file with the options `--json` and `--quiet` at most. Any other command line,
any error and any output to a terminal is left to `narrows.cli`.
"""

from narrows import _interrupt  # noqa: F401  # isort: skip - before anything that takes time
import os
import sys

_FULL = ("_NARROWS_COMPLETE", "FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables of the environment that affect the output of every command."""


def main() -> None:
    """Executes the command line."""
    if not _short(sys.argv[1:]):
        from narrows.cli import main as full  # noqa: PLC0415 - the reason of this module

        full()


def _short(words: list[str]) -> bool:
    """Executes a short command, with the signals as they are while a command is loaded: each of
    them ends the process at once. Returns whether the output was written.
    """
    if any(name in os.environ for name in _FULL) or not _plain():
        return False
    if words == ["--version"]:
        from narrows import __version__  # noqa: PLC0415

        return _written(f"narrows, version {__version__}\n")
    if words[:1] != ["run"]:
        return False
    options = [word for word in words[1:] if word in {"--json", "--quiet"}]
    files = [word for word in words[1:] if word not in options]
    if len(files) != 1 or not files[0] or files[0].startswith("-"):
        return False
    quiet = "--quiet" in options
    if not quiet and sys.stderr is not None and sys.stderr.isatty():
        return False  # It shows a progress bar.
    from narrows.runs.short import text  # noqa: PLC0415

    told = text(files[0], as_json="--json" in options, quiet=quiet)
    return told is not None and _written(told)


def _plain() -> bool:
    """Whether stdout is a file or a pipe that takes every sign."""
    out = sys.stdout
    return out is not None and out.encoding.lower() == "utf-8" and not out.isatty()


def _written(text: str) -> bool:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False  # The error is reported like that of any other command.
    return True


if __name__ == "__main__":
    main()
