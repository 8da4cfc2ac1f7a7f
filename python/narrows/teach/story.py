"""Executes `narrows demo --story`: creates a path with bufferbloat, measures it, changes the
congestion control as advised, and measures it again.

If this machine supports it, real packets cross an emulated path between two network namespaces,
with the TCP of this kernel. Otherwise, the simulator is used. The story changes only the congestion
control of the measured flow, and no setting of the host.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from narrows import advise as library
from narrows import files, forecasts, operating_system, path_model
from narrows.advise.model import JudgedJson
from narrows.cli.outputs import every
from narrows.errors import EngineError, NarrowsError
from narrows.host.live import HOST
from narrows.measure.simulated import Plan, measure
from narrows.render.report import write as write_page
from narrows.render.terminal import console, echo
from narrows.runs.scenario import Flow, Hop, Path, Scenario
from narrows.storage import scratch
from narrows.teach.model import StoryJson
from narrows.teach.render import story_page, story_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.advise.verdict import Advice
    from narrows.measure.result import Measurement

KEYS: Mapping[str, Any] = {"rate": "10Mbit", "buffer": "400kB"}
RTT = "40ms"
SAID = "10 Mbit/s, 40 ms, buffer of eight bandwidth-delay products"
"""The path in words: an upload with bufferbloat, which also carries calls."""

STREAMS, LOAD_S, ALONE_S, IDLE_S = 16, 8, 10, 2
"""Number of flows for the measurement from which the path is inferred, and the duration of its
load, in s. Then the duration of the load with one flow and of idle phases, in s."""

LIVE_S = 60
"""Time limit of a live measurement, in s."""

Tell = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Story:
    """Results of the story.

    Attributes:
        live: True if it used real packets.
        why: Reason why real packets were not possible; empty otherwise.
        before: Measurement of one flow before the change.
        after: Measurement of one flow after the change.
        advice: The advice, based on the measurement with many flows.
        judged: The forecast values and their outcomes.
        seconds: Wall-clock time, in s.
    """

    live: bool
    why: str
    before: Measurement
    after: Measurement
    advice: Advice
    judged: list[JudgedJson]
    seconds: float

    def json(self) -> StoryJson:
        """The JSON object that `narrows demo --story --json` prints."""
        return {
            "live": self.live,
            "why_not_live": self.why,
            "path": {"rtt": RTT, **KEYS},
            "before": forecasts.seen(self.before, "up"),
            "after": forecasts.seen(self.after, "up"),
            "choice": self.advice.choice.key,
            "forecast": self.judged,
            "seconds": round(self.seconds, 1),
        }


def story(tell: Tell, *, live: bool | None = None) -> Story:
    """Runs the story and returns its results.

    Args:
        tell: A function that is called with a sentence about each step.
        live: True for real packets, False for a simulation, None for real packets if possible.

    Raises:
        EngineError: If `live` is True and this machine does not support it.
    """
    begin = time.monotonic()
    why = ""
    if live is not False:
        try:
            return _played(tell, _live, begin, live=True, why="")
        except (EngineError, OSError, subprocess.TimeoutExpired) as error:
            if live:
                raise EngineError(f"not live: {error}") from error
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            tell(f"Real packets are not possible here ({why}). The path is simulated.")
    return _played(tell, _simulated, begin, live=False, why=why)


_Measure = Callable[[str, int, int], "Measurement"]
"""A function that measures the path, given the congestion control, the number of flows and the
duration of the load in s."""


def _played(tell: Tell, by: _Measure, begin: float, *, live: bool, why: str) -> Story:
    where = "between two namespaces, with real packets" if live else "in the simulator"
    tell(f"Path {where}: {SAID}.")
    before = by("cubic", 1, ALONE_S)
    tell(f"Measurement with one CUBIC flow: {_short(before)}.")
    many = by("cubic", STREAMS, LOAD_S)
    found = path_model.infer(many, lone=before)
    place = library.measured(found.json(), role="sender", source="measured", lone=True)
    tell(
        f"Path model, inferred from a measurement with {STREAMS} flows: {place.rate_mbit:.1f} "
        "Mbit/s, "
        f"{place.rtt_ms:.0f} ms, a buffer of {place.buffer_bdp or 0:.1f} BDP."
    )
    has = library.Kernel(ccs=("cubic", "bbr", "reno"), says="what most kernels have")
    asked = library.Asked(place=place, cares=("bulk", "calls"), now="cubic")
    search = library.search(asked, library.candidates(asked, has))
    advice = library.advise(search, has, thorough=False)
    cc = advice.choice.cc or "cubic"
    tell(
        f"Advice from {len(search.trials)} simulations: "
        f"{'no change' if advice.leave else f'use {cc}'}."
    )
    with _own_record():
        name = forecasts.seal(advice, before)
        figures = next(line for line in forecasts.read() if line["hash"] == name)["figures"]
        waits = next((f for f in figures if f["name"] == "loaded_p95_ms"), None)
        if waits is not None:
            tell(
                f"Sealed forecast: RTT under load (p95) of {waits['low']:.0f} to "
                f"{waits['high']:.0f} ms."
            )
        after = by(cc, 1, ALONE_S)
        judged = [one.json() for one in forecasts.score(after, forecast=name)]
    tell(f"Measurement with {cc}: {_short(after)}.")
    return Story(live=live, why=why, before=before, after=after, advice=advice, judged=judged,
                 seconds=time.monotonic() - begin)  # fmt: skip


def _short(seen: Measurement) -> str:
    figures = forecasts.seen(seen, "up")
    return (
        f"{figures.get('rate_mbit', 0.0):.1f} Mbit/s, RTT under load "
        f"{figures.get('loaded_p95_ms', 0.0):.0f} ms (p95)"
    )


@contextmanager
def _own_record() -> Iterator[None]:
    """Uses a temporary history file in this block, so that the demonstration does not count in the
    user's record of forecasts.
    """
    told = os.environ.get("NARROWS_HISTORY")
    with scratch.folder("demo") as there:
        os.environ["NARROWS_HISTORY"] = str(there / "history.duckdb")
        try:
            yield
        finally:
            if told is None:
                del os.environ["NARROWS_HISTORY"]
            else:
                os.environ["NARROWS_HISTORY"] = told


def _path() -> Path:
    """The path of the story; its upload is the bottleneck."""
    return Path(rtt=RTT, rate="100Mbit", reverse=Hop(**KEYS))


def _simulated(cc: str, flows: int, seconds: int) -> Measurement:
    plan = Plan(
        cc=cc,
        streams=flows,
        idle_s=float(IDLE_S),
        load_s=float(seconds),
        pause_s=1.0,
        directions=("up",),
    )
    # A different seed for each measurement.
    return measure(_path(), plan, seed=1 if cc == "cubic" else 2)


def _live(cc: str, flows: int, seconds: int) -> Measurement:
    """Measures over an emulated path with real packets; raises an error if the self-check of the
    emulator fails.
    """
    operating_system.require_linux("narrows demo --story")
    with scratch.folder("demo") as there:
        scenario, seen, made = (there / name for name in ("path.toml", "seen.json", "m.json"))
        scenario.write_text(
            Scenario(_path(), flows=[Flow("cubic")], duration="60s").toml(), encoding="utf-8"
        )
        narrows = [sys.executable, "-m", "narrows"]
        command = [
            *narrows, "shell", str(scenario), "--quiet", "--json", str(seen),
            "--far", f"{HOST} serve --net-admin", "--",
            *narrows, "measure", "far", "--test", "tcp_nup", "--streams", str(flows), "--cc", cc,
            "--duration", f"{seconds}s", "--idle", f"{IDLE_S}s", "--quiet", "--no-history",
            "--no-model",
            "--out", str(made),
        ]  # fmt: skip
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIVE_S,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise EngineError(done.stderr.strip() or f"exit code {done.returncode}")
        told = json.loads(seen.read_text(encoding="utf-8"))["instruments"]
        if not told["trusted"]:
            raise EngineError(f"the machine is too busy: {'; '.join(told['why'])}")
        try:
            return files.read(made)
        except NarrowsError as error:
            raise EngineError(str(error)) from error


def command(*, live: bool | None, as_json: bool, page: str | None) -> None:
    """Runs the story for the command: prints a line for each step and a summary in bold, or one
    JSON object.
    """
    out = console()

    def tell(sentence: str) -> None:
        if not as_json:
            out.print(sentence, markup=False, soft_wrap=True)

    told = story(tell, live=live)
    with every() as attempt:
        if page is not None:
            with attempt():
                write_page(story_page(told, SAID), page)
        if as_json:
            echo(json.dumps(told.json()))
            return
        out.print()
        for sentence in story_sentences(told):
            out.print(sentence, markup=False, soft_wrap=True, style="bold")
        kind = "with real packets" if told.live else "simulated"
        out.print(
            f"Duration: {told.seconds:.0f} s, {kind}." + (f" Page: {page}" if page else ""),
            markup=False,
        )
