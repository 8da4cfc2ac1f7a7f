"""The commands of `narrows tune` that change a host: apply, confirm, verify, revert, prove."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from narrows import forecasts
from narrows.cli.command import argument, option
from narrows.cli.options import json_option
from narrows.deferred import deferred
from narrows.errors import NarrowsError, reason
from narrows.measure import run
from narrows.measure.result import Direction, Measurement
from narrows.render.progress import ProgressBar
from narrows.render.terminal import console, echo
from narrows.storage import untrusted_input
from narrows.storage.text import name_of
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
from narrows.tune.diff import lines
from narrows.tune.model import AppliedJson
from narrows.tune.plan import Ask
from narrows.tune.planner import plan
from narrows.tune.prove import proof_lines, scored
from narrows.tune.verify import verified_lines
from narrows.tune.verify import verify as look

if TYPE_CHECKING:
    from narrows.tune.apply import Place
    from narrows.tune.plan import Plan
    from narrows.tune.prove import Proof

__all__ = ["tune"]

F = TypeVar("F", bound=Callable[..., Any])

_ASKED = (
    "cc", "qdisc", "devices", "to", "rate", "rtt", "ecn", "mtu_probing", "settings", "shape",
    "down", "up",
    "replace",
)  # fmt: skip
"""Parameters of `narrows tune plan` that `apply` and `prove` also have."""

_NAMES = {"devices": "dev", "settings": "set"}
"""Names of options that differ from the names of their parameters."""

_ROUNDS = 3

_LONGEST_LINE = 4096
"""Maximum length of the first line of `--token-file`, in bytes, as in `narrows-host`."""


def _only_here(ctx: click.Context, _param: click.Parameter, host: str | None) -> None:
    """Rejects the option `--ssh`, which only commands that do not change a host accept."""
    if host is not None:
        raise click.BadParameter(
            f"{ctx.command_path} acts only on this host; for another one, write narrows tune plan "
            f"--ssh {host} --sh FILE and run FILE there",
            param_hint="--ssh",
        )


def _places(command: F, *, in_namespaces: bool = True) -> F:
    """Adds the options of `Place` and `--json` to a command. Without `in_namespaces`, the command
    rejects --netns, and its help does not show it.
    """
    for made in reversed([
        option("--netns", group="Host", metavar="NAMESPACE", hidden=not in_namespaces,
               help="Act on this network namespace of this host"),
        option("--state", group="Host", metavar="DIR",
               help="Directory of the records that revert uses"),
        option("--ssh", hidden=True, metavar="HOST", expose_value=False, callback=_only_here),
        option("--root", hidden=True, metavar="DIR", help="Prefix of all paths of files"),
        json_option("Print one JSON object instead of text"),
    ]):  # fmt: skip
        command = made(command)
    return command


def _asked(command: click.Command) -> click.Command:
    """Adds the options of `narrows tune plan` that select changes to a command."""
    command.params += [param for param in plan_command.params if param.name in _ASKED]
    return command


@contextmanager
def _told() -> Iterator[None]:
    """In this block, a `RefusedError` is printed, and the command exits with its code."""
    try:
        yield
    except RefusedError as error:
        echo(str(error), err=True)
        click.get_current_context().exit(error.code)


@contextmanager
def _reported() -> Iterator[None]:
    """Defers signals in this block, so that a completed operation is reported before the exit."""
    done = False
    try:
        with deferred():
            yield
            done = True
    except KeyboardInterrupt:
        if done:
            with suppress(OSError):
                echo("The signal arrived after completion; nothing was reverted.", err=True)
        raise


def _print(lines: Sequence[str]) -> None:
    out = console()
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def _plan(file: str | None, place: Place, asked: Mapping[str, Any]) -> Plan:
    """The plan from a file, or from the options of the command."""
    given = {name: value for name, value in asked.items() if value}
    if file is not None:
        odd = sorted(set(given) - {"replace"})
        if odd:
            name = _NAMES.get(odd[0], odd[0].replace("_", "-"))
            raise NarrowsError(
                f"--{name}: {file} is a plan already; omit the option, or omit {file}"
            )
        return read(file)
    if not set(given) - {"replace"}:
        ctx = click.get_current_context()
        host = f" {ctx.params['host']}" if "host" in ctx.params else ""
        called = f"{ctx.command_path}{host}"
        raise NarrowsError(
            f"PLAN: there is neither a plan nor a change; write {called} --cc bbr, or {called} "
            "plan.json with a file of narrows tune plan --json"
        )
    asked = dict(asked)
    rate, rtt = asked.pop("rate", None), asked.pop("rtt", None)
    down, up = _kbit(asked.pop("down", None), "--down"), _kbit(asked.pop("up", None), "--up")
    ask = Ask(**asked, path=_path(rate, rtt), down_kbit=down, up_kbit=up, netns=place.netns)
    return plan(facts(netns=place.netns), ask)


_plan_argument = argument(
    "file",
    metavar="[PLAN]",
    required=False,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Output of narrows tune plan --json, or - for standard input. With PLAN, options of the "
    "groups Change (except --replace), Shaper and Path are errors",
)


def _sure(plan: Plan, *, yes: bool, question: str) -> None:
    """Prints the plan and requests a confirmation, unless `yes`.

    Raises:
        NarrowsError: If standard input is not a terminal.
    """
    if yes:
        return
    _print(lines(plan))
    if not sys.stdin.isatty():
        raise NarrowsError(
            "standard input: not a terminal, so nobody can confirm the plan; write --yes to "
            "continue without a confirmation"
        )
    if not click.confirm(f"\n{question}", default=False):
        click.get_current_context().exit(1)


def _applicable(plan: Plan) -> bool:
    """Whether the plan has changes; raises an error if a requirement of the plan is missing."""
    if not plan.able:
        needs = "; ".join(need.why or need.name for need in plan.needs)
        raise RefusedError(f"the plan is not possible yet: {needs}", 1)
    return bool(plan.changes)


@_asked
@tune.command(
    examples=(
        "narrows tune apply --cc bbr --qdisc fq --confirm-within 120s",
        "narrows tune plan --cc bbr --json > plan.json",
        "narrows tune apply plan.json --yes",
    )
)
@_plan_argument
@option(
    "--yes",
    group="Confirmation",
    is_flag=True,
    help="Apply without asking first; --confirm-within still needs `narrows tune confirm`",
)
@option(
    "--confirm-within",
    group="Confirmation",
    metavar="TIME",
    help="Revert the change unless `narrows tune confirm` runs in this time",
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
    """Apply a saved plan, or the changes that the options give, and verify each change.

    The command changes only this host and requires root. To change another host, write a script
    with `narrows tune plan --ssh HOST --sh FILE`, and run it there.

    The previous settings are recorded first. Each change is read back. After a change of the
    default congestion control, a new connection on the loopback interface must use it. If a step
    fails, all changes are reverted. With --confirm-within, files for the next boot are written only
    after `narrows tune confirm`.
    """
    place = Place(netns=netns, state=state, root=root)
    replace = bool(asked.get("replace"))
    plan = _plan(file, place, asked)
    with _told():
        wanted = _applicable(plan)
        if wanted:
            _sure(plan, yes=yes or file == "-", question="Apply these changes?")
        with _reported():
            done: AppliedJson = {"done": [], "already": [], "nothing_to_do": True}
            if wanted:
                words = ["--confirm-within", confirm_within] if confirm_within else []
                done, _ = have(
                    ["apply", *words, *(["--replace"] if replace else [])], place, plan=plan.json()
                )
            if as_json:
                echo(json.dumps(done))
            else:
                _print(applied_lines(done))


@tune.command(examples=("narrows tune confirm",))
@_places
def confirm(netns: str | None, state: str | None, root: str | None, as_json: bool) -> None:
    """Keep the changes of an apply with --confirm-within.

    Without the confirmation, they are reverted when the time of --confirm-within is over. The
    confirmation writes files that keep the changes after a reboot, except shapers of --shape and
    changes in a named network namespace.
    """
    with _told(), _reported():
        done, _ = have(["confirm"], Place(netns=netns, state=state, root=root))
        if as_json:
            echo(json.dumps(done))
        else:
            _print(confirmed_lines(done))


@tune.command(examples=("narrows tune verify", "narrows tune verify --json"))
@_places
def verify(netns: str | None, state: str | None, root: str | None, as_json: bool) -> None:
    """Check that applied changes are still in effect.

    The exit code is 0 if they are, and 1 if a setting differs. It is also 1 if a change of an apply
    with --confirm-within is unconfirmed and the process that would revert it no longer runs. It is
    2 if the records (--state) have no applied plan for this network namespace.
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


@tune.command(examples=("narrows tune revert", "narrows tune revert --force"))
@option(
    "--force",
    group="Change",
    is_flag=True,
    help="Revert settings that other programs changed after the apply, too",
)
@_places
def revert(
    force: bool, netns: str | None, state: str | None, root: str | None, as_json: bool
) -> None:
    """Restore the settings from before the first apply.

    If another program changed a setting after the apply, nothing is reverted and the setting is
    reported. Files are restored byte for byte.
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
@tune.command(
    examples=(
        "narrows tune prove server.example --cc bbr",
        "narrows tune prove server.example --cc bbr --rounds 5 --max-data 500MB",
        "narrows tune prove server.example plan.json --keep",
    )
)
@argument("host", help="Host that runs `narrows serve` or `iperf3 -s`")
@_plan_argument
@option(
    "--rounds",
    group="Load",
    metavar="N",
    type=click.IntRange(1, 50),
    default=_ROUNDS,
    help="Number of rounds, each with a measurement without and one with the change",
)
@option(
    "--direction",
    group="Load",
    type=click.Choice(["up", "down"]),
    show_default="the direction in which the plan acts",
    help="Direction of the load; up means that this host sends",
)
@option(
    "--duration",
    group="Load",
    metavar="TIME",
    default="10s",
    help="Duration of each load phase",
)
@option("--streams", group="Load", metavar="N", default="4", help="TCP flows")
@option(
    "--max-data",
    group="Load",
    metavar="SIZE",
    show_default="no limit for the sum; 2GB for each of the two measurements of a round",
    help="Maximum payload of all rounds together",
)
@option("--port", group="Connection", metavar="PORT", show_default="5201", help="Port of the host")
@option(
    "--token",
    group="Connection",
    metavar="TOKEN",
    show_default="$NARROWS_TOKEN",
    help="Token of the server",
)
@option(
    "--token-file",
    group="Connection",
    metavar="FILE",
    help="Read the token from the first line of FILE",
)
@option(
    "--keep",
    "then",
    group="Confirmation",
    flag_value="keep",
    help="Keep the change, whatever the results are",
)
@option(
    "--revert",
    "then",
    group="Confirmation",
    flag_value="revert",
    help="Revert the change afterwards",
)
@option("--yes", group="Confirmation", is_flag=True, help="Do not ask before the first round")
@partial(_places, in_namespaces=False)
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
    token_file: str | None,
    yes: bool,
    netns: str | None,
    state: str | None,
    root: str | None,
    as_json: bool,
    **asked: Any,  # noqa: ANN401 - as the plan is asked
) -> None:
    """Measure a path alternately without and with a change.

    The load is in the direction that the change affects. After the last round, the change is
    reverted, unless --keep is present or you confirm that you keep it. The command prompts for this
    confirmation only if a metric is better and none is worse. A round that could exceed --max-data
    is not started; complete rounds are reported. The command requires root.
    """
    place = Place(netns=netns, state=state, root=root)
    if netns is not None:
        raise NarrowsError(
            f"--netns {netns}: prove measures in its own namespace; write ip netns exec {netns} "
            f"narrows tune prove {host}"
        )
    if token_file is not None:
        _check_token(token_file)
    replace = bool(asked.get("replace"))
    plan = _plan(file, place, asked)
    if not plan.changes and plan.able:
        echo("Nothing to prove: the host already has these settings.")
        return
    towards = proving.load_direction(plan, direction)
    passed = {
        "--duration": duration,
        "--streams": streams,
        "--port": port,
        "--token": token,
        "--token-file": token_file,
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
            question=f"Measure {rounds} times without and {rounds} times with the change?",
        )
        with ProgressBar(quiet=as_json, of="measurements") as bar:
            try:
                proof = proving.prove(
                    plan,
                    place,
                    once,
                    direction=towards,
                    rounds=rounds,
                    replace=replace,
                    max_data=max_data,
                    progress=bar,
                )
            except proving.Unfinished as stop:
                # After SIGHUP the terminal is gone; the exit code is that of the signal.
                with suppress(OSError):
                    _unfinished(stop.proof, rounds, as_json=as_json)
                raise stop.__cause__ or stop from None
        if not as_json:
            _print(proving.proof_lines(proof))
        keep = _keeps(proof, then=then, asks=not as_json)
        with _reported():
            _finished(proof, plan, place, keep=keep, then=then, replace=replace, as_json=as_json)


def _check_token(file: str) -> None:
    """Checks that the first line of a file can be a token. Each measurement reads the file again,
    so that a pipe is not sufficient.

    Raises:
        NarrowsError: If it is not.
    """
    try:
        line = untrusted_input.head(file, _LONGEST_LINE + 1).partition(b"\n")[0]
        wrong = "" if line.decode().strip() else "the first line is empty"
    except OSError as error:
        wrong = reason(error)
    except UnicodeDecodeError:
        wrong = "the first line is not text in UTF-8"
    else:
        if len(line) > _LONGEST_LINE:
            wrong = f"the first line has more than {_LONGEST_LINE} bytes"
    if wrong:
        raise NarrowsError(
            f"--token-file {name_of(file)}: {wrong}\n"
            "    write: a file whose first line is the token of the server"
        )


def _keeps(proof: Proof, *, then: str | None, asks: bool) -> bool:
    """Whether to keep the change. Without --keep or --revert, the user decides if the results are
    better and stdin is a terminal.
    """
    if then is None and proof.verdict == "better" and sys.stdin.isatty() and asks:
        return click.confirm("\nKeep the change?", default=False)
    return then == "keep"


def _finished(
    proof: Proof,
    plan: Plan,
    place: Place,
    *,
    keep: bool,
    then: str | None,
    replace: bool,
    as_json: bool,
) -> None:
    """Applies the change if `keep`, and scores the sealed forecasts. If one of these fails, the
    results are printed nevertheless.
    """
    done: AppliedJson | None = None
    refused: NarrowsError | KeyboardInterrupt | None = None
    unscored = ""
    found: list[forecasts.Scored] = []
    if keep:
        try:
            done, _ = have(["apply", *(["--replace"] if replace else [])], place, plan=plan.json())
        except (NarrowsError, KeyboardInterrupt) as error:
            refused = error
    try:
        found = scored(proof, plan)
    except NarrowsError as error:
        unscored = str(error)
    except OSError as error:
        unscored = reason(error)
    if as_json:
        judged = [one.json() for one in found]
        wrong = {"not_kept": str(refused) or "stopped"} if refused is not None else {}
        wrong |= {"not_scored": unscored} if unscored else {}
        echo(json.dumps(proof.json() | {"kept": done is not None, "forecasts": judged} | wrong))
    else:
        _print(forecasts.sentences(found))
        if done is not None:
            _print(applied_lines(done))
        elif refused is None:
            _print(
                ["The change is reverted." if then else "The change is reverted; --keep keeps it."]
            )
    if unscored:
        echo(f"The sealed forecasts were not scored: {unscored}", err=True)
    if isinstance(refused, KeyboardInterrupt):
        raise refused
    if refused is not None:
        raise RefusedError(f"the change was not kept: {refused}", getattr(refused, "code", 2))


def _unfinished(proof: Proof | None, rounds: int, *, as_json: bool) -> None:
    """Prints the results of the complete rounds after an interruption."""
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
        "is still in effect.",
        err=True,
    )
    if proof is not None:
        _print(proof_lines(proof))
