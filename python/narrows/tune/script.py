"""Writes a plan as a POSIX script, for systems without Python (dash, busybox, OpenWrt).

    sh plan.sh apply      make the changes; the first failure reverts the earlier ones
    sh plan.sh revert     revert them, in the opposite order
    sh plan.sh verify     check them; exit code 1: not (or no longer) in effect

The script compares the present state of the host with the state that the plan found. It changes
nothing if the host is neither in this state nor in the planned one. Every value is quoted, although
plans already reject all characters that a shell interprets.
"""

from __future__ import annotations

import re
import shlex
from importlib import resources

from narrows.errors import NarrowsError
from narrows.registry import sysctls
from narrows.tune.model import FileJson, QdiscJson
from narrows.tune.plan import DEVICE, NAME, VALUE, Change, Plan

_q = shlex.quote
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]{0,99}")
_UCI = re.compile(r"[a-z0-9_]+\.[A-Za-z0-9_@\[\]-]+(\.[A-Za-z0-9_]+)?")
_UCI_VALUE = re.compile(r"[A-Za-z0-9_.,:-]{0,64}")
_PATH = re.compile(r"/etc/(?:[A-Za-z0-9_.@-]+/)+(?:[0-9]|narrows)[A-Za-z0-9_.@-]*")
_HANDLE = re.compile(r"[0-9a-f]{1,4}:")
_PARENT = re.compile(r"root|[0-9a-f]{1,4}:[0-9a-f]{1,4}")
_OPTION = re.compile(r"rate|burst|limit|bandwidth")
_AMOUNT = re.compile(r"[0-9]{1,10}(kbit|b)")
_WORD = re.compile(r"[A-Za-z0-9_.:/@%][A-Za-z0-9_.:/@%-]*")


def _part(name: str) -> str:
    return (resources.files("narrows.tune") / name).read_text(encoding="utf-8")


def script(plan: Plan) -> str:
    """The text of the script.

    Raises:
        NarrowsError: If the plan contains a value that is not allowed, or is for a network
            namespace.
    """
    parts = [_part("script_head.sh")]
    title = re.sub(r"[^ -~]", "?", plan.title)
    parts.append(f"# {title}.")
    netns = plan.netns
    if netns is not None:
        raise NarrowsError(
            f"a script is for a host; in the namespace {netns}: ip netns exec {netns} sh -s apply "
            "< SCRIPT"
        )
    parts.append(_before(plan))
    numbers = [str(n) for n in range(1, len(plan.changes) + 1)]
    for number, change in zip(numbers, plan.changes, strict=True):
        parts.append(_change(number, change))
    parts.append(f"numbers={_q(' '.join(numbers))}\nbackwards={_q(' '.join(reversed(numbers)))}")
    parts.append(_part("script_tail.sh"))
    return "\n".join(parts)


def _before(plan: Plan) -> str:
    lines = ["before() {", "  :"]
    for need in plan.needs:
        text = need.why + (f": {shlex.join(need.command)}" if need.command else "")
        lines.append(f"  fail {_q('required first: ' + re.sub(r'[^ -~]', '?', text))}")
    if plan.needs:
        lines.append("  exit 3")
    return "\n".join([*lines, "}"])


def _must(rule: re.Pattern[str] | str, value: str, what: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(rule, value) or ".." in value:
        raise NarrowsError(f"{what} {value!r}: not in a plan")
    return value


def _name(change: Change) -> str:
    """The target of a change whose target is a name."""
    if not isinstance(change.target, str):
        raise NarrowsError(f"{change.kind} {change.target!r}: not in a plan")
    return change.target


def _key(change: Change, key: str) -> str:
    """The value of a key in the target of a change whose target has several keys."""
    if not isinstance(change.target, dict):
        raise NarrowsError(f"{change.kind} {change.target!r}: not in a plan")
    return change.target[key]


def _change(number: str, change: Change) -> str:
    kind = change.kind
    writer = _KINDS.get(kind)
    if writer is None:
        raise NarrowsError(f"a plan has no changes of kind {kind!r}")
    name, state, make, back = writer(change)
    if kind in _OF_THE_HOST:
        state = f"of_the_host || return; {state}"
    return (
        f"name_{number}() {{ say {_q(name)}; }}\nstate_{number}() {{ {state}; }}\n"
        f"make_{number}() {{ {make}; }}\nback_{number}() {{ {back}; }}"
    )


Parts = tuple[str, str, str, str]


def _sysctl(change: Change) -> Parts:
    key = _name(change)
    if key not in sysctls():
        raise NarrowsError(f"sysctl {key!r}: not in a plan")
    old = _q(_must(VALUE, change.before, key))
    new = _q(_must(sysctls()[key]["pattern"], change.after, key))
    return (
        f"{key}",
        f'judge "$(sysctl_get {key})" {old} {new}',
        f"sysctl_set {key} {new}",
        f"sysctl_set {key} {old}",
    )


def _module(change: Change) -> Parts:
    name = _must(r"[a-z0-9][a-z0-9_]{0,63}", _name(change), "module")
    back = f"module_set {name} absent"
    # A module that is in use stays loaded, which has no effect by itself.
    return (
        f"module {name}",
        f'judge "$(module_get {name})" absent loaded',
        f"module_set {name} loaded",
        back,
    )


def _kind(value: QdiscJson) -> tuple[str, str | None]:
    handle = value["handle"]
    return _must(NAME, value["kind"], "qdisc"), None if handle is None else _must(
        _HANDLE, handle, "handle"
    )


def _words(value: QdiscJson) -> str:
    """A queue discipline as arguments of tc: handle, kind and options."""
    kind, handle = _kind(value)
    options = [
        (_must(_OPTION, k, "option"), _must(_AMOUNT, v, k)) for k, v in value["options"].items()
    ]
    return " ".join(
        [
            *([] if handle is None else ["handle", handle]),
            kind,
            *(w for pair in options for w in pair),
        ]
    )


def _qdisc(change: Change) -> Parts:
    dev = _must(DEVICE, _key(change, "dev"), "interface")
    parent = _must(_PARENT, _key(change, "parent"), "parent")
    new, handle = _kind(change.after)
    before = change.before
    name = f"qdisc of {dev}" + ("" if parent == "root" else f" {parent}")
    if parent != "root":
        # A leaf under a new mq has the default queue discipline of the kernel, which is not known
        # here.
        state = f'[ "$(leaf_kind {_q(dev)} {parent})" = {new} ] && return 1; return 0'
        back = (
            ":"
            if before is None
            else f"tc qdisc replace dev {_q(dev)} parent {parent} {_kind(before)[0]}"
        )
        return (
            name,
            state,
            f"tc qdisc replace dev {_q(dev)} parent {parent} {_words(change.after)}",
            back,
        )
    old, its = ("", None) if before is None else _kind(before)
    state = f'judge "$(root_kind {_q(dev)})" {_q(old)} {new}'
    if old == new:  # mq that gets a name
        state = f'[ "$(root_handle {_q(dev)})" = {handle} ] && return 1; return 0'
    back = f"qdisc_back {_q(dev)} {_q(old)} {its or '0:'}"
    return name, state, f"tc qdisc replace dev {_q(dev)} root {_words(change.after)}", back


def _ingress(change: Change) -> Parts:
    dev, ifb = (_q(_must(DEVICE, _key(change, key), "interface")) for key in ("dev", "ifb"))
    to = change.after
    made = [f"ip link add name {ifb} type ifb", f"ip link set {ifb} up"]
    for parent in sorted(to, reverse=True):
        place = "root" if parent == "root" else f"parent {_must(_PARENT, parent, 'parent')}"
        made.append(f"tc qdisc replace dev {ifb} {place} {_words(to[parent])}")
    made += [
        f"tc qdisc add dev {dev} handle ffff: ingress",
        f"tc filter add dev {dev} parent ffff: protocol all u32 match u32 0 0 flowid 1:1 "
        f"action mirred egress redirect dev {ifb}",
    ]
    state = f"""judge "$(ingress_get {dev} {ifb})" '' {_kind(to["root"])[0]}"""
    back = f"tc qdisc del dev {dev} ingress 2> /dev/null; ip link del {ifb}"
    return f"ingress of {_key(change, 'dev')}", state, " && ".join(made), back


def _route(change: Change) -> Parts:
    version = {"inet": "-4", "inet6": "-6"}[_key(change, "family")]
    prefix = _must(_WORD, _key(change, "prefix"), "route")

    def words(value: list[str]) -> str:
        return " ".join(_q(_must(_WORD, word, "route")) for word in value)

    cc = _must(NAME, change.after[-1], "congctl")
    show = f"ip {version} route show table main exact {_q(prefix)}"
    state = f'case "$({show}) " in *" congctl {cc} "*) return 1 ;; esac; return 0'
    make = f"ip {version} route replace {words(change.after)}"
    if change.before is None:
        back = f"ip {version} route del {words(change.after)}"
    else:
        back = f"ip {version} route replace {words(change.before)}"
    return f"route to {prefix}", state, make, back


def _file(change: Change) -> Parts:
    path = _must(_PATH, _name(change), "file")

    def text(value: FileJson) -> str:
        if re.search(r"[^\n -~]", value["text"]):
            raise NarrowsError(f"file {path}: contains a character that plans must not contain")
        return _q(value["text"])

    new, mode = text(change.after), _must(r"0[0-7]{3}", change.after["mode"], "mode")
    before = change.before
    # $(...) removes trailing newlines. The appended dot prevents this on both sides.
    is_new = f'[ "$(file_get {path}; echo .)" = "$(printf %s {new}; echo .)" ] && return 1'
    if before is None:
        return (
            f"file {path}",
            f"{is_new}; [ -e {path} ] && return 2; return 0",
            f"file_set {path} {new} {mode}",
            f"file_drop {path}",
        )
    old = text(before)
    return (
        f"file {path}",
        f'{is_new}; [ "$(file_get {path}; echo .)" = "$(printf %s {old}; echo .)" ] && return 0; '
        "return 2",
        f"file_set {path} {new} {mode}",
        f"file_set {path} {old} {_must(r'0[0-7]{3}', before['mode'], 'mode')}",
    )


def _package(change: Change) -> Parts:
    name = _must(_PACKAGE, _name(change), "package")
    has = f"opkg list-installed 2> /dev/null | grep -q '^{re.escape(name)} '"
    apk = f"apk info -e {name} > /dev/null 2>&1"
    state = f"{{ {has}; }} && return 1; {apk} && return 1; return 0"
    make = (
        f"if command -v opkg > /dev/null; then opkg update > /dev/null; opkg install {name}; "
        f"else apk add {name}; fi"
    )
    back = f"if command -v opkg > /dev/null; then opkg remove {name}; else apk del {name}; fi"
    return f"package {name}", state, make, back


def _uci(change: Change) -> Parts:
    key = _must(_UCI, _name(change), "uci")
    config = key.partition(".")[0]
    new = _q(_must(_UCI_VALUE, change.after, "uci"))
    state = f'[ "$(uci -q get {_q(key)})" = {new} ] && return 1; return 0'
    make = f"uci set {_q(key)}={new} && uci commit {config}"
    if key.endswith(".enabled"):
        make += f" && /etc/init.d/{config} enable && /etc/init.d/{config} restart"
    if change.before is None:
        back = f"uci -q delete {_q(key)}; uci commit {config}"
        if key.endswith(".enabled"):
            back = f"{back}; /etc/init.d/{config} restart"
    else:
        back = (
            f"uci set {_q(key)}={_q(_must(_UCI_VALUE, change.before, 'uci'))} && uci commit "
            f"{config}"
        )
    return key, state, make, back


_OF_THE_HOST = {"module", "file", "package", "uci"}
"""Kinds of changes that affect the whole host and not only a network namespace."""

_KINDS = {
    "sysctl": _sysctl,
    "module": _module,
    "qdisc": _qdisc,
    "ingress": _ingress,
    "route": _route,
    "file": _file,
    "package": _package,
    "uci": _uci,
}
