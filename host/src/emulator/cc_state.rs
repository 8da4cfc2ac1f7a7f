//! The internal state of the kernel's congestion controls, from `TCP_CC_INFO`.
//!
//! The names of the values are those that [`CongestionControl::describe`] uses in the core
//! ([`REPORTED`] lists them). The kernel does not report the mode of BBR. It is derived from the
//! two gains, which are different in each mode. For congestion controls that report nothing to user
//! space, such as CUBIC, the state is empty.
//!
//! Sources: Linux 6.12, `include/uapi/linux/inet_diag.h` for the layout, and `get_info` in
//! `net/ipv4/tcp_*.c` for the meaning of the fields.
//!
//! [`CongestionControl::describe`]: narrows_core::cc::CongestionControl::describe

use narrows_core::metrics::REPORTED;

/// The unit of BBR's gains.
const GAIN: u32 = 256;
/// BBR's gain in Startup, 2/ln 2, in units of [`GAIN`].
const HIGH_GAIN: u32 = 739;
/// The unit of DCTCP's alpha.
const ALPHA: f64 = 1024.0;
/// Value of an RTT that was not measured yet, µs.
const NO_RTT: u32 = 0x7fff_ffff;

/// The state of a congestion control.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CcState {
    /// The mode, such as `startup`, if the congestion control has modes.
    pub mode: Option<&'static str>,
    /// Names and values of the variables.
    pub values: Vec<(&'static str, f64)>,
}

/// The state of the congestion control `cc` from `words`, the `TCP_CC_INFO` of its socket.
/// `segment`: segment size, bytes.
pub fn state(cc: &str, words: &[u32], segment: u32) -> CcState {
    let ms = |us: u32| f64::from(us) / 1e3;
    let known = |us: &u32| (1..NO_RTT).contains(us);
    let rtt = |name, us: u32| Some(us).filter(known).map(|us| (name, ms(us)));
    let mut found = CcState::default();
    match (cc, words) {
        ("bbr", &[low, high, min_rtt, pacing, cwnd, ..]) => {
            let bytes_per_s = (u64::from(high) << 32 | u64::from(low)) as f64;
            found.mode = Some(bbr_mode(pacing, cwnd));
            found.values = vec![
                ("bw_packets_per_s", bytes_per_s / f64::from(segment.max(1))),
                (
                    "min_rtt_ms",
                    if min_rtt == u32::MAX {
                        0.0
                    } else {
                        ms(min_rtt)
                    },
                ),
                ("pacing_gain", f64::from(pacing) / f64::from(GAIN)),
                ("cwnd_gain", f64::from(cwnd) / f64::from(GAIN)),
            ];
        }
        // The first word contains two fields of 16 bits: enabled, and the state of CE.
        ("dctcp", &[enabled, alpha, ..]) if enabled & 0xffff != 0 => {
            found.values = vec![("alpha", f64::from(alpha) / ALPHA)];
        }
        // Fields: enabled, number of RTT samples, RTT, minimum RTT. Vegas reports its base RTT as
        // the third.
        ("vegas" | "yeah", &[_, _, base, ..]) => found.values.extend(rtt("base_rtt_ms", base)),
        ("westwood", &[_, _, _, least]) => found.values.extend(rtt("rtt_min_ms", least)),
        ("nv", &[_, _, _, least]) => found.values.extend(rtt("min_rtt_ms", least)),
        ("illinois", &[_, _, _, base]) => found.values.extend(rtt("base_rtt_ms", base)),
        _ => {}
    }
    let names = found.values.iter().map(|(name, _)| name);
    debug_assert!(names.chain(&found.mode).all(|name| REPORTED.contains(name)));
    found
}

/// The mode of BBR in which it has these gains (in units of [`GAIN`]).
fn bbr_mode(pacing: u32, cwnd: u32) -> &'static str {
    match (pacing, cwnd) {
        (HIGH_GAIN.., _) => "startup",
        (_, HIGH_GAIN..) => "drain",
        (GAIN, GAIN) => "probe_rtt",
        _ => "probe_bw",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_of_bbr_follows_from_its_gains() {
        // The gains of bbr_update_gains() in net/ipv4/tcp_bbr.c.
        let modes = [
            (739, 739),
            (88, 739),
            (320, 512),
            (192, 512),
            (256, 512),
            (256, 256),
        ];
        let found = modes.map(|(pacing, cwnd)| bbr_mode(pacing, cwnd));
        assert_eq!(found[..2], ["startup", "drain"]);
        assert_eq!(found[2..5], ["probe_bw"; 3]);
        assert_eq!(found[5], "probe_rtt");
    }

    #[test]
    fn the_bandwidth_of_bbr_is_in_packets() {
        let found = state("bbr", &[144_800, 0, 40_000, 320, 512], 1448);
        assert_eq!(found.mode, Some("probe_bw"));
        let value = |name| found.values.iter().find(|(n, _)| *n == name).map(|v| v.1);
        assert_eq!(value("bw_packets_per_s"), Some(100.0));
        assert_eq!(value("min_rtt_ms"), Some(40.0));
        assert_eq!(value("pacing_gain"), Some(1.25));
    }

    #[test]
    fn values_that_were_not_measured_are_absent() {
        assert_eq!(state("vegas", &[1, 0, NO_RTT, NO_RTT], 1448).values, []);
        let found = state("vegas", &[1, 3, 40_100, 42_000], 1448);
        assert_eq!(found.values, [("base_rtt_ms", 40.1)]);
        assert_eq!(state("dctcp", &[0, 512, 0, 0], 1448), CcState::default());
        assert_eq!(
            state("dctcp", &[1, 512, 0, 0], 1448).values,
            [("alpha", 0.5)]
        );
        assert_eq!(state("cubic", &[], 1448), CcState::default());
    }
}
