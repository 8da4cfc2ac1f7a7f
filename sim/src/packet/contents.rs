//! The contents of packets in transit that do not fit into 32 bytes.
//!
//! Each kind of content has a slab. A packet contains the index of its content. The index becomes
//! free when the packet arrives or is dropped. In steady state, nothing is allocated.

use super::{HEADER, Kind, OPTION, Packet, option};
use narrows_core::packet::{self, Congestion};
use narrows_core::tcp::wire::{AckSegment, Segment};

/// Number of values by which a slab grows at least.
const LEAST_ROOM: usize = 16;

/// Values by index. The index that was freed last is reused first, because its slot is in the
/// cache.
#[derive(Debug)]
struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Copy> Slab<T> {
    fn put(&mut self, content: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = content;
                slot
            }
            None => {
                if self.slots.len() == self.slots.capacity() {
                    self.grow();
                }
                self.slots.push(content);
                self.slots.len() as u32 - 1
            }
        }
    }
    /// Makes room for an eighth more. The maximum number of packets in transit varies little, and
    /// twice the room would mostly remain unused.
    #[cold]
    fn grow(&mut self) {
        let more = self.slots.len() / 8 + LEAST_ROOM;
        self.slots.reserve_exact(more);
        self.free.reserve_exact(self.slots.capacity());
    }
    fn look(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
    fn take(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize]
    }
}

/// The fields of a data packet that its congestion header replaces.
#[derive(Copy, Clone, Debug)]
struct Displaced {
    seq: u64,
    tsval: u32,
    tsecr: u32,
}

/// The fields that congestion headers replace in packets in transit.
#[derive(Debug, Default)]
pub(crate) struct Headers(Slab<Displaced>);

impl Headers {
    /// A packet with a segment of `flow` and the congestion header `header`.
    pub fn packet(&mut self, flow: u32, segment: &Segment, header: &Congestion) -> Packet {
        let plain = Packet::data(flow, segment);
        let &Segment {
            seq, tsval, tsecr, ..
        } = segment;
        Packet {
            seq: header.cwnd().get() | header.rtt().as_us() << 32,
            word: self.0.put(Displaced { seq, tsval, tsecr }) | option(segment.options),
            tsecr: header.feedback.to_word(),
            flags: plain.flags | HEADER,
            ..plain
        }
    }
    /// A second packet with the same content.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let displaced = *self.0.look(packet.word & !OPTION);
        Packet {
            word: self.0.put(displaced) | packet.word & OPTION,
            ..*packet
        }
    }
    /// The segment of a data packet, with a header or without.
    #[inline]
    pub fn segment(&self, packet: &Packet) -> Segment {
        if !packet.has_header() {
            return packet.segment();
        }
        let &Displaced { seq, tsval, tsecr } = self.0.look(packet.word & !OPTION);
        Segment {
            seq,
            tsval,
            tsecr,
            congestion: packet::Packet::congestion(packet),
            ..packet.segment()
        }
    }
    /// The segment of a data packet that has arrived or is dropped; its index becomes free.
    #[inline(always)]
    pub fn take(&mut self, packet: &Packet) -> Segment {
        if packet.has_header() {
            self.take_header(packet)
        } else {
            packet.segment()
        }
    }
    #[cold]
    fn take_header(&mut self, packet: &Packet) -> Segment {
        let segment = self.segment(packet);
        self.0.take(packet.word & !OPTION);
        segment
    }
}

/// The contents of ACKs in transit, except those of plain ACKs, which fit into their packet
/// ([`Packet::plain_ack`]).
#[derive(Debug, Default)]
pub(crate) struct Acks(Slab<AckSegment>);

impl Acks {
    /// A packet with the ACK `ack` of `flow`.
    #[inline(always)]
    pub fn packet(&mut self, flow: u32, ack: AckSegment) -> Packet {
        Packet::plain_ack(flow, &ack).unwrap_or_else(|| self.store(flow, &ack))
    }
    #[inline(never)]
    fn store(&mut self, flow: u32, ack: &AckSegment) -> Packet {
        Packet::ack(flow, ack, self.0.put(*ack))
    }
    /// A second packet with the same content.
    pub fn copy(&mut self, packet: &Packet) -> Packet {
        let Some(ack) = self.look(packet).copied() else {
            return *packet;
        };
        Packet {
            word: self.0.put(ack),
            ..*packet
        }
    }
    /// The content of an ACK in transit, if it is stored here.
    #[inline]
    pub fn look(&self, packet: &Packet) -> Option<&AckSegment> {
        (!packet.is_plain_ack()).then(|| self.0.look(packet.word))
    }
    /// The content of an ACK in transit.
    pub fn content(&self, packet: &Packet) -> AckSegment {
        match self.look(packet) {
            Some(ack) => *ack,
            None => packet.plain_content(),
        }
    }
    /// Adds the SACK blocks to `ack`, the part of an ACK that a router can read.
    pub fn complete(&self, packet: &Packet, ack: &mut packet::Ack) {
        let content = self.content(packet);
        let blocks = content
            .sacks
            .iter()
            .map(|block| (block.start as u32, block.end as u32));
        ack.blocks.1 = content.n_sacks;
        for (to, block) in ack.blocks.0.iter_mut().zip(blocks) {
            *to = block;
        }
        ack.pure = content.marks.counters() == 0;
    }
    /// The content of an ACK that has arrived or is dropped; its index becomes free.
    #[inline]
    pub fn take(&mut self, packet: &Packet) -> AckSegment {
        debug_assert_eq!(packet.kind(), Kind::Ack);
        if packet.is_plain_ack() {
            packet.plain_content()
        } else {
            self.0.take(packet.word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Label;
    use super::*;
    use narrows_core::net::FAR;
    use narrows_core::packet::{Ecn, Feedback, Packet as _};
    use narrows_core::tcp::wire::AckMarks;
    use narrows_core::units::{Bytes, Span};

    #[test]
    fn places_of_acks_are_used_again() {
        let mut acks = Acks::default();
        for ack in 0..1000 {
            let sent = AckSegment {
                ack,
                n_sacks: 1,
                ..AckSegment::default()
            };
            let packet = acks.packet(0, sent);
            assert_eq!(acks.take(&packet), sent);
        }
        assert_eq!(acks.0.slots.len(), 1);
    }

    /// A plain ACK is in its packet, at the limits of its numbers too. Any other one is stored.
    #[test]
    fn plain_acks_need_no_place() {
        let plain = AckSegment {
            ack: u64::from(u32::MAX),
            window: (1 << 31) - 1,
            tsval: (1 << 28) - 1,
            tsecr: u32::MAX,
            ece: true,
            ..AckSegment::default()
        };
        let others = [
            AckSegment {
                ack: plain.ack + 1,
                ..plain
            },
            AckSegment {
                window: plain.window + 1,
                ..plain
            },
            AckSegment {
                n_sacks: 1,
                ..plain
            },
            AckSegment { syn: true, ..plain },
            AckSegment {
                marks: AckMarks::new(1, Ecn::NotEct),
                ..plain
            },
            AckSegment {
                marks: AckMarks::new(0, Ecn::Ect0),
                ..plain
            },
            AckSegment {
                marks: AckMarks::default().with_timestamps(false),
                ..plain
            },
            AckSegment {
                feedback: Feedback::bytes(1.0),
                ..plain
            },
        ];
        let mut acks = Acks::default();
        for (sent, places) in [(plain, 0)].into_iter().chain(others.map(|ack| (ack, 1))) {
            let packet = acks.packet(7, sent).labelled(Label::default(), FAR);
            let copy = acks.copy(&packet);
            assert_eq!(acks.content(&packet), sent);
            assert_eq!([acks.take(&copy), acks.take(&packet)], [sent; 2]);
            assert_eq!(acks.0.slots.len(), 2 * places);
            assert!(!packet.joined() && packet.size() == sent.size());
        }
    }

    #[test]
    fn a_congestion_header_does_not_reduce_its_segment() {
        let mut headers = Headers::default();
        let header = Congestion::new(
            Bytes::new(4_000_000_000),
            Span::us(4_000_000_000),
            Feedback::bytes(-2.5),
        );
        let segment = Segment {
            seq: 1 << 50,
            len: 1448,
            tsval: 77,
            tsecr: 78,
            psh: true,
            congestion: Some(header),
            ..Segment::default()
        };
        let mut packet = headers.packet(3, &segment, &header);
        let copy = headers.copy(&packet);
        assert_eq!(
            (packet.size(), packet.congestion()),
            (Bytes::new(1514), Some(header))
        );
        packet.set_feedback(Feedback::bytes(9.0));
        assert_eq!(headers.take(&copy), segment);
        let heard = headers.take(&packet);
        assert_eq!(
            heard.congestion.map(|c| c.feedback),
            Some(Feedback::bytes(9.0))
        );
        assert_eq!((heard.seq, headers.0.slots.len()), (1 << 50, 2));
        let mut plain = Packet::data(3, &segment);
        plain.set_feedback(Feedback::bytes(9.0));
        assert_eq!((plain.congestion(), plain.segment().tsecr), (None, 78));
    }
}
