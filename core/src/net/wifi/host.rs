//! The queues between one host's packets and its antenna: the three stacks.
//!
//! ```text
//!   before           ──▶ qdisc ──▶ driver: a FIFO per station, limited in frames ──▶ hardware
//!   fq_mac, airtime  ──▶ mac80211: FQ-CoDel per station ───────────────────────────▶ hardware
//!   the same, driver ──▶ mac80211 ──▶ driver: a FIFO per station, limited ─────────▶ hardware
//! ```
//!
//! Each category has its own queues.
//!
//! - **before**: the driver dequeues from the qdisc whenever it holds fewer frames than its depth,
//!   and then serves stations round-robin.
//! - **fq_mac**: a transmission is filled from mac80211 when it is built; stations are served
//!   round-robin.
//! - **airtime**: as `fq_mac`, but stations are served by airtime, and the hardware is filled under
//!   AQL ([`airtime`](super::airtime)).
//! - With a **driver queue** below mac80211, a station's turn fills this queue. Devices with queues
//!   in their firmware work like this. The turn ends when the driver accepts no more frames, when
//!   AQL blocks the station, or when no packet waits. The driver serves stations round-robin.
//!
//! A turn is one aggregate, or two single frames for a station without aggregation or in the voice
//! category. In each category, the hardware takes another aggregate while it holds fewer than
//! `txops` (two). The hardware takes single frames of a category while it holds fewer than eight
//! transmissions of it. The hardware takes two aggregates for one station only if the station's
//! block ACK window has room for both.
//!
//! Sources: Linux mac80211 and ath9k, 4.10 and 6.12. Turns that fill a driver: Linux 6.12 mt76
//! (`mt76_txq_schedule_list`) and ath10k (`ath10k_mac_schedule_txq`). The driver ath9k has two
//! aggregates, eight frames and bursts of two. The driver ath9k also has 512 descriptors, hence 123
//! frames for each category of the stack `before`.

use super::airtime::{Aql, Round};
use super::ampdu::{Mpdu, Ppdu, Reorder, SOFTWARE_RETRIES, WINDOW, Window, joined, mpdu};
use super::edca::{CATEGORIES, Category};
use super::mac::Mac;
use super::minstrel::stage;
use super::phy::Phy;
use super::{AIR, DRIVER, Levels, STACK, Shared, Stack, Tuning, UP};
use crate::net::NetworkObserver;
use crate::packet::{Ack, Packet};
use crate::queue::{DropReason, QueueDiscipline, Sink};
use crate::units::{Bytes, Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A full frame of Ethernet.
const FRAME: Bytes = Bytes::new(1514);
/// Maximum number of single frames of a category in the hardware.
const FRAMES: usize = 8;
/// Number of single frames of one turn.
const BURST: usize = 2;

/// One peer's frames of one category.
struct Tid<P> {
    /// Frames in the driver's queue, with the estimates of their airtime under AQL.
    fifo: VecDeque<(P, Span)>,
    /// Frames that have a number and wait for another transmission, by number.
    again: VecDeque<Mpdu<P>>,
    window: Window,
    /// The receiver's reordering buffer.
    reorder: Reorder<P>,
    /// Pending airtime in the driver.
    pending: Span,
}

impl<P> Tid<P> {
    fn new() -> Tid<P> {
        Tid {
            fifo: VecDeque::new(),
            again: VecDeque::new(),
            window: Window::default(),
            reorder: Reorder::default(),
            pending: Span::ZERO,
        }
    }
}

/// One category.
struct Lane<P> {
    hardware: VecDeque<Ppdu<P>>,
    qdisc: Option<Box<dyn QueueDiscipline<P>>>,
    /// Frames in driver and hardware.
    frames: u64,
    tids: Vec<Tid<P>>,
    /// The round of the hardware.
    round: Round,
    /// The round of mac80211, if it fills the driver's queue instead of the hardware.
    filling: Option<Round>,
}

/// One host's sending side.
pub(super) struct Host<P> {
    /// 0 is the access point; station `n` is host `n + 1`.
    number: usize,
    lanes: [Lane<P>; 4],
    mac: Option<Mac<P>>,
    aql: Aql,
    /// Buffer for the frames that a delivery releases.
    up: Vec<P>,
}

/// Receives a stack's drops and marks.
struct Here<'a, P, O> {
    hop: u8,
    /// The number of the station, if the stack is a station's.
    station: Option<usize>,
    levels: &'a mut Levels,
    route: &'a (dyn Fn(&P) -> usize + Send),
    out: &'a mut O,
}

impl<'a, P, O> Here<'a, P, O> {
    /// For a station's own stack, or for the access point's.
    fn of(
        own: Option<usize>,
        levels: &'a mut Levels,
        route: &'a (dyn Fn(&P) -> usize + Send),
        out: &'a mut O,
    ) -> Here<'a, P, O> {
        Here {
            hop: if own.is_some() { UP } else { STACK },
            station: own,
            levels,
            route,
            out,
        }
    }
}

impl<P: Packet, O: NetworkObserver<P>> Sink<P> for Here<'_, P, O> {
    fn dropped(&mut self, now: Time, packet: P, reason: DropReason) {
        let station = self.station.unwrap_or_else(|| (self.route)(&packet));
        self.levels.leave(self.hop, station, packet.size());
        self.out.dropped(now, self.hop, packet, reason);
    }
    fn marked(&mut self, now: Time, packet: &P, reason: DropReason) {
        self.out.marked(now, self.hop, packet, reason);
    }
    fn completes(&self, packet: &P, ack: &mut Ack) {
        self.out.completes(packet, ack);
    }
}

impl<P: Packet> Host<P> {
    /// An idle host with this many peers.
    pub fn new(number: usize, peers: usize, shared: &mut Shared<P>, seed: u64) -> Host<P> {
        // The only peer of a station is the access point.
        let weights = || shared.peers.iter().map(|peer| peer.weight).take(peers);
        let (airtime, mac) = (
            shared.stack == Stack::Airtime,
            shared.stack != Stack::Before,
        );
        let fills = mac && shared.driver.is_some();
        let lane = |_| Lane {
            hardware: VecDeque::new(),
            qdisc: None,
            frames: 0,
            tids: core::iter::repeat_with(Tid::new).take(peers).collect(),
            round: Round::new(weights(), airtime && !fills),
            filling: fills.then(|| Round::new(weights(), airtime)),
        };
        let lanes = CATEGORIES.map(lane);
        let Tuning { quantum, aql, .. } = shared.tuning;
        let station = |peer| number.checked_sub(1).unwrap_or(peer);
        let laws = |shared: &mut Shared<P>| {
            let law = |peer| shared.law(number, station(peer));
            (0..peers).map(law).collect()
        };
        let mac = mac.then(|| Mac::new(shared.mac_memory, quantum, laws(shared), seed));
        Host {
            number,
            lanes,
            mac,
            aql: Aql::new(airtime && aql, shared.tuning.aql_threshold),
            up: Vec::new(),
        }
    }

    fn own_station(&self) -> Option<usize> {
        self.number.checked_sub(1)
    }
    /// The station at either end of the link from this host to `peer`.
    pub fn station(&self, peer: usize) -> usize {
        self.own_station().unwrap_or(peer)
    }
    /// Returns the next transmission of a category.
    pub fn head(&self, category: usize) -> Option<&Ppdu<P>> {
        self.lanes[category].hardware.front()
    }
    /// Returns the next transmission of a category, mutable.
    pub fn head_mut(&mut self, category: usize) -> Option<&mut Ppdu<P>> {
        self.lanes[category].hardware.front_mut()
    }
    /// Retries the next transmission of a category after this many failures, with a later rate of
    /// its chain.
    pub fn falls_back(&mut self, category: usize, failures: u32, shared: &mut Shared<P>) {
        let (number, own) = (self.number, self.own_station());
        let Some(ppdu) = self.lanes[category].hardware.front_mut() else {
            return;
        };
        if let Some(control) = shared.control(number, own.unwrap_or(ppdu.peer)) {
            ppdu.rate = stage(&ppdu.chain, failures);
            ppdu.phy = control.phy(ppdu.rate);
        }
    }
    /// Charges a station for airtime, sent or received.
    pub fn charge(&mut self, now: Time, category: usize, peer: usize, airtime: Span) {
        let Lane { round, filling, .. } = &mut self.lanes[category];
        let round = filling.as_mut().unwrap_or(round);
        round.charge(now, peer, airtime);
    }

    /// Enqueues a packet; returns its category.
    pub fn enqueue<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        mut packet: P,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> usize {
        let category = Category::of_dscp(packet.dscp()).index();
        let own = self.own_station();
        let hop = if own.is_some() { UP } else { STACK };
        let station = own.unwrap_or_else(|| (shared.route)(&packet));
        let peer = if own.is_some() { 0 } else { station };
        packet.set_enqueued_at(now);
        shared.levels.enter(hop, station, packet.size());
        let mut here = Here::of(own, &mut shared.levels, &*shared.route, out);
        let lane = &mut self.lanes[category];
        match &mut self.mac {
            Some(mac) => {
                mac.enqueue(now, 4 * peer + category, packet, &mut here);
                let round = lane.filling.as_mut().unwrap_or(&mut lane.round);
                round.activate(now, peer);
            }
            None => {
                let made = || (shared.qdisc)(self.number, category);
                lane.qdisc
                    .get_or_insert_with(made)
                    .enqueue(now, packet, &mut here);
            }
        }
        if self.lanes[category].qdisc.is_none() || self.feed(now, category, shared, out) {
            self.fill(now, category, shared, out);
        }
        category
    }

    /// Moves frames down to the hardware as far as there is room. The driver calls this function
    /// for every packet and after every transmission.
    pub fn fill<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
    ) {
        loop {
            while self.load(now, category, shared, out) {}
            if !self.feed(now, category, shared, out) {
                break;
            }
        }
        self.air(now, category, shared, out);
    }

    /// Moves packets to the driver, if the driver has a queue with room: one from the qdisc, or a
    /// turn of mac80211. Returns whether it did.
    fn feed<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> bool {
        let own = self.own_station();
        let lane = &mut self.lanes[category];
        if shared.driver.is_none_or(|most| lane.frames >= most) {
            return false;
        }
        if lane.filling.is_some() {
            return self.fill_driver(now, category, shared, out);
        }
        let Some(qdisc) = lane.qdisc.as_mut() else {
            return false;
        };
        let mut here = Here::of(own, &mut shared.levels, &*shared.route, out);
        let Some(mut packet) = qdisc.dequeue(now, &mut here) else {
            return false;
        };
        let peer = match own {
            Some(_) => 0,
            None => {
                let station = (shared.route)(&packet);
                handed(now, station, &mut packet, &mut shared.levels, out);
                station
            }
        };
        lane.frames += 1;
        lane.tids[peer].fifo.push_back((packet, Span::ZERO));
        lane.round.activate(now, peer);
        true
    }

    /// Fills the driver's queue in one turn of mac80211's round. Returns whether a packet moved.
    fn fill_driver<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> bool {
        let (own, number) = (self.own_station(), self.number);
        let Host {
            lanes, mac, aql, ..
        } = self;
        let lane = &mut lanes[category];
        let (Some(mac), Some(filling)) = (mac.as_mut(), lane.filling.as_mut()) else {
            return false;
        };
        let station = |peer: usize| own.unwrap_or(peer);
        let in_category = lane
            .tids
            .iter()
            .fold(Span::ZERO, |sum, tid| sum + tid.pending);
        if !aql.allows_category(&shared.tuning.aql_limits, filling.listed(), in_category) {
            return false;
        }
        let most = shared.driver.unwrap_or_default();
        loop {
            let has = |peer: usize| mac.waiting(4 * peer + category) > 0;
            let may =
                |peer: usize| aql.allows(&shared.peers[station(peer)].aql, lane.tids[peer].pending);
            let Some(peer) = filling.turn(now, has, may) else {
                return false;
            };
            let limits = shared.peers[station(peer)].aql;
            let phy = shared.last_rate(number, station(peer));
            if shared.adapts(station(peer)) {
                mac.set_law(peer, shared.law(number, station(peer)));
            }
            let tid = &mut lane.tids[peer];
            let before = lane.frames;
            while lane.frames < most && aql.allows(&limits, tid.pending) {
                let mut here = Here::of(own, &mut shared.levels, &*shared.route, out);
                let Some(mut packet) = mac.dequeue(now, 4 * peer + category, &mut here) else {
                    break;
                };
                if own.is_none() {
                    handed(now, peer, &mut packet, &mut shared.levels, out);
                }
                let estimate = shared.estimate(&phy, packet.size());
                aql.add_pending(&mut tid.pending, estimate);
                lane.frames += 1;
                tid.fifo.push_back((packet, estimate));
            }
            let moved = lane.frames > before;
            if moved {
                lane.round.activate(now, peer);
            }
            filling.served(peer, mac.waiting(4 * peer + category) > 0);
            if moved {
                return true;
            }
        }
    }

    /// Gives one transmission to the hardware, if the hardware has room. Returns whether another
    /// call may succeed.
    fn load<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> bool {
        let lane = &self.lanes[category];
        let aggregates = lane.hardware.iter().filter(|ppdu| ppdu.aggregates).count();
        let frames = lane.hardware.len();
        let Host {
            lanes,
            mac,
            aql,
            number,
            ..
        } = self;
        let Lane {
            tids,
            round,
            filling,
            ..
        } = &mut lanes[category];
        let direct = mac.as_ref().filter(|_| filling.is_none());
        let has = |peer: usize| waits(&tids[peer], direct, 4 * peer + category);
        let station = |peer: usize| number.checked_sub(1).unwrap_or(peer);
        let Some(peer) = round.turn(now, has, |peer| {
            let limits = &shared.peers[station(peer)].aql;
            !tids[peer].again.is_empty() || aql.allows(limits, tids[peer].pending)
        }) else {
            return false;
        };
        let station = station(peer);
        let aggregating =
            shared.peers[station].phy.aggregates() && category != Category::Voice.index();
        if (aggregating && aggregates as u64 >= shared.tuning.txops)
            || (!aggregating && frames >= FRAMES)
        {
            round.misses(peer);
            return false;
        }
        // It keeps its turn: the hardware's transmissions will be over soon.
        if aggregating && self.is_cut(category, peer, shared) {
            return false;
        }
        let mut built = 0;
        for _ in 0..if aggregating { 1 } else { BURST } {
            let Some(ppdu) = self.build(now, category, peer, aggregating, shared, out) else {
                break;
            };
            self.lanes[category].hardware.push_back(ppdu);
            built += 1;
        }
        if built == 0 {
            self.lanes[category].round.leaves(peer);
        } else {
            let more = self.waits(category, peer);
            self.lanes[category].round.served(peer, more);
        }
        true
    }

    /// Returns the maximum bytes and frames of one transmission, at the lowest of its rates.
    fn limits(
        &self,
        category: usize,
        phy: &Phy,
        aggregating: bool,
        shared: &Shared<P>,
    ) -> (Bytes, usize) {
        let limits = shared.limits;
        let txop = shared.edca(self.number)[category].txop;
        let ack_end = shared.band.sifs() + phy.ack_duration(true) + phy.duration(Bytes::ZERO);
        let duration = if txop == Span::ZERO {
            limits.duration
        } else {
            limits.duration.min(txop - ack_end)
        };
        let most = limits
            .bytes
            .min(phy.most_bytes())
            .min(phy.bytes_in(duration));
        let count = if aggregating {
            limits.frames.min(WINDOW) as usize
        } else {
            1
        };
        (most, count)
    }

    /// Returns whether a transmission to a peer would be cut short because another one in the
    /// hardware uses the peer's block ACK window.
    fn is_cut(&self, category: usize, peer: usize, shared: &Shared<P>) -> bool {
        let lane = &self.lanes[category];
        if !lane.hardware.iter().any(|ppdu| ppdu.peer == peer) {
            return false;
        }
        let (most, count) = self.limits(
            category,
            &shared.peers[self.station(peer)].phy,
            true,
            shared,
        );
        let tid = &lane.tids[peer];
        let direct = self.mac.as_ref().filter(|_| lane.filling.is_none());
        let new = direct.map_or(0, |mac| mac.waiting(4 * peer + category));
        let waiting = new + (tid.fifo.len() + tid.again.len()) as u64;
        let fit = (most.get() / joined(Bytes::ZERO, mpdu(FRAME)).get()).max(1);
        tid.window.free() < waiting.min(fit).min(count as u64)
    }

    /// Fills one transmission to a peer.
    fn build<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        peer: usize,
        aggregating: bool,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> Option<Ppdu<P>> {
        let (phy, lowest, chain) = shared.rates(now, self.number, self.station(peer));
        let (most, count) = self.limits(category, &lowest, aggregating, shared);
        let station = self.station(peer);
        let direct = self.lanes[category].filling.is_none();
        if let Some(mac) = self
            .mac
            .as_mut()
            .filter(|_| direct && shared.adapts(station))
        {
            mac.set_law(peer, shared.law(self.number, station));
        }
        let mut ppdu = Ppdu {
            peer,
            phy,
            rate: chain[0],
            chain,
            frames: Vec::new(),
            bytes: Bytes::ZERO,
            block: false,
            aggregates: aggregating,
        };
        while ppdu.frames.len() < count {
            let tid = &mut self.lanes[category].tids[peer];
            let frame = match tid.again.pop_front() {
                Some(frame) => frame,
                None if !tid.window.is_open() => break,
                None => match self.pull(now, category, peer, &phy, shared, out) {
                    None => break,
                    Some(pulled) => {
                        let tid = &mut self.lanes[category].tids[peer];
                        Mpdu {
                            number: tid.window.take(),
                            packet: pulled.0,
                            retries: 0,
                            aired: false,
                            estimate: pulled.1,
                        }
                    }
                },
            };
            let size = mpdu(frame.packet.size());
            let bytes = match ppdu.frames.len() {
                0 => size,
                // The first frame gets a delimiter only if there is a second.
                1 => joined(joined(Bytes::ZERO, ppdu.bytes), size),
                _ => joined(ppdu.bytes, size),
            };
            if bytes > most && !ppdu.frames.is_empty() {
                self.lanes[category].tids[peer].again.push_front(frame);
                break;
            }
            ppdu.bytes = bytes;
            ppdu.frames.push(frame);
        }
        ppdu.block = ppdu.frames.len() > 1;
        (!ppdu.frames.is_empty()).then_some(ppdu)
    }

    /// Takes the next new packet for a peer, with the estimate of its airtime under AQL.
    fn pull<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        peer: usize,
        phy: &Phy,
        shared: &mut Shared<P>,
        out: &mut O,
    ) -> Option<(P, Span)> {
        let own = self.own_station();
        let Lane { tids, filling, .. } = &mut self.lanes[category];
        let tid = &mut tids[peer];
        let Some(mac) = self.mac.as_mut().filter(|_| filling.is_none()) else {
            return tid.fifo.pop_front();
        };
        let limits = &shared.peers[own.unwrap_or(peer)].aql;
        if !self.aql.allows(limits, tid.pending) {
            return None;
        }
        let mut here = Here::of(own, &mut shared.levels, &*shared.route, out);
        let mut packet = mac.dequeue(now, 4 * peer + category, &mut here)?;
        let estimate = shared.estimate(phy, packet.size());
        self.aql.add_pending(&mut tid.pending, estimate);
        self.lanes[category].frames += 1;
        if own.is_none() {
            handed(now, peer, &mut packet, &mut shared.levels, out);
        }
        Some((packet, estimate))
    }

    /// Returns whether a peer has frames that the hardware may get.
    fn waits(&self, category: usize, peer: usize) -> bool {
        let Lane { tids, filling, .. } = &self.lanes[category];
        let direct = self.mac.as_ref().filter(|_| filling.is_none());
        waits(&tids[peer], direct, 4 * peer + category)
    }

    /// Notifies that the transmission at the head starts: its frames leave the driver.
    fn air<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
    ) {
        let own = self.own_station();
        let Some(ppdu) = self.lanes[category].hardware.front_mut() else {
            return;
        };
        for frame in ppdu.frames.iter_mut().filter(|frame| !frame.aired) {
            frame.aired = true;
            if own.is_none() {
                let packet = &mut frame.packet;
                out.departed(now, DRIVER, ppdu.peer as u8, packet);
                packet.set_enqueued_at(now);
                shared.levels.leave(DRIVER, ppdu.peer, packet.size());
                shared.levels.enter(AIR, ppdu.peer, packet.size());
            }
        }
    }

    /// Takes frames of the head transmission that reached their receiver; frames in order go `up`.
    pub fn delivered<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        frames: Vec<Mpdu<P>>,
        shared: &mut Shared<P>,
        out: &mut O,
        mut up: impl FnMut(P),
    ) {
        let Lane {
            tids,
            frames: held,
            hardware,
            ..
        } = &mut self.lanes[category];
        let Some(peer) = hardware.front().map(|ppdu| ppdu.peer) else {
            return;
        };
        let tid = &mut tids[peer];
        for frame in frames {
            *held -= 1;
            self.aql.subtract_pending(&mut tid.pending, frame.estimate);
            tid.window.close(frame.number);
            tid.reorder
                .arrives(frame.number, frame.packet, &mut self.up);
        }
        let hop = if self.number == 0 { AIR } else { UP };
        let station = self.number.checked_sub(1).unwrap_or(peer);
        for packet in self.up.drain(..) {
            shared.levels.leave(hop, station, packet.size());
            out.departed(now, hop, station as u8, &packet);
            up(packet);
        }
    }

    /// Ends the head transmission: undelivered frames wait for another one, or are given up.
    pub fn over<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        category: usize,
        shared: &mut Shared<P>,
        out: &mut O,
        mut up: impl FnMut(P),
    ) {
        let lane = &mut self.lanes[category];
        let Some(ppdu) = lane.hardware.pop_front() else {
            return;
        };
        let station = self.number.checked_sub(1).unwrap_or(ppdu.peer);
        let hop = if self.number == 0 { AIR } else { UP };
        let tid = &mut lane.tids[ppdu.peer];
        for mut frame in ppdu.frames {
            frame.retries += 1;
            shared.usage[station].retries += 1;
            if frame.retries > SOFTWARE_RETRIES || !ppdu.aggregates {
                lane.frames -= 1;
                self.aql.subtract_pending(&mut tid.pending, frame.estimate);
                tid.window.close(frame.number);
                tid.reorder.given_up(frame.number, &mut self.up);
                shared.levels.leave(hop, station, frame.packet.size());
                out.dropped(now, hop, frame.packet, DropReason::Loss);
            } else {
                let at = tid
                    .again
                    .partition_point(|other| other.number < frame.number);
                tid.again.insert(at, frame);
            }
        }
        for packet in self.up.drain(..) {
            shared.levels.leave(hop, station, packet.size());
            out.departed(now, hop, station as u8, &packet);
            up(packet);
        }
        if self.waits(category, ppdu.peer) {
            self.lanes[category].round.activate(now, ppdu.peer);
        }
    }
}

/// Counts a packet that leaves the software queue for the driver.
fn handed<P: Packet, O: NetworkObserver<P>>(
    now: Time,
    station: usize,
    packet: &mut P,
    levels: &mut Levels,
    out: &mut O,
) {
    out.departed(now, STACK, station as u8, packet);
    packet.set_enqueued_at(now);
    levels.leave(STACK, station, packet.size());
    levels.enter(DRIVER, station, packet.size());
}

/// Returns whether a peer has frames to send, in the driver or in `mac`.
fn waits<P: Packet>(tid: &Tid<P>, mac: Option<&Mac<P>>, txq: usize) -> bool {
    !tid.again.is_empty() || !tid.fifo.is_empty() || mac.is_some_and(|mac| mac.waiting(txq) > 0)
}
