"""`narrows advise`: recommendations on paths with a known answer, candidates that are never
recommended, and sealed forecasts.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import NARROWS, Cli, cpu_s, until

from narrows import forecasts, registry
from narrows.advise import (
    Asked,
    Kernel,
    advise,
    candidates,
    contract,
    from_scenario,
    kernel,
    measured,
    search,
    stated,
)
from narrows.advise import command as advise_command
from narrows.advise.candidates import LINUX, QUEUES, SHAPED, Candidate, here, lacking
from narrows.advise.render import headline, path_line, sentences
from narrows.advise.search import Found
from narrows.advise.sensitivity import boundary, rule
from narrows.advise.sensitivity import sentences as edge_sentences
from narrows.advise.trial import Trial
from narrows.advise.utility import utility
from narrows.advise.verdict import Advice, claim, commands, decide, surely
from narrows.errors import NarrowsError
from narrows.measure.simulated import Plan, measure
from narrows.path_model import infer
from narrows.runs.scenario import Path as NetworkPath

FEW = Kernel(ccs=("cubic", "bbr", "reno", "vegas"), says="few")
SHORT = ((5, 1), (10, 2), (20, 2))


def asked(
    *, role: str = "sender", cares: tuple[str, ...] = (), data_centre: bool = False, **path: str
) -> Asked:
    where = stated(NetworkPath(**({"rate": "8Mbit", "rtt": "40ms"} | path)))
    return Asked(place=where, role=role, cares=cares, data_centre=data_centre)


def answer(question: Asked, has: Kernel = FEW) -> Advice:
    return advise(search(question, candidates(question, has), rounds=SHORT), has, thorough=False)


def test_a_lossy_path_suits_bbr() -> None:
    found = answer(asked(rate="20Mbit", rtt="100ms", buffer="2bdp", loss="2%", cares=("bulk",)))
    assert found.choice.key == "bbr"
    assert found.gain > 1
    goodput = next(effect for effect in found.effects if effect.name == "goodput_mbit")
    assert goodput.low > 0
    assert goodput.low < goodput.change < goodput.high
    assert found.commands[0].startswith("narrows tune plan --cc bbr")


def test_no_change_is_recommended_without_a_difference() -> None:
    found = answer(
        asked(buffer="1bdp", cares=("retransmissions",)), Kernel(ccs=("cubic", "reno"), says="two")
    )
    assert found.leave
    assert found.commands == []


def test_a_candidate_above_its_fair_share_is_shown_but_not_recommended() -> None:
    found = answer(asked(buffer="0.5bdp", loss="0.02%", cares=("bulk",)))
    assert found.choice.key != "bbr"
    assert "times its fair share" in found.shown["bbr"]
    # The sentence has the value of the table, which is that of the longest simulations.
    row = next(row for row in found.rows if row.key == "bbr")
    assert f"it takes {row.price.times_fair:.1f} times its fair share" in row.why_not
    assert "the best alternative that can be recommended" in headline(found) or not found.leave


def test_the_share_among_other_flows_is_that_of_the_longest_simulations() -> None:
    question = asked(buffer="1bdp", cares=("bulk",))
    found = Found(question, {one.key: one for one in candidates(question, FEW)})
    for seconds, times, others in ((10, 1.0, 6.0), (20, 3.0, 1.0)):
        of = {"times_fair": times, "others_mbit": others}
        found.trials[Trial("bbr", "among", 0, 1, seconds)] = of
        found.trials[Trial("cubic", "among", 0, 1, seconds)] = {"times_fair": 1.0, "others_mbit": 6}
    assert found.times_fair("bbr") == found.greedy("bbr") == 3.0
    assert found.greedy("cubic") is None
    assert not found.allowed("bbr")


def test_a_better_candidate_that_is_not_recommended_is_named_first() -> None:
    two = Kernel(ccs=("cubic", "bbr"), says="two")
    left = answer(asked(buffer="0.5bdp", loss="0.02%", cares=("bulk",)), two)
    assert left.leave
    assert headline(left) == (
        "Change nothing: bbr has a higher utility, but is not recommended because "
        f"{left.shown['bbr']}; no other candidate was better."
    )


def test_scalable_and_dctcp_are_restricted_to_data_centres() -> None:
    has = Kernel(ccs=("cubic", "scalable", "dctcp"), says="three")
    outside, inside = (candidates(asked(data_centre=where), has) for where in (False, True))
    assert [c.key for c in outside if c.only] == ["scalable", "dctcp"]
    assert not [c.key for c in inside if c.only]


def test_a_bloated_last_mile_gets_a_shaper() -> None:
    found = answer(asked(role="receiver", buffer="8bdp"))
    assert found.choice.share is not None
    p95 = next(effect for effect in found.effects if effect.name == "p95_ms")
    assert p95.high < 0
    share = f"{found.choice.share * found.found.asked.place.rate_mbit:.4g}Mbit"
    assert found.commands == [
        f"narrows tune plan --shape DEV --down {share} --qdisc {found.choice.queue}"
    ]


def test_an_unknown_buffer_has_three_variants() -> None:
    place = asked().place
    assert len(place.variants) == 3
    assert sum(variant.weight for variant in place.variants) == 1
    assert place.open == ("the size of the buffer",)
    assert len(asked(buffer="1bdp").place.variants) == 1
    assert len(asked(queue="fq_codel").place.variants) == 1


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ({"rtt": "40ms"}, "no rate"),
        ({"rate": "5Mbit"}, "no rtt"),
        ({"rate": "5", "rtt": "40ms"}, "5"),
    ],
)
def test_an_incomplete_or_invalid_path_is_an_error(path: dict[str, str], says: str) -> None:
    with pytest.raises(NarrowsError, match=says):
        stated(NetworkPath(**path))


def test_every_candidate_of_the_registry_has_a_model() -> None:
    assert {*QUEUES, *SHAPED} <= set(registry.names("queue"))
    assert set(LINUX) <= set(registry.names("cc"))


def test_a_path_model_and_its_intervals() -> None:
    truth = NetworkPath(
        rate="10Mbit", rtt="30ms", buffer="60kB", reverse=NetworkPath(rate="4Mbit", buffer="50kB")
    )
    seen = measure(truth, Plan(load_s=5.0))
    model = infer(seen).json()
    down, up = (measured(model, role=role, source="x") for role in ("receiver", "sender"))
    assert down.rate_mbit == pytest.approx(10, rel=0.1)
    assert up.rate_mbit == pytest.approx(4, rel=0.1)
    assert up.variants[0].path.reverse is not None
    assert down.variants[0].path.buffer is not None
    with pytest.raises(NarrowsError, match="not a path model"):
        measured({"path": 3}, role="sender", source="x")
    with pytest.raises(NarrowsError, match="no \\[path\\]"):
        from_scenario({}, source="x")


def test_the_option_kernel_is_a_release_or_a_list_of_congestion_controls() -> None:
    assert kernel("6.12").ccs == LINUX
    assert "bbr" not in kernel("4.4").ccs
    assert kernel("reno, bbr").ccs == ("reno", "bbr")
    for wrong in ("fast", "", "reno,fast"):
        with pytest.raises(NarrowsError, match="--kernel"):
            kernel(wrong)
    found = here()
    if found is not None:
        assert "reno" in found.ccs


def host(root: Path, *, system: str, modules: str, config: str = "") -> Path:
    """The tree of a host with Linux 6.1."""
    (root / "proc/sys/net/ipv4").mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "etc").mkdir()
    there = root / "lib/modules/6.1.0"
    there.mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text("6.1.0\n")
    (root / "proc/sys/net/ipv4/tcp_available_congestion_control").write_text("reno cubic\n")
    (root / "proc/sys/net/ipv4/tcp_congestion_control").write_text("cubic\n")
    (root / "etc/os-release").write_text(f"ID={system}\n")
    (there / "modules.dep").write_text(
        "".join(f"kernel/net/{name}.ko.xz:\n" for name in modules.split())
    )
    (there / "modules.builtin").write_text("")
    (there / "config").write_text(config)
    return root


def test_a_kernel_s_modules_are_read(tmp_path: Path) -> None:
    found = here(
        host(
            tmp_path,
            system="debian",
            modules="ipv4/tcp_bbr sched/sch_codel sched/sch_tbf sched/sch_fq",
        )
    )
    assert found is not None
    assert (found.ccs, found.default) == (("cubic", "bbr", "reno"), "cubic")
    assert found.missing["sch_cake"] == ""
    assert not {"sch_codel", "sch_tbf", "sch_fq"} & set(found.missing)
    assert here(tmp_path / "nowhere") is None


def test_nothing_is_recommended_that_the_kernel_cannot_load(tmp_path: Path) -> None:
    found = here(
        host(tmp_path, system="debian", modules="sched/sch_codel sched/sch_tbf sched/sch_fq_codel")
    )
    assert found is not None
    forwarder, receiver = asked(role="forwarder"), asked(role="receiver")
    shaped = [f"fq_codel at {share}%" for share in (95, 90, 80)]
    assert [c.key for c in candidates(forwarder, found)] == [
        "as it is",
        "fq_codel",
        "codel",
        *shaped,
    ]
    # What comes in needs ifb and its companions, too.
    assert [c.key for c in candidates(receiver, found)] == ["as it is"]
    assert lacking(forwarder, found)["cake at 90%"] == ["sch_cake"]
    assert lacking(receiver, found)["fq_codel at 90%"] == [
        "ifb",
        "sch_ingress",
        "cls_u32",
        "act_mirred",
    ]
    left = answer(receiver, found)
    assert left.leave
    assert headline(left) == "Change nothing: the kernel supports no other candidate for this role."
    assert any(line.startswith("Not simulated: cake at 95%") for line in sentences(left))


def test_the_package_with_a_missing_kernel_module_is_named(tmp_path: Path) -> None:
    found = here(host(tmp_path, system="ubuntu", modules="sched/sch_tbf sched/sch_fq_codel"))
    assert found is not None
    install = "apt-get install linux-modules-extra-6.1.0"
    by = {c.key: c.needs for c in candidates(asked(role="forwarder"), found)}
    assert (by["cake"], by["fq_codel"]) == (install, "")
    (choice,) = [c for c in candidates(asked(role="forwarder"), found) if c.key == "cake"]
    assert commands(asked(role="forwarder"), choice, found) == [
        install,
        "narrows tune plan --qdisc cake --dev DEV",
    ]
    assert "bbr" in found.ccs
    (bbr,) = [c for c in candidates(asked(), found) if c.key == "bbr"]
    # The kernel lacks the discipline fq as well; Linux 6.1 paces without it.
    assert commands(asked(), bbr, found) == [install, "narrows tune plan --cc bbr"]


def test_a_release_has_no_features_of_later_releases() -> None:
    old = kernel("4.4")
    assert "cake" not in [c.key for c in candidates(asked(role="forwarder"), old)]
    assert not old.paces
    assert not kernel("6.12").missing


def test_every_candidate_is_shown_with_its_price_and_the_fastest_is_marked() -> None:
    found = answer(asked(rate="20Mbit", buffer="0.5bdp", loss="0.5%", cares=("bulk", "fairness")))
    assert {row.key for row in found.rows} == set(FEW.ccs)
    assert [row.key for row in found.rows if "recommended" in row.marks] == [found.choice.key]
    assert [row.key for row in found.rows if "in use" in row.marks] == ["cubic"]
    (fast,) = [row for row in found.rows if "fastest" in row.marks]
    assert fast.key == found.fastest == "bbr"
    assert fast.key in found.found.finalists
    most = max(row.figures["goodput_mbit"] or 0.0 for row in found.rows)
    assert fast.figures["goodput_mbit"] == most
    for row in found.rows:
        assert row.price.share_pct is not None
        assert row.price.kept_pct is not None
        assert (row.figures["utility"] is None) is (row.runs == 0)
    assert found.choice.key != "bbr"
    (said,) = [line for line in sentences(found) if line.startswith("Highest goodput: bbr with ")]
    assert "It is not recommended because it takes" in said
    told = found.json()
    assert told["fastest"] == "bbr"
    assert [row["key"] for row in told["candidates"]] == [row.key for row in found.rows]


def test_beyond_a_boundary_every_value_changes_the_choice() -> None:
    assert boundary([2.0, 4.0, 8.0], {2.0, 4.0, 8.0}, beyond=True) == 2.0
    assert boundary([2.0, 4.0, 8.0], {2.0, 8.0}, beyond=True) == 8.0
    assert boundary([2.0, 4.0, 8.0], {2.0, 4.0}, beyond=True) is None
    assert boundary([0.1, 0.5], {0.1, 0.5}, beyond=False) == 0.5
    assert boundary([], {1.0}, beyond=True) is None


def test_boundaries_within_the_noise_are_not_stated() -> None:
    """Two candidates with random differences only: one congestion control under two names."""
    question = asked(rate="4Mbit", buffer="1bdp", loss="0.5%", cares=("bulk",))
    one, other = (Candidate(key=key, says=key, cc="reno") for key in ("reno", "reno's double"))
    assert edge_sentences(question, one, other) == []
    # One that differs by more than chance where losses are more.
    bbr = Candidate(key="bbr", says="bbr", cc="bbr")
    clean = asked(rate="4Mbit", buffer="1bdp", cares=("bulk",))
    assert any("random loss or more" in line for line in edge_sentences(clean, one, bbr))


def test_stated_properties_replace_those_of_a_path_model() -> None:
    path = {"rate": "10Mbit", "rtt": "40ms", "buffer": "98kB"}
    direction = {
        "loss": {"value": 0.0, "low": 0.0, "high": 0.01},
        "buffer_bytes": {"value": 98_000, "low": 60_000, "high": 130_000},
    }
    place = measured({"path": path, "up": direction}, role="sender", source="x")
    assert "a buffer of 1.96 BDP (98 kB); also tried: a buffer of 60 kB" in path_line(place)
    sure = measured(
        {"path": path, "up": direction},
        role="sender",
        source="x",
        known={"buffer": "200kB", "loss": "0.1%"},
    )
    assert len(sure.variants) == 1
    assert sure.open == ()
    assert (
        path_line(sure)
        == "Path (x): 10 Mbit/s, 40 ms, a buffer of 4 BDP (200 kB), 0.1 % random loss."
    )


def made(utilities: dict[str, float], *, only: str = "") -> Found:
    """A search that found these, of who cares for retransmissions."""
    question = asked(buffer="1bdp", cares=("retransmissions",))
    keys = [Candidate(key=key, says=key, cc=key, present=not n) for n, key in enumerate(utilities)]
    found = Found(question, {c.key: c for c in keys})
    for key, value in utilities.items():
        for seed in range(4):
            trial = Trial(key, "alone", 0, seed, 60)
            found.trials[trial] = {
                "goodput_mbit": 1.0,
                "p95_ms": 1.0,
                "again_pct": 100 * (1 - value),
            }
    found.rounds, found.finalists = 3, found.ranking()
    return found


@pytest.mark.parametrize(
    ("utilities", "choice"),
    [
        ({"cubic": 0.8, "bbr": 0.9}, "bbr"),
        ({"cubic": 0.8, "bbr": 0.82}, "cubic"),  # not worth it
        ({"cubic": 0.8, "yeah": 0.91, "bbr": 0.9}, "bbr"),  # everybody knows it, and it is as good
        ({"cubic": 0.8, "yeah": 0.95, "bbr": 0.9}, "yeah"),
        ({"cubic": 0.8}, "cubic"),
    ],
)
def test_the_choice_follows_from_the_utilities(utilities: dict[str, float], choice: str) -> None:
    assert decide(made(utilities))[0] == choice


def test_a_gain_must_be_significant() -> None:
    sure, unsure = made({"cubic": 0.8, "bbr": 0.88}), made({"cubic": 0.8, "bbr": 0.88})
    for trial, values in unsure.trials.items():
        if trial.key == "bbr":
            values["again_pct"] = 100 * (1 - 0.88 * (1 + 0.05 * (-1) ** trial.seed))
    assert surely(sure, "bbr") == pytest.approx(0.1)
    # Student's t of three degrees of freedom is 2.35; the spread of four at ±5 % is 5.77 %.
    assert surely(unsure, "bbr") == pytest.approx(1.1 * (1 - 2.35 * 0.0577 / 2) - 1, abs=0.003)
    assert [decide(found)[0] for found in (sure, unsure)] == ["bbr", "cubic"]


def test_the_utility_is_a_geometric_mean() -> None:
    figures = {"goodput_mbit": 10.0, "beside_mbit": 5.0, "p95_ms": 120.0, "again_pct": 0.0}
    assert utility(figures, ["bulk"], rate_mbit=10, rtt_ms=20) == pytest.approx(1)
    assert utility(figures, ["calls"], rate_mbit=10, rtt_ms=20) == pytest.approx(0.5)
    assert utility(figures, ["bulk", "calls"], rate_mbit=10, rtt_ms=20) == pytest.approx(0.5**0.5)
    assert utility({"p95_ms": None}, ["calls"], rate_mbit=10, rtt_ms=20) == 1e-3


def test_the_same_seed_gives_the_same_advice() -> None:
    question = asked(buffer="2bdp", loss="1%", cares=("bulk",))
    assert answer(question).json() == answer(question).json()


def test_the_role_operator_lists_ten_offers() -> None:
    found = contract.offers(asked(role="operator", rate="4Mbit", rtt="30ms", buffer="1bdp"))
    said = [offer.says for offer in found.offers]
    assert len(said) == len(set(said)) == 10
    by = {offer.says: offer for offer in found.offers}
    assert by["policer, Bc 0.25 s"].bbr_again_pct > by["shaper with fq_codel"].bbr_again_pct
    assert 40 < by["shaper with fq_codel"].share_pct < 60
    assert json.loads(json.dumps(found.json()))["offers"][0]["says"] == said[0]


def test_forecasts_are_sealed_scored_and_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    truth = NetworkPath(rate="20Mbit", rtt="100ms", buffer="500kB", loss="2%")
    plan = Plan(load_s=8.0, directions=("down",), streams=2)
    before = measure(truth, plan)
    found = answer(Asked(place=stated(truth), cares=("bulk",)))
    assert found.choice.key == "bbr"
    name = forecasts.seal(found, before)
    (kept,) = forecasts.read()
    assert kept["hash"] == name
    assert {figure["name"] for figure in kept["figures"]} == {
        "rate_mbit",
        "loaded_p95_ms",
        "again_pct",
    }
    after = measure(truth, Plan(cc="bbr", load_s=8.0, directions=("down",), streams=2), seed=9)
    judged = forecasts.score(after)
    assert len(judged) == 3
    assert next(one for one in judged if one.name == "rate_mbit").hit
    assert forecasts.rate(forecasts.read()) == (sum(one.hit for one in judged), 3)
    with pytest.raises(NarrowsError, match="no forecast that has not been compared"):
        forecasts.score(after)
    text = forecasts.file().read_text()
    forecasts.file().write_text(text.replace('"cubic"', '"bbr"', 1))
    with pytest.raises(NarrowsError, match="line 1: changed"):
        forecasts.read()


PATH = (
    "--rate",
    "10Mbit",
    "--rtt",
    "100ms",
    "--buffer",
    "1bdp",
    "--kernel",
    "cubic,bbr",
    "--for",
    "bulk",
)


def test_the_command_prints_json_text_and_a_page(command: Cli, tmp_path: Path) -> None:
    told = json.loads(
        command("advise", *PATH, "--loss", "3%", "--json", "--report", "a.html").stdout
    )
    assert told["choice"]["key"] == "bbr"
    assert told["extrapolated"] is not told["inside_validated"]
    assert told["runs"] > 10
    page = (tmp_path / "a.html").read_text()
    assert "<title>narrows advise</title>" in page
    assert "bbr (recommended, highest goodput): " in page
    shown = command("advise", *PATH)
    assert shown.returncode == 0
    for part in ("Change nothing", "Based on", "Path (stated)"):
        assert part in shown.stdout
    assert "Role: sender. Goal: bulk transfer. Kernel: as specified (cubic, bbr)." in shown.stdout
    assert len(shown.stdout.splitlines()) <= 30


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "FILE: there is neither a file nor a path"),
        (("--rate", "5Mbit"), "--rtt: missing; write --rtt 40ms"),
        ((*PATH, "--for", "fame"), "--for fame: there is no such goal"),
        ((*PATH, "--loss", "0.5"), "--loss 0.5: needs a percent sign; write --loss 50%"),
        ((*PATH, "--up", "3"), "--reverse-rate 3: needs a unit; write --reverse-rate 3Mbit"),
        (("nothing.json",), "nothing.json"),
        (("nothing.toml", "--rate", "5Mbit"), "--rate: nothing.toml specifies it already"),
        ((*PATH, "--kernel", "windows"), "windows"),
        ((*PATH, "--now", "windows"), "--now windows: not a known congestion control; known: reno"),
        ((*PATH, "--lone", "one.json"), "--single-flow: needs a measurement"),
    ],
)
def test_invalid_arguments_are_errors_with_exit_code_2(
    command: Cli, args: tuple[str, ...], says: str
) -> None:
    done = command("advise", *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_record_lists_and_verifies_sealed_forecasts(
    command: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NARROWS_HISTORY", str(tmp_path / "history.duckdb"))
    assert "no forecasts yet" in command("record").stdout
    assert command("advise", *PATH, "--loss", "3%", "--seal").returncode == 0
    assert json.loads(command("record", "--json").stdout)["lines"][0]["choice"]["key"] == "bbr"
    shown = command("record").stdout
    assert "1 forecast, none tested yet." in shown
    head = json.loads(command("record", "--json").stdout)["head"]
    assert f"The last line has the hash {head}." in shown
    assert "line 1 of 1 has this hash" in command("record", "--verify", head[:12]).stdout
    # Exit code 1 is the result of a check; this is none.
    for wrong in (head[:11], "H" * 12):
        refused = command("record", "--verify", wrong)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"--verify {wrong}: not a hash; write at least 12 ")
    # Removed and written anew: every line fits, but the noted hash is missing.
    forecasts.file().unlink()
    assert command("advise", *PATH, "--loss", "2%", "--quick", "--seal").returncode == 0
    missing = command("record", "--verify", head)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "none of its 1 lines has the hash" in missing.stderr
    assert json.loads(command("record", "--verify", head, "--json").stdout)["holds"] is False


def test_ctrl_c_prints_the_preliminary_result() -> None:
    slow = ["--rate", "300Mbit", "--rtt", "100ms", "--kernel", "6.12", "--json", "--jobs", "1"]
    child = subprocess.Popen(
        [str(NARROWS), "advise", *slow], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: cpu_s(child.pid) > 3, child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert "Traceback" not in err
    # Either nothing was known yet, or what was known is said.
    assert child.returncode == 130
    assert not out or json.loads(out)["preliminary"]


def test_a_pipe_gets_one_result_whatever_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten seconds a terminal shows a preliminary result; a pipe has only the last one."""
    monkeypatch.setattr("narrows.advise.command._WITHIN_S", 0.0)
    asked = ["--rate", "5Mbit", "--rtt", "20ms", "--buffer", "1bdp", "--kernel", "cubic,reno"]
    done = CliRunner().invoke(advise_command.advise, asked)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("Path (stated)") == 1
    assert "Preliminary" not in done.stdout


def test_missing_values_are_prompted_for_in_a_terminal() -> None:
    near, far = pty.openpty()
    child = subprocess.Popen(
        [str(NARROWS), "advise", "--kernel", "cubic,reno", "--quiet"],
        stdin=far,
        stdout=subprocess.PIPE,
        stderr=far,
        text=True,
    )
    os.close(far)
    shown = b""
    for answer_ in ("", "4Mbit", "20ms", "1bdp", "", "bulk"):
        seen, end = len(shown), time.monotonic() + 20
        while b"]: " not in shown[seen:] and time.monotonic() < end:
            if select.select([near], [], [], 0.1)[0]:
                shown += os.read(near, 4096)
        os.write(near, f"{answer_}\n".encode())
    out, _ = child.communicate(timeout=60)
    os.close(near)
    assert "Rate of the bottleneck" in shown.decode()
    assert "4 Mbit/s, 20 ms, a buffer of 1 BDP" in out


def test_the_headline_names_the_metric_of_the_main_effect() -> None:
    found = answer(
        asked(buffer="8bdp", cares=("bulk", "calls")), Kernel(ccs=("cubic", "bbr"), says="two")
    )
    assert found.choice.key == "bbr"
    main = claim(found.effects, found.found.asked.cares)
    assert main is not None
    assert (main.name, main.unit) == ("p95_ms", "ms")
    assert headline(found).startswith("Use bbr instead of cubic: p95 latency under load from ")
    assert claim(found.effects, ("retransmissions",)) is None or found.effects


@pytest.mark.parametrize(
    ("loss", "buffer", "tried"),
    [
        ((None, 0.0, 0.01), (45_000, 55_000), ["", "0.25 % random loss", "1 % random loss"]),
        ((0.0, 0.0, 0.0001), (40_000, 60_000), ["", "a buffer of 40 kB", "a buffer of 60 kB"]),
        ((0.002, 0.0, 0.003), (49_000, 51_000), ["", "0 % random loss"]),
        ((0.01, 0.002, 0.03), (49_000, 51_000), ["", "0.2 % random loss", "3 % random loss"]),
        ((0.004, 0.003, 0.006), (49_000, 51_000), [""]),
    ],
)
def test_uncertain_loss_and_buffer_of_a_measurement_have_variants(
    loss: tuple[float | None, float, float], buffer: tuple[int, int], tried: list[str]
) -> None:
    path: dict[str, Any] = {"rate": "10Mbit", "rtt": "40ms", "buffer": "50kB"}
    path |= {"loss": {"probability": loss[0], "per": "packet"}} if loss[0] else {}
    direction = {
        "loss": dict(zip(("value", "low", "high"), loss, strict=True)),
        "buffer_bytes": {"value": 50_000, "low": buffer[0], "high": buffer[1]},
    }
    place = measured({"path": path, "up": direction}, role="sender", source="x")
    assert [variant.why for variant in place.variants] == tried
    assert any("--single-flow" in what for what in place.open) is any(
        "random loss" in why for why in tried
    )
    assert not any(
        "--single-flow" in what
        for what in measured(
            {"path": path, "up": direction}, role="sender", source="x", lone=True
        ).open
    )


def open_direction(**about: object) -> dict[str, Any]:
    """A direction of a path model without results except the given ones."""
    unknown = {"value": None, "low": None, "high": None, "why": "no path shows it"}
    direction = {
        "sure": "sure",
        "rate_mbit": {"value": 10.0},
        "buffer_bytes": unknown,
        "loss": {"value": 0, "high": 0.0},
    }
    return direction | about


def test_unobserved_loss_is_stated_but_has_no_variant() -> None:
    path = {"rate": "10Mbit", "rtt": "40ms", "buffer": "50kB"}
    buffer = {"value": 50_000, "low": 49_000, "high": 51_000}
    place = measured(
        {
            "path": path,
            "up": open_direction(
                buffer_bytes=buffer, loss={"value": 0.0, "low": 0.0, "high": 0.01}
            ),
        },
        role="sender",
        source="x",
    )
    assert [variant.why for variant in place.variants] == [""]
    assert any(
        "none was observed, up to 1 % would not be visible" in what and "--single-flow" in what
        for what in place.open
    )


def test_an_unidentified_queue_has_variants_of_size_and_discipline() -> None:
    path = {"rate": "10Mbit", "rtt": "40ms", "queue": "fq_codel", "loss": {"probability": 0.01}}
    place = measured(
        {"path": path, "up": open_direction(sure="cannot tell", why="it fits nothing")},
        role="sender",
        source="x",
    )
    assert [variant.why for variant in place.variants] == [
        *(f"a buffer of {b}" for b in ("1bdp", "0.3bdp", "4bdp")),
        *(f"the queue discipline {queue}" for queue in ("fq_codel", "codel")),
    ]
    assert [v.path.queue for v in place.variants] == [None, None, None, "fq_codel", "codel"]
    assert {v.path.loss for v in place.variants} == {None}
    assert any("it fits nothing" in what for what in place.open)


def test_a_rate_with_only_a_lower_bound_has_a_higher_variant() -> None:
    rate = {"value": None, "low": 9.0, "high": None, "why": "never full"}
    direction = open_direction(
        rate_mbit=rate, buffer_bytes={"value": 50_000, "low": 49_000, "high": 51_000}
    )
    place = measured(
        {"path": {"rate": "10Mbit", "rtt": "40ms", "buffer": "50kB"}, "up": direction},
        role="sender",
        source="x",
    )
    assert [variant.why for variant in place.variants] == ["", "a rate of 18 Mbit/s"]
    assert "the rate: never full" in place.open


@pytest.mark.parametrize(("buffer", "matters"), [(25_000, False), (1_000_000, True)])
def test_a_low_loss_rate_matters_only_with_a_large_buffer(buffer: int, *, matters: bool) -> None:
    path = {"rate": "10Mbit", "rtt": "40ms", "buffer": f"{buffer}B"}
    direction = open_direction(
        buffer_bytes={"value": buffer, "low": buffer, "high": buffer * 1.01},
        loss={"value": None, "low": 0.0, "high": 2e-4, "why": "a queue would show the same"},
    )
    place = measured({"path": path, "up": direction}, role="sender", source="x")
    assert any("random loss" in variant.why for variant in place.variants) is matters


def test_two_flows_of_one_congestion_control_share_equally() -> None:
    question = asked(buffer="2bdp")
    found = search(question, candidates(question, FEW), rounds=((5, 1),))
    for of in found.draws("cubic").values():
        assert of["beside_mbit"] == of["rival_mbit"] == of["rival_fair_mbit"]


@pytest.mark.parametrize("odd", ["x", None, -1, float("nan"), float("inf"), True, []])
def test_invalid_values_in_a_path_model_are_ignored_or_refused(odd: object) -> None:
    path = {"rate": "10Mbit", "rtt": "40ms", "buffer": "50kB"}
    direction = {
        "loss": {"high": odd, "why": odd},
        "buffer_bytes": {"value": odd, "low": odd, "high": odd},
    }
    assert len(measured({"path": path, "down": direction}, role="sender", source="x").variants) == 1
    for wrong in (
        {"path": path | {"rate": odd}, "down": direction},
        {"path": path, "down": odd},
        {"path": odd, "up": {}},
    ):
        with pytest.raises(NarrowsError):
            measured(wrong, role="sender", source="x")


def test_the_rule_of_the_decision_tree_for_a_path() -> None:
    assert "BBR had at least 10 % more goodput" in rule(
        asked(rate="20Mbit", rtt="100ms", buffer="1bdp", loss="2%")
    )
    assert rule(asked(role="receiver", buffer="1bdp")) == ""
