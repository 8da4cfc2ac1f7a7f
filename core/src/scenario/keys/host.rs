//! The keys of `[host]`.

use crate::kernel;
use crate::param::Kind;
use crate::scenario::schema::{Key, custom, made, optional, plain, registered};
use crate::scenario::{hop, host};
use crate::tcp::{Config, RETRIES};
use crate::transport::MOST_MTU;
use crate::units::{Bytes, Rate, Span};
use alloc::format;

pub(super) const KEYS: &[Key] = &[
    made(
        "host",
        "like",
        "release",
        || kernel::DEFAULT.into(),
        "Linux release whose TCP rules the host follows; rules of later releases are off; a \
         series without a patch level is its last stable release, and patch level 0 is the \
         release as published",
    )
    .ranging(kernel::range),
    custom(
        "host",
        "with_rules",
        "list of names",
        "none",
        "rules that the host follows although its release does not have them",
    )
    .within("names of `narrows list rules`"),
    custom(
        "host",
        "without_rules",
        "list of names",
        "none",
        "rules of the release that the host does not follow",
    )
    .within("names of `narrows list rules`"),
    plain(
        "host",
        "iw",
        Kind::Count(10, 1, 1000),
        "initial congestion window in packets",
    ),
    plain(
        "host",
        "hz",
        Kind::Count(1000, 100, 1000),
        "timer interrupts of the kernel per second (CONFIG_HZ)",
    ),
    plain(
        "host",
        "clock",
        Kind::Word(&["us", "ms", "jiffies"]),
        "resolution of RTT samples: microseconds, milliseconds, or the ticks of hz as in Linux \
         before 3.15",
    ),
    plain(
        "host",
        "pacing",
        Kind::Word(&["auto", "off", "fq"]),
        "paced flows; auto: those whose congestion control requests it; off: none; fq: all, as \
         with the qdisc fq at the sender",
    ),
    made(
        "host",
        "gso",
        "on, off, packets or bytes",
        || host::gso_text(Config::default().gso),
        "largest super-packet, and thus the largest burst; on: 64KiB; off: one segment; otherwise \
         a limit",
    )
    .ranging(host::gso_range),
    plain(
        "host",
        "autosize",
        Kind::Bool(true),
        "TSO autosizing: a burst contains about 1 ms of the flow's rate; false: as much as gso \
         and the window allow, as before Linux 3.12",
    ),
    // With a larger value, a burst of any rate is two segments; with a smaller one, a whole second.
    plain(
        "host",
        "pacing_shift",
        Kind::Count(10, 1, 20),
        "bursts and TCP small queues contain 1/2^n of a second of the rate: 10 is about 1 ms; \
         Wi-Fi drivers use 8 or 7",
    ),
    made(
        "host",
        "rmem",
        "bytes…bytes or release",
        || host::range_text(Config::default().rmem_default, Config::default().rmem_max),
        "receive buffer: initial size…maximum; release: that of the Linux release (tcp_rmem)",
    )
    .ranging(host::buffer_range),
    made(
        "host",
        "wmem",
        "bytes…bytes or release",
        || host::range_text(Config::default().wmem_default, Config::default().wmem_max),
        "send buffer: initial size…maximum; release: that of Linux (tcp_wmem)",
    )
    .ranging(host::buffer_range),
    plain(
        "host",
        "notsent_lowat",
        Kind::Bytes(Bytes::new(128 << 10), Bytes::new(1), Bytes::new(1 << 32)),
        "the application writes while the send buffer contains less unsent data than this \
         (TCP_NOTSENT_LOWAT)",
    ),
    // An idle Linux runs a woken application after some microseconds
    // (`validation/evidence/reading.md`). Above the maximum, ACKs would visibly wait for the
    // application.
    plain(
        "host",
        "read_latency",
        Kind::Span(Span::us(10), Span::ZERO, Span::us(100)),
        "upper limit of the random delay between the wake-up of a receiving application and its \
         read",
    ),
    optional(
        "host",
        "rto_max",
        Kind::Span(Span::s(120), Span::s(1), Span::s(120)),
        "120s",
        "longest retransmission timeout (tcp_rto_max_ms); needs Linux 6.15",
    ),
    optional(
        "host",
        "retries2",
        Kind::Count(RETRIES as u64, 1, 255),
        "15",
        "a connection without progress ends after the duration of this number of \
         retransmission timeouts and one more (net.ipv4.tcp_retries2)",
    ),
    optional(
        "host",
        "rack",
        Kind::Bool(true),
        "true",
        "RACK detects losses (bit 0 of tcp_recovery); false: three SACKed segments above one; \
         Linux 6.17 and later ignore it",
    ),
    plain(
        "host",
        "slow_start_after_idle",
        Kind::Bool(true),
        "halve the congestion window once per retransmission timeout of idle time, but not below \
         iw",
    ),
    optional(
        "host",
        "rto_min",
        Kind::Span(Span::ms(5), Span::us(1), Span::s(1)),
        "200ms",
        "minimum retransmission timeout above the smoothed RTT (net.ipv4.tcp_rto_min_us); also \
         limits delayed ACKs to less",
    ),
    optional(
        "host",
        "mtu",
        Kind::Bytes(
            Bytes::new(1500),
            Bytes::new(256),
            Bytes::new(MOST_MTU as u64),
        ),
        "1500B",
        "largest IP packet of the host's interface (mtu of ip link); the handshake agrees on the \
         smaller MTU of both ends",
    ),
    optional(
        "host",
        "mss",
        Kind::Bytes(
            Bytes::new(1460),
            Bytes::new(88),
            Bytes::new(MOST_MTU as u64 - 40),
        ),
        "mtu minus 40B",
        "maximum segment size that the host announces and uses, TCP options included (advmss of \
         ip route, TCP_MAXSEG); the payload is 12 bytes less with timestamps",
    )
    .within("88B to mtu minus 40B"),
    optional(
        "host",
        "sack",
        Kind::Bool(true),
        "true",
        "selective acknowledgements (net.ipv4.tcp_sack), if both ends use them; without them, \
         recovery is that of NewReno",
    ),
    optional(
        "host",
        "timestamps",
        Kind::Bool(true),
        "true",
        "TCP timestamps (net.ipv4.tcp_timestamps), if both ends use them; without them, headers \
         are 12 bytes shorter",
    ),
    optional(
        "host",
        "quickack",
        Kind::Bool(false),
        "false",
        "acknowledge each segment at once (quickack of ip route): no delayed ACKs",
    ),
    optional(
        "host",
        "delayed_ack_max",
        Kind::Span(Span::ms(40), Span::ms(1), Span::ms(200)),
        "200ms",
        "longest delay of an ACK (TCP_DELACK_MAX); every second full segment is acknowledged at \
         once",
    ),
    optional(
        "host",
        "nic",
        Kind::Rate(Rate::mbit(100), Rate::bit(1000), Rate::mbit(10_000_000)),
        "unlimited",
        "rate of the sender's network interface, which all flows and probes share",
    ),
    optional(
        "host",
        "ring",
        Kind::Count(host::RING as u64, 1, 65_536),
        "",
        "super-packets that the transmit ring of the interface holds; needs nic",
    )
    .usually(|| format!("{} with nic", host::RING)),
    plain(
        "host",
        "bql",
        Kind::Bool(true),
        "byte queue limits (BQL): the device accepts only as much data as keeps it busy; needs nic",
    ),
    custom(
        "host",
        "tsq",
        "boolean or bytes",
        "true",
        "TCP small queues (TSQ): a flow has about 1 ms of its rate in qdisc and device, the rest \
         waits in TCP; bytes set a fixed limit, as before Linux 3.12 (128KiB); needs nic",
    )
    .ranging(|| format!("true, false, {}", host::buffer_range())),
    registered(
        "host",
        "qdisc",
        host::QDISC,
        "queue discipline of the interface, one of those for a path; needs nic",
    ),
    custom(
        "host",
        "buffer",
        "bytes, packets or bdp",
        "the default limit of the queue discipline",
        "limit of the interface's queue discipline, where a super-packet counts as one packet \
         (txqueuelen of pfifo_fast); needs nic",
    )
    .ranging(hop::buffer_range),
    registered(
        "host",
        "link",
        host::LINKS[0],
        "mechanism that limits the rate of the interface: a serial line, or a class of htb in \
         front of a device without delay; needs nic",
    )
    .ranging(|| host::LINKS.join(", ")),
    plain(
        "host",
        "ecn",
        Kind::Word(&["passive", "on", "off"]),
        "explicit congestion notification (ECN); passive: for flows that request it; on: for all \
         flows except those that disable it; off: for none",
    ),
];
