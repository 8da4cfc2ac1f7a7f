"""Tables as LaTeX, in the style of the package booktabs."""

from __future__ import annotations

from collections.abc import Iterable

from narrows.render.tables import Table
from narrows.render.terminal import printable, within_line

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "−": "$-$",
    "µ": r"\textmu{}",
    "\n": " ",
}


def escaped(text: str) -> str:
    r"""A text in which the characters that LaTeX interprets are escaped.

    >>> print(escaped("cwnd_mean & 5 ± 1 %"))
    cwnd\_mean \& 5 $\pm$ 1 \%
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in within_line(printable(text)))


def document(tables: Iterable[Table], about: str = "") -> str:
    """Several tables in LaTeX, each with its caption and `about` as comments."""
    return "\n".join(latex(one, f"{one.caption}\n{about}".strip()) for one in tables)


def latex(table: Table, about: str = "") -> str:
    r"""A table as a `tabular` environment; `about` becomes a comment.

    >>> from narrows.render.tables import Cell
    >>> one = Table("Results", ("cc",), ("Mbit/s",), [[Cell("bbr"), Cell("9.5 ± 0.1")]])
    >>> print(latex(one), end="")
    \begin{tabular}{lr}
    \toprule
    cc & Mbit/s \\
    \midrule
    bbr & 9.5 $\pm$ 0.1 \\
    \bottomrule
    \end{tabular}
    """
    comment = "".join(f"% {printable(line)}\n" for line in about.splitlines())
    rows = [(*table.words, *table.numbers), *([cell.text for cell in row] for row in table.rows)]
    head, *lines = (" & ".join(map(escaped, row)) + r" \\" for row in rows)
    columns = "l" * len(table.words) + "r" * len(table.numbers)
    body = "".join(f"{line}\n" for line in lines)
    return (
        f"{comment}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n\\midrule\n{body}"
        "\\bottomrule\n\\end{tabular}\n"
    )
