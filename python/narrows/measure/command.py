"""The command `narrows measure`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from narrows import files, forecasts, registry
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    CONNECTION,
    IN_TERMINAL,
    anonymize_option,
    figure_options,
    file_option,
    files_option,
    interval_lines,
    interval_lines_option,
    json_option,
    passed_options,
    passed_words,
    quiet_option,
    report_option,
)
from narrows.cli.outputs import Picture, every
from narrows.errors import NarrowsError, OutputError, ScenarioError
from narrows.files import writer_of
from narrows.host import families
from narrows.measure import history as kept
from narrows.measure import render, run
from narrows.measure.intervals import HEAD, Interval
from narrows.measure.pictures import pictures
from narrows.measure.result import Measurement
from narrows.measure.summary import answer
from narrows.path_model import infer
from narrows.path_model.render import add_to_page, model_lines
from narrows.render.plot import draw_columns
from narrows.render.progress import ProgressBar
from narrows.render.report import write
from narrows.render.sketch import draw
from narrows.render.style import Style
from narrows.render.terminal import console, echo
from narrows.render.words import listed
from narrows.storage import output
from narrows.storage.anonymous import Anonymizer, key

if TYPE_CHECKING:
    from narrows.cli.outputs import Attempt
    from narrows.path_model import PathModel

_WIDEST = 100

_TESTS = list(registry.measurement_tests())
"""The names of the tests; the first test is the default."""

_OF_FLENT = ("rrul", "rrul_be", "tcp_nup", "tcp_ndown", "udp_flood", "voip", "ping")
"""Tests that have their name from a test of Flent."""


def _streams() -> str:
    """The default of --streams for each test, in words."""
    by_number: dict[int, list[str]] = {}
    for name in _TESTS:
        by_number.setdefault(registry.streams(name), []).append(name)
    said = [
        f"{n} for the test{'s' if len(names) > 1 else ''} {listed(names)}"
        for n, names in by_number.items()
        if n > 1
    ]
    return f"{'; '.join(said)}; otherwise 1"


_passed = passed_options(
    ("--duration", "Load", "TIME", "10s",
     "Duration of each load phase; with --test ping, of the measurement"),
    ("--idle", "Load", "TIME", "3s", "Duration of the idle phase before the load"),
    ("--streams", "Load", "N", _streams(), "Parallel TCP flows in each direction"),
    ("--cc", "Load", "CC,...", "cubic for --test both, otherwise the hosts' own",
     "Congestion controls of the senders on both hosts. If the list has several, each load phase "
     "runs once per congestion control, in turn (with --repeats 2: cubic, bbr, cubic, bbr)"),
    ("--repeats", "Load", "N", "1", "Number of times that each load phase is measured"),
    ("--pacing", "Load", "RATE", "no limit; with --test udp_flood, 10Mbit",
     "Maximum rate of each TCP flow (an initial burst of up to 1 MiB is not limited). With --test "
     "udp_flood, the sending rate"),
    ("--max-data", "Load", "SIZE", "2GB",
     "Maximum payload of the measurement. When it is reached, the load phase ends early, and "
     "narrows omits further load phases of --repeats and --cc. With --test both, each direction "
     "has its own limit. The download may use half of SIZE; the upload may use what the download "
     "leaves. With the defaults, the download therefore ends early above 800 Mbit/s (1 GB in 10 "
     "s)"),
    ("--ping-interval", "Load", "TIME", "20ms", "Mean time between two pings"),
    ("--dscp", "Load", "DSCP", "0",
     "DSCP of flows and pings: a number, or EF, CS1, AF41, …; --test rrul uses its own values"),
    ("--transport", "Load", "TRANSPORT", "tcp",
     "Transport of the flows: tcp (of the kernels), udp or quic. With udp, narrows' own TCP sends "
     "over UDP, with any congestion control of `narrows list cc`. With quic, quinn sends by QUIC, "
     "with cubic, newreno or bbr. Both need `narrows serve` as the server"),
    ("--pacer", "Load", "PACER", "timer",
     "With --transport udp: pacer of the flows, timer (of narrows) or txtime. With txtime, each "
     "datagram has a departure time, which the queue discipline fq of the sending host keeps"),
    ("--port", "Connection", "PORT", "5201", "Port of the server"),
    *CONNECTION,
    ("--speaks", "Connection", "PROTOCOL", "auto",
     "Protocol of the server: auto, narrows, iperf3 or http"),
)  # fmt: skip
"""The options that are passed unchanged to `narrows-host`."""


@command(
    "narrows measure server.example",
    "narrows measure server.example --out today.json --report today.html",
    "narrows measure https://server.example/large.iso",
    "narrows measure scenarios/asymmetric/down-and-up.toml --test rrul",
)
@argument(
    "host",
    help="Host with `narrows serve` or `iperf3 -s`, URL of a web server, or scenario file (.toml)",
)
@option(
    "--test",
    group="Load",
    metavar="TEST",
    type=click.Choice(_TESTS),
    default=_TESTS[0],
    help=f"Load to generate: {', '.join(_TESTS)}. {', '.join(_OF_FLENT[:-1])} and {_OF_FLENT[-1]} "
    "are names of Flent; docs/how-to/measure-a-path.md describes all tests",
)
@_passed
@option(
    "--plugin",
    "plugins",
    group="Load",
    multiple=True,
    metavar="FILE",
    help="With --transport udp: load the congestion controls of a shared library; may be repeated. "
    "For downloads, `narrows serve` needs the same option",
)
@option("--ecn", hidden=True, is_flag=True, help="Without effect: ECN is always reported")
@option(
    "--insecure",
    group="Connection",
    is_flag=True,
    help="Accept any certificate of an https:// URL",
)
@files_option
@option(
    "--model/--no-model",
    "--twin/--no-twin",
    "with_model",
    group="Path model",
    aliases=("--twin", "--no-twin"),
    default=True,
    help="Fit a path model (estimates of rate, base RTT, buffer, queue and loss) after the "
    "measurement; this takes seconds, at most about 1 min",
)
@file_option(
    "--path",
    "path_file",
    group="Path model",
    what="Write the path model as a [path] section for scenarios",
)
@file_option(
    "--out",
    suffix=writer_of,
    multiple=True,
    what="Write the measurement as .json, .flent.gz, .csv, .jsonl, .hlog or .parquet; may be "
    "repeated",
)
@option(
    "--plot",
    group="Output",
    is_flag=False,
    flag_value=IN_TERMINAL,
    metavar="[FILE]",
    type=Picture(optional=True),
    help="Write a plot as PNG, SVG or PDF. To draw it in the terminal instead, write --plot as the "
    "last word of the command, without a file name",
)
@report_option
@figure_options(size=("--plot-size", "--size"))
@option(
    "--no-history",
    group="Output",
    is_flag=True,
    help="Do not add the measurement to the history (`narrows history`)",
)
@anonymize_option
@interval_lines_option
@json_option("Print the measurement as one JSON object instead of text")
@quiet_option()
def measure(  # noqa: PLR0917 - Click calls it by keyword
    host: str,
    test: str,
    plugins: tuple[str, ...],
    ecn: bool,
    insecure: bool,
    as_json: bool,
    out: tuple[str, ...],
    plot: str | None,
    page: str | None,
    style: Style | None,
    with_model: bool,
    path_file: str | None,
    no_history: bool,
    anonymize: bool,
    lines: str | None,
    quiet: bool,
    **passed: str | None,
) -> None:
    """Measure goodput and latency under load to a host.

    By default (--test both), 12 CUBIC flows download data, and then 12 CUBIC flows upload data. If
    HOST is a URL, only the download is measured, with the congestion control of the server. If
    HOST is a scenario file, the measurement is simulated on the path of the scenario. A scenario
    accepts --streams, --cc with one congestion control, and four tests: --test both, --test bidir,
    --test rrul and --test rrul_be. Other options under Load are errors. Without [path.reverse] in
    the scenario, the upload is omitted.

    The exit code is 1 if neither replies to pings nor data arrive for two seconds, or if a load
    phase transfers no data. After Ctrl-C, SIGTERM or SIGHUP, the results so far are printed,
    written to the files of the options and added to the history. The exit code is then 128 plus the
    number of the signal.
    """
    if path_file is not None and not with_model:
        raise click.BadParameter("needs the path model; omit --no-model", param_hint="--path")
    arguments = passed_words(passed)
    arguments += [word for plugin in plugins for word in ("--plugin", plugin)]
    arguments += [*(["--ecn"] if ecn else []), *(["--insecure"] if insecure else [])]
    measured, said = _measure(
        host, test, arguments, passed, lines=lines, quiet=quiet, as_json=as_json
    )
    no_history |= host.endswith(".toml")
    if passed.get("ip") is None:
        peer = measured.json.get("peer") or {}
        said += [one] if (one := families.notice(host, peer.get("address"))) else []
    if anonymize:
        # The notes may name the host, as the measurement does.
        said = Anonymizer(key()).tree({"host": measured.host, "notes": said})["notes"]
        measured = measured.anonymous()
    with every() as attempt:
        # The measurement is stored before any slow work and before printing, which may fail.
        _write(measured, out, attempt)
        scored = [] if no_history else _keep(measured, attempt)
        model, stopped = None, measured.interrupted
        if with_model and not stopped and not (as_json and path_file is None):
            model, stopped = _model(measured, path_file, attempt, quiet=quiet)
        try:
            for line in said:
                echo(line, err=True)
            _draw(measured, model, attempt, plot=plot, page=page, style=style)
            if as_json:
                echo(measured.text(), nl=False)
            elif not quiet:
                _show(measured, model, scored, sketch=plot == IN_TERMINAL)
        except OSError:
            # After SIGHUP, the terminal can no longer be written.
            if not stopped:
                raise
        if stopped:
            # The results are stored and printed; the exit code is that of the signal.
            raise KeyboardInterrupt

    results = answer(measured)
    # Pages are data, too.
    empty = results.unloaded and not measured.json.get("page")
    if results.connectivity_lost or empty or measured.stopped_by == "lost":
        click.get_current_context().exit(1)


def _measure(
    host: str,
    test: str,
    arguments: list[str],
    passed: Mapping[str, str | None],
    *,
    lines: str | None,
    quiet: bool,
    as_json: bool,
) -> tuple[Measurement, list[str]]:
    """The measurement of a host or of a scenario, and the notes of `narrows-host`."""
    simulated = host.endswith(".toml")
    if simulated and lines is not None:
        raise click.BadParameter(
            "not supported for a scenario file, only for a host", param_hint="--interval-lines"
        )
    with ProgressBar(quiet=quiet, of="measurement") as bar:
        if simulated:
            return run.simulated(host, passed, test=test, progress=bar), []
        words = [*arguments, *interval_lines(lines, quiet=quiet, as_json=as_json)]
        try:
            return run.measure(host, words, test=test, progress=bar, interval=_printed(bar))
        except run.Interrupted as stop:
            return stop.measured, stop.said


def _printed(bar: ProgressBar) -> Callable[[Interval], None]:
    """Prints each interval as a line, and first the names of the columns."""
    begun = False

    def tell(interval: Interval) -> None:
        nonlocal begun
        if not begun:
            begun = True
            bar.line(HEAD)
        bar.line(interval.line())

    return tell


def _write(measured: Measurement, out: Sequence[str], attempt: Attempt) -> None:
    for file in out:
        with attempt():
            files.write(measured, file)


def _keep(measured: Measurement, attempt: Attempt) -> list[str]:
    """Stores the measurement in the history, scores the sealed forecasts that apply to it, and
    returns the scores as sentences.

    History and scores are optional, so a failure causes only a warning.
    """
    if kept.installed():
        with attempt(), _warned("the measurement was not stored in the history"):
            kept.keep(measured)
    scored: list[str] = []
    with attempt(), _warned("no forecast was scored"):
        scored += forecasts.sentences(forecasts.score_open(measured))
    return scored


@contextmanager
def _warned(what: str) -> Iterator[None]:
    """Prints a `NarrowsError` of the block as a warning, and continues after the block."""
    try:
        yield
    except NarrowsError as error:
        with suppress(OSError):
            echo(f"{what}: {error}", err=True)


def _model(
    measured: Measurement, path_file: str | None, attempt: Attempt, *, quiet: bool
) -> tuple[PathModel | None, bool]:
    """The path model, or None without one, and whether Ctrl-C stopped its inference. The model is
    also written to `path_file`, if it is given.
    """
    model = None
    with attempt():
        try:
            with ProgressBar(quiet=quiet, of="path model") as bar:
                model = infer(measured, progress=bar)
        except ScenarioError:
            raise
        except NarrowsError as error:
            # Not every measurement has a path model; this is an error only with --path.
            if path_file is not None:
                raise OutputError(f"{path_file}: not written: {error}") from error
        except KeyboardInterrupt:
            # Ctrl-C stops only the inference, which takes some seconds.
            return None, True
    if path_file is not None and model is not None:
        with attempt():
            output.write(path_file, model.toml())
    return model, False


def _draw(
    measured: Measurement,
    model: PathModel | None,
    attempt: Attempt,
    *,
    plot: str | None,
    page: str | None,
    style: Style | None,
) -> None:
    if plot:
        with attempt():
            draw_columns([(measured.host, pictures(measured))], plot, style=style)
    if page is not None:
        with attempt():
            made = render.document([measured], [measured.host or "measurement"])
            if model is not None:
                add_to_page(model, made["runs"][0])
            write(made, page)


def _show(
    measured: Measurement, model: PathModel | None, scored: Sequence[str], *, sketch: bool
) -> None:
    screen = console()
    render.show(measured, screen)
    if model is not None:
        screen.print()
        for sentence in model_lines(model):
            screen.print(sentence, markup=False, soft_wrap=True)
    for picture in pictures(measured) if sketch else ():
        for line in draw(picture, min(screen.width, _WIDEST)):
            screen.print(line, no_wrap=True, overflow="crop")
    if scored:
        screen.print()
    for sentence in scored:
        screen.print(sentence, soft_wrap=True)
