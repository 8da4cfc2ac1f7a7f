"""Makes the plan for a host: the changes that the requested options require, in their order."""

from __future__ import annotations

import math
import re
from dataclasses import asdict
from typing import Any

from narrows import registry
from narrows.errors import NarrowsError
from narrows.registry import paced, sysctls
from narrows.render.words import listed
from narrows.tune import kernels, routes, shaper
from narrows.tune.facts import Facts, Interface, Qdisc
from narrows.tune.facts import option as config_option
from narrows.tune.findings.queues import carriers, somebody_configured
from narrows.tune.findings.system import container
from narrows.tune.model import HostJson, Target
from narrows.tune.persist import (
    SYSCTL_FILE,
    SYSCTL_FILE_LAST,
    modules_file,
    qdisc_file,
    route_file,
    sysctl_text,
)
from narrows.tune.plan import (
    DEVICE,
    NAME,
    SENTENCES,
    VALUE,
    Ask,
    Change,
    Left,
    Need,
    Plan,
    absent,
    check,
)

_CLASS = re.compile(r"[0-9a-f]{1,4}:(root|ingress|[0-9a-f]{0,4}:[0-9a-f]{0,4})")
_CC = "net.ipv4.tcp_congestion_control"
_ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


def plan(facts: Facts, ask: Ask) -> Plan:
    """Returns a plan with the changes that the options require, in the order of application.

    Raises:
        NarrowsError: If an option has an invalid value, or one that this host cannot have.
    """
    check(facts, ask)
    made = _Making(facts, ask)
    if made.locked:
        made.tell()
        return made.plan
    made.congestion_control()
    made.queues()
    made.settings()
    made.sqm()
    made.shaper()
    made.routes()
    made.files()
    made.tell()
    return made.plan


class _Making:
    def __init__(self, facts: Facts, ask: Ask) -> None:
        self.facts, self.ask = facts, ask
        host: HostJson = {"name": facts.hostname, "kernel": facts.release, "system": facts.system}
        asked = {k: v for k, v in asdict(ask).items() if v not in (None, False, (), [])}
        self.plan = Plan(title="", asked=asked, host=host, netns=ask.netns)
        self.modules: list[str] = []
        self.kept: dict[str, str] = {}
        """Sysctls that the plan sets, which are also written to the file for the next boot."""
        self.done: list[str] = []
        kind = container(facts)
        self.locked = kind is not None and facts.locked
        self.inside = ask.netns is not None or facts.netns == "other"
        """Whether the plan is for a network namespace that shares the files and the kernel modules
        of its host.
        """
        self.restricted = self.inside or facts.netns == "container"
        """Whether the plan is not for the initial network namespace; a restricted congestion
        control then cannot be the default.
        """
        self.inner = (
            self.inside
            or kind is not None
            or (bool(facts.sysctl) and "net.core.default_qdisc" not in facts.sysctl)
        )
        if self.locked:
            self.need(
                "host",
                kind or "container",
                [],
                "settings cannot be written in this container; change the host that runs it",
            )

    def need(self, what: str, name: str, command: list[str], why: str) -> None:
        row = Need(what=what, name=name, command=command, why=why)
        if row not in self.plan.needs:
            self.plan.needs.append(row)

    def leave(self, what: str, why: str, fix: str = "") -> None:
        self.plan.left.append(Left(what=what, why=why, fix=fix))

    # Congestion control

    def congestion_control(self) -> None:
        cc = self.ask.cc
        if cc is None or not self.module("tcp_" + cc, self.facts.has_cc(cc), feature=cc):
            return
        if self.ask.to:
            return
        self.kept["net.ipv4.tcp_congestion_control"] = cc
        self.done.append(f"new TCP connections use {cc}")

    def module(self, name: str, where: str | None, *, feature: str, boot: bool = True) -> bool:
        """Plans to load a module now and, with `boot`, at boot; returns False if it is not
        available.
        """
        facts, distribution = self.facts, self.facts.distribution[0]
        if where in {"missing", None}:
            since = kernels.FEATURES.get(feature)
            config = facts.config.get(config_option(name))
            if since is not None and kernels.has(facts.kernel, feature) is False:
                cure = kernels.newer_kernel(*facts.distribution, facts.machine, since.since)
                release = f"{since.since[0]}.{since.since[1]}"
                told = (
                    f"{feature} needs Linux {release} or newer, and this host runs {facts.release}"
                )
                if cure is None:
                    self.need(
                        "kernel",
                        "",
                        [],
                        f"{told}; narrows knows no package of {facts.system} that contains it",
                    )
                else:
                    self.need(
                        "kernel",
                        cure.name,
                        cure.command,
                        f"{told}. Install the package {cure.name} ({cure.why}) and reboot",
                    )
                return False
            apk = "/usr/bin/apk" in facts.there
            cure = kernels.module_package(distribution, name, facts.release, apk=apk)
            if config == "n" or cure is None:
                told = (
                    "is built without it"
                    if config == "n"
                    else "has it neither built in nor as a module"
                )
                self.need(
                    "module", name, [], f"{name} is missing: the kernel of {facts.system} {told}"
                )
                return False
            if not self.ask.install:
                self.need(
                    "package",
                    cure.name,
                    cure.command,
                    f"{name} is missing; {cure.why}"
                    + ("; --install installs the package" if distribution == "openwrt" else ""),
                )
                return False
            if distribution != "openwrt":
                self.need("package", cure.name, cure.command, f"{name} is missing; {cure.why}")
                return False
            self.change("package", cure.name, "absent", "installed", cure.why)
            where = "loadable"
        if where in {"loadable", "loaded"} and not self.inside:
            if boot and name not in self.modules:
                self.modules.append(name)
            if where == "loadable":
                self.change(
                    "module",
                    name,
                    "absent",
                    "loaded",
                    f"the kernel has {feature} as a module",
                    persist=modules_file(self.facts) if boot else None,
                )
        elif where == "loadable":
            self.need(
                "module",
                name,
                ["modprobe", name],
                f"{name} must first be loaded outside of the namespace",
            )
            return False
        return True

    # Queue disciplines

    def queues(self) -> None:
        facts, ask = self.facts, self.ask
        kind = ask.qdisc
        if kind == "keep" or ask.shape is not None:
            return
        if kind is None:
            if ask.cc not in paced() or kernels.has(facts.kernel, "pacing") is not False or ask.to:
                self.plan.effects += (
                    kernels.own_timers(facts.kernel, ask.cc) if ask.cc in paced() else []
                )
                return
            kind = "fq"
            self.plan.effects.append(
                f"{ask.cc} needs fq on this kernel, so fq is part of the plan "
                f"({kernels.FEATURES['pacing'].told})."
            )
        state = "builtin" if registry.built_in(kind) else facts.has_module("sch_" + kind)
        if state is None and facts.value("net.core.default_qdisc") == kind:
            state = "builtin"
        if not self.module("sch_" + kind, state, feature=kind):
            return
        chosen = (
            [one for name in ask.devices if (one := facts.interface(name))]
            if ask.devices
            else carriers(facts)
        )
        for one in chosen:
            self.interface(one, kind, named=bool(ask.devices))
        if ask.devices:
            return
        if self.inner:
            self.leave(
                "net.core.default_qdisc",
                "it belongs to the initial network namespace",
                "select interfaces: --dev eth0",
            )
            return
        self.kept["net.core.default_qdisc"] = kind
        self.done.append(f"interfaces that come up later get {kind}")

    # The method returns after each reason not to change the interface.
    def interface(self, one: Interface, kind: str, *, named: bool) -> None:  # noqa: PLR0911
        root = one.root
        if not DEVICE.fullmatch(one.name):
            self.leave(repr(one.name), "its name has characters that plans do not allow")
            return
        if any(
            not NAME.fullmatch(q.kind) or not _CLASS.fullmatch(q.handle + q.parent)
            for q in one.qdiscs
        ):
            self.leave(one.name, "the output of tc for it could not be read")
            return
        if root is None:
            if "tc" in self.facts.said:
                self.leave(one.name, "tc reports no queue discipline")
            else:
                self.leave(
                    one.name,
                    "its queue discipline is unknown: tc is missing",
                    "install iproute2 (OpenWrt: tc-tiny)",
                )
            return
        leaves = one.leaves
        foreign = [q for q in one.qdiscs if somebody_configured(q)]
        if all(leaf.kind == kind for leaf in leaves) and leaves:
            if named:
                self.done.append(f"{one.name} has {kind}")
            return
        if foreign and not self.ask.replace:
            names = listed(sorted({q.kind for q in foreign}))
            self.leave(
                one.name,
                f"it has {names}, configured by an administrator",
                "--replace replaces it",
            )
            return
        if root.kind == "noqueue" and not (named and self.ask.replace):
            why = (
                "its packets wait in the fair queues of mac80211"
                if one.wireless
                else "it has no queue; a device below it has one"
            )
            self.leave(
                one.name, why, "" if one.wireless else f"--dev {one.name} --replace adds one"
            )
            return
        file = self.interface_file(one, kind) if named else (None if self.inner else SYSCTL_FILE)
        why = f"an interface that is up keeps its {root.kind} when the default changes"
        target = {"dev": one.name, "parent": "root"}
        self.done.append(f"{one.name} gets {kind}")
        if root.kind != "mq":
            self.change("qdisc", target, _was(root), _wanted(kind), why, persist=file)
            return
        handle = root.handle
        if root.attached_by_kernel:
            handle = "1:"
            again = {"kind": "mq", "handle": handle, "options": {}}
            self.change(
                "qdisc",
                target,
                _was(root),
                again,
                "only classes of a named mq can be changed",
                persist=file,
            )
        for leaf in sorted(leaves, key=lambda leaf: int(leaf.parent.rpartition(":")[2] or "0", 16)):
            why = (
                f"a queue of an interface that is up keeps its {leaf.kind} when the default changes"
            )
            parent = f"{handle}{leaf.parent.rpartition(':')[2]}"
            before = None if root.attached_by_kernel else _was(leaf)
            self.change(
                "qdisc",
                {"dev": one.name, "parent": parent},
                before,
                _wanted(kind),
                why,
                persist=file,
            )

    def interface_file(self, one: Interface, kind: str) -> str | None:
        if self.inside:
            return None
        found = qdisc_file(self.facts, one, kind)
        if found is None:
            self.leave(
                f"{one.name} after a reboot",
                "the program that configures this interface at boot is unknown",
            )
            return None
        self.file(*found, f"{one.name} gets {kind} again at boot")
        return found[0]

    # Settings

    def settings(self) -> None:
        ask = self.ask
        if ask.ecn is not None:
            value = {"on": "1", "off": "0", "passive": "2"}.get(ask.ecn)
            if value is None:
                raise NarrowsError(f"--ecn {ask.ecn}: must be one of on, off, passive")
            self.kept["net.ipv4.tcp_ecn"] = value
            self.done.append(
                {"1": "ECN is requested", "0": "ECN is off", "2": "ECN is accepted only"}[value]
            )
        if ask.mtu_probing:
            self.kept["net.ipv4.tcp_mtu_probing"] = "1"
            self.done.append("TCP probes smaller packets after timeouts")
        self.buffers()
        for setting in ask.settings:
            key, sign, value = setting.partition("=")
            key, value = key.strip(), " ".join(value.split())
            if key not in sysctls():
                raise NarrowsError(f"--set {setting}: not one of {', '.join(sysctls())}")
            if not sign or not re.fullmatch(sysctls()[key]["pattern"], value):
                raise NarrowsError(f"--set {setting}: {value!r} is not a value of {key}")
            self.kept[key] = value
            self.done.append(f"{key} is {value}")
        for key, value in self.kept.items():
            self.setting(key, value)

    def setting(self, key: str, value: str) -> None:
        was = self.facts.value(key)
        if was == value or (key == _CC and self.restricted and not self.allowed(value)):
            return
        if was is None:
            if sysctls()[key]["global"] and self.inner:
                self.leave(key, "it belongs to the initial network namespace")
            else:
                self.need("kernel", key, [], f"{key} cannot be read on this host")
            return
        if not VALUE.fullmatch(was):
            raise NarrowsError(f"{key}: the current value {was!r} could not be restored")
        self.change(
            "sysctl", key, was, value, _WHY.get(key, "as requested"), persist=self.sysctl_file()
        )

    def allowed(self, cc: str) -> bool:
        """Whether a congestion control can be the default here. Outside of the initial network
        namespace, the kernel accepts only unrestricted ones.
        """
        everybody = (self.facts.value(_ALLOWED) or cc).split()
        if cc not in everybody:
            self.need(
                "setting",
                _ALLOWED,
                ["sysctl", "-w", f"{_ALLOWED}={' '.join([*everybody, cc])}"],
                f"{cc} is restricted, and outside of the initial network namespace the default "
                "must be one of "
                f"{', '.join(everybody)}; allow it on the host, or name destinations: --to default",
            )
        return cc in everybody

    def sysctl_file(self) -> str | None:
        if self.inside or self.locked:
            return None
        later = [
            line
            for line in self.facts.boot_order()
            if line.key in self.kept
            and line.value != self.kept[line.key]
            and line.file.rpartition("/")[2] > SYSCTL_FILE.rpartition("/")[2]
            and not line.file.endswith("narrows.conf")
        ]
        if self.facts.own.get(SYSCTL_FILE_LAST) or any(
            line.file != "etc/sysctl.conf" for line in later
        ):
            return SYSCTL_FILE_LAST
        return SYSCTL_FILE

    def buffers(self) -> None:
        bdp = self.ask.path.bdp_bytes
        if bdp is None:
            return
        most = math.ceil(2 * bdp / 65536) * 65536
        for key in ("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"):
            now = self.facts.numbers(key)
            if len(now) != 3:  # noqa: PLR2004 - least, default, most
                self.leave(key, "it is not readable here")
            elif now[2] >= most:
                self.leave(
                    key,
                    f"its limit of {now[2]} bytes is already at least twice the bandwidth-delay "
                    f"product of the path, {bdp:.0f} bytes",
                )
            else:
                self.kept[key] = f"{now[0]} {now[1]} {most}"
                self.done.append(f"{key} may grow to {most} bytes")

    # Shapers

    def shaper(self) -> None:
        facts, ask = self.facts, self.ask
        if ask.shape is None:
            return
        one = facts.interface(ask.shape) or Interface(name=ask.shape)
        kind, incoming = ask.qdisc or shaper.best(facts), ask.down_kbit is not None
        missing = [
            name for name in shaper.modules(kind, incoming=incoming) if not self.shapes(name, kind)
        ]
        if missing:
            return
        link = shaper.ifb(one.name)
        out = [q for q in one.qdiscs if q.parent != "ingress"] if ask.up_kbit is not None else []
        into = [q for q in one.qdiscs if q.parent == "ingress"] if incoming else []
        foreign = [q for q in out if somebody_configured(q)] + into
        ours = not into or facts.interface(link) is not None
        if foreign and not (ask.replace and ours):
            fix = "--replace replaces it" if ours else "remove it manually"
            self.leave(
                one.name,
                f"it has {listed(sorted({q.kind for q in foreign}))}, configured by an "
                "administrator",
                fix,
            )
            return
        below = f"tbf with {kind}" if kind != "cake" else kind
        if ask.up_kbit is not None:
            before = None if one.root is None else _was(one.root)
            for parent, wanted in shaper.disciplines(kind, ask.up_kbit, shaper.free(one)).items():
                why = (
                    "the queue forms in the shaper, which keeps it short"
                    if parent == "root"
                    else "it is the child of the token bucket filter"
                )
                found = before if parent == "root" else None
                self.change("qdisc", {"dev": one.name, "parent": parent}, found, wanted, why)
            self.done.append(
                f"{below} shapes outgoing traffic of {one.name} to {ask.up_kbit} kbit/s"
            )
        if ask.down_kbit is not None:
            inner = shaper.disciplines(kind, ask.down_kbit, "1:")
            why = "incoming traffic can only be queued on an intermediate device (ifb)"
            self.change("ingress", {"dev": one.name, "ifb": link}, None, inner, why)
            self.done.append(
                f"{below} shapes incoming traffic of {one.name} to {ask.down_kbit} kbit/s"
            )
        self.plan.effects.append(
            "Shaping needs CPU time: check with `top` under load that no CPU of this host is fully "
            "used."
        )

    def shapes(self, module: str, kind: str) -> bool:
        """Plans to load a module of a shaper; if the module is missing, the plan names the nearest
        alternative. Returns whether it is available.
        """
        facts = self.facts
        where = facts.has_module(module) or "builtin"  # unknown here; `apply` checks it
        if self.module(module, where, feature=module.removeprefix("sch_"), boot=False):
            return True
        nearest = shaper.nearest(facts, kind)
        if module == f"sch_{kind}" and nearest is not None:
            self.plan.needs[-1].why += f"; nearest available alternative: --qdisc {nearest}"
        return False

    def sqm(self) -> None:
        facts, ask = self.facts, self.ask
        if ask.sqm is None:
            return
        if facts.interfaces and facts.interface(ask.sqm) is None:
            known = ", ".join(one.name for one in facts.interfaces if not one.loopback)
            raise NarrowsError(f"--sqm {absent(ask.sqm, known)}")
        cake = facts.has_module("sch_cake") in {"builtin", "loaded", "loadable"}
        for name in ["sqm-scripts"] if cake else ["kmod-sched-cake", "sqm-scripts"]:
            if name in facts.packages:
                continue
            tool = ["apk", "add"] if "/usr/bin/apk" in facts.there else ["opkg", "install"]
            if ask.install:
                self.change("package", name, "absent", "installed", _SQM_PACKAGES[name])
            else:
                self.need(
                    "package",
                    name,
                    [*tool, name],
                    f"the package {name} is missing: {_SQM_PACKAGES[name]}; --install installs it",
                )
        if facts.sqm and not ask.replace:
            self.leave(
                "/etc/config/sqm",
                "it was configured by an administrator",
                "--replace adds a shaper of narrows",
            )
            return
        wanted = {
            "": "queue",
            ".interface": ask.sqm,
            ".download": str(ask.down_kbit),
            ".upload": str(ask.up_kbit),
            ".qdisc": "cake",
            ".script": "piece_of_cake.qos",
            ".enabled": "1",
        }
        for key, value in wanted.items():
            why = (
                "the section of this shaper in /etc/config/sqm"
                if not key
                else f"rate of --{key.removeprefix('.').removesuffix('load')}, kbit/s"
                if "load" in key
                else "required by sqm-scripts"
            )
            self.change("uci", f"sqm.narrows{key}", None, value, why)
        self.done.append(
            f"cake shapes incoming traffic of {ask.sqm} to {ask.down_kbit} kbit/s and outgoing "
            f"traffic to {ask.up_kbit} kbit/s"
        )
        self.plan.effects.append(
            "Shaping needs CPU time: check with `top` under load that no CPU of this router is "
            "fully used."
        )

    # Routes

    def routes(self) -> None:
        for text in self.ask.to:
            self.route(text)

    def route(self, text: str) -> None:
        cc = self.ask.cc
        assert cc is not None
        network = routes.network(text)
        prefix = "default" if network.prefixlen == 0 else str(network)
        family = "inet" if network.version == 4 else "inet6"  # noqa: PLR2004 - IPv4
        if kernels.has(self.facts.kernel, "congctl") is False:
            told = kernels.FEATURES["congctl"].told
            self.need(
                "kernel", "", [], f"a congestion control per route requires a newer kernel ({told})"
            )
            return
        known = [(routes.words(line), line) for of, line in self.facts.routes if of == family]
        exact = next((words for words, _ in known if words and words[0] == prefix), None)
        covering = exact or routes.covering(network, [words for words, _ in known if words])
        if covering is None:
            raise NarrowsError(f"--to {text}: this host has no route to this destination")
        if exact is not None and routes.congctl(exact) == cc:
            self.done.append(f"{prefix} uses {cc} already")
            return
        kept = routes.stripped(covering)
        after = [prefix, *(kept[1:] if exact else routes.next_hop(kept)), "congctl", cc]
        for word in [*after, *(exact or [])]:
            if not re.fullmatch(r"[A-Za-z0-9_.:/@%-]+", word) or word.startswith("-"):
                raise NarrowsError(
                    f"--to {text}: the route to it contains an unsupported word: {word!r}"
                )
        target = {"family": family, "table": "main", "prefix": prefix}
        why = (
            f"connections to {prefix} use {cc} independently of the default "
            f"({kernels.FEATURES['congctl'].told})"
        )
        found = None if self.inside else route_file(self.facts, family, after)
        if found is None and not self.inside:
            fix = f"add this command to its configuration: ip route replace {' '.join(after)}"
            self.leave(
                f"{prefix} after a reboot",
                "the program that sets the routes of this host at boot is unknown",
                fix,
            )
        self.done.append(f"connections to {prefix} use {cc}")
        self.change("route", target, exact, after, why, persist=found and found[0])
        if found:
            self.file(*found, f"the route to {prefix} has {cc} again at boot")
        self.plan.effects.append(
            "A DHCP client or routing daemon that replaces this route removes the setting."
        )

    def change(
        self,
        kind: str,
        target: Target,
        before: Any,  # noqa: ANN401 - a value, or a table of them
        after: Any,  # noqa: ANN401
        why: str,
        *,
        phase: str = "live",
        persist: str | None = None,
    ) -> None:
        made = Change(
            kind=kind,
            target=target,
            before=before,
            after=after,
            why=why,
            phase=phase,
            persist=persist,
        )
        self.plan.changes.append(made)

    # Files

    def file(self, path: str, text: str, mode: str, why: str) -> None:
        before = self.facts.own.get(path)
        for change in self.plan.changes:
            if change.kind == "file" and change.target == path:
                change.after["text"] += text
                return
        if before != text:
            was = None if before is None else {"text": before, "mode": mode}
            self.change("file", path, was, {"text": text, "mode": mode}, why, phase="boot")

    def files(self) -> None:
        changes = self.plan.changes
        early = [change for change in changes if change.kind == "file"]
        changes[:] = [change for change in changes if change.kind != "file"]
        if not self.inside and not self.locked and not self.plan.needs:
            if self.modules and (path := modules_file(self.facts)):
                own = self.facts.own.get(path, "")
                names = sorted({*self.modules, *(w for w in own.split("\n") if NAME.fullmatch(w))})
                self.file(
                    path,
                    "".join(f"{name}\n" for name in names),
                    "0644",
                    "modules must be loaded before the settings",
                )
            due = {key: value for key, value in self.kept.items() if not self.decided(key, value)}
            if due:
                path = self.sysctl_file() or SYSCTL_FILE
                text = sysctl_text({**_settings_of(self.facts.own.get(path, "")), **self.kept})
                self.file(path, text, "0644", "settings without a file are lost at a reboot")
        changes.extend(early)
        for change in changes:
            if (
                change.kind == "qdisc"
                and change.persist == SYSCTL_FILE
                and self.sysctl_file() == SYSCTL_FILE_LAST
            ):
                change.persist = SYSCTL_FILE_LAST

    def decided(self, key: str, value: str) -> bool:
        line = self.facts.decided(key)
        if line is not None:
            return line.value == value
        compiled = self.facts.config.get("CONFIG_DEFAULT_TCP_CONG")
        return (
            key == "net.ipv4.tcp_congestion_control"
            and value == compiled
            and self.facts.value(key) == value
        )

    # Words

    def tell(self) -> None:
        plan, kinds = self.plan, {change.kind for change in self.plan.changes}
        plan.title = "; ".join(self.done) or "nothing"
        if plan.title.split()[0] in SENTENCES:
            plan.title = plan.title[0].upper() + plan.title[1:]
        if plan.needs:
            plan.changes.clear()
        if not plan.changes:
            plan.title = (
                "No changes are needed" if not plan.needs else "No changes are possible yet"
            )
            plan.effects.clear()
            return
        if any(change.id == "sysctl:net.ipv4.tcp_congestion_control" for change in plan.changes):
            plan.effects.append(
                "Existing connections keep their congestion control until they end. Services need "
                "no restart: new connections use the default, unless a service selects its own."
            )
            if self.facts.forwards:
                plan.effects.append(
                    "This host forwards packets: its congestion control does not affect forwarded "
                    "connections."
                )
            if self.facts.spaces:
                plan.effects.append("Existing network namespaces (containers) keep their default.")
        if self.facts.forwards and self.kept.get("net.core.default_qdisc") == "fq":
            plan.effects.append(
                "This host forwards packets: fq paces local connections; fq_codel or cake is "
                "better for forwarded ones."
            )
        last = self.facts.decided("net.ipv4.tcp_congestion_control")
        if (
            last is not None
            and last.file == "etc/sysctl.conf"
            and last.key in self.kept
            and last.value != self.kept[last.key]
        ):
            self.leave(
                f"/{last.file}",
                f"it contains `{last.text}` and is read after every drop-in",
                "remove this line manually",
            )
        if "file" in kinds:
            plan.effects.append(
                "The changes need no reboot and no `sysctl -p`; the files are for the next boot."
            )
        elif not self.inside:
            plan.effects.append(_lasts(kinds))
        else:
            plan.effects.append("The changes last as long as the namespace.")


def _lasts(kinds: set[str]) -> str:
    """A sentence about the duration of changes that write no file of `narrows tune`."""
    if "uci" in kinds:
        packages = " and the packages that the script installed" if "package" in kinds else ""
        return (
            "The change is stored in /etc/config/sqm and persists across reboots. The script with "
            f"the argument `revert` removes this change{packages}."
        )
    return (
        "The change is not stored for the next boot: after a reboot, the existing configuration "
        "files apply."
    )


_SQM_PACKAGES = {
    "sqm-scripts": "it configures the shaper, also at boot",
    "kmod-sched-cake": "it contains the queue discipline cake",
}

_WHY = {
    "net.ipv4.tcp_congestion_control": "new connections use the default, unless a program or route "
    "selects another one",
    "net.core.default_qdisc": "interfaces that come up use the default",
    "net.ipv4.tcp_wmem": "the send buffer limits the data in flight, and about half of it is "
    "payload",
    "net.ipv4.tcp_rmem": "the receive window is about half of the receive buffer",
    "net.ipv4.tcp_ecn": "queues that mark packets signal congestion without loss",
    "net.ipv4.tcp_mtu_probing": "full packets are lost on tunnels with filtered ICMP messages",
}


def _was(one: Qdisc) -> shaper.Discipline:
    return {"kind": one.kind, "handle": one.handle, "options": {}}


def _wanted(kind: str) -> shaper.Discipline:
    return {"kind": kind, "handle": None, "options": {}}


def _settings_of(text: str) -> dict[str, str]:
    rows = [
        line.partition("=") for line in text.split("\n") if "=" in line and not line.startswith("#")
    ]
    return {
        k.strip(): v.strip()
        for k, _, v in rows
        if k.strip() in sysctls() and VALUE.fullmatch(v.strip())
    }
