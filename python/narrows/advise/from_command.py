"""The command `narrows from`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from narrows import _core
from narrows.advise import importers
from narrows.advise.importers.layers import RATE, RTT
from narrows.advise.judge import judge
from narrows.cli.command import argument, command, option
from narrows.cli.options import file_option, json_option, path_option, seed_option
from narrows.cli.outputs import every
from narrows.errors import NarrowsError, named_by, reason
from narrows.render.progress import ProgressBar
from narrows.render.terminal import console, echo
from narrows.runs.scenario import Flow, Path, Ping, Scenario
from narrows.storage import output, untrusted_input
from narrows.storage.text import name_of

if TYPE_CHECKING:
    from narrows.advise.importers.reading import Reading
    from narrows.advise.judge import Judgement


@command(
    "narrows from 'tc qdisc add dev eth0 root netem delay 100ms loss 1% rate 20mbit'",
    "narrows from router.cfg --rate 100Mbit --rtt 20ms --out path.toml",
    "tc -j qdisc show dev eth0 | narrows from - --out path.toml",
    name="from",
)
@argument(
    "config",
    help="Configuration: a file, the text itself, or - for standard input; its "
    "commands are not run",
)
@path_option("rate", "Rate of the link, if CONFIG specifies none", show_default=RATE)
@path_option("rtt", "Base RTT, if CONFIG specifies none", show_default=RTT)
@option(
    "--flows",
    group="Simulation",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=1,
    help="Number of flows of each congestion control in a simulation",
)
@seed_option(type=click.IntRange(0, 2**63), default=1)
@file_option(
    "--out",
    "-o",
    "out_file",
    what="Write the scenario to FILE",
)
@json_option("Print one JSON object instead of text")
def from_(  # noqa: PLR0917 - Click calls it by keyword
    config: str,
    rtt: str | None,
    rate: str | None,
    flows: int,
    out_file: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Convert a tc or router configuration to a scenario.

    CONFIG is in the syntax of Linux `tc` (traffic control), its JSON output (`tc -j`), a policy-map
    of Cisco IOS, VyOS or OpenWrt's sqm. The command also simulates three cases on the path
    of CONFIG and reports the results: CUBIC alone, BBR alone, and both together.
    """
    # Invalid options are errors even if the configuration specifies its own rate and RTT.
    with named_by({"rtt": rtt, "rate": rate}):
        stated = Scenario(
            Path(rate=rate or "1Mbit", rtt=rtt or "1ms"), probes=[Ping()], duration="1s"
        ).toml()
        _core.check_toml(stated, "the options")
    text, name = _config(config)
    found = importers.read(text, name)
    if rtt is not None and any(RTT in sentence for sentence in found.assumed):
        found.path = replace(found.path, rtt=rtt)
        found.assumed = [sentence for sentence in found.assumed if RTT not in sentence]
    if rate is not None and any(RATE in sentence for sentence in found.assumed):
        found.path = replace(found.path, rate=rate)
        found.assumed = [sentence for sentence in found.assumed if RATE not in sentence]
    scenario = Scenario(
        found.path,
        flows=[Flow(cc, count=flows) if flows > 1 else Flow(cc) for cc in ("cubic", "bbr")],
        probes=[Ping(interval="20ms")],
        title=f"Read from {found.dialect}",
        duration="30s",
    )
    toml = scenario.toml()
    with ProgressBar(quiet=as_json, of="simulations") as bar:
        judged = judge(found.path, flows=flows, seed=seed, progress=bar)
    with every() as attempt:
        if out_file is not None:
            with attempt():
                output.write(out_file, toml)
        if as_json:
            warned = [{"line": w.line, "says": w.says, "fix": w.fix} for w in found.warned]
            told = {"dialect": found.dialect, "path": found.path.tree(), "scenario": toml,
            "warned": warned,
                    "assumed": found.assumed, "left_out": found.left, "rate_mbit": judged.rate_mbit,
                    "judgement": judged.sentences(), "runs": judged.rows}  # fmt: skip
            echo(json.dumps(told))
        else:
            _show_from(found, judged, toml if out_file is None else None)


def _show_from(found: Reading, judged: Judgement, toml: str | None) -> None:
    out = console()
    for warning in found.warned:
        out.print(
            f"line {warning.line}: warning: {warning.says}",
            style="bold yellow",
            markup=False,
            soft_wrap=True,
        )
        if warning.fix:
            out.print(f"    write: {warning.fix}", markup=False, soft_wrap=True)
    for sentence in judged.sentences():
        out.print(sentence, markup=False, soft_wrap=True)
    for what, sentences in (("assumed", found.assumed), ("not modelled", found.left)):
        for sentence in sentences:
            out.print(f"{what}: {sentence}", markup=False, soft_wrap=True)
    if toml is not None:
        out.print()
        for line in toml.splitlines():
            out.print(line, markup=False, soft_wrap=True)


def _config(config: str) -> tuple[str, str]:
    """The text of a configuration, and its name in errors."""
    if config == "-":
        raw, name = sys.stdin.buffer.read(2_000_000), "standard input"
    # `Path.exists` raises an error for some names.
    elif not any(sign in config for sign in "\n\0") and os.path.exists(config):  # noqa: PTH110
        name = name_of(config)
        try:
            raw = untrusted_input.read(config)
        except OSError as error:
            fix = "; write the name of a file" if isinstance(error, IsADirectoryError) else ""
            raise NarrowsError(f"{name}: {reason(error)}{fix}") from error
    else:
        # A single word is rarely a configuration; it may be the name of a file that does not exist.
        return config, "text" if " " in config else f"no file {name_of(config)}; as text"
    return raw.decode("utf-8", "replace"), name
