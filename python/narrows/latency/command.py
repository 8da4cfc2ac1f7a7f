"""`narrows latency`: how long one answer takes, and whose delay it is. What is heavy is imported
where it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from narrows.latency import result as telling
from narrows.latency.policies import document as lab_page
from narrows.latency.policies import several as of_setups
from narrows.render.progress import ProgressBar
from narrows.render.report import write
from narrows.render.run import table
from narrows.render.terminal import console, echo
from narrows.storage import output

F = TypeVar("F", bound=Callable[..., Any])


def _passed(command: F) -> F:
    """The options that go to `narrows-host` as they are, which checks them."""
    for name, help_ in reversed([
        ("--port", "5201; of echo 7, stamp 862, irtt 2112. Example: --port 5555"),
        ("--interval", "From one question to the next; 1ms without, 0s of pingpong. Example: "
                       "--interval 200us"),
        ("--count",
        "Questions; as many as fit into the duration without. Example: --count 1000000"),
        ("--duration", "Duration, after the warm-up [default: 11s]. Example: --duration 1min"),
        ("--size", "Of a question and its answer; 64B without, or what the protocol needs. "
                   "Example: --size 1000B"),
        ("--slow", "An answer is slow from here on; the median and 1ms without. Example: --slow "
                   "100us"),
        ("--timeout", "An answer is lost after it, in pingpong and at the end; 1s without. "
                      "Example: --timeout 200ms"),
        ("--lead", "Wake so much before a question is due, and watch the clock; 60us without. "
                   "Example: --lead 0s"),
        ("--policy", "How this host serves the application; several take turns. Example: --policy "
                     "default,rr,spin"),
        ("--load", "What else its processors do: none, cpu, or both in turns. Example: --load "
                   "none,cpu"),
        ("--rounds", "Turns, where there are several policies or loads; 4 without. Example: "
                     "--rounds 10"),
        ("--dscp", "Code point of questions and answers. Example: --dscp EF"),
        ("--stall", "Stand still now and then, to see who is blamed. Example: --stall 4ms@100ms"),
        ("--token", "The far end's; or in $NARROWS_TOKEN. Example: --token correct-horse"),
    ]):  # fmt: skip
        command = click.option(name, help=help_)(command)
    return command


@click.command()
@click.argument("host")
@click.option(
    "--speaks",
    type=click.Choice(["narrows", "board", "echo", "stamp", "irtt"]),
    default="narrows",
    show_default=True,
    help="What the far end is: `narrows serve`, its datagrams without a session, anything that "
    "echoes, "
    "a STAMP reflector (RFC 8762), an irtt server. Example: --speaks stamp",
)
@click.option(
    "--pace",
    type=click.Choice(["even", "pingpong"]),
    default="even",
    show_default=True,
    help="Ask each interval whatever was answered, or when the last was answered. Example: --pace "
    "pingpong",
)
@_passed
@click.option(
    "--no-stamps",
    is_flag=True,
    help="Without the kernel's stamps: nobody is blamed. Example: --no-stamps",
)
@click.option(
    "--json", "as_json", is_flag=True, help="The outcome as JSON instead of words. Example: --json"
)
@click.option(
    "--out",
    type=output.File(makes_folders=False),
    help="Write that JSON. Example: --out today.json",
)
@click.option(
    "--plot",
    type=output.Picture(makes_folders=False),
    help="Draw it, both axes in powers of ten: PNG, SVG or PDF. Example: --plot out.png",
)
@click.option(
    "--hlog",
    type=output.File(makes_folders=False),
    help="Write HdrHistogram's log. Example: --hlog out.hlog",
)
@click.option(
    "--report",
    "page",
    type=output.File(makes_folders=False),
    help="Write a page. Example: --report out.html",
)
@click.option(
    "--quiet", is_flag=True, help="No words and no progress. Example: --quiet --out a.json"
)
def latency(  # noqa: PLR0917 - Click calls it by keyword
    host: str,
    speaks: str,
    pace: str,
    no_stamps: bool,
    as_json: bool,
    out: str | None,
    plot: str | None,
    hlog: str | None,
    page: str | None,
    quiet: bool,
    **passed: str | None,
) -> None:
    """Ask HOST again and again over UDP: how long does one answer take, and whose delay is it?

    With `narrows serve` there, each round trip is split into what both applications, their kernels
    and the wire took.

    Example: narrows latency server.example

    Example: narrows latency server.example --policy default,rr,awake --load none,cpu --plot
        policies.png

    Example: narrows latency 192.0.2.7 --speaks echo --port 7 --pace pingpong --count 1000000 --plot
        board.png
    """
    arguments = [word for name, value in passed.items() if value for word in (f"--{name}", value)]
    arguments += ["--speaks", speaks, "--pace", pace, *(["--no-stamps"] if no_stamps else [])]
    bar = ProgressBar(quiet=quiet or as_json)
    try:
        told = telling.measure(host, arguments, tell=lambda share, said: bar(share, 1.0, said))
    except telling.Interrupted as stop:
        told = stop.told
    finally:
        bar.stop()
    lab = told["kind"] == "latency_lab"
    several = of_setups(told) if lab else [(host, told)]
    with output.every() as attempt:
        if out is not None:
            with attempt():
                output.write(out, json.dumps(told) + "\n")
        if hlog is not None:
            with attempt():
                output.write(hlog, telling.hlog(several))
        if plot:
            with attempt():
                telling.plot(several, plot)
        if page is not None:
            with attempt():
                write(lab_page(told) if lab else telling.document(several), page)
        try:
            if as_json:
                echo(json.dumps(told))
            elif not quiet:
                _show(told)
        except OSError:
            # Who stopped it by hanging up reads nothing any more.
            if not told["interrupted"]:
                raise
        if told["interrupted"]:
            # Kept and told; the exit code is the signal's all the same.
            raise KeyboardInterrupt


def _show(told: dict[str, Any]) -> None:
    from narrows.latency import policies as lab  # noqa: PLC0415

    screen = console()
    several = told["kind"] == "latency_lab"
    said = lab.sentences(told) if several else telling.sentences(told)
    for at, sentence in enumerate([*said, *telling.findings(told)]):
        screen.print(
            sentence, style="bold" if at == 0 and not several else "", markup=False, soft_wrap=True
        )
    for shown in [lab.table(told)] if several else (telling.figures(told), telling.episodes(told)):
        if shown.rows:
            screen.print()
            table(screen, shown)
