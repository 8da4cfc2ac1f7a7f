//! `pfifo_fast`, the default queue discipline of a Linux interface. It has three bands, and the
//! first band that holds a packet is served.
//!
//! Algorithm: the type of service selects the band. Each band is a ring buffer of `limit` packets;
//! a full ring drops arriving packets. A band waits while a band with a lower number has packets.
//!
//! ```text
//!   bits of the TOS byte   DSCP & 7   priority              band
//!   0 0 . (normal)         0, 1       0 best effort         1
//!   0 1 . (throughput)     2, 3       2 bulk                2
//!   1 0 . (low delay)      4, 5       6 interactive         0
//!   1 1 . (both)           6, 7       4 interactive bulk    1
//! ```
//!
//! Only these two bits of the DSCP count, which are older than the DSCP. EF (46) and CS1 (8) are in
//! band 1, AF11 (10) and AF41 (34) in band 2.
//!
//! Sources: Linux 6.12 `pfifo_fast`; its map of TOS to priority and of priority to band
//! (tc-prio(8)). `core/tests/queue_replay.rs` compares this file with Linux packet by packet. Since
//! Linux 4.16 the discipline has no lock, and each band has its own limit. As in Linux, a ring
//! frees its entries in groups of sixteen and at its end. A band may therefore be full while up to
//! 15 packets fewer than `limit` wait. Deviation: a limit in bytes, which Linux does not have,
//! limits the bytes of each band. A packet that leaves then frees its bytes at once.

use super::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, QueueKind, Sink};
use crate::packet::Packet;
use crate::param::{Kind, Param, Params, no_check};
use crate::units::{Bytes, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// The parameters of the queue discipline.
pub const PARAMS: &[Param] = &[Param {
    name: "limit",
    kind: Kind::Packets(1000, 1, u32::MAX as u64),
    help: "largest backlog of each band in packets, if the path has no buffer",
    source: "Linux 6.12: a device's default txqueuelen",
}];

const BANDS: usize = 3;

/// Number of entries that a ring frees at once: two cache lines of pointers.
const BATCH: u64 = 16;

/// The band of a packet with this DSCP.
pub fn band(dscp: u8) -> usize {
    match (dscp >> 1) & 3 {
        1 => 2,
        2 => 0,
        _ => 1,
    }
}

struct Band<P> {
    packets: VecDeque<P>,
    backlog: Backlog,
    /// Index of the entry of the ring that is served next.
    at: u64,
    /// Number of entries that were served and not yet freed.
    kept: u64,
}

impl<P: Packet> Band<P> {
    fn admits(&self, limit: Limit, size: Bytes) -> bool {
        match limit {
            Limit::Packets(places) => self.backlog.packets + self.kept < places,
            Limit::Bytes(_) => limit.admits(self.backlog, size),
        }
    }
    fn take(&mut self, limit: Limit) -> Option<P> {
        let packet = self.packets.pop_front()?;
        self.backlog.remove(packet.size());
        if let Limit::Packets(places) = limit {
            // A ring too small for batches frees single entries.
            let batch = if BATCH > places / 2 { 1 } else { BATCH };
            self.at += 1;
            self.kept += 1;
            if self.at >= places {
                self.at = 0;
                self.kept = 0;
            } else if self.kept >= batch {
                self.kept = 0;
            }
        }
        Some(packet)
    }
}

/// The queue discipline `pfifo_fast`.
pub struct PfifoFast<P> {
    limit: Limit,
    bands: [Band<P>; BANDS],
    served: usize,
}

impl<P> PfifoFast<P> {
    /// Three empty bands, each with this limit.
    pub fn new(limit: Limit) -> PfifoFast<P> {
        PfifoFast {
            limit,
            bands: core::array::from_fn(|_| Band {
                packets: VecDeque::new(),
                backlog: Backlog::default(),
                at: 0,
                kept: 0,
            }),
            served: 0,
        }
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for PfifoFast<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        let size = packet.size();
        let band = &mut self.bands[band(packet.dscp())];
        if band.admits(self.limit, size) {
            band.backlog.add(size);
            band.packets.push_back(packet);
        } else {
            sink.dropped(now, packet, DropReason::Overflow);
        }
    }
    fn dequeue(&mut self, _now: Time, _sink: &mut dyn Sink<P>) -> Option<P> {
        let first = self
            .bands
            .iter()
            .position(|band| !band.packets.is_empty())?;
        self.served = first;
        self.bands[first].take(self.limit)
    }
    fn peek(&self) -> Option<Bytes> {
        self.bands
            .iter()
            .find_map(|band| band.packets.front())
            .map(Packet::size)
    }
    fn backlog(&self) -> Backlog {
        let mut all = Backlog::default();
        for band in &self.bands {
            all.bytes += band.backlog.bytes;
            all.packets += band.backlog.packets;
        }
        all
    }
    fn classes(&self) -> Vec<String> {
        ["band 0", "band 1", "band 2"].map(String::from).into()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.bands
            .get(class)
            .map_or(Backlog::default(), |band| band.backlog)
    }
    fn class_served(&self) -> usize {
        self.served
    }
}

/// The registry entry.
pub fn kind<P: Packet + Send + 'static>() -> QueueKind<P> {
    QueueKind {
        name: "pfifo_fast",
        help: "three bands by type of service; the first band that has a packet is served",
        source: "Linux 6.12 pfifo_fast",
        params: PARAMS,
        check: no_check,
        feedback: false,
        make: &|params: &Params, context: &QueueContext| {
            let limit = context
                .limit
                .unwrap_or(Limit::Packets(params.packets("limit")));
            Box::new(PfifoFast::<P>::new(limit))
        },
    }
}
