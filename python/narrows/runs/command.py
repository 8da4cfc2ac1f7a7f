"""The commands `run`, `check`, `list` and `remy`, for scenarios and the names that they may
contain.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import click

from narrows import _core, extras
from narrows.cli.command import WRONG, argument, command, option
from narrows.cli.options import (
    IN_TERMINAL,
    engine_option,
    figure_options,
    file_option,
    files_argument,
    files_option,
    json_option,
    latex_option,
    need_linux,
    plot_option,
    plugin_option,
    queues_option,
    quiet_option,
    report_option,
    seed_option,
    seeds_option,
    states_option,
)
from narrows.cli.outputs import every
from narrows.errors import NarrowsError, RecordError, reason
from narrows.render.progress import ProgressBar
from narrows.render.terminal import echo
from narrows.runs.run import Engine, Queues, Run
from narrows.runs.run import run as run_scenario
from narrows.runs.source import read
from narrows.storage import output, untrusted_input
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from narrows.json_object import JsonObject
    from narrows.registry import Parameter
    from narrows.render.style import Style
    from narrows.runs.model import SamplesAsked

_ELEMENTS = ("link", "policer", "loss", "corrupt", "duplicate", "jitter", "reorder")
_LISTS = {"cc": "cc", "queues": "queue", "workload": "workload"} | {
    element: element for element in _ELEMENTS
}
"""The kinds that `narrows list` accepts, and their names in the core."""

_ALIASES = {"queue": "queues", "qdisc": "queues", "qdiscs": "queues", "ccs": "cc"}
"""Alternative names of kinds that `narrows list` accepts."""

_VERDICTS = 20_000
"""Maximum number of dropped, marked or lost packets that a report page lists."""

_ONE_THREAD = (
    "The run used one thread. Two threads need at least two flows, all towards the far host, over "
    "one path with constant delays, and no named links, workloads or --record. The section Two "
    "threads of docs/performance.md has all conditions."
)
"""Printed if `--threads 2` had no effect."""


class _Interval(click.ParamType):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of `--sample-interval`."""

    name = "time"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str:
        """The text of a time, or a word that `run` accepts instead of one."""
        text = str(value)
        if text not in {"off", "pictures"}:
            try:
                _core.seconds(text)
            except NarrowsError as error:
                problem, _, fix = str(error).removeprefix(f'"{text}" ').rpartition("; write ")
                fix = fix.strip('"')
                self.fail(f"{problem}; write --sample-interval {fix}", param, ctx)
        return text


@command(
    "narrows run scenarios/first/cubic.toml --out result --report result.html",
    "narrows run scenarios/first/cubic.toml --seeds 20 --plot figure.pdf --size 84x120mm",
    "narrows run scenarios/first/cubic.toml --json | jq .flows",
    "narrows run scenarios/first/cubic.toml --engine live --record packets.pcapng",
)
@argument("file", type=click.Path(dir_okay=False), help="Scenario (TOML)")
@files_option
@plugin_option
@engine_option(
    "sim: models of narrows; live: TCP of this host, with real packets in real time; linux: a real "
    "Linux kernel of `narrows kernel build`. Its clock is simulated, so that results do not depend "
    "on the load of this host"
)
@queues_option
@seed_option(show_default="the seed of the scenario")
@seeds_option(
    "Run N seeds and print means with 95 % confidence intervals. Each flow then starts up to 5s "
    "later than specified, at random, so that the runs are independent; start_jitter in the "
    "scenario changes this"
)
@option(
    "--threads",
    group="Simulation",
    metavar="N",
    type=click.IntRange(1, 2),
    show_default="1",
    help="Largest number of threads of a run of the simulator, without --seeds; results do not "
    "depend on it",
)
@option(
    "--out",
    group="Output",
    metavar="DIR",
    type=output.Folder(),
    help="Write samples (Parquet), metrics (JSON) and the scenario to DIR",
)
@option(
    "--sample-interval",
    group="Output",
    metavar="TIME",
    type=_Interval(),
    show_default="100ms; with --plot or --report, it depends on the duration",
    help="Time between two samples in --out, --plot and --report",
)
@file_option(
    "--record",
    what="Write all packets to a capture file for Wireshark (pcapng)",
)
@plot_option
@report_option
@states_option
@latex_option
@figure_options()
@json_option()
@quiet_option()
@option(
    "--strict",
    is_flag=True,
    help="Exit with code 1 if the self-check of a live run fails: packets were late, sent at a "
    "wrong rate, or dropped by this host",
)
def run(  # noqa: PLR0917 - Click calls it by keyword
    file: str,
    engine: str,
    kernel: str | None,
    queues: str | None,
    seed: int | None,
    seeds: int | None,
    threads: int | None,
    as_json: bool,
    out: str | None,
    record: str | None,
    sample_interval: str | None,
    plot: str | None,
    page: str | None,
    states: bool,
    latex: str | None,
    style: Style | None,
    quiet: bool,
    strict: bool,
) -> None:
    """Run a scenario and report its metrics.

    `narrows list` prints the names that a scenario accepts: congestion controls, queue disciplines,
    workloads, links, policers and impairments of the path.
    """
    need_linux(engine, kernel=kernel, queues=queues)
    if out == "":
        raise click.BadParameter("the directory is missing; write --out result", param_hint="--out")
    if seeds is not None:
        from narrows.runs.outputs import replicate  # noqa: PLC0415 - one run needs less

        replicate(
            file, seed=seed, seeds=seeds, engine=cast("Engine", engine), kernel=kernel, out=out,
            samples=samples_for(sample_interval, plot, None, out)["sample_interval"],
            plot=plot, latex=latex, style=style,
            as_json=as_json, quiet=quiet,
            refused={"--record": record, "--report": page, "--strict": strict, "--states": states,
                "--threads": threads,
            },
        )  # fmt: skip
        return
    if states and plot is None and page is None:
        raise click.BadParameter("requires --plot or --report", param_hint="--states")
    if out is not None:
        extras.require_pyarrow()
    if plot not in {None, IN_TERMINAL}:
        from narrows.runs.outputs import check_plot  # noqa: PLC0415 - few runs need it

        check_plot(file, plot, style)
    unrecorded: RecordError | None = None
    with ProgressBar(quiet=quiet) as bar:
        try:
            done = run_scenario(
                file,
                seed=seed,
                engine=cast("Engine", engine),
                kernel=kernel,
                queues=cast("Queues | None", queues),
                threads=threads,
                **samples_for(sample_interval, plot, page, out, states=states),
                record=record,
                progress=bar,
            )
        except RecordError as error:
            done, unrecorded = error.run, error
    with every() as attempt:
        if any(file is not None for file in (out, plot, page, latex)):
            from narrows.runs.outputs import write  # noqa: PLC0415 - few runs need it

            write(
                done,
                attempt,
                out=out,
                plot=plot,
                page=page,
                latex=latex,
                style=style,
                states=states,
            )  # fmt: skip
        report(done, as_json=as_json, quiet=quiet)
        if threads is not None and done.json["provenance"]["threads"] < threads and not quiet:
            echo(_ONE_THREAD, err=True)
        if plot == IN_TERMINAL and not as_json and not quiet:
            from narrows.runs.outputs import print_sketch  # noqa: PLC0415 - it needs Rich

            print_sketch(done, states=states)
        if unrecorded is not None:
            with attempt():
                raise unrecorded
    instruments = done.json.get("instruments")
    if strict and instruments is not None and not instruments["trusted"]:
        echo(f"self-check failed: {'; '.join(instruments['why'])}", err=True)
        click.get_current_context().exit(1)


def samples_for(
    interval: str | None,
    plot: str | None,
    page: str | None,
    out: str | None,
    *,
    states: bool = False,
) -> SamplesAsked:
    """The arguments of `run` for the samples and packet events that the outputs need."""
    pictured = plot is not None or page is not None
    return {
        "sample_interval": interval or ("pictures" if pictured else "off" if out is None else None),
        "verdicts": _VERDICTS if page is not None else 0,
        "states": states or out is not None,
    }


def report(done: Run, *, as_json: bool, quiet: bool) -> None:
    """Prints a run as JSON or as text; with `quiet`, it prints no text."""
    if as_json:
        echo(json.dumps(done.json))
    elif not quiet:
        from narrows.render.run import show  # noqa: PLC0415

        show(done.json)


@command(
    "narrows check scenarios/*/*.toml",
    "narrows check --files-from scenarios scenarios/first/cubic.toml",
)
@files_argument("Scenarios (TOML)")
@files_option
@plugin_option
def check(files: tuple[str, ...]) -> None:
    """Check scenario files for errors.

    All errors of a file are reported, each with its line and, if possible, a correction. No
    scenario is run.
    """
    wrong = 0
    for file in files:
        try:
            notices = _core.check_toml(read(file), name_of(file))
            echo(f"{name_of(file)}: valid")
            for notice in notices:
                echo(f"{name_of(file)}: note: {notice}")
        except NarrowsError as error:
            wrong += 1
            echo(str(error), err=True)
    if wrong:
        click.get_current_context().exit(WRONG)


class _Lists(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on
    """The type of the argument KIND of `narrows list`. If the value is the name of an entry, such
    as `cubic`, the error names its kind.
    """

    def convert(
        self,
        value: Any,  # noqa: ANN401 - Click defines the signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401
        """The kind; raises an error for other values."""
        value = _ALIASES.get(value, value)
        listed = json.loads(_core.list_json()) if value not in self.choices else {}
        for which, key in _LISTS.items():
            if any(kind["name"] == value for kind in listed.get(key, ())):
                raise click.BadParameter(
                    f"is one of {which}; write narrows list {which} {value}", ctx, param, value
                )
        return super().convert(value, param, ctx)


@command(
    "narrows list",
    "narrows list cc cubic --verbose",
    "narrows list queues --json",
    "narrows list rules bbr --like linux-6.12.5",
    name="list",
)
@argument(
    "what",
    metavar="[KIND]",
    type=_Lists([*_LISTS, "rules"]),
    required=False,
    help=f"{', '.join(_LISTS)} or rules (differences between Linux releases)",
)
@argument(
    "name",
    metavar="[NAME]",
    required=False,
    help="Print only this entry; for rules, only the rules of this part of TCP",
)
@option(
    "--like",
    group="Input",
    metavar="RELEASE",
    help="Print which rules this release of Linux has: linux-6.12, linux-6.12.5; for rules only",
)
@plugin_option
@option(
    "--verbose",
    group="Output",
    is_flag=True,
    help="Print parameters, defaults, ranges and sources",
)
@json_option("Print one JSON object instead of text")
def list_(
    what: str | None, name: str | None, like: str | None, verbose: bool, as_json: bool
) -> None:
    """List congestion controls, queue disciplines and other models."""
    if like is not None and what != "rules":
        raise click.BadParameter(f"write narrows list rules --like {like}", param_hint="--like")
    from narrows.models.plugins import load_installed  # noqa: PLC0415 - it searches for packages

    for wrong in load_installed():
        echo(wrong, err=True)
    if what == "rules":
        _list_rules(name, like, verbose=verbose, as_json=as_json)
        return
    listed = json.loads(_core.list_json())
    kinds = {which: listed[key] for which, key in _LISTS.items() if what in {None, which}}
    if what is not None and name is not None:
        known = ", ".join(kind["name"] for kind in kinds[what])
        kinds[what] = [kind for kind in kinds[what] if kind["name"] == name]
        if not kinds[what]:
            raise NarrowsError(f"{name}: not among {what}; write one of {known}")
    if as_json:
        echo(json.dumps(kinds))
        return
    for which, found in kinds.items():
        if what is None:
            echo(f"{which}:")
        if name is None:
            echo(_row("name", "family", "published", "description", wide="family" in found[0]))
        for kind in found:
            family, year = kind.get("family", ""), kind.get("year", "") or "-"
            wide = "family" in kind
            echo(_row(kind["name"], family, year if wide else "", kind["help"], wide=wide))
            if verbose or name is not None:
                _describe(kind)


def _row(name: str, family: str, year: object, about: str, *, wide: bool) -> str:
    """A line of `narrows list`; with `wide`, it has the columns family and year, which only
    congestion controls have.
    """
    return f"{name:12} {f'{family:18}  {year:<9}  ' if wide else ''}{about}"


def _list_rules(of: str | None, like: str | None, *, verbose: bool, as_json: bool) -> None:
    from narrows.kernel import render  # noqa: PLC0415 - other lists need no tables
    from narrows.kernel.rules import all_rules, rules_of  # noqa: PLC0415
    from narrows.render.styled import table  # noqa: PLC0415
    from narrows.render.terminal import console  # noqa: PLC0415

    known = all_rules() if like is None else [rule.as_object() for rule in rules_of(like)]
    found = [rule for rule in known if of in {None, rule["of"]}]
    if not found:
        parts = ", ".join(dict.fromkeys(rule["of"] for rule in known))
        raise NarrowsError(f"{of}: has no rules; write one of {parts}")
    if as_json:
        echo(json.dumps({"rules": found}))
        return
    table(console(), render.rules(found, sources=verbose or of is not None))


def _with_lists(params: list[Parameter]) -> Iterator[Parameter]:
    """The parameters; a list parameter is followed by the parameters of its tables."""
    for param in params:
        yield param
        for inner in param.get("params", ()):
            yield {**inner, "name": f"{param['name']}.{inner['name']}"}


def _describe(kind: JsonObject) -> None:
    echo(f"{'':12} source: {kind['source']}")
    if kind.get("needs"):
        echo(f"{'':12} needs: {'; '.join(kind['needs'])}")
    for default in kind.get("default_in", ()):
        until = f" until {default['until']}" if default["until"] else ""
        echo(f"{'':12} default of {default['system']} since {default['since']}{until}")
    for param in _with_lists(kind["params"]):
        limits = (param.get("min"), param.get("max"))
        accepts = " | ".join(param.get("words", ())) or " to ".join(
            str(limit) for limit in limits if limit is not None
        )
        default = json.dumps(param["default"])
        echo(f"{'':12} {param['name']} = {default}{f'  [{accepts}]' if accepts else ''}")
        source = f" ({param['source']})" if param["source"] else ""
        echo(f"{'':16} {param['help']}{source}")


@command("narrows remy delta1.dna -o delta1.remy")
@argument(
    "file",
    metavar="FILE.dna",
    type=click.Path(dir_okay=False),
    help="Tree of rules that the program Remy wrote",
)
@option(
    "-o",
    "out",
    group="Output",
    type=output.File(),
    required=True,
    metavar="FILE.remy",
    help="Write the tree of rules to this file",
)
def remy(file: str, out: str) -> None:
    """Convert a congestion control that the search program Remy found.

    Remy is a program that searches for congestion-control rules by simulation. Its result is a tree
    of rules in a .dna file. The command converts this tree and writes it to a .remy file. A
    scenario names that file with the key `tree` of the congestion control `remy`.
    """
    try:
        dna = untrusted_input.read(file)
    except OSError as error:
        raise NarrowsError(f"{name_of(file)}: {reason(error)}") from error
    text, rules = _core.remy_from_dna(dna, name_of(file))
    output.write(out, text)
    from narrows.render.words import counted  # noqa: PLC0415

    echo(f'{counted(rules, "rule")}; cc = {{ kind = "remy", tree = "{name_of(out)}" }}')
