//! The tests of a path measurement: their names, the number of flows of each, and the default.

/// One test of `narrows-host measure`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Test {
    /// TCP flows to the far host.
    TcpUp,
    /// TCP flows from the far host.
    TcpDown,
    /// Many TCP flows to the far host.
    TcpNup,
    /// Many TCP flows from the far host.
    TcpNdown,
    /// TCP flows in both directions, each with its own DSCP.
    Rrul,
    /// TCP flows in both directions, all without DSCP (best effort).
    RrulBe,
    /// One TCP flow in each direction.
    Bidir,
    /// UDP datagrams at a constant rate, to the far host.
    UdpFlood,
    /// A call, alone and beside load.
    Voip,
    /// A page of HTTP objects over several connections, as browsers load it, alone and beside load.
    Page,
    /// A page of many objects, one after the other over one connection, alone and beside load.
    PageSequential,
    /// Pings without load.
    Ping,
}

/// One row of [`TESTS`].
#[derive(Copy, Clone, Debug)]
pub struct TestKind {
    /// The name of the option's value.
    pub name: &'static str,
    /// The test.
    pub test: Test,
    /// Flows in each direction, unless the user specifies another number.
    pub streams: usize,
}

const fn kind(name: &'static str, test: Test, streams: usize) -> TestKind {
    TestKind {
        name,
        test,
        streams,
    }
}

/// Every test.
pub const TESTS: &[TestKind] = &[
    kind("tcp_up", Test::TcpUp, 1),
    kind("tcp_down", Test::TcpDown, 1),
    kind("tcp_nup", Test::TcpNup, 12),
    kind("tcp_ndown", Test::TcpNdown, 12),
    kind("rrul", Test::Rrul, 4),
    kind("rrul_be", Test::RrulBe, 4),
    kind("bidir", Test::Bidir, 1),
    kind("udp_flood", Test::UdpFlood, 1),
    kind("voip", Test::Voip, 1),
    kind("page", Test::Page, 1),
    kind("page_sequential", Test::PageSequential, 1),
    kind("ping", Test::Ping, 1),
];

/// Sequences of several measurements: name and parts. The first is the default.
pub const SEQUENCES: &[(&str, &[Test])] = &[("both", &[Test::TcpNdown, Test::TcpNup])];

/// Maximum number of flows in each direction.
pub const MOST_STREAMS: usize = 128;

impl Test {
    /// The test called `name`.
    pub fn named(name: &str) -> Option<Test> {
        TESTS
            .iter()
            .find(|kind| kind.name == name)
            .map(|kind| kind.test)
    }
    /// Returns the row of the test.
    fn kind(self) -> &'static TestKind {
        TESTS
            .iter()
            .find(|kind| kind.test == self)
            .unwrap_or(&TESTS[0])
    }
    /// Returns the name of the test.
    pub fn name(self) -> &'static str {
        self.kind().name
    }
    /// Flows in each direction, unless the user specifies another number.
    pub fn streams(self) -> usize {
        self.kind().streams
    }
    /// Returns whether the test loads pages.
    pub fn pages(self) -> bool {
        matches!(self, Test::Page | Test::PageSequential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_has_one_row() {
        for (i, kind) in TESTS.iter().enumerate() {
            assert_eq!(Test::named(kind.name), Some(kind.test));
            assert!(
                TESTS[..i].iter().all(|other| other.test != kind.test),
                "{}",
                kind.name
            );
            assert!((1..=MOST_STREAMS).contains(&kind.streams));
        }
        assert!(
            SEQUENCES
                .iter()
                .all(|(name, _)| Test::named(name).is_none())
        );
    }
}
