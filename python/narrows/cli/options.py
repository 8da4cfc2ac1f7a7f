"""Options that several commands have, and constants of the command line."""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from narrows.cli.command import argument, option
from narrows.cli.outputs import Picture
from narrows.errors import NarrowsError
from narrows.runs.run import ENGINES
from narrows.storage import output

F = TypeVar("F", bound=Callable[..., Any])

WIDEST_SKETCH = 100
"""Maximum width of a plot in the terminal, in characters."""

SEED = click.IntRange(0, 2**64 - 1)
"""Type of a seed."""


class Number(click.FloatRange):
    """The type of an option with a number, within limits. Click accepts NaN within any limits, and
    infinity without an upper limit; this type refuses both.
    """

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """The number; raises an error for other values."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail("is not a finite number", param, ctx)
        return number


MOST_SEEDS = 100_000
"""Largest value of `--seeds`."""

IN_TERMINAL = ""
"""The file of a plot that is drawn in the terminal."""


plot_option = option(
    "--plot",
    group="Output",
    is_flag=False,
    flag_value=IN_TERMINAL,
    metavar="[FILE]",
    is_eager=True,
    type=Picture(optional=True),
    help="Write a plot as PNG, SVG or PDF. To draw it in the terminal instead, write --plot as the "
    "last word of the command, without a file name",
)


kernel_option = option(
    "--kernel",
    group="Simulation",
    metavar="NAME",
    show_default="the newest built kernel",
    help="Kernel of --engine linux: a name that `narrows kernel list` prints",
)


def engine_option(what: str = "Engine of all runs") -> Callable[[F], F]:
    """Declares `--engine` and `--kernel`; `need_linux` checks both."""

    def declare(function: F) -> F:
        engine = option(
            "--engine", group="Simulation", type=click.Choice(ENGINES), default="sim", help=what
        )
        return engine(kernel_option(function))

    return declare


def file_option(
    *names: str,
    what: str,
    group: str = "Output",
    allow_dash: bool = False,
    suffix: Callable[[str], object] | None = None,
    **more: Any,  # noqa: ANN401 - click's own
) -> Callable[[F], F]:
    """Declares an option that names a file to write; see `narrows.storage.output.File`."""
    kind = output.File(allow_dash=allow_dash, suffix=suffix)
    return option(*names, group=group, metavar="FILE", type=kind, help=what, **more)


def separated(option: str, text: str) -> list[str]:
    """The names in the value of an option, which commas separate.

    >>> separated("--only", "cubic, bbr")
    ['cubic', 'bbr']

    Raises:
        NarrowsError: If there is no name between two commas, or before or behind one.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        fix = ",".join(filter(None, names)) or "NAME,..."
        raise NarrowsError(f"{option} {text}: a name is missing; write {option} {fix}")
    return names


report_option = file_option("--report", "page", what="Write an HTML report")

anonymize_option = option(
    "--anonymize",
    group="Output",
    is_flag=True,
    help="Replace names and addresses of hosts by pseudonyms in the results that are printed, "
    "written and stored. Addresses with a common prefix keep a common prefix",
)

interval_lines_option = option(
    "--interval-lines",
    "lines",
    group="Output",
    metavar="TIME",
    show_default="1s if stderr is a terminal and --json is not given; otherwise 0s",
    help="While the command runs, print a line on stderr about each interval of this duration; 0s "
    "for none",
)


def interval_lines(value: str | None, *, quiet: bool, as_json: bool) -> list[str]:
    """The words for `narrows-host`, from the value of `--interval-lines`; empty for no lines."""
    if quiet:
        return []
    if value is None:
        value = "1s" if sys.stderr.isatty() and not as_json else None
    return [] if value is None else ["--interval-lines", value]


Passed = tuple[str, str, str, str | None, str]
"""Name, group, metavar, default and help of an option that `narrows-host` checks."""

CONNECTION: tuple[Passed, ...] = (
    ("--ip", "Connection", "4|6", "the first address of the host",
     "Address family to use, if the host has IPv4 and IPv6"),
    ("--token", "Connection", "TOKEN", "$NARROWS_TOKEN", "Token of the server"),
    ("--token-file", "Connection", "FILE", None, "Read the token from the first line of FILE"),
)  # fmt: skip
"""Options of the connection to a server."""


def passed_options(*rows: Passed) -> Callable[[F], F]:
    """Declares options that are passed unchanged to `narrows-host`, which checks their values."""

    def declare(command: F) -> F:
        for name, group, metavar, default, text in reversed(rows):
            declared: Callable[[F], F] = option(
                name, group=group, metavar=metavar, show_default=default, help=text
            )
            command = declared(command)
        return command

    return declare


def passed_words(passed: Mapping[str, str | None]) -> list[str]:
    """The words of passed options that are present, for `narrows-host`.

    >>> passed_words({"token_file": "token", "ip": None})
    ['--token-file', 'token']
    """
    present = [(name, value) for name, value in passed.items() if value is not None]
    return [word for name, value in present for word in (f"--{name.replace('_', '-')}", value)]


class _Size(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--size`."""

    name = "size"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[float, float]:
        """Width and height in inches."""
        from narrows.render.style import size  # noqa: PLC0415

        try:
            return size(value)
        except NarrowsError as error:
            message = str(error).removeprefix(f"{value}: ")
            raise click.BadParameter(message, ctx, param) from error


class _Axes(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--log`."""

    name = "axes"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> frozenset[str]:
        """The axes, separated by commas."""
        from narrows.render.style import AXES  # noqa: PLC0415

        found = frozenset(value.split(","))
        if not found <= set(AXES):
            raise click.BadParameter("names no axes; write x, y or x,y", ctx, param)
        return found


_APPEARANCE: dict[str, dict[str, Any]] = {
    "log": {
        "metavar": "AXES",
        "type": _Axes(),
        "help": "Axes with a logarithmic scale: x, y or x,y",
    },
    "size": {
        "metavar": "WxH",
        "type": _Size(),
        "help": "Width and height of the figure: 84x60mm, 8.4x6cm, 3.3x2.4in",
    },
    "font": {"metavar": "FONT", "help": "serif, sans-serif, monospace or the name of a font"},
    "font_size": {
        "metavar": "PT",
        "type": Number(1, 100),
        "show_default": "9",
        "help": "Size of the texts in points",
    },
    "dpi": {
        "metavar": "N",
        "type": click.IntRange(10, 2400),
        "show_default": "120",
        "help": "Resolution of PNG",
    },
    "look": {
        "type": click.Choice(("screen", "print")),
        "show_default": "screen",
        "help": "screen draws in colour, print in black and white",
    },
}
"""The options of the appearance of a figure, by the parameter of the command."""


def figure_options(
    *, log: bool = True, file: str = "plot", size: Sequence[str] = ("--size", "--plot-size")
) -> Callable[[F], F]:
    """Declares the options of the appearance of a figure. The command receives a parameter `style`:
    a `narrows.render.style.Style`, or None without any of these options.

    Args:
        log: Whether the axes of the figure may be logarithmic.
        file: The option that names the file of the figure, which the other options require.
        size: The option of width and height, and its aliases, which the help does not show.
    """
    names = [name for name in _APPEARANCE if log or name != "log"]
    flags = {name: f"--{name.replace('_', '-')}" for name in names} | {"size": size[0]}
    hidden = {"size": size[1:]}
    params = {name: flag.removeprefix("--").replace("-", "_") for name, flag in flags.items()}

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def called(**given: Any) -> Any:  # noqa: ANN401 - Click's own
            words = {
                name: value for name in names if (value := given.pop(params[name])) is not None
            }
            if words and not given[file]:
                raise click.BadParameter(
                    f"is for a file; write --{file} figure.pdf",
                    param_hint=flags[next(iter(words))],
                )
            return command(**given, style=_style(words))

        declared: Any = called
        for name in reversed(names):
            aliases = hidden.get(name, ())
            made = option(
                flags[name],
                *aliases,
                params[name],
                group=f"Appearance of --{file}",
                aliases=aliases,
                **_APPEARANCE[name],
            )
            declared = made(declared)
        return declared  # type: ignore[no-any-return]

    return decorate


def _style(words: dict[str, Any]) -> Any:  # noqa: ANN401 - a Style, which is imported on use
    if not words:
        return None
    from narrows.render.style import Style  # noqa: PLC0415

    inches = words.pop("size", None)
    return Style(inches=inches, **words)


def _is_latex(file: str) -> None:
    if not file.endswith(".tex"):
        raise click.BadParameter(
            f"{file}: has no suffix .tex; write --latex table.tex", param_hint="--latex"
        )


picture_option = option(
    "--plot",
    group="Output",
    metavar="FILE",
    type=Picture(),
    help="Write a plot as PNG, SVG or PDF",
)
latex_option = option(
    "--latex",
    group="Output",
    metavar="FILE",
    type=output.File(suffix=_is_latex),
    help="Write the tables as LaTeX (booktabs, .tex)",
)
states_option = option(
    "--states",
    group="Output",
    is_flag=True,
    help="Add plots of the internal states of congestion controls to --plot and --report",
)


def seed_option(
    what: str = "Seed of all random numbers",
    **more: Any,  # noqa: ANN401 - click's own
) -> Callable[[F], F]:
    """Declares `--seed`."""
    return option("--seed", group="Simulation", metavar="N", **{"type": SEED, "help": what, **more})


def seeds_option(what: str, **more: Any) -> Callable[[F], F]:  # noqa: ANN401 - click's own
    """Declares `--seeds`, the number of seeds."""
    return option(
        "--seeds",
        group="Simulation",
        metavar="N",
        type=click.IntRange(1, MOST_SEEDS),
        help=what,
        **more,
    )


def jobs_option(what: str, *, group: str = "Execution", most: int = 4096) -> Callable[[F], F]:
    """Declares `--jobs`, the number of simultaneous runs."""
    return option(
        "--jobs",
        group=group,
        metavar="N",
        type=click.IntRange(1, most),
        show_default="one for each processor",
        help=what,
    )


def into_option(what: str) -> Callable[[F], F]:
    """Declares `--into`, the directory of the results of sweeps."""
    return option(
        "--into",
        group="Output",
        metavar="DIR",
        default="sweep-results",
        type=click.Path(file_okay=False),
        help=what,
    )


def files_argument(what: str, *, name: str = "files", metavar: str = "FILE...") -> Callable[[F], F]:
    """Declares an argument that names one file or several."""
    return argument(
        name,
        metavar=metavar,
        nargs=-1,
        required=True,
        type=click.Path(dir_okay=False),
        help=what,
    )


def _allow_files(
    _context: click.Context, _param: click.Parameter, folders: tuple[str, ...]
) -> None:
    """Stores the folders in an environment variable, which worker processes and the live engine
    inherit.
    """
    if folders:
        os.environ["NARROWS_FILES_FROM"] = os.pathsep.join(map(os.path.abspath, folders))


files_option = option(
    "--files-from",
    group="Input",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    expose_value=False,
    callback=_allow_files,
    help="Let scenarios read files, such as traces of link capacity, from DIR in addition to their "
    "own directory; may be repeated. Each line of a trace (format of Mahimahi) is a time in ms at "
    "which the link can send one packet",
)


def _load_plugins(_context: click.Context, _param: click.Parameter, names: tuple[str, ...]) -> None:
    """Loads plugins before other options are read, because arguments such as those of `narrows
    list` may name models of plugins.
    """
    if names:
        from narrows.models import plugins  # noqa: PLC0415 - most commands have no plugin

        owners: dict[tuple[str, str], str] = {}
        for name in names:
            for model in plugins.load(name):
                owner = owners.setdefault(model, name)
                if owner != name:
                    raise NarrowsError(
                        f"--plugin: {owner} and {name} both contain the model {model[1]}; "
                        "load one of them, or rename a model"
                    )


plugin_option = option(
    "--plugin",
    group="Input",
    metavar="PLUGIN",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_load_plugins,
    help="File (.py or .so) or Python module with congestion controls or queue disciplines to "
    "load, or an adapter: quinn, noq (QUIC) or smoltcp (TCP). May be repeated",
)


_PATH = {"rate": "RATE", "rtt": "TIME", "buffer": "BUFFER", "queue": "QDISC", "loss": "PERCENT"}
"""The keys of a path that are options, and their metavars."""


queues_option = option(
    "--queues",
    group="Simulation",
    type=click.Choice(["kernel", "narrows"]),
    show_default="kernel",
    help="Queue disciplines with --engine linux: kernel (of the Linux kernel that runs) or narrows "
    "(models of narrows)",
)


def need_linux(engine: str, **options: str | None) -> None:
    """Raises an error if an option of the engine `linux` is given with another engine."""
    for name, value in options.items():
        if value is not None and engine != "linux":
            raise click.BadParameter("this option requires --engine linux", param_hint=f"--{name}")


def path_option(key: str, what: str, **attributes: Any) -> Callable[[F], F]:  # noqa: ANN401
    """Declares the option that sets a key of the path. Errors in the value name this option
    (`errors.named_by`).
    """
    return option(f"--{key}", group="Path", metavar=_PATH[key], help=what, **attributes)


def json_option(what: str = "Print one JSON object instead of tables") -> Callable[[F], F]:
    """Declares `--json`."""
    return option("--json", "as_json", group="Output", is_flag=True, help=what)


def quiet_option(what: str = "Print neither results nor progress, only errors") -> Callable[[F], F]:
    """Declares `--quiet`."""
    return option("--quiet", group="Output", is_flag=True, help=what)
