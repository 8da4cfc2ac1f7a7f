//! The internal state of congestion controls over time, with a row per flow or connection, instant
//! and value.
//!
//! The values are those of [`CongestionControl::describe`], and the name of the
//! [mode](CongestionControl::mode).

use crate::cc::CongestionControl;
use crate::units::Time;
use alloc::vec::Vec;

/// The name under which a mode is recorded.
pub const MODE: &str = "mode";

/// Index of a missing word.
pub const NO_WORD: u32 = u32::MAX;

/// The connection of a flow without a workload, which is its only one.
pub const NO_CONNECTION: u32 = u32::MAX;

/// Connections of a workload that are sampled at an instant: as many as a browser opens to a host.
/// Of more connections, those with the smallest numbers are sampled.
pub const MOST_CONNECTIONS: usize = 6;

/// Columns of internal states.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StateSamples {
    /// Whether rows are kept.
    pub kept: bool,
    /// Names and words, which `name` and `word` refer to.
    pub names: Vec<&'static str>,
    /// Time in seconds.
    pub t_s: Vec<f64>,
    /// Index of the flow in the scenario.
    pub flow: Vec<u32>,
    /// Number of the connection within a flow with a workload; [`NO_CONNECTION`] without one. A
    /// number is reused after the connection is closed.
    pub connection: Vec<u32>,
    /// Index into `names`: the name of the value.
    pub name: Vec<u32>,
    /// The value; NaN for a word without a number.
    pub value: Vec<f64>,
    /// Index into `names`: the value as a word; [`NO_WORD`] for a number.
    pub word: Vec<u32>,
}

impl StateSamples {
    /// Keeps rows if `kept`.
    pub fn keep(kept: bool) -> StateSamples {
        StateSamples {
            kept,
            ..StateSamples::default()
        }
    }
    /// Appends the state of the congestion control of a flow, or of a connection of its workload.
    pub fn push(
        &mut self,
        now: Time,
        flow: u32,
        connection: Option<u32>,
        cc: &dyn CongestionControl,
    ) {
        let of = (flow, connection.unwrap_or(NO_CONNECTION));
        if !self.kept {
            return;
        }
        let mode = cc.mode();
        if let Some(word) = mode {
            let word = self.index(word);
            self.row(now, of, MODE, f64::NAN, word);
        }
        cc.describe(&mut |name, value| {
            // The word replaces the number of a mode.
            if mode.is_none() || name != MODE {
                self.row(now, of, name, value, NO_WORD);
            }
        });
    }
    fn row(
        &mut self,
        now: Time,
        (flow, connection): (u32, u32),
        name: &'static str,
        value: f64,
        word: u32,
    ) {
        let name = self.index(name);
        self.t_s.push(now.as_s());
        self.flow.push(flow);
        self.connection.push(connection);
        self.name.push(name);
        self.value.push(value);
        self.word.push(word);
    }
    /// The index of a name; there are few.
    fn index(&mut self, name: &'static str) -> u32 {
        let found = self.names.iter().position(|known| *known == name);
        found.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }) as u32
    }
}
