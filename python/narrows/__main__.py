"""Entry point of the command `narrows` and of `python -m narrows`.

Two frequent commands are executed without Click, because the import of Click takes longer than
these commands: `narrows --version`, and `narrows run FILE` with no other options than `--json` and
`--quiet`. `narrows.cli` executes every other command line, reports all errors and writes all output
to terminals.
"""

from narrows import _interrupt  # noqa: F401  # isort: skip - before anything that takes time
import os
import sys

_FULL = ("_NARROWS_COMPLETE", "FORCE_COLOR", "TTY_COMPATIBLE")
"""Environment variables that affect the output of every command; if one is set, `narrows.cli`
executes the command.
"""


def main() -> None:
    """Executes the command line."""
    if not _short(sys.argv[1:]):
        from narrows.cli import main as full  # noqa: PLC0415 - the reason of this module

        full()


def _short(words: list[str]) -> bool:
    """Executes the command line without Click if it is one of the two frequent commands. SIGINT,
    SIGTERM and SIGHUP end the process at once, as while a command is loaded. Returns whether the
    output was written; if not, `narrows.cli` executes the command line.
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
        return False  # `narrows.cli` shows a progress bar on this terminal.
    from narrows.runs.short import text  # noqa: PLC0415

    told = text(files[0], as_json="--json" in options, quiet=quiet)
    return told is not None and _written(told)


def _plain() -> bool:
    """Whether stdout is a file or a pipe with the encoding UTF-8, which accepts every character."""
    out = sys.stdout
    return out is not None and out.encoding.lower() == "utf-8" and not out.isatty()


def _written(text: str) -> bool:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False  # `narrows.cli` writes again and reports the error.
    return True


if __name__ == "__main__":
    main()
