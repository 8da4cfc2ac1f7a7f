//! The internal state of congestion controls over time, with a row per flow, instant and value.
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
    /// Appends the state of the congestion control of a flow.
    pub fn push(&mut self, now: Time, flow: u32, cc: &dyn CongestionControl) {
        if !self.kept {
            return;
        }
        let mode = cc.mode();
        if let Some(word) = mode {
            let word = self.index(word);
            self.row(now, flow, MODE, f64::NAN, word);
        }
        cc.describe(&mut |name, value| {
            // The word replaces the number of a mode.
            if mode.is_none() || name != MODE {
                self.row(now, flow, name, value, NO_WORD);
            }
        });
    }
    fn row(&mut self, now: Time, flow: u32, name: &'static str, value: f64, word: u32) {
        let name = self.index(name);
        self.t_s.push(now.as_s());
        self.flow.push(flow);
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
