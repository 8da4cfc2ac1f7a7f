//! The class of a packet: the first class in the list whose `match` the packet meets.
//!
//! The search takes one lookup by the flow of the packet and one by its code point, for any number
//! of classes.

use crate::packet::Packet;
use crate::param::Match;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// The classes, indexed by the flows and by the code points that they match.
pub(super) struct Classifier {
    /// For each flow that a class names: pairs of code points (one bit each) and class, in the
    /// order of the list.
    by_flow: Vec<Vec<(u64, u32)>>,
    /// For each code point, the first class that matches it and names no flow.
    by_dscp: [u32; 64],
}

impl Classifier {
    /// A classifier of classes in the order of their list, each with its number.
    pub fn new<'m>(classes: impl Iterator<Item = (usize, &'m Match)>) -> Classifier {
        let mut made = Classifier {
            by_flow: Vec::new(),
            by_dscp: [NONE; 64],
        };
        for (class, which) in classes {
            let points = if which.dscp == 0 {
                u64::MAX
            } else {
                which.dscp
            };
            for flow in &which.flows {
                let flow = *flow as usize;
                if made.by_flow.len() <= flow {
                    made.by_flow.resize(flow + 1, Vec::new());
                }
                made.by_flow[flow].push((points, class as u32));
            }
            if which.names.is_empty() && which.flows.is_empty() {
                for (point, first) in made.by_dscp.iter_mut().enumerate() {
                    if which.dscp >> point & 1 > 0 && *first == NONE {
                        *first = class as u32;
                    }
                }
            }
        }
        made
    }
    /// The class of a packet, if one matches.
    #[inline]
    pub fn class_of<P: Packet>(&self, packet: &P) -> Option<usize> {
        let point = packet.dscp() & 63;
        let flow = packet
            .owner()
            .and_then(|flow| self.by_flow.get(flow as usize));
        let named = flow.and_then(|list| list.iter().find(|(points, _)| points >> point & 1 > 0));
        let first = named
            .map_or(NONE, |(_, class)| *class)
            .min(self.by_dscp[usize::from(point)]);
        (first != NONE).then_some(first as usize)
    }
}
