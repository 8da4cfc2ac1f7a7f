//! The table of rules: changes of Linux's TCP from 4.4 to 7.3, by the module that follows them.
//!
//! Sources: the sources of Linux 6.12.117 and 7.3.4, compared with each other, and the texts of
//! commits. Recordings of 6.12.117 and 7.3.4 check the rules of these two releases, and runs with
//! 5.10.223 and 6.1.192 those from 5.11 to 6.6 (validation/evidence/kernel-rules.md). For rules of
//! earlier releases, no recording checks this table, apart from published measurements of BBR on
//! Linux 4.15 and 5.15.
//!
//! The sources of 5.10.223 and 6.1.192 contain the backports that the table gives for these two
//! releases. Debian's change logs confirm the backports to 6.12.13, 6.12.31, 6.12.35, 6.12.55,
//! 6.1.129, 6.1.141, 6.1.142, 6.1.158, 6.0.3, 5.15.6, 5.9.11 and 5.7.7. The other patch levels are
//! inferred from review lists of stable releases, which name the series, and from release dates.

use super::Release;

/// A change of Linux's behaviour: a row of the table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The rule.
    pub rule: Rule,
    /// The module that follows the rule.
    pub of: &'static str,
    /// The name in a scenario.
    pub name: &'static str,
    /// The first release with it.
    pub since: Release,
    /// Stable releases that contain the change by a back-port: the first one of each series.
    pub ports: &'static [Release],
    /// The behaviour since that release, and the behaviour before.
    pub help: &'static str,
    /// The commit or function.
    pub source: &'static str,
}

macro_rules! rules {
    ($($rule:ident {
        of: $of:literal, name: $name:literal, since: $since:tt, ports: [$($port:tt),* $(,)?],
        help: $help:literal, source: $source:literal $(,)?
    }),* $(,)?) => {
        /// A rule, by its name in the table.
        #[derive(Copy, Clone, PartialEq, Eq, Debug)]
        pub enum Rule {
            $(#[doc = $help] $rule),*
        }

        /// The rules, by module and release.
        pub const TABLE: &[Row] = &[
            $(Row {
                rule: Rule::$rule,
                of: $of,
                name: $name,
                since: release!($since),
                ports: &[$(release!($port)),*],
                help: $help,
                source: $source,
            }),*
        ];
    };
}

macro_rules! release {
    (($major:literal, $minor:literal)) => {
        Release::new($major, $minor, 0)
    };
    (($major:literal, $minor:literal, $patch:literal)) => {
        Release::new($major, $minor, $patch)
    };
}

rules! {
    PacingInTcp {
        of: "sender", name: "pacing_in_tcp", since: (4, 13), ports: [],
        help: "TCP paces flows whose congestion control requests it; before, only the queue \
            discipline fq paced",
        source: "218af599fa63: tcp: internal implementation for pacing",
    },
    TailProbeTimeout {
        of: "sender", name: "tail_probe_timeout", since: (4, 14), ports: [],
        help: "a tail loss probe waits for two RTTs and 2 ms, or the minimum RTO after a single \
            segment; before, two RTTs, at least 10 ms, and one and a half RTTs and 200 ms after \
            a single segment",
        source: "bb4d991a28cc: tcp: adjust tail loss probe timeout",
    },
    TailProbesInCwr {
        of: "sender", name: "tail_probes_in_cwr", since: (4, 16), ports: [],
        help: "a probe is also armed in CWR, and while the window has room for waiting data; \
            before, in Open only and for an idle tail",
        source: "tcp: allow TLP in ECN CWR",
    },
    TimeoutSparesRecent {
        of: "sender", name: "timeout_spares_recent", since: (4, 18), ports: [],
        help: "after a timeout, the segments that RACK considers lost are lost, and the window \
            is the rest plus one; before, all segments were lost, and the window was one",
        source: "tcp: rack timeout and tcp_enter_loss",
    },
    EarliestDepartureTime {
        of: "sender", name: "earliest_departure_time", since: (4, 20), ports: [],
        help: "pacing keeps departure times and compensates delays; before, each gap counted \
            from the last departure",
        source: "ab408b6dc744: tcp: switch tcp and sch_fq to new earliest departure time model",
    },
    TsqLimitUnpaced {
        of: "sender", name: "tsq_limit_unpaced", since: (4, 20), ports: [],
        help: "a flow without pacing has at most 1 MiB below TCP; before, every flow had at most \
            256 KiB",
        source: "c73e5807e4f6: tcp: tsq: no longer use limit_output_bytes for paced flows",
    },
    TsoDeferralByDeparture {
        of: "sender", name: "tso_deferral_by_departure", since: (5, 1), ports: [],
        help: "a burst waits for the next ACK within a millisecond of the last departure; \
            before, within the tick of the last write",
        source: "tcp: get rid of tcp_tso_should_defer() dependency on HZ/jiffies",
    },
    SpuriousSynTimeout {
        of: "sender", name: "spurious_syn_timeout", since: (5, 2), ports: [],
        help: "several timeouts of a SYN or SYN-ACK leave the initial window as it is, if the \
            echo of a timestamp shows that the first one arrived; before, the window was one \
            packet",
        source: "tcp: undo initial congestion window on false SYN timeout; tcp: undo init \
            congestion window on false SYNACK timeout",
    },
    FragmentsNeedMemory {
        of: "sender", name: "fragments_need_memory", since: (5, 2), ports: [],
        help: "if sent data occupies more memory than twice the send buffer plus 258 KiB, \
            super-packets other than the first and the last are not split: SACK and \
            retransmission concern whole ones only. Earlier releases always split",
        source: "f070ef2ac667: tcp: tcp_fragment() should apply sane memory limits; as refined in \
            5.3: tcp: be more careful in tcp_fragment()",
    },
    CwndLimitedByDeferral {
        of: "sender", name: "cwnd_limited_by_deferral", since: (5, 10), ports: [],
        help: "deferred data counts as limited by the window, although nothing was sent",
        source: "299bcb55ecd1: tcp: fix cwnd-limited bug for TSO deferral where we send nothing",
    },
    TsoSizeByRtt {
        of: "sender", name: "tso_size_by_rtt", since: (5, 18), ports: [],
        help: "if the minimum RTT is a few milliseconds or less, bursts contain more than a \
            millisecond of the rate",
        source: "65466904b015: tcp: adjust TSO packet sizes based on min_rtt",
    },
    CwndLimitedForAWindow {
        of: "sender", name: "cwnd_limited_for_a_window", since: (6, 1),
        ports: [(6, 0, 3), (5, 19, 17), (5, 15, 75), (5, 10, 150), (5, 4, 220)],
        help: "once a flow is limited by the window, this state lasts for a window of data; \
            before, until more data was in flight",
        source: "f4ce91ce12a7: tcp: fix tcp_cwnd_validate() to not forget is_cwnd_limited",
    },
    RtoMax {
        of: "sender", name: "rto_max", since: (6, 15), ports: [],
        help: "rto_max of the host limits timeouts; before, 120 s was the limit",
        source: "1280c26228bd: tcp: add tcp_rto_max_ms sysctl; 54a378f43425: tcp: add the \
            ability to control max RTO",
    },
    DeliveredBeforeEvent {
        of: "sender", name: "delivered_before_event", since: (6, 15),
        ports: [(6, 14, 9), (6, 12, 31), (6, 6, 93), (6, 1, 141)],
        help: "dctcp and westwood evaluate an ACK with the data that it acknowledges and with \
            its RTT; before, with the data and the RTT of earlier ACKs",
        source: "149dfb31615e: tcp: reorganize tcp_in_ack_event() and tcp_count_delivered()",
    },
    TsqLimitOfAll {
        of: "sender", name: "tsq_limit_of_all", since: (6, 16), ports: [],
        help: "every flow has at most 4 MiB below TCP; before, one without pacing had at most 1 \
            MiB",
        source: "9ea3bfa61b09: tcp: increase tcp_limit_output_bytes default value to 4MB; \
            c4221a8cc3a7",
    },
    TsoDeferralCapped {
        of: "sender", name: "tso_deferral_capped", since: (6, 18),
        ports: [
            (6, 17, 5), (6, 12, 55), (6, 6, 114), (6, 1, 158), (5, 15, 196), (5, 10, 246),
            (5, 4, 301),
        ],
        help: "a burst waits for the next ACK only if that is due within half an RTT and within \
            a millisecond; before, within half an RTT",
        source: "295ce1eb36ae: tcp: fix tcp_tso_should_defer() vs large RTT",
    },
    RackTimer {
        of: "loss detection", name: "rack_timer", since: (4, 11), ports: [],
        help: "a timer detects losses at the end of the reordering window; before, only ACKs did",
        source: "57dde7f70d4c: tcp: add reordering timer in RACK loss detection",
    },
    FackRetired {
        of: "loss detection", name: "fack_retired", since: (4, 15), ports: [],
        help: "SACKed segments count beside RACK; before, until reordering was seen, all \
            segments up to the highest SACKed one counted (FACK)",
        source: "713bafea9292: tcp: retire FACK loss detection",
    },
    RackSubsumesDupacks {
        of: "loss detection", name: "rack_subsumes_dupacks", since: (4, 18), ports: [],
        help: "three SACKed segments end the wait of RACK; before, a segment below three SACKed \
            ones was lost independently of RACK, which waited at least 1 ms",
        source: "tcp: support DUPACK threshold in RACK; b38a51fec1c1: tcp: disable RFC6675 \
            loss detection",
    },
    RackOnly {
        of: "loss detection", name: "rack_only", since: (6, 17), ports: [],
        help: "rack = false has no effect: RACK detects all losses; before, three SACKed \
            segments did instead",
        source: "1c120191dcec: tcp: remove obsolete and unused RFC3517/RFC6675 loss recovery code",
    },
    PrrSafeAck {
        of: "window in recovery", name: "prr_safe_ack", since: (5, 11), ports: [],
        help: "an ACK lets the window grow to its threshold if it advances and reports no loss; \
            before, if it acknowledged a retransmission and reported none lost",
        source: "tcp_cwnd_reduction; RFC 9937 (SafeACK)",
    },
    PrrCatchesUp {
        of: "window in recovery", name: "prr_catches_up", since: (5, 19), ports: [],
        help: "below the threshold, delivered packets that are not yet compensated leave with \
            any ACK; before, with safe ACKs only",
        source: "tcp_cwnd_reduction (not in 5.17); RFC 9937 section 6.2",
    },
    ReceiveBufferSmoothGrowth {
        of: "receiver", name: "receive_buffer_smooth_growth", since: (4, 16), ports: [],
        help: "the receive buffer grows in proportion to the growth of the data per RTT; before, \
            by half or twice, if the data grew by a quarter or by half",
        source: "c3916ad93282: tcp: smoother receiver autotuning",
    },
    SackCompression {
        of: "receiver", name: "sack_compression", since: (4, 18), ports: [],
        help: "while data is missing, one ACK acknowledges the segments of a millisecond; \
            before, each segment had its own ACK",
        source: "5d9f4262b7ea: tcp: add SACK compression",
    },
    AckOnHoleRepair {
        of: "receiver", name: "ack_on_hole_repair", since: (4, 19), ports: [],
        help: "the segment that fills the last hole is acknowledged at once; before, like any \
            other segment",
        source: "tcp: always ACK immediately on hole repairs",
    },
    InitialReceiveWindow {
        of: "receiver", name: "initial_receive_window", since: (4, 20), ports: [],
        help: "the first window is up to 64 KiB, and rmem = \"release\" begins with 128 KiB; \
            before, up to 20 segments, and 87380 B",
        source: "a337531b942b: tcp: up initial rmem to 128KB and SYN rwin to around 64KB",
    },
    ShortSegmentsOpen {
        of: "receiver", name: "short_segments_open_window", since: (5, 14), ports: [],
        help: "a segment that can be merged opens the window regardless of its overhead; before, \
            short segments opened a small window only",
        source: "tcp: tweak len/truesize ratio for coalesce candidates",
    },
    ReceiveWindowShare {
        of: "receiver", name: "receive_window_share", since: (6, 6), ports: [],
        help: "the window is the share of the receive buffer that payload has in the memory of \
            segments; before, half the receive buffer",
        source: "dfa2f0483360: tcp: get rid of sysctl_tcp_adv_win_scale",
    },
    CompressedAckStamp {
        of: "receiver", name: "compressed_ack_stamp", since: (6, 13), ports: [],
        help: "a compressed ACK has the timestamp of its departure; before, that of the last \
            segment, up to 1 ms older",
        source: "269084f74852: net: tcp: refresh tcp_mstamp for compressed ack in timer",
    },
    ReceiveQueueAwareness {
        of: "receiver", name: "receive_queue_awareness", since: (6, 16),
        ports: [(6, 15, 4), (6, 12, 35)],
        help: "unread segments do not increase the receive buffer, for example those of a filled \
            hole; before, only the data read counted",
        source: "ea33537d8292: tcp: add receive queue awareness in tcp_rcv_space_adjust()",
    },
    ReceiverRttMinimum {
        of: "receiver", name: "receiver_rtt_minimum", since: (6, 16),
        ports: [(6, 15, 4), (6, 12, 35), (6, 6, 94), (6, 1, 142)],
        help: "a lower RTT measured by the receiver replaces the average at once; before, it \
            entered the average",
        source: "b879dcb1aeec: tcp: always seek for minimal rtt in tcp_rcv_rtt_update()",
    },
    ReceiverRttNonZero {
        of: "receiver", name: "receiver_rtt_non_zero", since: (6, 16),
        ports: [(6, 15, 4), (6, 12, 35)],
        help: "equal timestamps are no RTT sample of the receiver; before, they were a sample of \
            1 ms",
        source: "d59fc95be9d0: tcp: remove zero TCP TS samples for autotuning",
    },
    ReceiverRttWhenRead {
        of: "receiver", name: "receiver_rtt_when_read", since: (6, 16), ports: [],
        help: "the receiver measures no higher RTT while data waits for the application",
        source: "a00f135cd986: tcp: skip big rtt sample if receive queue is not empty",
    },
    ReceiveBufferByWindow {
        of: "receiver", name: "receive_buffer_by_window", since: (6, 16), ports: [],
        help: "the receive buffer holds twice the data of an RTT and the data behind a hole; \
            before, sixteen more segments, and not the data behind a hole; the growth of the \
            data counted, which is so again with receive_buffer_slow_start",
        source: "65c5287892e9: tcp: fix sk_rcvbuf overshoot; 63ad7dfedfae: tcp: adjust rcvbuf in \
            presence of reorders",
    },
    ReceiveBufferLarge {
        of: "receiver", name: "receive_buffer_large", since: (6, 16), ports: [],
        help: "the largest receive buffer of the release (rmem = \"release\") is 32 MiB; before, \
            6 MiB",
        source: "572be9bf9d0d: tcp: increase tcp_rmem[2] to 32 MB",
    },
    ReceiveBufferSlowStart {
        of: "receiver", name: "receive_buffer_slow_start", since: (6, 18), ports: [],
        help: "the growth of the data per RTT enlarges the receive buffer, as before 6.16",
        source: "aa251c84636c: tcp: fix too slow tcp_rcvbuf_grow() action",
    },
    ReceiveBufferLowRtt {
        of: "receiver", name: "receive_buffer_low_rtt", since: (6, 19), ports: [],
        help: "with an RTT below 1 ms, the receive buffer grows by at most the share of the RTT \
            in 1 ms",
        source: "ecfea98b7d0d: tcp: add net.ipv4.tcp_rcvbuf_low_rtt",
    },
    SynAckRtoMax {
        of: "receiver", name: "syn_ack_rto_max", since: (6, 19), ports: [],
        help: "rto_max of the host also limits the timeouts of SYN-ACKs; before, 120 s did",
        source: "1e9d3005e02c: tcp: Apply max RTO to non-TFO SYN+ACK",
    },
    SackCompressionThird {
        of: "receiver", name: "sack_compression_third", since: (6, 19), ports: [],
        help: "compressed ACKs wait for up to 33 % of the RTT; before, 5 %; at most 1 ms",
        source: "416dd649f3aa: tcp: add net.ipv4.tcp_comp_sack_rtt_percent",
    },
    SackCompressionSlack {
        of: "receiver", name: "sack_compression_slack", since: (6, 19), ports: [],
        help: "the timer of compressed ACKs may be late by 10 us; before, by 100 us",
        source: "tcp_sk_init: sysctl_tcp_comp_sack_slack_ns",
    },
    HystartMicroseconds {
        of: "HyStart", name: "hystart_microseconds", since: (5, 6), ports: [],
        help: "times in microseconds, an allowance for bursts, and a full RTT for paced flows; \
            before, milliseconds and half an RTT",
        source: "tcp_cubic: switch bictcp_clock() to usec resolution; refactor code to perform a \
            divide only when needed; make Hystart aware of pacing",
    },
    HystartMinimumOfRound {
        of: "HyStart", name: "hystart_minimum_of_round", since: (5, 8), ports: [
            (5, 7, 7), (5, 4, 50), (4, 19, 131), (4, 14, 187), (4, 9, 229), (4, 4, 229),
        ],
        help: "the minimum RTT of a round is that of all samples; before, that of the first \
            eight",
        source: "b344579ca847: tcp_cubic: fix spurious HYSTART_DELAY exit upon drop in min RTT",
    },
    HystartRoundsBySamples {
        of: "HyStart", name: "hystart_rounds_by_samples", since: (5, 16), ports: [
            (5, 15, 6), (5, 10, 83), (5, 4, 163), (4, 19, 219), (4, 14, 257), (4, 9, 292),
            (4, 4, 294),
        ],
        help: "a round begins with the first sample after the end of the last round; before, \
            with the first ACK that increased the window",
        source: "4e1fddc98d25: tcp_cubic: fix spurious Hystart ACK train detections for \
            not-cwnd-limited flows",
    },
    HystartRoundsBelowLowWindow {
        of: "HyStart", name: "hystart_rounds_below_low_window", since: (6, 14),
        ports: [(6, 13, 2), (6, 12, 13), (6, 6, 76), (6, 1, 129)],
        help: "a window below 16 packets begins rounds, too; before, the first round was that of \
            the first larger window",
        source: "25c1a9ca53db: tcp_cubic: fix incorrect HyStart round start detection",
    },
    Bbr {
        of: "bbr", name: "bbr", since: (4, 9), ports: [],
        help: "the congestion control bbr is part of Linux",
        source: "0f8782ea1497: tcp_bbr: add BBR congestion control",
    },
    BbrPolicedUnityGain {
        of: "bbr", name: "bbr_policed_unity_gain", since: (4, 16), ports: [],
        help: "the gain is 1 while the policed rate is used; before, only the cycle of gains \
            stopped",
        source: "3aff3b4b986e: tcp_bbr: fix pacing_gain to always be unity when using lt_bw",
    },
    BbrDelayedAckFilter {
        of: "bbr", name: "bbr_delayed_ack_filter", since: (4, 16), ports: [],
        help: "an expired minimum RTT is not replaced by a sample that the receiver may have \
            delayed",
        source: "e42866031ff0: tcp: avoid min-RTT overestimation from delayed ACKs",
    },
    BbrStartupThreshold {
        of: "bbr", name: "bbr_startup_threshold", since: (4, 17), ports: [],
        help: "ssthresh contains the bandwidth-delay product at the end of Startup",
        source: "tcp_bbr: record \"full bw reached\" decision in new full_bw_reached bit and \
            ssthresh",
    },
    BbrIdleUntilDelivery {
        of: "bbr", name: "bbr_idle_until_delivery", since: (4, 17), ports: [],
        help: "a flow counts as restarted after idle time until an ACK reports delivered data; \
            before, until any ACK",
        source: "tcp_bbr: fix to zero idle_restart only upon S/ACKed data",
    },
    BbrProbingAddsTwo {
        of: "bbr", name: "bbr_probing_adds_two", since: (4, 18), ports: [],
        help: "a gain above 1 requests two more packets in ProbeBW, so that it has an effect at \
            small bandwidth-delay products",
        source: "tcp_bbr: fix bw probing to raise in-flight data for very small BDPs",
    },
    BbrRateOfPayload {
        of: "bbr", name: "bbr_rate_of_payload", since: (4, 19), ports: [],
        help: "the pacing rate and the gaps refer to payload; before, to whole IP packets, 3.6 % \
            more",
        source: "tcp_bbr: fix bbr pacing rate for internal pacing",
    },
    BbrIdleEndsProbeRtt {
        of: "bbr", name: "bbr_idle_ends_probe_rtt", since: (4, 19), ports: [],
        help: "a restart after idle time checks whether ProbeRTT is over",
        source: "tcp_bbr: in restart from idle, see if we should exit PROBE_RTT",
    },
    BbrPacingMargin {
        of: "bbr", name: "bbr_pacing_margin", since: (4, 20), ports: [],
        help: "the pacing rate is reduced by 1 %",
        source: "tcp: switch tcp and sch_fq to new earliest departure time model, and what \
            followed",
    },
    BbrInFlightAtDeparture {
        of: "bbr", name: "bbr_in_flight_at_departure", since: (4, 20), ports: [],
        help: "phases depend on the data in flight at the departure of the next packet; before, \
            on the data in flight now",
        source: "a87c83d5ee25: tcp_bbr: adjust TCP BBR for departure time pacing",
    },
    BbrAckAggregation {
        of: "bbr", name: "bbr_ack_aggregation", since: (5, 1), ports: [],
        help: "the extra data of aggregated ACKs is added to the window",
        source: "78dc70ebaa38: tcp_bbr: adapt cwnd based on ack aggregation estimation",
    },
    BbrOnlyProbingAddsTwo {
        of: "bbr", name: "bbr_only_probing_adds_two", since: (5, 4), ports: [],
        help: "only the probing phase requests two more packets; before, every phase of ProbeBW \
            did, because the gain of the window is above 1, too",
        source: "6b3656a60f20: tcp_bbr: fix quantization code to not raise cwnd if not probing \
            bandwidth",
    },
    OnlyLowerRtt {
        of: "bbr", name: "bbr_only_lower_rtt", since: (5, 10),
        ports: [(5, 9, 11), (5, 4, 80), (4, 19, 160), (4, 14, 209), (4, 9, 246)],
        help: "only a lower RTT renews the minimum RTT; before, an equal one did, too",
        source: "1b9e2a8c99a5: tcp: only postpone PROBE_RTT if RTT is < current min_rtt estimate",
    },
}

impl Row {
    /// Returns whether a release has the rule.
    pub const fn is_in(&self, release: Release) -> bool {
        if self.since.number() <= release.number() {
            return true;
        }
        let mut i = 0;
        while i < self.ports.len() {
            let port = self.ports[i];
            if port.is_of_series(release) && port.patch <= release.patch {
                return true;
            }
            i += 1;
        }
        false
    }
}

impl Rule {
    /// The rule called `name` in a scenario.
    pub fn named(name: &str) -> Option<Rule> {
        let row = TABLE.iter().find(|row| row.name == name);
        row.map(|row| row.rule)
    }
    /// The row of the table.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}
