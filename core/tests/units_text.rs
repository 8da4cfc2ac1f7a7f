//! Quantities as text: parsing, rejection with a correction, and formatting.

use narrows_core::units::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// The same cases in every run.
fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn quantities_are_read_exactly() {
    for (text, ns) in [
        ("1ns", 1),
        ("200us", 200_000),
        ("200µs", 200_000),
        ("200μs", 200_000),
        ("40ms", 40_000_000),
        ("40 ms", 40_000_000),
        ("1.5s", 1_500_000_000),
        (".5s", 500_000_000),
        ("1e-3s", 1_000_000),
        ("3min", 180_000_000_000),
        ("2h", 7_200_000_000_000),
        (
            "33.33333333333333333333333333333333333333333333ms",
            33_333_333,
        ),
        ("0.0000015ms", 2),
        ("0s", 0),
    ] {
        assert_eq!(parse_span(text), Ok(Span::ns(ns)), "{text}");
    }
    for (text, bytes) in [
        ("1514B", 1514),
        ("250kB", 250_000),
        ("1.5KiB", 1536),
        ("2MiB", 2 << 20),
        ("1GB", 1_000_000_000),
    ] {
        assert_eq!(parse_bytes(text), Ok(Bytes::new(bytes)), "{text}");
    }
    for (text, bit) in [
        ("56kbit", 56_000),
        ("1.5Gbit", 1_500_000_000),
        ("1Tbit", 1_000_000_000_000),
        ("1Mibit", 1 << 20),
    ] {
        assert_eq!(parse_rate(text), Ok(Rate::bit(bit)), "{text}");
    }
}

#[test]
fn near_misses_are_corrected() {
    for (text, fix) in [
        ("40", "40ms"),
        ("40msec", "40ms"),
        ("40 milliseconds", "40ms"),
        ("2sec", "2s"),
        ("2S", "2s"),
        ("5m", "5min"),
        ("-40ms", "40ms"),
        ("- 40msec", "40ms"),
        ("1,5s", "1.5s"),
        ("1_000ms", "1000ms"),
        ("nan", "40ms"),
        ("inf", "40ms"),
        ("", "40ms"),
        ("soon", "40ms"),
        ("1.2.3s", "40ms"),
        ("9e99s", "18446744073709551615ns"),
        ("0.1ns", "1ns"),
        ("40furlongs", "40ms"),
        ("200MB", "40ms"),
        ("5kbit", "40ms"),
    ] {
        assert_eq!(parse_span(text).unwrap_err().fix, fix, "{text}");
    }
    for (text, fix) in [
        ("50", "50Mbit"),
        ("50000000", "50000000bit"),
        ("10mbps", "10Mbit"),
        ("10Mbps", "10Mbit"),
        ("10Mb/s", "10Mbit"),
        ("10mbit", "10Mbit"),
        ("10Mbit/s", "10Mbit"),
        ("10MBit", "10Mbit"),
        ("10Mbits", "10Mbit"),
        ("1.5gbps", "1.5Gbit"),
        ("5MB/s", "40Mbit"),
        ("20MB", "160Mbit"),
        ("5MBps", "40Mbit"),
        ("10KB", "80kbit"),
        ("10kib", "10Kibit"),
        ("200ms", "50Mbit"),
    ] {
        assert_eq!(parse_rate(text).unwrap_err().fix, fix, "{text}");
    }
    for (text, fix) in [
        ("3080", "3080B"),
        ("64KB", "64kB"),
        ("64kb", "64kB"),
        ("64k", "64kB"),
        ("1mb", "1MB"),
        ("10 bytes", "10B"),
        ("4kib", "4KiB"),
        ("8kbit", "1kB"),
        ("8bit", "1B"),
        ("200ms", "250kB"),
        ("5h", "250kB"),
    ] {
        assert_eq!(parse_bytes(text).unwrap_err().fix, fix, "{text}");
    }
    let problem = parse_bytes("200ms").unwrap_err().problem;
    assert_eq!(problem, "is a time, not a number of bytes");
}

#[test]
fn the_shortest_text_is_the_one_a_person_would_write() {
    for (ns, text) in [
        (0, "0s"),
        (40_000_000, "40ms"),
        (500_000_000, "500ms"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "60s"),
        (120_000_000_000, "120s"),
        (3_600_000_000_000, "1h"),
        (1_234_567, "1234567ns"),
    ] {
        assert_eq!(format_span(Span::ns(ns)), text);
    }
    for (bytes, text) in [
        (131_072, "128KiB"),
        (536_870_912, "512MiB"),
        (3080, "3080B"),
        (250_000, "250kB"),
    ] {
        assert_eq!(format_bytes(Bytes::new(bytes)), text);
    }
    for (bit, text) in [(20_000_000, "20Mbit"), (2_500_000, "2.5Mbit"), (0, "0bit")] {
        assert_eq!(format_rate(Rate::bit(bit)), text);
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_written_scenario_is_read_back(n in any::<u64>(), shift in 0u32..64) {
        let n = n >> shift;
        prop_assert_eq!(parse_span(&format_span(Span::ns(n))), Ok(Span::ns(n)));
        prop_assert_eq!(parse_bytes(&format_bytes(Bytes::new(n))), Ok(Bytes::new(n)));
        prop_assert_eq!(parse_rate(&format_rate(Rate::bit(n))), Ok(Rate::bit(n)));
    }

    #[test]
    fn every_correction_is_correct(text in "[-+]?[0-9.,_]{0,30}(e-?[0-9]{1,6})? ?[a-zA-Z/]{0,6}",
        any in ".{0,20}") {
        for text in [text, any] {
            if let Err(e) = parse_span(&text) { prop_assert!(parse_span(&e.fix).is_ok(), "{} → \
                {}", text, e.fix); }
            if let Err(e) = parse_bytes(&text) { prop_assert!(parse_bytes(&e.fix).is_ok(), "{} → \
                {}", text, e.fix); }
            if let Err(e) = parse_rate(&text) { prop_assert!(parse_rate(&e.fix).is_ok(), "{} → \
                {}", text, e.fix); }
        }
    }
}
