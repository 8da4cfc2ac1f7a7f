"""The physical tier: real packets in network namespaces, through this machine's own TCP.

What the machine cannot is left out with the reason, and so is a run that its own instruments do not
trust.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import (
    NARROWS,
    WORKLOADS,
    Cli,
    compare_workloads,
    cpu_s,
    live_run,
    passes_in_most_runs,
    until,
)

import narrows as nw
from narrows.cli import main
from narrows.host.live import HOST
from narrows.runs import command
from narrows.study.study import Answer, Part, Rows, Study, table, total
from narrows.study.study import run as study
from narrows.sweeps.design import Values

NEAR_ENOUGH = 0.1
"""Sim and live may differ by this."""


def ready(*ccs: str) -> None:
    """Leaves a test out where the machine cannot."""
    done = subprocess.run(
        [HOST, "ready", *ccs], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode:
        pytest.skip(done.stderr.strip())


def text(cc: list[str], *, rate: str, rtt: str, duration: str = "8s", **path: str) -> str:
    """A scenario in the words of its file."""
    more = "".join(f'{key} = "{value}"\n' for key, value in path.items())
    flows = "".join(f'[[flow]]\ncc = "{name}"\n' for name in cc)
    probe = '[[probe]]\nkind = "ping"\ninterval = "20ms"\n'
    return (
        f'duration = "{duration}"\nwarmup = "2s"\n[path]\nrate = "{rate}"\nrtt = '
        f'"{rtt}"\n{more}{flows}{probe}'
    )


def both(tmp_path: Path, scenario: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the two engines say of it, the simulator's hosts with the tick of this kernel."""
    file = tmp_path / "both.toml"
    file.write_text(scenario, encoding="utf-8")
    live = live_run(file, sample_interval="off")
    hz = live["instruments"]["otherwise"].get("hz", live["scenario"]["host"]["hz"])
    file.write_text(f"{scenario}[host]\nhz = {hz}\n", encoding="utf-8")
    return live, nw.run(file, sample_interval="off").json


def goodput(run: dict[str, Any]) -> float:
    return sum(flow["goodput_mbit"] for flow in run["flows"])


def rtt(run: dict[str, Any]) -> float:
    means = [flow["rtt_ms"]["mean"] for flow in run["flows"]]
    return sum(means) / len(means)


def ping(run: dict[str, Any]) -> float:
    return float(run["probes"][0]["rtt_ms"]["mean"])


FIGURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "goodput": goodput,
    "rtt": rtt,
    "ping": ping,
}


@passes_in_most_runs
@pytest.mark.parametrize(
    ("cc", "path"),
    [
        (["reno"], {"rate": "10Mbit", "rtt": "40ms", "buffer": "1bdp"}),
        (["cubic"], {"rate": "50Mbit", "rtt": "20ms", "buffer": "0.5bdp"}),
        (["bbr"], {"rate": "20Mbit", "rtt": "40ms", "buffer": "2bdp"}),
        (["cubic", "reno"], {"rate": "20Mbit", "rtt": "40ms", "queue": "fq_codel"}),
    ],
    ids=["reno", "cubic-shallow", "bbr", "fq_codel"],
)
def test_sim_and_live_agree(tmp_path: Path, cc: list[str], path: dict[str, str]) -> None:
    """One CUBIC flow with a buffer of two bandwidth-delay products is tested in test_agree.py."""
    ready(*cc)
    live, sim = both(tmp_path, text(cc, **path))
    apart = {name: (of(live), of(sim)) for name, of in FIGURES.items()}
    assert {n: v for n, v in apart.items() if abs(v[0] / v[1] - 1) > NEAR_ENOUGH} == {}, json.dumps(
        live["instruments"]
    )


STEPS = """
duration = "8s"
warmup   = "5s"
[path]
rate  = "50Mbit"
rtt   = "20ms"
steps = [
    { at = "1s", rtt = "60ms" },
    { at = "2s", loss = "20%" },
    { at = "4s", rtt = "30ms", loss = "0%" },
]
[[probe]]
kind     = "ping"
interval = "10ms"
"""


@passes_in_most_runs
def test_steps_of_delay_and_loss_apply_to_real_packets(tmp_path: Path) -> None:
    ready()
    live, sim = both(tmp_path, STEPS)
    assert ping(sim) <= ping(live) <= ping(sim) * (1 + NEAR_ENOUGH)
    for run in (live, sim):
        probe = run["probes"][0]
        # 200 pings are sent at a loss of 20 %.
        assert abs(probe["sent"] - probe["received"] - 40) <= 4 * (200 * 0.2 * 0.8) ** 0.5


@passes_in_most_runs
def test_sim_and_live_agree_on_workloads(tmp_path: Path) -> None:
    ready("cubic")
    scenario = text([], rate="20Mbit", rtt="40ms", buffer="2bdp") + WORKLOADS
    live, sim = both(tmp_path, scenario)
    compare_workloads(live, sim)


@passes_in_most_runs
def test_a_wrong_buffer_is_told_apart(tmp_path: Path) -> None:
    ready("cubic")
    live, _ = both(
        tmp_path, text(["cubic"], rate="20Mbit", rtt="40ms", buffer="2bdp", duration="6s")
    )
    file = tmp_path / "wrong.toml"
    file.write_text(
        text(["cubic"], rate="20Mbit", rtt="40ms", buffer="0.5bdp", duration="6s"), encoding="utf-8"
    )
    wrong = nw.run(file, sample_interval="off").json
    assert abs(ping(live) / ping(wrong) - 1) > NEAR_ENOUGH


def test_marks_reach_the_other_end_and_every_table_is_there(tmp_path: Path) -> None:
    ready("cubic")
    path = nw.Path(rate="10Mbit", rtt="20ms", queue="fq_codel")
    flows = [nw.Flow("cubic", ecn=True), nw.Flow("cubic", size="200kB", start="1s")]
    one = nw.run(
        nw.Scenario(path, flows=flows, probes=[nw.Ping(interval="50ms")], duration="4s"),
        engine="live",
        verdicts=100,
    )
    assert one.json["engine"] == "live"
    assert one.json["queue"]["marks"] > 0
    assert one.flows[0]["retransmits"] == 0
    assert one.flows[1]["fct_s"] is not None
    assert set(one.samples.column("flow").to_pylist()) == {"cubic0", "cubic1"}
    assert one.queue_samples.num_rows == 40
    assert one.pings.num_rows == 80
    assert "marked" in one.verdicts.column("verdict").to_pylist()
    assert one.delays.num_rows > 0


LONG = text(["cubic"], rate="10Mbit", rtt="20ms", duration="60s")


def children(parent: int) -> list[int]:
    """Processes that `parent` started."""
    return [
        int(p)
        for p in Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
    ]


def started(file: Path) -> tuple[subprocess.Popen[str], int]:
    """A long run that moves packets, and the process that it started."""
    front = subprocess.Popen(
        [NARROWS, "run", file, "--engine", "live"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: bool(children(front.pid)), front)
    (host,) = children(front.pid)
    until(lambda: len(spaces(host)) == 2 and cpu_s(host) > 0.1, front)
    return front, host


def spaces(pid: int) -> set[Path]:
    """The network namespaces of its threads, our own left out. They have no names: they are nobody
    else's.
    """
    own = Path("/proc/self/ns/net").readlink()
    return {(task / "ns/net").readlink() for task in Path(f"/proc/{pid}/task").iterdir()} - {own}


def running(pid: int) -> bool:
    """Has the process a thread that is not over?

    A zombie has closed its files and left its namespaces: when its parent asks about it is the
    parent's affair. An orphan's is the machine's first process, and not all of those ask at once.
    """
    try:
        stats = [
            task.read_text(encoding="utf-8") for task in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except OSError:
        return False
    return any(stat.rpartition(")")[2].split()[0] not in "ZX" for stat in stats)


def gone(pid: int) -> bool:
    """Is the process over within two seconds?"""
    for _ in range(20):
        if not running(pid):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    ready("cubic")
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    front, host = started(file)
    assert len(spaces(host)) == 2
    front.send_signal(how)
    out, err = front.communicate(timeout=10)
    assert gone(host)
    if how == signal.SIGINT:
        assert (front.returncode, out, err) == (130, "", "stopped\n")


def test_two_runs_side_by_side_do_not_disturb_each_other(tmp_path: Path) -> None:
    ready("cubic")
    file = tmp_path / "one.toml"
    file.write_text(
        text(["cubic"], rate="10Mbit", rtt="20ms", buffer="1bdp", duration="4s"), encoding="utf-8"
    )
    args = [NARROWS, "run", file, "--engine", "live", "--json"]
    runs = [subprocess.Popen(args, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = [json.loads(run.communicate(timeout=30)[0]) for run in runs]
    for one in found:
        assert one["probes"][0]["received"] > 0
        assert goodput(one) > 8


COUNTED = """
duration = "2s"

[host]
iw = 3
{host}
[path]
rate = "10Mbit"
rtt  = "20ms"

[[flow]]
cc    = "cubic"
count = 3

[[flow]]
cc       = "reno"
{flow}
"""


@pytest.mark.parametrize(
    ("host", "flow", "place"),
    [
        ("autosize = false", "", "6: host.autosize = false"),
        ("pacing_shift = 5", "", "6: host.pacing_shift = 5"),
        ("[host.a]\nautosize = false", "", "7: host.a.autosize = false"),
        ("", 'like = "linux-5.10"', '17: flow[1].like = "linux-5.10"'),
        ("", 'ecn = "accecn"', '11: flow[0].ecn of flow "cubic0" must be'),
    ],
)
def test_refusals_of_the_engine_name_file_line_and_key(
    cli: Cli, tmp_path: Path, host: str, flow: str, place: str
) -> None:
    file = tmp_path / "refused.toml"
    file.write_text(COUNTED.format(host=host, flow=flow), encoding="utf-8")
    done = cli("run", file, "--engine", "live")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{file}:{place}")
    assert "--engine sim" in done.stderr


@pytest.mark.parametrize(
    ("scenario", "problem"),
    [
        (LONG.replace("[path]", '[host]\nnic = "1Gbit"\n[path]'), "remove nic"),
        (
            LONG.replace('cc = "cubic"', 'cc = { kind = "cubic", hystart = false }'),
            'write cc = "cubic"',
        ),
        (LONG.replace('"20ms"', "20"), 'write: rtt = "20ms"'),
    ],
)
def test_what_no_kernel_can_be_told_is_said_before_anything_starts(
    cli: Cli, tmp_path: Path, scenario: str, problem: str
) -> None:
    file = tmp_path / "unlike.toml"
    file.write_text(scenario, encoding="utf-8")
    done = cli("run", file, "--engine", "live")
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_strict_fails_a_run_that_its_instruments_do_not_trust(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = nw.run(tiny, sample_interval="off")
    late = {"p50": 1000.0, "p99": 9000.0}
    done.json["instruments"] = {
        "trusted": False,
        "why": ["late"],
        "lateness_us": late,
        "rate_error": {"mean": 0.0},
    }
    monkeypatch.setattr(command, "run_scenario", lambda *_args, **_more: done)
    result = CliRunner().invoke(main, ["run", str(tiny), "--engine", "live", "--strict"])
    assert result.exit_code == 1
    assert "The self-check FAILED: late" in result.stdout
    assert CliRunner().invoke(main, ["run", str(tiny), "--engine", "live"]).exit_code == 0


def test_a_study_runs_over_real_packets_and_its_runs_are_stored(tmp_path: Path) -> None:
    """The runs of a repeated study come from the store, so that it takes no time."""
    ready("cubic", "bbr")
    scenario = nw.Scenario(
        nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp"), flows=[nw.Flow("cubic")], duration="3s"
    )
    over: dict[str, Values] = {"path.rate": ["10Mbit"], "flow.cc": ["cubic", "bbr"]}
    part = Part(scenario=scenario, over=over, seeds=1)

    def answer(rows: dict[str, Rows]) -> Answer:
        shown = table(rows[""], "path.rate", "flow.cc", total("goodput_mbit"), title="", unit="")
        return Answer("It answers.", [shown])

    small = Study(
        name="small", question="Which goodput?", parts=lambda _quick: {"": part}, answer=answer
    )
    found = study(small, engine="live", into=tmp_path)
    if found.failures:
        pytest.skip(f"not to be trusted: {found.failures[0][1]}")
    assert (found.json()["engine"], found.runs) == ("live", 2)
    assert all(cell is not None and 8 < cell < 10 for cell in found.answer.grids[0].cells[0])
    begin = time.monotonic()
    again = study(small, engine="live", into=tmp_path)
    assert time.monotonic() - begin < 3
    assert again.answer.grids == found.answer.grids


@pytest.mark.long
def test_a_sweep_and_a_race_run_over_real_packets(tmp_path: Path, cli: Cli) -> None:
    ready("cubic", "bbr")
    (tmp_path / "sweep.toml").write_text(
        'scenario = "one.toml"\nseeds = 1\n[over]\n"flow.cc" = ["cubic", "bbr"]\n', encoding="utf-8"
    )
    (tmp_path / "one.toml").write_text(
        text(["cubic"], rate="10Mbit", rtt="20ms", duration="3s"), encoding="utf-8"
    )
    into = ("--engine", "live", "--json", "--into", str(tmp_path / "r"))
    swept = cli("sweep", tmp_path / "sweep.toml", *into)
    path = ("--rate", "10Mbit", "--rtt", "20ms", "--buffer", "1bdp")
    few = ("--only", "cubic,bbr", "--seeds", "1", "--duration", "4s", "--engine", "live", "--json")
    raced = cli("race", *path, *few)
    for done in (swept, raced):
        if "failed their self-check" in done.stdout + done.stderr:
            pytest.skip("not to be trusted")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["engine"] == "live"
