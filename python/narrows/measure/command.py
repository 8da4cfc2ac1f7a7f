"""The commands `narrows measure`, `model`, `convert` and `history`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from narrows import files, forecasts, registry
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    CONNECTION,
    SEED,
    figure_options,
    file_option,
    files_option,
    json_option,
    page_option,
    passed_options,
    quiet_option,
)
from narrows.cli.outputs import Picture, every
from narrows.compare import latency as judged
from narrows.compare import measurements
from narrows.compare import render as comparison
from narrows.errors import NarrowsError, OutputError, reason
from narrows.files import capture, writer_of
from narrows.latency import render as latencies
from narrows.latency.result import read as read_latency
from narrows.measure import history as kept
from narrows.measure import render, run
from narrows.measure.render import model_lines
from narrows.measure.result import Measurement
from narrows.measure.summary import answer
from narrows.path_model import infer
from narrows.render.plot import draw_columns
from narrows.render.progress import ProgressBar
from narrows.render.report import unique, write
from narrows.render.sketch import draw
from narrows.render.style import Style
from narrows.render.styled import table
from narrows.render.tables import Cell, Table
from narrows.render.terminal import console, echo
from narrows.render.words import listed, number
from narrows.storage import output, untrusted_input
from narrows.storage.anonymous import Anonymizer, key

if TYPE_CHECKING:
    from narrows.cli.outputs import Attempt
    from narrows.path_model import PathModel

_HERE = ""
_WIDEST = 100

_TESTS = list(registry.measurement_tests())
"""The first is the default."""


def _streams() -> str:
    """The default of --streams."""
    by_number: dict[int, list[str]] = {}
    for name in _TESTS:
        by_number.setdefault(registry.streams(name), []).append(name)
    said = [
        f"{n} for the test{'s' if len(names) > 1 else ''} {listed(names)}"
        for n, names in by_number.items()
        if n > 1
    ]
    return f"{'; '.join(said)}; otherwise 1"


def _format(file: str) -> None:
    """Raises an error for a name that selects none of the formats of a measurement."""
    writer_of(file)


_anonymize_option = option(
    "--anonymize",
    group="Output",
    is_flag=True,
    help="Replace names and addresses of hosts by pseudonyms. Addresses with a common prefix keep "
    "a common prefix",
)


_passed = passed_options(
    ("--duration", "Load", "TIME", "10s",
     "Duration of each load phase; with --test ping, of the measurement"),
    ("--idle", "Load", "TIME", "3s", "Duration of the idle phase before the load"),
    ("--streams", "Load", "N", _streams(), "Parallel TCP flows in each direction"),
    ("--cc", "Load", "CC,...", "cubic for --test both, otherwise the hosts' own",
     "Congestion controls of the senders on both hosts. With several, each load phase runs once "
     "with each of them, in turn (with --repeats 2: cubic, bbr, cubic, bbr)"),
    ("--repeats", "Load", "N", "1", "Number of times that each load phase is measured"),
    ("--pacing", "Load", "RATE", "none",
     "Maximum rate of each TCP flow (an initial burst of up to 1 MiB is not limited). With "
     "udp_flood: sending rate"),
    ("--max-data", "Load", "SIZE", "2GB",
     "Maximum payload of the measurement. When it is reached, the load phase ends early, and "
     "further load phases of the test are omitted. With --test both, the download may use half: "
     "with the defaults, the download therefore ends early above 800 Mbit/s (1 GB in 10 s)"),
    ("--ping-interval", "Load", "TIME", "20ms", "Mean time between two pings"),
    ("--dscp", "Load", "DSCP", "0",
     "DSCP of flows and pings: a number, or EF, CS1, AF41, …; --test rrul uses its own values"),
    ("--port", "Connection", "PORT", "5201", "Port of the server"),
    *CONNECTION,
    ("--speaks", "Connection", "PROTOCOL", "auto",
     "Protocol of the server: auto, narrows, iperf3 or http"),
)  # fmt: skip
"""The options that go to `narrows-host` as they are."""


@command(
    "narrows measure server.example",
    "narrows measure server.example --out today.json --report today.html",
    "narrows measure https://server.example/large.iso",
    "narrows measure scenarios/asymmetric/down-and-up.toml --cc bbr",
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
    help=f"Load to generate: {', '.join(_TESTS)}; the names are those of Flent, and "
    "docs/how-to/measure-a-path.md describes them",
)
@_passed
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
    makes_folders=False,
    what="Write the path model as a [path] section for scenarios",
)
@file_option(
    "--out",
    makes_folders=False,
    suffix=_format,
    multiple=True,
    what="Write the measurement as .json, .flent.gz, .csv, .jsonl, .hlog or .parquet; may be "
    "repeated",
)
@option(
    "--plot",
    group="Output",
    is_flag=False,
    flag_value=_HERE,
    metavar="[FILE]",
    type=Picture(makes_folders=False),
    help="Write a plot as PNG, SVG or PDF; without FILE, draw it in the terminal (write "
    "--plot last)",
)
@page_option(makes_folders=False)
@figure_options(size=("--plot-size", "--size"))
@option(
    "--no-history",
    group="Output",
    is_flag=True,
    help="Do not add the measurement to the history (`narrows history`)",
)
@_anonymize_option
@json_option("Print the measurement as one JSON object instead of text")
@quiet_option()
def measure(  # noqa: PLR0917 - Click calls it by keyword
    host: str,
    test: str,
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
    quiet: bool,
    **passed: str | None,
) -> None:
    """Measure goodput and latency under load to a host.

    By default (--test both), 12 CUBIC flows download data, and then 12 CUBIC flows upload data. If
    HOST is a URL, only the download is measured, with the congestion control of the server. If
    HOST is a scenario file, the measurement is simulated on the path of the scenario. Of the
    options under Load, a scenario accepts only --streams and --cc. Without [path.reverse] in the
    scenario, the upload is omitted.

    The exit code is 1 if connectivity is lost during the measurement. After Ctrl-C, SIGTERM or
    SIGHUP the results so far are stored and printed. The exit code is then 128 plus the number of
    the signal.
    """
    if path_file is not None and not with_model:
        raise click.BadParameter("needs the path model; omit --no-model", param_hint="--path")
    arguments = [
        word
        for name, value in passed.items()
        if value
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    arguments += [*(["--ecn"] if ecn else []), *(["--insecure"] if insecure else [])]
    with ProgressBar(quiet=quiet, of="measurement") as bar:
        if host.endswith(".toml"):
            measured = run.simulated(host, passed, test=test, progress=bar)
            said: list[str] = []
            no_history = True
        else:
            try:
                measured, said = run.measure(host, arguments, test=test, progress=bar)
            except run.Interrupted as stop:
                measured, said = stop.measured, stop.said
    measured = anonymous(measured) if anonymize else measured
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
                _show(measured, model, scored, sketch=plot == _HERE)
        except OSError:
            # After SIGHUP the terminal is gone.
            if not stopped:
                raise
        if stopped:
            # The results are stored and printed; the exit code is that of the signal.
            raise KeyboardInterrupt

    if answer(measured).connectivity_lost or measured.stopped_by == "lost":
        click.get_current_context().exit(1)


def _write(measured: Measurement, out: Sequence[str], attempt: Attempt) -> None:
    for file in out:
        with attempt():
            files.write(measured, file)


def _keep(measured: Measurement, attempt: Attempt) -> list[str]:
    """Stores the measurement in the history, scores the sealed forecasts that apply to it, and
    returns the scores as sentences.

    Both are optional, so a failure is only a warning.
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
    """Prints an error as a warning."""
    try:
        yield
    except NarrowsError as error:
        with suppress(OSError):
            echo(f"{what}: {error}", err=True)


def _model(
    measured: Measurement, path_file: str | None, attempt: Attempt, *, quiet: bool
) -> tuple[PathModel | None, bool]:
    """The path model, or None without one, and whether Ctrl-C stopped its inference. `path_file`
    selects a file for the model.
    """
    model = None
    with attempt():
        try:
            with ProgressBar(quiet=quiet, of="path model") as bar:
                model = infer(measured, progress=bar)
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
            draw_columns([(measured.host, render.pictures(measured))], plot, style=style)
    if page is not None:
        with attempt():
            write(render.document([measured], [measured.host or "measurement"], [model]), page)


def _show(
    measured: Measurement, model: PathModel | None, scored: Sequence[str], *, sketch: bool
) -> None:
    screen = console()
    render.show(measured, screen, model)
    for picture in render.pictures(measured) if sketch else ():
        for line in draw(picture, min(screen.width, _WIDEST)):
            screen.print(line, no_wrap=True, overflow="crop")
    if scored:
        screen.print()
    for sentence in scored:
        screen.print(sentence, soft_wrap=True)


@command(
    "narrows measure server.example --out today.json",
    "narrows model today.json --path here.toml",
    "narrows model today.json --json | jq .down",
    name="model",
)
@argument(
    "file",
    type=click.Path(dir_okay=False),
    help="Measurement: narrows' .json, .flent.gz, iperf3's JSON or iperf2's text",
)
@option(
    "--seed",
    group="Simulation",
    metavar="N",
    type=SEED,
    default=1,
    help="Seed of all random numbers",
)
@file_option(
    "--path",
    "path_file",
    what="Write the path model as a [path] section for scenarios",
)
@json_option("Print one JSON object instead of text")
@quiet_option()
def model(file: str, as_json: bool, path_file: str | None, seed: int, quiet: bool) -> None:
    """Fit a path model to a measurement.

    The path model has the base RTT, and for each measured direction the rate, buffer, queue
    discipline and random loss, as far as the measurement shows them. narrows prints it as a [path]
    section for scenarios unless --path writes it to a file.
    """
    measured = files.read(file)
    with ProgressBar(quiet=quiet, of="simulations") as bar:
        found = infer(measured, seed=seed, progress=bar)
    with every() as attempt:
        if path_file is not None:
            with attempt():
                output.write(path_file, found.toml())
        if as_json:
            echo(json.dumps(found.json()))
        elif not quiet:
            for line in model_lines(found):
                echo(line)
            if path_file is None:
                echo(f"\n{found.toml()}", nl=False)


@command(
    "narrows convert iperf3.json today.flent.gz",
    "narrows convert today.json today.parquet",
    "narrows convert capture.pcapng public.pcapng --anonymize",
)
@argument(
    "source",
    metavar="FROM",
    type=click.Path(dir_okay=False),
    help="narrows' JSON, .flent.gz, iperf3's -J or --json-stream, iperf2's text, or a capture",
)
@argument(
    "target",
    metavar="TO",
    type=output.File(),
    help="File ending in .json, .flent.gz, .csv, .jsonl, .hlog (HdrHistogram) or .parquet",
)
@_anonymize_option
def convert(source: str, target: str, anonymize: bool) -> None:
    """Convert a measurement to another file format.

    With --anonymize, FROM may be a capture (pcapng). TO is then a capture that has only the headers
    of IP and transport. In all files of this user, a host has the same pseudonym; the secret key of
    the pseudonyms is narrows/anonymize.key under $XDG_DATA_HOME (~/.local/share if it is not set).
    An attacker who can send packets with known addresses can find their pseudonyms.
    """
    if target.endswith(".pcapng"):
        _capture(source, target, anonymize=anonymize)
        return
    _format(target)
    measured = files.read(source)
    files.write(anonymous(measured) if anonymize else measured, target)


def anonymous(measured: Measurement) -> Measurement:
    """The measurement with pseudonyms."""
    return Measurement.of(Anonymizer(key()).tree(measured.json))


def _capture(source: str, target: str, *, anonymize: bool) -> None:
    if not anonymize:
        raise NarrowsError(f"{target}: only an anonymized capture can be written; add --anonymize")
    try:
        content = untrusted_input.read(source, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(f"{source}: {reason(error)}") from error
    output.write(target, capture.anonymize(content, Anonymizer(key()), source))


@command(
    "narrows history",
    "narrows history --host server.example --last 5",
    "narrows history --get 3f2a --out a.json",
    "narrows history forget --older-than 90",
)
@argument(
    "action",
    metavar="[forget]",
    required=False,
    type=click.Choice(["forget"]),
    help="Delete the selected measurements",
)
@option("--host", group="Selection", metavar="HOST", help="Only measurements to this host")
@option(
    "--older-than",
    group="Selection",
    metavar="DAYS",
    type=click.IntRange(0, kept.MOST_DAYS),
    help="Delete only measurements that are older than this",
)
@option("--id", "name", group="Selection", metavar="ID", help="Delete only this measurement")
@option("--all", "everything", group="Selection", is_flag=True, help="Delete all measurements")
@option(
    "--last",
    group="Selection",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=20,
    help="Number of measurements, newest first",
)
@json_option("Print one JSON object for each measurement")
@option(
    "--get",
    group="Files",
    metavar="ID",
    help="Export the measurement with this ID to the file given with --out",
)
@file_option(
    "--out",
    suffix=_format,
    group="Files",
    what="File to write; the suffix selects the format as in `narrows convert`",
)
@option(
    "--add",
    group="Files",
    metavar="FILE",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Add the measurement file FILE to the history; may be repeated",
)
@_anonymize_option
def history(  # noqa: PLR0917 - Click calls it by keyword
    action: str | None,
    host: str | None,
    older_than: int | None,
    name: str | None,
    everything: bool,
    last: int,
    as_json: bool,
    add: tuple[str, ...],
    get: str | None,
    out: str | None,
    anonymize: bool,
) -> None:
    """List stored measurements.

    The measurements are in a DuckDB file: $NARROWS_HISTORY, or narrows/history.duckdb under
    $XDG_DATA_HOME (~/.local/share if it is not set). `narrows history forget` deletes them. If
    $NARROWS_HISTORY_DAYS is set, `narrows measure` and --add delete measurements that are older
    than this number of days. The command needs DuckDB: `pip install 'narrows[history]'`.
    """
    selected = (host, older_than, name)
    if action is not None:
        if everything == any(value is not None for value in selected):
            raise click.UsageError(
                "forget: write --host, --older-than or --id to select measurements, or --all"
            )
        gone = kept.forget(host=host, older_than_days=older_than, name=name)
        echo(f"{gone} measurement{'' if gone == 1 else 's'} deleted from {kept.file()}")
        return
    if everything or older_than is not None or name is not None:
        raise click.UsageError("--all, --older-than and --id: write narrows history forget")
    if (get is None) != (out is None):
        raise click.UsageError("--get and --out: one needs the other; write --get ID --out FILE")
    if get is not None and out is not None:
        found = kept.get(get)
        files.write(anonymous(found) if anonymize else found, out)
        return
    for file in add:
        kept.keep(files.read(file))
    if add:
        return
    rows = kept.rows(host=host, last=last)
    if anonymize:
        rows = Anonymizer(key()).tree(rows)
    if as_json:
        for row in rows:
            echo(json.dumps(row))
        return

    cells = [
        [
            *(Cell(str(row[name] or "")) for name in ("id", "started", "host", "test", "grade")),
            *(Cell(number(row[name])) for name in _NUMBERS),
        ]
        for row in rows
    ]
    words = ("id", "started", "host", "test", "grade")
    table(
        console(),
        Table("History", words, _HEADERS, cells),
    )


_NUMBERS = ("down_mbit", "up_mbit", "idle_p50_ms", "loaded_p50_ms", "loaded_p95_ms")
_HEADERS = (
    "download Mbit/s",
    "upload Mbit/s",
    "idle RTT p50 ms",
    "loaded RTT p50 ms",
    "loaded RTT p95 ms",
)


def compared(named: Sequence[str]) -> Iterator[Measurement]:
    """The measurements of files, or of the history if the file does not exist."""
    for name in named:
        yield files.read(name) if Path(name).exists() or not kept.installed() else kept.get(name)


def are_measurements(named: Sequence[str]) -> bool:
    """Whether the first name is a measurement and not a scenario, which is TOML."""
    file = Path(named[0])
    if file.suffix == ".toml":
        return False
    try:
        begin = untrusted_input.head(file, 4096)
    except OSError:
        # An id of the history has no dot.
        return not file.exists() and "." not in file.name and "/" not in named[0]
    return (
        begin.lstrip()[:1] == b"{"
        or begin[:2] == b"\x1f\x8b"
        or begin[:3] == b"BZh"
        or b" sec " in begin
    )


def compare_measurements(
    named: Sequence[str],
    *,
    plot: str | None,
    page: str | None,
    as_json: bool = False,
    style: Style | None = None,
) -> None:
    """Compares each measurement with the first."""
    if len(named) < 2:  # noqa: PLR2004 - one is compared with another
        raise click.UsageError(
            "FILE: a second file is missing; write narrows compare before.json after.json"
        )
    if any(_is_latency(name) for name in named):
        _compare_latencies(named, plot=plot, page=page, as_json=as_json, style=style)
        return
    several = list(compared(named))
    names = unique([Path(name).name for name in named])
    found = [
        (name, measurements.differences(several[0], one))
        for name, one in zip(names[1:], several[1:], strict=True)
    ]
    warned = {
        name: comparison.warnings(several[0], one, (names[0], name))
        for name, one in zip(names[1:], several[1:], strict=True)
    }
    said = [
        s
        for name, each in found
        for s in (*warned[name], *comparison.sentences(each, names[0], name))
    ]
    with every() as attempt:
        if plot:
            with attempt():
                draw_columns(
                    [
                        (name, render.pictures(one))
                        for name, one in zip(names, several, strict=True)
                    ],
                    plot,
                    style=style,
                )
        if page is not None:
            with attempt():
                made = render.document(several, names, [None] * len(several))
                write(made | {"first": " ".join([*said, comparison.caution(several)])}, page)
        if as_json:
            told = {name: {d.figure.key: d.json() for d in each} for name, each in found}
            echo(json.dumps({"before": names[0], "after": told, "warnings": warned}))
            return
        out = console()
        for name, each in found:
            for line in warned[name]:
                out.print(line, style="bold yellow", markup=False, soft_wrap=True)
            for line in comparison.sentences(each, names[0], name):
                out.print(line, markup=False, soft_wrap=True)
            out.print()
            if each:
                table(out, comparison.table(each, names[0], name))
                out.print()
        if any(each for _, each in found):
            out.print(comparison.caution(several), markup=False, soft_wrap=True)


def _is_latency(name: str) -> bool:
    """Whether a file is a result of `narrows latency`; its own reader checks the rest."""
    try:
        raw = untrusted_input.read(name, untrusted_input.MOST_DATA_BYTES)
    except OSError:
        return False
    return re.search(rb'"kind"\s*:\s*"latency', raw) is not None


def _compare_latencies(
    named: Sequence[str],
    *,
    plot: str | None,
    page: str | None,
    as_json: bool,
    style: Style | None,
) -> None:
    """Compares each result of `narrows latency` with the first."""
    several = [read_latency(name) for name in named]
    hosts = [str(one.get("host") or "") for one in several]
    # Host names identify the results, if they differ.
    names = (
        hosts
        if all(hosts) and len(set(hosts)) == len(hosts)
        else unique([Path(name).name for name in named])
    )
    if plot == _HERE:
        raise click.BadParameter(
            "the name of a file is missing; write --plot out.png", param_hint="--plot"
        )
    found = [
        (name, one, judged.differences(several[0], one))
        for name, one in zip(names[1:], several[1:], strict=True)
    ]
    said = {
        name: comparison.latency_sentences(each, several[0], one, (names[0], name))
        for name, one, each in found
    }
    with every() as attempt:
        if plot:
            with attempt():
                latencies.plot(list(zip(names, several, strict=True)), plot, style=style)
        if page is not None:
            with attempt():
                made = latencies.document(list(zip(names, several, strict=True)))
                write(
                    made | {"first": " ".join(line for lines in said.values() for line in lines)},
                    page,
                )
        if as_json:
            told = {
                name: [{d.key: d.json() for d in of} for of in judged.by_clock(each)]
                for name, _, each in found
            }
            warned = {
                name: comparison.latency_warnings(several[0], one, (names[0], name))
                for name, one, _ in found
            }
            echo(
                json.dumps(
                    {
                        "before": names[0],
                        "after": {
                            name: clocks[0] if clocks else {} for name, clocks in told.items()
                        },
                        "round_trip": {
                            name: clocks[1] if clocks[1:] else {} for name, clocks in told.items()
                        },
                        "warnings": warned,
                    }
                )
            )
            return
        out = console()
        for name, _, each in found:
            for at, line in enumerate(said[name]):
                out.print(line, style="" if at else "bold", markup=False, soft_wrap=True)
            out.print()
            for of in judged.by_clock(each):
                table(out, comparison.latency_table(of, (names[0], name)))
                out.print()
        out.print(comparison.LATENCY_CAUTION, markup=False, soft_wrap=True)
