"""The engine of a series of runs: it determines how many run simultaneously and which are repeated.

Each run of the engine `linux` needs a virtual machine, so that the number of simultaneous runs
depends on the free memory. Runs of the engine `live` would disturb each other and are executed one
after another. A live run whose self-check fails is repeated.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from narrows import operating_system
from narrows.errors import EngineError
from narrows.host.live import HOST
from narrows.kernel import machine, store
from narrows.runs.model import EngineJson
from narrows.runs.run import Engine, Progress, Run, check_engine, run
from narrows.runs.scenario import Scenario

TRIES = 4
"""Maximum number of times that a live run is executed until it passes its self-check."""


@dataclass(frozen=True)
class EngineChoice:
    """An engine and, for the engine `linux`, its kernel.

    Attributes:
        name: The engine.
        kernel: The key of the kernel; None for the other engines.
        kernel_name: The name of the kernel, such as `6.12`.
    """

    name: Engine = "sim"
    kernel: str | None = None
    kernel_name: str | None = None

    def jobs(self, wanted: int | None = None) -> int:
        """Number of simultaneous runs: at most `wanted`, or the number of usable cores by
        default.
        """
        if self.name == "live":
            return 1
        most = wanted or operating_system.processors()
        if self.name == "linux":
            most = min(most, machine.most())
        return most

    def about(self) -> str:
        """Text that identifies the engine, its kernel and its program; empty for the simulator. It
        is different if the results may be different.

        It contains the hash of the program that runs the engine.
        """
        if self.name == "sim":
            return ""
        of = self.kernel or " ".join(operating_system.machine()[1:3])
        return f"{self.name} {of} {_host_program()}"

    def json(self) -> EngineJson:
        """The JSON object of the engine in a result: its name and, for the engine `linux`, its
        kernel.
        """
        if self.kernel is None:
            return {"engine": self.name}
        return {"engine": self.name, "kernel": {"name": self.kernel_name, "key": self.kernel}}

    def run(
        self,
        scenario: Scenario | str | PathLike[str],
        *,
        seed: int | None = None,
        progress: Progress | None = None,
        **how: Any,  # noqa: ANN401 - as for `run`
    ) -> Run:
        """Runs a scenario; a live run whose self-check fails is repeated, up to `TRIES` runs in
        total.

        Raises:
            EngineError: If the engine cannot run the scenario, or if no live run passed its
                self-check.
        """
        why: list[str] = []
        for _ in range(TRIES):
            done = run(
                scenario,
                seed=seed,
                engine=self.name,
                kernel=self.kernel,
                progress=progress,
                **how,
            )
            checks = done.json.get("instruments")
            if self.name != "live" or checks is None or checks["trusted"] is not False:
                return done
            why = checks["why"]
        raise EngineError(
            f"--engine live: {TRIES} runs failed their self-check ({'; '.join(why)}); write "
            "narrows doctor, or --engine linux"
        )


SIM = EngineChoice()
"""The simulator as an engine."""


def choose(engine: Engine, kernel: str | None = None) -> EngineChoice:
    """The engine with this name. `kernel` is the name or key of a built kernel; by default, it is
    the newest one.

    Raises:
        EngineError: If there is no such engine, or if the kernel is not built.
    """
    check_engine(engine, kernel)
    if engine != "linux":
        return EngineChoice(engine)
    found = store.find(kernel)
    return EngineChoice(engine, found.key, found.name)


@cache
def _host_program() -> str:
    """The SHA-256 hash of the program narrows-host; empty if it cannot be read."""
    try:
        return hashlib.sha256(Path(HOST).read_bytes()).hexdigest()
    except OSError:
        return ""  # The run reports it.
