//! The keys of `[wifi]` and its stations.

use crate::net::wifi::airtime::{AQL_LIMITS, AQL_THRESHOLD, WEIGHT};
use crate::net::wifi::ampdu::WINDOW;
use crate::net::wifi::mac::{INTERVAL, QUANTUM, SLOW_CODEL, TARGET};
use crate::net::wifi::phy::Standard;
use crate::net::wifi::{DRIVER_FRAMES, MOST_STATIONS, TXOPS};
use crate::param::Kind;
use crate::scenario::parse::MOST_NAME;
use crate::scenario::schema::{
    Key, custom, made, named, optional, plain, registered, section, sections,
};
use crate::scenario::wifi;
use crate::units::{Bytes, Rate, Span};
use alloc::format;

/// Largest airtime limit: that of Linux, which counts microseconds in 32 bits, rounded down.
const MOST_AQL: Span = Span::s(4000);

pub(super) const KEYS: &[Key] = &[
    plain(
        "wifi",
        "standard",
        Kind::Word(&["n", "ac"]),
        "802.11n or 802.11ac",
    ),
    plain(
        "wifi",
        "width",
        Kind::Word(&["20MHz", "40MHz", "80MHz"]),
        "channel width; 80MHz needs 802.11ac",
    ),
    plain(
        "wifi",
        "band",
        Kind::Word(&["5GHz", "2.4GHz"]),
        "frequency band, which determines slot times and interframe spaces; 802.11ac needs 5GHz",
    ),
    plain(
        "wifi",
        "guard",
        Kind::Word(&["short", "long"]),
        "guard interval: a symbol lasts 3.6us (short) or 4us (long)",
    ),
    plain(
        "wifi",
        "stack",
        Kind::Word(&["airtime", "fq_mac", "before"]),
        "transmit queues of the access point and the stations: a qdisc above a deep driver queue \
         (before), FQ-CoDel in mac80211 (fq_mac), or also airtime fairness and AQL (airtime)",
    ),
    registered(
        "wifi",
        "qdisc",
        wifi::QDISC,
        "queue discipline above the driver; needs stack = \"before\"",
    ),
    optional(
        "wifi",
        "driver",
        Kind::Count(DRIVER_FRAMES, 1, 1_000_000),
        "",
        "frames of each access category that the driver accepts",
    )
    .usually(|| {
        format!("{DRIVER_FRAMES} with stack = \"before\", otherwise a driver without a queue")
    }),
    plain(
        "wifi",
        "txops",
        Kind::Count(TXOPS, 1, 64),
        "transmissions (A-MPDUs) of each access category that the hardware holds",
    ),
    plain(
        "wifi",
        "aql",
        Kind::Bool(true),
        "airtime queue limits (AQL) of the airtime that the driver holds; needs stack = \
         \"airtime\"",
    ),
    plain(
        "wifi",
        "aql_low",
        Kind::Span(AQL_LIMITS.low, Span::us(1), MOST_AQL),
        "airtime that the driver may always hold for each station and access category; needs aql",
    ),
    plain(
        "wifi",
        "aql_high",
        Kind::Span(AQL_LIMITS.high, Span::us(1), MOST_AQL),
        "airtime that the driver may hold for each station and access category while the airtime \
         for all stations is below aql_threshold; has no effect below aql_low; needs aql",
    ),
    plain(
        "wifi",
        "aql_threshold",
        Kind::Span(AQL_THRESHOLD, Span::ZERO, MOST_AQL),
        "airtime for all stations from which aql_low limits each station; needs aql",
    ),
    plain(
        "wifi",
        "weight",
        Kind::Count(WEIGHT, 1, 65_535),
        "weight of the stations without their own; needs stack = \"airtime\"",
    ),
    plain(
        "wifi",
        "quantum",
        Kind::Bytes(QUANTUM, Bytes::new(1), Bytes::new(1_000_000)),
        "bytes that a flow sends in its turn inside mac80211; needs stack = \"fq_mac\" or \
         \"airtime\"",
    ),
    plain(
        "wifi",
        "codel_target",
        Kind::Span(TARGET, Span::us(50), Span::s(10)),
        "target of CoDel inside mac80211; needs stack = \"fq_mac\" or \"airtime\"",
    ),
    plain(
        "wifi",
        "codel_interval",
        Kind::Span(INTERVAL, Span::us(100), Span::s(100)),
        "interval of CoDel inside mac80211; needs stack = \"fq_mac\" or \"airtime\"",
    ),
    optional(
        "wifi",
        "codel_slow_rate",
        Kind::Rate(Rate::mbit(6), Rate::bit(1000), Rate::mbit(1_000_000)),
        "no station is slow, as in Linux 6.12",
        "expected throughput, multiplied by the number of stations, below which a station is \
         slow; 6Mbit in Linux 5.10 and 6.1; needs stack = \"fq_mac\" or \"airtime\"",
    ),
    plain(
        "wifi",
        "codel_slow_target",
        Kind::Span(SLOW_CODEL.0, Span::us(50), Span::s(10)),
        "target of CoDel for slow stations, whose packets it does not mark; needs codel_slow_rate",
    ),
    plain(
        "wifi",
        "codel_slow_interval",
        Kind::Span(SLOW_CODEL.1, Span::us(100), Span::s(100)),
        "interval of CoDel for slow stations; needs codel_slow_rate",
    ),
    section(
        "wifi",
        "aggregate",
        "the limits of the standard",
        "limits of one transmission (A-MPDU)",
    ),
    sections(
        "wifi",
        "station",
        "list of sections",
        Some(MOST_STATIONS),
        "at least one",
        "stations of the access point",
    ),
    plain(
        "wifi.aggregate",
        "frames",
        Kind::Count(WINDOW, 1, WINDOW),
        "largest number of frames in one transmission",
    ),
    optional(
        "wifi.aggregate",
        "bytes",
        Kind::Bytes(
            Bytes::new(1_048_575),
            Bytes::new(1600),
            Bytes::new(1_048_575),
        ),
        "65535B of 802.11n, 1048575B of 802.11ac",
        "largest number of bytes in one transmission",
    ),
    plain(
        "wifi.aggregate",
        "duration",
        Kind::Span(Span::ms(4), Span::us(100), Span::us(5484)),
        "longest duration of the symbols of one transmission; 4ms is the limit of ath9k",
    ),
    named(
        "wifi.station",
        "name",
        MOST_NAME,
        "required",
        "name of the station; with a count, a number is appended: 0, 1, 2 …",
    ),
    plain(
        "wifi.station",
        "count",
        Kind::Count(1, 1, MOST_STATIONS as u64),
        "number of identical stations",
    )
    .ranging(|| format!("1 to {MOST_STATIONS}, for all stations together")),
    custom(
        "wifi.station",
        "mcs",
        "count",
        "required unless rate is given",
        "modulation and coding scheme, in both directions; in 802.11n it includes the spatial \
         streams: 8 to 15 have two",
    )
    .ranging(|| {
        let (n, ac) = (wifi::most_mcs(Standard::N), wifi::most_mcs(Standard::Ac));
        format!("0 to {n} of 802.11n, 0 to {ac} of 802.11ac")
    }),
    optional(
        "wifi.station",
        "streams",
        Kind::Count(1, 1, 8),
        "1",
        "spatial streams of 802.11ac",
    ),
    optional(
        "wifi.station",
        "rate",
        Kind::Rate(Rate::mbit(54), Rate::mbit(1), Rate::mbit(54)),
        "the rate of mcs",
        "rate of 802.11a, b or g instead of mcs, without aggregation",
    )
    .within("6, 9, 12, 18, 24, 36, 48, 54Mbit; at 2.4GHz 1, 2, 5.5, 11Mbit"),
    plain(
        "wifi.station",
        "rate_control",
        Kind::Word(&["fixed", "minstrel"]),
        "selection of the rate: fixed, or minstrel, which selects rates up to mcs",
    ),
    made(
        "wifi.station",
        "snr",
        "decibels",
        || wifi::decibels(wifi::SNR_DB),
        "signal-to-noise ratio; needs rate_control = \"minstrel\"",
    )
    .ranging(wifi::snr_range),
    plain(
        "wifi.station",
        "error",
        Kind::Probability(0.0),
        "probability that a frame arrives damaged",
    ),
    optional(
        "wifi.station",
        "weight",
        Kind::Count(WEIGHT, 1, 65_535),
        "weight of the section wifi, or 256",
        "weight of the station's airtime: its credit per round, in microseconds; needs stack = \
         \"airtime\"",
    ),
    optional(
        "wifi.station",
        "aql_low",
        Kind::Span(AQL_LIMITS.low, Span::us(1), MOST_AQL),
        "aql_low of the section wifi",
        "airtime of each access category that the driver may always hold for this station",
    ),
    optional(
        "wifi.station",
        "aql_high",
        Kind::Span(AQL_LIMITS.high, Span::us(1), MOST_AQL),
        "aql_high of the section wifi",
        "airtime of each access category that the driver may hold for this station below \
         aql_threshold",
    ),
    optional(
        "wifi.station",
        "codel_target",
        Kind::Span(TARGET, Span::us(50), Span::s(10)),
        "codel_target of the section wifi",
        "target of CoDel for this station, also if it is slow",
    ),
    optional(
        "wifi.station",
        "codel_interval",
        Kind::Span(INTERVAL, Span::us(100), Span::s(100)),
        "codel_interval of the section wifi",
        "interval of CoDel for this station, also if it is slow",
    ),
    plain(
        "wifi.station",
        "rtt",
        Kind::Span(Span::ms(2), Span::ZERO, Span::s(3600)),
        "two-way propagation delay between the access point and the other end of the flows, or \
         the path before the access point",
    ),
];
