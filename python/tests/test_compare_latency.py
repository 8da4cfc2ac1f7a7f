"""Two results of `narrows latency`: which host responds slower, and by what factor."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from narrows import cli
from narrows.compare import latency
from narrows.latency.result import PERCENTILES, needed


def result(host: str, seed: int, median_us: float, *, n: int = 10_000, lost: int = 0) -> dict[str, Any]:
    """A result whose round trips are log-normal."""
    draw = random.Random(seed)
    ns = sorted(round(1000 * median_us * draw.lognormvariate(0, 0.3)) for _ in range(n))
    rtt: dict[str, Any] = {"n": n, "min": ns[0] / 1000, "mean": sum(ns) / n / 1000, "max": ns[-1] / 1000}
    for p in PERCENTILES:
        share = float(p[1:].replace("_", ".")) / 100
        rtt[p] = ns[min(n - 1, int(share * n))] / 1000 if n >= needed(p) else None
    rtt["histogram_ns"] = [[value, 1] for value in ns]
    return {
        "kind": "latency", "host": host, "sent": n + lost, "lost": lost, "rtt_us": rtt, "pace": "even",
        "interval_us": 1000.0, "size_bytes": 64, "policy": "default", "peer": {"speaks": "narrows"},
    }  # fmt: skip


def sentences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return latency.sentences(latency.differences(a, b), a, b, (a["host"], b["host"]))


def test_the_slower_host_is_named_with_the_factor() -> None:
    slow, fast = result("host A", 1, 770), result("host B", 2, 80)
    for a, b in ((slow, fast), (fast, slow)):
        assert sentences(a, b)[0].startswith("host A responds 9.")
        assert " times slower than host B: p50 0.77 ms against 0.08 ms." in sentences(a, b)[0]
    assert {d.key: d.verdict for d in latency.differences(fast, slow)} == dict.fromkeys(
        ("p50", "p90", "p99", "p99_9"), "slower"
    )


def test_results_that_differ_by_chance_only_are_no_different() -> None:
    wrong = sum(
        d.sure
        for seed in range(100)
        for d in latency.differences(result("A", 2 * seed, 80, n=1000), result("B", 2 * seed + 1, 80, n=1000))
    )
    assert wrong == 0
    told = sentences(result("A", 1, 80), result("B", 2, 81))
    assert re.match(r"No difference seen between A and B: p50 \d\d\.\d µs and \d\d\.\d µs\.", told[0])
    # Both values of a pair have the same unit.
    assert re.search(r"p90 .*\(\d+\.\d µs, \d+\.\d µs\)", told[1])


def test_answers_that_one_interruption_made_slow_count_once() -> None:
    a, b = result("A", 1, 80), result("B", 2, 80)
    b["rtt_us"]["p99"] = 900.0
    b["rtt_us"]["histogram_ns"][-300:] = [[900_000 + i, 1] for i in range(300)]
    verdict = {d.key: d.verdict for d in latency.differences(a, b)}
    assert verdict["p99"] == "slower"
    # Three interruptions of a hundred answers each.
    b["slow"] = {"kept": [{"t_s": second + i / 2000} for second in (1, 4, 7) for i in range(100)]}
    verdict = {d.key: d.verdict for d in latency.differences(a, b)}
    assert verdict["p99"] == "no difference seen"


def test_other_tests_and_lost_answers_are_told() -> None:
    other = result("B", 2, 80, lost=100) | {"size_bytes": 1000, "peer": {"speaks": "stamp"}}
    told = sentences(result("A", 1, 80), other)
    assert "Lost answers: 0 % in A, 1.0 % in B." in told[-2]
    assert told[-1].startswith("A and B are different tests: protocol (narrows, stamp) and size (64, 1000).")


def test_the_command_compares_results(tmp_path: Path) -> None:
    for name, seed, median in (("a.json", 1, 770), ("b.json", 2, 80)):
        (tmp_path / name).write_text(json.dumps(result("192.0.2.1", seed, median)))
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    done = CliRunner().invoke(cli.main, ["compare", *files])
    assert done.exit_code == 0, done.output
    # One host: the files are what differs.
    assert done.output.startswith("a.json responds 9.")
    told = json.loads(CliRunner().invoke(cli.main, ["compare", *files, "--json"]).output)
    assert told["after"]["b.json"]["p50"]["verdict"] == "faster"
    drawn = ["--plot", str(tmp_path / "c.svg")]
    assert CliRunner().invoke(cli.main, ["compare", *files, *drawn]).exit_code == 0
    assert (tmp_path / "c.svg").stat().st_size > 5000
    (tmp_path / "c.json").write_text('{"measurement": 1}')
    mixed = CliRunner().invoke(cli.main, ["compare", files[0], str(tmp_path / "c.json")])
    assert mixed.exit_code == 2
    assert "c.json: no outcome of narrows latency" in mixed.output


def test_scenarios_with_one_title_are_called_by_their_files(tiny: Path) -> None:
    other = tiny.with_name("other.toml")
    other.write_text(tiny.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(cli.main, ["compare", str(tiny), str(other)])
    assert done.exit_code == 0, done.output
    assert [line.partition(":")[0] for line in done.output.splitlines()[:2]] == ["tiny.toml", "other.toml"]
