"""Sweeps on a Ray cluster of several nodes, on this machine: `make ray` installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make ray")

PROGRAM = """
import json, sys
import ray
from ray.cluster_utils import Cluster
import narrows as nw

path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="60s")
over = {"path.rate": ["5Mbit", "10Mbit"], "flow.cc": ["bbr", "cubic", "reno"],
"path.buffer": ["0.5bdp", "2bdp"]}
here = nw.sweep(scenario, over, seeds=6, into=sys.argv[1] + "/here").run()

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
node = cluster.add_node(num_cpus=2)
ray.init(address=cluster.address, log_to_driver=False)
killed = False

def kill(done, failed, planned):
    global killed
    if not killed and done >= 8:
        killed = True
        cluster.remove_node(node, allow_graceful=False)

there = nw.sweep(scenario, over, seeds=6, into=sys.argv[1] + "/there")
rows = there.run(on="ray", progress=kill)
result = {"equal": rows.equals(here), "rows": rows.num_rows, "killed": killed,
"failed": len(there.failures)}
open(sys.argv[1] + "/result.json", "w").write(json.dumps(result))  # Ray talks to stdout, too
ray.shutdown()
# Otherwise its address would stay behind for the next program that searches for a cluster.
cluster.shutdown()
"""


OWN = """
import json, sys
import ray
import narrows as nw

path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("cubic"), nw.Flow("bbr")], duration="5s")
over = {"path.rate": ["5Mbit", "10Mbit"], "flow[0].cc": ["cubic", "reno"]}
factor = 100

def share(run):
    first, second = (flow["goodput_mbit"] for flow in run.flows)
    return {"share_pct": factor * first / (first + second), "rows": run.samples.num_rows}

def grid(name):
    return nw.sweep(scenario, over, seeds=2, into=sys.argv[1] + name, metric=share,
        sample_interval="1s")

here = grid("/here").run()
ray.init("local", num_cpus=2, log_to_driver=False)
there = grid("/there")
rows = there.run(on="ray")
result = {"equal": rows.equals(here), "rows": rows["rows"].to_pylist() == [10.0] * 16,
"shares": all(0 < one < 100 for one in rows["share_pct"].to_pylist()),
"failed": len(there.failures)}
open(sys.argv[1] + "/result.json", "w").write(json.dumps(result))
ray.shutdown()
"""


def test_a_cluster_computes_the_metric_of_the_caller(tmp_path: Path) -> None:
    result = executed(OWN, tmp_path)
    assert result == {"equal": True, "rows": True, "shares": True, "failed": 0}


def executed(text: str, tmp_path: Path) -> dict[str, object]:
    """The result that a program wrote; Ray prints on stdout, too."""
    program = tmp_path / "program.py"
    program.write_text(text)
    quiet = os.environ | {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, str(program), str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=quiet
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, object] = json.loads((tmp_path / "result.json").read_text())
    return result


@pytest.mark.long
def test_a_cluster_that_loses_a_node_has_identical_results(tmp_path: Path) -> None:
    assert executed(PROGRAM, tmp_path) == {
        "equal": True,
        "rows": 72,
        "killed": True,
        "failed": 0,
    }


MODEL = """
from narrows.models import CongestionControl

class Own(CongestionControl):
    name = "own"

    def on_ack(self, window, ack):
        if ack.may_grow:
            window.cwnd += ack.delivered if window.in_slow_start else 1 / window.cwnd
"""

WITH_MODELS = """
import json, os, sys
import ray
import narrows as nw
from narrows.sweeps.executors import Ray

class Here(nw.models.CongestionControl):
    name = "here"

    def on_ack(self, window, ack):
        window.cwnd += 0.5

nw.models.load("own.py")
nw.models.register(Here)
ray.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="2s")
over = {"flow.cc": ["own", "here", "cubic"]}
there = nw.sweep(scenario, over, into="there")
crew = Ray()
os.rename("own.py", "away.py")  # as on another machine, which has no such file
rows = there.run(on=crew)
json.dump([rows.num_rows, [f.reason for f in there.failures]], open("result.json", "w"))
ray.shutdown()
"""


STUDIED = """
import dataclasses, json
import ray
import narrows as nw
from narrows.study import paths, study

nw.models.load("own.py")
def small(part):
    # Two congestion controls on all paths.
    over = part.over
    if isinstance(over, list):
        over = [case for case in over if case["flow[0].cc"] in {"own", "cubic"}]
    else:
        over = {"flow[0].cc": ["own", "cubic"]}
    scenario = dataclasses.replace(part.scenario, duration="2s")
    return dataclasses.replace(part, scenario=scenario, over=over, seeds=1)

parts = {name: small(part) for name, part in paths.TOURNAMENT.parts(True).items()}
tournament = dataclasses.replace(paths.TOURNAMENT, parts=lambda quick: parts)
here = study.run(tournament, into="here")
ray.init("local", num_cpus=2, log_to_driver=False, include_dashboard=False)
there = study.run(tournament, into="there", on="ray")
grid = there.answer.grids[0]
json.dump([here.answer.grids == there.answer.grids, there.failures, "own" in grid.rows
or "own" in grid.columns], open("result.json", "w"))
ray.shutdown()
"""


def test_a_study_on_ray_has_the_models_of_plugins(tmp_path: Path) -> None:
    assert with_model(STUDIED, tmp_path) == [True, [], True]


def test_models_are_sent_with_the_cases(tmp_path: Path) -> None:
    assert with_model(WITH_MODELS, tmp_path) == [3, []]


CRASHING = """
import json, os
import ray
import narrows as nw
from narrows.sweeps import executors

class Once:
    # All cases in one batch.
    def __init__(self, cases, count, workers):
        self.left = [list(cases)]

    def next(self):
        return self.left.pop() if self.left else []

    def took(self, cases, seconds):
        pass

executors.Batches = Once

def own(run):
    if run.flows[0]["cc"] == "reno":
        os.abort()
    return 1.0

ray.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("cubic")], duration="2s")
over = {"flow.cc": ["cubic", "reno", "bic"]}
there = nw.sweep(scenario, over, into="there", metric=own)
rows = there.run(on="ray")
json.dump([sorted(rows["cc"].to_pylist()), [f.reason for f in there.failures]],
open("result.json", "w"))
ray.shutdown()
"""


def test_a_case_that_ends_its_process_ends_no_other_case_of_its_batch(tmp_path: Path) -> None:
    rows, reasons = with_model(CRASHING, tmp_path)
    assert rows == ["bic", "cubic"]
    assert [reason.partition(":")[0] for reason in reasons] == ["the process that ran it died"]


ELSEWHERE = """
import json, os
import ray
import narrows as nw

os.environ["DRIVER"] = str(os.getpid())  # Workers inherit it.
with open("own.py", "a") as file:
    file.write("import os\\nif os.environ['DRIVER'] != str(os.getpid()):\\n    import nothing\\n")
nw.models.load("own.py")
ray.init("local", num_cpus=1, log_to_driver=False, include_dashboard=False)
path = nw.Path(rate="10Mbit", rtt="20ms", buffer="1bdp")
scenario = nw.Scenario(path, flows=[nw.Flow("own")], duration="2s")
there = nw.sweep(scenario, {"path.rate": ["10Mbit"]}, into="there")
there.run(on="ray")
json.dump([f.reason for f in there.failures], open("result.json", "w"))
ray.shutdown()
"""


def test_a_plugin_that_another_machine_cannot_load_is_named(tmp_path: Path) -> None:
    (reason,) = with_model(ELSEWHERE, tmp_path)
    assert reason.startswith("own.py: ModuleNotFoundError: No module named 'nothing' (own.py:")


def with_model(text: str, tmp_path: Path) -> list[Any]:
    """The result that a program wrote, which loads the model in `own.py`."""
    (tmp_path / "own.py").write_text(MODEL)
    program = tmp_path / "program.py"
    program.write_text(text)
    quiet = os.environ | {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300, env=quiet,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    result: list[Any] = json.loads((tmp_path / "result.json").read_text())
    return result
