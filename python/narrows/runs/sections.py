"""The sections of a scenario as objects: path, Wi-Fi, flows, probes and hosts.

Their keys come from a table of the core and are those in docs/reference/scenario.md. Keys that are
None are left out of the scenario, so that the documented default applies.
"""

from __future__ import annotations

from typing import Any

from narrows.runs.choice import Part
from narrows.runs.schema import Keys, Section

TABLES: dict[str, Keys] = {}
"""The description of the class of each section, by class name."""


def _made(name: str, section: Section) -> Any:  # noqa: ANN401 - the stub has the types
    TABLES[name] = Keys(name, section)
    return TABLES[name].made(__name__)


Settings = _made(
    "Settings", Section(of="", base=Part, help="The keys of a scenario before any section.")
)

Hop = _made(
    "Hop",
    Section(
        of="path.hop",
        base=Part,
        help="One bottleneck in one direction, and the propagation behind it.",
        example=(">>> Hop(rate='5Mbit', queue='fq_codel').rate", "'5Mbit'"),
    ),
)

Path = _made(
    "Path",
    Section(
        of="path",
        base=Hop,
        help="Everything between the two hosts: one hop with the keys of `Hop`, or several.",
        example=(
            ">>> up = Hop(rate='5Mbit', queue='fq_codel')",
            ">>> Path(rate='100Mbit', rtt='20ms', reverse=up).tree()['reverse']",
            "{'rate': '5Mbit', 'queue': 'fq_codel'}",
        ),
    ),
)

Link = _made(
    "Link",
    Section(
        of="link",
        base=Part,
        help="One link of a network in one direction, and the propagation behind it.",
        example=(
            ">>> Link(rate='10Mbit', delay='5ms', queue='fq_codel').tree()",
            "{'rate': '10Mbit', 'queue': 'fq_codel', 'delay': '5ms'}",
        ),
    ),
)

Switch = _made(
    "Switch",
    Section(
        of="switch",
        base=Part,
        help="A switch whose ports share memory.",
        example=(">>> Switch(buffer='2MB').tree()", "{'buffer': '2MB'}"),
        required=("buffer",),
    ),
)

Station = _made(
    "Station",
    Section(
        of="wifi.station",
        base=Part,
        help="One station of a Wi-Fi, or `count` equal ones.",
        example=(">>> Station(name='far', rate='1Mbit', error='10%').mcs is None", "True"),
        required=("name",),
    ),
)

Wifi = _made(
    "Wifi",
    Section(
        of="wifi",
        base=Part,
        help="An access point and its stations, in the place of a path.",
        example=(
            ">>> Wifi(stack='before', station=[Station(name='near', mcs=15)]).stack",
            "'before'",
        ),
        required=("station",),
    ),
)

Flow = _made(
    "Flow",
    Section(
        of="flow",
        base=Part,
        help="One sender, or `count` equal ones.",
        example=(
            ">>> Flow('cubic', start='2s', size='1MB').size",
            "'1MB'",
            ">>> Flow(workload={'kind': 'web', 'fetch': 'sequential'}).cc is None",
            "True",
        ),
        positional="cc",
    ),
)

Ping = _made(
    "Ping",
    Section(
        of="probe",
        base=Part,
        help="UDP echo through the same bottleneck, 64 bytes of payload, the first at the very "
        "start.",
        example=(">>> Ping(interval='20ms').tree()", "{'kind': 'ping', 'interval': '20ms'}"),
        kind="ping",
    ),
)

Host = _made(
    "Host",
    Section(
        of="host",
        base=Part,
        help="Both ends of every flow; by default Linux 6.12 with its default sysctls.",
        example=(">>> Host(iw=4, rmem='128kB…6MB').iw", "4"),
    ),
)
