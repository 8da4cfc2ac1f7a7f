//! A run as a capture file, with every packet that enters or leaves the network, and every drop and
//! mark.

use super::packets::Packets;
use crate::capture::{self, Capture, Where};
use crate::net::path;
use crate::queue::DropReason;
use crate::scenario::Scenario;
use crate::units::Time;
use alloc::string::String;
use alloc::vec::Vec;

/// Writes the packets of a run to a capture, and the names of hops into comments.
pub struct Recorder {
    capture: Capture,
    hops: Vec<String>,
    head: Vec<u8>,
}

impl Recorder {
    /// Creates the recorder of a run of `scenario`.
    pub fn new(capture: Capture, scenario: &Scenario) -> Recorder {
        Recorder {
            capture,
            hops: match &scenario.wifi {
                Some(wifi) => {
                    let levels = wifi.stack.levels().map(String::from).into_iter();
                    let wan = wifi.wan.iter().flat_map(|path| path::hop_names(path));
                    levels.chain(wan).collect()
                }
                None => path::hop_names(&scenario.path),
            },
            head: Vec::new(),
        }
    }
    /// Ends the capture; returns false if not everything could be written.
    pub fn finish(self) -> bool {
        self.capture.finish()
    }
    /// Writes a packet.
    #[inline(never)]
    pub fn packet<P>(&mut self, at: Time, seen: Where, packet: &P, packets: &impl Packets<P>) {
        let damaged = packets.is_damaged(packet);
        let comment = if damaged { "damaged on the way" } else { "" };
        self.write(at, seen, packet, packets, comment);
    }
    /// Writes a packet that a hop has dropped or marked.
    #[inline(never)]
    pub fn verdict<P>(
        &mut self,
        at: Time,
        hop: u8,
        packet: &P,
        packets: &impl Packets<P>,
        dropped: bool,
        reason: DropReason,
    ) {
        let comment = capture::comment(dropped, &self.hops[usize::from(hop)], reason);
        self.write(at, Where::Inside, packet, packets, &comment);
    }
    fn write<P>(
        &mut self,
        at: Time,
        seen: Where,
        packet: &P,
        packets: &impl Packets<P>,
        comment: &str,
    ) {
        self.head.clear();
        let len = packets.headers(packet, &mut self.head);
        self.capture.packet(at, seen, &self.head, len, comment);
    }
}
