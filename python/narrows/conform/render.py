"""The text and the JUnit file of `narrows conform`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from narrows.render.tables import Cell, Table
from narrows.render.words import counted

if TYPE_CHECKING:
    from narrows.conform.check import Result
    from narrows.conform.running import Conformance


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def expected(result: Result) -> str:
    """The range of a check."""
    of = result.check
    return f"{_number(of.least)} to {_number(of.most)} {of.unit}".rstrip()


def interval(result: Result) -> str:
    """The 95 % confidence interval."""
    if result.low is None or result.high is None:
        return "-"
    return f"{_number(result.low)} to {_number(result.high)}"


def table(found: Conformance) -> Table:
    """A row for each check."""
    rows = [
        [
            Cell(result.check.name, f"checks.{i}.check"),
            Cell(result.verdict, f"checks.{i}.verdict"),
            Cell(expected(result), f"checks.{i}.least"),
            Cell(_number(result.mean), f"checks.{i}.mean"),
            Cell(interval(result), f"checks.{i}.low"),
        ]
        for i, result in enumerate(found.results)
    ]
    return Table("", ("check", "verdict", "expected"), ("seen", "95 % interval"), rows)


def sentences(found: Conformance) -> list[str]:
    """The total, and a sentence for each check that failed or was not decided."""
    others = found.count("not applicable")
    beside = f", {others} not applicable" if others else ""
    lines = [
        f"{found.target.name}: {counted(found.count('pass'), 'check')} passed, "
        f"{found.count('fail')} failed, {found.count('not decided')} not decided{beside}, with "
        f"{counted(found.seeds, 'seed')} each."
    ]
    for result in found.results:
        if result.verdict == "not decided" and result.mean is None:
            lines.append(f"{result.check.name}: not decided: {result.reason}.")
        elif result.verdict in {"fail", "not decided"}:
            seen = f"seen {_number(result.mean)} ({interval(result)})"
            reason = f"; {result.reason}" if result.reason else ""
            lines.append(
                f"{result.check.name}: {result.verdict}: {result.check.question}: expected "
                f"{expected(result)}, {seen}{reason}. Source: {result.check.source}."
            )
    return lines


def junit(found: Conformance) -> str:
    """The results as a JUnit file; a check that is not decided or not applicable is a skipped test
    there.
    """
    skipped = found.count("not decided") + found.count("not applicable")
    suite = Xml.Element(
        "testsuite",
        name=f"narrows conform {found.target.name}",
        tests=str(len(found.results)),
        failures=str(found.count("fail")),
        skipped=str(skipped),
    )
    for result in found.results:
        case = Xml.SubElement(
            suite, "testcase", classname=f"narrows.{result.check.suite}", name=result.check.name
        )
        text = (
            f"{result.check.question}: expected {expected(result)}, seen {_number(result.mean)}, "
            f"95 % interval {interval(result)}; {result.check.source}"
        )
        if result.verdict == "fail":
            Xml.SubElement(case, "failure", message=text)
        elif result.verdict != "pass":
            Xml.SubElement(case, "skipped", message=f"{result.verdict}: {result.reason}")
    return Xml.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
