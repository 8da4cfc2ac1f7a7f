"""The commands of `narrows exercise`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from narrows.cli.command import Group, argument, option
from narrows.cli.options import WIDEST_SKETCH, file_option, json_option
from narrows.errors import NarrowsError
from narrows.render.styled import table
from narrows.render.terminal import console, echo
from narrows.storage import output
from narrows.teach import exercises
from narrows.teach.render import answer_table, exercise_lines, exercise_table

_name = argument("name", metavar="NAME", help="Name or number of the exercise")


@click.group(
    cls=Group,
    examples=(
        "narrows exercise list",
        "narrows exercise show slow-start",
        "narrows exercise check slow-start bdp=NUMBER rounds=NUMBER fct=NUMBER",
        "narrows exercise check aqm --file mine.toml",
    ),
)
def exercise() -> None:
    """Work through exercises, and check the answers.

    Ten exercises lead from slow start to the fairness of BBR. Answer each exercise with numbers, or
    with a scenario that you change. `narrows exercise show NAME` prints the questions and the name
    of each answer, such as `fct`.
    """


@exercise.command("list", examples=("narrows exercise list",))
@json_option()
def list_(as_json: bool) -> None:
    """List the exercises."""
    every = list(exercises.load().values())
    if as_json:
        rows = [{"name": e.name, "title": e.title, "source": e.source} for e in every]
        echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    table(console(), exercise_table(every))


@exercise.command(
    examples=(
        "narrows exercise show aqm",
        "narrows exercise show aqm --out mine.toml",
        "narrows exercise show aqm --solution",
    )
)
@_name
@file_option(
    "--out",
    what="Write the scenario of the exercise to FILE",
)
@option("--solution", group="Output", is_flag=True, help="Print the solution too")
@json_option("Print one JSON object instead of text")
def show(name: str, out: str | None, solution: bool, as_json: bool) -> None:
    """Print an exercise, or write its scenario to a file."""
    of = exercises.exercise(name)
    if out is not None:
        if not of.scenario:
            raise click.UsageError(f"--out: {of.name} has no scenario")
        output.write(out, of.scenario.lstrip())
        echo(f"Wrote {out}, the scenario of {of.name}.", err=True)
        return
    if as_json:
        hidden = () if solution else ("change", "solution")
        shown = {key: value for key, value in asdict(of).items() if key not in hidden}
        if not solution:
            for one in shown["questions"]:
                del one["low"], one["high"]
        for one in shown["conditions"]:
            for end in [
                end for end in ("low", "high") if one[end] in {float("inf"), -float("inf")}
            ]:
                one[end] = None
        echo(json.dumps(shown, ensure_ascii=False, indent=2))
        return
    screen = console()
    for line in exercise_lines(of, min(screen.width, WIDEST_SKETCH), solution=solution):
        screen.print(line, markup=False, soft_wrap=True)


@exercise.command(
    examples=(
        "narrows exercise check slow-start bdp=NUMBER rounds=NUMBER fct=NUMBER",
        "narrows exercise check aqm --file mine.toml",
    )
)
@_name
@argument("answers", metavar="[ANSWER=NUMBER]...", nargs=-1, help="Answers, such as bdp=500")
@option(
    "--file",
    group="Input",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Scenario that is handed in",
)
@json_option()
def check(name: str, answers: tuple[str, ...], file: str | None, as_json: bool) -> None:
    """Check the answers to an exercise.

    The exit code is 0 if all parts are right, and 1 otherwise.
    """
    of = exercises.exercise(name)
    given: dict[str, float] = {}
    for key, value in (exercises.answer(word, of) for word in answers):
        if key in given:
            raise NarrowsError(f"{key}: is given twice; write {key}=NUMBER once")
        given[key] = value
    outcomes = exercises.check(of, given, file)
    right = sum(one.right for one in outcomes)
    if as_json:
        parts = [asdict(one) for one in outcomes]
        echo(json.dumps({"exercise": of.name, "right": right, "parts": parts}, ensure_ascii=False))
    else:
        table(console(), answer_table(outcomes))
        echo(f"{right} of {len(outcomes)} parts are right.")
        if right < len(outcomes):
            echo(f"To read the solution: narrows exercise show {of.name} --solution")
    if right < len(outcomes):
        click.get_current_context().exit(1)
