"""Exactly what would be changed: a list of changes that can be read, carried out, and undone in the
opposite order.

Modules come first, then queue disciplines, settings, routes, and last the files that make it
outlast a reboot. Queue disciplines come before `net.core.default_qdisc`, so that on the way back
the default is the old one when the kernel attaches its own again. The document is described in
docs/reference/tune.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from narrows import __version__
from narrows.errors import NarrowsError
from narrows.tune import kernels, shaper
from narrows.tune.facts import Facts
from narrows.tune.findings import Path

VERSION = 1


NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,31}")


DEVICE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}")


VALUE = re.compile(r"[a-z0-9_]+( [a-z0-9_]+)*")


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What is wanted of a host."""

    cc: str | None = None
    qdisc: str | None = None
    """A kind; `keep`; None: fq where pacing needs it, else as it is."""
    devices: Sequence[str] = ()
    """These interfaces only, and not the default."""
    to: Sequence[str] = ()
    """These destinations only, and not the default."""
    ecn: str | None = None
    mtu_probing: bool = False
    path: Path = field(default_factory=Path)
    settings: Sequence[str] = ()
    """`key=value`."""
    sqm: str | None = None
    """On OpenWrt: this interface, to the slow side, is shaped to these rates."""
    shape: str | None = None
    """This interface is shaped to these rates, either or both, with `qdisc` or the best there
    is.
    """
    down_kbit: int | None = None
    up_kbit: int | None = None
    replace: bool = False
    install: bool = False
    netns: str | None = None


@dataclass(kw_only=True)
class Plan:
    """See docs/reference/tune.md."""

    title: str
    asked: dict[str, Any]
    host: dict[str, Any]
    netns: str | None
    changes: list[dict[str, Any]] = field(default_factory=list)
    needs: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, str]] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)

    def json(self) -> dict[str, Any]:
        """The document."""
        return {
            "narrows": __version__,
            "plan": VERSION,
            "title": self.title,
            "asked": self.asked,
            "host": self.host,
            "netns": self.netns,
            "able": not self.needs,
            "needs": self.needs,
            "changes": self.changes,
            "left": self.left,
            "effects": self.effects,
        }

    def change(
        self,
        kind: str,
        target: Any,  # noqa: ANN401
        before: Any,  # noqa: ANN401
        after: Any,  # noqa: ANN401
        why: str,
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Adds a change."""
        names = (
            [target]
            if isinstance(target, str)
            else [v for k, v in target.items() if v != "main" and k != "ifb"]
        )
        self.changes.append(
            {
                "id": ":".join([kind, *names]),
                "kind": kind,
                "phase": more.get("phase", "live"),
                "target": target,
                "from": before,
                "to": after,
                "why": why,
                "persist": more.get("persist"),
            }
        )


def check(facts: Facts, ask: Ask) -> None:
    """Raises a `NarrowsError` for something that is no name, or that cannot be on such a host."""
    for option, name in (("--cc", ask.cc), ("--qdisc", ask.qdisc)):
        if name is not None and not NAME.fullmatch(name):
            raise NarrowsError(f"{option} {name!r}: a name is made of small letters, digits and _")
    for name in ask.devices:
        if not DEVICE.fullmatch(name):
            raise NarrowsError(f"--dev {name!r}: this is not the name of an interface")
        if facts.interfaces and facts.interface(name) is None:
            known = ", ".join(one.name for one in facts.interfaces if not one.loopback) or "none"
            raise NarrowsError(f"--dev {name}: there is no such interface; there are: {known}")
    if ask.to and ask.cc is None:
        raise NarrowsError(
            "--to says for which destination; say which congestion control, too: --cc bbr"
        )
    if ask.devices and ask.qdisc in {None, "keep"}:
        raise NarrowsError(
            "--dev says which interface; say which queue discipline, too: --qdisc fq"
        )
    _check_shaper(facts, ask)
    if not (
        ask.shape
        or ask.sqm
        or ask.cc
        or ask.qdisc
        or ask.ecn
        or ask.mtu_probing
        or ask.settings
        or ask.path.bdp_bytes
    ):
        raise NarrowsError(
            "nothing is asked for; for instance: --cc bbr, --qdisc fq, --rate 1Gbit --rtt 80ms"
        )
    if ask.cc and ask.netns and kernels.has(facts.kernel, "cc_netns") is False and not ask.to:
        raise NarrowsError(
            f"--netns {ask.netns}: namespaces share one default here; "
            f"{kernels.FEATURES['cc_netns'].told}; "
            "leave --netns out, or name destinations: --to 192.0.2.0/24"
        )


def _check_shaper(facts: Facts, ask: Ask) -> None:
    if ask.shape is not None:
        known = [one.name for one in facts.interfaces if not one.loopback]
        there = ", ".join(known) or "none"
        asked = facts.interface(ask.shape)
        if asked is not None and asked.loopback:
            raise NarrowsError(
                f"--shape {ask.shape}: what goes over the loopback meets no line; there are: "
                f"{there}"
            )
        if not DEVICE.fullmatch(ask.shape) or (facts.interfaces and ask.shape not in known):
            raise NarrowsError(
                f"--shape {ask.shape}: there is no such interface; there are: {there}"
            )
        if ask.sqm is not None or ask.devices:
            raise NarrowsError("--shape names its interface itself; leave --sqm and --dev out")
        if ask.up_kbit is None and ask.down_kbit is None:
            raise NarrowsError(
                f"--shape needs a rate: --shape {ask.shape} --up 18Mbit, for what goes out, "
                "--down, or both"
            )
        if ask.qdisc is not None and ask.qdisc not in shaper.KINDS:
            raise NarrowsError(
                f"--qdisc {ask.qdisc}: a shaper has one of {', '.join(shaper.KINDS)}"
            )
        return
    if (ask.sqm is None) != (ask.down_kbit is None) or (ask.down_kbit is None) != (
        ask.up_kbit is None
    ):
        raise NarrowsError(
            "--sqm, --down and --up belong together: --sqm eth0 --down 90Mbit --up 18Mbit"
        )
    if ask.sqm is not None and not DEVICE.fullmatch(ask.sqm):
        raise NarrowsError(f"--sqm {ask.sqm!r}: this is not the name of an interface")
    if ask.sqm is not None and not facts.openwrt:
        raise NarrowsError(
            f"--sqm is for OpenWrt's shaper, and this is {facts.system}; cake-qos or sqm-scripts "
            "have others"
        )
