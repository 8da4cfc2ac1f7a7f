"""The command `narrows latency`: response times and the attribution of delays."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    CONNECTION,
    anonymize_option,
    figure_options,
    file_option,
    interval_lines,
    interval_lines_option,
    json_option,
    passed_options,
    passed_words,
    quiet_option,
    report_option,
)
from narrows.cli.outputs import Picture, every
from narrows.host import families
from narrows.latency import intervals, render, run
from narrows.latency import policies as lab
from narrows.latency.model import ResultJson
from narrows.latency.policies import document as lab_page
from narrows.latency.policies import several as of_setups
from narrows.latency.result import hlog as histogram_log
from narrows.render.progress import ProgressBar
from narrows.render.report import write
from narrows.render.style import Style
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.storage import output
from narrows.storage.anonymous import Anonymizer, key

_passed = passed_options(
    ("--interval", "Requests", "TIME", "1ms; 0s with pingpong; 100ms for tcp",
     "Time between two requests; with pingpong, the minimum"),
    ("--count", "Requests", "N", "limited by --duration", "Number of requests"),
    ("--duration", "Requests", "TIME",
     "unlimited with --count, otherwise 11s; with --load cpu or several policies, 4s per round",
     "Duration after a warm-up of 20 requests"),
    ("--size", "Requests", "SIZE", "64B, or the minimum of the protocol",
     "Size of a request and of its response, with UDP only"),
    ("--timeout", "Requests", "TIME", "1s",
     "Time for which narrows waits for a response: with --pace pingpong after each request, "
     "with --pace even after the last one. A request without a response by then counts as lost"),
    ("--slow", "Requests", "TIME", "median + 1ms",
     "List each response that is slower than this"),
    ("--dscp", "Requests", "DSCP", "0",
     "DSCP of requests and responses: a number, or EF, CS1, AF41, …"),
    ("--port", "Connection", "PORT", "5201; 7 for echo, 862 for stamp, 2112 for irtt, 443 for tcp",
     "Port of the host"),
    *CONNECTION,
    ("--policy", "Scheduling", "POLICY,...", "default",
     "Scheduling policies of the client. If the list has several, they are measured in "
     "alternating rounds. A policy is a setting, or several settings joined by + (fifo+lock). "
     "Settings of scheduling: default, nice (niceness -20), rr or fifo (real-time priority, "
     "SCHED_RR or SCHED_FIFO), pin=N (only processor N) or spin (never sleeps). Other settings: "
     "lock (memory is never swapped out) or awake (CPU idle states disabled). With busy=50us, the "
     "kernel polls the device for up to 50 us before it sleeps (SO_BUSY_POLL)"),
    ("--load", "Scheduling", "LOAD,...", "none",
     "Other work of this host: none, or cpu, which keeps all processors busy"),
    ("--rounds", "Scheduling", "N", "4",
     "Number of rounds if several policies or loads are compared"),
    ("--lead", "Scheduling", "TIME", "60us",
     "Wake up this long before each send time, then busy-wait until the send time"),
    ("--stall", "Scheduling", "LENGTH@INTERVAL", None,
     "Self-test: suspend the client for LENGTH once per INTERVAL. The report must attribute this "
     "delay to the client"),
)  # fmt: skip
"""The options that are passed unchanged to `narrows-host`."""


@command(
    "narrows latency server.example",
    "narrows latency server.example --policy default,rr,awake --load none,cpu --plot out.png",
    "narrows latency 192.0.2.7 --speaks echo --port 7 --pace pingpong --count 1000000",
)
@argument("host", help="Name or address of the host that receives the requests")
@option(
    "--speaks",
    group="Connection",
    metavar="PROTOCOL",
    type=click.Choice(["narrows", "narrows-tcp", "board", "echo", "stamp", "irtt", "tcp"]),
    default="narrows",
    help="Protocol of HOST: narrows (narrows serve), echo, stamp (RFC 8762), irtt, or tcp "
    "(handshakes with any host). The protocols narrows-tcp and board are narrows over TCP only and "
    "over UDP only. If HOST does not reply over UDP, narrows continues over TCP",
)
@option(
    "--pace",
    group="Requests",
    type=click.Choice(["even", "pingpong"]),
    default="even",
    help="Times of requests: even sends one each interval; pingpong waits for each response",
)
@_passed
@option(
    "--no-stamps",
    group="Requests",
    is_flag=True,
    help="Use no kernel timestamps; the response time is then not divided between hosts and "
    "network",
)
@file_option("--out", what="Write the result as JSON")
@file_option("--hlog", what="Write an HdrHistogram log")
@option(
    "--plot",
    group="Output",
    metavar="FILE",
    type=Picture(),
    help="Write a plot with logarithmic axes as PNG, SVG or PDF",
)
@figure_options(log=False, size=("--plot-size",))
@report_option
@anonymize_option
@interval_lines_option
@json_option("Print the result as one JSON object instead of text")
@quiet_option()
def latency(  # noqa: PLR0917 - Click calls it by keyword
    host: str,
    speaks: str,
    pace: str,
    no_stamps: bool,
    as_json: bool,
    out: str | None,
    plot: str | None,
    style: Style | None,
    hlog: str | None,
    page: str | None,
    anonymize: bool,
    lines: str | None,
    quiet: bool,
    **passed: str | None,
) -> None:
    """Measure UDP response times, split into host and network time.

    If HOST runs `narrows serve`, each response time is divided between the applications, the
    kernels and the network. After Ctrl-C, SIGTERM or SIGHUP, the results so far are printed and
    written to the files of the options. The exit code is then 128 plus the number of the signal.
    """
    arguments = passed_words(passed)
    arguments += interval_lines(lines, quiet=quiet, as_json=as_json)
    arguments += ["--speaks", speaks, "--pace", pace, *(["--no-stamps"] if no_stamps else [])]
    told = _measured(host, arguments, quiet=quiet, as_json=as_json)
    notices = _families(host, told) if passed.get("ip") is None and not quiet else []
    if anonymize:
        by = Anonymizer(key())
        notices = by.tree({"host": host, "notes": notices})["notes"]
        told = by.tree(told)
    for notice in notices:
        echo(notice, err=True)
    several = of_setups(told) if told["kind"] == "latency_lab" else [(told.get("host", host), told)]
    with every() as attempt:
        if out is not None:
            with attempt():
                output.write(out, json.dumps(told) + "\n")
        if hlog is not None:
            with attempt():
                output.write(hlog, histogram_log(several))
        if plot:
            with attempt():
                render.plot(several, plot, style=style)
        if page is not None:
            with attempt():
                write(
                    lab_page(told) if told["kind"] == "latency_lab" else render.document(several),
                    page,
                )
        try:
            if as_json:
                echo(json.dumps(told))
            elif not quiet:
                _show(told)
        except OSError:
            # After SIGHUP, the terminal can no longer be written.
            if not told["interrupted"]:
                raise
        if told["interrupted"]:
            # The result is stored and printed; the exit code is that of the signal.
            raise KeyboardInterrupt


def _measured(host: str, arguments: list[str], *, quiet: bool, as_json: bool) -> ResultJson:
    bar = ProgressBar(quiet=quiet or as_json)
    try:
        return run.measure(
            host,
            arguments,
            tell=lambda share, said: bar(share, 1.0, said),
            interval=_printed(bar),
        )
    except run.Interrupted as stop:
        return stop.told
    finally:
        bar.stop()


def _families(host: str, told: ResultJson) -> list[str]:
    """The notice that the host also has an address of the other family, if it has one."""
    # A comparison of policies has the address of each result.
    found = of_setups(told) if told["kind"] == "latency_lab" else [(host, told)]
    used = {one["peer"].get("address") for _, one in found}
    return [said for address in used if (said := families.notice(host, address))]


def _printed(bar: ProgressBar) -> Callable[[list[str]], None]:
    """Prints each interval as a line, and first the names of the columns."""
    begun = False

    def tell(words: list[str]) -> None:
        nonlocal begun
        if not begun:
            begun = True
            bar.line(intervals.HEAD)
        bar.line(intervals.line(words))

    return tell


def _show(told: ResultJson) -> None:
    screen = console()
    several = told["kind"] == "latency_lab"
    if told["kind"] == "latency_lab":
        said, tables = lab.sentences(told), [lab.table(told)]
    else:
        said, tables = render.sentences(told), [render.figures(told), render.episodes(told)]
    for at, sentence in enumerate([*said, *render.findings(told)]):
        screen.print(
            sentence, style="bold" if at == 0 and not several else "", markup=False, soft_wrap=True
        )
    for shown in tables:
        if shown.rows:
            screen.print()
            table(screen, shown)
