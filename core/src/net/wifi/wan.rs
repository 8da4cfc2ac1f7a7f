//! A Wi-Fi behind a path: the path connects the servers with the access point.
//!
//! ```text
//!   NEAR ──▶ path ──▶ distance ──▶ access point ═══ air ═══▶ station n, port n + 1
//!   NEAR ◀── path ◀── distance ◀── access point ◀══ air ════ station n
//! ```
//!
//! The hops of the path follow the levels of the Wi-Fi in the numbers that an observer receives:
//! the first hop has the number [`LEVELS`]. Events of both parts are handled in the order of time.
//! Of simultaneous events, those of the path come first.

use super::{LEVELS, Wifi};
use crate::net::path::Path;
use crate::net::{FAR, NEAR, Network, NetworkObserver, Port};
use crate::packet::{Ack, Packet};
use crate::queue::DropReason;
use crate::units::{Bytes, Time};
use alloc::vec::Vec;

/// The path between the servers and the access point.
pub struct Wan<P> {
    path: Path<P>,
    /// Bytes that have left each hop since the end of the warm-up.
    carried: Vec<Bytes>,
    warmup: Time,
    /// Time of the last event. A Wi-Fi may report an arrival that was due before it.
    latest: Time,
    /// Packets that leave one part and have not yet entered the other one.
    crossing: Vec<P>,
}

/// The observer of one part: packets that leave it at an inner port enter the other part.
struct Part<'a, P, O> {
    out: &'a mut O,
    /// The port at which the other part is connected.
    inner: Port,
    /// Whether packets enter the network here, and not from the other part.
    entrance: bool,
    /// Number of the first hop.
    first: u8,
    crossing: &'a mut Vec<P>,
    /// For the path: the bytes that have left each hop since a time.
    carried: Option<(&'a mut [Bytes], Time)>,
}

impl<'a, P, O> Part<'a, P, O> {
    /// The observer of the Wi-Fi.
    fn wifi(entrance: bool, out: &'a mut O, crossing: &'a mut Vec<P>) -> Part<'a, P, O> {
        Part {
            out,
            inner: NEAR,
            entrance,
            first: 0,
            crossing,
            carried: None,
        }
    }
}

impl<P: Packet, O: NetworkObserver<P>> NetworkObserver<P> for Part<'_, P, O> {
    fn entered(&mut self, now: Time, port: Port, packet: &P) {
        if self.entrance {
            self.out.entered(now, port, packet);
        }
    }
    fn arrived(&mut self, now: Time, port: Port, packet: P) {
        if port == self.inner {
            self.crossing.push(packet);
        } else {
            self.out.arrived(now, port, packet);
        }
    }
    fn departed(&mut self, now: Time, hop: u8, class: u8, packet: &P) {
        if let Some((carried, warmup)) = &mut self.carried {
            if now >= *warmup {
                carried[usize::from(hop)] += packet.size();
            }
        }
        self.out.departed(now, hop + self.first, class, packet);
    }
    fn dropped(&mut self, now: Time, hop: u8, packet: P, reason: DropReason) {
        self.out.dropped(now, hop + self.first, packet, reason);
    }
    fn owner(&self, packet: &P) -> u32 {
        self.out.owner(packet)
    }
    fn duplicate(&mut self, packet: &P) -> Option<P> {
        self.out.duplicate(packet)
    }
    fn marked(&mut self, now: Time, hop: u8, packet: &P, why: DropReason) {
        self.out.marked(now, hop + self.first, packet, why);
    }
    fn completes(&self, packet: &P, ack: &mut Ack) {
        self.out.completes(packet, ack);
    }
}

impl<P: Packet> Wan<P> {
    /// An empty path. Bytes count from `warmup` on.
    pub fn new(path: Path<P>, warmup: Time) -> Wan<P> {
        Wan {
            carried: path.hops().map(|_| Bytes::ZERO).collect(),
            path,
            warmup,
            latest: Time::ZERO,
            crossing: Vec::new(),
        }
    }
    /// The path.
    pub fn path(&self) -> &Path<P> {
        &self.path
    }
    /// Returns the bytes that have left each hop since the end of the warm-up.
    pub fn carried(&self) -> impl Iterator<Item = Bytes> {
        self.carried.iter().copied()
    }
    /// Returns the time of the next event of both parts.
    pub fn next_wakeup(&self, wifi: &Wifi<P>) -> Option<Time> {
        let (own, air) = (self.path.next_wakeup(), wifi.next_wakeup());
        own.into_iter().chain(air).min()
    }

    /// Passes a packet that enters at [`NEAR`] or at the port of its station.
    pub fn push<O: NetworkObserver<P>>(
        &mut self,
        wifi: &mut Wifi<P>,
        now: Time,
        port: Port,
        packet: P,
        out: &mut O,
    ) {
        self.latest = now;
        if port == NEAR {
            self.enter_path(now, NEAR, packet, true, out);
        } else {
            Self::enter_wifi(wifi, now, port, packet, true, out);
        }
    }
    /// The path, and the observer of its events.
    fn path_part<'a, O>(
        &'a mut self,
        entrance: bool,
        out: &'a mut O,
    ) -> (&'a mut Path<P>, Part<'a, P, O>) {
        let part = Part {
            out,
            inner: FAR,
            entrance,
            first: LEVELS as u8,
            crossing: &mut self.crossing,
            carried: Some((&mut self.carried, self.warmup)),
        };
        (&mut self.path, part)
    }
    fn enter_path<O: NetworkObserver<P>>(
        &mut self,
        now: Time,
        port: Port,
        packet: P,
        entrance: bool,
        out: &mut O,
    ) {
        let (path, mut part) = self.path_part(entrance, out);
        path.push(now, port, packet, &mut part);
    }
    fn enter_wifi<O: NetworkObserver<P>>(
        wifi: &mut Wifi<P>,
        now: Time,
        port: Port,
        packet: P,
        entrance: bool,
        out: &mut O,
    ) {
        let mut none = Vec::new();
        wifi.push(now, port, packet, &mut Part::wifi(entrance, out, &mut none));
        debug_assert!(none.is_empty(), "no packet arrives within a push");
    }

    /// Handles everything that is due at `now`, in the order of time.
    pub fn poll<O: NetworkObserver<P>>(&mut self, wifi: &mut Wifi<P>, now: Time, out: &mut O) {
        while let Some(at) = self.next_wakeup(wifi).filter(|at| *at <= now) {
            let at = at.max(self.latest);
            self.latest = at;
            if self.path.next_wakeup().is_some_and(|due| due <= at) {
                self.poll_path(at, out);
                for packet in core::mem::take(&mut self.crossing) {
                    Self::enter_wifi(wifi, at, NEAR, packet, false, out);
                }
            } else {
                wifi.poll(at, &mut Part::wifi(false, out, &mut self.crossing));
                for packet in core::mem::take(&mut self.crossing) {
                    self.enter_path(at, FAR, packet, false, out);
                }
            }
        }
        self.latest = now;
        // The state of both parts is that at `now`, also without an event.
        self.poll_path(now, out);
        debug_assert!(self.crossing.is_empty());
        wifi.poll(now, out);
    }
    fn poll_path<O: NetworkObserver<P>>(&mut self, at: Time, out: &mut O) {
        let (path, mut part) = self.path_part(false, out);
        path.poll(at, &mut part);
    }
}
