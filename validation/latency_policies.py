"""What a host's settings do to one answer: policies with and without other work, and answers from inside the kernel.

    python -m validation.latency_policies           three minutes, root: docs/reference/latency-measured.md
    python -m validation.latency_policies --quick   one minute, on the terminal

Two hosts (network namespaces) with a veth pair between them, on this machine: both ends share its processors. Set-ups
take turns, so that a busy machine is busy for all of them alike. Fails where a criterion is not met:

- with all processors busy, SCHED_RR 99 has at most a tenth of the slow answers (over 1 ms) that the default has;
- answers from inside the kernel (XDP, generic mode) take at most 10 µs at the median and 20 µs at p99 in the same run
  in which a program that echoes takes longer.
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
from narrows.latency import policies
from narrows.latency.result import span
from validation.latency_tools import FAR, two
from validation.stored import HERE, Json

PAGE = HERE.parent / "docs/reference/latency-measured.md"
COMMAND = "python -m validation.latency_policies"

POLICIES = "default,nice,rr,fifo+lock,busy=50us,spin,awake,rr+lock+awake"
FEWER = 10
"""So many times fewer slow answers under load is what SCHED_RR has to bring."""
XDP_US = {"p50": 10.0, "p99": 20.0}
DEADLINE_NS = 100_000

ORDINARY, URGENT, KERNEL, ECHO = 5201, 5301, 5207, 7007


@dataclass
class Step:
    """One more thing that is set."""

    what: str
    speaks: str
    port: int
    policy: str
    counts: dict[int, int] = field(default_factory=dict)

    def add(self, places: Sequence[Sequence[int]]) -> None:
        """Another slice's histogram: ns and how many."""
        for ns, count in places:
            self.counts[ns] = self.counts.get(ns, 0) + count

    def below(self, share: float) -> float | None:
        """µs that this share of the answers stays below; `None` if fewer than ten lie beyond."""
        total, seen = sum(self.counts.values()), 0
        if total * (1 - share) < 10:  # noqa: PLR2004 - as everywhere else
            return None
        for ns, count in sorted(self.counts.items()):
            seen += count
            if seen >= share * total:
                return ns / 1000
        return None

    def within(self, ns: int) -> float:
        """The share of answers that met a deadline."""
        return sum(count for at, count in self.counts.items() if at <= ns) / sum(self.counts.values())


def ladder() -> list[Step]:
    """Each step keeps what the one before it has."""
    return [
        Step("nothing is set at either end", "narrows", ORDINARY, "default"),
        Step("the controller's thread in a real-time class: `--policy rr+lock`", "narrows", ORDINARY, "rr+lock"),
        Step("the far end's, too: `narrows serve --policy rr+lock`", "narrows", URGENT, "rr+lock"),
        Step("processors do not halt: `--policy rr+lock+awake`", "narrows", URGENT, "rr+lock+awake"),
        Step("the far end answers in its kernel: `narrows serve --xdp DEVICE`", "board", KERNEL, "rr+lock+awake"),
    ]


@contextlib.contextmanager
def far_ends(far: list[str], device: str) -> Iterator[None]:
    """An ordinary far end, with answers in the kernel and an echo beside it, and an urgent one."""
    ordinary = ["--port", str(ORDINARY), "--xdp", device, "--xdp-port", str(KERNEL), "--echo", str(ECHO)]
    urgent = ["--port", str(URGENT), "--policy", "rr+lock"]
    with contextlib.ExitStack() as held:
        for words in (ordinary, urgent):
            command = [*far, str(HOST), "serve", "--tied", *words]
            server = held.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            held.callback(server.kill)
            assert server.stdout is not None
            if not server.stdout.readline():
                sys.exit("a far end did not start: see above")
        yield


def asked(near: list[str], *words: str | int) -> Json:
    """One run of `narrows-host latency`."""
    command = [*near, str(HOST), "latency", FAR, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


def device_of(far: list[str]) -> str:
    """The far host's end of the wire."""
    links = subprocess.run([*far, "ip", "-json", "link"], capture_output=True, text=True, check=True)
    return next(str(link["ifname"]) for link in json.loads(links.stdout) if link["ifname"] != "lo")


def climbed(near: list[str], load: str, rounds: int, seconds: float) -> list[Step]:
    """Step by step, in turns."""
    steps = ladder()
    for _ in range(rounds):
        for step in steps:
            told = asked(
                near, "--speaks", step.speaks, "--port", step.port, "--policy", step.policy, "--load", load,
                "--rounds", 1, "--duration", f"{seconds}s",
            )  # fmt: skip
            one = told["setups"][0]["latency"] if "setups" in told else told
            step.add(one["response_us"]["histogram_ns"])
    return steps


def answered_in_kernel(near: list[str], rounds: int, seconds: float) -> dict[str, list[Step]]:
    """A program that echoes beside the kernel, by what keeps the processors awake."""
    found = {}
    for policy in ("default", "awake", "spin"):
        both = [
            Step("a program echoes (`--echo`)", "echo", ECHO, policy),
            Step("the kernel answers (`--xdp`)", "echo", KERNEL, policy),
        ]
        for _ in range(rounds):
            for step in both:
                told = asked(
                    near, "--speaks", "echo", "--port", step.port, "--policy", policy, "--pace", "pingpong",
                    "--no-stamps", "--duration", f"{seconds}s",
                )  # fmt: skip
                step.add(told["rtt_us"]["histogram_ns"])
        found[policy] = both
    return found


def _row(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |\n"


def _steps(steps: Sequence[Step], first: str) -> str:
    text = _row([first, "p50", "p99", "p99.9", "p99.99", "within 100 µs", "answers"]) + _row(["---"] * 7)
    for step in steps:
        quantiles = [span(step.below(share)) for share in (0.5, 0.99, 0.999, 0.9999)]
        share = f"{100 * step.within(DEADLINE_NS):.2f} %"
        text += _row([step.what, *quantiles, share, f"{sum(step.counts.values()):,}"])
    return text


def _lab(told: Json) -> str:
    shown = policies.table(told)
    text = _row([*shown.words, *shown.numbers]) + _row(["---"] * (len(shown.words) + len(shown.numbers)))
    return text + "".join(_row([cell.text for cell in row]) for row in shown.rows)


def verdicts(lab: Json, kernel: dict[str, list[Step]]) -> list[str]:
    """What is not as it has to be."""
    wrong = []
    slow = {
        (one["policy"], one["load"]): one["latency"]["slow"]["count"] for one in lab["setups"] if not one["refused"]
    }
    usual, urgent = slow["default", "cpu"], slow.get(("rr", "cpu"))
    if urgent is not None and urgent * FEWER > usual:
        wrong.append(f"under load SCHED_RR left {urgent} slow answers of {usual}")
    for policy, (program, inside) in kernel.items():
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            took = inside.below(share)
            if took is None or took > XDP_US[name] or took > (program.below(share) or 0):
                wrong.append(f"{policy}: answers from inside the kernel took {span(took)} at {name}")
    return wrong


def page(lab: Json, kernel: dict[str, list[Step]], climbs: dict[str, list[Step]]) -> str:
    """All of it, in words and tables."""
    around = lab["surroundings"]
    cpu = around["processors"]
    guest = "a virtual machine" if around["guest"]["virtual"] else "a real machine"
    text = f"""# Latency policies, measured

Written by `{COMMAND}`. {guest.capitalize()} with the processors {cpu["online"]}, Linux
{around["kernel"]["release"]}, idle driver {cpu["idle_driver"] or "none"}. Two network namespaces and a veth pair: both
ends share these processors, and no wire and no adapter takes time. On machines of their own, with adapters, figures are
others; what a step brings for which reason is not.

## Policies, with and without other work

`narrows latency far --port {URGENT} --policy {POLICIES} --load none,cpu`;
the far end is in a real-time class. "Processors busy": two processes that compute for each. Slow is over 1 ms. Set-ups
took {lab["rounds"]} turns each.

{_lab(lab)}
"""
    text += "".join(f"- {sentence}\n" for sentence in policies.sentences(lab))
    text += "\n## Answers from inside the kernel\n\nPing-pong, 64 bytes, round trips.\n"
    for policy, steps in kernel.items():
        text += f"\n`--policy {policy}` at the near end:\n\n{_steps(steps, 'far end')}"
    text += "\n## Step by step\n\nA question each millisecond; from when it was due to when its answer was read.\n"
    for load, steps in climbs.items():
        text += f"\n{policies.LOADS[load].capitalize()}:\n\n{_steps(steps, 'also set')}"
    return text


def main() -> int:
    """Measures, and says what is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one minute, and no page")
    quick = parser.parse_args().quick
    if os.geteuid() != 0:
        sys.exit("real-time classes, XDP and network namespaces need root")
    rounds, seconds = (2, 0.5) if quick else (4, 1.0)
    with two() as (near, far), far_ends(far, device_of(far)):
        lab = asked(
            near, "--port", URGENT, "--policy", POLICIES, "--load", "none,cpu", "--rounds", rounds,
            "--duration", f"{rounds * seconds}s",
        )  # fmt: skip
        kernel = answered_in_kernel(near, rounds, seconds)
        climbs = {load: climbed(near, load, rounds, 1.5 * seconds) for load in ("none", "cpu")}
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
