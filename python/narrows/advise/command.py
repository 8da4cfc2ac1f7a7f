"""The command `narrows advise`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, cast

import click

from narrows import _core, files, forecasts, path_model, registry
from narrows import advise as library
from narrows.advise import contract, from_scenario, stated
from narrows.advise import measured as place_of
from narrows.advise.render import report, show
from narrows.cli.command import argument, command, option
from narrows.cli.options import (
    jobs_option,
    json_option,
    path_option,
    quiet_option,
    report_option,
    seed_option,
)
from narrows.cli.outputs import every
from narrows.errors import NarrowsError, named_by
from narrows.json_object import JsonObject
from narrows.render.progress import ProgressBar
from narrows.render.terminal import console, echo
from narrows.runs.scenario import Hop, Path
from narrows.storage import untrusted_input
from narrows.storage.text import name_of, unread

if TYPE_CHECKING:
    from narrows.advise.asked import Place
    from narrows.advise.search import Found
    from narrows.advise.verdict import Advice
    from narrows.measure.result import Measurement

_ROLES = ("sender", "forwarder", "receiver", "operator")

_KNOWN = ("buffer", "queue", "loss")
"""Properties of a measured path that options may specify."""

_REVERSE = "reverse-rate"

_WITHIN_S = 10.0


@command(
    "narrows advise --rate 50Mbit --rtt 40ms --buffer 4bdp --loss 1% --for bulk,calls",
    "narrows advise measured.json --as receiver --for pages,calls --report advice.html",
    "narrows advise measured.json --kernel 6.12 --json | jq .choice",
)
@argument(
    "file",
    metavar="[FILE]",
    required=False,
    type=click.Path(dir_okay=False),
    help="Measurement, output of narrows model --json, or scenario with a [path]",
)
@path_option("rate", "Rate of the bottleneck")
@path_option("rtt", "Base RTT")
@option(
    "--reverse-rate",
    "--up",
    "up",
    group="Path",
    metavar="RATE",
    show_default="unlimited",
    aliases=("--up",),
    help="Rate of the reverse path, which carries the ACKs",
)
@path_option("buffer", "Buffer of the bottleneck; replaces a measured value")
@path_option("queue", "Queue discipline of the bottleneck; replaces a measured value")
@path_option("loss", "Random loss; replaces a measured value")
@option(
    "--single-flow",
    "--lone",
    "lone",
    group="Path",
    aliases=("--lone",),
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Second measurement of the same path, made with narrows measure --streams 1; it "
    "distinguishes random loss from queue drops",
)
@option(
    "--data-centre",
    "--data-center",
    group="Path",
    is_flag=True,
    help="The path is in a data centre: DCTCP, Scalable TCP and HighSpeed TCP can be recommended, "
    "too",
)
@option(
    "--as",
    "role",
    group="Goal",
    type=click.Choice(_ROLES),
    show_default="sender",
    help="Role of this host: sender, forwarder (router before the bottleneck), receiver (host or "
    "router behind it), operator (ISP that limits an access line)",
)
@option(
    "--for",
    "cares",
    group="Goal",
    metavar="GOAL,...",
    show_default="depends on --as",
    help="Goals: bulk (bulk transfer), pages (load time of web pages), calls (delay of voice and "
    "video), fairness (to other flows), retransmissions (low retransmission rate)",
)
@option(
    "--now",
    group="Host",
    metavar="CC",
    show_default="the default of this host; cubic if --kernel is not here",
    help="Congestion control that the sender uses at present. Specify it if the sender is not this "
    "host",
)
@option(
    "--kernel",
    "told",
    group="Host",
    metavar="KERNEL",
    show_default="here",
    help="Congestion controls and queue disciplines that the host can use. Write here (those of "
    "this host), a Linux release such as 6.12, or names separated by commas",
)
@option(
    "--quick",
    group="Simulation",
    is_flag=True,
    help="Stop the simulations after ten seconds and report the results so far",
)
@seed_option(type=click.IntRange(0, 2**63), default=1)
@jobs_option("Maximum number of concurrent simulations", group="Simulation", most=1024)
@option(
    "--seal/--no-seal",
    group="Output",
    default=None,
    show_default="seal for a measured path",
    help="Store the predicted values as a sealed forecast, with a hash that reveals later edits. "
    "`narrows record` compares it with a later measurement",
)
@report_option
@json_option("Print one JSON object instead of text")
@quiet_option("Print no progress")
def advise(  # noqa: PLR0917 - Click calls it by keyword
    file: str | None,
    lone: str | None,
    rate: str | None,
    rtt: str | None,
    buffer: str | None,
    queue: str | None,
    loss: str | None,
    up: str | None,
    role: str | None,
    cares: str | None,
    now: str | None,
    told: str | None,
    data_centre: bool,
    quick: bool,
    seed: int,
    jobs: int | None,
    as_json: bool,
    page: str | None,
    seal: bool | None,
    quiet: bool,
) -> None:
    """Recommend a congestion control or queue for a path.

    The option --as states the role of this host, which determines the candidates. A sender can
    change its congestion control, a forwarder or receiver its queue discipline or shaper, an
    operator its rate limiter. All candidates are simulated on the path. The recommendation can be
    to change nothing.

    Give FILE, or --rate and --rtt. The options --buffer, --queue and --loss can also replace values
    of a measurement. Without FILE, --rate and --rtt, the command prompts for the values if it runs
    in a terminal; otherwise it fails.

    After Ctrl-C, SIGTERM or SIGHUP, a preliminary recommendation is printed if the first round of
    simulations is complete. The exit code is then 128 plus the number of the signal.
    """
    given = {
        "rate": rate,
        "rtt": rtt,
        "buffer": buffer,
        "queue": queue,
        "loss": loss,
        _REVERSE: up,
    }
    measured: Measurement | None = None
    if file is not None:
        stated = {name: value for name, value in given.items() if value is not None}
        # Options may add properties that a measurement does not show; a scenario already specifies
        # all of them.
        wrong = next(
            (name for name in stated if file.endswith(".toml") or name not in _KNOWN), None
        )
        if wrong is not None:
            raise click.BadParameter(
                f"{file} specifies it already; omit the option", param_hint=f"--{wrong}"
            )
        with ProgressBar(quiet=quiet or as_json, of="path model") as bar:
            place, measured = _from_file(file, role or "sender", seed, bar, lone=lone, known=stated)
    else:
        if lone is not None:
            raise click.BadParameter(
                "needs a measurement; write narrows advise FILE --single-flow ONE",
                param_hint="--single-flow",
            )
        if rate is None and rtt is None:
            given, role, cares = _ask(given, role, cares)
        place = _stated(given)
    has = library.kernel(told)
    if now is not None:
        registry.check_cc("--now", now)
    asked = library.Asked(
        place=place,
        role=role or "sender",
        cares=tuple(care.strip() for care in cares.split(",") if care.strip()) if cares else (),
        now=now or has.default or "cubic",
        data_centre=data_centre,
        seed=seed,
    )
    out = console()
    if asked.role == "operator":
        for word, wanted in {"--report": page is not None, "--seal": seal}.items():
            if wanted:
                raise click.BadParameter(
                    "is not supported with --as operator; omit it", param_hint=word
                )
        with ProgressBar(quiet=quiet or as_json, of="simulations") as bar:
            offered = contract.offers(asked, jobs=jobs, progress=bar)
        echo(json.dumps(offered.json())) if as_json else contract.show(offered, out)
        return

    def first(found: Found) -> None:
        # A pipe or file gets only the final result. The first one is printed if the search takes
        # longer than ten seconds, which depends on the load of this machine.
        if not as_json and not quiet and out.is_terminal:
            show(library.advise(found, has, thorough=False), out)
            out.print()

    with ProgressBar(quiet=quiet or as_json, of="simulations") as bar:
        found = library.search(
            asked,
            library.candidates(asked, has),
            within_s=None if quick else _WITHIN_S,
            first=first,
            limit_s=_WITHIN_S if quick else None,
            tell=lambda _round, done, whole: bar(done, whole),
            jobs=jobs,
        )
        advice = library.advise(found, has, thorough=not found.stopped)
    sealing = seal or (seal is None and measured is not None)
    _outputs(advice, measured, sealing=sealing, page=page, as_json=as_json)
    if found.stopped and not found.late:
        # The results so far are printed; the exit code is that of the signal.
        raise KeyboardInterrupt


def _outputs(
    advice: Advice, measured: Measurement | None, *, sealing: bool, page: str | None, as_json: bool
) -> None:
    """Seals the forecast, writes the page and prints the advice."""
    with every() as attempt:
        kept = None
        if sealing:
            with attempt():
                kept = forecasts.seal(advice, measured)
        if page is not None:
            with attempt():
                report(advice, page)
        if as_json:
            told = advice.json()
            if kept:
                told["sealed"] = kept
            echo(json.dumps(told))
            return
        out = console()
        show(advice, out)
        if kept:
            out.print(
                f"\nThe forecast is sealed with the hash {kept[:12]}. `narrows record` compares it "
                "with a later measurement."
            )


def _stated(given: Mapping[str, str | None]) -> Place:
    for name in ("rate", "rtt"):
        if given[name] is None:
            example = {"rate": "50Mbit", "rtt": "40ms"}[name]
            raise NarrowsError(f"--{name}: missing; write --{name} {example}")
    keys = {name: value for name, value in given.items() if name != _REVERSE}
    reverse = Hop(rate=given[_REVERSE]) if given[_REVERSE] else None
    with named_by(given, {"path.reverse.rate": _REVERSE}):
        return stated(Path(**cast("JsonObject", keys), reverse=reverse))


def _from_file(
    file: str,
    role: str,
    seed: int,
    bar: Any,  # noqa: ANN401
    *,
    lone: str | None,
    known: Mapping[str, str],
) -> tuple[Place, Measurement | None]:
    """The place that a file describes, with the properties in `known` replaced, and the measurement
    if the file contains one.
    """
    name = name_of(file)
    try:
        raw = untrusted_input.read(file, untrusted_input.MOST_DATA_BYTES)
    except OSError as error:
        raise NarrowsError(unread(file, error)) from error
    if FilePath(file).suffix == ".toml":
        try:
            return from_scenario(_core.toml_tables(raw.decode(), name), source=name), None
        except UnicodeDecodeError as error:
            raise NarrowsError(f"{name}: not UTF-8 text, so not a scenario") from error
    if raw.lstrip()[:1] == b"{":
        try:
            tree = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise NarrowsError(f"{name}: not JSON: {error}") from error
        if "measurement" not in tree and "path" in tree:
            return place_of(tree, role=role, source=name, known=known), None
    measured = files.read(file)
    alone = None if lone is None else files.read(lone)
    inferred = path_model.infer(measured, seed=seed, lone=alone, chance=True, progress=bar)
    source = f"measured, {name}"
    return place_of(
        inferred.json(), role=role, source=source, lone=alone is not None, known=known
    ), measured


def _ask(
    given: Mapping[str, str | None], role: str | None, cares: str | None
) -> tuple[dict[str, str | None], str | None, str | None]:
    """Prompts for the path, and for a missing role and missing goals, in the terminal.

    Raises:
        NarrowsError: If standard input or standard error is not a terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NarrowsError(
            "FILE: there is neither a file nor a path; write narrows advise --rate 50Mbit "
            "--rtt 40ms, or narrows advise MEASUREMENT.json"
        )

    def ask(question: str, default: str) -> str:
        return str(click.prompt(question, default=default, err=True))

    role = role or ask("Role of this host (sender, forwarder, receiver, operator)", "sender")
    answers: dict[str, str | None] = dict(given)
    answers["rate"] = ask("Rate of the bottleneck", "50Mbit")
    answers["rtt"] = ask("Base RTT", "40ms")
    for name, question in (
        ("buffer", "Buffer of the bottleneck (such as 250kB or 1bdp)"),
        ("loss", "Random loss (such as 1%)"),
    ):
        said = answers[name] or ask(f"{question}, or - if unknown", "-")
        answers[name] = None if said == "-" else said
    cares = cares or ask("Goals (bulk, pages, calls, fairness, retransmissions)", "bulk,fairness")
    return answers, role, cares
