"""The command line: output, errors, exit codes, help and files."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from conftest import LONG, NARROWS, ROOT, TINY, Cli

from narrows.cli import main
from narrows.cli.command import Argument, Command, Option, summary
from narrows.cli.entry import COMMANDS
from narrows.cli.options import Number

HOSTS = Path(__file__).parent / "data/hosts"


def test_a_table_in_plain_text_for_a_pipe(cli: Cli, tiny: Path) -> None:
    done = cli("run", tiny)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 cubic flows used ")
    assert "% of 10 Mbit/s; mean queueing delay " in done.stdout
    assert "cubic0" in done.stdout
    assert "queueing delay " in done.stdout
    assert "Jain" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "of"),
    [
        (["run", ""], "argument of narrows run"),
        (["from", ""], "argument of narrows from"),
        (["", "x"], "argument of narrows"),
        (["serve", "--token", ""], "--token"),
        (["tune", "audit", "--root="], "--root"),
    ],
)
def test_an_empty_argument_is_an_error(command: Cli, words: list[str], of: str) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert f"{of}: the value is empty" in done.stderr


def test_arguments_of_a_program_may_be_empty(cli: Cli) -> None:
    done = cli("with", "--cc", "cubic", "--", "echo", "", "x")
    assert "value is empty" not in done.stderr


def test_of_very_many_flows_the_first_are_shown(command: Cli, tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text(
        TINY.replace("count = 2", "count = 300").replace('"2s"', '"100ms"'), encoding="utf-8"
    )
    shown = command("run", file).stdout
    assert shown.count("\ncubic") == 200
    assert "The first 200 of 300 flows; --json and --out have all of them." in shown


def test_a_run_without_flows_has_no_table_of_them(command: Cli, tmp_path: Path) -> None:
    file = tmp_path / "pings.toml"
    file.write_text(TINY.replace('[[flow]]\ncc    = "cubic"\ncount = 2\n', ""), encoding="utf-8")
    shown = command("run", file).stdout
    assert shown.startswith("No flow sent data; mean queueing delay ")
    assert "cwnd" not in shown


def test_retransmitted_handshakes_are_not_counted_as_data(command: Cli, tmp_path: Path) -> None:
    file = tmp_path / "slow.toml"
    file.write_text(TINY.replace('"10Mbit"', '"1bit"'), encoding="utf-8")
    assert (
        "used 0 % of 0.000001 Mbit/s; only handshakes retransmitted." in command("run", file).stdout
    )


def on_terminal(tiny: Path, **env: str) -> str:
    """The output of `narrows run` on a terminal."""
    ours, theirs = pty.openpty()
    child_env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {
        "TERM": "xterm-256color",
        **env,
    }
    with subprocess.Popen(
        [NARROWS, "run", tiny], stdout=theirs, stderr=theirs, env=child_env
    ) as child:
        os.close(theirs)
        out = b""
        try:
            while part := os.read(ours, 65536):
                out += part
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert child.returncode == 0
    return out.decode()


def test_colour_for_a_terminal_unless_no_color_is_set(tiny: Path) -> None:
    assert "\x1b[1" in on_terminal(tiny)
    plain = on_terminal(tiny, NO_COLOR="1")
    assert not any(f"\x1b[{colour}" in plain for colour in range(30, 50))


def test_a_second_thread_that_cannot_be_used_is_reported(command: Cli, tiny: Path) -> None:
    words = ("run", tiny, "--threads", "2")
    assert not command(*words).stderr
    tiny.write_text(TINY.replace("count = 2", "count = 1"), encoding="utf-8")
    assert command(*words).stderr.startswith("The run used one thread. Two threads need")
    assert not command(*words, "--quiet").stderr
    assert not command("run", tiny, "--threads", "1").stderr


def test_json_is_one_object_with_the_promised_keys(cli: Cli, tiny: Path) -> None:
    out = json.loads(cli("run", tiny, "--json").stdout)
    assert set(out) >= {
        "narrows", "engine", "seed", "scenario", "flows", "queue", "probes", "fairness",
        "provenance",
    }  # fmt: skip
    flow = out["flows"][0]
    assert set(flow) >= {
        "id", "cc", "goodput_mbit", "retransmits", "retransmit_rate", "rtt_ms", "cwnd_packets",
        "fct_s", "series",
    }  # fmt: skip
    assert [f["id"] for f in out["flows"]] == ["cubic0", "cubic1"]
    assert set(flow["rtt_ms"]) >= {"mean", "p50", "p95", "p99"}
    assert set(flow["cwnd_packets"]) >= {"mean", "p5", "p95"}
    assert all(len(row) == 4 for row in flow["series"])
    assert set(out["queue"]) >= {"drops", "marks", "delay_ms"}
    assert set(out["queue"]["delay_ms"]) >= {"mean", "p50", "p95", "p99"}
    assert set(out["probes"][0]) >= {"kind", "sent", "received", "rtt_ms"}
    assert "jain" in out["fairness"]
    assert set(out["provenance"]) >= {
        "version", "seed", "scenario_sha256", "host", "started", "wall_s", "cpu_s", "evidence",
    }  # fmt: skip


def test_the_same_seed_gives_the_same_bytes_but_for_provenance(cli: Cli, tiny: Path) -> None:
    def bytes_of(*args: object) -> str:
        out = json.loads(cli("run", tiny, "--json", *args).stdout)
        del out["provenance"]
        return json.dumps(out)

    assert bytes_of() == bytes_of() == bytes_of("--seed", 7)
    assert bytes_of() != bytes_of("--seed", 8)


def test_all_errors_of_a_file_are_reported_at_once_with_exit_code_2(
    command: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(
        'duration = 30\n[path]\nrate = "50"\nrtt = "40ms"\n[[flow]]\ncc = "cubik"\n',
        encoding="utf-8",
    )
    for name in ("run", "check"):
        done = command(name, file)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        for place in (f"{file}:1: duration", f"{file}:3: path.rate", f"{file}:6: flow[0].cc"):
            assert place in done.stderr
        assert 'write: duration = "30s"' in done.stderr


def test_the_alias_qdiscs_lists_queue_disciplines(command: Cli) -> None:
    assert command("list", "qdiscs").stdout == command("list", "queues").stdout


def test_a_similar_name_of_a_file_is_proposed(command: Cli, tmp_path: Path) -> None:
    (tmp_path / "cubic.toml").touch()
    error = command("run", "cubik.toml").stderr
    assert error == "cubik.toml: no such file or directory; did you mean cubic.toml?\n"
    assert "mean" not in command("run", "other.toml").stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("run", "absent.toml"), "absent.toml: no such file or directory"),
        (("run", "."), ".: is a directory; write the name of a file"),
        (
            ("run", "absent.toml", "--engine", "simm"),
            "--engine simm: must be one of sim, live, linux; did you mean --engine sim?",
        ),
        (("run",), "FILE: this argument is missing; the usage is narrows run [OPTIONS] FILE"),
        (
            ("run", "absent.toml", "--seed", "-1"),
            "--seed -1: must be a whole number from 0 to 2^64-1; write --seed 0",
        ),
        (
            ("race", "--seed", "x"),
            "--seed x: must be a whole number from 0 to 2^64-1; write --seed 1",
        ),
        (
            ("bundle", "--timeout", "nan", "a"),
            "--timeout nan: must be a number from 1 to 1000000; write --timeout 3600",
        ),
        (
            ("train", "remy", "a", "--budget", "inf"),
            "--budget inf: must be a number of at least 0; write --budget 600",
        ),
        (
            ("race", "--font-size", "nan"),
            "--font-size nan: must be a number from 1 to 100; write --font-size 9",
        ),
        (("run", "a", "b"), "b: unexpected argument; the usage is narrows run [OPTIONS] FILE"),
        (("run", "a", "--sed", "1"), "--sed: narrows run has no such option; did you mean --seed?"),
        (
            ("run", "a", "--xyz"),
            "--xyz: narrows run has no such option; narrows run --help lists the options",
        ),
        (("run", "a", "--seed"), "--seed: the value is missing; write --seed N"),
        (("run", "a", "--json=1"), "--json: this option takes no value; write --json"),
        (
            ("sweep", "a.toml", "--table", "rows.txt"),
            "--table: rows.txt has no suffix .parquet or .csv; write --table rows.csv",
        ),
        (("remy", "a"), "-o: this option is required; write -o FILE.remy"),
        (("--jsom",), "--jsom: narrows has no such option"),
        (
            ("tune", "aply"),
            "aply: narrows tune has no such command; did you mean narrows tune apply?",
        ),
        (
            ("measure", "h", "--plott"),
            "--plott: narrows measure has no such option; did you mean --plot?",
        ),
        (
            ("measure", "h", "--yse"),
            "--yse: narrows measure has no such option; narrows measure --help lists the options",
        ),
        (
            ("tune", "apply", "--ssh", "root@x", "--cc", "bbr"),
            "--ssh: narrows tune apply acts only on this host; for another one, write narrows tune "
            "plan --ssh root@x --sh FILE and run FILE there",
        ),
        (
            ("tune", "prove", "h"),
            "PLAN: there is neither a plan nor a change; write narrows tune prove h --cc bbr",
        ),
        (
            ("tune", "apply"),
            "PLAN: there is neither a plan nor a change; write narrows tune apply --cc bbr",
        ),
        (
            ("measure", f"{ROOT}/scenarios/first/cubic.toml", "--cc", "cubik"),
            "--cc cubik: not a known congestion control; known: reno, cubic, ",
        ),
        (
            ("measure", f"{ROOT}/scenarios/first/cubic.toml", "--cc", "bbr,reno"),
            "--cc bbr,reno: the measurement of a scenario has one congestion control; write "
            "--cc bbr",
        ),
        (
            ("tune", "plan", "--cc", "bbr9", "--facts", f"{HOSTS}/debian-12.txt"),
            "--cc bbr9: not a known congestion control; known: cubic, ",
        ),
        (
            ("tune", "plan", "--qdisc", "fqcodel", "--facts", f"{HOSTS}/laptop.txt"),
            "--qdisc fqcodel: not a queue discipline of Linux; write --qdisc fq_codel",
        ),
        (
            ("from", "tc qdisc add dev eth0 root netme delay 100ms"),
            "text: line 1: `netme` is not a queue discipline of Linux\n    write: netem",
        ),
        (
            ("race", "--duration", "400ms"),
            "--duration 400ms: must be a time from 4s to 3600s in whole seconds; write --duration "
            "4s",
        ),
        (
            ("race", "--duration", "12.6s"),
            "--duration 12.6s: must be a time from 4s to 3600s in whole seconds; write --duration "
            "13s",
        ),
        (
            ("race", "--duration", "quick"),
            "--duration quick: must be a time from 4s to 3600s in whole seconds; write --duration "
            "40s",
        ),
        (("race", "--only", "cubic,,bbr"), "--only cubic,,bbr: a name is missing; write --only c"),
        (("conform", "reno", "--only", "rtt,"), "--only rtt,: a name is missing; write --only rtt"),
        (("agree", "a.toml", "--engines", ","), "--engines ,: a name is missing; write --engines "),
        (("race", "--loss", "1"), "--loss 1: needs a percent sign; write --loss 1%\n"),
        (("race", "--loss", "0.5"), "--loss 0.5: needs a percent sign; write --loss 50%\n"),
        (
            ("race", "--loss=-1%"),
            "--loss -1%: is not a probability: 0 to 1, or 0% to 100%; write --loss 0%\n",
        ),
        (
            ("run", "a.toml", "--sample-interval", "-1"),
            "--sample-interval -1: must not be negative; write --sample-interval 1ms\n",
        ),
        (("race", "--plot", "a.pdf", "--size", "9"), "--size 9: not a size; write width and "),
        (("race", "--plot", "a.pdf", "--log", "9"), "--log 9: names no axes; write x, y or x,y\n"),
        (("from", "."), ".: is a directory; write the name of a file\n"),
        (
            ("lab", f"{ROOT}/scenarios/first/cubic.toml", "--copy-to", "lab"),
            "--copy-to: copies the lab without a scenario; omit SCENARIO\n",
        ),
        (
            ("plot", "a.toml", "--y", "b", "--out", "c.svg"),
            "a.toml: --y, --x, --by and --where are only for a table; write a file that ends in",
        ),
        (
            ("race", "--duration", "2s"),
            "--duration 2s: must be a time from 4s to 3600s in whole seconds; write --duration 4s",
        ),
        (("list", "cc", "cubik"), "cubik: not among cc; write one of "),
        (("list", "codel"), "codel: is one of queues; write narrows list queues codel"),
        (("list", "quues"), "quues: must be one of cc, queues, "),
        (
            ("check",),
            "FILE: this argument is missing; the usage is narrows check",
        ),
        (("nonsense",), "nonsense: narrows has no such command; narrows --help lists the commands"),
        (("mesure", "h"), "mesure: narrows has no such command; did you mean narrows measure?"),
    ],
)
def test_invalid_command_lines_are_errors_with_a_remedy(
    command: Cli, args: tuple[str, ...], text: str
) -> None:
    done = command(*args)
    assert done.returncode == 2
    assert done.stderr.startswith(text)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("run", "tiny"), "tiny: no such file or directory; did you mean tiny.toml?"),
        (("advise", "tiny"), "tiny: no such file or directory; did you mean tiny.toml?"),
        (("model", "seen"), "seen: no such file or directory; did you mean seen.json?"),
        (("run", "many.toml"), "many.toml: a sweep, not a scenario: narrows sweep many.toml"),
        (
            ("check", "seen.json"),
            "seen.json: JSON, not a scenario; the path of a measurement: narrows model seen.json",
        ),
        (("sweep", "tiny.toml"), "tiny.toml: a scenario, not a sweep: narrows run tiny.toml"),
        (
            ("model", "tiny.toml"),
            "tiny.toml: a scenario, not a measurement: narrows measure tiny.toml",
        ),
        (
            ("convert", "tiny.toml", "o.csv"),
            "tiny.toml: a scenario, not a measurement: narrows measure tiny.toml",
        ),
        (("run", "bin.cfg"), "bin.cfg: not UTF-8 text, so not a scenario"),
        (("sweep", "bin.cfg"), "bin.cfg: not UTF-8 text, so not a sweep"),
        (("train", "remy", "bin.cfg"), "bin.cfg: not UTF-8 text, so not a training file"),
        (
            ("compare", "empty.json", "seen.json"),
            "empty.json: the file is empty; write a measurement or a scenario",
        ),
        (("model", "empty.json"), "empty.json: the file is empty; write a measurement"),
    ],
)
def test_a_wrong_file_name_or_type_is_an_error_with_a_remedy(
    command: Cli, tiny: Path, tmp_path: Path, args: tuple[str, ...], text: str
) -> None:
    (tmp_path / "tiny.toml").write_bytes(tiny.read_bytes())
    (tmp_path / "seen.json").write_text("{}", encoding="utf-8")
    (tmp_path / "empty.json").write_text("\n", encoding="utf-8")
    (tmp_path / "bin.cfg").write_bytes(b"\xff\xfe\x80")
    (tmp_path / "many.toml").write_text(
        'scenario = "tiny.toml"\n[over]\n"flow.cc" = ["bbr"]\n', encoding="utf-8"
    )
    done = command(*args)
    assert (done.returncode, done.stderr) == (2, f"{text}\n")


def test_an_invalid_sample_interval_is_an_error_with_a_remedy(command: Cli, tiny: Path) -> None:
    done = command("run", tiny, "--sample-interval", "100")
    assert done.returncode == 2
    assert done.stderr == ("--sample-interval 100: needs a unit; write --sample-interval 100ms\n")


def test_check_names_the_right_and_the_wrong(command: Cli, tiny: Path) -> None:
    done = command("check", tiny, "absent.toml")
    assert done.returncode == 2
    assert done.stdout == f"{tiny}: valid\n"
    assert done.stderr == "absent.toml: no such file or directory\n"


def test_out_writes_everything_and_leaves_nothing_else(
    command: Cli, tiny: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # the second time over the first
        done = command("run", tiny, "--quiet", "--out", "deep/result", "--sample-interval", "50ms")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = {
        "class_samples.parquet",
        "pings.parquet",
        "states.parquet",
        "transfers.parquet",
        "queue_samples.parquet",
        "run.json",
        "samples.parquet",
        "scenario.toml",
    }
    assert {p.name for p in (tmp_path / "deep/result").iterdir()} == names
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["result"]
    again = command("run", "deep/result/scenario.toml", "--json")
    first = json.loads((tmp_path / "deep/result/run.json").read_text(encoding="utf-8"))
    assert json.loads(again.stdout)["flows"] == first["flows"]


def test_out_that_cannot_be_written(command: Cli, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = command("run", tiny, "--out", "file/result")
    assert done.returncode == 2
    assert done.stderr.startswith("file/result: ")


@pytest.mark.parametrize("folder", ["/proc/x", "/proc/x/y"])
def test_out_where_no_file_can_be_made_is_refused_before_the_run(command: Cli, folder: str) -> None:
    done = command("run", "absent.toml", "--out", folder)
    assert done.returncode == 2
    assert done.stderr.startswith(f"{folder}: ")
    assert "absent.toml" not in done.stderr


def processor_time(pid: int) -> float:
    """Seconds of user and system time, which come after the name and eleven other fields."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def test_ctrl_c_prints_one_line_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(LONG, encoding="utf-8")
    command = [NARROWS, "run", file, "--out", tmp_path / "result"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        while processor_time(child.pid) < 1:  # more than the imports take: Rust is at work
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = child.communicate(timeout=10)
    assert (child.returncode, out, err) == (130, "", "stopped\n")
    assert time.monotonic() - sent < 1
    assert [p.name for p in tmp_path.iterdir()] == ["long.toml"]


def test_a_small_run_takes_less_than_a_second(
    cli: Cli, tiny: Path, record_property: pytest.RecordProperty
) -> None:
    times = []
    for _ in range(5):
        begin = time.monotonic()
        assert cli("run", tiny).returncode == 0
        times.append(time.monotonic() - begin)
    print(
        f"narrows run: {1000 * min(times):.0f} ms at best, {1000 * sorted(times)[2]:.0f} ms in "
        "the middle of 5"
    )
    assert min(times) < 1


def test_a_run_imports_no_plotting_or_data_frame_library(tiny: Path) -> None:
    code = (
        "import sys; from narrows.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*sorted({m.split('.')[0] for m in sys.modules}))"
    )
    command = [sys.executable, "-c", code, "run", tiny]
    done = subprocess.run(command, cwd=tiny.parent, capture_output=True, text=True, check=True)
    heavy = {"pyarrow", "pandas", "polars", "matplotlib", "numpy", "asyncio"}
    assert heavy & set(done.stdout.splitlines()[-1].split()) == set()


def test_list_without_a_kind_lists_both(command: Cli) -> None:
    assert command("list").stdout.splitlines()[0] == "cc:"
    assert {"cc", "queues", "link", "policer"} < set(json.loads(command("list", "--json").stdout))


def test_a_transfer_that_ends_before_the_warm_up_is_reported_as_such(
    command: Cli, tmp_path: Path
) -> None:
    text = TINY.replace("count = 2", 'size = "1kB"').replace(
        "seed ", 'warmup = "1s"\nstart_jitter = "0s"\nseed '
    )
    (tmp_path / "short.toml").write_text(text, encoding="utf-8")
    assert command("run", "short.toml").stdout.startswith(
        "1 cubic flow sent no data after the warm-up; "
    )


def test_list(command: Cli) -> None:
    assert "cubic" in command("list", "cc").stdout
    assert "fifo" in command("list", "queues").stdout
    assert "hystart" in command("list", "cc", "cubic").stdout
    # Some parameters have no source.
    assert "()" not in command("list", "workload", "poisson").stdout
    (cubic,) = json.loads(command("list", "cc", "cubic", "--json").stdout)["cc"]
    assert {"name", "help", "source", "params"} <= set(cubic)


def test_version(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("narrows, version ")


def leaves(group: click.Group, of: str = "narrows") -> dict[str, click.Command]:
    """All commands, those of groups too, by what is written for them."""
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        entry = group.get_command(context, name)
        assert entry is not None
        called = f"{of} {name}"
        found |= leaves(entry, called) if isinstance(entry, click.Group) else {called: entry}
    return found


def ours(example: str) -> list[str]:
    """The words of an example that are for `narrows`, without what a shell or a program takes."""
    words = shlex.split(example)
    words = words[words.index("narrows") + 1 :]
    return list(itertools.takewhile(lambda word: word not in {"|", ">"}, words))


@pytest.mark.parametrize("command", leaves(main))
def test_help_has_a_summary_groups_metavars_and_examples(command: str) -> None:
    entry = leaves(main)[command]
    assert re.match(r"[A-Z][^.]*\.(\s|$)", entry.help or ""), entry.help
    assert isinstance(entry, Command)
    assert any(f"{command} " in f"{example} " for example in entry.examples)
    assert len(entry.examples) <= 4
    for option in entry.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert isinstance(option, Option), option.name
            assert re.fullmatch(r"(?!.*Example)[A-Za-z].*[^.]", option.help or ""), option.help
            if not option.is_flag and not option.flag_value and not option.metavar:
                assert isinstance(option.type, click.Choice), option.name
    for param in entry.params:
        # Click's own types of numbers accept NaN.
        if param.type is click.FLOAT or isinstance(param.type, click.FloatRange):
            assert isinstance(param.type, Number), param.name
        if isinstance(param, click.Argument):
            assert isinstance(param, Argument)
            assert param.about, param.name


def examples() -> list[str]:
    """All examples of all commands."""
    entries = [entry for entry in leaves(main).values() if isinstance(entry, Command)]
    return sorted({example for entry in entries for example in entry.examples})


@pytest.mark.parametrize("example", examples())
def test_each_example_of_the_help_is_accepted(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("scenarios", "sweeps"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for file in re.findall(r"\b(?:scenarios|sweeps)/[^\s*]+\.toml", example):
        assert Path(file).exists(), file
    words = ours(example)
    entry: click.Command = main
    context = click.Context(entry, info_name="narrows")
    while isinstance(entry, click.Group):
        found = entry.get_command(context, words[0])
        assert found is not None
        entry = found
        context = entry.make_context(words[0], words[1:], parent=context)
        words = [*context._protected_args, *context.args] if isinstance(entry, click.Group) else []


def test_summaries_of_the_help_are_those_of_the_commands() -> None:
    context = click.Context(main)
    for heading, commands in COMMANDS.items():
        for name, (_, text) in commands.items():
            entry = main.get_command(context, name)
            assert entry is not None
            assert summary(entry) == text, (heading, name)
            assert len(text) <= 66


def test_help_of_the_program_imports_no_command_and_hides_earlier_names(cli: Cli) -> None:
    shown = cli("--help").stdout
    headings = re.findall(r"^([A-Z][a-z ]+):$", shown, re.MULTILINE)
    assert headings == [*COMMANDS, "Options", "Examples"]
    assert "twin" not in shown
    assert "no-twin" not in cli("measure", "--help").stdout
    assert cli("twin", "--help").returncode == 0
    code = (
        "import sys; from narrows.cli import main; main(['--help'], standalone_mode=False);"
        "print(*(m for m in sys.modules if m.endswith('command')))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "narrows.cli.command"


HOST_EXAMPLES = [
    "narrows tune audit --all",
    "narrows tune audit --rate 100Mbit --rtt 40ms --json",
    "narrows tune plan --cc bbr --qdisc fq",
    "narrows tune plan --cc bbr --to 192.0.2.0/24",
    "narrows tune plan --ecn on --mtu-probing --set net.ipv4.tcp_sack=1",
    "narrows tune plan --sqm eth0 --down 90Mbit --up 18Mbit --install",
    "narrows tune plan --shape eth0 --down 90Mbit --up 18Mbit --replace",
    "narrows tune plan --cc bbr --json",
    "narrows tune plan --cc bbr --sh -",
]


@pytest.mark.parametrize("example", HOST_EXAMPLES)
def test_tune_plans_for_a_router(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    host = ROOT / "python/tests/data/hosts/openwrt-24.10.txt"
    done = CliRunner().invoke(main, [*ours(example), "--facts", str(host)])
    assert done.exit_code != 2, done.output


@pytest.mark.parametrize("option", ["--report", "--plot"])
def test_a_full_disk_keeps_the_older_result(tiny: Path, command: Cli, option: str) -> None:
    older = tiny.with_name("older.svg" if option == "--plot" else "older.html")
    older.write_text("older", encoding="utf-8")
    older.chmod(0o640)
    little = ["sh", "-c", 'ulimit -f 1; "$@"', "sh", NARROWS, "run", tiny, "--quiet", option, older]
    done = subprocess.run(little, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"{older}: file too large\n")
    assert older.read_text(encoding="utf-8") == "older"
    assert sorted(tiny.parent.iterdir()) == sorted([tiny, older])
    assert command("run", tiny, "--quiet", option, older).returncode == 0
    assert (older.stat().st_size > 5000, older.stat().st_mode & 0o777) == (True, 0o640)


def test_a_result_can_be_written_to_a_device(cli: Cli, tiny: Path) -> None:
    assert (
        "<!doctype html>" in cli("run", tiny, "--quiet", "--report", "/dev/stdout").stdout.lower()
    )
    assert cli("run", tiny, "--quiet", "--report", "/dev/full").returncode == 2
    assert Path("/dev/full").is_char_device()


def test_stdout_that_is_full_or_closed_is_no_crash(tiny: Path) -> None:
    for args in (["run", tiny], ["run", tiny, "--json"], ["check", tiny], ["list"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [NARROWS, *args], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert done.returncode == 2, args
        assert done.stderr == "output: no space left on device\n"
        closed = ["sh", "-c", '"$@" >&-', "sh", NARROWS, *args]
        done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), args


def test_file_names_and_output_with_an_ascii_locale(tiny: Path, tmp_path: Path) -> None:
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    odd = tmp_path / os.fsdecode(b"\xff.toml")
    odd.write_bytes(tiny.read_bytes())
    for args in (
        ["check", odd],
        ["run", odd, "--out", tmp_path / os.fsdecode(b"\xf6")],
        ["demo", "--up-to", "10"],
    ):
        done = subprocess.run([NARROWS, *args], capture_output=True, env=ascii_only, check=False)
        assert (done.returncode, done.stderr) == (0, b""), args
