"""`narrows worst-case` on a Ray cluster on this machine: `make ray` installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_worst_case import UNFAIR

pytest.importorskip("ray", reason="Ray is not installed: make ray")
pytest.importorskip("cmaes", reason="cmaes is not installed")

PROGRAM = """
import json, sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from narrows.worst_case.running import worst_case
from narrows.worst_case.space import axis

folder = Path(sys.argv[1])
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
node = cluster.add_node(num_cpus=2)
ray.init(address=cluster.address, log_to_driver=False)
killed = []

def kill(work, done, planned):
    if work == "search" and done >= 12 and not killed:
        killed.append(done)
        cluster.remove_node(node, allow_graceful=False)

def found(on, progress):
    axes = [axis("path.buffer=0.5bdp:8bdp"), axis("flow[1].rtt=10ms:200ms")]
    told = worst_case(
        folder / "unfair.toml", axes, "share", flow="reno1", limit=30.0, budget=24, population=8,
        seeds=1, checks=1, on=on, jobs=2, into=folder / on, progress=progress,
    ).json()
    return {**told, "into": ""}

here, there = found("local", lambda *_: None), found("ray", kill)
result = {"equal": here == there, "killed": bool(killed), "failed": there["failed"]}
(folder / "result.json").write_text(json.dumps(result))  # Ray prints on stdout, too.
ray.shutdown()
cluster.shutdown()
"""


@pytest.mark.long
def test_a_cluster_that_loses_a_node_finds_the_same_scenario(tmp_path: Path) -> None:
    (tmp_path / "unfair.toml").write_text(UNFAIR, encoding="utf-8")
    quiet = os.environ | {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=quiet,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result == {"equal": True, "killed": True, "failed": []}
