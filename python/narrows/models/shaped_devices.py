"""Scenarios of the access network of an internet provider, from the files of LibreQoS
(`narrows.models.libreqos`).

The scenario has one HTB tree in each direction, with these classes:

- the root, with the rate of the uplink;
- each node of `network.json`, with its bandwidth as the maximum rate;
- each circuit, with its minimum and maximum rate, and CAKE as its queue discipline.

HTB does not enforce the maximum rate of a class whose children have more guaranteed rate in total.
Therefore the guaranteed rate of a node is the sum of those of its children, at most its bandwidth.
If the sum is larger, the guaranteed rates of the children are reduced in proportion.

The `quantum` of a class is proportional to its guaranteed rate, so that circuits share unused rate
in proportion to their guaranteed rates. The smallest quantum is a frame, because a circuit with a
low rate waits for the quanta of the others. A device is a far host with flows of its own. CAKE
shares the rate of a circuit equally among its devices, and pings measure the delay of each circuit.
All flows of a scenario have one near host, so CAKE isolates far hosts (`dual-dsthost` and
`dual-srchost`) and not both sides, as LibreQoS does with `triple-isolate`.

Sources: tc-htb(8), tc-cake(8).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike

from narrows import _core
from narrows.models.libreqos import LEAST_MBPS, Circuit, Site, read_circuits, read_sites
from narrows.storage.text import name_of

_FRAME, _MOST_QUANTUM = 1514, 200_000
"""Minimum and maximum of `quantum` in bytes: a full frame, and the maximum of HTB."""


def scenario(
    devices: str | PathLike[str],
    network: str | PathLike[str] | None = None,
    *,
    rate: str | None = None,
    rtt: str = "20ms",
    duration: str = "30s",
    cc: str = "cubic",
    flows: int = 1,
) -> str:
    """The scenario as TOML.

    Args:
        devices: ShapedDevices.csv.
        network: network.json; without it, all circuits are below the root.
        rate: Rate of the uplink; by default, the sum of the bandwidths of the highest nodes, or of
            the maximum rates of the circuits.
        rtt: Base RTT of all flows.
        duration: Duration of the scenario.
        cc: Congestion control of the flows.
        flows: Number of downloads to each device.

    Raises:
        NarrowsError: If a file cannot be read, or has an error.
    """
    mbps = _mbps(rate or "1Mbit", rtt, duration, cc)
    sites = read_sites(network) if network is not None else {}
    circuits = read_circuits(devices, sites, network)
    text = _Writer(sites, circuits, mbps if rate else None).text(
        rtt, duration, cc, flows, name_of(devices)
    )
    _core.check_toml(text, "the scenario")
    return text


def _mbps(rate: str, rtt: str, duration: str, cc: str) -> float:
    """The rate in Mbit/s; errors of these values are those of a scenario."""
    tree = {"duration": duration, "path": {"rate": rate, "rtt": rtt}, "flow": [{"cc": cc}]}
    return float(_core.path_numbers(_core.scenario_defaults(tree))["rate_mbit"])


def _mbit(mbps: float) -> str:
    """A rate in the notation of scenarios.

    >>> _mbit(1.25), _mbit(1000.0), _mbit(0.3)
    ('1250kbit', '1000Mbit', '300kbit')
    """
    bits = round(mbps * 1e6)
    for unit, size in (("Mbit", 1_000_000), ("kbit", 1000)):
        if bits % size == 0:
            return f"{bits // size}{unit}"
    return f"{bits}bit"


def _shown(name: str) -> str:
    """A name as a comment: without control characters, and not longer than a line."""
    return "".join(c if c.isprintable() else "?" for c in name)[:60]


class _Writer:
    """Writes the scenario of some nodes and circuits."""

    def __init__(
        self, sites: Mapping[str, Site], circuits: Sequence[Circuit], mbps: float | None
    ) -> None:
        self._sites, self._circuits = sites, circuits
        top = [site.rates for site in sites.values() if not site.parent]
        top += [(c.rates[2], c.rates[3]) for c in circuits if not c.parent]
        self._root = [mbps or sum(rates[way] for rates in top) for way in (0, 1)]
        self._uplink = [_mbit(mbps) for mbps in self._root]
        self._flow_ids = self._names()
        self._labels = self._class_names()

    def _names(self) -> dict[tuple[str, str], str]:
        """The ids of the flows of each device. An id ends with a letter, so that a number can
        follow.
        """
        names: dict[tuple[str, str], str] = {}
        taken: set[str] = set()
        for circuit in self._circuits:
            for device in circuit.devices:
                parts = [
                    re.sub(r"[^A-Za-z0-9]+", "_", part)[:20] for part in (circuit.name, device)
                ]
                stem = "-".join(parts)
                name, again = f"{stem}-flow", 2
                while name in taken:
                    name, again = f"{stem}-{again}-flow", again + 1
                taken.add(name)
                names[circuit.name, device] = name
        return names

    def _class_names(self) -> dict[tuple[str, str], str]:
        """The name of the class of each node (`site`, name) and circuit (`circuit`, name). It is
        the name of the node, and Circuit Name or else Circuit ID. Equal names have a number.
        """
        names = {("site", site.name): site.name for site in self._sites.values()}
        for circuit in self._circuits:
            names["circuit", circuit.name] = circuit.title or circuit.name
        taken, found = {"uplink", "direct"}, dict[tuple[str, str], str]()
        for of, name in names.items():
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:50].strip("_") or of[0]
            label, again = stem, 2
            while label in taken:
                label, again = f"{stem}-{again}", again + 1
            taken.add(label)
            found[of] = label
        return found

    def _guaranteed(self, way: int) -> dict[tuple[str, str], float]:
        """The guaranteed rate of each node (`site`, name) and circuit (`circuit`, name)."""
        below: dict[str, float] = {}
        for circuit in self._circuits:
            below[circuit.parent] = below.get(circuit.parent, 0.0) + circuit.rates[way]
        capped: dict[str, float] = {}
        for site in reversed(list(self._sites.values())):
            capped[site.name] = min(below.get(site.name, LEAST_MBPS), site.rates[way])
            below[site.parent] = below.get(site.parent, 0.0) + capped[site.name]
        scale, found = dict[str, float](), dict[tuple[str, str], float]()
        root = self._root[way]
        scale[""] = min(1.0, root / below.get("", root))
        for site in self._sites.values():
            own = capped[site.name] * scale[site.parent]
            found["site", site.name] = own
            scale[site.name] = min(1.0, own / below.get(site.name, own))
        for circuit in self._circuits:
            found["circuit", circuit.name] = circuit.rates[way] * scale[circuit.parent]
        return found

    def _tree(self, way: int) -> Iterator[str]:
        """The lines of the HTB tree of a direction."""
        guaranteed = self._guaranteed(way)
        lowest = min(guaranteed["circuit", circuit.name] for circuit in self._circuits)

        def shares(mbps: float) -> str:
            quantum = min(_MOST_QUANTUM, max(_FRAME, round(_FRAME * mbps / lowest)))
            return f'rate = "{_mbit(mbps)}", quantum = "{quantum}B"'

        ids = {"": "1:1"}
        yield 'kind    = "htb"'
        yield "classes = ["
        yield f'  {{ id = "1:1", name = "uplink", rate = "{self._uplink[way]}" }},'
        for site in self._sites.values():
            ids[site.name] = f"1:{len(ids) + 1:x}"
            rate, label = shares(guaranteed["site", site.name]), self._labels["site", site.name]
            yield (
                f'  {{ id = "{ids[site.name]}", name = "{label}", parent = "{ids[site.parent]}", '
                f'{rate}, ceil = "{_mbit(site.rates[way])}" }}, # {_shown(site.name)}'
            )
        for number, circuit in enumerate(self._circuits):
            flows = [self._flow_ids[circuit.name, device] for device in circuit.devices]
            match = json.dumps([*flows, f"ping{number}"])
            kind = circuit.queues[way]
            isolation = ("dual-dsthost", "dual-srchost")[way]
            queue = (
                f'{{ kind = "cake", diffserv = "diffserv4", flows = "{isolation}" }}'
                if kind == "cake"
                else f'"{kind}"'
            )
            label = self._labels["circuit", circuit.name]
            yield (
                f'  {{ id = "1:{len(ids) + number + 1:x}", name = "{label}", '
                f'parent = "{ids[circuit.parent]}", '
                f"{shares(guaranteed['circuit', circuit.name])}, "
                f'ceil = "{_mbit(circuit.rates[2 + way])}", queue = {queue}, '
                f"match = {{ flow = {match} }} }}, # circuit {_shown(circuit.name)}"
            )
        yield "]"

    def text(self, rtt: str, duration: str, cc: str, flows: int, source: str) -> str:
        """The scenario."""
        lines = [
            f"# Written by narrows from {_shown(source)}: {len(self._circuits)} circuits below "
            f"{len(self._sites)} nodes.",
            "#",
            "# The queue of each direction is an HTB tree: uplink, nodes, circuits. The guaranteed",
            "# rate of a node is the sum of those of its children.",
            "",
            'title    = "Access network"',
            f"duration = {json.dumps(duration)}",
            "",
            "[path]",
            f'rate = "{self._uplink[0]}"',
            f"rtt  = {json.dumps(rtt)}",
            "",
            "[path.queue]",
            *self._tree(0),
            "",
            "[path.reverse]",
            f'rate = "{self._uplink[1]}"',
            "",
            "[path.reverse.queue]",
            *self._tree(1),
        ]
        for circuit in self._circuits:
            for number, device in enumerate(circuit.devices, 1):
                lines += ["", "[[flow]]", f'id    = "{self._flow_ids[circuit.name, device]}"']
                lines += [f"cc    = {json.dumps(cc)}", f"host  = {number}"]
                lines += [f"count = {flows}"] if flows > 1 else []
        for _ in self._circuits:
            lines += ["", "[[probe]]", 'kind     = "ping"', 'interval = "100ms"']
        return "\n".join(lines) + "\n"
