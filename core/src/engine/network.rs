//! The network of a scenario: a path between two hosts, links with routes, or an access point and
//! its stations.

use crate::metrics::{QueueMeter, UsageMeter, level_meters, passes};
use crate::net::hop::Hop;
use crate::net::path::{self, Path};
use crate::net::spec::PathSpec;
use crate::net::topology::Topology;
use crate::net::wifi::wan::Wan;
use crate::net::wifi::{LEVELS, Route, Setup, Usage, Wifi};
use crate::net::{Network as _, NetworkObserver, Port};
use crate::packet::Packet;
use crate::param::Choice;
use crate::queue::{Backlog, QueueContext, QueueDiscipline};
use crate::registry::Registry;
use crate::scenario::Scenario;
use crate::units::Time;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The network of a scenario. `P` is the engine's packet.
pub enum Network<P> {
    /// A path between two hosts.
    Wired(Box<Path<P>>),
    /// Links, and a route for each flow.
    Links(Box<Topology<P>>),
    /// A Wi-Fi network between a host and stations.
    Wifi(Box<Stations<P>>),
}

/// A Wi-Fi network, and the airtime that its stations have used.
pub struct Stations<P> {
    wifi: Wifi<P>,
    /// The path before the access point.
    wan: Option<Box<Wan<P>>>,
    meter: UsageMeter,
    count: usize,
}

/// A function that creates a queue discipline or returns an error.
pub type MakeQueue<'a, P, E> =
    dyn FnMut(&Choice, &QueueContext) -> Result<Box<dyn QueueDiscipline<P>>, E> + 'a;

/// Error: the registry has no queue discipline of this name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownQueue(pub String);

impl fmt::Display for UnknownQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no queue discipline is called \"{}\"", self.0)
    }
}

impl<P: Packet + Send + 'static> Network<P> {
    /// Builds the network of `scenario`, and a meter for each of its queues. `station` returns the
    /// station of a packet, for a Wi-Fi.
    pub fn new(
        scenario: &Scenario,
        registry: &Registry<P>,
        station: Route<P>,
    ) -> Result<(Network<P>, Vec<QueueMeter>), UnknownQueue> {
        let mut make = |choice: &Choice, context: &QueueContext| {
            let made = registry.make_queue(choice, context);
            made.ok_or_else(|| UnknownQueue(choice.kind.clone()))
        };
        Network::with_queues(scenario, registry, station, &mut make)
    }
    /// Builds the network as [`new`](Self::new) does, but creates the queue disciplines of a path
    /// with `make`. For the queues of a Wi-Fi, `make` is not called.
    pub fn with_queues<E: From<UnknownQueue>>(
        scenario: &Scenario,
        registry: &Registry<P>,
        station: Route<P>,
        make: &mut MakeQueue<'_, P, E>,
    ) -> Result<(Network<P>, Vec<QueueMeter>), E> {
        let warmup = Time::ZERO + scenario.warmup;
        let (seed, hz) = (scenario.seed, scenario.host.hz);
        if let Some(wifi) = &scenario.wifi {
            let name = &wifi.qdisc.kind;
            let kind = registry
                .queue(name)
                .ok_or_else(|| UnknownQueue(name.clone()))?;
            let mut meters = level_meters(wifi, warmup);
            let wan = match &wifi.wan {
                Some(spec) => {
                    let (queues, of_path) = queues(scenario, spec, true, make)?;
                    meters.extend(of_path);
                    Some(Box::new(Wan::new(Path::new(spec, queues, seed), warmup)))
                }
                None => None,
            };
            let stations = Stations {
                wifi: Wifi::new(Setup::of(wifi, kind, seed, hz, station), seed),
                wan,
                meter: UsageMeter::new(warmup),
                count: wifi.stations.len(),
            };
            return Ok((Network::Wifi(Box::new(stations)), meters));
        }
        let spec = &scenario.path;
        let (disciplines, meters) = queues(scenario, spec, spec.links.is_some(), make)?;
        if spec.links.is_some() {
            let flows = scenario.flows.iter().map(|flow| &flow.route);
            let routes = flows.chain(scenario.probes.iter().map(|probe| &probe.route));
            let routes = routes.map(|route| route.clone().unwrap_or_default());
            let links = Topology::new(spec, disciplines, routes, seed, warmup);
            return Ok((Network::Links(Box::new(links)), meters));
        }
        let path = Path::new(spec, disciplines, seed);
        Ok((Network::Wired(Box::new(path)), meters))
    }
}

impl<P: Packet> Network<P> {
    /// Returns the number of hosts other than the one at [`NEAR`](crate::net::NEAR): one, or the
    /// number of stations.
    pub fn far_hosts(&self) -> usize {
        match self {
            Network::Wired(_) | Network::Links(_) => 1,
            Network::Wifi(stations) => stations.count,
        }
    }
    /// Passes a packet that enters at `port` to the network.
    #[inline]
    pub fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O) {
        match self {
            Network::Wired(path) => path.push(now, port, packet, out),
            Network::Links(links) => links.push(now, port, packet, out),
            Network::Wifi(stations) => stations.push(now, port, packet, out),
        }
    }
    /// Returns the time of the next event.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        match self {
            Network::Wired(path) => path.next_wakeup(),
            Network::Links(links) => links.next_wakeup(),
            Network::Wifi(stations) => stations.next_wakeup(),
        }
    }
    /// From now on, uses the closed form of hops that have one. Call this only if the observer has
    /// no packet trace.
    pub fn use_closed_form(&mut self) {
        if let Network::Wired(path) = self {
            path.use_closed_form();
        }
    }
    /// Updates the stored wake-up times of the queue disciplines of hops. Call this after something
    /// other than a packet has changed these times.
    pub fn rouse(&mut self, now: Time) {
        match self {
            Network::Wired(path) => path.rouse(now),
            Network::Links(links) => links.rouse(now),
            Network::Wifi(_) => {}
        }
    }
    /// Handles everything that is due at `now`.
    #[inline]
    pub fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        match self {
            Network::Wired(path) => path.poll(now, out),
            Network::Links(links) => links.poll(now, out),
            Network::Wifi(stations) => stations.poll(now, out),
        }
    }
    /// Returns whether a queue of a path or of a link holds packets. Returns false for Wi-Fi, where
    /// every transmission has its own wake-up.
    pub fn waits(&self) -> bool {
        match self {
            Network::Wired(path) => path.hops().any(|hop| !hop.is_empty()),
            Network::Links(links) => links.hops().any(|hop| !hop.is_empty()),
            Network::Wifi(_) => false,
        }
    }
    /// The hop of a queue; `None` for a queue of the access point.
    fn hop(&self, queue: usize) -> Option<&Hop<P>> {
        match self {
            Network::Wired(path) => path.hops().nth(queue),
            Network::Links(links) => links.hops().nth(queue),
            Network::Wifi(stations) => stations.hop(queue),
        }
    }
    /// Returns the backlog of a queue.
    pub fn backlog(&self, queue: usize) -> Backlog {
        match (self.hop(queue), self) {
            (Some(hop), _) => hop.backlog(),
            (None, Network::Wifi(stations)) => stations.wifi.backlog(queue),
            (None, _) => Backlog::default(),
        }
    }
    /// Returns the backlog of a class of a queue.
    pub fn backlog_of(&self, queue: usize, class: usize) -> Backlog {
        match (self.hop(queue), self) {
            (Some(hop), _) => hop.queue().backlog_of(class),
            (None, Network::Wifi(stations)) => stations.wifi.backlog_of(queue, class),
            (None, _) => Backlog::default(),
        }
    }
    /// Ends the run: copies the counters that a queue discipline or a link keeps to the meter of
    /// its queue.
    /// Returns the airtime of each station; empty for a path.
    pub fn close(&self, meters: &mut [QueueMeter]) -> Vec<Usage> {
        match self {
            Network::Wired(path) => {
                for (hop, meter) in path.hops().zip(meters) {
                    meter.counted(hop.queue());
                }
                Vec::new()
            }
            Network::Links(links) => {
                for ((hop, meter), bytes) in links.hops().zip(meters).zip(links.carried()) {
                    meter.counted(hop.queue());
                    meter.carried(bytes);
                }
                Vec::new()
            }
            Network::Wifi(stations) => {
                let wan = stations.wan.iter().flat_map(|wan| {
                    let hops = wan.path().hops();
                    hops.zip(wan.carried())
                });
                for ((hop, bytes), meter) in wan.zip(meters.iter_mut().skip(LEVELS)) {
                    meter.counted(hop.queue());
                    meter.carried(bytes);
                }
                stations.meter.used(stations.wifi.usage())
            }
        }
    }
}

/// Queue disciplines, and a meter for each of them.
type Queues<P> = (Vec<Box<dyn QueueDiscipline<P>>>, Vec<QueueMeter>);

/// The disciplines of a path, and a meter for each of them; with `links`, the meters also cover the
/// links.
fn queues<P, E>(
    scenario: &Scenario,
    spec: &PathSpec,
    links: bool,
    make: &mut MakeQueue<'_, P, E>,
) -> Result<Queues<P>, E> {
    let (warmup, end) = (Time::ZERO + scenario.warmup, Time::ZERO + scenario.duration);
    let (mut disciplines, mut meters) = (Vec::new(), Vec::new());
    let hops = path::queue_contexts(spec, scenario.seed, scenario.host.hz);
    for ((hop, context), name) in hops.iter().zip(path::hop_names(spec)) {
        let discipline = make(&hop.queue, context)?;
        let meter = QueueMeter::new(name, hop.queue.kind.clone(), discipline.classes(), warmup);
        meters.push(if links {
            meter.with_link(passes(hop, warmup, end), end.since(warmup))
        } else {
            meter
        });
        disciplines.push(discipline);
    }
    Ok((disciplines, meters))
}

impl<P: Packet> Stations<P> {
    /// Passes a packet that enters at NEAR, or at the port of its station, to the network.
    pub fn push<O: NetworkObserver<P>>(&mut self, now: Time, port: Port, packet: P, out: &mut O) {
        match &mut self.wan {
            Some(wan) => wan.push(&mut self.wifi, now, port, packet, out),
            None => self.wifi.push(now, port, packet, out),
        }
    }
    fn next_wakeup(&self) -> Option<Time> {
        match &self.wan {
            Some(wan) => wan.next_wakeup(&self.wifi),
            None => self.wifi.next_wakeup(),
        }
    }
    /// The hop of a queue, if the queue belongs to the path before the access point.
    fn hop(&self, queue: usize) -> Option<&Hop<P>> {
        let wan = self.wan.as_ref()?;
        wan.path().hops().nth(queue.checked_sub(LEVELS)?)
    }
    /// Handles everything that is due at `now`. At the end of the warm-up, stores the airtime that
    /// the stations have used so far.
    pub fn poll<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        if let Some(warmup) = self.meter.due(now) {
            self.poll_parts(warmup, out);
            self.meter.begins(self.wifi.usage());
        }
        self.poll_parts(now, out);
    }
    fn poll_parts<O: NetworkObserver<P>>(&mut self, now: Time, out: &mut O) {
        match &mut self.wan {
            Some(wan) => wan.poll(&mut self.wifi, now, out),
            None => self.wifi.poll(now, out),
        }
    }
}
