"""The command `narrows`. What is heavy (Rich, Arrow) is imported where it is needed: a small run answers at once."""

from __future__ import annotations

from narrows import _interrupt  # isort: skip - before anything that takes time
import errno
import io
import json
import os
import re
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

import click

from narrows import Run, __version__, _core
from narrows.advise.command import advise, from_, record
from narrows.errors import NarrowsError, reason
from narrows.host.serve import serve
from narrows.host.shell import shell
from narrows.latency.command import latency
from narrows.measure.command import are_measurements, compare_measurements, convert, history, measure, twin
from narrows.render.terminal import console, echo
from narrows.reproduce.command import reproduce
from narrows.runs.run import ENGINES, Engine
from narrows.runs.run import run as run_scenario
from narrows.runs.scenario import name_of, read
from narrows.storage import output, untrusted_input
from narrows.study.command import study
from narrows.sweeps.command import sweep
from narrows.tune.changing import tune
from narrows.tune.with_ import with_

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress

_WRONG = 2
"""Exit code of whatever is the caller's to mend, the same as for a wrong option."""

_ELEMENTS = ("link", "policer", "loss", "corrupt", "duplicate", "jitter", "reorder")
_LISTS = {"cc": "cc", "queues": "queue", "workload": "workload"} | {element: element for element in _ELEMENTS}
"""The kinds that `narrows list` lists, and what the core calls them."""

_HERE = ""
"""The file of a plot that is drawn in the terminal."""

_TOPICS = ("bufferbloat", "bbr", "cubic", "codel", "fairness", "policer", "wifi", "ladder")
"""What can be explained."""

_WIDEST = 100
"""A sketch is no wider, in characters."""

_VERDICTS = 20_000
"""So many packets are told one by one on a page."""


_EMPTY = re.compile(r"(--[\w-]+=)?")
"""A word with nothing in it, or an option's with nothing behind its sign."""


class _Narrows(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An empty word is a variable that was never set: `--token "$TOKEN"` must not come to mean nobody's."""
        ours = args[: args.index("--")] if "--" in args else args
        for at, word in enumerate(ours):
            if _EMPTY.fullmatch(word):
                of = word.rstrip("=") or next((w for w in ours[at - 1 : at] if w.startswith("-")), "an argument")
                raise click.UsageError(f"{of} is empty: give it a value, or leave it out", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        """Mistakes are told in the core's words and without a traceback; a signal is not a mistake."""
        _ready_stdout()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            with suppress(OSError):
                echo("stopped", err=True)
            _interrupt.silence()
            ctx.exit(_interrupt.code())
        except NarrowsError as error:
            echo(str(error), err=True)
            ctx.exit(_WRONG)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # Click's: a reader that has seen enough is no mistake
            echo(f"output: {reason(error)}", err=True)
            ctx.exit(_WRONG)


def _ready_stdout() -> None:
    """A locale that lacks a sign gets a question mark for it; who closed stdout wants nothing there."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - as long as the process
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


class _Bar:
    """A progress bar on stderr, for a terminal, and only once a run has taken a second."""

    def __init__(self, *, quiet: bool, of: str = "time of the run") -> None:
        self._of = of
        self._wanted = not quiet and sys.stderr.isatty()
        self._begin = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A terminal that has hung up must not cost what is measured or run.
        with suppress(OSError):
            if self._bar is not None:
                self._bar.stop()

    def __call__(self, now_s: float, end_s: float) -> None:
        if not self._wanted or time.monotonic() - self._begin < 1:
            return
        if self._bar is None:
            from rich.progress import Progress  # noqa: PLC0415

            self._bar = Progress(console=console(err=True), transient=True)
            self._bar.add_task(self._of, total=end_s)
            with suppress(OSError):
                self._bar.start()
        with suppress(OSError):
            self._bar.update(self._bar.task_ids[0], completed=now_s)


@click.group(cls=_Narrows, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="narrows")
def main() -> None:
    """A laboratory for the narrow part of a network path.

    Example: narrows run scenarios/first/cubic.toml
    """


def _plot_file(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value:
        from narrows.render.plot import check as check_name  # noqa: PLC0415 - which imports Matplotlib only to draw

        check_name(value)
    return value


_plot_option = click.option(
    "--plot",
    is_flag=False,
    flag_value=_HERE,
    metavar="[FILE]",
    is_eager=True,
    callback=_plot_file,
    help="Draw it into a PNG, SVG or PDF; without a file, here. Example: --plot out.png",
)
_report_option = click.option(
    "--report",
    "page",
    type=click.Path(dir_okay=False),
    help="Write a page with pictures, verdicts and how sure it is. Example: --report out.html",
)


def _allow_files(_context: click.Context, _param: click.Parameter, folders: tuple[str, ...]) -> None:
    """Workers and the live engine inherit it."""
    if folders:
        os.environ["NARROWS_FILES_FROM"] = os.pathsep.join(map(os.path.abspath, folders))


_files_option = click.option(
    "--files-from",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True),
    expose_value=False,
    callback=_allow_files,
    help="A folder besides the scenario's own to read its files from; may be repeated. Example: --files-from traces",
)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False))
@_files_option
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="sim",
    show_default=True,
    help="The simulator, or this machine's own TCP over real packets. Example: --engine live",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Instead of the scenario's. Example: --seed 7")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables. Example: --json | jq .flows")
@click.option(
    "--out", type=click.Path(file_okay=False), help="Write Parquet, JSON and the scenario here. Example: --out result"
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False),
    help="Every packet into a capture that Wireshark opens. Example: --record out.pcapng",
)
@click.option("--sample-interval", help="Between two samples of the tables of --out. Example: --sample-interval 100ms")
@_plot_option
@_report_option
@click.option("--quiet", is_flag=True, help="No tables and no progress, errors only. Example: --quiet --out result")
@click.option("--strict", is_flag=True, help="Exit with 1 if a live run does not trust itself. Example: --strict")
def run(  # noqa: PLR0917 - Click calls it by keyword
    file: str,
    engine: str,
    seed: int | None,
    as_json: bool,
    out: str | None,
    record: str | None,
    sample_interval: str | None,
    plot: str | None,
    page: str | None,
    quiet: bool,
    strict: bool,
) -> None:
    """Run the scenario in FILE and show what happened.

    Example: narrows run scenarios/first/cubic.toml --seed 7
    """
    if out == "":
        raise click.BadParameter("name a directory: --out result", param_hint="--out")
    with _Bar(quiet=quiet) as bar:
        done = run_scenario(
            file,
            seed=seed,
            engine=cast("Engine", engine),
            **_samples(sample_interval, plot, page, out),
            record=record,
            progress=bar,
        )
    if out is not None:
        done.save(out)
    if plot:
        done.plot(plot)
    if page is not None:
        done.report(page)
    report(done, as_json=as_json, quiet=quiet)
    if plot == _HERE and not as_json and not quiet:
        _sketch(done)
    instruments = done.json.get("instruments", {"trusted": True, "why": []})
    if strict and not instruments["trusted"]:
        echo(f"not to be trusted: {'; '.join(instruments['why'])}", err=True)
        click.get_current_context().exit(1)


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False))
@_files_option
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Instead of the scenarios'. Example: --seed 7")
@click.option("--json", "as_json", is_flag=True, help="Of measurements: one JSON object. Example: --json | jq .after")
@_plot_option
@_report_option
def compare(files: tuple[str, ...], seed: int | None, as_json: bool, plot: str | None, page: str | None) -> None:
    """Run several scenarios and show them side by side; or compare measurements, before and after.

    A measurement is a file that `narrows measure` wrote, a .flent.gz, iperf3's JSON, iperf2's text, or an id of
    `narrows history`. Results of `narrows latency` are compared with each other.
    Each is compared with the first: the difference, its interval, and a verdict that can be "no difference seen".

    Example: narrows compare a.toml b.toml --report both.html

    Example: narrows compare before.json after.json
    """
    if are_measurements(files):
        compare_measurements(files, plot=plot, page=page, as_json=as_json)
        return
    if as_json:
        raise click.BadParameter("of scenarios there is none: narrows run FILE --json", param_hint="--json")
    from narrows.render import words  # noqa: PLC0415
    from narrows.render.report import compare_report, name, unique  # noqa: PLC0415

    runs = []
    for file in files:
        with _Bar(quiet=False) as bar:
            runs.append(run_scenario(file, seed=seed, **_samples(None, plot, page, None), progress=bar))
    titles = [name(done) for done in runs]
    # Copies of one scenario have its title; their files have names.
    names = titles if len(set(titles)) == len(titles) else unique([Path(file).name for file in files])
    if plot:
        from narrows.render.plot import compare_plot  # noqa: PLC0415

        compare_plot(runs, plot, names=names)
    if page is not None:
        compare_report(runs, page, names=names)
    for called, done in zip(names, runs, strict=True):
        echo(f"{called}: {words.sentence(done.json)}")
        for notice in done.json.get("notices", []):
            echo(f"{called}: note: {notice}")
        if plot == _HERE:
            _sketch(done)
    if len(runs) > 1:
        echo(words.comparison([(called, done.json) for called, done in zip(names, runs, strict=True)]))


def _samples(interval: str | None, plot: str | None, page: str | None, out: str | None) -> dict[str, Any]:
    """What a run must keep for what is asked of it."""
    pictured = plot is not None or page is not None
    return {
        "sample_interval": interval or ("pictures" if pictured else "off" if out is None else None),
        "verdicts": _VERDICTS if page is not None else 0,
    }


def _sketch(done: Run) -> None:
    from narrows.render.sketch import sketch  # noqa: PLC0415
    from narrows.render.terminal import console  # noqa: PLC0415

    out = console()
    out.print()
    for line in sketch(done, min(out.width, _WIDEST)):
        out.print(line, no_wrap=True, overflow="crop")


def report(done: Run, *, as_json: bool, quiet: bool) -> None:
    """Prints a run for a program or for a person."""
    if as_json:
        echo(json.dumps(done.json))
    elif not quiet:
        from narrows.render.run import show  # noqa: PLC0415

        show(done.json)


@main.command()
@click.option("--rate", default="20Mbit", show_default=True, help="Of the path. Example: --rate 100Mbit")
@click.option("--rtt", default="40ms", show_default=True, help="Two-way propagation. Example: --rtt 20ms")
@click.option("--buffer", help="What the queue holds; 1bdp of a fifo without. Example: --buffer 0.5bdp")
@click.option("--queue", help="Discipline of the queue; fifo without. Example: --queue fq_codel")
@click.option("--loss", help="By chance, before the queue. Example: --loss 0.1%")
@click.option("--only", help="These, with commas between. Example: --only cubic,bbr")
@click.option(
    "--duration",
    type=click.IntRange(4, 3600),
    default=40,
    show_default=True,
    help="Of each simulation, seconds. Example: --duration 60",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, help="The first of all seeds. Example: --seed 7")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Runs of each simulation, with successive seeds. Example: --seeds 8",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table. Example: --json")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    callback=_plot_file,
    help="Draw it into a PNG, SVG or PDF. Example: --plot race.png",
)
def race(  # noqa: PLR0917 - Click calls it by keyword
    rate: str,
    rtt: str,
    buffer: str | None,
    queue: str | None,
    loss: str | None,
    only: str | None,
    duration: int,
    seed: int,
    seeds: int,
    as_json: bool,
    plot: str | None,
) -> None:
    """Every congestion control on one path: alone, beside CUBIC, and with a late comer of its own kind.

    Example: narrows race --rate 50Mbit --rtt 40ms --only reno,cubic,bbr
    """
    from narrows.runs import race as races  # noqa: PLC0415
    from narrows.runs.scenario import Path as NetworkPath  # noqa: PLC0415

    if buffer is None and queue in {None, "fifo"}:
        buffer = "1bdp"
    names = None if only is None else [name.strip() for name in only.split(",")]
    path = NetworkPath(rate=rate, rtt=rtt, buffer=buffer, queue=queue, loss=loss)
    with _Bar(quiet=as_json, of="simulations") as bar:
        found = races.race(path, only=names, duration_s=duration, seed=seed, seeds=seeds, progress=bar)
    if plot:
        races.plot(found, plot)
    if as_json:
        echo(json.dumps(found.json()))
        return
    from narrows.render.run import table  # noqa: PLC0415
    from narrows.render.terminal import console  # noqa: PLC0415

    out = console()
    out.print(races.sentence(found), style="bold")
    out.print()
    table(out, races.table(found))
    if found.seeds > 1:
        out.print(f"\nMeans over {found.seeds} seeds; ±: half the 95 % confidence interval of the mean.")
    for left, needs in found.left_out.items():
        out.print(f"left out: {left}, which needs {needs}")


@main.command()
@click.argument("topic", type=click.Choice(_TOPICS))
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Of every random choice. Example: --seed 7")
@_report_option
def explain(topic: str, seed: int | None, page: str | None) -> None:
    """Teach one thing, with pictures that the simulator makes on the spot.

    Example: narrows explain bufferbloat --report bufferbloat.html
    """
    from narrows.render.terminal import console  # noqa: PLC0415
    from narrows.teach import explain as lessons  # noqa: PLC0415

    if page is not None:
        lessons.write(topic, page, seed=seed)
        return
    out = console()
    lessons.show(topic, out, min(out.width, _WIDEST), seed=seed)


@main.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False))
@_files_option
def check(files: tuple[str, ...]) -> None:
    """Read scenarios without running them; name every mistake.

    Example: narrows check scenarios/*/*.toml
    """
    wrong = 0
    for file in files:
        try:
            notices = _core.check_toml(read(file), name_of(file))
            echo(f"{name_of(file)}: right")
            for notice in notices:
                echo(f"{name_of(file)}: note: {notice}")
        except NarrowsError as error:
            wrong += 1
            echo(str(error), err=True)
    if wrong:
        click.get_current_context().exit(_WRONG)


class _Lists(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on
    """What is listed; who names a single one instead is told where that is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """As click's own."""
        listed = json.loads(_core.list_json()) if value not in self.choices else {}
        for which, key in _LISTS.items():
            if any(kind["name"] == value for kind in listed.get(key, ())):
                self.fail(f"one of {which}: narrows list {which} {value}", param, ctx)
        return super().convert(value, param, ctx)


@main.command("list")
@click.argument("what", type=_Lists([*_LISTS, "rules"]), required=False)
@click.argument("name", required=False)
@click.option("--verbose", is_flag=True, help="With parameters, defaults, ranges, sources. Example: list cc --verbose")
@click.option("--json", "as_json", is_flag=True, help="One JSON object. Example: list cc cubic --json")
def list_(what: str | None, name: str | None, verbose: bool, as_json: bool) -> None:
    """Congestion controls, queue disciplines, workloads and what else a path does: all that a scenario may name.

    `rules` are what releases of Linux do otherwise than those before.

    Example: narrows list cc cubic --verbose
    """
    listed = json.loads(_core.list_json())
    if what == "rules":
        _list_rules(listed["rules"], name, verbose=verbose, as_json=as_json)
        return
    kinds = {which: listed[key] for which, key in _LISTS.items() if what in {None, which}}
    if what is not None and name is not None:
        known = ", ".join(kind["name"] for kind in kinds[what])
        kinds[what] = [kind for kind in kinds[what] if kind["name"] == name]
        if not kinds[what]:
            raise NarrowsError(f"no `{name}` among {what}; known: {known}")
    if as_json:
        echo(json.dumps(kinds))
        return
    for which, found in kinds.items():
        if what is None:
            echo(f"{which}:")
        for kind in found:
            about = f"{kind['family']:15}  {kind['year']}  " if "family" in kind else ""
            echo(f"{kind['name']:12} {about}{kind['help']}")
            if verbose or name is not None:
                _describe(kind)


def _list_rules(rules: list[dict[str, str]], of: str | None, *, verbose: bool, as_json: bool) -> None:
    found = [rule for rule in rules if of in {None, rule["of"]}]
    if not found:
        known = ", ".join(dict.fromkeys(rule["of"] for rule in rules))
        raise NarrowsError(f"no rules of `{of}`; known: {known}")
    if as_json:
        echo(json.dumps({"rules": found}))
        return
    for rule in found:
        echo(f"{rule['since']:5} {rule['of']}: {rule['name']}")
        if verbose or of is not None:
            echo(f"{'':5} {rule['help']} ({rule['source']})")


def _with_lists(params: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Parameters, and behind a list those of its tables."""
    for param in params:
        yield param
        for inner in param.get("params", ()):
            yield inner | {"name": f"{param['name']}.{inner['name']}"}


def _describe(kind: dict[str, Any]) -> None:
    echo(f"{'':12} source: {kind['source']}")
    if kind.get("needs"):
        echo(f"{'':12} needs: {'; '.join(kind['needs'])}")
    for default in kind.get("default_in", ()):
        until = f" until {default['until']}" if default["until"] else ""
        echo(f"{'':12} default of {default['system']} since {default['since']}{until}")
    for param in _with_lists(kind["params"]):
        accepts = " | ".join(param.get("words", ())) or " to ".join(str(param[k]) for k in ("min", "max") if k in param)
        default = json.dumps(param["default"])
        echo(f"{'':12} {param['name']} = {default}{f'  [{accepts}]' if accepts else ''}")
        echo(f"{'':16} {param['help']} ({param['source']})")


@main.command()
@click.option("--quick", is_flag=True, help="A third of the cells, every rate and RTT among them. Example: --quick")
@click.option(
    "--up-to",
    type=click.IntRange(min=10),
    help="Only rates up to so many. Example: --up-to 100",
    metavar="MBIT",
)
@click.option("--goodput", is_flag=True, help="Maps of each one's goodput too. Example: --goodput | less -R")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of maps. Example: --json | jq .criteria")
@click.option("--check", "strict", is_flag=True, help="Exit with 1 unless the criteria are met. Example: --check")
@click.option("--story", is_flag=True, help="A bad path, measured, advised on, changed, measured. Example: --story")
@click.option("--engine", type=click.Choice(ENGINES), help="Of the story; live where it can be. Example: --engine sim")
@_report_option
def demo(  # noqa: PLR0917 - Click calls it by keyword
    quick: bool,
    up_to: int | None,
    goodput: bool,
    as_json: bool,
    strict: bool,
    story: bool,
    engine: str | None,
    page: str | None,
) -> None:
    """Run a published experiment again: BBR against CUBIC, ours beside theirs, and what it teaches.

    With --story: a bad path is made, measured, advised on, changed, and measured again, over real packets where this
    machine can.

    Example: narrows demo

    Example: narrows demo --story --report story.html
    """
    if story:
        of_maps = {"--quick": quick, "--up-to": up_to, "--goodput": goodput, "--check": strict}
        for option in (name for name, given in of_maps.items() if given):
            raise click.BadParameter("that is of the maps, not of the story", param_hint=option)
        from narrows.teach.story import command  # noqa: PLC0415

        command(live=None if engine is None else engine == "live", as_json=as_json, page=page)
        return
    if engine is not None or page is not None:
        raise click.BadParameter("that is of the story", param_hint="--engine" if engine else "--report")
    from narrows.teach.demo import demo as show_demo  # noqa: PLC0415

    met = show_demo(quick=quick, up_to=up_to, goodput=goodput, as_json=as_json)
    if strict and not met:
        click.get_current_context().exit(1)


@main.command()
@click.argument("files", metavar="SCENARIO...", nargs=-1, required=True, type=click.Path(dir_okay=False))
@click.option("--runs", type=click.IntRange(3, 100), default=5, show_default=True, help="Live runs. Example: --runs 3")
@click.option(
    "--seeds", type=click.IntRange(1, 1000), default=15, show_default=True, help="Simulations. Example: --seeds 30"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables. Example: --json | jq .counts")
@click.option("--quiet", is_flag=True, help="Neither tables nor progress. Example: --quiet")
def agree(files: tuple[str, ...], runs: int, seeds: int, as_json: bool, quiet: bool) -> None:
    """Run scenarios by both engines and say whether they come to the same.

    The simulator's hosts get the tick and the rules of this kernel. A figure whose live runs lie apart by more than
    15 % is undecided; a live run that its own instruments flagged is repeated, and that is told. Exit code 1: some
    figure parted, or none was decided.

    Example: narrows agree scenarios/first/cubic.toml --runs 5

    Example: narrows agree scenarios/*/*.toml --json > agreement.json
    """
    from narrows.host.agree import command  # noqa: PLC0415

    with _Bar(quiet=quiet, of="time of the live runs") as bar:
        together = command(files, runs=runs, seeds=seeds, as_json=as_json, quiet=quiet, progress=bar)
    if not together:
        click.get_current_context().exit(1)


@main.command()
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object instead of a table. Example: --json | jq .verdict"
)
def doctor(as_json: bool) -> None:
    """Say what this machine can do for live runs, and how to improve it: privilege, congestion controls, timing.

    It takes some seconds, for it measures: how late threads wake up, what a packet costs. Exit code 1: no live run is
    possible.

    Example: narrows doctor
    """
    from narrows.host import doctor as examination  # noqa: PLC0415

    with _Bar(quiet=False, of="examination") as bar:
        found = examination.examine(bar)
    if as_json:
        echo(json.dumps(found))
    else:
        examination.show(found)
    if not found["able"]:
        click.get_current_context().exit(1)


@main.command()
@click.argument("file", metavar="FILE.dna", type=click.Path(dir_okay=False))
@click.option("-o", "out", required=True, metavar="FILE.remy", help="Where it goes. Example: -o delta1.remy")
def remy(file: str, out: str) -> None:
    """Make a tree of rules that scenarios can name of one that Remy has trained.

    Example: narrows remy delta1.dna -o delta1.remy
    """
    try:
        dna = untrusted_input.read(file)
    except OSError as error:
        raise NarrowsError(f"{name_of(file)}: {reason(error)}") from error
    text, rules = _core.remy_from_dna(dna, name_of(file))
    output.write(out, text)
    echo(f'{rules} rules; cc = {{ kind = "remy", tree = "{name_of(out)}" }}')


_COMMANDS = (
    *(shell, reproduce, study, sweep, serve, measure, latency, twin, convert, history, tune, with_),
    *(advise, from_, record),
)
for _command in _COMMANDS:
    main.add_command(_command)

_interrupt.loaded()
