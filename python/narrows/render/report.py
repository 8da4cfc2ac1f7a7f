"""The report page: one self-contained HTML file.

The page is built from `web/` and is part of the package. This module makes the JSON document that
the page shows. All numbers are values of the run, and texts and tables are those that `narrows run`
prints.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from narrows import __version__, _core
from narrows.errors import NarrowsError
from narrows.json_object import JsonObject
from narrows.render import tables, words
from narrows.render.layout import Curve, draw
from narrows.render.model import (
    DrawnJson,
    PageJson,
    PageRunJson,
    PageTableJson,
    PictureJson,
    PictureLineJson,
    TopologyJson,
)
from narrows.render.picture import TIME, Picture
from narrows.render.pictures import pictures
from narrows.render.terminal import printable
from narrows.render.topology import graph
from narrows.storage import output

if TYPE_CHECKING:
    from narrows.runs.model import RunJson
    from narrows.runs.run import Run

TEMPLATE = FilePath(__file__).parents[1] / "pages" / "report.html"
"""The page without a JSON document; `make web` builds it."""

MOST_VERDICTS = 20_000
"""Maximum number of dropped, marked or lost packets in a page; they take about 300 kB."""

MOST_POINTS = 1500
"""Maximum number of points of a line. A line with more points is thinned to every second, third or
nth point."""

_DATA = '<script id="document" type="application/json">null</script>'
_TITLE = "<title>narrows</title>"
_WITHOUT = "<noscript></noscript>"


def compare_report(
    runs: Sequence[Run],
    file: str | PathLike[str],
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    also: Sequence[str] = (),
) -> None:
    """Writes a report page that shows runs side by side.

    >>> import narrows as nw, tempfile, pathlib
    >>> path = nw.Path(rate="20Mbit", rtt="20ms", buffer="1bdp")
    >>> two = [nw.run(nw.Scenario(path, flows=[nw.Flow(cc)], duration="2s"),
    ...     verdicts=1000) for cc in ("cubic", "bbr")]
    >>> with tempfile.TemporaryDirectory() as there:
    ...     nw.compare_report(two, pathlib.Path(there) / "two.html", names=["CUBIC", "BBR"])

    Args:
        runs: The runs to show. To list dropped, marked and lost packets, make them with `run(...,
            verdicts=20_000)`.
        file: The file to write.
        names: Names of the runs; the titles of their scenarios by default.
        title: Title of the page; the names by default.
        also: Additional pictures, as for `Run.report`.

    Raises:
        NarrowsError: If a run took no samples.
        OutputError: If the file cannot be written.
    """
    if not runs:
        raise NarrowsError("compare_report needs a run")
    write(document(runs, names=names, title=title, also=also), file)


def write(made: PageJson, file: str | PathLike[str]) -> None:
    """Writes the report page with this JSON document; see `compare_report`."""
    output.write(file, page(made))


def page(made: PageJson) -> str:
    """The HTML of the page. Control characters in names and messages are made visible, as in a
    terminal.
    """
    made = _printable(made)
    told = "".join(
        f"<p>{html.escape(text)}</p>"
        for run in made["runs"]
        for text in [*run["answer"], *run["sure"]]
    )
    # Within a script element, only `<` can end the data. JSON strings may contain it as an escape
    # sequence.
    data = json.dumps(made, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        _DATA: _DATA.replace("null", data),
        _TITLE: f"<title>{html.escape(made['title'])}</title>",
        _WITHOUT: f"<noscript>{told}<p>The pictures need JavaScript.</p></noscript>",
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for place, part in parts.items():
        before, _, after = text.partition(place)
        text = before + part + after
    return text


def _printable(made: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(made, str):
        return printable(made)
    if isinstance(made, dict):
        return {printable(name): _printable(value) for name, value in made.items()}
    return [_printable(value) for value in made] if isinstance(made, list | tuple) else made


def document(
    runs: Sequence[Run],
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    also: Sequence[str] = (),
) -> PageJson:
    """The JSON document of a page; `also` names pictures in addition to the usual ones."""
    called = unique(list(names) if names is not None else [name(run) for run in runs])
    shown = [_run(run, called[at], also) for at, run in enumerate(runs)]
    first = (
        words.comparison([(at, run.json) for at, run in zip(called, runs, strict=True)])
        if len(runs) > 1
        else ""
    )
    return {
        "narrows": __version__,
        "title": title or " · ".join(called),
        "first": _together(first),
        "runs": shown,
    }


def _together(text: str) -> str:
    r"""Joins each number and its unit with a no-break space.

    >>> _together("90 % of 40 Mbit/s")
    '90\xa0% of 40\xa0Mbit/s'
    """
    return re.sub(r"(?<=\d) (?=(?:%|[kM]bit/s|ms|s|kB)(?!\w))", "\N{NO-BREAK SPACE}", text)


def name(run: Run) -> str:
    """The name of a run for users: its title, or a list of its flows."""
    return run.json["scenario"].get("title") or words.who(run.flows)


def unique(names: list[str]) -> list[str]:
    """Appends a number to each name that occurs more than once.

    >>> unique(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    often, seen = Counter(names), Counter[str]()
    out = []
    for one in names:
        seen[one] += 1
        out.append(f"{one} ({seen[one]})" if often[one] > 1 else one)
    return out


def _run(run: Run, called: str, also: Sequence[str]) -> PageRunJson:
    figures = run.json
    flows = figures["flows"]
    left_out = (
        f" The first {tables.MOST_ROWS} of {len(flows)} flows."
        if len(flows) > tables.MOST_ROWS
        else ""
    )
    return {
        "name": called,
        "answer": [_together(text) for text in words.answer(figures)],
        "sure": [_together(text) for text in words.how_sure(figures)],
        "tables": [
            _table(tables.flows(figures, tables.MOST_ROWS), left_out),
            _table(tables.waits(figures), ""),
            *(
                [_table(tables.links(figures, tables.MOST_ROWS), "")]
                if tables.measures_links(figures)
                else []
            ),
            *(
                [_table(tables.stations(figures, tables.MOST_ROWS), "")]
                if tables.has_stations(figures)
                else []
            ),
            *(
                [_table(tables.workloads(figures, tables.MOST_ROWS), "")]
                if tables.has_workloads(figures)
                else []
            ),
        ],
        "notes": [
            tables.interval(figures).rstrip(":"),
            *(
                [f"Jain's fairness index of the goodputs: {jain} (1: all equal)"]
                if (jain := words.fairness(figures))
                else []
            ),
        ],
        "topology": topology(figures),
        **drawn(pictures(run, also)),
        "verdicts": _verdicts(run),
        "flows": [flow["id"] for flow in flows],
        "toml": run.toml,
        "canonical": _core.scenario_to_toml(figures["scenario"], run.files),
        "command": f"narrows run scenario.toml --seed {figures['seed']}",
        "provenance": _provenance(figures),
        "evidence": _evidence(figures),
        # The time series of flows is left out, because the pictures show it.
        "figures": {
            **figures,
            "flows": [
                {k: v for k, v in f.items() if k != "series"} for f in flows[: tables.MOST_ROWS]
            ],
        },
    }


def _table(table: tables.Table, note: str) -> PageTableJson:
    return {
        "caption": table.caption + note,
        "words": table.words,
        "numbers": table.numbers,
        "rows": [[[cell.text, cell.path] for cell in row] for row in table.rows],
    }


def drawn(shown: list[Picture]) -> DrawnJson:
    """The pictures as JSON, with lines thinned to `MOST_POINTS` points; equal lists of x values are
    stored once.
    """
    xs: dict[tuple[float, ...], int] = {}
    out: list[PictureJson] = []
    for picture in shown:
        lines: list[PictureLineJson] = []
        for line in picture.lines:
            every = -(-len(line.x) // MOST_POINTS) if line.x else 1
            x = tuple(_short(v) for v in line.x[::every])
            place = xs.setdefault(x, len(xs))
            y = [None if v is None else _short(v) for v in line.y[::every]]
            made: PictureLineJson = {
                "label": line.label, "flow": line.flow, "style": line.style, "x": place, "y": y
            }  # fmt: skip
            if line.queue is not None:
                made["queue"] = line.queue
            lines.append(made)
        about = picture.about
        thinned = max((len(line.x) for line in picture.lines), default=0)
        if thinned > MOST_POINTS:
            about += f" One in {-(-thinned // MOST_POINTS)} of {thinned} points is drawn."
        out.append(
            {
                "key": picture.key,
                "title": picture.title,
                "x": picture.x,
                "y": picture.y,
                "about": about,
                "time": picture.x == TIME,
                "lines": lines,
            }
        )
    return {"pictures": out, "xs": [list(x) for x in xs]}


def topology(figures: RunJson) -> TopologyJson:
    """The picture of the network of a run."""
    made = graph(figures)
    shown = draw(made)
    loads = "the utilisation of hops and the airtime of stations"
    if not tables.has_stations(figures):
        loads = "their utilisation"
    known = any(link.load is not None for link in made.links)
    return {
        "width": shown.width,
        "height": shown.height,
        "about": "Nodes and links of the network, in the direction of the data from left to right."
        + (f" The width and colour of links show {loads}." if known else ""),
        "nodes": [list(node) for node in shown.nodes],
        "links": [
            {
                "name": curve.link.name,
                "curve": _svg_path(curve),
                "arrow": list(curve.arrow()),
                "load": curve.link.load,
                "about": curve.link.about,
            }
            for curve in shown.curves
        ],
        "texts": [
            {
                "x": text.x,
                "y": text.y,
                "anchor": text.anchor,
                "box": [round(text.left - 2, 1), round(text.width + 4, 1)],
                "parts": [[part.text, part.path] for part in text.parts],
            }
            for text in shown.texts
        ],
    }


def _svg_path(curve: Curve) -> str:
    (x1, y1), (cx, cy), (x2, y2) = curve.start, curve.control, curve.end
    return f"M{x1:g} {y1:g}Q{cx:g} {cy:g} {x2:g} {y2:g}"


def _short(value: float) -> float:
    """The value with six significant digits, as in the JSON of a run."""
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _verdicts(run: Run) -> JsonObject | None:
    if not run.verdicts_asked:
        return None
    held = run.columns("verdicts")
    rows = {name: values[:MOST_VERDICTS] for name, values in held.items()}
    left_out = run.verdicts_left_out + len(held["t_s"]) - len(rows["t_s"])
    columns: JsonObject = {"left_out": left_out}
    for column in ("flow", "verdict", "why"):
        names = run.names("verdicts", column)
        numbers = {name: at for at, name in enumerate(names)}
        columns[column] = [numbers[name] for name in rows[column]]
        # The names are omitted if there are no rows, so that the pages of such runs are equal.
        columns[f"{column}_names"] = names if rows[column] else []
    columns["t_s"] = [round(t, 6) for t in rows["t_s"]]
    columns["waited_ms"] = [None if w is None else round(w, 3) for w in rows["waited_ms"]]
    return columns


def _provenance(figures: RunJson) -> list[list[str]]:
    told = figures["provenance"]
    host = told["host"]
    return [
        ["narrows", told["version"]],
        ["engine", figures["engine"]],
        ["seed", str(told["seed"])],
        ["scenario (SHA-256)", told["scenario_sha256"]],
        ["run on", f"{host['platform']}, Python {host['python']}"],
        ["started", told["started"]],
        ["took", f"{told['wall_s']:.2f} s, of CPU {told['cpu_s']:.2f} s"],
    ]


def _evidence(figures: RunJson) -> PageTableJson | None:
    cases = figures["provenance"]["evidence"]
    if not cases:
        return None
    rows = [
        [
            [case["case"], f"provenance.evidence.{i}.case"],
            [", ".join(case["cc"]), ""],
            [f"{case['rate_mbit']:g}", f"provenance.evidence.{i}.rate_mbit"],
            [f"{case['rtt_ms']:g}", f"provenance.evidence.{i}.rtt_ms"],
            [words.number(case["buffer_bdp"], 2), f"provenance.evidence.{i}.buffer_bdp"],
            [words.percent(case["loss"]), f"provenance.evidence.{i}.loss"],
            [words.percent(case["agreement"]), f"provenance.evidence.{i}.agreement"],
            [words.number(case["distance"], 2), f"provenance.evidence.{i}.distance"],
        ]
        for i, case in enumerate(cases)
    ]
    head = ("rate Mbit/s", "RTT ms", "buffer BDP", "loss", "figures that agree", "distance")
    return {
        "caption": "Nearest runs of Linux 6.12",
        "words": ("case", "flows"),
        "numbers": head,
        "rows": rows,
    }
