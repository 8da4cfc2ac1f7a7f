"""`narrows tune`: the group of commands; looking and planning are here, what changes a host has
modules of its own.
"""

from __future__ import annotations

import json
from typing import Any

import click

from narrows import _core
from narrows.errors import NarrowsError, named_by
from narrows.render.terminal import console, echo
from narrows.runs import scenario
from narrows.storage import output
from narrows.tune.collect import facts
from narrows.tune.diff import lines
from narrows.tune.findings import audit as look
from narrows.tune.findings.finding import Path
from narrows.tune.plan import Ask
from narrows.tune.planner import plan as make
from narrows.tune.render import audit_json, audit_lines

_WORST = {"error": 1}


@click.group()
def tune() -> None:
    """Look at this host's congestion control and queues, plan a change, make it, prove it, undo it.

    Example: narrows tune audit
    """


_ssh = click.option(
    "--ssh",
    metavar="HOST",
    help="Another host; nothing is installed there. Example: --ssh root@router",
)
_netns = click.option(
    "--netns", metavar="NAME", help="A network namespace of this host. Example: --netns blue"
)
_facts = click.option(
    "--facts",
    "facts_file",
    type=click.Path(dir_okay=False),
    help="What the collector printed once. Example: --facts host.txt",
)
_root = click.option(
    "--root",
    type=click.Path(file_okay=False),
    help="A tree with proc, sys and etc in it. Example: --root /mnt/image",
)
_rate = click.option(
    "--rate", help="Of the path that buffers should fill. Example: --rate 1Gbit --rtt 80ms"
)
_rtt = click.option("--rtt", help="Of that path. Example: --rate 1Gbit --rtt 80ms")


def _path(rate: str | None, rtt: str | None, option: str = "--rate") -> Any:  # noqa: ANN401

    if rate is None and rtt is None:
        return Path()
    if rate is None or rtt is None:
        raise NarrowsError("--rate and --rtt belong together: --rate 1Gbit --rtt 80ms")
    path = scenario.Path(rate=rate, rtt=rtt)
    with named_by({"path.rate": option, "path.rtt": "--rtt"}, {option: rate, "--rtt": rtt}.get):
        numbers = _core.path_numbers(
            scenario.Scenario(path, probes=[scenario.Ping()], duration="10s").tree()
        )
    return Path(rate_mbit=numbers["rate_mbit"], rtt_ms=numbers["rtts_ms"][0])


def _kbit(rate: str | None, option: str) -> int | None:
    return None if rate is None else round(1000 * _path(rate, "1ms", option).rate_mbit)


def _one_source(**sources: str | None) -> None:
    given = [f"--{name}" for name, value in sources.items() if value is not None]
    if len(given) > 1:
        raise NarrowsError(f"{' and '.join(given)}: one host at a time")


@tune.command()
@_ssh
@_netns
@_facts
@_root
@_rate
@_rtt
@click.option("--all", "every", is_flag=True, help="What is as it should be, too. Example: --all")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object. Example: --json | jq .findings"
)
@click.option(
    "--collector",
    is_flag=True,
    help="Print the script that collects, and end. Example: --collector > c.sh",
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
    """Say what a host does to its own traffic: what, why it matters, what changes it, where that is
    known from.

    It reads, changes nothing, and needs no privilege; as root it sees other namespaces, too. Exit
    code 1: something works against itself.

    Example: narrows tune audit

    Example: narrows tune audit --ssh root@router --rate 100Mbit --rtt 40ms
    """
    from narrows.tune.collect import facts, script  # noqa: PLC0415

    if collector:
        echo(script(), nl=False)
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


@tune.command()
@click.option(
    "--cc", metavar="NAME", help="The congestion control of new connections. Example: --cc bbr"
)
@click.option(
    "--qdisc",
    metavar="NAME",
    help="fq where pacing needs it, else as it is; or keep. Example: --qdisc fq",
)
@click.option(
    "--dev",
    "devices",
    metavar="NAME",
    multiple=True,
    help="--qdisc for this interface only. Example: --qdisc fq --dev eth0",
)
@click.option(
    "--to",
    metavar="PREFIX",
    multiple=True,
    help="--cc for this destination only. Example: --cc bbr --to 192.0.2.0/24",
)
@_rate
@_rtt
@click.option(
    "--ecn",
    type=click.Choice(["on", "off", "passive"]),
    help="Ask for it; not; answer only. Example: --ecn on",
)
@click.option(
    "--mtu-probing", is_flag=True, help="Try smaller packets after timeouts. Example: --mtu-probing"
)
@click.option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="A setting. Example: --set net.ipv4.tcp_sack=1",
)
@click.option(
    "--sqm",
    metavar="NAME",
    help="On OpenWrt: shape this interface with cake. Example: --sqm eth0 --down 90Mbit --up "
    "18Mbit",
)
@click.option(
    "--shape",
    metavar="NAME",
    help="Shape this interface, with --qdisc or the best. Example: --shape eth0 --up 18Mbit",
)
@click.option(
    "--down",
    help="Of a shaper, what comes in, a little below the line's. Example: --shape eth0 --down "
    "90Mbit",
)
@click.option("--up", help="The same of what goes out. Example: --shape eth0 --up 18Mbit")
@click.option(
    "--replace",
    is_flag=True,
    help="Even a queue discipline that somebody set up. Example: --qdisc fq --replace",
)
@click.option(
    "--install", is_flag=True, help="On OpenWrt: missing packages, too. Example: --install"
)
@_ssh
@_netns
@_facts
@_root
@click.option(
    "--sh",
    "script_file",
    type=output.File(allow_dash=True),
    help="A POSIX script. Example: --sh bbr.sh",
)
@click.option(
    "--json", "as_json", is_flag=True, help="The plan as a document. Example: --json > plan.json"
)
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
    """Say exactly what would be changed, and change nothing.

    Exit code 1: something that is never done unasked must be done first.

    Example: narrows tune plan --cc bbr --qdisc fq

    Example: narrows tune plan --cc bbr --ssh root@router --sh bbr.sh
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
    made = make(
        facts(ssh=ssh, netns=netns if here else None, root=root, file=facts_file), ask
    ).json()
    with output.every() as attempt:
        if script_file is not None:
            from narrows.tune.script import script  # noqa: PLC0415

            with attempt():
                _write(script_file, script(made))
        if as_json:
            echo(json.dumps(made, indent=1))
        elif script_file != "-":
            out = console()
            for line in lines(made):
                out.print(line, markup=False, soft_wrap=True)
    click.get_current_context().exit(0 if made["able"] else 1)


def _write(file: str, text: str) -> None:
    if file == "-":
        echo(text, nl=False)
        return
    output.write(file, text)
