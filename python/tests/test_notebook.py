"""Notebooks: the tutorial, executed; results as HTML; data frames."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from notebook import NOTEBOOK, PAGE, notebook, stored
from pages import RENEW, TOLD
from test_compare_latency import result
from test_output import measured  # noqa: F401 - a fixture

import narrows as nw
from narrows.compare import latency, measurements, replications
from narrows.errors import NarrowsError
from narrows.measure.result import Measurement
from narrows.render.tables import Cell, Table
from narrows.runs.race import race

PATH = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
TWO = nw.Scenario(PATH, flows=[nw.Flow("cubic"), nw.Flow("bbr")], duration="4s", title="Two <b>")


def test_the_tutorial_is_a_notebook_that_runs() -> None:
    made = notebook(PAGE.read_text(encoding="utf-8"))
    if RENEW and made != stored():
        NOTEBOOK.write_text(made, encoding="utf-8")
    assert made == stored(), TOLD
    cells = json.loads(made)["cells"]
    runs = [cell for cell in cells if "nw.run(" in "".join(cell["source"])]
    assert len(runs) == 5
    assert all("<table>" in "".join(cell["outputs"][0]["data"]["text/html"]) for cell in runs)
    assert any("needs a unit" in str(cell.get("outputs")) for cell in cells)


def shown(value: object) -> str:
    html = value._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(html, str)
    assert html.count("<table>") == html.count("</table>")
    assert "Two <b>" not in html
    return html


def test_results_are_shown_as_html(tmp_path: Path) -> None:
    assert "<td>a &lt; b</td>" in shown(Table("", ("x",), (), [[Cell("a < b")]]))
    found = nw.replicate(TWO, seeds=2)
    html = shown(found)
    assert "Two &lt;b&gt;: means over 2 runs (seeds 1 to 2)." in html
    assert "±" in html
    assert html.count("<table>") == 2
    assert "share beside CUBIC" in shown(race(PATH, only=["cubic"], duration_s=4, seeds=2))
    grid = nw.sweep(TWO, {"path.rate": ["5Mbit", "10Mbit"]}, into=tmp_path)
    assert "No run is finished; call run()." in shown(grid)
    grid.run(jobs=1)
    assert "2 runs over path.rate; 4 rows" in shown(grid)
    compared = replications.differences(found, found)
    assert "no difference seen" in shown(compared)
    assert isinstance(compared, list)


def test_measurements_and_comparisons_are_shown_as_html(
    measured: Measurement,  # noqa: F811
) -> None:
    assert "Mbit/s" in shown(measured)
    assert "<table>" in shown(measurements.differences(measured, measured))
    both = latency.differences(result("a", 1, 200.0), result("b", 2, 400.0))
    assert "p99" in shown(both)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_table_is_a_data_frame_in_one_call(package: str) -> None:
    pytest.importorskip(package)
    samples = nw.run(TWO).samples
    frame = getattr(nw, f"to_{package}")(samples)
    assert list(frame.columns) == samples.column_names
    assert len(frame) == samples.num_rows
    assert frame["flow"].to_list()[:2] == samples["flow"].to_pylist()[:2]


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("value", [3, None, {}, "samples"])
def test_only_arrow_tables_become_data_frames(package: str, value: object) -> None:
    pytest.importorskip(package)
    with pytest.raises(NarrowsError, match="is not an Arrow table; pass one"):
        getattr(nw, f"to_{package}")(value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(NarrowsError, match="pip install polars"):
        nw.to_polars(nw.run(TWO).samples)
