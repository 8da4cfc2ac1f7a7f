//! The observer of a run's network: it meters queues, notes drops and marks, and records packets.

use super::packet_trace::{PacketTrace, TraceEvent};
use super::packets::Packets;
use super::recorder::Recorder;
use super::{Network, Options};
use crate::capture::Where;
use crate::metrics::{LevelMeter, PacketEvent, PacketEvents, QueueMeter, Samples};
use crate::net::{FAR, NEAR, NetworkObserver, Port};
use crate::packet::{Ack, Packet};
use crate::queue::DropReason;
use crate::scenario::Scenario;
use crate::units::Time;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The observer of a run's network. `S` are the engine's [`Packets`].
pub struct Observer<S> {
    /// The engine's packets.
    pub packets: S,
    /// Queue meters, by the number of the hop.
    pub queues: Vec<QueueMeter>,
    /// For each probe, the meter of the access point's levels (stack, driver, air) at which its
    /// pings wait after the warm-up. Empty without Wi-Fi.
    pub levels: Vec<LevelMeter>,
    /// The index that [`Packets::owner`] returns for the first probe.
    first_probe: u32,
    /// The end of the warm-up.
    pub warmup: Time,
    /// Single dropped or marked packets, at most as many as the options request.
    pub verdicts: PacketEvents,
    /// Writes every packet to a capture, if there is one.
    pub recorder: Option<Box<Recorder>>,
    /// Keeps the packets of a part of the run, if there is one.
    pub trace: Option<Box<PacketTrace>>,
}

impl<S> Observer<S> {
    /// Creates the observer of the queues of a scenario's network.
    pub fn new(
        scenario: &Scenario,
        queues: Vec<QueueMeter>,
        options: &Options,
        packets: S,
    ) -> Observer<S> {
        let probes = scenario.wifi.as_ref().map_or(0, |_| scenario.probes.len());
        Observer {
            packets,
            queues,
            levels: alloc::vec![LevelMeter::default(); probes],
            first_probe: scenario.flows.len() as u32,
            warmup: Time::ZERO + scenario.warmup,
            verdicts: PacketEvents::keep(options.verdicts),
            recorder: None,
            trace: None,
        }
    }
    /// Samples the backlog of every queue, for its metrics and as rows.
    pub fn sample<P: Packet>(
        &mut self,
        now: Time,
        network: &Network<P>,
        metrics: bool,
        mut rows: Option<&mut Samples>,
    ) {
        for (number, meter) in self.queues.iter_mut().enumerate() {
            let backlog = network.backlog(number);
            if metrics {
                meter.sample(now, backlog, |class| network.backlog_of(number, class));
            }
            if let Some(rows) = &mut rows {
                let (drops, marks, queue) = (meter.drops(), meter.marks(), number as u32);
                rows.queue.push_backlog(now, queue, backlog, drops, marks);
                for class in 0..meter.classes() {
                    let backlog = network.backlog_of(number, class);
                    rows.classes.push_backlog(now, queue, class as u32, backlog);
                }
            }
        }
    }
    /// Adds the distribution of every queue's delay to the samples.
    pub fn delays(&self, samples: &mut Samples) {
        for (number, queue) in (0..).zip(&self.queues) {
            queue.delays(number, &mut samples.delays);
        }
    }
    /// Stores the drop or mark of a packet. If the packet's time of entry is zero, it has not
    /// entered a queue.
    pub fn judge<P: Packet>(&mut self, now: Time, packet: &P, verdict: PacketEvent)
    where
        S: Packets<P>,
    {
        if self.verdicts.wanted() {
            if let Some(owner) = self.packets.owner(packet) {
                let entered = Some(packet.enqueued_at()).filter(|at| *at > Time::ZERO);
                self.verdicts.push(now, owner, verdict, entered);
            }
        }
    }
    /// Writes a packet that enters or leaves the network to the capture.
    #[inline]
    fn record<P>(&mut self, at: Time, seen: Where, packet: &P)
    where
        S: Packets<P>,
    {
        if let Some(recorder) = &mut self.recorder {
            recorder.packet(at, seen, packet, &self.packets);
        }
    }
    /// Adds an event of a packet to the trace, if the trace keeps events of this time.
    #[inline]
    fn trace<P: Packet>(&mut self, now: Time, event: TraceEvent, hop: u8, packet: &P)
    where
        S: Packets<P>,
    {
        if self.trace.is_some() {
            self.trace_cold(now, event, hop, packet);
        }
    }
    #[cold]
    fn trace_cold<P: Packet>(&mut self, now: Time, event: TraceEvent, hop: u8, packet: &P)
    where
        S: Packets<P>,
    {
        let Some(trace) = self.trace.as_mut().filter(|trace| trace.covers(now)) else {
            return;
        };
        let Some(owner) = self.packets.owner(packet) else {
            return;
        };
        let entered = Some(packet.enqueued_at()).filter(|at| *at > Time::ZERO);
        trace.push(now, event, hop, owner, packet.size().get(), entered);
    }
    /// Writes a dropped or marked packet to the capture.
    fn record_verdict<P>(
        &mut self,
        at: Time,
        hop: u8,
        packet: &P,
        dropped: bool,
        reason: DropReason,
    ) where
        S: Packets<P>,
    {
        if let Some(recorder) = &mut self.recorder {
            recorder.verdict(at, hop, packet, &self.packets, dropped, reason);
        }
    }
}

impl<P: Packet, S: Packets<P>> NetworkObserver<P> for Observer<S> {
    #[inline]
    fn entered(&mut self, now: Time, port: Port, packet: &P) {
        self.record(now, Where::Enters(port.min(FAR)), packet);
        let event = match port {
            NEAR => TraceEvent::EntersNear,
            _ => TraceEvent::EntersFar,
        };
        self.trace(now, event, 0, packet);
    }
    #[inline]
    fn arrived(&mut self, now: Time, port: Port, packet: P) {
        self.record(now, Where::Leaves(port.min(FAR)), &packet);
        let event = match port {
            NEAR => TraceEvent::LeavesNear,
            _ => TraceEvent::LeavesFar,
        };
        self.trace(now, event, 0, &packet);
        self.packets.arrived(port, packet);
    }
    #[inline]
    fn departed(&mut self, now: Time, hop: u8, class: u8, packet: &P) {
        self.queues[usize::from(hop)].departed(now, packet.enqueued_at(), class);
        self.trace(now, TraceEvent::Departs, hop, packet);
        if !self.levels.is_empty() && now >= self.warmup && self.packets.is_ping(packet) {
            let probe = self.packets.owner(packet);
            let probe = probe.and_then(|owner| owner.checked_sub(self.first_probe));
            if let Some(levels) = probe.and_then(|probe| self.levels.get_mut(probe as usize)) {
                levels.departed(hop, now.since(packet.enqueued_at()));
            }
        }
    }
    #[inline(always)]
    fn have_departed(&mut self, hop: u8, departures: impl Iterator<Item = (Time, Time)>) {
        let queue = &mut self.queues[usize::from(hop)];
        for (now, entered) in departures {
            queue.departed(now, entered, 0);
        }
    }
    fn dropped(&mut self, now: Time, hop: u8, packet: P, reason: DropReason) {
        self.queues[usize::from(hop)].dropped(now, reason);
        self.judge(now, &packet, PacketEvent::Dropped(reason));
        self.record_verdict(now, hop, &packet, true, reason);
        self.trace(now, TraceEvent::Dropped, hop, &packet);
        self.packets.dropped(packet);
    }
    fn owner(&self, packet: &P) -> u32 {
        self.packets.owner(packet).unwrap_or(0)
    }
    fn is_late(&self, packet: &P) -> bool {
        self.packets.is_late(packet)
    }
    fn duplicate(&mut self, packet: &P) -> Option<P> {
        self.packets.duplicate(packet)
    }
    fn marked(&mut self, now: Time, hop: u8, packet: &P, reason: DropReason) {
        self.queues[usize::from(hop)].marked();
        self.judge(now, packet, PacketEvent::Marked(reason));
        self.record_verdict(now, hop, packet, false, reason);
        self.trace(now, TraceEvent::Marked, hop, packet);
    }
    fn completes(&self, packet: &P, ack: &mut Ack) {
        self.packets.completes(packet, ack);
    }
}
