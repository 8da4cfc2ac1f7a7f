"""`narrows train remy` on a Ray cluster on this machine: `make ray` installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_train import SMALL

pytest.importorskip("ray", reason="Ray is not installed: make ray")

PROGRAM = """
import json, sys
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from narrows.train import network, pool
from narrows.train.training import Limits, Training

def main():
    folder = Path(sys.argv[1])
    training = network.load(folder / "small.toml")
    here = Training(training, folder / "here", Limits(1e9, 5)).run(pool.pool("local", 2))

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    node = cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)
    killed = []

    def kill(step):
        if step["step"] == 2:
            killed.append(step["step"])
            cluster.remove_node(node, allow_graceful=False)

    search = Training(training, folder / "there", Limits(1e9, 5), on_step=kill)
    there = search.run(pool.pool("ray"))
    keys = ("tree_sha256", "score_before", "score_after")
    same = [key for key in keys if here[key] != there[key]]
    scores = [[step["score"] for step in of["steps"]] for of in (here, there)]
    result = {"different": same, "scores": scores[0] == scores[1], "killed": killed}
    (folder / "result.json").write_text(json.dumps(result))  # Ray prints on stdout, too.
    ray.shutdown()
    cluster.shutdown()

# Processes of the training import this program.
if __name__ == "__main__":
    main()
"""


def test_a_cluster_that_loses_a_node_finds_the_same_tree(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL, encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    quiet = os.environ | {"RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=quiet,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert result == {"different": [], "scores": True, "killed": [2]}
