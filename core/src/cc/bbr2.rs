//! BBR, version 2, as in the alpha release that was used in published measurements. The algorithm
//! is [version 3](super::bbr3) with other constants and switches.
//!
//! Differences from the algorithm of version 3: Startup has a pacing gain of 2.885 and a window of
//! 2.885 bandwidth-delay products. Drain has a pacing gain of 1/2.885 and no time limit. ProbeDown
//! has a pacing gain of 0.75, and ProbeUp a window of 2 products. ProbeUp ends when it has lasted a
//! minimum round trip and 1.25 products are in flight, before ACKs can show whether the rate still
//! grows. The full pipe is detected by the growth of the maximum rate, not of the rate of one round
//! trip. Losses end Startup if more than 2 % of the packets of a round trip are lost
//! and at least 8 of its ACKs report losses. The bound of data in flight is then the measured
//! product, even if more was delivered. The loss threshold is also checked at each ACK, on the
//! packets lost since its newest packet was sent. The undo of a spurious recovery restores the
//! bounds, but not the phase (Startup or ProbeUp) that the losses ended.
//!
//! Sources: draft-cardwell-iccrg-bbr-congestion-control-02 (2022), the alpha release (2019 to 2021)
//! for constants that differ from the draft; the changes of version 3 (IETF 117, 2023). The
//! deviations of version 3 apply, and two more. First, packets counted towards the next increase of
//! the bound are kept while the window is not the limit; the alpha release discards them. Second,
//! aggregation is measured over 10 round trips, not over 5 to 10.

use super::bbr3::Bbr3;
use super::bbr3::version::{Version, params};
use super::{CcKind, Family};
use crate::param::Param;
use alloc::boxed::Box;

/// Version 2.
const V2: Version = Version {
    source: "v2 alpha (2019)",
    startup: (2.885, 2.885),
    drain_gain: 0.347,
    drain_rounds: 0,
    down_gain: 0.75,
    up_cwnd_gain: 2.0,
    startup_losses: 8,
    counts_acks: true,
    bounds_by_latest: false,
    plateau_of_max: true,
    up_ends_by_queue: true,
    judges_acks: true,
    undoes_phases: false,
};

/// The parameters.
pub const PARAMS: &[Param] = &params(&V2);

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "bbr2",
    help: "version 2: limits the data in flight after losses; probes for bandwidth until 1.25 \
     bandwidth-delay products are in flight, and then sends at 3/4 of the rate",
    source: "draft-cardwell-iccrg-bbr-congestion-control-02; v2 alpha (2019)",
    family: Family::Model,
    year: 2019,
    needs: &[],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Bbr3::of(V2, params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::bbr3::Mode;
    use crate::cc::bbr3::tests::path::Path;
    use crate::cc::bbr3::version::V3;
    use crate::param::Params;

    /// A path of 10 Mbit/s and 40 ms: a bandwidth-delay product of 34.5 packets, and a buffer of
    /// four products.
    fn path_of(version: Version) -> Path {
        Path::new(version, 10.0, 40, 138)
    }

    #[test]
    fn gains_of_startup_and_probe_down_are_those_of_version_1() {
        let p = Params::defaults(PARAMS);
        let number = |name| p.number(name);
        assert_eq!(
            (number("startup_gain"), number("startup_cwnd_gain")),
            (2.885, 2.885)
        );
        assert!((number("drain_gain") - 0.347).abs() < 0.001);
        assert_eq!((number("up_gain"), number("down_gain")), (1.25, 0.75));
        assert_eq!((number("cwnd_gain"), number("up_cwnd_gain")), (2.0, 2.0));
        assert_eq!((p.count("startup_losses"), p.count("drain_rounds")), (8, 0));
    }

    /// Startup grows faster than in version 3 and leaves a longer queue.
    #[test]
    fn startup_puts_nearly_three_products_in_flight() {
        let peak = |version| {
            let mut p = Path::new(version, 10.0, 40, 1000);
            p.reach(Mode::Drain);
            f64::from(p.in_flight()) / p.bdp()
        };
        let (v2, v3) = (peak(V2), peak(V3));
        assert!(v2 > 2.6 && v3 < 2.4, "{v2} {v3}");
    }

    /// A quarter of a product is queued within two round trips. Version 3 waits for three round
    /// trips without growth.
    #[test]
    fn probe_up_ends_when_a_queue_persists() {
        let lasts = |version| {
            let mut p = Path::new(version, 10.0, 40, 300);
            p.reach(Mode::Up);
            let since = p.now;
            p.reach(Mode::Down);
            (p.now - since) / p.rtt_ns
        };
        let (v2, v3) = (lasts(V2), lasts(V3));
        assert!((1..=2).contains(&v2) && v3 >= 3, "{v2} {v3}");
    }

    #[test]
    fn drain_has_no_end_but_its_goal() {
        let rounds = |version| Path::new(version, 10.0, 40, 1000).drains_for();
        assert_eq!((rounds(V2), rounds(V3)), (20, 4));
    }

    /// The bound is the bandwidth-delay product; in version 3, it is the data delivered in a round
    /// trip.
    #[test]
    fn startup_that_loses_is_bounded_by_the_product() {
        let bound = |version| {
            let mut p = Path::new(version, 10.0, 40, 1000);
            p.run(0.2);
            (p.bound_after_startup(1000), p.product())
        };
        let ((v2, product), (v3, _)) = (bound(V2), bound(V3));
        assert_eq!((v2, v3), (product, 1000));
    }

    /// In the third round trip the maximum rate has grown, although the rate of its last packet has
    /// not.
    #[test]
    fn the_maximum_bandwidth_decides_whether_the_pipe_is_full() {
        let rates = [(1000, 1000), (1000, 1000), (1000, 1250), (1000, 1250)];
        let full = |version| path_of(version).is_full_after(&rates);
        assert_eq!((full(V2), full(V3)), (false, true));
    }

    /// An ACK of a packet of the probe reports losses of packets that were sent before the probe.
    #[test]
    fn losses_reported_by_acks_are_evaluated() {
        let bound = |version| path_of(version).bound_after_ack(100, 3);
        assert_eq!((bound(V2), bound(V3)), (100, u64::MAX));
    }

    /// Eight ACKs that report losses end Startup; in version 3, six separate ranges of lost bytes.
    #[test]
    fn losses_count_with_the_acks_that_report_them() {
        let ends = |version, acks, ranges| path_of(version).startup_ends_with(acks, ranges);
        assert!(ends(V2, 8, 1) && !ends(V2, 7, 20));
        assert!(ends(V3, 1, 6) && !ends(V3, 20, 5));
    }

    #[test]
    fn undoing_leaves_the_phase() {
        let undone = |version| {
            let mut p = path_of(version);
            p.reach(Mode::Refill);
            p.drops = |n| n % 5 == 0;
            p.reach(Mode::Down);
            assert!(p.bound() < u64::MAX);
            let before = p.mode();
            p.undo();
            assert_eq!(p.bound(), u64::MAX);
            (before == p.mode(), p.mode())
        };
        assert!(undone(V2).0);
        assert_eq!(undone(V3), (false, Mode::Refill));
    }
}
