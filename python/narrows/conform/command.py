"""`narrows conform`: the command."""

from __future__ import annotations

import json

import click

from narrows import operating_system
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    file_option,
    json_option,
    kernel_option,
    need_linux,
    plugin_option,
    seed_option,
    seeds_option,
    separated,
)
from narrows.cli.outputs import every
from narrows.conform import render, running, target
from narrows.conform.pair import Pair, pair
from narrows.conform.suites import SUITES, checks
from narrows.conform.target import Target
from narrows.errors import NarrowsError
from narrows.registry import check_cc
from narrows.render.progress import ProgressBar
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.runs.engines import choose
from narrows.storage import output


@command(
    "narrows conform cubic --suite basics --seeds 2",
    "narrows conform bbr --only policer,standing-queue --junit conform.xml",
    "narrows conform reno --only steady-goodput,rtt --json | jq .failed",
)
@argument(
    "name",
    metavar="[TARGET]",
    required=False,
    help="Congestion control, TRANSPORT or TRANSPORT:CC, instead of the options under Programs",
)
@plugin_option
@option(
    "--server",
    group="Programs",
    metavar="COMMAND",
    help="Server that sends data to the client; {port} and {seconds} are replaced",
)
@option(
    "--client",
    group="Programs",
    metavar="COMMAND",
    help="Client, which connects to the host far; {port} and {seconds} are replaced",
)
@option(
    "--engine",
    group="Programs",
    type=click.Choice(["live", "linux"]),
    show_default="live",
    help="live: this host, in real time; linux: a kernel of `narrows kernel build`",
)
@kernel_option
@option(
    "--suite",
    group="Simulation",
    type=click.Choice(SUITES),
    default="all",
    help="Checks to run; ccwg has the criteria of RFC 9743 (IETF working group CCWG), bbr "
    "the test cases of draft-ietf-ccwg-bbr-06",
)
@option(
    "--only",
    group="Simulation",
    metavar="CHECK,...",
    show_default="all of the suite",
    help="Names of single checks, separated by commas",
)
@option(
    "--as",
    "rules",
    group="Simulation",
    metavar="CC",
    show_default="the congestion control of TARGET",
    help="Congestion control whose rules apply to TARGET",
)
@seed_option("First seed", default=1)
@seeds_option("Number of runs of each check, with consecutive seeds", default=running.SEEDS)
@file_option("--junit", what="Write the results to FILE as JUnit XML")
@file_option("--report", "page", what="Write an HTML report of the first failing check")
@json_option("Print one JSON object instead of a table")
def conform(  # noqa: PLR0917 - Click calls it by keyword
    name: str | None,
    server: str | None,
    client: str | None,
    engine: str | None,
    kernel: str | None,
    suite: str,
    only: str | None,
    rules: str | None,
    seed: int,
    seeds: int,
    junit: str | None,
    page: str | None,
    as_json: bool,
) -> None:
    """Check a QUIC stack, TCP or congestion control against RFCs.

    The target is a congestion control of narrows, or a transport: a QUIC stack or TCP of another
    project, which an adapter (--plugin) connects to the simulator. With --server and --client, the
    target is a pair of programs that run at both ends of an emulated path.

    Each check has a source (an RFC or a published result), an expected range and a measured mean
    with its 95 % confidence interval over the seeds. A check passes if the interval is inside the
    range, and fails if it is outside. Otherwise it is not decided. The exit code is 1 if a check
    failed.
    """
    if rules is not None:
        check_cc("--as", rules)
    of = _target(name, rules, server=server, client=client, engine=engine, kernel=kernel)
    if page is not None and isinstance(of, Pair):
        raise NarrowsError("--report: a pair of programs has no report page; omit --report")
    names = None if only is None else separated("--only", only)
    known = {check.name for check in checks(suite)}
    for unknown in [name for name in names or () if name not in known]:
        elsewhere = next((check for check in checks("all") if check.name == unknown), None)
        if elsewhere is not None:
            raise NarrowsError(
                f"--only {unknown}: this check is not in suite {suite}; write --suite "
                f"{elsewhere.suite}"
            )
        raise NarrowsError(f"--only {unknown}: no such check; known: {', '.join(sorted(known))}")
    with ProgressBar(quiet=as_json, of="simulations") as bar:
        found = running.conform(of, suite, seed=seed, seeds=seeds, only=names, progress=bar)
    with every() as attempt:
        if junit is not None:
            with attempt():
                output.write(junit, render.junit(found))
        if page is not None:
            with attempt():
                _report(found, page)
        if as_json:
            echo(json.dumps(found.json()))
        else:
            table(console(), render.table(found))
            for line in render.sentences(found):
                echo(line)
    if found.count("fail"):
        click.get_current_context().exit(1)


def _target(
    name: str | None,
    rules: str | None,
    *,
    server: str | None,
    client: str | None,
    engine: str | None,
    kernel: str | None,
) -> Target:
    """The target that the arguments name."""
    if server is not None and client is not None:
        if name is not None:
            raise NarrowsError(
                f"{name}: excluded by --server and --client; omit TARGET, or both options"
            )
        operating_system.require_linux("narrows conform --server")
        need_linux(engine or "live", kernel=kernel)
        chosen = choose("linux" if engine == "linux" else "live", kernel)
        return pair(server, client, rules, chosen.name, chosen.kernel)
    programs = {"--server": server, "--client": client, "--engine": engine, "--kernel": kernel}
    given = next((option for option, value in programs.items() if value is not None), None)
    if given is not None:
        raise NarrowsError(f"{given}: a pair of programs needs both --server and --client")
    if name is None:
        raise NarrowsError("TARGET: is missing; write cubic, or use --server and --client")
    return target.find(name, rules)


def _report(found: running.Conformance, page: str) -> None:
    """Writes the report of the run of the first failing check, with its first seed."""
    failed = [result.check for result in found.results if result.verdict == "fail"]
    if not failed:
        echo(f"--report {page}: no check failed, so there is no report.", err=True)
        return
    running.play(failed[0], found.target, found.seed, samples="pictures").report(page)
