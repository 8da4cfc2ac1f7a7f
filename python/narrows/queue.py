"""Queue disciplines as objects, with tc's names for the parameters; `narrows list queues --verbose` describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from narrows.runs.choice import Choice, Chosen, Part


@dataclass(frozen=True, kw_only=True)
class Fifo(Choice):
    """First in, first out; drops what does not fit. Its limit is the path's `buffer`.

    >>> Fifo(drop="head").tree()
    {'kind': 'fifo', 'drop': 'head'}

    Attributes:
        drop: Which packet goes when the queue is full: the one that comes (`"tail"`), or the oldest (`"head"`).
    """

    kind = "fifo"
    drop: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fq(Choice):
    """A queue for each flow, served in turn; paces flows.

    >>> Fq(maxrate="2Mbit").tree()
    {'kind': 'fq', 'maxrate': '2Mbit'}

    Attributes:
        limit: Packets that a band may hold, as `"10000p"`; the path's `buffer` takes its place.
        flow_limit: Packets that a flow may hold, as `"100p"`.
        quantum: Bytes that a flow may send before the next one has its turn, as `"3028B"`.
        initial_quantum: Bytes that a new flow may send first.
        pacing: Pace at all.
        maxrate: The rate at which a flow is paced.
        low_rate_threshold: Up to this rate packets are paced one by one, above it by the quantum.
        refill_delay: Idleness after which a flow has a quantum again, as `"40ms"`.
        ce_threshold: Mark packets that leave so much later than they might have.
        horizon: How far ahead a packet's departure time may be.
        horizon_drop: Drop what is further ahead, instead of taking it for the horizon.
        timer_slack: How late its timer is.
        orphan_mask: The bits of a packet's hash that tell one flow from another.
        weight_high: Bytes of the high band in each round.
        weight_middle: Bytes of the middle band in each round.
        weight_low: Bytes of the low band in each round.
    """

    kind = "fq"
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
class Red(Choice):
    """Drops or marks at random by the average length of the queue.

    >>> Red(limit="400kB", min="30kB", max="90kB", ecn=True).tree()
    {'kind': 'red', 'limit': '400kB', 'min': '30kB', 'max': '90kB', 'ecn': True}

    Attributes:
        limit: Bytes that may wait, as `"1MB"`; the path's `buffer` takes its place.
        min: An average below it lets all pass; a third of `max` unless given.
        max: An average from it on lets none pass; three times `min` or a quarter of `limit` unless given.
        avpkt: The size of a usual packet.
        burst: Packets that may come at once before the average passes `min`.
        probability: Of a mark or drop when the average comes to `max`.
        bandwidth: How fast the average decays while idle; the link's rate unless given.
        ecn: Mark instead of dropping.
        harddrop: Drop where the average is at `max` or above, even with `ecn`.
        nodrop: Let pass what ought to be marked and is not ECN-capable.
        adaptive: Move the probability so that the average stays half-way.
        gentle: Raise the probability to 1 between `max` and twice `max`; not in Linux.
    """

    kind = "red"
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
class Cake(Choice):
    """Shaper, tins by code point, fair queues for hosts and flows, each under COBALT.

    >>> Cake(bandwidth="20Mbit", diffserv="besteffort").tree()
    {'kind': 'cake', 'bandwidth': '20Mbit', 'diffserv': 'besteffort'}

    Attributes:
        bandwidth: Rate that it shapes to; it does not unless given.
        diffserv: How code points become tins: `"diffserv3"`, `"diffserv4"`, `"diffserv8"`, `"besteffort"`,
            `"precedence"`.
        flows: What has a queue of its own, and whose share is fair: `"triple-isolate"`, `"flows"`, `"flowblind"` and
            others.
        network: tc's word for a round trip, as `"metro"`.
        rtt: Round trip that most flows are within; the network's unless given.
        ingress: Pay for what is dropped, too.
        autorate_ingress: Let the rate follow what arrives.
        line: tc's word for the framing of a line, as `"docsis"`.
        overhead: Bytes on top of an IP packet; the line's unless given.
        ether_vlan: 4 bytes more of overhead.
        mpu: Bytes that a packet is paid as at least.
        cells: `"noatm"`, `"atm"` or `"ptm"`; the line's unless given.
        ack_filter: Drop ACKs that a newer one makes needless: `"ack-filter"`, `"ack-filter-aggressive"`.
        memlimit: Memory that all queues may take; the path's `buffer` takes its place.
        wash: Clear the code point once the tin is chosen.
        nat: Tell hosts apart that a translation shows as one address (`Path.nat`).
        fwmark: Refused: packets have no marks here.
        split_gso: Take super-packets apart, where they cross the path whole.
    """

    kind = "cake"
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
    """RED in packets that drops an arriving packet with its like, if it meets one in the queue.

    >>> Choke(limit="400p", min="20p", max="60p").tree()
    {'kind': 'choke', 'limit': '400p', 'min': '20p', 'max': '60p'}

    Attributes:
        limit: Packets that may wait, as `"1000p"`; the path's `buffer` takes its place.
        min: An average of so many packets or fewer lets all pass; a third of `max` unless given.
        max: An average above it lets none pass; a quarter of `limit` unless given.
        avpkt: The size of a usual packet.
        burst: Packets that may come at once before the average passes `min`.
        probability: Of a mark or drop when the average comes to `max`.
        bandwidth: How fast the average decays while idle; the link's rate unless given.
        ecn: Mark instead of dropping.
    """

    kind = "choke"
    limit: str | None = None
    min: str | None = None
    max: str | None = None
    avpkt: str | None = None
    burst: int | None = None
    probability: float | str | None = None
    bandwidth: str | None = None
    ecn: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Sfq(Choice):
    """A short queue for each flow, served in turn; with `redflowlimit` each under RED.

    >>> Sfq(perturb="10s").tree()
    {'kind': 'sfq', 'perturb': '10s'}

    Attributes:
        limit: Packets that may wait in all queues, as `"127p"`; the path's `buffer` takes its place.
        depth: Packets that may wait in a queue.
        flows: Queues at once.
        divisor: Buckets that flows hash to, a power of two.
        quantum: Bytes that a queue may send in its turn.
        perturb: Time after which the hash changes.
        headdrop: Drop the oldest packet of a queue, not the newest.
        redflowlimit: Puts each queue under RED, whose thresholds follow from it.
        min: An average below it lets all pass; a third of `max` unless given.
        max: An average from it on lets none pass; a quarter of `redflowlimit` unless given.
        avpkt: The size of a usual packet.
        burst: Packets that may come at once before the average passes `min`.
        probability: Of a mark or drop when the average comes to `max`.
        ecn: Mark instead of dropping.
        harddrop: Drop where the average is at `max` or above, even with `ecn`.
    """

    kind = "sfq"
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
class DualPi2(Choice):
    """Two queues under one law: short delays for who reacts to each mark (L4S), its share for everyone else.

    >>> DualPi2(step="500us").tree()
    {'kind': 'dualpi2', 'step': '500us'}

    Attributes:
        limit: Packets that may wait in both, as `"10000p"`; the path's `buffer` takes its place.
        target: The delay that the law steers for, as `"15ms"`.
        tupdate: From one update of the probability to the next.
        alpha: Weight of the delay's distance from the target, per second.
        beta: Weight of the delay's growth, per second.
        coupling: The mark probability of the low-latency queue in units of that whose square the other has.
        step: A packet of the low-latency queue that waited longer is marked.
        min_qlen_step: Packets that must wait there for a new one to be subject to `step`.
        protection: Percent of the rate that the other queue gets while the first is overloaded.
        drop_overload: Drop low-latency packets, too, when marks do not help.
        drop_early: Decide when a packet comes, not when it leaves.
    """

    kind = "dualpi2"
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
class Pie(Choice):
    """Drops at random on entry, with a probability that follows the delay.

    >>> Pie(target="20ms", ecn=True).tree()
    {'kind': 'pie', 'target': '20ms', 'ecn': True}

    Attributes:
        limit: Packets that may wait, as `"1000p"`; the path's `buffer` takes its place.
        target: The delay that the law steers for, as `"15ms"`.
        tupdate: From one update of the probability to the next.
        alpha: Weight of the delay's distance from the target, in sixteenths per second.
        beta: Weight of the delay's growth, in sixteenths per second.
        ecn: Mark what can be marked, while the probability is small.
        bytemode: A packet's probability is in proportion to its size.
        dq_rate_estimator: Delay from backlog and measured departure rate.
    """

    kind = "pie"
    limit: str | None = None
    target: str | None = None
    tupdate: str | None = None
    alpha: int | None = None
    beta: int | None = None
    ecn: bool | None = None
    bytemode: bool | None = None
    dq_rate_estimator: bool | None = None


@dataclass(frozen=True, kw_only=True)
class FqPie(Choice):
    """A queue for each flow, served in turn, each under PIE's law.

    >>> FqPie(flows=64).tree()
    {'kind': 'fq_pie', 'flows': 64}

    Attributes:
        limit: Packets that may wait in all queues, as `"10240p"`; the path's `buffer` takes its place.
        flows: Queues that flows are hashed to.
        target: The delay that the law steers for, as `"15ms"`.
        tupdate: From one update of the probabilities to the next.
        alpha: Weight of the delay's distance from the target, in sixteenths per second.
        beta: Weight of the delay's growth, in sixteenths per second.
        quantum: Bytes that a queue may send in its turn, as `"1514B"`.
        memory_limit: Known to Linux, where it only counts; no effect.
        ecn_prob: Up to which probability `ecn` marks.
        ecn: Mark what can be marked.
        bytemode: A packet's probability is in proportion to its size.
        dq_rate_estimator: Delay from backlog and measured departure rate.
    """

    kind = "fq_pie"
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
class Codel(Choice):
    """Controls how long packets stand in the queue, by when they leave it.

    >>> Codel(target="10ms", ecn=True).tree()
    {'kind': 'codel', 'target': '10ms', 'ecn': True}

    Attributes:
        limit: Packets that may wait, as `"1000p"`; the path's `buffer` takes its place.
        target: How long a head may have stood, as `"5ms"`.
        interval: How long it may have stood longer before packets are dropped, as `"100ms"`.
        ecn: Mark what can be marked.
        ce_threshold: What can be marked and stood longer leaves marked, whatever the law says.
    """

    kind = "codel"
    limit: str | None = None
    target: str | None = None
    interval: str | None = None
    ecn: bool | None = None
    ce_threshold: str | None = None


@dataclass(frozen=True, kw_only=True)
class FqCodel(Choice):
    """A queue for each flow, served in turn, each under CoDel's law.

    >>> FqCodel(flows=64, ecn=False).tree()
    {'kind': 'fq_codel', 'flows': 64, 'ecn': False}

    Attributes:
        limit: Packets that may wait in all queues, as `"10240p"`; the path's `buffer` takes its place.
        flows: Queues that flows are hashed to.
        target: How long a head may have stood, as `"5ms"`.
        interval: How long it may have stood longer before packets are dropped, as `"100ms"`.
        quantum: Bytes that a queue may send in its turn, as `"1514B"`.
        ecn: Mark what can be marked, unless told otherwise.
        ce_threshold: What can be marked and stood longer leaves marked, whatever the law says.
        ce_threshold_selector: Only packets whose DS field, under the mask, is this.
        ce_threshold_mask: Bits of the DS field that the selector is compared with; 0 for none.
        memory_limit: Memory that all queues may take, as `"32MiB"`.
        drop_batch: What the fullest queue loses at most when the limit is exceeded, as `"64p"`.
    """

    kind = "fq_codel"
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
class Drr(Choice):
    """Classes of flows in turn, each as many bytes.

    >>> Drr(classes=16).tree()
    {'kind': 'drr', 'classes': 16}

    Attributes:
        classes: Classes that flows are hashed to.
        quantum: Bytes that a class may send in its turn, as `"1514B"`.
        limit: Packets that may wait in a class, as `"1000p"`; the path's `buffer` takes its place.
    """

    kind = "drr"
    classes: int | None = None
    quantum: str | None = None
    limit: str | None = None


@dataclass(frozen=True, kw_only=True)
class PfifoFast(Choice):
    """Three bands by type of service, the first that has a packet is served.

    >>> PfifoFast(limit="100p").tree()
    {'kind': 'pfifo_fast', 'limit': '100p'}

    Attributes:
        limit: Places of each band, as `"1000p"`; the path's `buffer` takes its place.
    """

    kind = "pfifo_fast"
    limit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Sfb(Choice):
    """Each flow's packets are marked with a probability that its own share of the queue has taught.

    >>> Sfb(max="50p").tree()
    {'kind': 'sfb', 'max': '50p'}

    Attributes:
        limit: Packets that may wait, as `"1000p"`; the path's `buffer` takes its place.
        max: Packets that a bin may hold; five quarters of `target` unless given.
        target: Packets in a bin from which its probability grows; four fifths of `max` unless given.
        increment: What a packet to a bin of `target` or more adds to its probability.
        decrement: What a packet to an empty bin takes off its probability.
        penalty_rate: Packets per second of all flows with probability 1 together.
        penalty_burst: Packets of them that may come at once, as `"20p"`.
        rehash: Time after which flows get other bins, as `"600s"`.
        db: How long before that the other bins are warmed up.
    """

    kind = "sfb"
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
class Hhf(Choice):
    """Flows that send much in a short time wait behind those that do not.

    >>> Hhf(admit_bytes="16kB").tree()
    {'kind': 'hhf', 'admit_bytes': '16kB'}

    Attributes:
        limit: Packets that may wait, as `"1000p"`; the path's `buffer` takes its place.
        quantum: Bytes that the queue of heavy flows may send in its turn, as `"1514B"`.
        hh_limit: Heavy flows that are remembered.
        reset_timeout: Time after which the counters are cleared, as `"40ms"`.
        admit_bytes: Bytes that a flow may send in that time without being heavy.
        evict_timeout: Idleness after which a flow is not heavy any more.
        non_hh_weight: Quanta that the queue of the other flows may send in its turn.
    """

    kind = "hhf"
    limit: str | None = None
    quantum: str | None = None
    hh_limit: int | None = None
    reset_timeout: str | None = None
    admit_bytes: str | None = None
    evict_timeout: str | None = None
    non_hh_weight: int | None = None


@dataclass(frozen=True, kw_only=True)
class Xcp(Choice):
    """Tells flows under `xcp` by how much to change their windows; first in, first out.

    >>> Xcp(gamma=0.2).tree()
    {'kind': 'xcp', 'gamma': 0.2}

    Attributes:
        alpha: How much of the unused rate is given out per control interval.
        beta: How much of the standing queue is taken back per control interval.
        gamma: How much of the traffic moves from flow to flow per control interval at least.
    """

    kind = "xcp"
    alpha: float | None = None
    beta: float | None = None
    gamma: float | None = None


@dataclass(frozen=True, kw_only=True)
class HtbClass(Part):
    """A class of `Htb`.

    Attributes:
        id: Its name, and the order among equals, as `"1:10"`.
        parent: The class that it borrows from; nobody unless given.
        rate: What it always gets, as `"5Mbit"`.
        ceil: What it gets at most, while its parent has more than others use; its rate unless given.
        burst: Bytes of its rate that may leave at once after idleness.
        cburst: The same of its ceil.
        prio: Who borrows first: 0 before 1, up to 7.
        quantum: Bytes of its turn among equals that borrow.
        queue: The discipline in it, where it has no classes below it.
        limit: Packets that may wait in it, as `"100p"`; the path's `buffer` unless given, else its discipline's own.
        match: Flows and code points that belong to it, as `{"flow": ["cubic0", "ping0"]}` or `{"dscp": "EF"}`.
        overhead: Bytes that the line behind adds to a frame.
        mpu: Bytes that a frame is paid as at least.
        linklayer: `"atm"`: cells of 48 in 53 bytes.
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
    """A tree of classes with rates, which borrow from their parents up to their ceils; any discipline in each.

    >>> guest = HtbClass(id="1:20", rate="2Mbit", ceil="20Mbit", queue=FqCodel(), match={"flow": "guest"})
    >>> Htb(classes=[guest]).tree()["classes"][0]["queue"]
    {'kind': 'fq_codel'}

    Attributes:
        default: The class of packets that none matches, as `"1:30"`; without one they leave at once, before all others.
        classes: The tree of classes.
        r2q: A turn is so much of a second's rate: rate / r2q, from 1000 to 200000 bytes.
        direct_qlen: Packets that may wait of those in no class, as `"1000p"`; the path's `buffer` takes its place.
    """

    kind = "htb"
    default: str | None = None
    classes: Sequence[HtbClass | Mapping[str, object]] | None = None
    r2q: int | None = None
    direct_qlen: str | None = None
