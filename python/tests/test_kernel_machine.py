"""The engine `linux` with a built kernel; skipped if none is built (`narrows kernel build`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    LONG,
    NARROWS,
    PARKING_LOT,
    TINY,
    WORKLOADS,
    Cli,
    compare_workloads,
    until,
)
from test_ipv6 import SCENARIO as SCENARIO_OVER_IPV6
from test_ipv6 import compared
from test_live_hosts import EXPECTED, HOSTS, LOST, PER_HOST, close, ends, retransmits
from test_record import check_capture_of_links, linked

import narrows as nw
from narrows.errors import EngineError
from narrows.host.live import HOST
from narrows.kernel import machine, store
from narrows.reference import agreement, record
from narrows.reference.families import Family, families
from narrows.runs import engines
from narrows.runs.run import Engine
from narrows.runs.scenario import from_tree
from narrows.sweeps.sweeping import sweep

ENGINES: tuple[Engine, ...] = ("sim", "linux")

NEAR_ENOUGH = 0.1
"""The simulator and the kernel may differ by this."""


try:
    store.find(None)
except EngineError as error:
    # One skipped test instead of one for each test of this file.
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture
def kernel() -> store.Kernel:
    """The newest kernel without patches."""
    return store.find(None)


def figures(file: Path, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - those of `run`
    """The metrics of a run."""
    return nw.run(file, engine="linux", **options).json


def without_provenance(run: dict[str, Any]) -> str:
    """The part of a result that does not change."""
    return json.dumps({key: value for key, value in run.items() if key != "provenance"})


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A scenario of two seconds."""
    file = tmp_path / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    return file


def test_the_same_seed_gives_the_same_bytes(tiny: Path, kernel: store.Kernel) -> None:
    one, two = figures(tiny), figures(tiny)
    assert without_provenance(one) == without_provenance(two)
    assert one["engine"] == "linux"
    assert one["provenance"]["kernel"]["key"] == kernel.key
    assert one["instruments"]["trusted"] is True
    assert one["instruments"]["kernel"].startswith(kernel.release)
    assert one["instruments"]["lateness_us"]["max"] < 10
    assert without_provenance(figures(tiny, seed=8)) != without_provenance(one)


def test_a_run_has_samples_and_a_capture(tiny: Path, tmp_path: Path) -> None:
    capture = tmp_path / "tiny.pcapng"
    run = nw.run(tiny, engine="linux", record=capture)
    assert capture.stat().st_size > 500_000
    assert run.samples.num_rows == 2 * 20
    assert run.pings.num_rows > 90


@pytest.mark.parametrize("queue", ["fifo", "fq_codel", "cake", "pie", "choke"])
def test_the_kernel_and_the_simulator_agree(tmp_path: Path, queue: str) -> None:
    file = tmp_path / "queue.toml"
    buffer = 'buffer = "1bdp"' if queue == "fifo" else ""
    file.write_text(
        f'duration = "20s"\nwarmup = "5s"\n[path]\nrate = "20Mbit"\nrtt = "40ms"\n{buffer}\n'
        f'queue = "{queue}"\n[[flow]]\ncc = "cubic"\n[[probe]]\nkind = "ping"\n'
        'interval = "20ms"\n',
        encoding="utf-8",
    )
    linux, sim = figures(file), nw.run(file).json
    ours, theirs = sim["flows"][0], linux["flows"][0]
    assert theirs["goodput_mbit"] == pytest.approx(ours["goodput_mbit"], rel=NEAR_ENOUGH)
    assert theirs["rtt_ms"]["mean"] == pytest.approx(ours["rtt_ms"]["mean"], rel=NEAR_ENOUGH)


@pytest.mark.parametrize("queue", ["fifo", "fq_codel", "cake"])
def test_the_kernel_and_the_simulator_agree_over_ipv6(tmp_path: Path, queue: str) -> None:
    file = tmp_path / "six.toml"
    text = SCENARIO_OVER_IPV6
    if queue != "fifo":
        text = text.replace('buffer = "2bdp"\nqueue = "fifo"', f'queue = "{queue}"')
    file.write_text(text, encoding="utf-8")
    linux, sim = figures(file), nw.run(file).json
    if queue == "fifo":  # An AQM with a target of 5 ms does not keep the link of one flow full.
        compared(linux)
        compared(sim)
    for ours, theirs in zip(sim["flows"], linux["flows"], strict=True):
        assert theirs["goodput_mbit"] == pytest.approx(ours["goodput_mbit"], rel=0.01)
    ours, theirs = (run["flows"][0]["rtt_ms"]["mean"] for run in (sim, linux))
    assert theirs == pytest.approx(ours, rel=NEAR_ENOUGH)


def test_the_kernels_queues_serve_a_network_of_links(tmp_path: Path) -> None:
    file = tmp_path / "lot.toml"
    file.write_text('duration = "20s"\nwarmup = "5s"\n' + PARKING_LOT, encoding="utf-8")
    linux, sim = figures(file), nw.run(file).json
    for ours, theirs in zip(sim["flows"], linux["flows"], strict=True):
        assert theirs["goodput_mbit"] == pytest.approx(ours["goodput_mbit"], rel=NEAR_ENOUGH)
    for ours, theirs in zip(sim["queues"], linux["queues"], strict=True):
        assert theirs["name"] == ours["name"]
        assert theirs["carried_mbit"] == pytest.approx(ours["carried_mbit"], rel=0.02)


def test_workloads_run_over_the_sockets_of_the_kernel(tmp_path: Path) -> None:
    path = '[path]\nrate = "20Mbit"\nrtt = "40ms"\nbuffer = "2bdp"\n'
    file = written(tmp_path, f'duration = "10s"\nwarmup = "2s"\n{path}{WORKLOADS}')
    linux = figures(file)
    compare_workloads(linux, nw.run(file).json)
    assert without_provenance(linux) == without_provenance(figures(file))


QUEUES = (
    "cake", "choke", "codel", "fifo", "fq", "fq_codel", "fq_pie", "hhf", "pfifo_fast", "pie",
    "red", "sfb", "sfq",
)  # fmt: skip
"""Queue disciplines of every kernel, with default parameters."""


def line(queue: str, *, path: str = "", flow: str = "", duration: str = "5s") -> str:
    """A scenario with this queue."""
    return (
        f'duration = "{duration}"\nwarmup = "1s"\n[path]\nrate = "20Mbit"\nrtt = "40ms"\n'
        f'queue = {queue}\n{path}\n[[flow]]\ncc = "cubic"\ncount = 2\n{flow}\n'
        '[[probe]]\nkind = "ping"\n'
    )


def written(folder: Path, text: str) -> Path:
    """A file with this scenario."""
    file = folder / "scenario.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_states_are_those_that_the_kernel_reports(tmp_path: Path) -> None:
    file = tmp_path / "bbr.toml"
    text = TINY.replace('"cubic"', '"bbr"').replace("count = 2", "count = 1")
    # On this path, Drain lasts longer than the interval of samples.
    text = text.replace('rtt    = "20ms"', 'rtt    = "200ms"').replace('"1bdp"', '"4bdp"')
    text = text.replace('duration = "2s"', 'duration = "6s"')
    file.write_text(text, encoding="utf-8")
    ran = {name: nw.run(file, engine=name, states=True) for name in ENGINES}
    columns = {name: set(run.state("bbr0").column_names) for name, run in ran.items()}
    assert columns["linux"] == columns["sim"] - {"extra_acked", "policed"}
    modes = {name: set(run.state("bbr0")["mode"].to_pylist()) for name, run in ran.items()}
    assert modes["linux"] == modes["sim"] >= {"startup", "drain", "probe_bw"}
    last = {name: run.state("bbr0").to_pylist()[-1] for name, run in ran.items()}
    for value in ("bw_packets_per_s", "min_rtt_ms"):
        assert last["linux"][value] == pytest.approx(last["sim"][value], rel=NEAR_ENOUGH)
    assert nw.run(file, engine="linux").states.num_rows == 0


@pytest.mark.parametrize("queue", QUEUES)
def test_the_queue_is_that_of_the_kernel(tmp_path: Path, queue: str) -> None:
    buffer = 'buffer = "60p"' if queue in {"fifo", "fq", "hhf", "pfifo_fast", "sfb"} else ""
    file = written(tmp_path, line(f'"{queue}"', path=buffer))
    run = figures(file)
    assert run["queues"][0]["kind"] == queue
    # A bucket of SFB holds 25 packets, and slow start overruns it. In five seconds, Linux 7.3 and
    # the simulator have 2 to 13 Mbit/s on this path, by the starts of the flows.
    if queue != "sfb":
        assert sum(flow["goodput_mbit"] for flow in run["flows"]) == pytest.approx(18.5, abs=1.5)
    assert run["queues"][0]["drops"] > 0
    assert run["instruments"]["trusted"] is True
    assert without_provenance(run) == without_provenance(figures(file))


def test_parameters_are_those_of_tc(tmp_path: Path) -> None:
    short = '{ kind = "fq_codel", target = "1ms", interval = "20ms", ecn = false }'
    delays = [
        figures(written(tmp_path, line(queue, duration="10s")))["queues"][0]["delay_ms"]["mean"]
        for queue in ('"fq_codel"', short)
    ]
    assert delays[1] < 0.8 * delays[0]
    cake = '{ kind = "cake", bandwidth = "10Mbit", diffserv = "besteffort", flows = "flows" }'
    shaped = written(tmp_path, line(cake))
    goodputs = [
        sum(flow["goodput_mbit"] for flow in run["flows"])
        for run in (figures(shaped), nw.run(shaped).json)
    ]
    assert goodputs[0] == pytest.approx(goodputs[1], rel=0.02)
    assert goodputs[0] < 9.6


def test_marks_of_the_kernel_are_counted(tmp_path: Path) -> None:
    run = figures(written(tmp_path, line('"fq_codel"', flow="ecn = true")))
    assert run["queues"][0]["marks"] > 0
    assert run["flows"][0]["retransmits"] == 0


def test_dualpi2_needs_linux_6_17(tmp_path: Path, kernel: store.Kernel, cli: Cli) -> None:
    file = written(tmp_path, line('"dualpi2"'))
    if tuple(map(int, kernel.release.split(".")[:2])) >= (6, 17):
        assert figures(file)["queues"][0]["drops"] > 0
    else:
        done = cli("run", str(file), "--engine", "linux")
        assert (done.returncode, "does not accept dualpi2" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("queue", "path", "said"),
    [
        ('"xcp"', "", 'path.queue = "xcp" is not supported: the kernel cannot apply xcp'),
        ('"drr"', "", 'path.queue = "drr" is not supported: the kernel cannot apply drr'),
        (
            '"cake"',
            'buffer = "100p"',
            'path.buffer = "100p" is not supported: cake of Linux has a limit of memory',
        ),
        (
            '{ kind = "cake", nat = true }',
            "",
            "path.queue.nat = true is not supported: the virtual machine has no",
        ),
        (
            '{ kind = "red", gentle = true }',
            "",
            "path.queue.gentle = true is not supported: red of Linux has no gentle",
        ),
        ('"fifo"', "offload = true", "path.offload = true is not supported: queue disciplines"),
    ],
)
def test_unsupported_keys_of_a_path_are_errors_with_their_line(
    tmp_path: Path, cli: Cli, queue: str, path: str, said: str
) -> None:
    file = written(tmp_path, line(queue, path=path))
    done = cli("run", str(file), "--engine", "linux")
    assert done.returncode == 2
    assert said in done.stderr
    assert re.search(rf"^{re.escape(str(file))}:\d+: path\.", done.stderr, re.MULTILINE)
    assert "--queues narrows" in done.stderr


def test_each_host_has_its_own_settings(tmp_path: Path) -> None:
    file, capture = written(tmp_path, HOSTS), tmp_path / "linux.pcapng"
    close(figures(file, record=capture), nw.run(file).json)
    assert ends(capture) == EXPECTED


def test_the_minimum_timeout_is_that_of_the_sending_host(tmp_path: Path) -> None:
    file = written(tmp_path, LOST)
    linux, sim = (retransmits(nw.run(file, engine=engine)) for engine in ("linux", "sim"))
    assert linux["patient"] < linux["usual"]
    assert linux == sim


def test_the_first_round_trip_is_that_of_the_path() -> None:
    """A flow and pings at time 0 wait for the start of the path."""
    path = nw.Path(rate="10Mbit", rtt="50ms")
    flows = [nw.Flow("cubic", start="0s")]
    scenario = nw.Scenario(path, flows=flows, duration="1s", warmup="0s", start_jitter="0s")
    run = nw.run(scenario, engine="linux", sample_interval="10ms")
    assert run.columns("samples")["rtt_ms"][0] == pytest.approx(50, abs=0.5)


@pytest.mark.parametrize(("retries2", "after_s"), [(3, 3), (5, 12.6)])
def test_a_connection_without_progress_ends_as_in_the_kernel(retries2: int, after_s: float) -> None:
    path = nw.Path(rate="10Mbit", rtt="50ms", steps=[{"at": "2s", "loss": "100%"}])
    scenario = nw.Scenario(
        path, host=nw.Host(retries2=retries2), flows=[nw.Flow("cubic")], duration="40s"
    )
    sim, linux = (nw.run(scenario, engine=engine).json for engine in ENGINES)
    at_s = linux["flows"][0]["timed_out_s"]
    assert at_s > 2 + after_s
    assert sim["flows"][0]["timed_out_s"] == pytest.approx(at_s, abs=0.5)
    assert linux["notices"][-1].startswith("flow cubic0: its sender ended the connection")


@pytest.mark.parametrize("qdisc", ["fq_codel", "fq"])
def test_the_sender_has_a_queue_discipline_below_which_htb_limits_the_rate(
    tmp_path: Path, qdisc: str
) -> None:
    tree = families()["hostqueue"].cases[f"hostqueue-cubic-{qdisc}-8"]
    sim, linux = (nw.run(from_tree(tree), engine=engine).json for engine in ENGINES)
    by_mean = [
        {
            "goodput": sum(flow["goodput_mbit"] for flow in run["flows"]),
            "rtt": sum(flow["rtt_ms"]["mean"] for flow in run["flows"]) / 8,
            "ping": run["probes"][0]["rtt_ms"]["mean"],
        }
        for run in (linux, sim)
    ]
    assert by_mean[0] == pytest.approx(by_mean[1], rel=NEAR_ENOUGH)
    retransmits = [sum(flow["retransmits"] for flow in run["flows"]) for run in (linux, sim)]
    assert (retransmits[0] > 0) == (qdisc == "fq_codel")
    assert retransmits[0] == pytest.approx(retransmits[1], rel=0.3)


def test_a_slow_interface_without_htb_is_an_error(tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path, line('"fifo"') + '[host]\nnic = "10Mbit"\n')
    done = cli("run", str(file), "--engine", "linux")
    assert done.returncode == 2
    assert f'{file}:15: host.nic = "10Mbit" is not supported by the engine linux' in done.stderr
    assert 'write link = "htb"' in done.stderr


def test_far_hosts_have_addresses(tmp_path: Path) -> None:
    run = figures(written(tmp_path, PER_HOST))
    assert run["flows"][-1]["goodput_mbit"] == pytest.approx(9.5, rel=NEAR_ENOUGH)


def test_a_setting_of_a_newer_kernel_is_an_error(
    tmp_path: Path, kernel: store.Kernel, cli: Cli
) -> None:
    text = line('"fifo"', flow='receiver = "late"') + '[host.late]\ndelayed_ack_max = "20ms"\n'
    file = written(tmp_path, text)
    done = cli("run", str(file), "--engine", "linux")
    if tuple(map(int, kernel.release.split(".")[:2])) >= (6, 15):
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2
        assert f'{file}:15: host.late.delayed_ack_max = "20ms" needs Linux 6.15' in done.stderr


def test_a_parameter_of_cubic_is_set_in_the_kernel_module(tmp_path: Path, cli: Cli) -> None:
    text = line('"fifo"', path='buffer = "1bdp"', duration="12s")
    half = text.replace('"cubic"', '{ kind = "cubic", beta = 0.5 }')
    low = [
        [flow["cwnd_packets"]["p5"] for flow in run["flows"]]
        for run in (
            figures(written(tmp_path, text)),
            figures(written(tmp_path, half)),
            nw.run(written(tmp_path, half)).json,
        )
    ]
    assert sum(low[1]) < 0.9 * sum(low[0])
    assert low[1] == pytest.approx(low[2], rel=2 * NEAR_ENOUGH)
    other = half + '[[flow]]\ncc = "cubic"\n'
    done = cli("run", str(written(tmp_path, other)), "--engine", "linux")
    assert done.returncode == 2
    assert "flow[0].cc.beta = 0.5 is not supported by the engine linux" in done.stderr


def test_datagrams_have_ecn(tmp_path: Path) -> None:
    call = 'workload = { kind = "scream", ecn = true }'
    text = line('{ kind = "codel", ecn = true }', duration="20s")
    text = text.replace('cc = "cubic"\ncount = 2', call).replace('"20Mbit"', '"2Mbit"')
    run = figures(written(tmp_path, text))
    assert run["queues"][0]["marks"] > 0
    assert run["flows"][0]["workload"]["congestion_events"] > 0
    assert run["flows"][0]["workload"]["loss"] == 0.0


def test_a_network_of_links_is_a_capture(tmp_path: Path) -> None:
    check_capture_of_links(*linked(tmp_path, "linux"))


def test_the_queues_of_narrows_remain(tmp_path: Path) -> None:
    file = written(tmp_path, line('"drr"'))
    run = figures(file, queues="narrows")
    assert run["instruments"]["trusted"] is True
    assert sum(flow["goodput_mbit"] for flow in run["flows"]) == pytest.approx(18.5, abs=1.5)


def test_wifi_is_not_supported(cli: Cli) -> None:
    file = next((Path(__file__).parents[2] / "scenarios/wifi").glob("*.toml"))
    done = cli("run", str(file), "--engine", "linux")
    assert done.returncode == 2
    assert "wifi is not supported: user-mode Linux has no radio medium" in done.stderr


def test_wifi_behind_a_path_has_the_queues_of_narrows(tmp_path: Path) -> None:
    stations = (
        '[wifi]\n[[wifi.station]]\nname = "a"\nmcs = 7\n[[flow]]\ncc = "cubic"\nstation = "a"\n'
    )
    path = (
        'duration = "6s"\nwarmup = "2s"\n[path]\nrate = "20Mbit"\nrtt = "20ms"\nbuffer = "1bdp"\n'
    )
    file = written(tmp_path, path + stations)
    linux, sim = figures(file, queues="narrows"), nw.run(file).json
    goodput = [run["flows"][0]["goodput_mbit"] for run in (linux, sim)]
    assert goodput[0] == pytest.approx(goodput[1], rel=NEAR_ENOUGH)
    assert [queue["name"] for queue in linux["queues"]] == [q["name"] for q in sim["queues"]]


def test_congestion_controls_that_the_kernel_lacks_are_errors(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "xcp.toml"
    text = TINY.replace('"cubic"', '"xcp"').replace("[path]", '[path]\nqueue = "xcp"')
    file.write_text(text, encoding="utf-8")
    done = cli("run", str(file), "--engine", "linux", "--queues", "narrows")
    assert done.returncode == 2
    assert '.cc = "xcp" is not supported by the engine linux' in done.stderr


def test_a_congestion_control_that_only_the_kernel_has(tmp_path: Path, cli: Cli) -> None:
    # The start of a flow depends on its id.
    text = line('"fifo"', path='buffer = "1bdp"', flow='id = "flow"')
    named = text.replace('"cubic"', '"kernel:cubic"')
    one, two = figures(written(tmp_path, text)), figures(written(tmp_path, named))
    assert two["flows"][0]["cc"] == "kernel:cubic"
    assert one["flows"][0]["goodput_mbit"] == two["flows"][0]["goodput_mbit"]
    unnamed = figures(written(tmp_path, named.replace('id = "flow"', "")))
    assert unnamed["flows"][0]["id"] == "kernel_cubic0"
    unknown = written(tmp_path, text.replace('"cubic"', '"kernel:nobody"'))
    done = cli("run", str(unknown), "--engine", "linux")
    assert done.returncode == 2
    assert re.search(r"\.toml:\d+: flow\[0\]\.cc = \"kernel:nobody\" is not available", done.stderr)
    assert "this kernel has no congestion control nobody" in done.stderr
    assert "modprobe" not in done.stderr
    done = cli("run", str(unknown))
    assert done.returncode == 2
    assert "only a kernel has this congestion control" in done.stderr


def test_a_busy_machine_changes_nothing(tiny: Path) -> None:
    alone = figures(tiny)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        beside = figures(tiny)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert without_provenance(alone) == without_provenance(beside)


def test_no_root_is_needed(tiny: Path) -> None:
    command = ["unshare", "--user", "--map-user=1000"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not create user namespaces")
    done = subprocess.run(
        [*command, NARROWS, "run", tiny, "--engine", "linux", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["engine"] == "linux"


def test_a_full_disk_is_an_error(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_free", lambda _place: 1 << 20)
    with pytest.raises(EngineError, match=r"1 MB are free, and the memory of the machine can take"):
        figures(tiny)


def shell(
    *words: str,
    given: str = "",
    **more: Any,  # noqa: ANN401
) -> subprocess.CompletedProcess[str]:
    """`narrows shell --engine linux` on a path of 20 Mbit/s and 40 ms."""
    path = ["--rate", "20Mbit", "--rtt", "40ms", "--buffer", "100p"]
    return subprocess.run(
        [NARROWS, "shell", "--engine", "linux", *path, *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


def test_a_shell_has_streams_an_exit_code_and_an_overlay(tmp_path: Path) -> None:
    script = "cat; pwd; echo wrong >&2; echo $WORD; rm old; echo new > new; cat new; exit 5"
    (tmp_path / "old").touch()
    environment = os.environ | {"WORD": "passed"}
    done = shell(
        "--quiet", "--", "sh", "-c", script, given="typed\n", cwd=tmp_path, env=environment
    )
    assert done.returncode == 5, done.stderr
    assert done.stdout == f"typed\n{tmp_path}\npassed\nnew\n"
    assert done.stderr == "wrong\n"
    assert [file.name for file in tmp_path.iterdir()] == ["old"]


def test_fq_of_the_kernel_paces_by_departure_times(tmp_path: Path) -> None:
    if shutil.which("tc") is None:
        pytest.skip("tc is not installed")
    both = 'buffer = "1bdp"\n[path.reverse]\nrate = "20Mbit"\nbuffer = "1bdp"'
    path = written(tmp_path, line('"fifo"', path=both) + '[host]\npacing = "fq"\n')
    throttled, goodput = {}, {}
    for pacer in ("timer", "txtime"):
        measure = (
            f"{HOST} measure far --test tcp_up --transport udp --cc bbr --pacer {pacer} "
            "--duration 3s --idle 500ms > result.json; tc -s qdisc show dev e0; cat result.json"
        )
        words = ["--engine", "linux", "--quiet", "--far", f"{HOST} serve", "--", "sh", "-c"]
        done = subprocess.run(
            [NARROWS, "shell", str(path), *words, measure],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = re.search(r"gc \d+ highprio \d+ throttled (\d+)", done.stdout)
        assert found is not None, done.stdout
        throttled[pacer] = int(found[1])
        result = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index('{"') :])[0]
        goodput[pacer] = result["flows"][0]["goodput_mbit"]
    # fq keeps most packets until their departure times, and the connection of the control messages
    # only once in a while.
    assert throttled["timer"] < 20
    assert throttled["txtime"] > 500
    assert goodput["txtime"] == pytest.approx(goodput["timer"], rel=0.05)


def test_iperf3_runs_in_virtual_time(tmp_path: Path) -> None:
    if shutil.which("iperf3") is None:
        pytest.skip("iperf3 is not installed")
    done = shell("--far", "iperf3 -s -1", "--", "iperf3", "-c", "far", "-R", "-t", "5", "-J")
    assert done.returncode == 0, done.stderr
    received = json.loads(done.stdout)["end"]["sum_received"]
    assert received["bits_per_second"] / 1e6 == pytest.approx(18.9, abs=1)


def test_curl_runs_in_virtual_time(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (tmp_path / "page").write_bytes(bytes(1_000_000))
    server = f"{sys.executable} -m http.server 80"
    ask = [
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download} %{time_total}",
        "http://far/page",
    ]
    done = [shell("--quiet", "--far", server, "--", *ask, cwd=tmp_path) for _ in range(2)]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr
    assert done[0].stdout == done[1].stdout
    size, took = done[0].stdout.split()
    # A megabyte at 20 Mbit/s takes 0.42 s, with the round trips of slow start before.
    assert int(size) == 1_000_000
    assert 0.45 < float(took) < 0.9


def test_an_idle_hour_is_short() -> None:
    begin = time.monotonic()
    done = shell("--quiet", "--", "sh", "-c", "date +%s; sleep 3600; date +%s")
    before, after = map(int, done.stdout.split())
    assert 3600 <= after - before <= 3601
    assert time.monotonic() - begin < 30


def test_a_program_that_does_not_sleep_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "STALLED_S", 3.0)
    monkeypatch.setattr(sys, "stdin", None)
    words = ["--name", "busy", "--at", "near", "--", "sh", "-c", "while :; do :; done"]
    text = nw.Scenario(nw.Path(rate="20Mbit", rtt="40ms"), probes=[nw.Ping()], duration="1s").toml()
    with pytest.raises(EngineError, match=r"because sh -c while :; do :; done does not sleep"):
        machine.shell(words, text, "busy", kernel=None, seed=None, outputs={})


def test_a_sweep_keeps_the_runs_of_each_engine(tiny: Path, kernel: store.Kernel) -> None:
    over = {"flow.cc": ["reno", "cubic"]}
    into = tiny.with_name("results")
    both: tuple[Engine, ...] = ("sim", "linux")
    rows = [
        row
        for engine in both
        for row in sweep(tiny, over, into=into, engine=engine).run().to_pylist()
    ]
    assert [(row["engine"], row["kernel_key"]) for row in rows[::2]] == [
        ("sim", None), ("sim", None), ("linux", kernel.key), ("linux", kernel.key),
    ]  # fmt: skip
    sim, linux = (sum(row["goodput_mbit"] for row in of) for of in (rows[2:4], rows[6:8]))
    assert linux == pytest.approx(sim, rel=NEAR_ENOUGH)


def test_a_recorded_case_agrees(tmp_path: Path, kernel: store.Kernel) -> None:
    tree = families()["fifo"].cases["fifo-reno-10-20-1"] | {"duration": "4s"}
    family = Family(name="fifo", about="one case", cases={"fifo-short": tree})
    chosen = engines.choose("linux")
    done = record.record({"fifo": family}, chosen, kernel, tmp_path / "r")
    assert (done.recorded, done.failed) == (1, {})
    cases = record.load(done.files)
    assert cases[0].recorded == 3
    (outcome,) = agreement.play(cases, seeds=3)
    assert outcome.agrees, [verdict.json() for verdict in outcome.verdicts if not verdict.agrees]


@pytest.mark.parametrize("words", [["run", "long.toml"], ["sweep", "sweep.toml", "--jobs", "2"]])
def test_ctrl_c_ends_the_machine(tmp_path: Path, kernel: store.Kernel, words: list[str]) -> None:
    (tmp_path / "long.toml").write_text(LONG, encoding="utf-8")
    text = 'scenario = "long.toml"\n[over]\n"flow.cc" = ["reno", "cubic"]\n'
    (tmp_path / "sweep.toml").write_text(text, encoding="utf-8")
    files = {"long.toml", "sweep.toml", "sweep-results"}
    child = subprocess.Popen(
        [NARROWS, *words, "--engine", "linux"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )

    def machines() -> list[str]:
        found = subprocess.run(
            ["pgrep", "-f", f"{kernel.binary}.*{tmp_path}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return found.stdout.split()

    until(lambda: bool(machines()), child)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (130, b"stopped\n")
    # The kernel of this host may still be ending the processes.
    for _ in range(200):
        if not machines():
            break
        time.sleep(0.02)
    assert not machines()
    assert {p.name for p in tmp_path.iterdir()} <= files
