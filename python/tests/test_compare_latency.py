"""Two results of `narrows latency`: which host responds slower, and by what factor."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from narrows import cli
from narrows.compare import latency
from narrows.compare import render as comparison
from narrows.latency.result import PERCENTILES, needed


def times(ns: list[int]) -> dict[str, Any]:
    """A distribution as a result has it."""
    n = len(ns)
    out: dict[str, Any] = {
        "n": n,
        "min": min(ns) / 1000,
        "mean": sum(ns) / n / 1000,
        "max": max(ns) / 1000,
    }
    ordered = sorted(ns)
    for p in PERCENTILES:
        share = float(p[1:].replace("_", ".")) / 100
        out[p] = ordered[min(n - 1, int(share * n))] / 1000 if n >= needed(p) else None
    return out | {"histogram_ns": sorted([value, many] for value, many in Counter(ns).items())}


def result(
    host: str, seed: int, median_us: float, *, n: int = 10_000, lost: int = 0, late_us: float = 0.0
) -> dict[str, Any]:
    """A result whose round trips are log-normal, and whose questions left so late."""
    draw = random.Random(seed)
    ns = [round(1000 * median_us * draw.lognormvariate(0, 0.3)) for _ in range(n)]
    late = round(1000 * late_us)
    slow = {
        "limit_us": 1000.0, "count": 1, "blamed": {"client_kernel": 1},
        "kept": [
            {
                "number": 7, "t_s": 0.5, "at": "2026-01-01T00:00:00.500Z", "response_us": 1200.0,
                "rtt_us": 1100.0,
                "late_us": 100.0, "blamed": "client_kernel", "parts_us": {"client_kernel": 1000.0},
            }
        ],
        "episodes": {
            "count": 1,
            "kept": [
                {
                    "t_s": 0.5, "at": "2026-01-01T00:00:00.500Z", "lasted_us": 1200.0,
                    "answers": 1, "number": 7,
                    "blamed": "client_kernel", "response_us": 1200.0, "rtt_us": 1100.0,
                    "late_us": 100.0,
                }
            ],
        },
    }  # fmt: skip
    counts = (
        "corrupted", "duplicates", "reordered", "mismatches", "foreign", "refused", "unsent",
        "skipped",
        "reconnections", "contradicted", "socket_drops",
    )  # fmt: skip
    return {
        "kind": "latency", "narrows": "0.1.0", "host": host, "sent": n + lost, "answered": n,
        "lost": lost,
        **dict.fromkeys(counts, 0), "rtt_us": times(ns),
        "response_us": times([one + late for one in ns]),
        "late_us": times([late] * n), "parts_us": {"client_kernel": times(ns), "wire": None},
        "slow": slow, "class": {"there": 0, "back": 0},
        "findings": [{"what": "c6", "says": "C6 is deep.", "cure": "x"}],
        "began": "2026-01-01T00:00:00.000Z", "lasted_s": 10.0, "last_answer_s": 10.0,
        "interrupted": False,
        "stamps": True, "kernel": "6.12.0", "pace": "even", "interval_us": 1000.0, "size_bytes": 64,
        "policy": "default", "peer": {"address": "192.0.2.1", "port": 5201, "speaks": "narrows"},
    }  # fmt: skip


def sentences(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    return comparison.latency_sentences(latency.differences(a, b), a, b, (a["host"], b["host"]))


def test_the_slower_host_is_named_with_the_factor() -> None:
    slow, fast = result("host A", 1, 770), result("host B", 2, 80)
    for a, b in ((slow, fast), (fast, slow)):
        assert sentences(a, b)[0].startswith("host A responds 9.")
        assert (
            " times slower than host B: response time p50 0.77 ms against 0.08 ms."
            in sentences(a, b)[0]
        )
    assert {(d.clock, d.key): d.verdict for d in latency.differences(fast, slow)} == {
        (clock, key): "slower"
        for clock in ("response_us", "rtt_us")
        for key in ("p50", "p90", "p99", "p99_9")
    }


def test_the_verdict_compares_response_times_and_the_rtt_is_reported() -> None:
    # The answers of B take as long, but its questions leave late: a host that stands still makes
    # its user wait.
    a, b = result("A", 1, 80), result("B", 2, 80, late_us=400)
    first, rest, trip = sentences(a, b)
    assert re.match(
        r"B responds 6\.\d times slower than A: response time "
        r"p50 4\d\d\.\d µs against \d\d\.\d µs\.",
        first,
    )
    assert rest.startswith("Response time of B compared with A: p90 slower (")
    assert trip.startswith("RTT of B compared with A: p50 no difference seen (")
    # A result of an earlier version has round trips only.
    del a["response_us"]
    assert sentences(a, b)[0].startswith("No difference seen between A and B: RTT p50 ")


def test_random_differences_have_the_verdict_no_difference() -> None:
    wrong = sum(
        d.sure
        for seed in range(100)
        for d in latency.differences(
            result("A", 2 * seed, 80, n=1000), result("B", 2 * seed + 1, 80, n=1000)
        )
    )
    assert wrong == 0
    told = sentences(result("A", 1, 80), result("B", 2, 81))
    assert re.match(
        r"No difference seen between A and B: response time p50 \d\d\.\d µs and \d\d\.\d µs\.",
        told[0],
    )
    # Both values of a pair have the same unit.
    assert re.search(r"p90 .*\(\d+\.\d µs, \d+\.\d µs\)", told[1])


def test_slow_responses_of_one_interruption_count_once() -> None:
    a, b = result("A", 1, 80), result("B", 2, 80)
    ns = [value for value, many in b["rtt_us"]["histogram_ns"] for _ in range(many)]
    b["rtt_us"] = b["response_us"] = times([*ns[:-300], *(900_000 + i for i in range(300))])

    def verdicts() -> list[str]:
        return [d.verdict for d in latency.differences(a, b) if d.key == "p99"]

    assert verdicts() == ["slower", "slower"]
    # Three interruptions of a hundred answers each.
    b["slow"] = {"kept": [{"t_s": second + i / 2000} for second in (1, 4, 7) for i in range(100)]}
    assert verdicts() == ["no difference seen", "no difference seen"]


def stalled(seed: int) -> dict[str, Any]:
    """A host that is stopped a few times for so long that most responses are late."""
    draw = random.Random(seed)
    starts = sorted(draw.uniform(0, 10) for _ in range(8))
    lengths = [draw.expovariate(1 / 0.4) for _ in starts]
    took = []
    for number in range(10_000):
        t_s = number / 1000
        left = [
            begin + length - t_s
            for begin, length in zip(starts, lengths, strict=True)
            if begin <= t_s < begin + length
        ]
        took.append((t_s, max([0.0, *left]) + 80e-6 * draw.lognormvariate(0, 0.3)))
    slow = sorted((one for one in took if one[1] > 1e-3), key=lambda one: -one[1])[:1000]
    out = result("A", seed, 80)
    out["rtt_us"] = out["response_us"] = times([round(1e9 * s) for _, s in took])
    return out | {"slow": {"kept": [{"t_s": t_s} for t_s, _ in slow]}}


def test_equal_hosts_with_stalls_have_no_significant_difference() -> None:
    wrong = sum(
        any(d.sure for d in latency.differences(stalled(2 * pair), stalled(2 * pair + 1)))
        for pair in range(20)
    )
    assert wrong == 0


def test_differences_in_loss_and_test_parameters_are_reported() -> None:
    other = result("B", 2, 80, lost=100) | {"size_bytes": 1000, "peer": {"speaks": "stamp"}}
    told = sentences(result("A", 1, 80), other)
    assert "Loss: 0 % in A, 1.0 % in B." in told[-2]
    assert told[-1].startswith(
        "A and B are different tests: protocol (narrows, stamp) and size (64, 1000)."
    )


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
    assert told["after"]["b.json"]["p50"]["clock"] == "response_us"
    assert told["round_trip"]["b.json"]["p50"]["clock"] == "rtt_us"
    drawn = ["--plot", str(tmp_path / "c.svg")]
    assert CliRunner().invoke(cli.main, ["compare", *files, *drawn]).exit_code == 0
    assert (tmp_path / "c.svg").stat().st_size > 5000
    (tmp_path / "c.json").write_text('{"measurement": 1}')
    mixed = CliRunner().invoke(cli.main, ["compare", files[0], str(tmp_path / "c.json")])
    assert mixed.exit_code == 2
    assert "c.json: not a result of narrows latency" in mixed.output


def test_a_result_of_several_policies_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    one, lab = tmp_path / "one.json", tmp_path / "lab.json"
    one.write_text(json.dumps(result("a", 1, 100)))
    setups = [{"policy": "rr", "load": "cpu", "latency": result("b", 2, 100)}]
    lab.write_text(json.dumps({"kind": "latency_lab", "setups": setups}))
    done = CliRunner().invoke(cli.main, ["compare", str(lab), str(one)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{lab}: a result of several policies or loads" in done.stderr
    assert f"jq '.setups[0].latency' {lab} > one.json" in done.stderr
    one.write_text(json.dumps(json.loads(lab.read_text())["setups"][0]["latency"]))
    assert CliRunner().invoke(cli.main, ["compare", str(one), str(one)]).exit_code == 0


def test_scenarios_with_equal_titles_have_the_names_of_their_files(tiny: Path) -> None:
    other = tiny.with_name("other.toml")
    other.write_text(tiny.read_text(encoding="utf-8"), encoding="utf-8")
    done = CliRunner().invoke(cli.main, ["compare", str(tiny), str(other)])
    assert done.exit_code == 0, done.output
    assert [line.partition(":")[0] for line in done.output.splitlines()[:2]] == [
        "tiny.toml",
        "other.toml",
    ]
