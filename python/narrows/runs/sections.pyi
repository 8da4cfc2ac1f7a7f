"""Sections of a scenario as objects.

Written by `NARROWS_GOLDEN=write pytest tests/test_schema.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from narrows.runs.choice import Chosen, Element, Part, Value

__all__ = [
    "Flow",
    "Hop",
    "Host",
    "Path",
    "Ping",
    "Settings",
    "Station",
    "Wifi",
]

@dataclass(frozen=True, kw_only=True)
class Settings(Part):
    """The keys of a scenario before any section.

    Attributes:
        title: What a person calls it. Text; up to 200 characters (default: empty).
        duration: How long it runs. Time; 1ms to 24h (default: required).
        warmup: Left out of the summary. Time; 0s to duration (default: 20% of duration).
        seed: Of every random choice. Count; 0 to 2^64 - 1 (default: 1).
        start_jitter: The most that a flow's start is moved at random. Time; 0s to the duration,
            1h at most (default: one rtt, the longest of a flow).
    """

    title: str | None = None
    duration: str | None = None
    warmup: str | None = None
    seed: int | None = None
    start_jitter: str | None = None

@dataclass(frozen=True, kw_only=True)
class Hop(Part):
    """One narrow place in one direction, and the propagation behind it.

    Attributes:
        rate: Of the bottleneck. Rate; 1bit to 10Tbit (default: required).
        rtt: Two-way propagation. Time; 1us to 1h (default: required).
        delay_forward: The part of rtt towards the receiver. Time; 0s to rtt (default: half of
            rtt).
        buffer: Of the bottleneck: bytes, packets (170p) or bandwidth-delay products (0.5bdp).
            Buffer; 1514B to 1000GB, 1p to 10000000p, above 0bdp to 10000bdp (default: the
            discipline's own limit).
        queue: The discipline at the bottleneck. Name or { kind, parameters } (default: fifo).
        link: How the rate is kept. Name or { kind, parameters }; serial, tbf, htb,
            shape_average, shape_peak (default: serial).
        loss: Before the queue: of each super-packet (a burst shares its fate) or of each
            packet. Probability or { kind, parameters }; 0 to 1, or 0% to 100%, or a kind of
            `narrows list loss`; per superpacket (the default) or packet (default: none).
        steps: From each time on another rate: [{ at = "10s", rate = "5Mbit" }]. List of { at,
            rate } (default: none).
        outages: From each time on nothing leaves, for so long: [{ at = "20s", lasts = "2s" }].
            List of { at, lasts } (default: none).
        trace: A rate that follows a file, in the place of rate; found relative to the scenario.
            File name or { file, repeat }; CSV of time and rate, or mahimahi's packet-delivery
            trace (default: none).
        jitter: Propagation that varies, behind the queue. Time or { kind, parameters }; a
            spread, or a kind of `narrows list jitter` (default: none).
        reorder: Packets that come later than their turn while others overtake. Probability or {
            probability, late, correlation }; 0 to 1, or 0% to 100% (default: none).
        duplicate: Packets that are there twice, before the policer and the queue. Probability
            or { probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        corrupt: Packets that arrive damaged, so that their receiver drops them. Probability or
            { probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        policer: What lets pass a rate and no more, before the queue. { rate, burst } or { kind,
            parameters }; a kind of `narrows list policer` (default: none).
    """

    rate: str | None = None
    rtt: str | None = None
    delay_forward: str | None = None
    buffer: str | None = None
    queue: Chosen | None = None
    link: Chosen | None = None
    loss: Element | None = None
    steps: Sequence[Mapping[str, str]] | None = None
    outages: Sequence[Mapping[str, str]] | None = None
    trace: str | Mapping[str, Value] | None = None
    jitter: Element | None = None
    reorder: Element | None = None
    duplicate: Element | None = None
    corrupt: Element | None = None
    policer: Element | None = None

@dataclass(frozen=True, kw_only=True)
class Path(Hop):
    """Everything between the two hosts: one hop with the keys of `Hop`, or several.

    Attributes:
        offload: Super-packets cross the path whole, as between machines with TSO and GRO:
            queue, loss and receiver see one packet. Switch; true, false; with serial and htb
            only (default: false).
        nat: The hosts at the far end share one address on the path, as behind a home's router:
            a queue tells them apart only if it looks behind it. Switch; true, false (default:
            false).
        reverse: The hop that ACKs, answers and flows that go up meet. Section; the path's keys
            but rtt and delay_forward (default: nothing but distance).
        hop: Several hops, in the order of the data, each with the propagation behind it. List
            of sections; up to 16, each with the path's keys (default: one hop, of the path's
            own keys).
    """

    offload: bool | None = None
    nat: bool | None = None
    reverse: Hop | None = None
    hop: Sequence[Hop] | None = None

@dataclass(frozen=True, kw_only=True)
class Station(Part):
    """One station of a Wi-Fi, or `count` equal ones.

    Attributes:
        name: Its name; with a count, followed by 0, 1, 2 …. Text; up to 64 letters, digits, _ -
            (default: required).
        count: How many of it. Count; 1 to 250, in all together (default: 1).
        mcs: Modulation and coding, to it and from it; of 802.11n also its streams: 8 to 15 are
            two. Count; 0 to 31 of 802.11n, 0 to 9 of 802.11ac (default: required without rate).
        streams: Of 802.11ac: streams in space. Count; 1 to 8 (default: 1).
        rate: A rate of 802.11a, b or g in the place of mcs, without aggregation. Rate; 6, 9,
            12, 18, 24, 36, 48, 54Mbit; at 2.4GHz 1, 2, 5.5, 11Mbit (default: that of mcs).
        rate_control: Who chooses the rate: nobody, or a control that learns, up to mcs. Word;
            fixed, minstrel (default: fixed).
        snr: Of minstrel: the signal over the noise. Text; 0dB to 60dB (default: 40dB).
        error: How often a single frame arrives damaged. Probability; 0 to 1, or 0% to 100%
            (default: 0).
        rtt: Two-way distance between the access point and the other end of its flows. Time; 0s
            to 1h (default: 2ms).
    """

    name: str
    count: int | None = None
    mcs: int | None = None
    streams: int | None = None
    rate: str | None = None
    rate_control: str | None = None
    snr: str | None = None
    error: str | float | None = None
    rtt: str | None = None

@dataclass(frozen=True, kw_only=True)
class Wifi(Part):
    """An access point and its stations, in the place of a path.

    Attributes:
        station: Who is on the medium. List of sections; up to 250 (default: at least one).
        standard: 802.11n or 802.11ac. Word; n, ac (default: n).
        width: Of the channel; 80MHz is 802.11ac's. Word; 20MHz, 40MHz, 80MHz (default: 20MHz).
        band: Where in the spectrum: it decides slots and spaces; 802.11ac has 5GHz. Word; 5GHz,
            2.4GHz (default: 5GHz).
        guard: Between symbols: they last 3.6 or 4 us. Word; short, long (default: short).
        stack: What queues for the air, at the access point and at stations: a qdisc above a
            deep driver, FQ-CoDel inside mac80211, the same with airtime fairness and AQL. Word;
            before, fq_mac, airtime (default: airtime).
        qdisc: Of the stack before: the discipline above the driver. Name or { kind, parameters
            } (default: pfifo_fast).
        driver: Of the stack before: frames of each category that the driver takes. Count; 1 to
            1000000 (default: 123).
        aggregate: What one transmission may be. Section (default: the standard's).
    """

    station: Sequence[Station]
    standard: str | None = None
    width: str | None = None
    band: str | None = None
    guard: str | None = None
    stack: str | None = None
    qdisc: Chosen | None = None
    driver: int | None = None
    aggregate: Mapping[str, Value] | None = None

@dataclass(frozen=True)
class Flow(Part):
    """One sender, or `count` equal ones.

    Attributes:
        cc: Its congestion control. Name or { kind, parameters } (default: required; with a
            workload, that workload's).
        count: How many of them. Count; 1 to 100000, in all flows together (default: 1).
        rtt: Added to the path's rtt: its receiver lies so much farther away. Time; 0s to 1h
            (default: 0s).
        start: When it connects. Time; 0s to duration (default: 0s).
        stop: When it stops sending. Time; after start, to 24h (default: the end).
        restart: When it writes again, on the same connection; until then what it had written
            drains. Time; after stop, to 24h (default: never).
        size: A transfer of so many bytes. Bytes; 1B to 1000000GB (default: unbounded).
        id: Its name; with a count, followed by 0, 1, 2 …. Text; up to 64 letters, digits, _ -
            (default: <cc><n>).
        ecn: Its ends negotiate explicit congestion notification; true: with an ordinary far
            end, which knows RFC 3168's alone. Switch; true, false (default: both ends as its cc
            needs; else true where the host's is on).
        direction: Which way its data goes: over the path's hops, or over the reverse hop. Word;
            down, up; up needs [path.reverse] (default: down).
        dscp: Differentiated-services code point of its packets, ACKs included. Name or count;
            BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63 (default: BE).
        workload: What its application does: pages, calls, transfers that arrive at random. Name
            or { kind, parameters }; a kind of `narrows list workload` (default: sends all it
            can).
        host: Which host at the far end it is of: flows of one number have one address there.
            Count; 1 to 63; with a path (default: one for all that do not say).
        station: Whose flow it is; of several stations each has one. Text; a station, or those
            of a count (default: the only one of a wifi).
    """

    cc: Chosen | None = None
    _: KW_ONLY
    count: int | None = None
    rtt: str | None = None
    start: str | None = None
    stop: str | None = None
    restart: str | None = None
    size: str | None = None
    id: str | None = None
    ecn: bool | None = None
    direction: str | None = None
    dscp: str | int | None = None
    workload: Chosen | None = None
    host: int | None = None
    station: str | None = None

@dataclass(frozen=True, kw_only=True)
class Ping(Part):
    """UDP echo through the same bottleneck, 64 bytes of payload, the first at the very start.

    Attributes:
        host: Which host at the far end answers. Count; 1 to 63; with a path (default: one for
            all that do not say).
        station: Who answers; of several stations each does. Text; a station, or those of a
            count (default: the only one of a wifi).
        interval: From one to the next. Time; 100us to 1h (default: 20ms).
        dscp: Differentiated-services code point of its packets and their answers. Name or
            count; BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63 (default: BE).
    """

    host: int | None = None
    station: str | None = None
    interval: str | None = None
    dscp: str | int | None = None

@dataclass(frozen=True, kw_only=True)
class Host(Part):
    """Both ends of every flow; Linux 6.12 with its default sysctls unless told otherwise.

    Attributes:
        like: Whose rules it follows: what a later release does otherwise it does not. Word;
            linux-6.12, linux-5.15, linux-4.15 (default: linux-6.12).
        iw: Initial window in packets. Count; 1 to 1000 (default: 10).
        hz: The kernel's tick. Count; 100 to 1000 (default: 1000).
        clock: What round trips are measured with: microseconds, whole milliseconds, or whole
            ticks (hz) as Linux did before 3.15. Word; us, ms, jiffies (default: us).
        pacing: Who is paced: who asks for it, nobody at all, or everybody as by fq at the
            sender. Word; auto, off, fq (default: auto).
        gso: The largest super-packet, and with it the largest burst: on is 64KiB, off one
            segment. On, off, packets or bytes; on, off, 1p to 65535p, 1514B to 64KiB (default:
            on).
        autosize: Bursts carry about a millisecond of the flow's rate; without, all that gso and
            window let them, as before Linux 3.12. Switch; true, false (default: true).
        pacing_shift: Bursts and small queues hold 2 to the minus this of a second of the rate:
            10 is about a millisecond, Wi-Fi drivers ask for 8 or 7. Count; 1 to 20 (default:
            10).
        rmem: Receive buffer: at the start…at most. Bytes…bytes; 4KiB to 2GiB (default:
            128KiB…512MiB).
        wmem: Send buffer: at the start…at most. Bytes…bytes; 4KiB to 2GiB (default:
            16KiB…512MiB).
        notsent_lowat: The application writes while less than this waits unsent. Bytes; 1B to
            4GiB (default: 128KiB).
        read_latency: A receiving application runs up to so long after it was woken, at random.
            Time; 0s to 100us (default: 10us).
        slow_start_after_idle: Halve a window for each timeout that nothing was sent, down to
            the initial one. Switch; true, false (default: true).
        nic: Of the sender's own interface, which all flows and pings of the scenario share.
            Rate; 1kbit to 10Tbit (default: never the limit).
        ring: Super-packets that its device takes; needs nic. Count; 1 to 65536 (default: 256 of
            a nic).
        bql: Byte queue limits: the device takes only what keeps it busy; needs nic. Switch;
            true, false (default: true).
        tsq: TCP small queues: about a millisecond of each flow waits in its own host, the rest
            in TCP; bytes for a fixed amount, as before Linux 3.12 (128KiB); needs nic. Switch
            or bytes; true, false, 4KiB to 2GiB (default: true).
        qdisc: The queue discipline of its interface, any that a path may have; needs nic. Name
            or { kind, parameters } (default: pfifo_fast).
        buffer: What the discipline of its interface may hold, super-packets counting as one
            (txqueuelen of pfifo_fast); needs nic. Bytes, packets or bdp; 1514B to 1TB, 1p to
            10000000p, 0bdp to 10000bdp (default: its own).
        link: How its interface keeps the rate: a wire, or a class of htb before a device that
            takes no time; needs nic. Name or { kind, parameters }; serial, htb (default:
            serial).
        ecn: Explicit congestion notification: for flows that ask, for all that do not say
            otherwise, for none. Word; passive, on, off (default: passive).
    """

    like: str | None = None
    iw: int | None = None
    hz: int | None = None
    clock: str | None = None
    pacing: str | None = None
    gso: str | bool | None = None
    autosize: bool | None = None
    pacing_shift: int | None = None
    rmem: str | None = None
    wmem: str | None = None
    notsent_lowat: str | None = None
    read_latency: str | None = None
    slow_start_after_idle: bool | None = None
    nic: str | None = None
    ring: int | None = None
    bql: bool | None = None
    tsq: bool | str | None = None
    qdisc: Chosen | None = None
    buffer: str | None = None
    link: Chosen | None = None
    ecn: str | None = None
