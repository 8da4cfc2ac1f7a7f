"""Sections of a scenario as objects.

Written by `make renew`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from narrows.runs.choice import Chosen, Element, Part, Value

__all__ = [
    "Flow",
    "Hop",
    "Host",
    "Link",
    "Path",
    "Ping",
    "Settings",
    "Station",
    "Switch",
    "Wifi",
]

@dataclass(frozen=True, kw_only=True)
class Settings(Part):
    """The keys of a scenario before any section.

    Attributes:
        format: Version of the scenario format; texts in an older format are converted. Count; 1
            (default: 1).
        title: Title of the scenario in reports. Text; up to 200 characters (default: empty).
        duration: Length of the run. Time; 1ms to 24h (default: required).
        warmup: Initial part of the run that the summary excludes. Time; 0s to duration
            (default: 20% of duration).
        seed: Seed of all random choices. Count; 0 to 2^64 - 1 (default: 1).
        start_jitter: Upper limit of the random delay that is added to the start of each flow.
            Time; 0s to duration, at most 1h (default: the largest RTT of a flow).
    """

    format: int | None = None
    title: str | None = None
    duration: str | None = None
    warmup: str | None = None
    seed: int | None = None
    start_jitter: str | None = None

@dataclass(frozen=True, kw_only=True)
class Hop(Part):
    """One bottleneck in one direction, and the propagation behind it.

    Attributes:
        rate: Rate of the bottleneck. Rate; 1bit to 10Tbit (default: required).
        rtt: Two-way propagation delay. Time; 1us to 1h (default: required).
        delay_forward: Part of rtt on the forward path. Time; 0s to rtt (default: half of rtt).
        buffer: Buffer of the bottleneck in bytes, packets (170p) or bandwidth-delay products
            (0.5bdp). Buffer; 1514B to 1000GB, 1p to 10000000p, above 0bdp to 10000bdp (default:
            the default limit of the queue discipline).
        queue: Queue discipline of the bottleneck. Name or { kind, parameters } (default: fifo).
        link: Mechanism that limits the rate: a serial line or a shaper. Name or { kind,
            parameters }; serial, tbf, htb, shape_average, shape_peak (default: serial).
        loss: Loss before the queue, drawn once for each super-packet (all of its segments are
            lost together) or for each packet. Probability or { kind, parameters }; 0 to 1, or
            0% to 100%, or a kind of `narrows list loss`; per superpacket (the default) or
            packet (default: none).
        steps: Changes of rate, propagation delay and loss: [{ at = "10s", rate = "5Mbit" }].
            List of { at, rate, rtt, delay, ordered, loss }; up to 100000 (default: none).
        outages: Times without any transmission: [{ at = "20s", lasts = "2s" }]. List of { at,
            lasts }; up to 100000 (default: none).
        trace: File with the rate over time, instead of rate; its name is relative to the
            scenario. File name or { file, repeat }; CSV of time and rate, or packet-delivery
            trace of Mahimahi (default: none).
        delay_trace: File with the propagation delay behind the hop over time, in the direction
            of the hop; its name is relative to the scenario. File name or { file, repeat,
            ordered }; lines of time and delay in milliseconds (default: none).
        jitter: Variable part of the propagation delay, behind the queue. Time or { kind,
            parameters }; a time (the spread), or a kind of `narrows list jitter` (default:
            none).
        reorder: Packets that are delayed so that later packets overtake them. Probability or {
            probability, late, correlation }; 0 to 1, or 0% to 100% (default: none).
        duplicate: Packets that are duplicated before the policer and the queue. Probability or
            { probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        corrupt: Packets that arrive damaged, so that the receiver drops them. Probability or {
            probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        policer: Rate limit without a queue, in front of the queue: a policer drops excess
            packets. { rate, burst } or { kind, parameters }; a kind of `narrows list policer`
            (default: none).
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
    delay_trace: Element | None = None
    jitter: Element | None = None
    reorder: Element | None = None
    duplicate: Element | None = None
    corrupt: Element | None = None
    policer: Element | None = None

@dataclass(frozen=True, kw_only=True)
class Path(Hop):
    """Everything between the two hosts: one hop with the keys of `Hop`, or several.

    Attributes:
        offload: Super-packets cross the path in one piece, as between machines with TSO and
            GRO: queue, loss model and receiver process each one as a single packet. Boolean;
            true, false; with serial and htb only (default: false).
        nat: The far hosts share one address, as behind a home router; a queue discipline can
            separate them only if it looks up the addresses behind NAT. Boolean; true, false
            (default: false).
        reverse: Bottleneck of the reverse path, which ACKs, responses and uploads cross.
            Section; the keys of a hop except rtt and delay_forward (default: propagation delay
            only).
        hop: Several hops in the order of the forward path, each with its own propagation delay
            behind it. List of sections; up to 16, each with the keys of a hop (default: one hop
            with the keys of [path]).
    """

    offload: bool | None = None
    nat: bool | None = None
    reverse: Hop | None = None
    hop: Sequence[Hop] | None = None

@dataclass(frozen=True, kw_only=True)
class Link(Part):
    """One link of a network in one direction, and the propagation behind it.

    Attributes:
        rate: Rate of the bottleneck. Rate; 1bit to 10Tbit (default: required).
        buffer: Buffer of the bottleneck in bytes, packets (170p) or bandwidth-delay products
            (0.5bdp). Buffer; 1514B to 1000GB, 1p to 10000000p, above 0bdp to 10000bdp (default:
            the default limit of the queue discipline).
        queue: Queue discipline of the bottleneck. Name or { kind, parameters } (default: fifo).
        link: Mechanism that limits the rate: a serial line or a shaper. Name or { kind,
            parameters }; serial, tbf, htb, shape_average, shape_peak (default: serial).
        loss: Loss before the queue, drawn once for each super-packet (all of its segments are
            lost together) or for each packet. Probability or { kind, parameters }; 0 to 1, or
            0% to 100%, or a kind of `narrows list loss`; per superpacket (the default) or
            packet (default: none).
        steps: Changes of rate, propagation delay and loss: [{ at = "10s", rate = "5Mbit" }].
            List of { at, rate, rtt, delay, ordered, loss }; up to 100000 (default: none).
        outages: Times without any transmission: [{ at = "20s", lasts = "2s" }]. List of { at,
            lasts }; up to 100000 (default: none).
        trace: File with the rate over time, instead of rate; its name is relative to the
            scenario. File name or { file, repeat }; CSV of time and rate, or packet-delivery
            trace of Mahimahi (default: none).
        delay_trace: File with the propagation delay behind the hop over time, in the direction
            of the hop; its name is relative to the scenario. File name or { file, repeat,
            ordered }; lines of time and delay in milliseconds (default: none).
        jitter: Variable part of the propagation delay, behind the queue. Time or { kind,
            parameters }; a time (the spread), or a kind of `narrows list jitter` (default:
            none).
        reorder: Packets that are delayed so that later packets overtake them. Probability or {
            probability, late, correlation }; 0 to 1, or 0% to 100% (default: none).
        duplicate: Packets that are duplicated before the policer and the queue. Probability or
            { probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        corrupt: Packets that arrive damaged, so that the receiver drops them. Probability or {
            probability, correlation }; 0 to 1, or 0% to 100% (default: none).
        policer: Rate limit without a queue, in front of the queue: a policer drops excess
            packets. { rate, burst } or { kind, parameters }; a kind of `narrows list policer`
            (default: none).
        delay: Propagation delay of the link, in its direction. Time; 0s to 1h (default: 0s).
        from_: Node where the link begins. Text; up to 64 letters, digits, _ - (default: none).
        to: Node where the link ends. Text; up to 64 letters, digits, _ - (default: none).
        switch: Switch whose memory the queue of the link shares; buffer limits the queue as
            well. Text; up to 64 letters, digits, _ - (default: memory of its own).
        alpha: Maximum length of the queue of this link, in multiples of the free memory; needs
            switch. Number; 0.001 to 1000 (default: alpha of the switch).
    """

    rate: str | None = None
    buffer: str | None = None
    queue: Chosen | None = None
    link: Chosen | None = None
    loss: Element | None = None
    steps: Sequence[Mapping[str, str]] | None = None
    outages: Sequence[Mapping[str, str]] | None = None
    trace: str | Mapping[str, Value] | None = None
    delay_trace: Element | None = None
    jitter: Element | None = None
    reorder: Element | None = None
    duplicate: Element | None = None
    corrupt: Element | None = None
    policer: Element | None = None
    delay: str | None = None
    from_: str | None = None
    to: str | None = None
    switch: str | None = None
    alpha: float | None = None

@dataclass(frozen=True, kw_only=True)
class Switch(Part):
    """A switch whose ports share memory.

    Attributes:
        buffer: Memory that all links of the switch share. Bytes; 1514B to 1000GB (default:
            required).
        alpha: Maximum length of a queue, in multiples of the memory that is free (dynamic
            thresholds). Number; 0.001 to 1000 (default: 1).
    """

    buffer: str
    alpha: float | None = None

@dataclass(frozen=True, kw_only=True)
class Station(Part):
    """One station of a Wi-Fi, or `count` equal ones.

    Attributes:
        name: Name of the station; with a count, a number is appended: 0, 1, 2 …. Text; up to 64
            letters, digits, _ - (default: required).
        count: Number of identical stations. Count; 1 to 250, for all stations together
            (default: 1).
        mcs: Modulation and coding scheme, in both directions; in 802.11n it includes the
            spatial streams: 8 to 15 have two. Count; 0 to 31 of 802.11n, 0 to 9 of 802.11ac
            (default: required unless rate is given).
        streams: Spatial streams of 802.11ac. Count; 1 to 8 (default: 1).
        rate: Rate of 802.11a, b or g instead of mcs, without aggregation. Rate; 6, 9, 12, 18,
            24, 36, 48, 54Mbit; at 2.4GHz 1, 2, 5.5, 11Mbit (default: the rate of mcs).
        rate_control: Selection of the rate: fixed, or minstrel, which selects rates up to mcs.
            Choice; fixed, minstrel (default: fixed).
        snr: Signal-to-noise ratio; needs rate_control = "minstrel". Decibels; 0dB to 60dB
            (default: 40dB).
        error: Probability that a frame arrives damaged. Probability; 0 to 1, or 0% to 100%
            (default: 0).
        weight: Weight of the station's airtime: its credit per round, in microseconds; needs
            stack = "airtime". Count; 1 to 65535 (default: weight of the section wifi, or 256).
        aql_low: Airtime of each access category that the driver may always hold for this
            station. Time; 1us to 4000s (default: aql_low of the section wifi).
        aql_high: Airtime of each access category that the driver may hold for this station
            below aql_threshold. Time; 1us to 4000s (default: aql_high of the section wifi).
        codel_target: Target of CoDel for this station, also if it is slow. Time; 50us to 10s
            (default: codel_target of the section wifi).
        codel_interval: Interval of CoDel for this station, also if it is slow. Time; 100us to
            100s (default: codel_interval of the section wifi).
        rtt: Two-way propagation delay between the access point and the other end of the flows,
            or the path before the access point. Time; 0s to 1h (default: 2ms).
    """

    name: str
    count: int | None = None
    mcs: int | None = None
    streams: int | None = None
    rate: str | None = None
    rate_control: str | None = None
    snr: str | None = None
    error: str | float | None = None
    weight: int | None = None
    aql_low: str | None = None
    aql_high: str | None = None
    codel_target: str | None = None
    codel_interval: str | None = None
    rtt: str | None = None

@dataclass(frozen=True, kw_only=True)
class Wifi(Part):
    """An access point and its stations, in the place of a path.

    Attributes:
        station: Stations of the access point. List of sections; up to 250 (default: at least
            one).
        standard: 802.11n or 802.11ac. Choice; n, ac (default: n).
        width: Channel width; 80MHz needs 802.11ac. Choice; 20MHz, 40MHz, 80MHz (default:
            20MHz).
        band: Frequency band, which determines slot times and interframe spaces; 802.11ac needs
            5GHz. Choice; 5GHz, 2.4GHz (default: 5GHz).
        guard: Guard interval: a symbol lasts 3.6us (short) or 4us (long). Choice; short, long
            (default: short).
        stack: Transmit queues of the access point and the stations: a qdisc above a deep driver
            queue (before), FQ-CoDel in mac80211 (fq_mac), or also airtime fairness and AQL
            (airtime). Choice; airtime, fq_mac, before (default: airtime).
        qdisc: Queue discipline above the driver; needs stack = "before". Name or { kind,
            parameters } (default: pfifo_fast).
        driver: Frames of each access category that the driver accepts. Count; 1 to 1000000
            (default: 123 with stack = "before", otherwise a driver without a queue).
        txops: Transmissions (A-MPDUs) of each access category that the hardware holds. Count; 1
            to 64 (default: 2).
        aql: Airtime queue limits (AQL) of the airtime that the driver holds; needs stack =
            "airtime". Boolean; true, false (default: true).
        aql_low: Airtime that the driver may always hold for each station and access category;
            needs aql. Time; 1us to 4000s (default: 5ms).
        aql_high: Airtime that the driver may hold for each station and access category while
            the airtime for all stations is below aql_threshold; has no effect below aql_low;
            needs aql. Time; 1us to 4000s (default: 12ms).
        aql_threshold: Airtime for all stations from which aql_low limits each station; needs
            aql. Time; 0s to 4000s (default: 24ms).
        weight: Weight of the stations without their own; needs stack = "airtime". Count; 1 to
            65535 (default: 256).
        quantum: Bytes that a flow sends in its turn inside mac80211; needs stack = "fq_mac" or
            "airtime". Bytes; 1B to 1MB (default: 300B).
        codel_target: Target of CoDel inside mac80211; needs stack = "fq_mac" or "airtime".
            Time; 50us to 10s (default: 20ms).
        codel_interval: Interval of CoDel inside mac80211; needs stack = "fq_mac" or "airtime".
            Time; 100us to 100s (default: 100ms).
        codel_slow_rate: Expected throughput, multiplied by the number of stations, below which
            a station is slow; 6Mbit in Linux 5.10 and 6.1; needs stack = "fq_mac" or "airtime".
            Rate; 1kbit to 1Tbit (default: no station is slow, as in Linux 6.12).
        codel_slow_target: Target of CoDel for slow stations, whose packets it does not mark;
            needs codel_slow_rate. Time; 50us to 10s (default: 50ms).
        codel_slow_interval: Interval of CoDel for slow stations; needs codel_slow_rate. Time;
            100us to 100s (default: 300ms).
        aggregate: Limits of one transmission (A-MPDU). Section (default: the limits of the
            standard).
    """

    station: Sequence[Station]
    standard: str | None = None
    width: str | None = None
    band: str | None = None
    guard: str | None = None
    stack: str | None = None
    qdisc: Chosen | None = None
    driver: int | None = None
    txops: int | None = None
    aql: bool | None = None
    aql_low: str | None = None
    aql_high: str | None = None
    aql_threshold: str | None = None
    weight: int | None = None
    quantum: str | None = None
    codel_target: str | None = None
    codel_interval: str | None = None
    codel_slow_rate: str | None = None
    codel_slow_target: str | None = None
    codel_slow_interval: str | None = None
    aggregate: Mapping[str, Value] | None = None

@dataclass(frozen=True)
class Flow(Part):
    """One sender, or `count` equal ones.

    Attributes:
        route: Links that the data of a download crosses, in this order. List of names; names of
            links (default: the only link).
        route_back: Links of the reverse direction, for ACKs, requests and the data of uploads.
            List of names; names of links that route does not contain (default: propagation
            only, with the delay of the route).
        from_: Node of the sender of a download, instead of route; the flow takes a route with
            the fewest links, and the hash of its id selects one of several (ECMP). Text; a
            node; at most 256 equal routes are considered (default: no network of links).
        to: Node of the receiver. Text; up to 64 letters, digits, _ - (default: no network of
            links).
        reroute: Changes of the route: [{ at = "10s", route = ["b"] }]; packets under way keep
            the former route until it meets the new one. List of { at, route, route_back }; up
            to 1000 (default: none).
        cc: Congestion control. Name or { kind, parameters } (default: required; a workload has
            its own).
        count: Number of identical flows. Count; 1 to 100000, for all flows together (default:
            1).
        rtt: Propagation delay of both directions together, added to the rtt of the path: a more
            distant receiver. Time; 0s to 1h (default: 0s).
        start: Time of the connection setup. Time; 0s to duration (default: 0s).
        stop: Time at which the application stops writing. Time; after start, to 24h (default:
            the end of the run).
        restart: Time at which the application resumes writing on the same connection; data
            written before stop is still sent. Time; after stop, to 24h (default: never).
        size: Bytes to transfer. Bytes; 1B to 1000000GB (default: unbounded).
        id: Name of the flow; with a count, a number is appended: 0, 1, 2 …. Text; up to 64
            letters, digits, _ - (default: <cc><n>).
        transport: Transport of an adapter, with a congestion control of its own in cc. Name; a
            transport that --plugin loads (default: the TCP of Linux).
        ecn: Negotiation of ECN; true: classic ECN (RFC 3168), even if the cc would use another
            feedback of marks; accecn: accurate ECN (RFC 9768) at both ends, as tcp_ecn = 3 of
            Linux 7.3; false: no ECN. Boolean or name; true, false, accecn (default: as the cc
            requires; otherwise true if ecn of [host] is on).
        direction: Direction of the data: down over the hops of the path, or up over the reverse
            hop. Choice; down, up; up needs [path.reverse] (default: down).
        dscp: Differentiated-services code point (DSCP) of the packets, including ACKs. Name or
            count; BE, LE, CS0 to CS7, AF11 to AF43, VA, EF, or 0 to 63 (default: BE).
        like: Linux release of the sender's host, if it differs from [host]; with_rules and
            without_rules do not apply to it. Release; linux-4.4 to linux-7.3, also with a patch
            level: linux-6.12.5 (default: like of [host], with its rules).
        workload: Application of the flow: web pages, calls, transfers with random arrivals.
            Name or { kind, parameters }; a kind of `narrows list workload` (default: unlimited
            data).
        sender: Host that sends the data, with the settings of [host.NAME]; flows with the same
            host share its interface. Text; the name of a host (default: [host]).
        receiver: Host that receives the data, with the settings of [host.NAME]. Text; the name
            of a host (default: [host]).
        host: Number of the far host; flows with the same number share one address. Count; 1 to
            63; not with wifi (default: one host for all flows and probes without this key).
        ip: Version of IP; the header of IPv6 has 20 bytes more, and a full segment 20 bytes
            less payload; a transport has IPv4. 4 or 6; 4, 6 (default: 4).
        station: Station of the flow; with a group of stations, each one has such a flow. Text;
            the name of a station, or of a group with a count (default: the only station).
    """

    cc: Chosen | None = None
    _: KW_ONLY
    route: Sequence[str] | None = None
    route_back: Sequence[str] | None = None
    from_: str | None = None
    to: str | None = None
    reroute: Sequence[Mapping[str, Value]] | None = None
    count: int | None = None
    rtt: str | None = None
    start: str | None = None
    stop: str | None = None
    restart: str | None = None
    size: str | None = None
    id: str | None = None
    transport: str | None = None
    ecn: bool | str | None = None
    direction: str | None = None
    dscp: str | int | None = None
    like: str | None = None
    workload: Chosen | None = None
    sender: str | None = None
    receiver: str | None = None
    host: int | None = None
    ip: Element | None = None
    station: str | None = None

@dataclass(frozen=True, kw_only=True)
class Ping(Part):
    """UDP echo through the same bottleneck, 64 bytes of payload, the first at the very start.

    Attributes:
        route: Links that the packets cross, in this order. List of names; names of links
            (default: the only link).
        route_back: Links that the responses cross. List of names; names of links that route
            does not contain (default: propagation only, with the delay of the route).
        from_: Node that sends the packets, instead of route. Text; up to 64 letters, digits, _
            - (default: no network of links).
        to: Node that responds. Text; up to 64 letters, digits, _ - (default: no network of
            links).
        reroute: Changes of the route, as those of a flow. List of { at, route, route_back }; up
            to 1000 (default: none).
        host: Number of the far host that responds. Count; 1 to 63; not with wifi (default: one
            host for all flows and probes without this key).
        ip: Version of IP; the header of IPv6 has 20 bytes more. 4 or 6; 4, 6 (default: 4).
        station: Station that responds; with a group of stations, each one has such a probe.
            Text; the name of a station, or of a group with a count (default: the only station).
        interval: Mean time between two probe packets. Time; 100us to 1h (default: 20ms).
        spacing: Times between probe packets: constant, or one packet at a random time in each
            interval, which finds traffic that is synchronised with a constant interval. Choice;
            constant, random (default: constant).
        dscp: DSCP of the probe packets and of their responses. Name or count; BE, LE, CS0 to
            CS7, AF11 to AF43, VA, EF, or 0 to 63 (default: BE).
    """

    route: Sequence[str] | None = None
    route_back: Sequence[str] | None = None
    from_: str | None = None
    to: str | None = None
    reroute: Sequence[Mapping[str, Value]] | None = None
    host: int | None = None
    ip: Element | None = None
    station: str | None = None
    interval: str | None = None
    spacing: str | None = None
    dscp: str | int | None = None

@dataclass(frozen=True, kw_only=True)
class Host(Part):
    """Both ends of every flow; by default Linux 6.12 with its default sysctls.

    Attributes:
        like: Linux release whose TCP rules the host follows; rules of later releases are off; a
            series without a patch level is its last stable release, and patch level 0 is the
            release as published. Release; linux-4.4 to linux-7.3, also with a patch level:
            linux-6.12.5 (default: linux-6.12).
        with_rules: Rules that the host follows although its release does not have them. List of
            names; names of `narrows list rules` (default: none).
        without_rules: Rules of the release that the host does not follow. List of names; names
            of `narrows list rules` (default: none).
        iw: Initial congestion window in packets. Count; 1 to 1000 (default: 10).
        hz: Timer interrupts of the kernel per second (CONFIG_HZ). Count; 100 to 1000 (default:
            1000).
        clock: Resolution of RTT samples: microseconds, milliseconds, or the ticks of hz as in
            Linux before 3.15. Choice; us, ms, jiffies (default: us).
        pacing: Paced flows; auto: those whose congestion control requests it; off: none; fq:
            all, as with the qdisc fq at the sender. Choice; auto, off, fq (default: auto).
        gso: Largest super-packet, and thus the largest burst; on: 64KiB; off: one segment;
            otherwise a limit. On, off, packets or bytes; on, off, 1p to 65535p, 1514B to 64KiB
            (default: on).
        autosize: TSO autosizing: a burst contains about 1 ms of the flow's rate; false: as much
            as gso and the window allow, as before Linux 3.12. Boolean; true, false (default:
            true).
        pacing_shift: Bursts and TCP small queues contain 1/2^n of a second of the rate: 10 is
            about 1 ms; Wi-Fi drivers use 8 or 7. Count; 1 to 20 (default: 10).
        rmem: Receive buffer: initial size…maximum; release: that of the Linux release
            (tcp_rmem). Bytes…bytes or release; 4KiB to 2GiB (default: 128KiB…512MiB).
        wmem: Send buffer: initial size…maximum; release: that of Linux (tcp_wmem). Bytes…bytes
            or release; 4KiB to 2GiB (default: 16KiB…512MiB).
        notsent_lowat: The application writes while the send buffer contains less unsent data
            than this (TCP_NOTSENT_LOWAT). Bytes; 1B to 4GiB (default: 128KiB).
        read_latency: Upper limit of the random delay between the wake-up of a receiving
            application and its read. Time; 0s to 100us (default: 10us).
        rto_max: Longest retransmission timeout (tcp_rto_max_ms); needs Linux 6.15. Time; 1s to
            120s (default: 120s).
        retries2: A connection without progress ends after the duration of this number of
            retransmission timeouts and one more (net.ipv4.tcp_retries2). Count; 1 to 255
            (default: 15).
        rack: RACK detects losses (bit 0 of tcp_recovery); false: three SACKed segments above
            one; Linux 6.17 and later ignore it. Boolean; true, false (default: true).
        slow_start_after_idle: Halve the congestion window once per retransmission timeout of
            idle time, but not below iw. Boolean; true, false (default: true).
        rto_min: Minimum retransmission timeout above the smoothed RTT
            (net.ipv4.tcp_rto_min_us); also limits delayed ACKs to less. Time; 1us to 1s
            (default: 200ms).
        mtu: Largest IP packet of the host's interface (mtu of ip link); the handshake agrees on
            the smaller MTU of both ends. Bytes; 256B to 16kB (default: 1500B).
        mss: Maximum segment size that the host announces and uses, TCP options included (advmss
            of ip route, TCP_MAXSEG); the payload is 12 bytes less with timestamps. Bytes; 88B
            to mtu minus 40B (default: mtu minus 40B).
        sack: Selective acknowledgements (net.ipv4.tcp_sack), if both ends use them; without
            them, recovery is that of NewReno. Boolean; true, false (default: true).
        timestamps: TCP timestamps (net.ipv4.tcp_timestamps), if both ends use them; without
            them, headers are 12 bytes shorter. Boolean; true, false (default: true).
        quickack: Acknowledge each segment at once (quickack of ip route): no delayed ACKs.
            Boolean; true, false (default: false).
        delayed_ack_max: Longest delay of an ACK (TCP_DELACK_MAX); every second full segment is
            acknowledged at once. Time; 1ms to 200ms (default: 200ms).
        nic: Rate of the sender's network interface, which all flows and probes share. Rate;
            1kbit to 10Tbit (default: unlimited).
        ring: Super-packets that the transmit ring of the interface holds; needs nic. Count; 1
            to 65536 (default: 256 with nic).
        bql: Byte queue limits (BQL): the device accepts only as much data as keeps it busy;
            needs nic. Boolean; true, false (default: true).
        tsq: TCP small queues (TSQ): a flow has about 1 ms of its rate in qdisc and device, the
            rest waits in TCP; bytes set a fixed limit, as before Linux 3.12 (128KiB); needs
            nic. Boolean or bytes; true, false, 4KiB to 2GiB (default: true).
        qdisc: Queue discipline of the interface, one of those for a path; needs nic. Name or {
            kind, parameters } (default: pfifo_fast).
        buffer: Limit of the interface's queue discipline, where a super-packet counts as one
            packet (txqueuelen of pfifo_fast); needs nic. Bytes, packets or bdp; 1514B to
            1000GB, 1p to 10000000p, above 0bdp to 10000bdp (default: the default limit of the
            queue discipline).
        link: Mechanism that limits the rate of the interface: a serial line, or a class of htb
            in front of a device without delay; needs nic. Name or { kind, parameters }; serial,
            htb (default: serial).
        ecn: Explicit congestion notification (ECN); passive: for flows that request it; on: for
            all flows except those that disable it; off: for none. Choice; passive, on, off
            (default: passive).
    """

    like: str | None = None
    with_rules: Sequence[str] | None = None
    without_rules: Sequence[str] | None = None
    iw: int | None = None
    hz: int | None = None
    clock: str | None = None
    pacing: str | None = None
    gso: str | bool | None = None
    autosize: bool | None = None
    pacing_shift: int | None = None
    rmem: Element | None = None
    wmem: Element | None = None
    notsent_lowat: str | None = None
    read_latency: str | None = None
    rto_max: str | None = None
    retries2: int | None = None
    rack: bool | None = None
    slow_start_after_idle: bool | None = None
    rto_min: str | None = None
    mtu: str | None = None
    mss: str | None = None
    sack: bool | None = None
    timestamps: bool | None = None
    quickack: bool | None = None
    delayed_ack_max: str | None = None
    nic: str | None = None
    ring: int | None = None
    bql: bool | None = None
    tsq: bool | str | None = None
    qdisc: Chosen | None = None
    buffer: str | None = None
    link: Chosen | None = None
    ecn: str | None = None
