"""Renders a plan as text: current values, new values and reasons."""

from __future__ import annotations

import shlex

from narrows.render.terminal import within_line
from narrows.tune.model import State
from narrows.tune.plan import SENTENCES, Change, Plan


def _name(change: Change) -> str:
    target = change.target
    if isinstance(target, str):
        return f"{change.kind} {target}"
    if change.kind == "qdisc":
        place = "" if target["parent"] == "root" else f" class {target['parent']}"
        return f"qdisc of {target['dev']}{place}"
    if change.kind == "ingress":
        return f"ingress of {target['dev']}, by {target['ifb']}"
    if change.kind == "route":
        return f"route to {target['prefix']}"
    return f"{change.kind} {target}"


def _value(kind: str, value: State) -> list[str]:
    if value is None:
        return []
    if kind == "ingress":
        return [line for wanted in value.values() for line in _value("qdisc", wanted)]
    if kind == "qdisc":
        handle = value["handle"]
        words = [word for pair in value["options"].items() for word in pair]
        return [" ".join([value["kind"], *([handle] if handle and handle != "0:" else []), *words])]
    if kind == "route":
        return [" ".join(value)]
    if kind == "file":
        return list(value["text"].splitlines())
    return [str(value)]


def _effect(plan: Plan) -> str:
    """A sentence with the title of the plan; it begins with "After the plan is applied" if the plan
    has possible changes.
    """
    if not plan.changes or not plan.able:
        return f"{plan.title}."
    first = plan.title.partition(" ")[0].lower()
    title = plan.title[:1].lower() + plan.title[1:] if first in SENTENCES else plan.title
    return f"After the plan is applied, {title}."


def lines(plan: Plan) -> list[str]:
    r"""The plan as lines of text: `-` marks current values, `+` new values.

    >>> row = {"kind": "sysctl", "target": "net.ipv4.tcp_ecn", "from": "2", "to": "1",
    ...     "why": "marks", "phase": "live"}
    >>> plan = {"title": "ECN is requested", "changes": [row]}
    >>> print("\n".join(lines(Plan.of(plan))))
    After the plan is applied, ECN is requested.
    <BLANKLINE>
    sysctl net.ipv4.tcp_ecn
    - 2
    + 1
      reason: marks
    """
    told = [_effect(plan)]
    if plan.netns:
        told.append(f"In the network namespace {plan.netns}.")
    for need in plan.needs:
        told += ["", f"required first: {need.why}"]
        if need.command:
            told.append(f"  {shlex.join(need.command)}")
    for change in plan.changes:
        told += ["", _name(change) + (", for the next boot" if change.phase == "boot" else "")]
        told += [f"- {line}" for line in _value(change.kind, change.before)]
        told += [f"+ {line}" for line in _value(change.kind, change.after)]
        told.append(f"  reason: {change.why}")
    if plan.left:
        told.append("")
    for left in plan.left:
        told.append(f"unchanged: {left.what}: {left.why}" + (f" ({left.fix})" if left.fix else ""))
    if plan.effects:
        told += ["", *plan.effects]
    return [within_line(line) for line in told]
