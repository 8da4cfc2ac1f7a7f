"""Counts how often `narrows identify` identifies the congestion control of simulated and of
real flows, and writes docs/reference/identify.md.

    python -m validation.identify         writes the page, five minutes
    python -m validation.identify --live  first captures flows of this machine's kernel, six minutes

Each capture is read twice: at the sender and at the receiver.
"""

from __future__ import annotations

import json
import platform
import struct
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

import narrows as nw
from narrows.files.packets import captured
from narrows.identify.rules import LIKE
from narrows.identify.running import identified
from narrows.json_object import JsonObject
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/identify.md"
LIVE = HERE / "evidence/identify-live.json"
PATHS: tuple[tuple[str, str, str, float], ...] = (
    ("10Mbit", "40ms", "1bdp", 0.0),
    ("20Mbit", "100ms", "1bdp", 0.0),
    ("10Mbit", "40ms", "4bdp", 0.0),
    ("20Mbit", "50ms", "1bdp", 0.1),
    ("20Mbit", "20ms", "0.5bdp", 0.0),
)
"""Rate, RTT, buffer and random loss in % of each path."""
CCS = (
    "reno", "cubic", "bbr", "bbr2", "bbr3", "bic", "cdg", "compound", "copa", "highspeed", "htcp",
    "hybla", "illinois", "ledbat", "lp", "nv", "scalable", "vegas", "veno", "westwood", "yeah",
)  # fmt: skip
LIVE_CCS = ("reno", "cubic", "bbr")
DURATION = "40s"
_SENDER, _RECEIVER = 0, 1
_ETHERNET = bytes(12) + b"\x08\x00"


def at_one_end(content: bytes, interface: int) -> bytes:
    """The packets of one interface of a capture, as a pcap file with Ethernet headers."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)]
    for own, at, _, data, length in captured(content):
        if own == interface:
            us = round(at * 1e6)
            size = len(data) + len(_ETHERNET)
            head = struct.pack("<IIII", us // 10**6, us % 10**6, size, length + len(_ETHERNET))
            out += [head, _ETHERNET, data]
    return b"".join(out)


def verdict(content: bytes, interface: int, folder: Path) -> str:
    """The congestion control that is identified at one end, or `-`."""
    file = folder / "end.pcap"
    file.write_bytes(at_one_end(content, interface))
    return identified(file)["flows"][0]["cc"] or "-"


def scenario(cc: str, of: tuple[str, str, str, float]) -> nw.Scenario:
    """One flow over a path of `PATHS`."""
    rate, rtt, buffer, loss = of
    lost = {"probability": f"{loss:g}%", "per": "packet"} if loss else None
    path = nw.Path(rate=rate, rtt=rtt, buffer=buffer, loss=lost)
    return nw.Scenario(path, flows=[nw.Flow(cc)], duration=DURATION)


def simulated(cc: str, folder: Path) -> Counter[str]:
    """The verdicts about a congestion control over all paths, at both ends."""
    found: Counter[str] = Counter()
    for path in PATHS:
        file = folder / "run.pcapng"
        nw.run(scenario(cc, path), record=str(file))
        content = file.read_bytes()
        found.update(verdict(content, end, folder) for end in (_SENDER, _RECEIVER))
    return found


def live(folder: Path) -> JsonObject:
    """The verdicts about flows of this machine's kernel over the paths, at both ends."""
    found: dict[str, Counter[str]] = {}
    for cc in LIVE_CCS:
        for path in PATHS:
            file = folder / "run.pcapng"
            nw.run(scenario(cc, path), engine="live", record=str(file))
            content = file.read_bytes()
            of = found.setdefault(cc, Counter())
            of.update(verdict(content, end, folder) for end in (_SENDER, _RECEIVER))
    kernel = ".".join(platform.release().split(".")[:2])
    return {"kernel": f"Linux {kernel}", "verdicts": {cc: dict(of) for cc, of in found.items()}}


def _text(words: str) -> list[str]:
    return textwrap.wrap(words, 98, break_long_words=False, break_on_hyphens=False)


def _table(rows: dict[str, dict[str, int]]) -> list[str]:
    lines = ["| sender | captures | identified as | not identified |", "|---|---|---|---|"]
    for cc, counts in rows.items():
        named = ", ".join(
            f"{name} ({count})" for name, count in sorted(counts.items()) if name != "-"
        )
        lines.append(f"| {cc} | {sum(counts.values())} | {named or '–'} | {counts.get('-', 0)} |")
    return lines


def page(rows: dict[str, dict[str, int]], real: JsonObject) -> str:
    """The page in Markdown."""
    wrong = sum(
        count
        for cc, counts in rows.items()
        for name, count in counts.items()
        if name not in {cc, "-"} and cc not in LIKE[name]
    )
    total = sum(sum(counts.values()) for counts in rows.values())
    lines = [
        "# Identification of congestion controls: validation",
        "",
        *_text(
            "[`narrows identify`](../how-to/identify.md) identifies Reno, CUBIC and BBR. This page "
            "counts its verdicts. `python -m validation.identify` writes it."
        ),
        "",
        "## Simulated captures",
        "",
        *_text(
            f"Each congestion control sends one flow for {DURATION.removesuffix('s')} s over "
            f"{len(PATHS)} paths. Each capture is read at both ends. Of {total} verdicts, "
            f"{wrong} name a congestion control that is neither that of the sender nor one "
            "with the same rule."
        ),
        "",
        "| rate | RTT | buffer | random loss |",
        "|---|---|---|---|",
        *(
            f"| {rate.removesuffix('Mbit')} Mbit/s | {rtt.removesuffix('ms')} ms | "
            f"{buffer.removesuffix('bdp')} BDP | {f'{loss:g} %' if loss else '–'} |"
            for rate, rtt, buffer, loss in PATHS
        ),
        "",
        *_table(rows),
        "",
        *_text(
            "Several congestion controls use the rule of Reno under some conditions. They are then "
            "identified as reno, and the output names them. A sender with fewer than three loss "
            "events in this time is not identified."
        ),
    ]
    if real:
        lines += [
            "",
            "## Captures of real packets",
            "",
            *_text(
                f"{real['kernel']} sends the same flows over the same paths with `--engine live`. "
                "Each capture is read at both ends."
            ),
            "",
            *_table(real["verdicts"]),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "--live" in sys.argv:
            LIVE.write_text(json.dumps(live(folder), indent=1) + "\n", encoding="utf-8")
        real = json.loads(LIVE.read_text(encoding="utf-8")) if LIVE.exists() else {}
        rows = {cc: dict(simulated(cc, folder)) for cc in CCS}
    PAGE.write_text(page(rows, real), encoding="utf-8")


if __name__ == "__main__":
    main()
