"""The commands that change a host, and whether a change has its predicted effect on a path."""

from __future__ import annotations

import copy
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import NARROWS, until
from test_live import HOST, ready
from test_shell import shell
from test_tune_host import CC, WMEM, Space, change, everything, other_cc, other_wanted, plan, space

import narrows as nw
from narrows.cli import main
from narrows.deferred import deferred
from narrows.errors import EngineError, NarrowsError
from narrows.measure.result import Direction, Measurement
from narrows.measure.simulated import Plan as Measuring
from narrows.measure.simulated import measure
from narrows.registry import sysctls
from narrows.tune import changing
from narrows.tune import prove as proving
from narrows.tune.apply import Place, RefusedError
from narrows.tune.collect import facts
from narrows.tune.plan import Ask, Plan
from narrows.tune.planner import plan as plan_of
from narrows.tune.prove import Proof, Unfinished, acts_on, load_direction

__all__ = ["space"]

HOSTS = Path(__file__).parent / "data/hosts"

Json = dict[str, Any]


def command(
    space: Space, *words: str, plan: Json | None = None
) -> subprocess.CompletedProcess[str]:
    given = None if plan is None else json.dumps(plan)
    whole = [*space.enter, NARROWS, "tune", *words, "--root", space.root]
    return subprocess.run(
        whole, input=given, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_commands_print_applied_and_reverted_changes(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    wanted = other_wanted(whole)
    done = command(space, "apply", "-", plan=whole)
    assert done.returncode == 0, done.stderr
    assert f"sysctl:{CC}: changed from {whole['changes'][2]['from']} to {wanted}" in done.stdout
    assert (
        f"Checked: a new connection uses {wanted}, as shown by its socket and by the connection "
        in done.stdout
    )
    assert "neither `sysctl -p` nor a reboot is needed" in done.stdout
    again = command(space, "apply", "-", plan=whole)
    assert again.stdout == "Nothing to do: the host already has these settings.\n"
    verified = command(space, "verify")
    assert verified.returncode == 0
    assert verified.stdout.startswith("In effect: For a test (applied ")
    space.set(WMEM, "4096 16384 7777777")
    drifted = command(space, "verify", "--json")
    assert drifted.returncode == 1
    assert json.loads(drifted.stdout)["drifted"][0]["is"] == "4096 16384 7777777"
    assert command(space, "revert").returncode == 1
    reverted = command(space, "revert", "--force")
    assert reverted.stdout.endswith("All previous settings are restored.\n")
    assert space.seen() == before
    assert command(space, "verify").returncode == 2


def test_apply_asks_for_confirmation_in_a_terminal(space: Space, tmp_path: Path) -> None:
    before, whole = space.seen(), everything(space)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    file.chmod(0o600)
    nobody = command(space, "apply", str(file))
    assert nobody.returncode == 2
    assert "--yes" in nobody.stderr
    words = [
        *map(str, space.enter),
        str(NARROWS),
        "tune",
        "apply",
        str(file),
        "--root",
        str(space.root),
    ]
    for answer, code in ((b"n\n", 1), (b"y\n", 0)):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvp(words[0], words)
        os.write(terminal, answer)
        said = b""
        while True:
            try:
                said += os.read(terminal, 4096)
            except OSError:
                break
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code, said
        assert b"Apply these changes?" in said
        assert (space.seen() == before) == (code == 1)
    assert command(space, "revert").returncode == 0
    assert space.seen() == before


def test_a_plan_writable_by_others_is_refused(space: Space, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan()), encoding="utf-8")
    file.chmod(0o664)
    done = command(space, "apply", str(file), "--yes")
    assert done.returncode == 2
    assert "chmod go-w" in done.stderr
    file.chmod(0o600)
    (tmp_path / "link.json").symlink_to(file)
    assert (
        "symbolic links are rejected"
        in command(space, "apply", str(tmp_path / "link.json"), "--yes").stderr
    )


def test_a_plan_can_be_confirmed_and_reverted(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    done = command(space, "apply", "-", "--confirm-within", "10min", plan=whole)
    assert "narrows tune confirm" in done.stdout
    assert "Not confirmed yet: the changes are reverted in " in command(space, "verify").stdout
    kept = command(space, "confirm")
    assert kept.stdout.endswith("Confirmed: the changes stay, also after a reboot.\n")
    assert command(space, "confirm").returncode == 2
    assert command(space, "revert").returncode == 0
    assert space.seen() == before


def test_every_setting_names_the_direction_of_data_it_affects() -> None:
    acts = {name: row["acts"] for name, row in sysctls().items()}
    assert set(acts.values()) == {"sent", "received", "negotiated", "neither"}
    assert (acts["net.ipv4.tcp_wmem"], acts["net.ipv4.tcp_ecn"]) == ("sent", "negotiated")


def test_an_invalid_value_of_a_setting_is_refused(space: Space) -> None:
    done = space.tune("apply", plan=plan(change("sysctl", "net.ipv4.tcp_ecn", "2", "many")))
    assert done.returncode == 2
    assert '"many" is not a value of net.ipv4.tcp_ecn; write [0-5]' in done.stderr


@pytest.mark.parametrize("host", sorted(HOSTS.glob("*.txt")), ids=lambda file: file.stem)
def test_every_plan_is_valid_for_the_program_that_applies_it(space: Space, host: Path) -> None:
    seen = facts(file=str(host))
    before = space.seen()
    for ask in (
        Ask(cc="bbr", qdisc="fq"),
        Ask(ecn="on", mtu_probing=True),
        Ask(settings=["net.ipv4.tcp_sack=0"]),
    ):
        try:
            made = plan_of(seen, ask).json()
        except NarrowsError:
            continue  # Not on such a host, and it says so
        if made["needs"] or any("hotplug.d" in str(row["target"]) for row in made["changes"]):
            continue
        # It is another host's, and one change fits no host: refused for what is here, never for
        # what is written.
        made["changes"].append(change("sysctl", "net.ipv4.tcp_base_mss", "no such value", "1025"))
        refused = space.tune("apply", plan=made)
        assert refused.returncode == 2
        assert not re.search(r"^(the plan|change \d+)", refused.stderr), refused.stderr
        assert "net.ipv4.tcp_base_mss: is " in refused.stderr
    assert space.seen() == before


def test_the_direction_of_a_proof_must_be_that_of_the_change(space: Space) -> None:
    now, then = other_cc(space)
    whole = plan(change("sysctl", CC, now, then))
    assert acts_on(Plan.of(whole)) == {"up"}
    assert load_direction(Plan.of(whole), None) == "up"
    with pytest.raises(
        NarrowsError, match=r"--direction [a-z]+: .* affects only data that this host"
    ):
        load_direction(Plan.of(whole), "down")
    receiver = plan(change("sysctl", "net.ipv4.tcp_rmem", "1 2 3", "4 5 6"))
    assert load_direction(Plan.of(receiver), None) == "down"
    with pytest.raises(NarrowsError, match="--direction down"):
        load_direction(Plan.of(receiver), "up")
    with pytest.raises(NarrowsError, match="nothing to measure"):
        load_direction(Plan.of(plan(change("module", "tcp_bbr", "absent", "loaded"))), None)
    before = space.seen()
    # Nothing is measured, and nothing changed: the answer is known.
    done = command(space, "prove", "192.0.2.2", "-", "--direction", "down", plan=whole)
    assert done.returncode == 2
    assert f"--direction down: {CC} affects only data that this host sends" in done.stderr
    assert "the far host sends" in done.stderr
    assert space.seen() == before


def test_bbr_instead_of_cubic_with_random_loss_is_proved_and_reverted(tmp_path: Path) -> None:
    ready("cubic", "bbr")
    root = tmp_path / "root"
    (root / "var/lib").mkdir(parents=True)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    direction = ["10.0.0.2/32", "dev", "e0", "congctl"]
    target = {"family": "inet", "table": "main", "prefix": "10.0.0.2/32"}
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps(plan(change("route", target, [*direction, "cubic"], [*direction, "bbr"]))),
        encoding="utf-8",
    )
    file.chmod(0o600)
    seen = tmp_path / "seen.json"
    prove = [
        str(NARROWS),
        "tune",
        "prove",
        "far",
        str(file),
        "--yes",
        "--json",
        "--root",
        str(root),
    ]
    prove += ["--rounds", "4", "--duration", "3s", "--streams", "1"]
    script = (
        f"ip route change 10.0.0.2 dev e0 congctl cubic && {shlex.join(prove)} && ip route "
        "show 10.0.0.2"
    )
    path = ["--rate", "20Mbit", "--rtt", "40ms", "--loss", "1%"]
    far = ["--far", f"{HOST} serve"]
    words = [*path, "--quiet", "--json", seen, *far]
    done = shell(*words, command=["sh", "-c", script], longest_s=120)
    assert done.returncode == 0, done.stderr
    answer, _, route = done.stdout.partition("\n")
    proof = json.loads(answer)
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    assert "congctl cubic" in route, "it is as it was"
    assert not (root / "var/lib/narrows/tune/journal.json").exists()
    assert (proof["direction"], proof["rounds"], proof["kept"]) == ("up", 4, False)
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    # By Mathis' law CUBIC cannot pass a third of this path; BBR does not take losses for
    # congestion.
    rate = proof["figures"]["up_mbit"]
    assert rate["verdict"] == "better", proof
    assert rate["before"] < 10 < rate["after"]
    assert "down_mbit" not in proof["figures"]


@pytest.mark.parametrize("ended", [KeyboardInterrupt, EngineError("the server is gone")])
def test_complete_rounds_are_shown_when_a_signal_or_an_error_ends_the_proof(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ended: BaseException | type[BaseException],
) -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit"))
    once = measure(path, Measuring(load_s=4.0, directions=("up",), streams=1))
    measured, undone = [once] * 5, []

    def next_one(_direction: Direction, _more: Sequence[str]) -> Measurement:
        if not measured:
            raise ended
        return measured.pop()

    @contextmanager
    def changed(*_: object, **__: object) -> Iterator[None]:
        try:
            yield
        finally:
            undone.append(True)

    monkeypatch.setattr(proving, "changed", changed)
    with pytest.raises(Unfinished) as stopped:
        proving.prove(Plan.of({"changes": []}), Place(), next_one, direction="up", rounds=4)
    proof = stopped.value.proof
    assert proof is not None
    # Five measurements are two rounds, and one without its counterpart; the third change is undone,
    # too.
    assert (len(proof.without), len(proof.with_it), len(undone)) == (2, 2, 3)
    changing._unfinished(proof, 4, as_json=False)
    shown = capsys.readouterr()
    assert shown.err == (
        "Stopped after 2 of 4 rounds; `narrows tune verify` reports whether a change is still "
        "in effect.\n"
    )
    assert "measured alternately without and with the change, 2 times each" in shown.out
    changing._unfinished(proof, 4, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["rounds"], told["unfinished"], told["kept"]) == (2, True, False)


WITH_ANOTHER_HOST = """
import sys
from narrows import cli
from narrows.tune import apply

apply.HOST = sys.argv.pop(1)
sys.argv[0] = "narrows"
cli.main()
"""

DONE = {
    "done": [{"id": "sysctl:net.ipv4.tcp_ecn", "before": "2", "after": "1"}],
    "already": [],
    "proof": None,
    "revert": "narrows tune revert",
}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_after_the_change_does_not_suppress_the_report(
    how: signal.Signals, as_json: bool, tmp_path: Path
) -> None:
    host = tmp_path / "host"
    # The signal arrives when all changes are done.
    answer = shlex.quote(json.dumps(DONE))
    host.write_text(
        f"#!/bin/sh\nDONE={answer}\ntrap 'echo \"$DONE\"; exit 0' TERM\n"
        f"cat > /dev/null; touch {tmp_path}/begun; while :; do sleep 0.02; done\n",
        encoding="utf-8",
    )
    host.chmod(0o755)
    words = [
        sys.executable,
        "-c",
        WITH_ANOTHER_HOST,
        str(host),
        "tune",
        "apply",
        "-",
        *(["--json"] if as_json else []),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True, cwd=tmp_path
    ) as child:
        assert child.stdin is not None
        child.stdin.write(json.dumps(plan(change("sysctl", "net.ipv4.tcp_ecn", "2", "1"))))
        child.stdin.close()
        child.stdin = None
        until((tmp_path / "begun").exists, child)
        child.send_signal(how)
        out, said = child.communicate(timeout=30)
    assert child.returncode == 128 + how, said
    if as_json:
        assert json.loads(out) == DONE
    else:
        assert out == (
            "sysctl:net.ipv4.tcp_ecn: changed from 2 to 1\n"
            "To revert the changes: narrows tune revert\n"
        )
    assert said == ("The signal arrived after completion; nothing was reverted.\nstopped\n")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Each Ctrl-C raises, also the second one within a second."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_waits_until_a_deferred_block_is_done() -> None:
    steps: list[str] = []

    def twice() -> None:
        with deferred(lambda: steps.append("outer")):
            with deferred(lambda: steps.append("inner")):
                signal.raise_signal(signal.SIGINT)
                steps.append("goes on")
            steps.append("so does this")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert steps == ["outer", "inner", "goes on", "so does this"]

    def hung_up() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            raise OSError

    with pytest.raises(KeyboardInterrupt):
        hung_up()
    with pytest.raises(OSError), deferred():  # noqa: PT011 - whichever
        raise OSError
    assert signal.getsignal(signal.SIGINT) is before


def once_measured(moved: int = 0, stopped_by: str = "duration") -> Measurement:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit"))
    made = measure(path, Measuring(load_s=2.0, directions=("up",), streams=1)).json
    made["asked"] = (made.get("asked") or {}) | {"max_data_bytes": 5_000_000}
    made["data"] = {"moved_bytes": moved, "stopped_by": stopped_by}
    return Measurement.of(made)


@contextmanager
def nothing_changed(*_: object, **__: object) -> Iterator[None]:
    yield


def proved_with(
    monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, str]], *, rounds: int = 4
) -> tuple[Proof, list[list[str]]]:
    """What a proof of at most 5 MB shows whose measurements move this, and the options that they
    were given.
    """
    base, asked = once_measured(), []
    left = iter(sizes)

    def once(_direction: Direction, more: Sequence[str]) -> Measurement:
        asked.append(list(more))
        size, why = next(left)
        made = copy.deepcopy(base.json)
        made["data"] = {"moved_bytes": size, "stopped_by": why}
        return Measurement.of(made)

    monkeypatch.setattr(proving, "changed", nothing_changed)
    return proving.prove(
        Plan.of({"changes": []}), Place(), once, direction="up", rounds=rounds, max_data="5MB"
    ), asked


def test_a_round_that_could_exceed_the_maximum_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = [
        (1_000_000, "duration"),
        (900_000, "duration"),
        (800_000, "duration"),
        (1_000_000, "duration"),
    ]
    proof, asked = proved_with(monkeypatch, sizes)
    # Of 5 MB, 1.3 MB are left, and one round has moved 1.9 MB.
    assert asked == [
        ["--max-data", "5MB", "--parts", "2"],
        ["--max-data", "4000000B"],
        ["--max-data", "2100000B"],
        ["--max-data", "2300000B"],
    ]
    assert (len(proof.without), len(proof.with_it)) == (2, 2)
    assert (proof.json()["rounds"], proof.json()["moved_bytes"]) == (2, 3_700_000)
    assert proof.ended in proving.proof_lines(proof)
    assert proof.ended == (
        "The measurement ended after 2 of 4 rounds: another round could exceed --max-data 5MB. "
        "All rounds transferred 3.7 MB, the largest one 1.9 MB."
    )


def test_a_round_that_was_cut_short_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [(1_000_000, "duration"), (900_000, "duration"), (2_100_000, "max_data")]
    proof, asked = proved_with(monkeypatch, sizes)
    assert (len(proof.without), len(proof.with_it), len(asked)) == (1, 1, 3)
    assert "after 1 of 4 rounds" in proof.ended
    with pytest.raises(Unfinished) as stopped:
        proved_with(monkeypatch, [(2_500_000, "max_data")])
    assert stopped.value.proof is None
    assert "--max-data 5MB: reached before the first round was complete" in str(
        stopped.value.__cause__
    )


def test_the_maximum_is_stated_before_anything_is_measured(space: Space) -> None:
    now, then = other_cc(space)
    whole = plan(change("sysctl", CC, now, then))
    words = ["--max-data", "7MB", "--rounds", "2", "--duration", "1s"]
    done = command(space, "prove", "192.0.2.2", "-", *words, plan=whole)
    assert done.stdout.startswith(
        "The measurement transfers at most 7MB of payload in 2 rounds (--max-data).\n"
    )
    assert done.returncode == 2, "no server replies at this address"
    usage = subprocess.run(
        [HOST, "measure"], capture_output=True, text=True, check=False, timeout=60
    ).stderr
    assert f"[default: {proving.USUAL_DATA}]\n" in usage


@pytest.mark.parametrize("as_json", [False, True])
def test_results_are_printed_if_the_change_cannot_be_kept_or_scored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    once = once_measured(1_000)
    proof = Proof("up", proving.compared([once] * 2, [once] * 2, "up"), [once] * 2, [once] * 2)

    def refuse(*_: object, **__: object) -> tuple[Json, bool]:
        raise RefusedError("somebody made htb there on purpose", 2)

    def unreadable(*_: object) -> list[object]:
        raise NarrowsError("forecasts.jsonl: line 3 was changed after it was written")

    monkeypatch.setattr("narrows.tune.changing.have", refuse)
    monkeypatch.setattr("narrows.tune.changing.scored", unreadable)
    with pytest.raises(RefusedError, match="the change was not kept: somebody made htb"):
        changing._finished(
            proof,
            Plan.of({"changes": []}),
            Place(),
            keep=True,
            then="keep",
            replace=False,
            as_json=as_json,
        )
    shown = capsys.readouterr()
    assert shown.err == (
        "The sealed forecasts were not scored: forecasts.jsonl: line 3 was changed after it was "
        "written\n"
    )
    if as_json:
        told = json.loads(shown.out)
        assert (told["rounds"], told["kept"], told["not_kept"]) == (
            2,
            False,
            "somebody made htb there on purpose",
        )
        assert "line 3" in told["not_scored"]


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, "no such file or directory"),
        (b"\nsecret\n", "the first line is empty"),
        (b"\xff\xfe\n", "the first line is not text in UTF-8"),
        (b"x" * 5000, "the first line has more than 4096 bytes"),
    ],
)
def test_a_file_without_a_token_is_reported_before_the_plan(
    content: bytes | None, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*_: object) -> Plan:
        pytest.fail("the file is read first")

    monkeypatch.setattr(changing, "_plan", planned)
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    words = ["tune", "prove", "127.0.0.1", "--cc", "bbr", "--token-file", str(file)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert done.stderr == (
        f"--token-file {file}: {wrong}\n"
        "    write: a file whose first line is the token of the server\n"
    )
