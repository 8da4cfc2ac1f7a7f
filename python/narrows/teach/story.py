"""The whole story in two minutes: a bad path is made, measured, advised on, changed, and measured again.

Live where this machine can (two namespaces, an emulated path between them, this kernel's TCP), else simulated. What is
changed is the congestion control of the flow that is measured; nothing of the host is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from narrows import advise as library
from narrows import files, path_model
from narrows.advise import forecasts
from narrows.advise.render import headline
from narrows.errors import EngineError, NarrowsError
from narrows.host.live import HOST
from narrows.measure import render as telling
from narrows.measure.simulated import Plan, measure
from narrows.render.report import write as write_page
from narrows.render.terminal import console, echo
from narrows.runs.scenario import Flow, Hop, Path, Scenario
from narrows.storage import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narrows.advise.verdict import Advice
    from narrows.measure.result import Measurement

KEYS: Mapping[str, Any] = {"rate": "10Mbit", "buffer": "400kB"}
RTT = "40ms"
SAID = "10 Mbit/s, 40 ms, and a buffer eight times too large"
"""The bad path: bloated, as many uplinks are. Who sends there wants his calls to go on."""

STREAMS, LOAD_S, ALONE_S, IDLE_S = 16, 8, 10, 2
"""So many flows show what the path holds; one shows what a user gets."""

LIVE_S = 60
"""A live measurement that takes longer is given up."""

Json = dict[str, Any]
Tell = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Story:
    """What happened.

    Attributes:
        live: Over real packets, or simulated; why not, where it could have been.
        why: Why it was simulated.
        before: One flow as it was.
        after: The same with the advice.
        advice: What was advised on the measurement of many flows.
        judged: The forecast's figures and what they became.
        seconds: How long it all took.
    """

    live: bool
    why: str
    before: Measurement
    after: Measurement
    advice: Advice
    judged: list[Json]
    seconds: float

    def json(self) -> Json:
        """For programs."""
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
    """Plays it.

    Args:
        tell: Told each step as it begins.
        live: Over real packets, or not; without it, where the machine can.

    Raises:
        EngineError: If it must be live and cannot.
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
            tell(f"Not over real packets here ({why}); simulated instead.")
    return _played(tell, _simulated, begin, live=False, why=why)


_Measure = Callable[[str, int, int], "Measurement"]
"""Congestion control, flows, seconds."""


def _played(tell: Tell, by: _Measure, begin: float, *, live: bool, why: str) -> Story:
    where = "between two namespaces, over real packets" if live else "in the simulator"
    tell(f"A bad path is made {where}: {SAID}.")
    before = by("cubic", 1, ALONE_S)
    tell(f"One flow of CUBIC: {_short(before)}.")
    many = by("cubic", STREAMS, LOAD_S)
    found = path_model.infer(many, lone=before)
    place = library.measured(found.json(), role="sender", source="measured", lone=True)
    tell(
        f"{STREAMS} flows show what it is: {place.rate_mbit:.1f} Mbit/s, {place.rtt_ms:.0f} ms, a buffer of "
        f"{place.buffer_bdp or 0:.1f} BDP (measured, not told)."
    )
    has = library.Kernel(ccs=("cubic", "bbr", "reno"), says="what most kernels have")
    asked = library.Asked(place=place, cares=("bulk", "calls"), now="cubic")
    search = library.search(asked, library.candidates(asked, has))
    advice = library.advise(search, has, thorough=False)
    cc = advice.choice.cc or "cubic"
    tell(f"Advised, on {len(search.trials)} simulations: {cc if not advice.leave else 'leave it as it is'}.")
    with _own_record():
        name = forecasts.seal(advice, before)
        figures = next(line for line in forecasts.read() if line["hash"] == name)["figures"]
        waits = next((f for f in figures if f["name"] == "loaded_p95_ms"), None)
        if waits is not None:
            tell(f"Forecast, sealed: {waits['low']:.0f} to {waits['high']:.0f} ms under load (p95).")
        after = by(cc, 1, ALONE_S)
        judged = [one.json() for one in forecasts.score(after, forecast=name)]
    tell(f"Measured again with {cc}: {_short(after)}.")
    return Story(live=live, why=why, before=before, after=after, advice=advice, judged=judged,
                 seconds=time.monotonic() - begin)  # fmt: skip


def _short(seen: Measurement) -> str:
    figures = forecasts.seen(seen, "up")
    return (
        f"{figures.get('rate_mbit', 0.0):.1f} Mbit/s, and a ping takes {figures.get('loaded_p95_ms', 0.0):.0f} ms (p95)"
    )


@contextmanager
def _own_record() -> Iterator[None]:
    """A record of its own: a demonstration counts for nobody's hit rate."""
    told = os.environ.get("NARROWS_HISTORY")
    with tempfile.TemporaryDirectory() as there:
        os.environ["NARROWS_HISTORY"] = str(FilePath(there) / "history.duckdb")
        try:
            yield
        finally:
            if told is None:
                del os.environ["NARROWS_HISTORY"]
            else:
                os.environ["NARROWS_HISTORY"] = told


def _path() -> Path:
    """The bad path: its upload is the bottleneck."""
    return Path(rtt=RTT, rate="100Mbit", reverse=Hop(**KEYS))


def _simulated(cc: str, flows: int, seconds: int) -> Measurement:
    plan = Plan(cc=cc, streams=flows, idle_s=float(IDLE_S), load_s=float(seconds), pause_s=1.0, ways=("up",))
    # Another minute, other losses.
    return measure(_path(), plan, seed=1 if cc == "cubic" else 2)


def _live(cc: str, flows: int, seconds: int) -> Measurement:
    """Measures over an emulated path; the emulator's own doubts are a reason to simulate instead."""
    if not sys.platform.startswith("linux"):
        raise EngineError("namespaces need Linux")
    with tempfile.TemporaryDirectory() as there:
        scenario, seen, made = (FilePath(there) / name for name in ("path.toml", "seen.json", "m.json"))
        scenario.write_text(Scenario(_path(), flows=[Flow("cubic")], duration="60s").toml(), encoding="utf-8")
        narrows = [sys.executable, "-m", "narrows"]
        command = [
            *narrows, "shell", str(scenario), "--quiet", "--json", str(seen),
            "--far", f"{HOST} serve --net-admin", "--",
            *narrows, "measure", "far", "--test", "tcp_nup", "--streams", str(flows), "--cc", cc,
            "--duration", f"{seconds}s", "--idle", f"{IDLE_S}s", "--quiet", "--no-history", "--no-twin",
            "--out", str(made),
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIVE_S, stdin=subprocess.DEVNULL
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


def sentences(told: Story) -> list[str]:
    """The end of it: what changed, and whether that was foreseen."""
    before, after = forecasts.seen(told.before, "up"), forecasts.seen(told.after, "up")
    out = []
    if before.get("rate_mbit") and "rate_mbit" in after:
        out.append(f"Goodput: {before['rate_mbit']:.1f} Mbit/s before, {after['rate_mbit']:.1f} after.")
    if "loaded_p95_ms" in before and "loaded_p95_ms" in after:
        out.append(
            f"Latency under load, p95: {before['loaded_p95_ms']:.0f} ms before, {after['loaded_p95_ms']:.0f} after."
        )
    hits = sum(one["hit"] for one in told.judged)
    out.append(f"The sealed forecast held for {hits} of {len(told.judged)} figures.")
    price = told.advice.price
    if price.kept_pct is not None and not told.advice.leave:
        out.append(f"The price: a CUBIC flow beside it keeps {price.kept_pct:.0f} % of what it has beside its like.")
    return out


def write(told: Story, file: str) -> None:
    """Writes it as one page: both measurements side by side, the story above.

    Raises:
        OutputError: If it cannot be written.
    """
    names = ["before, cubic", f"after, {told.advice.choice.cc or 'cubic'}"]
    made = telling.document([told.before, told.after], names, [None, None])
    first = " ".join([f"The path: {SAID}.", headline(told.advice), *sentences(told)])
    write_page(made | {"title": "narrows: the whole story", "first": first}, file)


def command(*, live: bool | None, as_json: bool, page: str | None) -> None:
    """Plays it in the terminal: each step as it begins, the end of it in bold."""
    out = console()

    def tell(sentence: str) -> None:
        if not as_json:
            out.print(sentence, markup=False, soft_wrap=True)

    told = story(tell, live=live)
    with output.every() as attempt:
        if page is not None:
            with attempt():
                write(told, page)
        if as_json:
            echo(json.dumps(told.json()))
            return
        out.print()
        for sentence in sentences(told):
            out.print(sentence, markup=False, soft_wrap=True, style="bold")
        kind = "over real packets" if told.live else "simulated"
        out.print(f"All of it in {told.seconds:.0f} s, {kind}." + (f" The page: {page}" if page else ""), markup=False)
