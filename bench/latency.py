"""Measures the CPU time and memory of a latency test: the engine alone, and millions of exchanges
over loopback.

    python bench/latency.py
        the null test, then 10 million exchanges; some minutes
    python bench/latency.py --count 1000000
        the null test, then 1 million exchanges

The null test runs the engine with a transport that responds at once, without a system call, to
measure the engine alone. Over loopback both endpoints poll instead of sleeping (`--policy spin`),
and the memory of the client is sampled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from common import built, positive
from narrows.host.live import HOST


def resident_kb(pid: int) -> int:
    """Resident memory of a process in KiB; 0 after its end."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmRSS")), "VmRSS 0")
    return int(line.split()[1])


def exchanges(count: int) -> str:
    """Runs `count` exchanges over loopback; returns a line with the result."""
    serving = subprocess.Popen(
        [
            HOST,
            "serve",
            "--bind",
            "127.0.0.1",
            "--port",
            "0",
            "--tied",
            "--policy",
            "spin",
            "--duration",
            "1h",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with serving, tempfile.TemporaryFile("w+") as out:
        try:
            assert serving.stdout is not None
            port = serving.stdout.readline().rsplit(":", 1)[1].strip()
            words = ["--count", str(count), "--pace", "pingpong", "--policy", "spin"]
            began = time.monotonic()
            with subprocess.Popen(
                [HOST, "latency", "127.0.0.1", "--port", port, *words], stdout=out
            ) as asking:
                time.sleep(1)
                seen = [resident_kb(asking.pid)]
                while asking.poll() is None:
                    seen.append(resident_kb(asking.pid))
                    time.sleep(0.2)
            took = time.monotonic() - began
        finally:
            serving.terminate()
        out.seek(0)
        told = json.load(out)
    kept = [kb for kb in seen if kb]
    rtt = told["rtt_us"]
    figures = ", ".join(
        f"{key.replace('_', '.')} {rtt[key]}"
        for key in ("p50", "p99", "p99_9", "p99_99", "p99_999")
    )
    return (
        f"{told['answered']} of {told['sent']} answered in {took:.0f} s; µs: min {rtt['min']}, "
        f"{figures}, "
        f"max {rtt['max']}; {kept[0]} kB resident after a second, {max(kept)} at most"
    )


def main() -> None:
    """Runs the null test and the exchanges, and prints the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--count", type=positive, default=10_000_000, help="exchanges (default: 10000000)"
    )
    parser.add_argument("--no-null", action="store_true", help="leave the null test out")
    asked = parser.parse_args()
    if not asked.no_null:
        null = built("narrows-host", "example", "latency_null")
        told = subprocess.check_output([null, str(asked.count)], text=True)
        print("null:", told.strip(), flush=True)
    print("loopback:", exchanges(asked.count))


if __name__ == "__main__":
    main()
