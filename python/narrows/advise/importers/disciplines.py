"""Options of queue disciplines, by their names in tc(8), and the scenario keys that they become.

Parameters of narrows have the names of tc, so that a table of types for each discipline is
sufficient. Sources: manual pages of iproute2 6.1, and the output of its `tc qdisc show`. An option
of tc without an entry here is reported as not modelled.
"""

from __future__ import annotations

from narrows.advise.importers.reading import bits, size, span

Option = str | tuple[str, object]
"""The type of the value of an option; for an option without a value, the parameter that it sets and
the value of this parameter.
"""

_ECN: dict[str, Option] = {"ecn": ("ecn", True), "noecn": ("ecn", False)}
_PIE: dict[str, Option] = _ECN | {
    "limit": "packets", "target": "time", "tupdate": "time", "alpha": "number", "beta": "number",
    "bytemode": ("bytemode", True), "nobytemode": ("bytemode", False),
    "dq_rate_estimator": ("dq_rate_estimator", True), "no_dq_rate_estimator": ("dq_rate_estimator",
    False),
}  # fmt: skip
_CODEL: dict[str, Option] = _ECN | {
    "limit": "packets", "target": "time", "interval": "time", "ce_threshold": "time",
}  # fmt: skip
_RED: dict[str, Option] = {
    "avpkt": "bytes", "burst": "number", "probability": "number", "bandwidth": "rate",
    "ecn": ("ecn", True),
    "harddrop": ("harddrop", True),
}  # fmt: skip

OPTIONS: dict[str, dict[str, Option]] = {
    "fq": {
        "limit": "packets", "flow_limit": "packets", "quantum": "bytes",
        "initial_quantum": "bytes", "maxrate": "rate",
        "low_rate_threshold": "rate", "refill_delay": "time", "ce_threshold": "time",
        "horizon": "time",
        "timer_slack": "time", "orphan_mask": "number", "pacing": ("pacing", True),
        "nopacing": ("pacing", False),
        "horizon_drop": ("horizon_drop", True), "horizon_cap": ("horizon_drop", False),
    },
    "codel": _CODEL,
    "fq_codel": _CODEL | {
        "flows": "number", "quantum": "bytes", "memory_limit": "bytes", "drop_batch": "packets",
    },
    "pie": _PIE,
    "fq_pie": _PIE | {"flows": "number", "quantum": "bytes", "memory_limit": "bytes",
    "ecn_prob": "share"},
    "sfq": _RED | {
        "limit": "packets", "depth": "packets", "flows": "number", "divisor": "number",
        "quantum": "bytes",
        "perturb": "seconds", "headdrop": ("headdrop", True), "redflowlimit": "bytes",
        "min": "bytes", "max": "bytes",
    },
    "red": _RED | {
        "limit": "bytes", "min": "bytes", "max": "bytes", "nodrop": ("nodrop", True),
        "adaptive": ("adaptive", True),
    },
    "choke": {
        "limit": "packets", "min": "packets", "max": "packets", "burst": "number",
        "probability": "number",
        "bandwidth": "rate", "avpkt": "bytes", "ecn": ("ecn", True),
    },
    "hhf": {
        "limit": "packets", "quantum": "bytes", "hh_limit": "number", "reset_timeout": "time",
        "admit_bytes": "bytes",
        "evict_timeout": "time", "non_hh_weight": "number",
    },
    "sfb": {
        "limit": "packets", "max": "packets", "target": "packets", "increment": "number",
        "decrement": "number",
        "penalty_rate": "number", "penalty_burst": "packets", "rehash": "milliseconds",
        "db": "milliseconds",
    },
    "drr": {},
    "pfifo_fast": {},
    "cake": {
        "rtt": "time", "overhead": "number", "mpu": "bytes", "memlimit": "bytes",
        "nat": ("nat", True), "nonat": ("nat", False), "wash": ("wash", True), "nowash": ("wash",
        False),
        "ingress": ("ingress", True), "egress": ("ingress", False),
        "autorate-ingress": ("autorate_ingress", True), "autorate_ingress": ("autorate_ingress",
        True),
        "split-gso": ("split_gso", True), "split_gso": ("split_gso", True),
        "no-split-gso": ("split_gso", False),
        "ether-vlan": ("ether_vlan", True),
        **{word: ("ack_filter", word) for word in ("ack-filter", "ack-filter-aggressive",
        "no-ack-filter")},
        **{word: ("diffserv", word) for word in ("besteffort", "diffserv3", "diffserv4",
        "diffserv8", "precedence")},
        **{word: ("flows", word) for word in ("flowblind", "srchost", "dsthost", "hosts", "flows",
        "dual-srchost",
                                              "dual-dsthost", "triple-isolate")},
        **{word: ("cells", word) for word in ("atm", "noatm", "ptm")},
        **{word: ("network", word) for word in ("internet", "datacentre", "lan", "metro",
        "regional", "oceanic",
                                                "satellite", "interplanetary")},
        **{word: ("line", word) for word in ("raw", "conservative", "pppoa-vcmux", "pppoa-llc",
        "pppoe-vcmux",
                                             "pppoe-llcsnap", "bridged-vcmux", "bridged-llcsnap",
                                             "ipoa-vcmux",
                                             "ipoa-llcsnap", "pppoe-ptm", "bridged-ptm",
                                             "ethernet", "docsis")},
    },
}  # fmt: skip
"""Options that narrows models, by queue discipline."""

_USUAL = {
    "cake": {
        "nat": False, "wash": False, "ingress": False, "split_gso": True,
        "ack_filter": "no-ack-filter", "line": "raw",
        "overhead": 0, "mpu": "0B",
    },
}  # fmt: skip
"""Parameters that `tc qdisc show` prints with their default values, which the path does not need.
"""

_SHAPER = ("overhead", "mpu", "cells", "line", "ether_vlan", "ingress", "autorate_ingress")
"""Parameters of the shaper of cake, which has an effect only with a bandwidth."""


def value(option: str, number: float) -> object:
    """A parameter's value in the syntax of a scenario. `number` is in s, bytes, bit/s or packets,
    or without a unit.

    >>> value("time", 0.1), value("packets", 100.0), value("bytes", 1514.0), value("number",
    ...     0.5), value("number", 2.0)
    ('100ms', '100p', '1514B', 0.5, 2)
    """
    if option in {"time", "seconds", "milliseconds"}:
        return span(number)
    if option == "bytes":
        return size(number)
    if option == "rate":
        return bits(number)
    if option == "packets":
        return f"{number:.0f}p"
    return int(number) if number == int(number) else number


def unusual(kind: str, params: dict[str, object]) -> dict[str, object]:
    """The parameters without those that have the default values in `_USUAL`."""
    usual = _USUAL.get(kind, {})
    return {name: v for name, v in params.items() if name not in usual or usual[name] != v}


def counts_otherwise(params: dict[str, object]) -> bool:
    """Whether a parameter of cake's shaper is set; most of them change the size that the shaper
    counts for a packet.
    """
    return any(name in params for name in _SHAPER)
