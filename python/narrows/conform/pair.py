"""A pair of commands as the target of conformance checks.

The server runs on the host `far` of `narrows shell` and sends data over the forward path. The
client runs on the host `near`. Rivals are TCP flows of the kernel in the same direction
(`rival.py`).
"""

from __future__ import annotations

import json
import math
import random
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from narrows import _core
from narrows.conform import traffic
from narrows.conform.target import Target, family
from narrows.errors import NarrowsError
from narrows.runs.scenario import from_tree

if TYPE_CHECKING:
    from narrows.conform.check import Check
    from narrows.conform.traffic import Traffic
    from narrows.json_object import JsonObject
    from narrows.runs.run import Progress

_MARK = "pair"
_FIRST_PORT, _FIRST_RIVAL = 5301, 5401
_SETTLE_S = 1.0
"""Time after the start of the servers until the first client starts."""
_SLACK_S = 3.0
"""Time for which clients run longer than the check, because they need time to start."""
_RIVAL = Path(__file__).with_name("rival.py")
_LINES = 5
NO_DATA = "no data of the server arrived at the client"
_LOOK_S = 0.3


class NoDataError(NarrowsError):
    """No data of the server arrived in a run."""


@dataclass(frozen=True, kw_only=True)
class Pair(Target):
    """A server and a client.

    Attributes:
        server: Command of the server, which sends the data.
        client: Command of the client.
        engine: `live` or `linux`.
        kernel: Kernel of the engine `linux`; None for the newest one.
    """

    server: str
    client: str
    engine: str = "live"
    kernel: str | None = None
    cc: str = ""
    family: str = field(default="")

    @property
    def name(self) -> str:
        """The name of the target: the command of the server.

        >>> pair("iperf3 -s -1", "iperf3 -c far -R -t {seconds}").name
        'iperf3 -s -1'
        """
        return self.server

    def flow(self, **keys: object) -> JsonObject:
        """A flow of this target in the table of a check."""
        return {"cc": _MARK, **keys}

    def refusal(self, check: Check) -> str:
        """The reason for which a pair of commands does not decide a check; otherwise empty."""
        if isinstance(check.path_metric, str):
            return check.path_metric
        own = [flow for flow in _flows(check.scenario(self)) if flow[0] != "rival"]
        if len(own) > 1 and not ("{port}" in self.server and "{port}" in self.client):
            return "it needs several flows of the target; use {port} in --server and --client"
        return ""


def pair(
    server: str,
    client: str,
    rules: str | None = None,
    engine: str = "live",
    kernel: str | None = None,
) -> Pair:
    """A pair of commands; `rules` is the congestion control whose rules apply."""
    of = "" if rules is None else family(rules)
    return Pair(
        server=server, client=client, engine=engine, kernel=kernel, rules=rules or "", family=of
    )


def _flows(tree: JsonObject) -> Iterator[tuple[str, str, float]]:
    """Kind (`rival` or the name of a flow of the target), congestion control and start in s of each
    flow of a check.
    """
    for flow in tree["flow"]:
        start = _core.seconds(flow["start"]) if "start" in flow else 0.0
        for _ in range(flow.get("count", 1)):
            yield flow["id"], flow["cc"], start


def play(check: Check, target: Pair, seed: int, keep_on: Progress) -> Traffic:
    """Runs the scenario of a check with the programs of a pair. An exception of `keep_on`, which is
    called several times per second, stops them.

    Raises:
        NoDataError: If no data arrived.
        NarrowsError: If the programs could not be run.
    """
    tree = check.scenario(target)
    path: JsonObject = {key: tree[key] for key in ("path", "duration", "warmup") if key in tree}
    scenario = from_tree({**path, "probe": [{"kind": "ping"}]})
    duration_s = _core.seconds(tree["duration"])
    warmup_s = _core.seconds(tree["warmup"]) if "warmup" in tree else 0.2 * duration_s
    jitter = random.Random(seed)
    spread_s = _core.seconds(tree.get("start_jitter", tree["path"]["rtt"]))
    ports: dict[int, str] = {}
    far: list[str] = []
    near: list[str] = []
    single = "{port}" not in target.server
    for i, (kind, cc, start_s) in enumerate(_flows(tree)):
        port = (_FIRST_RIVAL if kind == "rival" else _FIRST_PORT) + i
        delay_s = _SETTLE_S + start_s + jitter.uniform(0.0, spread_s)
        seconds = math.ceil(duration_s + _SLACK_S - start_s)
        if kind == "rival":
            program = f"{shlex.quote(sys.executable)} -IS {shlex.quote(str(_RIVAL))}"
            far.append(f"{program} send {port} {cc}")
            client = f"{program} receive far {port} {seconds}"
        else:
            far.append(_filled(target.server, port, seconds))
            client = _filled(target.client, port, seconds)
        ports[0 if single and kind != "rival" else port] = f"{kind}{i}"
        near.append(
            f"(sleep {delay_s:.3f}; timeout -k 1 {seconds + 1} sh -c {shlex.quote(client)}) &"
        )
    with tempfile.TemporaryDirectory(prefix="narrows-") as folder:
        file = Path(folder) / "path.toml"
        file.write_text(scenario.toml(), encoding="utf-8")
        capture, out = Path(folder) / "it.pcapng", Path(folder) / "it.json"
        engine = ["--engine", target.engine]
        if target.kernel is not None:
            engine += ["--kernel", target.kernel]
        servers = [word for command in far for word in ("--far", command)]
        code, output = _run(
            [
                sys.executable, "-m", "narrows", "shell", str(file), *engine, "--seed", str(seed),
                *servers, "--record", str(capture), "--out", str(out), "--quiet", "--", "sh", "-c",
                " ".join([*near, "wait; true"]),
            ],
            keep_on,
        )  # fmt: skip
        said = "\n".join(output.strip().splitlines()[-_LINES:])
        if code or not capture.exists():
            raise NarrowsError(f"narrows shell failed with exit code {code}:\n{said}")
        seen = traffic.read(
            capture,
            json.loads(out.read_text(encoding="utf-8")),
            ports,
            warmup_s=warmup_s,
            duration_s=duration_s,
        )
    if not any(flow.times for flow in seen.pair()):
        told = (
            f"the last lines of the programs:\n{said}" if said else "the programs printed nothing"
        )
        raise NoDataError(
            f"{check.name}: {NO_DATA}; {told}\n"
            "    write: --server 'iperf3 -s -1 -p {port}' "
            "--client 'iperf3 -c far -R -p {port} -t {seconds}'"
        )
    return seen


def _run(words: list[str], keep_on: Progress) -> tuple[int, str]:
    """The exit code and the output of a command. It ends with an exception of `keep_on`."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as child:
        try:
            while True:
                try:
                    output, _ = child.communicate(timeout=_LOOK_S)
                except subprocess.TimeoutExpired:
                    keep_on(0.0, 1.0)
                else:
                    return child.returncode, output
        except BaseException:
            child.terminate()
            raise


def _filled(command: str, port: int, seconds: int) -> str:
    """A command with its port and its duration."""
    return command.replace("{port}", str(port)).replace("{seconds}", str(seconds))
