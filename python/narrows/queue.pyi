"""Queue disciplines as objects.

Written by `NARROWS_GOLDEN=write pytest tests/test_schema.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from narrows.runs.choice import Choice, Chosen, Part

__all__ = [
    "Cake",
    "Choke",
    "Codel",
    "Drr",
    "DualPi2",
    "Fifo",
    "Fq",
    "FqCodel",
    "FqPie",
    "Hhf",
    "Htb",
    "HtbClass",
    "PfifoFast",
    "Pie",
    "Red",
    "Sfb",
    "Sfq",
    "Xcp",
]

@dataclass(frozen=True, kw_only=True)
class Fifo(Choice):
    """First in, first out; drops at the tail.

    Source: Linux 6.12 bfifo, pfifo, pfifo_head_drop.

    Attributes:
        drop: Which packet goes when the queue is full: the one that comes, or the oldest. One
            of `tail`, `head`, default tail (Linux 6.12 pfifo, pfifo_head_drop).
    """

    drop: str | None = None

@dataclass(frozen=True, kw_only=True)
class Cake(Choice):
    """Shaper, tins by code point, fair queues for hosts and flows, each under COBALT.

    Source: Piece of CAKE (2018), Linux 6.12 cake.

    Attributes:
        bandwidth: Rate that it shapes to; 0: it does not, and the link behind it is the narrow
            place. Rate from 0bit to 1Tbit, default 0bit (Linux 6.12 cake).
        diffserv: How code points become tins. One of `diffserv3`, `diffserv4`, `diffserv8`,
            `besteffort`, `precedence`, default diffserv3 (Linux 6.12 cake).
        flows: What has a queue of its own, and whose share is fair. One of `triple-isolate`,
            `flowblind`, `srchost`, `dsthost`, `hosts`, `flows`, `dual-srchost`, `dual-dsthost`,
            default triple-isolate (Linux 6.12 cake).
        network: Tc's word for a round trip: 100us, 1ms, 10ms, 30ms, 300ms, 1s, 1000s; internet
            is 100ms. One of `internet`, `datacentre`, `lan`, `metro`, `regional`, `oceanic`,
            `satellite`, `interplanetary`, default internet (Linux 6.12 cake).
        rtt: Round trip that most flows are within: queues react in that time, packets may stand
            a twentieth of it; 0s: the network's. Time from 0s to 1000s, default 0s (Linux 6.12
            cake).
        ingress: The shaper stands behind the narrow place: what it drops has passed there and
            is paid for. Default false (Linux 6.12 cake).
        autorate_ingress: The rate follows what arrives; bandwidth is where it begins. Default
            false (Linux 6.12 cake).
        line: Tc's word for the framing of a line: overhead, mpu and cells. One of `raw`,
            `conservative`, `pppoa-vcmux`, `pppoa-llc`, `pppoe-vcmux`, `pppoe-llcsnap`,
            `bridged-vcmux`, `bridged-llcsnap`, `ipoa-vcmux`, `ipoa-llcsnap`, `pppoe-ptm`,
            `bridged-ptm`, `ethernet`, `docsis`, default raw (Linux 6.12 cake).
        overhead: Bytes on top of an IP packet; 0: the line's, of a raw one the frame as it is.
            From -64.0 to 256.0, default 0.0 (Linux 6.12 cake).
        ether_vlan: 4 bytes more of overhead. Default false (Linux 6.12 cake).
        mpu: Bytes that a packet is paid as at least; 0: the line's. Bytes from 0B to 256B,
            default 0B (Linux 6.12 cake).
        cells: Cells of 48 in 53 bytes, or 64 in 65; line: the line's. One of `line`, `noatm`,
            `atm`, `ptm`, default line (Linux 6.12 cake).
        ack_filter: Drop ACKs that a newer one behind them makes needless. One of
            `no-ack-filter`, `ack-filter`, `ack-filter-aggressive`, default no-ack-filter (Linux
            6.12 cake).
        memlimit: Memory that all queues may take, as Linux counts it; 0: four times what rtt
            has room for, 4 MB or more, 15.5 MB at most. Bytes from 0B to 4GiB, default 0B
            (Linux 6.12 cake).
        wash: Clear the code point once the tin is chosen. Default false (Linux 6.12 cake).
        nat: Tell hosts apart that a translation shows as one address (`path.nat`). Default
            false (Linux 6.12 cake).
        fwmark: Mask of the firewall mark that chooses the tin: refused, packets have none here.
            From 0 to 4294967295, default 0 (Linux 6.12 cake).
        split_gso: Take super-packets apart when they come, where they cross the path whole
            (offload). Default true (Linux 6.12 cake).
    """

    bandwidth: str | None = None
    diffserv: str | None = None
    flows: str | None = None
    network: str | None = None
    rtt: str | None = None
    ingress: bool | None = None
    autorate_ingress: bool | None = None
    line: str | None = None
    overhead: float | None = None
    ether_vlan: bool | None = None
    mpu: str | None = None
    cells: str | None = None
    ack_filter: str | None = None
    memlimit: str | None = None
    wash: bool | None = None
    nat: bool | None = None
    fwmark: int | None = None
    split_gso: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Choke(Choice):
    """RED that drops a packet with its like, if it meets one in the queue.

    Source: Pan, Prabhakar, Psounis 2000; Linux 6.12 choke.

    Attributes:
        limit: Packets that may wait, where the path has no buffer. Packets from 1p to 131072p,
            default 1000p (tc-choke(8); the default: a device's txqueuelen).
        min: An average of so many packets or fewer lets all pass; 0p: a third of max. Packets
            from 0p to 131072p, default 0p (tc-choke(8)).
        max: An average above it lets none pass; 0p: a quarter of limit. Packets from 0p to
            131072p, default 0p (tc-choke(8)).
        avpkt: The size of a usual packet: scales burst and the decay in idle time. Bytes from
            1B to 1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may come at once before the average passes min; 0: (2 min + max) /
            (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: The probability of a mark or drop when the average comes to max.
            Probability from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        bandwidth: How fast the average decays while the queue is idle; 0bit: the link's rate.
            Rate from 0bit to 10Tbit, default 0bit (tc-red(8)).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
    """

    limit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    bandwidth: str | None = None
    ecn: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Codel(Choice):
    """Drops or marks packets when the queue has been standing for an interval.

    Source: RFC 8289, Linux 6.12 codel.

    Attributes:
        limit: Packets that may wait, where the path has no buffer. Packets from 1p to
            10000000p, default 1000p (Linux 6.12 codel).
        target: How long a head may have stood in the queue. Time from 1us to 100s, default 5ms
            (RFC 8289, Linux 6.12).
        interval: How long it may have stood longer before packets are dropped: an RTT that most
            flows are within. Time from 1us to 100s, default 100ms (RFC 8289, Linux 6.12).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (Linux 6.12
            codel).
        ce_threshold: ECN-capable packets that stood longer leave marked, whatever the law says;
            0s: none do. Time from 0s to 100s, default 0s (Linux 6.12).
    """

    limit: str | None = None
    target: str | None = None
    interval: str | None = None
    ecn: bool | None = None
    ce_threshold: str | None = None

@dataclass(frozen=True, kw_only=True)
class Drr(Choice):
    """Classes of flows in turn, each as many bytes.

    Source: Shreedhar and Varghese 1995, Linux 6.12 sch_drr.

    Attributes:
        classes: Classes that flows are hashed to. From 1 to 65536, default 1024 (as many as
            fq_codel's; Linux has those that are made).
        quantum: Bytes that a class may send in its turn. Bytes from 64B to 1MiB, default 1514B
            (Linux 6.12 sch_drr: the device's MTU and its Ethernet header).
        limit: Packets that may wait in a class, where the path has no buffer. Packets from 1p
            to 4294967295p, default 1000p (Linux 6.12 pfifo: a device's default txqueuelen).
    """

    classes: int | None = None
    quantum: str | None = None
    limit: str | None = None

@dataclass(frozen=True, kw_only=True)
class DualPi2(Choice):
    """Two queues under one law: short delays for who reacts to each mark, its share for everyone
    else.

    Source: Linux 6.17 sch_dualpi2, RFC 9332.

    Attributes:
        limit: Packets that may wait in both queues, where the path has no buffer. Packets from
            1p to 4294967295p, default 10000p (Linux 6.17 sch_dualpi2).
        target: The delay that the law steers for. Time from 1us to 100s, default 15ms (RFC
            9332, Linux 6.17 sch_dualpi2).
        tupdate: From one update of the probability to the next. Time from 1us to 100s, default
            16ms (RFC 9332, Linux 6.17 sch_dualpi2).
        alpha: Weight of the delay's distance from the target, per second. From 0.0 to 256.0,
            default 0.16015625 (RFC 9332 (0.16), Linux 6.17 sch_dualpi2 (41/256)).
        beta: Weight of the delay's growth, per second. From 0.0 to 256.0, default 3.19921875
            (RFC 9332 (3.2), Linux 6.17 sch_dualpi2 (819/256)).
        coupling: The mark probability of L in units of that whose square C has. From 1 to 255,
            default 2 (RFC 9332 section 2.5).
        step: A packet of L that waited longer is marked. Time from 0s to 10s, default 1ms
            (Linux 6.17 sch_dualpi2 (step_thresh)).
        min_qlen_step: Packets that must wait in L for a new one to be subject to step. From 0
            to 4294967295, default 0 (Linux 6.17 sch_dualpi2).
        protection: Percent of the rate that C gets while L is overloaded. From 0 to 50, default
            10 (Linux 6.17 sch_dualpi2 (classic_protection)).
        drop_overload: Drop packets of L, too, when marks do not help; otherwise only the limit
            drops them. Default true (Linux 6.17 sch_dualpi2).
        drop_early: Decide when a packet comes, not when it leaves. Default false (Linux 6.17
            sch_dualpi2).
    """

    limit: str | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: float | None = None
    beta: float | None = None
    coupling: int | None = None
    step: str | None = None
    min_qlen_step: int | None = None
    protection: int | None = None
    drop_overload: bool | None = None
    drop_early: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Fq(Choice):
    """A queue for each flow, served in turn; paces flows.

    Source: Linux 6.12 sch_fq.

    Attributes:
        limit: Packets that a band may hold; the path's buffer takes its place. Packets from 1p
            to 1000000p, default 10000p (Linux 6.12 sch_fq).
        flow_limit: Packets that a flow may hold. Packets from 1p to 1000000p, default 100p
            (Linux 6.12 sch_fq).
        quantum: Bytes that a flow may send before the next one has its turn. Bytes from 1B to
            1MiB, default 3028B (Linux 6.12 sch_fq).
        initial_quantum: Bytes that a new flow may send first. Bytes from 0B to 2147483647B,
            default 15140B (Linux 6.12 sch_fq).
        pacing: Pace at all. Default true (Linux 6.12 sch_fq).
        maxrate: The rate at which a flow is paced; 0 is none. Rate from 0bit to
            18446744073709551615bit, default 0bit (Linux 6.12 sch_fq).
        low_rate_threshold: Up to this rate packets are paced one by one, above it by the
            quantum. Rate from 0bit to 18446744073709551615bit, default 550kbit (Linux 6.12
            sch_fq).
        refill_delay: Idleness after which a flow has a quantum again. Time from 0s to 1h,
            default 40ms (Linux 6.12 sch_fq).
        ce_threshold: Mark packets that leave so much later than they might have; 0 is never.
            Time from 0s to 1h, default 0s (Linux 6.12 sch_fq).
        horizon: How far ahead a packet's departure time may be. Time from 0s to 1h, default 10s
            (Linux 6.12 sch_fq).
        horizon_drop: Drop what is further ahead, instead of taking it for the horizon. Default
            true (Linux 6.12 sch_fq).
        timer_slack: How late its timer is. Time from 0s to 1s, default 10us (Linux 6.12
            sch_fq).
        orphan_mask: The bits of a packet's hash that tell one flow from another. From 0 to
            1048575, default 1023 (Linux 6.12 sch_fq).
        weight_high: Bytes of the high band in each round. From 16384 to 1073741824, default
            589824 (Linux 6.12 sch_fq).
        weight_middle: Bytes of the middle band in each round. From 16384 to 1073741824, default
            196608 (Linux 6.12 sch_fq).
        weight_low: Bytes of the low band in each round. From 16384 to 1073741824, default 65536
            (Linux 6.12 sch_fq).
    """

    limit: str | None = None
    flow_limit: str | None = None
    quantum: str | None = None
    initial_quantum: str | None = None
    pacing: bool | None = None
    maxrate: str | None = None
    low_rate_threshold: str | None = None
    refill_delay: str | None = None
    ce_threshold: str | None = None
    horizon: str | None = None
    horizon_drop: bool | None = None
    timer_slack: str | None = None
    orphan_mask: int | None = None
    weight_high: int | None = None
    weight_middle: int | None = None
    weight_low: int | None = None

@dataclass(frozen=True, kw_only=True)
class FqCodel(Choice):
    """A queue for each flow, served in turn, each under CoDel's law.

    Source: RFC 8290, Linux 6.12 fq_codel.

    Attributes:
        limit: Packets that may wait in all queues, where the path has no buffer. Packets from
            1p to 10000000p, default 10240p (Linux 6.12 fq_codel).
        flows: Queues that flows are hashed to. From 1 to 65536, default 1024 (Linux 6.12
            fq_codel).
        target: How long a head may have stood in the queue. Time from 1us to 100s, default 5ms
            (RFC 8289, Linux 6.12).
        interval: How long it may have stood longer before packets are dropped: an RTT that most
            flows are within. Time from 1us to 100s, default 100ms (RFC 8289, Linux 6.12).
        quantum: Bytes that a queue may send in its turn. Bytes from 256B to 1MiB, default 1514B
            (Linux 6.12 fq_codel: the device's MTU and its Ethernet header).
        ecn: Mark ECN-capable packets instead of dropping them. Default true (Linux 6.12
            fq_codel).
        ce_threshold: ECN-capable packets that stood longer leave marked, whatever the law says;
            0s: none do. Time from 0s to 100s, default 0s (Linux 6.12).
        ce_threshold_selector: Ce_threshold holds for packets whose DS field, under the mask, is
            this. From 0 to 255, default 0 (Linux 6.12 fq_codel).
        ce_threshold_mask: Bits of the DS field that ce_threshold_selector is compared with (the
            lowest two are ECN's); 0: none. From 0 to 255, default 0 (Linux 6.12 fq_codel).
        memory_limit: Memory that all queues may take, as Linux counts it. Bytes from 1B to
            2GiB, default 32MiB (Linux 6.12 fq_codel).
        drop_batch: Packets that the fullest queue loses at most when the limit is exceeded.
            Packets from 1p to 1000000p, default 64p (Linux 6.12 fq_codel).
    """

    limit: str | None = None
    flows: int | None = None
    target: str | None = None
    interval: str | None = None
    quantum: str | None = None
    ecn: bool | None = None
    ce_threshold: str | None = None
    ce_threshold_selector: int | None = None
    ce_threshold_mask: int | None = None
    memory_limit: str | None = None
    drop_batch: str | None = None

@dataclass(frozen=True, kw_only=True)
class FqPie(Choice):
    """A queue for each flow, served in turn, each under PIE's law.

    Source: Linux 6.12 sch_fq_pie.

    Attributes:
        limit: Packets that may wait in all queues, where the path has no buffer. Packets from
            1p to 4294967295p, default 10240p (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        flows: Queues that flows are hashed to. From 1 to 65536, default 1024 (Linux 6.12
            sch_fq_pie, tc-fq_pie(8)).
        target: The delay that the law steers for. Time from 1us to 1000s, default 15ms (RFC
            8033, Linux 6.12 sch_pie).
        tupdate: From one update of the probability to the next, in whole ticks and one more.
            Time from 1us to 1000s, default 15ms (RFC 8033, Linux 6.12 sch_pie).
        alpha: Weight of the delay's distance from the target, in sixteenths per second. From 0
            to 32, default 2 (RFC 8033, tc-pie(8)).
        beta: Weight of the delay's growth, in sixteenths per second. From 0 to 32, default 20
            (RFC 8033, tc-pie(8)).
        quantum: Bytes that a queue may send in its turn. Bytes from 1B to 1MiB, default 1514B
            (Linux 6.12 sch_fq_pie: the device's MTU and its Ethernet header).
        memory_limit: Known to Linux, where it only counts; no effect. Bytes from 1B to 4GiB,
            default 32MiB (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        ecn_prob: Up to which probability ecn marks. Probability from 0.0 to 1.0, default 0.1
            (Linux 6.12 sch_fq_pie, tc-fq_pie(8)).
        ecn: Mark what can be marked instead of dropping it, while the probability is small.
            Default false (RFC 8033, tc-pie(8)).
        bytemode: A packet's probability is in proportion to its size. Default false (RFC 8033,
            tc-pie(8)).
        dq_rate_estimator: Delay from backlog and measured departure rate, not from the packets'
            own times. Default false (RFC 8033, tc-pie(8)).
    """

    limit: str | None = None
    flows: int | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: int | None = None
    beta: int | None = None
    quantum: str | None = None
    memory_limit: str | None = None
    ecn_prob: float | str | None = None
    ecn: bool | None = None
    bytemode: bool | None = None
    dq_rate_estimator: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Hhf(Choice):
    """Flows that send much wait behind those that do not.

    Source: Estan, Varghese 2002; Linux 6.12 hhf.

    Attributes:
        limit: Packets that may wait in both queues, where the path has no buffer. Packets from
            1p to 4294967295p, default 1000p (Linux 6.12 hhf).
        quantum: Bytes that the queue of heavy flows may send in its turn. Bytes from 256B to
            1GiB, default 1514B (Linux 6.12 hhf: the device's MTU and its Ethernet header).
        hh_limit: Heavy flows that are remembered. From 1 to 2048, default 2048 (Linux 6.12
            hhf).
        reset_timeout: Time after which the counters are cleared, rounded up to ticks. Time from
            1us to 1000s, default 40ms (Linux 6.12 hhf).
        admit_bytes: Bytes that a flow may send in that time without being heavy. Bytes from 1B
            to 4294967295B, default 128KiB (Linux 6.12 hhf).
        evict_timeout: Idleness after which a flow is not heavy any more, rounded up to ticks.
            Time from 1us to 1000s, default 1s (Linux 6.12 hhf).
        non_hh_weight: Quanta that the queue of the other flows may send in its turn. From 1 to
            1048576, default 2 (Linux 6.12 hhf).
    """

    limit: str | None = None
    quantum: str | None = None
    hh_limit: int | None = None
    reset_timeout: str | None = None
    admit_bytes: str | None = None
    evict_timeout: str | None = None
    non_hh_weight: int | None = None

@dataclass(frozen=True, kw_only=True)
class HtbClass(Part):
    """A class of `Htb`.

    Source: Linux 6.12 sch_htb, tc-htb(8).

    Attributes:
        id: Its name, and the order among equals; must be given. (Linux 6.12 sch_htb, tc-htb(8))
        rate: What it always gets; must be given. Rate from 0bit to 10Tbit (Linux 6.12 sch_htb,
            tc-htb(8)).
        parent: The class that it borrows from; none: nobody. (Linux 6.12 sch_htb, tc-htb(8))
        ceil: What it gets at most, while its parent has more than others use; 0: its rate. Rate
            from 0bit to 10Tbit, default 0bit (Linux 6.12 sch_htb, tc-htb(8)).
        burst: Bytes of its rate that may leave at once after idleness; 0: a frame, as tc has it
            where its clock is fine. Bytes from 0B to 1GB, default 0B (Linux 6.12 sch_htb,
            tc-htb(8)).
        cburst: The same of its ceil. Bytes from 0B to 1GB, default 0B (Linux 6.12 sch_htb,
            tc-htb(8)).
        prio: Who borrows first: 0 before 1. From 0 to 7, default 0 (Linux 6.12 sch_htb,
            tc-htb(8)).
        quantum: Bytes of its turn among equals that borrow; 0: rate / r2q. Bytes from 0B to
            1GB, default 0B (Linux 6.12 sch_htb, tc-htb(8)).
        queue: The discipline in it, where it has no classes below it. Default fifo (Linux 6.12
            sch_htb, tc-htb(8)).
        limit: Packets that may wait in it; 0p: the path's buffer, else its discipline's own.
            Packets from 0p to 4294967295p, default 0p (Linux 6.12 sch_htb, tc-htb(8)).
        match: Flows and code points that belong to it; the first class that matches has a
            packet. Default {} (Linux 6.12 sch_htb, tc-htb(8)).
        overhead: Bytes that the line behind adds to a frame. Bytes from 0B to 1GB, default 0B
            (Linux 6.12 sch_htb, tc-htb(8)).
        mpu: Bytes that a frame is paid as at least. Bytes from 0B to 1GB, default 0B (Linux
            6.12 sch_htb, tc-htb(8)).
        linklayer: Atm: cells of 48 in 53 bytes. One of `ethernet`, `atm`, default ethernet
            (Linux 6.12 sch_htb, tc-htb(8)).
    """

    id: str
    rate: str
    parent: str | None = None
    ceil: str | None = None
    burst: str | None = None
    cburst: str | None = None
    prio: int | None = None
    quantum: str | None = None
    queue: Chosen | None = None
    limit: str | None = None
    match: Mapping[str, str | int | Sequence[str | int]] | None = None
    overhead: str | None = None
    mpu: str | None = None
    linklayer: str | None = None

@dataclass(frozen=True, kw_only=True)
class Htb(Choice):
    """A tree of classes with rates, which borrow from their parents up to their ceils; any
    discipline in each.

    Source: Linux 6.12 sch_htb, tc-htb(8).

    Attributes:
        default: The class of packets that none matches; without one they leave at once, before
            all others. (Linux 6.12 sch_htb, tc-htb(8))
        classes: The tree of classes. (Linux 6.12 sch_htb, tc-htb(8))
        r2q: A turn is so much of a second's rate: rate / r2q, from 1000 to 200000 bytes. From 1
            to 4294967295, default 10 (Linux 6.12 sch_htb, tc-htb(8)).
        direct_qlen: Packets that may wait of those in no class, where the path has no buffer.
            Packets from 1p to 4294967295p, default 1000p (Linux 6.12 sch_htb, tc-htb(8)).
    """

    default: str | None = None
    classes: Sequence[HtbClass | Mapping[str, object]] | None = None
    r2q: int | None = None
    direct_qlen: str | None = None

@dataclass(frozen=True, kw_only=True)
class PfifoFast(Choice):
    """Three bands by type of service, the first that has a packet is served.

    Source: Linux 6.12 pfifo_fast.

    Attributes:
        limit: Places of each band, where the path has no buffer. Packets from 1p to
            4294967295p, default 1000p (Linux 6.12: a device's default txqueuelen).
    """

    limit: str | None = None

@dataclass(frozen=True, kw_only=True)
class Pie(Choice):
    """Drops at random on entry, with a probability that follows the delay.

    Source: Linux 6.12 sch_pie, RFC 8033.

    Attributes:
        limit: Packets that may wait, where the path has no buffer. Packets from 1p to
            4294967295p, default 1000p (Linux 6.12 sch_pie, tc-pie(8)).
        target: The delay that the law steers for. Time from 1us to 1000s, default 15ms (RFC
            8033, Linux 6.12 sch_pie).
        tupdate: From one update of the probability to the next, in whole ticks and one more.
            Time from 1us to 1000s, default 15ms (RFC 8033, Linux 6.12 sch_pie).
        alpha: Weight of the delay's distance from the target, in sixteenths per second. From 0
            to 32, default 2 (RFC 8033, tc-pie(8)).
        beta: Weight of the delay's growth, in sixteenths per second. From 0 to 32, default 20
            (RFC 8033, tc-pie(8)).
        ecn: Mark what can be marked instead of dropping it, while the probability is small.
            Default false (RFC 8033, tc-pie(8)).
        bytemode: A packet's probability is in proportion to its size. Default false (RFC 8033,
            tc-pie(8)).
        dq_rate_estimator: Delay from backlog and measured departure rate, not from the packets'
            own times. Default false (RFC 8033, tc-pie(8)).
    """

    limit: str | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: int | None = None
    beta: int | None = None
    ecn: bool | None = None
    bytemode: bool | None = None
    dq_rate_estimator: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Red(Choice):
    """Drops or marks at random by the average length of the queue.

    Source: Floyd, Jacobson 1993; Linux 6.12 red.

    Attributes:
        limit: Bytes that may wait, where the path has no buffer. Bytes from 1B to 1024GiB,
            default 1MB (tc-red(8); the default: a thousand packets of 1000 bytes).
        min: An average below it lets all pass; 0B: a third of max. Bytes from 0B to 1024GiB,
            default 0B (tc-red(8)).
        max: An average from it on lets none pass; 0B: three times min, where min is given, else
            a quarter of limit. Bytes from 0B to 1024GiB, default 0B (tc-red(8)).
        avpkt: The size of a usual packet: scales burst and the decay in idle time. Bytes from
            1B to 1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may come at once before the average passes min; 0: (2 min + max) /
            (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: The probability of a mark or drop when the average comes to max.
            Probability from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        bandwidth: How fast the average decays while the queue is idle; 0bit: the link's rate.
            Rate from 0bit to 10Tbit, default 0bit (tc-red(8)).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
        harddrop: Drop where the average is at max or above, even with ecn. Default false
            (tc-red(8)).
        nodrop: Let pass what ought to be marked and is not ECN-capable; needs ecn. Default
            false (tc-red(8)).
        adaptive: Move the probability, each half second, so that the average stays half-way
            between min and max. Default false (tc-red(8)).
        gentle: Raise the probability to 1 between max and twice max, instead of a jump; not in
            Linux. Default false (Floyd 2000).
    """

    limit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    bandwidth: str | None = None
    ecn: bool | None = None
    harddrop: bool | None = None
    nodrop: bool | None = None
    adaptive: bool | None = None
    gentle: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Sfb(Choice):
    """Each flow's packets are marked with a probability that its own share of the queue has
    taught.

    Source: Feng, Kandlur, Saha, Shin 1999 and 2001; Linux 6.12 sfb.

    Attributes:
        limit: Packets that may wait, where the path has no buffer. Packets from 1p to
            4294967295p, default 1000p (Linux 6.12 sfb: a device's txqueuelen).
        max: Packets that a bin may hold; 0p: five quarters of target, 25p without that. Packets
            from 0p to 65535p, default 0p (tc-sfb(8), iproute2 6.1).
        target: Packets in a bin from which its probability grows; 0p: four fifths of max.
            Packets from 0p to 65535p, default 0p (tc-sfb(8), iproute2 6.1).
        increment: What a packet to a bin of target or more adds to its probability. Probability
            from 0.0 to 1.0, default 0.0005 (tc-sfb(8)).
        decrement: What a packet to an empty bin takes off its probability. Probability from 0.0
            to 1.0, default 5e-05 (tc-sfb(8)).
        penalty_rate: Packets per second of all flows with probability 1 together; 0: none. From
            0 to 1000000000, default 10 (tc-sfb(8)).
        penalty_burst: Packets of them that may come at once; 0p: none. Packets from 0p to
            4294967295p, default 20p (tc-sfb(8)).
        rehash: Time after which flows get other bins; 0: never. Time from 0s to 1000000s,
            default 600s (tc-sfb(8)).
        db: How long before that the other bins are warmed up (double buffering). Time from 0s
            to 1000000s, default 60s (tc-sfb(8)).
    """

    limit: str | None = None
    max: str | None = None
    target: str | None = None
    increment: float | str | None = None
    decrement: float | str | None = None
    penalty_rate: int | None = None
    penalty_burst: str | None = None
    rehash: str | None = None
    db: str | None = None

@dataclass(frozen=True, kw_only=True)
class Sfq(Choice):
    """A short queue for each flow, served in turn; with redflowlimit each under RED.

    Source: McKenney 1990; Linux 6.12 sfq.

    Attributes:
        limit: Packets that may wait in all queues, where the path has no buffer. Packets from
            2p to 8306816p, default 127p (Linux 6.12 sfq).
        depth: Packets that may wait in a queue. Packets from 1p to 127p, default 127p (Linux
            6.12 sfq).
        flows: Queues at once; a further flow is dropped. From 1 to 65408, default 128 (Linux
            6.12 sfq).
        divisor: Buckets that flows hash to, a power of two. From 1 to 65536, default 1024
            (Linux 6.12 sfq).
        quantum: Bytes that a queue may send in its turn. Bytes from 256B to 1MiB, default 1514B
            (Linux 6.12 sfq: the device's MTU and its Ethernet header).
        perturb: Time after which the hash changes; 0s: never. Time from 0s to 24h, default 0s
            (Linux 6.12 sfq).
        headdrop: Drop the oldest packet of a queue, not the newest. Default false (tc-sfq(8)).
        redflowlimit: Puts each queue under RED, whose thresholds follow from it; 0B: no RED.
            Bytes from 0B to 1024GiB, default 0B (tc-sfq(8)).
        min: An average below it lets all pass; 0B: a third of max. Bytes from 0B to 1024GiB,
            default 0B (tc-sfq(8)).
        max: An average from it on lets none pass; 0B: a quarter of redflowlimit. Bytes from 0B
            to 1024GiB, default 0B (tc-sfq(8)).
        avpkt: The size of a usual packet: scales burst and the decay in idle time. Bytes from
            1B to 1MiB, default 1kB (tc-red(8) advises 1000).
        burst: Packets that may come at once before the average passes min; 0: (2 min + max) /
            (3 avpkt). From 0 to 1000000, default 0 (tc-red(8)).
        probability: The probability of a mark or drop when the average comes to max.
            Probability from 0.0 to 1.0, default 0.02 (iproute2 6.1).
        ecn: Mark ECN-capable packets instead of dropping them. Default false (tc-red(8)).
        harddrop: Drop where the average is at max or above, even with ecn. Default false
            (tc-red(8)).
    """

    limit: str | None = None
    depth: str | None = None
    flows: int | None = None
    divisor: int | None = None
    quantum: str | None = None
    perturb: str | None = None
    headdrop: bool | None = None
    redflowlimit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    ecn: bool | None = None
    harddrop: bool | None = None

@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """First in, first out; tells flows under xcp by how much to change their windows.

    Source: Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03.

    Attributes:
        alpha: How much of the unused rate is given out per control interval; stable below
            0.555. From 0.0 to 10.0, default 0.4 (Katabi, Handley, Rohrs 2002, section 4.1).
        beta: How much of the standing queue is taken back per control interval; alpha² √2 is
            stable. From 0.0 to 10.0, default 0.226 (Katabi, Handley, Rohrs 2002, section 4.1).
        gamma: How much of the traffic moves from flow to flow per control interval at least.
            From 0.0 to 1.0, default 0.1 (Katabi, Handley, Rohrs 2002, section 3.5.2).
    """

    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None
