"""`narrows serve` and `narrows measure` over real packets: the near end gets a name, and its twin is the path."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import NARROWS
from test_live import HOST, ready
from test_shell import shell

from narrows import files
from narrows.twin import infer


def test_the_twin_of_an_emulated_path_is_that_path(tmp_path: Path) -> None:
    ready("cubic")
    asked = subprocess.run([HOST, "measure"], capture_output=True, text=True, check=False, timeout=10)
    if "which host" not in asked.stderr:
        pytest.skip("this narrows-host does not measure")
    path = tmp_path / "path.toml"
    path.write_text(
        'duration = "60s"\n[path]\nrate = "20Mbit"\nrtt = "40ms"\nbuffer = "150kB"\n'
        '[path.reverse]\nrate = "10Mbit"\nqueue = "fq_codel"\n[[flow]]\ncc = "cubic"\n',
        encoding="utf-8",
    )
    seen, made = tmp_path / "seen.json", tmp_path / "m.json"
    measure = [
        str(NARROWS), "measure", "far", "--cc", "cubic", "--duration", "5s", "--idle", "1s",
        "--no-history", "--no-twin", "--quiet", "--out", str(made),
    ]  # fmt: skip
    done = shell(path, "--quiet", "--json", seen, "--far", f"{HOST} serve", command=measure)
    assert done.returncode == 0, done.stderr
    instruments = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
    if not instruments["trusted"]:
        pytest.skip(f"not to be trusted: {'; '.join(instruments['why'])}")
    measured = files.read(made)
    if (measured.json["own_error"]["lateness_ms"]["p50"] or 0) > 1:
        pytest.skip("this machine was too busy to ping in time")
    found = infer(measured)
    # The shell's path leads from near to far.
    up, down = found.ways["up"], found.ways["down"]
    assert up.rate.value == pytest.approx(20, rel=0.05)
    assert down.rate.value == pytest.approx(10, rel=0.05)
    assert found.rtt.value == pytest.approx(40, abs=1)
    assert (up.family, down.family) == ("drop-tail", "fair")
    assert up.depth.value == pytest.approx(150e3, rel=0.15)
