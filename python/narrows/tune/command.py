"""The command group `narrows tune`. Its commands that only read, `audit` and `plan`, are in this
module; commands that change a host are in `changing`.
"""

from __future__ import annotations

import json
from typing import Any

import click

from narrows import _core
from narrows.cli.command import Group, option
from narrows.cli.options import file_option, json_option, path_option
from narrows.cli.outputs import every
from narrows.errors import NarrowsError, named_by
from narrows.render.terminal import console, echo
from narrows.runs import scenario
from narrows.storage import output
from narrows.tune import shaper
from narrows.tune.collect import facts
from narrows.tune.collect import script as collector_script
from narrows.tune.diff import lines
from narrows.tune.findings import audit as look
from narrows.tune.findings.finding import Path
from narrows.tune.plan import Ask
from narrows.tune.planner import plan as make
from narrows.tune.render import audit_json, audit_lines
from narrows.tune.script import script

_WORST = {"error": 1}


@click.group(
    cls=Group,
    examples=(
        "narrows tune audit",
        "narrows tune plan --cc bbr --qdisc fq",
        "narrows tune apply --cc bbr --qdisc fq --confirm-within 120s",
        "narrows tune revert",
    ),
)
def tune() -> None:
    """Audit, plan, apply and revert network settings of a host.

    The settings are congestion control, queue disciplines and TCP options of Linux.
    """


_ssh = option(
    "--ssh",
    group="Host",
    metavar="HOST",
    help="Read the settings of HOST over SSH; nothing is installed there",
)
_netns = option(
    "--netns",
    group="Host",
    metavar="NAMESPACE",
    help="Read the settings of this network namespace of this host",
)
_facts = option(
    "--facts",
    "facts_file",
    group="Host",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Read the settings from the saved output of the collector script (`narrows tune audit "
    "--collector`)",
)
_root = option(
    "--root",
    group="Host",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Read the settings from a directory tree with proc, sys and etc",
)
_rate = path_option(
    "rate", "With --rtt: make the TCP buffers large enough for one connection to fill this path"
)
_checked_rate = path_option(
    "rate",
    "With --rtt: check that the TCP buffers are large enough for one connection to fill this path",
)
_rtt = path_option("rtt", "RTT of this path")


def _path(rate: str | None, rtt: str | None, option: str = "--rate") -> Any:  # noqa: ANN401

    if rate is None and rtt is None:
        return Path()
    if rate is None or rtt is None:
        raise NarrowsError(
            f"{'--rate' if rtt is None else '--rtt'} requires "
            f"{'--rtt' if rtt is None else '--rate'}; write --rate 1Gbit --rtt 80ms"
        )
    path = scenario.Path(rate=rate, rtt=rtt)
    name = option.removeprefix("--")
    with named_by({name: rate, "rtt": rtt}, {"path.rate": name}):
        numbers = _core.path_numbers(
            scenario.Scenario(path, probes=[scenario.Ping()], duration="10s").tree()
        )
    return Path(rate_mbit=numbers["rate_mbit"], rtt_ms=numbers["rtts_ms"][0])


def _kbit(rate: str | None, option: str) -> int | None:
    return None if rate is None else round(1000 * _path(rate, "1ms", option).rate_mbit)


def _one_source(**sources: str | None) -> None:
    given = [f"--{name}" for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise NarrowsError(f"{' and '.join(given)}: each selects a host; write only one of them")


@tune.command(
    examples=(
        "narrows tune audit",
        "narrows tune audit --ssh root@router --rate 100Mbit --rtt 40ms",
        "narrows tune audit --collector > collect.sh",
        "narrows tune audit --facts host.txt --json | jq .findings",
    )
)
@_ssh
@_netns
@_facts
@_root
@_checked_rate
@_rtt
@option(
    "--all", "every", group="Output", is_flag=True, help="Report settings without a finding, too"
)
@json_option("Print one JSON object instead of text")
@option(
    "--collector",
    group="Output",
    is_flag=True,
    help="Print the script that reads the settings of a host, and exit",
)
def audit(  # noqa: PLR0917 - Click calls it by keyword
    ssh: str | None,
    netns: str | None,
    facts_file: str | None,
    root: str | None,
    rate: str | None,
    rtt: str | None,
    every: bool,
    as_json: bool,
    collector: bool,
) -> None:
    """Report settings that slow or delay the traffic of a host.

    The traffic of a host is the data that it sends, receives and, as a router, forwards. Each
    finding has its reason and its source, and a remedy if one is known. The audit only reads
    and requires no privilege; as root it also reads other network namespaces. The exit code is 1 if
    settings contradict each other or have no effect.
    """
    if collector:
        echo(collector_script(), nl=False)
        return
    _one_source(ssh=ssh, netns=netns, facts=facts_file, root=root)
    path = _path(rate, rtt)
    seen = facts(ssh=ssh, netns=netns, root=root, file=facts_file)
    found = look(seen, path)
    if as_json:
        echo(json.dumps(audit_json(seen, found)))
    else:
        out = console()
        for line in audit_lines(seen, found, every=every):
            out.print(line, markup=False, soft_wrap=True)
    click.get_current_context().exit(
        max((_WORST.get(finding.severity, 0) for finding in found), default=0)
    )


@tune.command(
    examples=(
        "narrows tune plan --cc bbr --qdisc fq",
        "narrows tune plan --cc bbr --ssh root@router --sh bbr.sh",
        "narrows tune plan --shape eth0 --down 90Mbit --up 18Mbit",
        "narrows tune plan --cc bbr --json > plan.json",
    )
)
@option("--cc", group="Change", metavar="CC", help="Congestion control of new connections")
@option(
    "--to",
    group="Change",
    metavar="PREFIX",
    multiple=True,
    help="Apply --cc only to this destination, such as 192.0.2.0/24; may be repeated",
)
@option(
    "--qdisc",
    group="Change",
    metavar="NAME",
    show_default="fq if the congestion control requires it, otherwise keep",
    help="Queue discipline of Linux, such as fq, fq_codel, cake or pfifo; with --shape: "
    f"{', '.join(shaper.KINDS[:-1])} or {shaper.KINDS[-1]}. The word keep means no change",
)
@option(
    "--dev",
    "devices",
    group="Change",
    metavar="DEVICE",
    multiple=True,
    help="Apply --qdisc only to this interface; may be repeated",
)
@option(
    "--ecn",
    group="Change",
    type=click.Choice(["on", "off", "passive"]),
    help="ECN: request it, disable it, or only accept it",
)
@option(
    "--mtu-probing",
    group="Change",
    is_flag=True,
    help="Try smaller packets after timeouts (tcp_mtu_probing)",
)
@option(
    "--set",
    "settings",
    group="Change",
    metavar="KEY=VALUE",
    multiple=True,
    help="Sysctl, such as net.ipv4.tcp_sack=1; may be repeated",
)
@option(
    "--replace",
    group="Change",
    is_flag=True,
    help="Replace configured shapers, schedulers and emulators (cake, htb, tbf, netem, prio, …), "
    "too",
)
@option("--install", group="Change", is_flag=True, help="On OpenWrt: install missing packages")
@option(
    "--shape",
    group="Shaper",
    metavar="DEVICE",
    help="Shape this interface with --qdisc or the best available queue discipline",
)
@option(
    "--sqm",
    group="Shaper",
    metavar="DEVICE",
    help="On OpenWrt: shape this interface with CAKE by sqm",
)
@option(
    "--down",
    group="Shaper",
    metavar="RATE",
    help="Rate of the shaper for traffic that DEVICE receives: write slightly less than the rate "
    "of the link",
)
@option(
    "--up",
    group="Shaper",
    metavar="RATE",
    help="Rate of the shaper for traffic that DEVICE sends: write slightly less than the rate of "
    "the link",
)
@_rate
@_rtt
@_ssh
@_netns
@_facts
@_root
@file_option(
    "--sh",
    "script_file",
    allow_dash=True,
    what="Write a POSIX shell script that makes the changes; - is standard output",
)
@json_option("Print the plan as JSON, for narrows tune apply")
def plan(  # noqa: PLR0917 - Click calls it by keyword
    cc: str | None,
    qdisc: str | None,
    devices: tuple[str, ...],
    to: tuple[str, ...],
    rate: str | None,
    rtt: str | None,
    ecn: str | None,
    mtu_probing: bool,
    settings: tuple[str, ...],
    sqm: str | None,
    shape: str | None,
    down: str | None,
    up: str | None,
    replace: bool,
    install: bool,
    ssh: str | None,
    netns: str | None,
    facts_file: str | None,
    root: str | None,
    script_file: str | None,
    as_json: bool,
) -> None:
    """Print the changes that narrows tune apply would make.

    The exit code is 1 if a requirement is missing, such as a package or a newer kernel.
    """
    _one_source(ssh=ssh, facts=facts_file, root=root)
    ask = Ask(
        cc=cc,
        qdisc=qdisc,
        devices=devices,
        to=to,
        ecn=ecn,
        mtu_probing=mtu_probing,
        path=_path(rate, rtt),
        settings=settings,
        sqm=sqm,
        shape=shape,
        down_kbit=_kbit(down, "--down"),
        up_kbit=_kbit(up, "--up"),
        replace=replace,
        install=install,
        netns=netns,
    )
    here = ssh is None and facts_file is None and root is None
    made = make(facts(ssh=ssh, netns=netns if here else None, root=root, file=facts_file), ask)
    with every() as attempt:
        if script_file is not None:
            with attempt():
                _write(script_file, script(made))
        if as_json:
            echo(json.dumps(made.json(), indent=1))
        elif script_file != "-":
            out = console()
            for line in lines(made):
                out.print(line, markup=False, soft_wrap=True)
    click.get_current_context().exit(0 if made.able else 1)


def _write(file: str, text: str) -> None:
    if file == "-":
        echo(text, nl=False)
        return
    output.write(file, text)
