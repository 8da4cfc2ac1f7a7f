"""Measures the lab in Chromium: `python bench/lab.py`. The machine must be quiet.

It prints the time from a change of a parameter to the first pictures, and to the complete run (60 s
at 50 Mbit/s). It also prints the 95th percentile of the time for script and paint per frame during
the animation of packets.
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any

from narrows.render import lab

SCENARIO = """\
duration = "60s"
[path]
rate   = "50Mbit"
rtt    = "40ms"
buffer = "1bdp"
[[flow]]
cc = "cubic"
"""
CHANGES = 9
PARTS = {"FunctionCall", "FireAnimationFrame", "UpdateLayoutTree", "Layout", "Paint", "Commit"}
"""Names of Chromium's trace events for script, layout and paint; nested events count once."""


def frame_times(events: list[dict[str, Any]]) -> list[float]:
    """For each frame of the page, the milliseconds of script, layout and paint since the previous
    frame.
    """
    renderer = {
        (e["pid"], e["tid"])
        for e in events
        if e.get("name") == "thread_name" and e["args"].get("name") == "CrRendererMain"
    }
    own = [e for e in events if (e["pid"], e["tid"]) in renderer and e.get("ph") == "X"]
    frames = sorted(e["ts"] for e in own if e["name"] == "FireAnimationFrame")
    times = []
    for start, end in itertools.pairwise(frames):
        busy, until = 0.0, 0.0
        parts = (e for e in own if e["name"] in PARTS and start <= e["ts"] < end)
        for event in sorted(parts, key=lambda e: e["ts"]):
            stop = event["ts"] + event.get("dur", 0)
            busy += max(stop - max(event["ts"], until), 0)
            until = max(until, stop)
        times.append(busy / 1000)
    return times


def main() -> None:
    """Measures the lab and prints the results."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an optional package

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with lab.server() as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(bypass_csp=True, viewport={"width": 1280, "height": 900})
        page.goto(f"http://localhost:{server.server_address[1]}/{lab.fragment(SCENARIO)}")
        page.wait_for_function("window.lab?.json", timeout=120_000)
        page.wait_for_selector("canvas[data-packets]", timeout=120_000)
        timings = []
        for number in range(CHANGES):
            text = SCENARIO.replace("40ms", f"{41 + number}ms")
            page.evaluate("t => { const l = window.lab; window.lab = null; l.load(t); }", text)
            page.wait_for_function("window.lab?.json", timeout=120_000)
            timings.append(page.evaluate("window.lab.timing"))
        for name in ("first_ms", "complete_ms"):
            print(f"{name}: median {statistics.median(t[name] for t in timings):.0f} ms")
        page.wait_for_timeout(2000)
        page.select_option(".bar select", "0.1")
        page.get_by_role("button", name="Play").click()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            browser.start_tracing(page=page, path=file)
            page.wait_for_timeout(3000)
            browser.stop_tracing()
            times = frame_times(json.loads(file.read_text())["traceEvents"])
        p95 = statistics.quantiles(times, n=20)[-1]
        print(f"frames: {len(times)}, p95 of script and paint {p95:.1f} ms")
        browser.close()
        server.shutdown()


if __name__ == "__main__":
    main()
