//! The internal state of congestion controls over time, with a row per flow or connection, instant
//! and value.
//!
//! The values are those of [`CongestionControl::describe`], and the name of the
//! [mode](CongestionControl::mode).

use super::serialize;
use crate::cc::CongestionControl;
use crate::units::Time;
use alloc::vec::Vec;

/// The name under which a mode is recorded.
pub const MODE: &str = "mode";

/// Index of a missing word.
pub const NO_WORD: u32 = u32::MAX;

/// The connection of a flow without a workload, which is its only one.
pub const NO_CONNECTION: u32 = u32::MAX;

/// Maximum number of connections of a workload that are sampled at an instant: as many as a browser
/// opens to a host. If there are more, those with the smallest numbers are sampled.
pub const MOST_CONNECTIONS: usize = 6;

/// Names and words that an engine in another process can report.
pub const REPORTED: &[&str] = &[
    MODE,
    "startup",
    "drain",
    "probe_bw",
    "probe_rtt",
    "bw_packets_per_s",
    "min_rtt_ms",
    "pacing_gain",
    "cwnd_gain",
    "alpha",
    "base_rtt_ms",
    "rtt_min_ms",
];

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
    /// An empty table that keeps rows if `kept`.
    pub fn keep(kept: bool) -> StateSamples {
        StateSamples {
            kept,
            ..StateSamples::default()
        }
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.t_s.len()
    }
    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.t_s.is_empty()
    }
    /// Appends a state that a kernel reports: its mode, and values by name.
    pub fn push_reported(
        &mut self,
        now: Time,
        flow: u32,
        mode: Option<&'static str>,
        values: &[(&'static str, f64)],
    ) {
        if !self.kept {
            return;
        }
        let of = (flow, NO_CONNECTION);
        if let Some(word) = mode {
            let word = self.index(word);
            self.row(now, of, MODE, f64::NAN, word);
        }
        for &(name, value) in values {
            self.row(now, of, name, value, NO_WORD);
        }
    }
    /// The rows of several tables, in the order of time and flow.
    pub fn in_order(tables: &[StateSamples]) -> StateSamples {
        let mut rows: Vec<(f64, u32, usize, usize)> = Vec::new();
        for (table, samples) in tables.iter().enumerate() {
            let keys = samples.t_s.iter().zip(&samples.flow).enumerate();
            rows.extend(keys.map(|(row, (t_s, flow))| (*t_s, *flow, table, row)));
        }
        rows.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut all = StateSamples::keep(tables.iter().any(|table| table.kept));
        for (t_s, flow, table, row) in rows {
            let from = &tables[table];
            let name = all.index(from.names[from.name[row] as usize]);
            let word = match from.word[row] {
                NO_WORD => NO_WORD,
                word => all.index(from.names[word as usize]),
            };
            all.t_s.push(t_s);
            all.flow.push(flow);
            all.connection.push(from.connection[row]);
            all.name.push(name);
            all.value.push(from.value[row]);
            all.word.push(word);
        }
        all
    }
    /// Appends the rows as bytes. Names are numbers of [`REPORTED`]; a row with another name is
    /// omitted.
    pub(super) fn put(&self, to: &mut Vec<u8>) {
        let number = |index: u32| match index {
            NO_WORD => Some(NO_WORD),
            index => {
                let name = self.names[index as usize];
                let found = REPORTED.iter().position(|known| *known == name);
                found.map(|place| place as u32)
            }
        };
        let each = 0..self.len();
        let rows = each.filter_map(|i| Some((i, number(self.name[i])?, number(self.word[i])?)));
        let rows: Vec<(usize, u32, u32)> = rows.collect();
        let of = |column: &[u32]| -> Vec<u32> { rows.iter().map(|row| column[row.0]).collect() };
        let of_f64 =
            |column: &[f64]| -> Vec<f64> { rows.iter().map(|row| column[row.0]).collect() };
        serialize::put(&[rows.len() as u64], to);
        serialize::put(&of_f64(&self.t_s), to);
        serialize::put(&of(&self.flow), to);
        serialize::put(&of(&self.connection), to);
        serialize::put(&rows.iter().map(|row| row.1).collect::<Vec<u32>>(), to);
        serialize::put(&of_f64(&self.value), to);
        serialize::put(&rows.iter().map(|row| row.2).collect::<Vec<u32>>(), to);
    }
    /// Reads the bytes of [`put`](Self::put).
    pub(super) fn take(from: &mut &[u8]) -> Option<StateSamples> {
        let rows = serialize::Cell::take(from)?;
        let found = StateSamples {
            kept: rows > 0,
            names: if rows > 0 {
                REPORTED.to_vec()
            } else {
                Vec::new()
            },
            t_s: serialize::take(rows, from)?,
            flow: serialize::take(rows, from)?,
            connection: serialize::take(rows, from)?,
            name: serialize::take(rows, from)?,
            value: serialize::take(rows, from)?,
            word: serialize::take(rows, from)?,
        };
        let known = |index: &u32| (*index as usize) < REPORTED.len();
        let words = found.word.iter().filter(|word| **word != NO_WORD);
        (found.name.iter().chain(words).all(known)).then_some(found)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_states_are_ordered_and_read_as_they_were_written() {
        let at = |s| Time::ZERO + crate::units::Span::s(s);
        let mut hosts = [StateSamples::keep(true), StateSamples::keep(true)];
        hosts[0].push_reported(at(1), 1, Some("drain"), &[("pacing_gain", 0.5)]);
        hosts[0].push_reported(at(2), 1, None, &[("alpha", 0.25)]);
        hosts[1].push_reported(at(1), 0, Some("startup"), &[]);
        let all = StateSamples::in_order(&hosts);
        assert_eq!(all.t_s, [1.0, 1.0, 1.0, 2.0]);
        assert_eq!(all.flow, [0, 1, 1, 1]);
        let mut bytes = Vec::new();
        all.put(&mut bytes);
        let read = StateSamples::take(&mut &bytes[..]).unwrap();
        let name = |of: &StateSamples, i: usize| of.names[of.name[i] as usize];
        for i in 0..all.len() {
            assert_eq!(name(&read, i), name(&all, i));
            assert_eq!(read.value[i].to_bits(), all.value[i].to_bits());
        }
        assert_eq!(read.names[read.word[0] as usize], "startup");
        assert_eq!(read.word[3], NO_WORD);
        // A number beyond the list is rejected.
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&99_u32.to_le_bytes());
        assert!(StateSamples::take(&mut &bytes[..]).is_none());
    }

    #[test]
    fn names_that_are_not_reported_are_omitted() {
        let mut samples = StateSamples::keep(true);
        samples.push_reported(Time::ZERO, 0, None, &[("unknown", 1.0), ("alpha", 1.0)]);
        let mut bytes = Vec::new();
        samples.put(&mut bytes);
        assert_eq!(StateSamples::take(&mut &bytes[..]).unwrap().len(), 1);
    }
}
