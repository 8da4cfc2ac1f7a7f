//! The medium: takes entering packets, and simulates contention, transmissions and answers.
//!
//! ```text
//!   idle ── a contender's slot ──▶ frames on the air ── end ──▶ answer ── end ──▶ idle
//! ```
//!
//! When a transmission ends, the frames of it that arrived are delivered. When the exchange
//! (transmission and answer) ends, the hardware is filled again and contention begins. After a
//! collision, or if no frame arrives, there is no answer, and all contenders wait EIFS instead of
//! AIFS.
//!
//! **Order of events at one instant**: packets that arrive over the distances, then the medium.

use super::ampdu::mpdu;
use super::edca::Contender;
use super::host::Host;
use super::minstrel::Minstrel;
use super::{LEVELS, Levels, Peer, Setup, Shared, Stack, Usage};
use crate::net::access::AccessLinks;
use crate::net::{NEAR, Network, NetworkObserver, Port};
use crate::packet::Packet;
use crate::queue::Backlog;
use crate::rng::Rng;
use crate::units::{Span, Time};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;

/// The state of the medium.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    /// Frames until this time.
    Frames(Time),
    /// An answer until this time.
    Answer(Time),
}

/// A transmitting host.
#[derive(Copy, Clone, Debug)]
struct OnAir {
    host: usize,
    category: usize,
    /// Duration of its frames.
    lasts: Span,
}

/// A network of an access point and its stations.
pub struct Wifi<P> {
    shared: Shared<P>,
    hosts: Vec<Host<P>>,
    /// Four per host.
    contenders: Vec<Contender>,
    phase: Phase,
    /// Time since which the medium has been idle, or from which on it counts as idle.
    idle: Time,
    /// Time of the next transmission, if no other event comes before.
    start: Time,
    on_air: Vec<OnAir>,
    /// Distances from `NEAR` to the access point and back; a link for each delay.
    forward: AccessLinks<P>,
    reverse: AccessLinks<P>,
    links: Vec<(Option<u32>, Option<u32>)>,
    /// Packets that have arrived at a port and were not reported yet.
    arrived: VecDeque<(Time, Port, P)>,
    /// Number of packets in the hosts or on the air.
    inside: u64,
    backoff: Rng,
    errors: Rng,
}

impl<P: Packet> Wifi<P> {
    /// An idle medium. `seed` is the scenario's.
    pub fn new(setup: Setup<P>, seed: u64) -> Wifi<P> {
        let stations = setup.peers.len();
        let band = setup.band;
        let controls = setup.peers.iter().enumerate().map(|(station, peer)| {
            ["down", "up"].map(|way| {
                let rng = Rng::named(seed, &format!("wifi/minstrel/{station}/{way}"));
                peer.link.map(|link| Minstrel::new(&link, band, rng))
            })
        });
        let controls: Vec<_> = controls.collect();
        let mut shared = Shared {
            band: setup.band,
            stack: setup.stack,
            driver: setup.driver.map(|frames| frames.max(1)),
            limits: setup.limits,
            tuning: setup.tuning,
            mac_memory: setup.mac_memory,
            levels: Levels::new(stations),
            usage: alloc::vec![Usage::default(); stations],
            controls,
            peers: setup.peers,
            route: setup.route,
            qdisc: setup.qdisc,
        };
        let (mut forward, mut reverse) = (AccessLinks::default(), AccessLinks::default());
        let link = |peer: &Peer| (forward.link(peer.forward), reverse.link(peer.reverse));
        let links = shared.peers.iter().map(link).collect();
        let mut hashes = Rng::named(seed, "wifi/hash");
        let host = |number| {
            let peers = if number == 0 { stations } else { 1 };
            Host::new(number, peers, &mut shared, hashes.next_u64())
        };
        let hosts: Vec<Host<P>> = (0..=stations).map(host).collect();
        let edca = |host| shared.edca(host).iter();
        let contenders = (0..=stations)
            .flat_map(edca)
            .map(|edca| Contender::new(*edca));
        Wifi {
            contenders: contenders.collect(),
            hosts,
            shared,
            phase: Phase::Idle,
            idle: Time::ZERO,
            start: Time::MAX,
            on_air: Vec::new(),
            forward,
            reverse,
            links,
            arrived: VecDeque::new(),
            inside: 0,
            backoff: Rng::named(seed, "wifi/backoff"),
            errors: Rng::named(seed, "wifi/error"),
        }
    }

    /// Returns the backlog of a level.
    pub fn backlog(&self, level: usize) -> Backlog {
        self.shared
            .levels
            .totals
            .get(level)
            .copied()
            .unwrap_or_default()
    }
    /// Returns a station's part of the backlog of a level.
    pub fn backlog_of(&self, level: usize, station: usize) -> Backlog {
        let of = self.shared.levels.stations.get(level.min(LEVELS - 1));
        of.and_then(|stations| stations.get(station))
            .copied()
            .unwrap_or_default()
    }
    /// The stations' use of the medium, by station.
    pub fn usage(&self) -> &[Usage] {
        &self.shared.usage
    }
    /// Number of packets between the ports.
    pub fn in_transit(&self) -> u64 {
        self.inside + (self.forward.len() + self.reverse.len() + self.arrived.len()) as u64
    }

    /// Adds a packet to a host's stack.
    fn enter<O: NetworkObserver<P>>(&mut self, now: Time, host: usize, packet: P, out: &mut O) {
        self.inside += 1;
        let mut out = Counting {
            inside: &mut self.inside,
            out,
        };
        let category = self.hosts[host].enqueue(now, packet, &mut self.shared, &mut out);
        self.contend(now, host, category);
    }

    /// Starts contention for a category that has frames in the hardware.
    fn contend(&mut self, now: Time, host: usize, category: usize) {
        if self.hosts[host].head(category).is_none() {
            return;
        }
        let busy = self.phase != Phase::Idle;
        let contender = &mut self.contenders[4 * host + category];
        contender.contend(now, busy, &mut self.backoff);
        if !busy {
            self.start = self
                .start
                .min(contender.transmits(self.idle, self.shared.band));
        }
    }

    /// Returns the time of the medium's next event.
    fn due(&self) -> Time {
        match self.phase {
            Phase::Idle => self.start,
            Phase::Frames(ends) | Phase::Answer(ends) => ends,
        }
    }

    fn next(&self) -> Time {
        self.due().min(self.forward.next()).min(self.reverse.next())
    }

    /// Handles everything up to and including `now`.
    fn serve<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        loop {
            let at = self.next();
            if at > now || at == Time::MAX {
                return;
            }
            if let Some(packet) = self.forward.pop(at) {
                self.enter(at, 0, packet, out);
            } else if let Some(packet) = self.reverse.pop(at) {
                self.arrived.push_back((at, NEAR, packet));
            } else {
                match self.phase {
                    Phase::Idle => self.begin(at),
                    Phase::Frames(_) => self.frames_end(at, out),
                    Phase::Answer(_) => self.exchange_ends(at, true, at, out),
                }
            }
        }
    }

    /// Starts the transmission of each host that has a contender whose slot has come. If several
    /// categories of a host contend in this slot, only the highest one transmits.
    fn begin(&mut self, now: Time) {
        let (idle, band) = (self.idle, self.shared.band);
        self.on_air.clear();
        let mut ends = now;
        for host in 0..self.hosts.len() {
            let mut spoken = false;
            // The highest category of a host transmits; the others count a collision when the
            // exchange ends.
            for category in (0..4).rev() {
                let contender = &mut self.contenders[4 * host + category];
                if contender.transmits(idle, band) != now {
                    contender.freezes(now, idle, band, &mut self.backoff);
                    continue;
                }
                let lasts = if spoken {
                    Span::ZERO
                } else {
                    let head = self.hosts[host].head(category);
                    head.map_or(Span::ZERO, |ppdu| ppdu.phy.duration(ppdu.bytes))
                };
                spoken = true;
                ends = ends.max(now + lasts);
                self.on_air.push(OnAir {
                    host,
                    category,
                    lasts,
                });
            }
        }
        self.start = Time::MAX;
        self.phase = Phase::Frames(ends);
    }

    /// Delivers the frames that arrived; the answer begins, or there is none.
    fn frames_end<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        for i in 0..self.on_air.len() {
            let on_air = self.on_air[i];
            if on_air.lasts > Span::ZERO {
                self.account(on_air);
            }
        }
        let mut speaking = self
            .on_air
            .iter()
            .filter(|on_air| on_air.lasts > Span::ZERO);
        let alone = speaking
            .next()
            .copied()
            .filter(|_| speaking.next().is_none());
        let Some(OnAir {
            host,
            category,
            lasts,
        }) = alone
        else {
            for OnAir { host, category, .. } in self
                .on_air
                .iter()
                .filter(|on_air| on_air.lasts > Span::ZERO)
            {
                let Some(ppdu) = self.hosts[*host].head(*category) else {
                    continue;
                };
                if let Some(control) = self
                    .shared
                    .control(*host, self.hosts[*host].station(ppdu.peer))
                {
                    control.record(ppdu.rate, ppdu.frames.len() as u32, 0);
                }
            }
            return self.exchange_ends(now, false, now + self.shared.band.penalty(), out);
        };
        let Some(ppdu) = self.hosts[host].head_mut(category) else {
            return;
        };
        let peer = ppdu.peer;
        let block = ppdu.block;
        let station = host.checked_sub(1).unwrap_or(peer);
        let (phy, rate) = (ppdu.phy, ppdu.rate);
        let error = self.shared.peers[station].error;
        let mut control = self.shared.control(host, station);
        let errors = &mut self.errors;
        let (mut kept, mut delivered) = (Vec::new(), Vec::with_capacity(ppdu.frames.len()));
        for frame in ppdu.frames.drain(..) {
            let noise = control
                .as_ref()
                .map_or(0.0, |c| c.error(rate, mpdu(frame.packet.size())));
            let error = error + (1.0 - error) * noise;
            if error > 0.0 && errors.unit() < error {
                kept.push(frame);
            } else {
                delivered.push(frame);
            }
        }
        if let Some(control) = &mut control {
            control.record(
                rate,
                (kept.len() + delivered.len()) as u32,
                delivered.len() as u32,
            );
        }
        ppdu.frames = kept;
        let received = !delivered.is_empty();
        let ack = if received {
            self.shared.band.sifs() + phy.ack_duration(block)
        } else {
            Span::ZERO
        };
        self.shared.usage[station].airtime = self.shared.usage[station].airtime + ack;
        // The access point charges a station for every transmission to it, and for a transmission
        // from it only if a frame arrived.
        if host == 0 || received {
            self.hosts[0].charge(now, category, station, lasts + ack);
        }
        if !received {
            return self.exchange_ends(now, false, now + self.shared.band.penalty(), out);
        }
        let mut arrivals = Arrivals::of(
            host,
            station,
            &self.links,
            &mut self.reverse,
            &mut self.arrived,
            now,
        );
        let inside = &mut self.inside;
        self.hosts[host].delivered(now, category, delivered, &mut self.shared, out, |packet| {
            *inside -= 1;
            arrivals.push(packet);
        });
        self.phase = Phase::Answer(now + ack);
    }

    /// Counts a transmission.
    fn account(
        &mut self,
        OnAir {
            host,
            category,
            lasts,
        }: OnAir,
    ) {
        let Some(ppdu) = self.hosts[host].head(category) else {
            return;
        };
        let station = self.hosts[host].station(ppdu.peer);
        let bytes: u64 = ppdu
            .frames
            .iter()
            .map(|frame| frame.packet.size().get())
            .sum();
        // Colliding transmissions share the airtime, which is used once.
        let all = self.on_air.iter().map(|on_air| on_air.lasts.as_ns());
        let (longest, sum) = all.fold((0, 0), |(longest, sum), ns| (ns.max(longest), sum + ns));
        let part = u128::from(lasts.as_ns()) * u128::from(longest) / u128::from(sum.max(1));
        let usage = &mut self.shared.usage[station];
        usage.airtime = usage.airtime + Span::ns(part as u64);
        usage.transmissions += 1;
        let (sent, frames, payload) = if host == 0 {
            &mut usage.down
        } else {
            &mut usage.up
        };
        *sent += 1;
        *frames += ppdu.frames.len() as u64;
        *payload += bytes;
        let speaking = self
            .on_air
            .iter()
            .filter(|on_air| on_air.lasts > Span::ZERO)
            .count();
        usage.collisions += u64::from(speaking > 1);
        // The access point is charged for this airtime, whichever station also transmitted.
        if host == 0 && speaking > 1 {
            let (now, peer) = (self.due(), ppdu.peer);
            self.hosts[0].charge(now, category, peer, lasts);
        }
    }

    /// Ends an exchange: the medium is free again, and counts as idle from `idle` on.
    fn exchange_ends<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        answered: bool,
        idle: Time,
        out: &mut O,
    ) {
        let on_air = core::mem::take(&mut self.on_air);
        for OnAir {
            host,
            category,
            lasts,
        } in &on_air
        {
            let (host, category) = (*host, *category);
            let contender = &mut self.contenders[4 * host + category];
            let over = if answered && *lasts > Span::ZERO {
                contender.succeeds(&mut self.backoff);
                true
            } else {
                contender.fails(&mut self.backoff)
            };
            if over {
                let station = self.hosts[host]
                    .head(category)
                    .map_or(0, |p| self.hosts[host].station(p.peer));
                let mut arrivals = Arrivals::of(
                    host,
                    station,
                    &self.links,
                    &mut self.reverse,
                    &mut self.arrived,
                    now,
                );
                let mut up = 0;
                let mut counting = Counting {
                    inside: &mut self.inside,
                    out,
                };
                self.hosts[host].over(now, category, &mut self.shared, &mut counting, |packet| {
                    up += 1;
                    arrivals.push(packet);
                });
                self.inside -= up;
            } else if let Some(ppdu) = self.hosts[host].head(category) {
                // Retransmitted unchanged, perhaps at another rate.
                let station = self.hosts[host].station(ppdu.peer);
                self.shared.usage[station].retries += ppdu.frames.len() as u64;
                let failures = contender.failures();
                self.hosts[host].falls_back(category, failures, &mut self.shared);
            }
        }
        // With less pending airtime, any category that is scheduled by airtime may continue.
        let airtime = self.shared.stack == Stack::Airtime;
        for OnAir {
            host,
            category: own,
            ..
        } in &on_air
        {
            for category in (0..4).filter(|category| airtime || category == own) {
                let mut counting = Counting {
                    inside: &mut self.inside,
                    out,
                };
                self.hosts[*host].fill(now, category, &mut self.shared, &mut counting);
                let contender = &mut self.contenders[4 * host + category];
                match self.hosts[*host].head(category) {
                    Some(_) => contender.contend(now, true, &mut self.backoff),
                    None => contender.stop_contending(),
                }
            }
        }
        self.on_air = on_air;
        self.on_air.clear();
        self.phase = Phase::Idle;
        self.idle = idle;
        let band = self.shared.band;
        let starts = self
            .contenders
            .iter()
            .map(|contender| contender.transmits(idle, band));
        self.start = starts.min().unwrap_or(Time::MAX);
    }
}

/// The destination of packets that have crossed the air.
struct Arrivals<'a, P> {
    now: Time,
    port: Port,
    link: Option<u32>,
    reverse: &'a mut AccessLinks<P>,
    arrived: &'a mut VecDeque<(Time, Port, P)>,
}

impl<'a, P> Arrivals<'a, P> {
    /// Of what `host` has sent.
    fn of(
        host: usize,
        station: usize,
        links: &[(Option<u32>, Option<u32>)],
        reverse: &'a mut AccessLinks<P>,
        arrived: &'a mut VecDeque<(Time, Port, P)>,
        now: Time,
    ) -> Arrivals<'a, P> {
        Arrivals {
            now,
            port: if host == 0 { station as Port + 1 } else { NEAR },
            link: links[station].1.filter(|_| host > 0),
            reverse,
            arrived,
        }
    }
    fn push(&mut self, packet: P) {
        match self.link {
            Some(link) => self.reverse.push(self.now, link, packet),
            None => self.arrived.push_back((self.now, self.port, packet)),
        }
    }
}

/// A [`NetworkObserver`] that counts the packets inside.
struct Counting<'a, O> {
    inside: &'a mut u64,
    out: &'a mut O,
}

impl<P, O: NetworkObserver<P>> NetworkObserver<P> for Counting<'_, O> {
    fn arrived(&mut self, now: Time, port: Port, packet: P) {
        self.out.arrived(now, port, packet);
    }
    fn departed(&mut self, now: Time, hop: u8, class: u8, packet: &P) {
        self.out.departed(now, hop, class, packet);
    }
    fn dropped(&mut self, now: Time, hop: u8, packet: P, reason: crate::queue::DropReason) {
        *self.inside -= 1;
        self.out.dropped(now, hop, packet, reason);
    }
    fn marked(&mut self, now: Time, hop: u8, packet: &P, reason: crate::queue::DropReason) {
        self.out.marked(now, hop, packet, reason);
    }
}

impl<P: Packet> Network<P> for Wifi<P> {
    /// No packet arrives within a push: call `next_wakeup` afterwards.
    fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O) {
        out.entered(now, port, &packet);
        self.serve(now, out);
        let host = usize::from(port);
        if host > 0 {
            debug_assert!(host < self.hosts.len());
            return self.enter(now, host, packet, out);
        }
        let station = (self.shared.route)(&packet);
        match self.links[station].0 {
            Some(link) => self.forward.push(now, link, packet),
            None => self.enter(now, 0, packet, out),
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        let next = match self.arrived.front() {
            Some((at, ..)) => *at,
            None => self.next(),
        };
        (next != Time::MAX).then_some(next)
    }

    fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        self.serve(now, out);
        while let Some((_, port, packet)) = self.arrived.pop_front() {
            out.arrived(now, port, packet);
        }
    }
}
