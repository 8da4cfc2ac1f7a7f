"""The commands of `narrows tune` that change a host: apply, confirm, verify, revert, prove."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from narrows.advise import forecasts as sealed
from narrows.deferred import deferred
from narrows.errors import NarrowsError, reason
from narrows.measure import run
from narrows.measure.result import Direction, Measurement
from narrows.render.progress import ProgressBar
from narrows.render.terminal import console, echo
from narrows.tune import prove as proving
from narrows.tune.apply import (
    Place,
    RefusedError,
    applied_lines,
    confirmed_lines,
    have,
    read,
    reverted_lines,
)
from narrows.tune.collect import facts
from narrows.tune.command import _kbit, _path, tune
from narrows.tune.command import plan as plan_command
from narrows.tune.prove import proof_lines, scored
from narrows.tune.verify import verified_lines
from narrows.tune.verify import verify as look

if TYPE_CHECKING:
    from narrows.tune.apply import Json, Place
    from narrows.tune.prove import Proof

__all__ = ["tune"]

F = TypeVar("F", bound=Callable[..., Any])

_ASKED = (
    "cc", "qdisc", "devices", "to", "rate", "rtt", "ecn", "mtu_probing", "settings", "shape",
    "down", "up",
    "replace",
)  # fmt: skip
"""What `narrows tune plan` is asked with, and so is what carries the plan out."""

_ROUNDS = 3


def _places(command: F) -> F:
    for made in reversed([
        click.option("--netns", metavar="NAME", help="A network namespace of this host. Example: "
                                                     "--netns blue"),
        click.option("--state", metavar="DIR", help="Where journals are. Example: --state "
                                                    "/etc/narrows/tune"),
        click.option("--root", hidden=True, help="What stands before every path of a file. "
                                                 "Example: --root /tmp/tree"),
        click.option("--json", "as_json", is_flag=True, help="One JSON object. Example: --json"),
    ]):  # fmt: skip
        command = made(command)
    return command


def _asked(command: click.Command) -> click.Command:
    """Takes the options that make a plan, too."""
    command.params += [param for param in plan_command.params if param.name in _ASKED]
    return command


@contextmanager
def _told() -> Iterator[None]:
    """What was refused is told with its own exit code."""
    try:
        yield
    except RefusedError as error:
        echo(str(error), err=True)
        click.get_current_context().exit(error.code)


@contextmanager
def _reported() -> Iterator[None]:
    """What is done in this block is reported in it, also when a signal comes after it was done."""
    done = False
    try:
        with deferred():
            yield
            done = True
    except KeyboardInterrupt:
        if done:
            with suppress(OSError):
                echo("The signal came when this was complete; nothing of it was undone.", err=True)
        raise


def _print(lines: Sequence[str]) -> None:
    out = console()
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def _plan(file: str | None, place: Place, asked: dict[str, Any]) -> Json:
    """The plan of a file, or of what is asked."""
    given = {name: value for name, value in asked.items() if value}
    if file is not None:
        odd = sorted(set(given) - {"replace"})
        if odd:
            raise NarrowsError(
                f"--{odd[0].replace('_', '-')}: is in the plan already, or belongs to one of its "
                "own"
            )
        return read(file)
    if not set(given) - {"replace"}:
        raise NarrowsError(
            "which change? narrows tune apply --cc bbr, or a file that narrows tune plan --json "
            "wrote"
        )
    from narrows.tune.plan import Ask  # noqa: PLC0415
    from narrows.tune.planner import plan  # noqa: PLC0415

    rate, rtt = asked.pop("rate", None), asked.pop("rtt", None)
    down, up = _kbit(asked.pop("down", None), "--down"), _kbit(asked.pop("up", None), "--up")
    ask = Ask(**asked, path=_path(rate, rtt), down_kbit=down, up_kbit=up, netns=place.netns)
    return plan(facts(netns=place.netns), ask).json()


def _sure(plan: Json, *, yes: bool, question: str) -> None:
    """Shows it and asks, unless it was said already.

    Raises:
        NarrowsError: If nobody is there to be asked.
    """
    if yes:
        return
    from narrows.tune.diff import lines  # noqa: PLC0415

    _print(lines(plan))
    if not sys.stdin.isatty():
        raise NarrowsError("nobody is there to be asked; --yes says yes")
    if not click.confirm(f"\n{question}", default=False):
        click.get_current_context().exit(1)


def _applicable(plan: Json) -> bool:
    """Is there something to do that can be done?"""
    if plan.get("able") is False:
        needs = "; ".join(
            str(need.get("why") or need.get("name")) for need in plan.get("needs") or []
        )
        raise RefusedError(f"needed first: {needs}", 1)
    return bool(plan["changes"])


@_asked
@tune.command()
@click.argument(
    "file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, allow_dash=True)
)
@click.option("--yes", is_flag=True, help="Do not ask. Example: --yes")
@click.option(
    "--confirm-within",
    metavar="SPAN",
    help="Undo it, and write nothing for the next boot, unless confirmed by then. Example: "
    "--confirm-within 120s",
)
@_places
def apply(  # noqa: PLR0917 - Click calls it by keyword
    file: str | None,
    yes: bool,
    confirm_within: str | None,
    netns: str | None,
    state: str | None,
    root: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 - as the plan is asked
) -> None:
    """Make the changes of a plan: what was is written down first, each is read back, and a new
    connection proves it.

    Whatever fails takes all of it back. PLAN is a file of `narrows tune plan --json`, or - for
    stdin; without one, the options say what is wanted. Needs root.

    Example: narrows tune apply --cc bbr --confirm-within 120s

    Example: narrows tune apply plan.json --yes
    """
    place = Place(netns=netns, state=state, root=root)
    replace = bool(asked.get("replace"))
    plan = _plan(file, place, asked)
    with _told():
        wanted = _applicable(plan)
        if wanted:
            _sure(plan, yes=yes or file == "-", question="Change it?")
        with _reported():
            done: Json = {"done": [], "already": [], "nothing_to_do": True}
            if wanted:
                words = ["--confirm-within", confirm_within] if confirm_within else []
                done, _ = have(
                    ["apply", *words, *(["--replace"] if replace else [])], place, plan=plan
                )
            if as_json:
                echo(json.dumps(done))
            else:
                _print(applied_lines(done))


@tune.command()
@_places
def confirm(netns: str | None, state: str | None, root: str | None, as_json: bool) -> None:
    """Keep what was applied with --confirm-within, after a reboot, too.

    Example: narrows tune confirm
    """
    with _told(), _reported():
        done, _ = have(["confirm"], Place(netns=netns, state=state, root=root))
        if as_json:
            echo(json.dumps(done))
        else:
            _print(confirmed_lines(done))


@tune.command()
@_places
def verify(netns: str | None, state: str | None, root: str | None, as_json: bool) -> None:
    """Say whether what was applied is still so.

    Exit code 0: yes; 1: something drifted, or nothing is left that would undo what waits to be
    confirmed; 2: nothing was applied here.

    Example: narrows tune verify --json
    """
    with _told():
        found = look(Place(netns=netns, state=state, root=root))
        if as_json:
            echo(json.dumps(found))
        else:
            _print(verified_lines(found))
        click.get_current_context().exit(
            0 if found["so"] and found.get("watched") is not False else 1
        )


@tune.command()
@click.option(
    "--force", is_flag=True, help="Also over what somebody has changed since. Example: --force"
)
@_places
def revert(
    force: bool, netns: str | None, state: str | None, root: str | None, as_json: bool
) -> None:
    """Put everything back as it was before the first apply, byte for byte.

    What somebody else has changed since is not trampled: then nothing is done, and it says what,
    unless --force.

    Example: narrows tune revert
    """
    with _told(), _reported():
        done, _ = have(
            ["revert", *(["--force"] if force else [])], Place(netns=netns, state=state, root=root)
        )
        if as_json:
            echo(json.dumps(done))
        else:
            _print(reverted_lines(done))


@_asked
@tune.command()
@click.argument("host")
@click.argument(
    "file", metavar="[PLAN]", required=False, type=click.Path(dir_okay=False, allow_dash=True)
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 50),
    default=_ROUNDS,
    show_default=True,
    help="Turns. Example: --rounds 5",
)
@click.option(
    "--keep",
    "then",
    flag_value="keep",
    help="Afterwards it stays, whatever came out. Example: --keep",
)
@click.option(
    "--revert", "then", flag_value="revert", help="Afterwards it is as it was. Example: --revert"
)
@click.option(
    "--direction",
    type=click.Choice(["up", "down"]),
    help="up: this host sends; without, where the plan acts. Example: --direction up",
)
@click.option(
    "--duration", default="10s", show_default=True, help="Of each load. Example: --duration 30s"
)
@click.option(
    "--streams", default="4", show_default=True, help="Flows at once. Example: --streams 1"
)
@click.option(
    "--max-data",
    metavar="BYTES",
    help="Payload of all rounds together at most; 2GB for each measurement without. Example: "
    "--max-data 500MB",
)
@click.option("--port", help="Of the far end; 5201 without. Example: --port 5555")
@click.option("--token", help="The far end's; or in $NARROWS_TOKEN. Example: --token correct-horse")
@click.option("--yes", is_flag=True, help="Do not ask whether to begin. Example: --yes")
@_places
def prove(  # noqa: PLR0917 - Click calls it by keyword
    host: str,
    file: str | None,
    rounds: int,
    then: str | None,
    direction: str | None,
    duration: str,
    streams: str,
    max_data: str | None,
    port: str | None,
    token: str | None,
    yes: bool,
    netns: str | None,
    state: str | None,
    root: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 - as the plan is asked
) -> None:
    """Measure the path to HOST without and with a change in turn, and say whether it does anything
    there.

    It measures the direction in which the change acts, and says so where it cannot act. HOST runs
    `narrows serve` or `iperf3 -s`. Afterwards it is as it was, unless it is better and you say
    keep, or --keep does. A round that could exceed --max-data is not begun; the complete ones are
    shown.

    Example: narrows tune prove server.example --cc bbr
    """
    place = Place(netns=netns, state=state, root=root)
    if netns is not None:
        raise NarrowsError(
            f"--netns: measures from where it is; ip netns exec {netns} narrows tune prove …"
        )
    replace = bool(asked.get("replace"))
    plan = _plan(file, place, asked)
    if not plan["changes"] and plan.get("able") is not False:
        echo("Nothing to prove: it is so already.")
        return
    way = proving.direction(plan, direction)
    passed = {
        "--duration": duration,
        "--streams": streams,
        "--port": port,
        "--token": token,
        "--idle": "1s",
    }
    arguments = [word for name, value in passed.items() if value for word in (name, value)]

    def once(towards: Direction, more: Sequence[str]) -> Measurement:
        return run.measure(host, [*arguments, *more], test=f"tcp_n{towards}")[0]

    with _told():
        _applicable(plan)
        if not as_json:
            echo(proving.Budget(max_data).stated(rounds))
        _sure(
            plan,
            yes=yes or file == "-",
            question=f"Measure {rounds} times without and {rounds} times with it?",
        )
        with ProgressBar(quiet=as_json, of="measurements") as bar:
            try:
                proof = proving.prove(
                    plan,
                    place,
                    once,
                    way=way,
                    rounds=rounds,
                    replace=replace,
                    max_data=max_data,
                    progress=bar,
                )
            except proving.Unfinished as stop:
                # A terminal that has hung up reads nothing any more; the exit code is the signal's
                # all the same.
                with suppress(OSError):
                    _unfinished(stop.proof, rounds, as_json=as_json)
                raise stop.__cause__ or stop from None
        if not as_json:
            _print(proving.proof_lines(proof))
        keep = _keeps(proof, then=then, asks=not as_json)
        with _reported():
            _finished(proof, plan, place, keep=keep, then=then, replace=replace, as_json=as_json)


def _keeps(proof: Proof, *, then: str | None, asks: bool) -> bool:
    """Is the change to stay? It asks only where it is better and somebody is there."""
    if then is None and proof.verdict == "better" and sys.stdin.isatty() and asks:
        return click.confirm("\nKeep it?", default=False)
    return then == "keep"


def _finished(
    proof: Proof,
    plan: Json,
    place: Place,
    *,
    keep: bool,
    then: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Keeps the change, or not, and scores forecasts: whichever of the two fails, the result is
    printed.
    """
    done: Json | None = None
    refused: NarrowsError | KeyboardInterrupt | None = None
    unscored = ""
    found: list[sealed.Scored] = []
    if keep:
        try:
            done, _ = have(["apply", *(["--replace"] if replace else [])], place, plan=plan)
        except (NarrowsError, KeyboardInterrupt) as error:
            refused = error
    try:
        found = scored(proof, plan)
    except NarrowsError as error:
        unscored = str(error)
    except OSError as error:
        unscored = reason(error)
    if as_json:
        forecasts = [one.json() for one in found]
        wrong = {"not_kept": str(refused) or "stopped"} if refused is not None else {}
        wrong |= {"not_scored": unscored} if unscored else {}
        echo(json.dumps(proof.json() | {"kept": done is not None, "forecasts": forecasts} | wrong))
    else:
        _print(sealed.sentences(found))
        if done is not None:
            _print(applied_lines(done))
        elif refused is None:
            _print(
                [
                    "Everything is as it was."
                    if then
                    else "Everything is as it was; --keep keeps it."
                ]
            )
    if unscored:
        echo(f"The sealed forecasts were not scored: {unscored}", err=True)
    if isinstance(refused, KeyboardInterrupt):
        raise refused
    if refused is not None:
        raise RefusedError(f"It is not kept: {refused}", getattr(refused, "code", 2))


def _unfinished(proof: Proof | None, rounds: int, *, as_json: bool) -> None:
    """What the complete rounds show."""
    done = len(proof.without) if proof else 0
    if as_json:
        echo(
            json.dumps(
                (proof.json() if proof else {"rounds": 0}) | {"unfinished": True, "kept": False}
            )
        )
        return
    echo(
        f"Stopped after {done} of {rounds} rounds; `narrows tune verify` reports whether a change "
        "is still on.",
        err=True,
    )
    if proof is not None:
        _print(proof_lines(proof))
