//! Samples as bytes, for an engine in another process. Each table has its number of rows as `u64`,
//! then its columns in order; every value is little-endian. Transfers are not included:
//! an engine in another process does not know them. Of states, only those with names that a kernel
//! reports are included.

use super::{
    ClassSamples, DelaySamples, FlowSamples, PacketEvents, PingSamples, QueueSamples, Samples,
    StateSamples,
};
use alloc::vec::Vec;

/// A value of a column.
pub(super) trait Cell: Sized {
    fn put(self, to: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! cells {
    ($($type:ty),*) => {
        $(impl Cell for $type {
            fn put(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Option<$type> {
                let (bytes, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(*bytes))
            }
        })*
    };
}
cells!(u8, u32, u64, f64);

/// Writes a column.
pub(super) fn put<T: Cell + Copy>(column: &[T], to: &mut Vec<u8>) {
    column.iter().for_each(|cell| cell.put(to));
}

/// Reads a column of `rows` rows.
pub(super) fn take<T: Cell>(rows: u64, from: &mut &[u8]) -> Option<Vec<T>> {
    (0..rows).map(|_| T::take(from)).collect()
}

impl Samples {
    /// All tables as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.flows.put(&mut bytes);
        self.queue.put(&mut bytes);
        self.classes.put(&mut bytes);
        self.pings.put(&mut bytes);
        put(&[self.delays.of.len() as u64], &mut bytes);
        put(&self.delays.of, &mut bytes);
        put(&self.delays.number, &mut bytes);
        put(&self.delays.delay_ms, &mut bytes);
        put(&self.delays.share, &mut bytes);
        self.verdicts.put(&mut bytes);
        self.states.put(&mut bytes);
        bytes
    }
    /// Reads the bytes of [`to_bytes`](Self::to_bytes); `None` for anything else.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Samples> {
        let samples = Samples {
            flows: FlowSamples::take(&mut bytes)?,
            queue: QueueSamples::take(&mut bytes)?,
            classes: ClassSamples::take(&mut bytes)?,
            pings: PingSamples::take(&mut bytes)?,
            delays: {
                let rows = Cell::take(&mut bytes)?;
                DelaySamples {
                    of: take(rows, &mut bytes)?,
                    number: take(rows, &mut bytes)?,
                    delay_ms: take(rows, &mut bytes)?,
                    share: take(rows, &mut bytes)?,
                }
            },
            verdicts: PacketEvents::take(&mut bytes)?,
            states: StateSamples::take(&mut bytes)?,
            ..Samples::default()
        };
        bytes.is_empty().then_some(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PacketEvent, PingSample, QueueSample};
    use super::*;

    #[test]
    fn written_samples_are_read_back_and_others_are_rejected() {
        let mut samples = Samples::default();
        for n in 0..3 {
            samples.queue.push(QueueSample {
                t_s: 0.1 * f64::from(n),
                queue: n,
                backlog_bytes: u64::MAX - u64::from(n),
                backlog_packets: 7,
                drops: 8,
                marks: 9,
            });
        }
        samples.pings.push(PingSample {
            t_s: 1.0,
            probe: 0,
            rtt_ms: 40.0,
        });
        samples
            .delays
            .push_probe(0, alloc::vec![crate::units::Span::ms(40)]);
        samples.verdicts = PacketEvents::keep(1);
        for flow in 0..2 {
            let verdict = PacketEvent::Dropped(crate::queue::DropReason::Aqm);
            samples.verdicts.push(
                crate::units::Time::ZERO,
                flow,
                verdict,
                Some(crate::units::Time::ZERO),
            );
        }
        let bytes = samples.to_bytes();
        assert_eq!(Samples::from_bytes(&bytes), Some(samples));
        assert_eq!(Samples::from_bytes(&bytes[..bytes.len() - 1]), None);
        let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
        assert_eq!(Samples::from_bytes(&longer), None);
    }
}
