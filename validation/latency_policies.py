"""Measures the effect of scheduling policies and of the XDP responder on response times within one
machine.

    python -m validation.latency_policies          three minutes, root
    python -m validation.latency_policies --quick  one minute; prints the result only

The first command writes docs/reference/latency-measured.md. Two hosts (network namespaces) on this
machine are connected by a veth pair, and both ends share its processors. Configurations run in
alternating rounds, so that other load affects all of them equally. There are two criteria:

- An answer is slow if it takes over 1 ms. With all processors busy, SCHED_RR 99 has at most a tenth
  of the default policy's share of slow answers.
- Answers by the XDP responder in the kernel (generic mode) take at most 10 µs at the median and 20
  µs at p99. Those of an echo program in the same run take longer.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from narrows.host.live import HOST
from narrows.json_object import JsonObject
from narrows.latency.render import span
from validation.latency_tools import FAR, two_hosts
from validation.stored import HERE

PAGE = HERE.parent / "docs/reference/latency-measured.md"
COMMAND = "python -m validation.latency_policies"

POLICIES = "default,nice,rr,fifo+lock,busy=50us,spin,awake,rr+lock+awake"
FEWER = 10
"""Factor by which SCHED_RR must reduce the share of slow answers under load."""
XDP_US = {"p50": 10.0, "p99": 20.0}
DEADLINE_NS = 100_000

ORDINARY, URGENT, KERNEL, ECHO = 5201, 5301, 5207, 7007


@dataclass
class Step:
    """One configuration, with the histogram of its response times. In the ladder, each step adds a
    setting to the previous step.
    """

    what: str
    speaks: str
    port: int
    policy: str
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, places: Sequence[Sequence[int]]) -> None:
        """Adds the histogram of another run: response times in ns and their counts."""
        for ns, count in places:
            self.counts[ns] = self.counts.get(ns, 0) + count

    def below(self, share: float) -> float | None:
        """The quantile of the response time, in µs; `None` if fewer than ten answers exceed it."""
        total, seen = sum(self.counts.values()), 0
        if total * (1 - share) < 10:  # noqa: PLR2004 - as everywhere else
            return None
        for ns, count in sorted(self.counts.items()):
            seen += count
            if seen >= share * total:
                return ns / 1000
        return None

    def within(self, ns: int) -> float:
        """The share of the answers that arrived within `ns` nanoseconds."""
        return sum(count for at, count in self.counts.items() if at <= ns) / sum(
            self.counts.values()
        )


def ladder() -> list[Step]:
    """The configurations in their order: each step keeps the settings of the step before it."""
    return [
        Step("none", "narrows", ORDINARY, "default"),
        Step("client in a real-time class: `--policy rr+lock`", "narrows", ORDINARY, "rr+lock"),
        Step(
            "far host in a real-time class: `narrows serve --policy rr+lock`",
            "narrows",
            URGENT,
            "rr+lock",
        ),
        Step(
            "processors do not enter idle states: `--policy rr+lock+awake`",
            "narrows",
            URGENT,
            "rr+lock+awake",
        ),
        Step(
            "XDP responder on the far host: `narrows serve --xdp DEVICE`",
            "board",
            KERNEL,
            "rr+lock+awake",
        ),
    ]


@contextlib.contextmanager
def far_ends(far: list[str], device: str) -> Iterator[None]:
    """Runs two servers on the far host: an ordinary one, which also has an XDP responder and an
    echo port, and one with real-time priority.
    """
    ordinary = [
        "--port",
        str(ORDINARY),
        "--xdp",
        device,
        "--xdp-port",
        str(KERNEL),
        "--echo",
        str(ECHO),
    ]
    urgent = ["--port", str(URGENT), "--policy", "rr+lock"]
    with contextlib.ExitStack() as held:
        for words in (ordinary, urgent):
            command = [*far, str(HOST), "serve", "--tied", *words]
            server = held.enter_context(
                subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            )
            held.callback(server.kill)
            assert server.stdout is not None
            if not server.stdout.readline():
                sys.exit("a server did not start: see above")
        yield


def run_latency(near: list[str], *words: str | int) -> JsonObject:
    """Runs `narrows-host latency` on the near host, and returns its JSON."""
    command = [*near, str(HOST), "latency", FAR, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


def device_of(far: list[str]) -> str:
    """The far host's device of the veth pair."""
    links = subprocess.run(
        [*far, "ip", "-json", "link"], capture_output=True, text=True, check=True
    )
    return next(str(link["ifname"]) for link in json.loads(links.stdout) if link["ifname"] != "lo")


def measured_steps(near: list[str], load: str, rounds: int, seconds: float) -> list[Step]:
    """Measures all steps of the ladder in alternating rounds."""
    steps = ladder()
    for _ in range(rounds):
        for step in steps:
            told = run_latency(
                near, "--speaks", step.speaks, "--port", step.port, "--policy", step.policy,
                "--load", load,
                "--rounds", 1, "--duration", f"{seconds}s",
            )  # fmt: skip
            one = told["setups"][0]["latency"] if "setups" in told else told
            step.add(one["response_us"]["histogram_ns"])
    return steps


def answered_in_kernel(near: list[str], rounds: int, seconds: float) -> dict[str, list[Step]]:
    """Response times of the echo program and of the XDP responder, by the policy of the client
    (`default`, `awake`, `spin`).
    """
    found = {}
    for policy in ("default", "awake", "spin"):
        both = [
            Step("user-space echo (`--echo`)", "echo", ECHO, policy),
            Step("XDP responder (`--xdp`)", "echo", KERNEL, policy),
        ]
        for _ in range(rounds):
            for step in both:
                told = run_latency(
                    near, "--speaks", "echo", "--port", step.port, "--policy", policy, "--pace",
                    "pingpong",
                    "--no-stamps", "--duration", f"{seconds}s",
                )  # fmt: skip
                step.add(told["rtt_us"]["histogram_ns"])
        found[policy] = both
    return found


def _row(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |\n"


def _steps(steps: Sequence[Step], first: str) -> str:
    text = _row([first, "p50", "p99", "p99.9", "p99.99", "within 100 µs", "replies"]) + _row(
        ["---"] * 7
    )
    for step in steps:
        quantiles = [span(step.below(share)) for share in (0.5, 0.99, 0.999, 0.9999)]
        share = f"{100 * step.within(DEADLINE_NS):.2f} %"
        text += _row([step.what, *quantiles, share, f"{sum(step.counts.values()):,}"])
    return text


LOADS = {"none": "none", "cpu": "CPU-bound processes"}
"""The names of the loads on the page."""


def _measured(lab: JsonObject) -> list[JsonObject]:
    return [setup for setup in lab["setups"] if not setup["refused"]]


def _lab(lab: JsonObject) -> str:
    """The rows of the table with each policy under each load."""
    names = ("p50", "p90", "p99", "p99_9", "max")
    heads = ["policy", "load", *(f"{name.replace('_', '.')} µs" for name in names)]
    heads += ["slow replies", "replies", "CPU time, s/s"]
    text = _row(heads) + _row(["---"] * len(heads))
    for setup in _measured(lab):
        took, slow = setup["latency"]["response_us"], setup["latency"]["slow"]["count"]
        cells = ["–" if took[name] is None else f"{took[name]:.1f}" for name in names]
        cost = f"{setup['cpu_s'] / setup['wall_s']:.2f}"
        text += _row(
            [setup["policy"], LOADS[setup["load"]], *cells, f"{slow:,}", f"{took['n']:,}", cost]
        )
    return text


def _compared(lab: JsonObject) -> str:
    """The rows of the table with the change of each policy against the first policy under the same
    load.
    """
    heads = ["policy", "load", "p99", "slow replies", "CPU time of the load"]
    text = _row(heads) + _row(["---"] * len(heads))
    first: dict[str, JsonObject] = {}
    for setup in _measured(lab):
        base = first.setdefault(setup["load"], setup)
        if setup is base:
            continue
        pair = (base, setup)
        p99 = _ratio(*(one["latency"]["response_us"]["p99"] for one in pair))
        slow = _ratio(*(one["latency"]["slow"]["count"] for one in pair))
        left, had = (one["load_cpu_s"] / one["wall_s"] for one in (setup, base))
        change = f"{100 * (left / had - 1):+.0f} %".replace("-", "−") if had else "–"
        text += _row([setup["policy"], LOADS[setup["load"]], p99, slow, change])
    return text


def _ratio(before: float | None, after: float | None) -> str:
    if not before or not after:
        return "–"
    return (
        f"{before / after:.1f} times lower"
        if before > after
        else f"{after / before:.1f} times higher"
    )


def verdicts(lab: JsonObject, kernel: dict[str, list[Step]]) -> list[str]:
    """A sentence for each criterion that is not met."""
    wrong = []
    slow = {
        (one["policy"], one["load"]): one["latency"]["slow"]["count"]
        for one in lab["setups"]
        if not one["refused"]
    }
    usual, urgent = slow["default", "cpu"], slow.get(("rr", "cpu"))
    if urgent is not None and urgent * FEWER > usual:
        wrong.append(f"under load SCHED_RR left {urgent} slow answers of {usual}")
    for policy, (program, inside) in kernel.items():
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            took = inside.below(share)
            if took is None or took > XDP_US[name] or took > (program.below(share) or 0):
                wrong.append(
                    f"{policy}: answers from inside the kernel took {span(took)} at {name}"
                )
    return wrong


def page(lab: JsonObject, kernel: dict[str, list[Step]], climbs: dict[str, list[Step]]) -> str:
    """The text of the page."""
    around = lab["surroundings"]
    cpu = around["processors"]
    guest = "a virtual machine" if around["guest"]["virtual"] else "a physical machine"
    text = f"""# Measured effect of scheduling policies

This page shows how [scheduling policies](latency-policies.md) change the response time of
`narrows latency`. `{COMMAND}` measures and writes it.

| | |
|---|---|
| machine | {guest}, processors {cpu["online"]} |
| kernel | Linux {around["kernel"]["release"]}, idle driver {cpu["idle_driver"] or "none"} |
| network | two network namespaces connected by a veth pair; both ends share the processors |

The path has no network adapters and no cable. Values on separate hosts with adapters differ.

## Policies with and without load

```sh
narrows latency far --port {URGENT} --load none,cpu \\
  --policy {POLICIES}
```

The far host runs in a real-time class. The CPU load consists of two CPU-bound processes per
processor. The policies were measured in {lab["rounds"]} alternating rounds. Slow replies took more
than 1 ms. CPU time is that of the program, in seconds per second.

{_lab(lab)}
Compared with `default` under the same load:

{_compared(lab)}
With `awake`, idle processors do not sleep, which increases power consumption.

## XDP responder

Ping-pong with 64 bytes; the values are round-trip times.
"""
    for policy, steps in kernel.items():
        text += f"\n`--policy {policy}` at the client:\n\n{_steps(steps, 'far host')}"
    text += """
## Cumulative settings

One request per millisecond. Response times are measured from the due time of a request until its
reply is read. Each row adds a setting to the row before it.
"""
    for load, steps in climbs.items():
        text += f"\nLoad: {LOADS[load]}.\n\n{_steps(steps, 'added setting')}"
    return text


def main() -> int:
    """Measures, and prints the criteria that are not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="run for one minute and write no page")
    quick = parser.parse_args().quick
    if os.geteuid() != 0:
        sys.exit("real-time classes, XDP and network namespaces need root")
    rounds, seconds = (2, 0.5) if quick else (4, 1.0)
    with two_hosts() as (near, far), far_ends(far, device_of(far)):
        lab = run_latency(
            near, "--port", URGENT, "--policy", POLICIES, "--load", "none,cpu", "--rounds", rounds,
            "--duration", f"{rounds * seconds}s",
        )  # fmt: skip
        kernel = answered_in_kernel(near, rounds, seconds)
        climbs = {
            load: measured_steps(near, load, rounds, 1.5 * seconds) for load in ("none", "cpu")
        }
    text = page(lab, kernel, climbs)
    wrong = verdicts(lab, kernel)
    if quick:
        print(text)
    elif not wrong:
        PAGE.write_text(text, encoding="utf-8")
    for one in wrong:
        print(f"NOT MET: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
