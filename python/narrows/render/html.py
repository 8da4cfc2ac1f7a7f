"""Sentences and tables as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from narrows.render import run, tables


def fragment(parts: Iterable[run.Part]) -> str:
    """Sentences as paragraphs and tables as tables; all text is escaped.

    >>> fragment(["a < b", ("done", "bold")])
    '<p>a &lt; b</p><p><b>done</b></p>'
    """
    return "".join(_part(part) for part in parts if part)


def _part(part: run.Part) -> str:
    if isinstance(part, tables.Table):
        return table(part)
    if isinstance(part, tuple):
        text, style = part
        return f"<p><b>{escape(text)}</b></p>" if style == "bold" else f"<p>{escape(text)}</p>"
    return f"<p>{escape(part)}</p>"


def table(shown: tables.Table) -> str:
    """A table with its caption; numbers are aligned to the right.

    >>> one = tables.Table("Flows", ("flow",), ("RTT ms",), [[tables.Cell("a"), tables.Cell("7")]])
    >>> "<th>flow</th>" in table(one), "<td style='text-align:right'>7</td>" in table(one)
    (True, True)
    """
    right = " style='text-align:right'"
    head = "".join(f"<th>{escape(name)}</th>" for name in shown.words)
    head += "".join(f"<th{right}>{escape(name)}</th>" for name in shown.numbers)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{right if at >= len(shown.words) else ''}>{escape(cell.text)}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in shown.rows
    )
    caption = f"<caption>{escape(shown.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
