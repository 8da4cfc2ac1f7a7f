//! What happens to one end of one flow: an arrival, or its timer. Each answers when that end has to
//! be asked again.

use super::World;
use crate::flow::Flow;
use crate::nic::{Nic, WayBack};
use crate::packet::Packet;
use narrows_core::net::{FAR, NEAR};
use narrows_core::units::{Span, Time};

/// An end that asks again for the instant that it was just given would stop the clock.
fn later(now: Time, due: Option<Time>) -> Option<Time> {
    due.map(|at| at.max(now + Span::ns(1)))
}

impl World {
    /// An ACK arrives at its sender.
    pub fn acknowledged(&mut self, now: Time, packet: &Packet) -> Option<Time> {
        let ack = self.observer.packets.acks.take(packet);
        let due = self.at_sender(now, packet.flow(), |flow, nic| {
            flow.sender.on_segment(now, &ack, &mut nic.wire());
        });
        let flow = &mut self.flows[packet.flow() as usize];
        if flow.transfer && flow.sender.finished() {
            if flow.meter.runs() {
                flow.meter.limited(flow.sender.limited(now));
            }
            flow.meter.finished(now, &flow.sender.info());
        }
        due
    }

    /// The timer of a sender fires.
    pub fn wake_sender(&mut self, now: Time, id: u32) -> Option<Time> {
        let due = self.at_sender(now, id, |flow, nic| {
            flow.sender.on_timer(now, &mut nic.wire())
        });
        later(now, due)
    }

    /// A segment arrives at its receiver.
    pub fn received(&mut self, now: Time, packet: &Packet) -> Option<Time> {
        let segment = self.observer.packets.headers.take(packet);
        let counts = now >= self.observer.warmup;
        self.at_receiver(now, packet.flow(), |flow, way| {
            if counts && flow.received_before.is_none() {
                flow.received_before = Some(flow.receiver.received_bytes());
            }
            flow.receiver.on_segment(now, &segment, &mut way.wire());
        })
    }

    /// The timer of a receiver fires.
    pub fn wake_receiver(&mut self, now: Time, id: u32) -> Option<Time> {
        let due = self.at_receiver(now, id, |flow, way| {
            flow.receiver.on_timer(now, &mut way.wire())
        });
        later(now, due)
    }

    /// A sender does something, and may send.
    #[inline]
    fn at_sender(
        &mut self,
        now: Time,
        id: u32,
        act: impl FnOnce(&mut Flow, &mut Nic),
    ) -> Option<Time> {
        let flow = &mut self.flows[id as usize];
        let (offload, device) = (self.offload, self.device.as_deref_mut());
        let mut nic = Nic::new(
            now,
            id,
            flow.way(),
            offload,
            device,
            &mut self.network,
            &mut self.observer,
        );
        act(flow, &mut nic);
        nic.flush();
        flow.sender.next_wakeup()
    }

    /// A receiver does something, and may answer.
    #[inline]
    fn at_receiver(
        &mut self,
        now: Time,
        id: u32,
        act: impl FnOnce(&mut Flow, &mut WayBack),
    ) -> Option<Time> {
        let flow = &mut self.flows[id as usize];
        let mut way = WayBack {
            now,
            flow: id,
            port: NEAR + FAR - flow.port,
            label: flow.label,
            line: flow.back,
            network: &mut self.network,
            access: &mut self.access,
            observer: &mut self.observer,
        };
        act(flow, &mut way);
        flow.receiver.next_wakeup()
    }
}
