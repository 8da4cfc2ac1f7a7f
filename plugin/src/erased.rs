//! Queue disciplines of a plugin for every driver.
//!
//! A queue discipline is generic over the driver's packet. A plugin is compiled once, so it
//! contains its disciplines for [`AnyPacket`]: a box with a packet of any driver. [`kind`] adapts
//! such a discipline to the packets of one driver. The box costs an allocation for each packet.

use narrows_core::packet::{Ack, Congestion, Ecn, Feedback, Packet};
use narrows_core::param::{Kind, Params};
use narrows_core::queue::{
    Backlog, ClassCounts, DropReason, QueueContext, QueueDiscipline, QueueKind, Sink,
};
use narrows_core::units::{Bytes, Time};
use std::any::Any;

/// A packet whose type only its driver knows.
trait Opaque: Packet + Any + Send {
    fn any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<P: Packet + Any + Send> Opaque for P {
    fn any(&self) -> &dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A packet of any driver. Such a packet is never divided as a super-packet: `first_segment`
/// returns `None`.
pub struct AnyPacket(Box<dyn Opaque>);

impl AnyPacket {
    fn of<P: Packet + Send + 'static>(packet: P) -> AnyPacket {
        AnyPacket(Box::new(packet))
    }
    /// The driver's packet; `None` if it is another driver's.
    fn into_inner<P: 'static>(self) -> Option<P> {
        self.0.into_any().downcast().ok().map(|packet| *packet)
    }
    fn inner<P: 'static>(&self) -> Option<&P> {
        (*self.0).any().downcast_ref()
    }
}

impl Packet for AnyPacket {
    fn size(&self) -> Bytes {
        self.0.size()
    }
    fn enqueued_at(&self) -> Time {
        self.0.enqueued_at()
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.0.set_enqueued_at(now);
    }
    fn flow_hash(&self, seed: u64) -> u32 {
        self.0.flow_hash(seed)
    }
    fn src_hash(&self, seed: u64) -> u32 {
        self.0.src_hash(seed)
    }
    fn dst_hash(&self, seed: u64) -> u32 {
        self.0.dst_hash(seed)
    }
    fn src_behind(&self, seed: u64) -> u32 {
        self.0.src_behind(seed)
    }
    fn dst_behind(&self, seed: u64) -> u32 {
        self.0.dst_behind(seed)
    }
    fn owner(&self) -> Option<u32> {
        self.0.owner()
    }
    fn ecn(&self) -> Ecn {
        self.0.ecn()
    }
    fn set_ce(&mut self) {
        self.0.set_ce();
    }
    fn joined(&self) -> bool {
        self.0.joined()
    }
    fn memory(&self, size: Bytes) -> Bytes {
        self.0.memory(size)
    }
    fn ack(&self) -> Option<Ack> {
        self.0.ack()
    }
    fn congestion(&self) -> Option<Congestion> {
        self.0.congestion()
    }
    fn set_feedback(&mut self, feedback: Feedback) {
        self.0.set_feedback(feedback);
    }
    fn dscp(&self) -> u8 {
        self.0.dscp()
    }
    fn set_dscp(&mut self, dscp: u8) {
        self.0.set_dscp(dscp);
    }
    fn damage(&mut self) {
        self.0.damage();
    }
    fn departure(&self) -> Option<Time> {
        self.0.departure()
    }
}

/// The driver's sink for a discipline of a plugin.
struct OpenSink<'a, P>(&'a mut dyn Sink<P>);

impl<P: 'static> Sink<AnyPacket> for OpenSink<'_, P> {
    fn dropped(&mut self, now: Time, packet: AnyPacket, why: DropReason) {
        if let Some(packet) = packet.into_inner() {
            self.0.dropped(now, packet, why);
        }
    }
    fn marked(&mut self, now: Time, packet: &AnyPacket, why: DropReason) {
        if let Some(packet) = packet.inner() {
            self.0.marked(now, packet, why);
        }
    }
    fn completes(&self, packet: &AnyPacket, ack: &mut Ack) {
        if let Some(packet) = packet.inner() {
            self.0.completes(packet, ack);
        }
    }
}

/// A discipline of a plugin for the packets of one driver.
struct Opened(Box<dyn QueueDiscipline<AnyPacket>>);

impl<P: Packet + Send + 'static> QueueDiscipline<P> for Opened {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        self.0
            .enqueue(now, AnyPacket::of(packet), &mut OpenSink(sink));
    }
    fn enqueue_for(&mut self, now: Time, packet: P, departs: Time, sink: &mut dyn Sink<P>) {
        self.0
            .enqueue_for(now, AnyPacket::of(packet), departs, &mut OpenSink(sink));
    }
    fn refuses(&self, why: DropReason) -> bool {
        self.0.refuses(why)
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.0.dequeue(now, &mut OpenSink(sink))?.into_inner()
    }
    fn peek(&self) -> Option<Bytes> {
        self.0.peek()
    }
    fn wakes(&self) -> bool {
        self.0.wakes()
    }
    fn timely(&self) -> bool {
        self.0.timely()
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.0.next_wakeup()
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        self.0.on_wakeup(now, &mut OpenSink(sink));
    }
    fn backlog(&self) -> Backlog {
        self.0.backlog()
    }
    fn classes(&self) -> Vec<String> {
        self.0.classes()
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.0.backlog_of(class)
    }
    fn class_served(&self) -> usize {
        self.0.class_served()
    }
    fn counts_of(&self, class: usize) -> Option<ClassCounts> {
        self.0.counts_of(class)
    }
}

/// Returns whether a discipline of a plugin nests other disciplines. Nesting is not supported,
/// because the nested disciplines would be for the driver's packet type.
pub fn nests(kind: &QueueKind<AnyPacket>) -> bool {
    let mut params = kind.params.iter();
    params.any(|param| matches!(param.kind, Kind::Choice(_) | Kind::Rows(_)))
}

/// The entry of a plugin's discipline in the registry of one driver.
pub fn kind<P: Packet + Send + 'static>(of: &QueueKind<AnyPacket>) -> QueueKind<P> {
    let make = of.make;
    QueueKind {
        name: of.name,
        help: of.help,
        source: of.source,
        params: of.params,
        check: of.check,
        feedback: of.feedback,
        // A process loads each plugin once, so this memory is bounded.
        make: Box::leak(Box::new(move |params: &Params, place: &QueueContext| {
            Box::new(Opened(make(params, place))) as Box<dyn QueueDiscipline<P>>
        })),
    }
}
