"""The commands that change a host, and whether a change does on a path what is said of it."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import NARROWS
from test_live import HOST, ready
from test_shell import shell
from test_tune_host import CC, WMEM, Space, change, everything, other_cc, other_wanted, plan, space

import narrows as nw
from narrows.errors import EngineError, NarrowsError
from narrows.measure.result import Direction, Measurement
from narrows.measure.simulated import Plan, measure
from narrows.registry import sysctls
from narrows.tune import changing
from narrows.tune import prove as proving
from narrows.tune.apply import Place
from narrows.tune.collect import facts
from narrows.tune.plan import Ask
from narrows.tune.plan import plan as plan_of
from narrows.tune.prove import AGREED, RECEIVES, SENDS, Unfinished, acts_on, direction

__all__ = ["space"]

HOSTS = Path(__file__).parent / "data/hosts"

Json = dict[str, Any]


def command(space: Space, *words: str, plan: Json | None = None) -> subprocess.CompletedProcess[str]:
    given = None if plan is None else json.dumps(plan)
    whole = [*space.enter, NARROWS, "tune", *words, "--root", space.root]
    return subprocess.run(whole, input=given, capture_output=True, text=True, check=False, timeout=60)


def test_the_commands_say_what_they_did_and_undid(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    wanted = other_wanted(whole)
    done = command(space, "apply", "-", plan=whole)
    assert done.returncode == 0, done.stderr
    assert f"sysctl:{CC}: was {whole['changes'][2]['from']}, is {wanted}" in done.stdout
    assert f"Proved: a new connection uses {wanted}, by its own socket and in the kernel's list" in done.stdout
    assert "Neither `sysctl -p` nor a reboot is needed" in done.stdout
    again = command(space, "apply", "-", plan=whole)
    assert again.stdout == "Nothing to do: it is so already.\n"
    verified = command(space, "verify")
    assert verified.returncode == 0
    assert verified.stdout.startswith("Still so: For a test (applied ")
    space.set(WMEM, "4096 16384 7777777")
    drifted = command(space, "verify", "--json")
    assert drifted.returncode == 1
    assert json.loads(drifted.stdout)["drifted"][0]["is"] == "4096 16384 7777777"
    assert command(space, "revert").returncode == 1
    reverted = command(space, "revert", "--force")
    assert reverted.stdout.endswith("Everything is as it was.\n")
    assert space.seen() == before
    assert command(space, "verify").returncode == 2


def test_it_asks_and_no_means_no(space: Space, tmp_path: Path) -> None:
    before, whole = space.seen(), everything(space)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    file.chmod(0o600)
    nobody = command(space, "apply", str(file))
    assert nobody.returncode == 2
    assert "--yes" in nobody.stderr
    words = [*map(str, space.enter), str(NARROWS), "tune", "apply", str(file), "--root", str(space.root)]
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
        assert b"Change it?" in said
        assert (space.seen() == before) == (code == 1)
    assert command(space, "revert").returncode == 0
    assert space.seen() == before


def test_a_plan_that_others_may_write_is_not_read(space: Space, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan()), encoding="utf-8")
    file.chmod(0o664)
    done = command(space, "apply", str(file), "--yes")
    assert done.returncode == 2
    assert "chmod go-w" in done.stderr
    file.chmod(0o600)
    (tmp_path / "link.json").symlink_to(file)
    assert "links are not followed" in command(space, "apply", str(tmp_path / "link.json"), "--yes").stderr


def test_confirm_keeps_it(space: Space) -> None:
    before, whole = space.seen(), everything(space)
    done = command(space, "apply", "-", "--confirm-within", "10min", plan=whole)
    assert "narrows tune confirm" in done.stdout
    assert "It waits to be confirmed" in command(space, "verify").stdout
    kept = command(space, "confirm")
    assert kept.stdout.endswith("Confirmed: it stays, after a reboot, too.\n")
    assert command(space, "confirm").returncode == 2
    assert command(space, "revert").returncode == 0
    assert space.seen() == before


def test_what_a_plan_sets_for_a_direction_is_among_the_settings() -> None:
    assert set(sysctls()) >= SENDS | RECEIVES | AGREED


def test_a_value_of_another_form_is_refused(space: Space) -> None:
    done = space.tune("apply", plan=plan(change("sysctl", "net.ipv4.tcp_ecn", "2", "many")))
    assert done.returncode == 2
    assert '"many" is no value of net.ipv4.tcp_ecn; write [0-5]' in done.stderr


@pytest.mark.parametrize("host", sorted(HOSTS.glob("*.txt")), ids=lambda file: file.stem)
def test_every_plan_is_understood_by_who_carries_it_out(space: Space, host: Path) -> None:
    seen = facts(file=str(host))
    before = space.seen()
    for ask in (Ask(cc="bbr", qdisc="fq"), Ask(ecn="on", mtu_probing=True), Ask(settings=["net.ipv4.tcp_sack=0"])):
        try:
            made = plan_of(seen, ask).json()
        except NarrowsError:
            continue  # Not on such a host, and it says so
        if made["needs"] or any("hotplug.d" in str(row["target"]) for row in made["changes"]):
            continue
        # It is another host's, and one change fits no host: refused for what is here, never for what is written.
        made["changes"].append(change("sysctl", "net.ipv4.tcp_base_mss", "no such value", "1025"))
        refused = space.tune("apply", plan=made)
        assert refused.returncode == 2
        assert not re.search(r"^(the plan|change \d+)", refused.stderr), refused.stderr
        assert "net.ipv4.tcp_base_mss: is " in refused.stderr
    assert space.seen() == before


def test_a_change_at_the_receiver_cannot_have_this_effect(space: Space) -> None:
    now, then = other_cc(space)
    whole = plan(change("sysctl", CC, now, then))
    assert acts_on(whole) == {"up"}
    assert direction(whole, None) == "up"
    with pytest.raises(NarrowsError, match="cannot have this effect"):
        direction(whole, "down")
    receiver = plan(change("sysctl", "net.ipv4.tcp_rmem", "1 2 3", "4 5 6"))
    assert direction(receiver, None) == "down"
    with pytest.raises(NarrowsError, match="--direction down"):
        direction(receiver, "up")
    with pytest.raises(NarrowsError, match="nothing to measure"):
        direction(plan(change("module", "tcp_bbr", "absent", "loaded")), None)
    before = space.seen()
    # Nothing is measured, and nothing changed: the answer is known.
    done = command(space, "prove", "192.0.2.2", "-", "--direction", "down", plan=whole)
    assert done.returncode == 2
    assert f"cannot have this effect: {CC} acts on what this host sends" in done.stderr
    assert "the far end sends" in done.stderr
    assert space.seen() == before


def test_bbr_instead_of_cubic_on_a_path_that_loses_is_proved_and_put_back(tmp_path: Path) -> None:
    ready("cubic", "bbr")
    root = tmp_path / "root"
    (root / "var/lib").mkdir(parents=True)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    way = ["10.0.0.2/32", "dev", "e0", "congctl"]
    target = {"family": "inet", "table": "main", "prefix": "10.0.0.2/32"}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan(change("route", target, [*way, "cubic"], [*way, "bbr"]))), encoding="utf-8")
    file.chmod(0o600)
    seen = tmp_path / "seen.json"
    prove = [str(NARROWS), "tune", "prove", "far", str(file), "--yes", "--json", "--root", str(root)]
    prove += ["--rounds", "3", "--duration", "3s", "--streams", "1"]
    script = f"ip route change 10.0.0.2 dev e0 congctl cubic && {shlex.join(prove)} && ip route show 10.0.0.2"
    path = ["--rate", "20Mbit", "--rtt", "40ms", "--loss", "1%"]
    far = ["--far", f"{HOST} serve"]
    done = shell(*path, "--quiet", "--json", seen, *far, command=["sh", "-c", script])
    assert done.returncode == 0, done.stderr
    answer, _, route = done.stdout.partition("\n")
    proof = json.loads(answer)
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    assert "congctl cubic" in route, "it is as it was"
    assert not (root / "var/lib/narrows/tune/journal.json").exists()
    assert (proof["direction"], proof["rounds"], proof["kept"]) == ("up", 3, False)
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    # By Mathis' law CUBIC cannot pass a third of this path; BBR does not take losses for congestion.
    rate = proof["figures"]["up_mbit"]
    assert rate["verdict"] == "better", proof
    assert rate["before"] < 10 < rate["after"]
    assert "down_mbit" not in proof["figures"]


@pytest.mark.parametrize("ended", [KeyboardInterrupt, EngineError("the far end is gone")])
def test_complete_rounds_are_shown_when_a_signal_or_an_error_ends_the_proof(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: BaseException | type[BaseException]
) -> None:
    path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp", reverse=nw.Hop(rate="10Mbit"))
    once = measure(path, Plan(load_s=4.0, ways=("up",), streams=1))
    measured, undone = [once] * 5, []

    def next_one(_way: Direction) -> Measurement:
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
        proving.prove({"changes": []}, Place(), next_one, way="up", rounds=4)
    proof = stopped.value.proof
    assert proof is not None
    # Five measurements are two rounds, and one without its counterpart; the third change is undone, too.
    assert (len(proof.without), len(proof.with_it), len(undone)) == (2, 2, 3)
    changing._unfinished(proof, 4, as_json=False)
    shown = capsys.readouterr()
    assert shown.err == ("Stopped after 2 of 4 rounds; `narrows tune verify` reports whether a change is still on.\n")
    assert "without and with it in turn, 2 times each" in shown.out
    changing._unfinished(proof, 4, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["rounds"], told["unfinished"], told["kept"]) == (2, True, False)
