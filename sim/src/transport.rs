//! Flows whose endpoints are those of a transport outside narrows, such as a QUIC library.
//!
//! An adapter provides two endpoints for each flow ([`endpoint`]). The simulator passes their
//! datagrams over the path, and counts application data at the receiver. A datagram is a [`Packet`]
//! like those of an application. Its bytes are in the table [`Payloads`](crate::packet::Payloads),
//! at the number in the packet.
//!
//! **Metrics.** Goodput, and the end of a transfer, are based on bytes that the receiving
//! application has read. The window, RTT and losses come from the statistics of the sending
//! endpoint; the window is converted to full datagrams. The number of sent bytes is that of all
//! datagrams of the sender.
//!
//! **Time.** On a real host, the timers of a stack often have a resolution of 1 ms. Here a timer
//! fires at the exact nanosecond for which the stack sets it.

use crate::datapath::Datapath;
use crate::error::SimError;
use crate::flow::{RECEIVER, SENDER, TIMERS_PER_FLOW};
use crate::owners::{Owners, TRANSPORT};
use crate::packet::{Label, Packet};
use narrows_core::engine::sender_port;
use narrows_core::net::{FAR, NEAR, Port};
use narrows_core::registry::endpoint::{Ecn, Endpoint, Kind, Nanos, Role, Setting, UNLIMITED};
use narrows_core::rng::Rng;
use narrows_core::scenario::Scenario;
use narrows_core::tcp::{EcnNegotiation, Info};
use narrows_core::units::{Span, Time};

/// Largest IP packet of the path, bytes.
const MTU: u32 = 1500;
/// Largest number of datagrams that an endpoint may send at one instant: more than the largest
/// window of any stack.
const MOST_AT_ONCE: usize = 1 << 20;

/// A flow with the endpoints of a transport.
struct Connection {
    /// The index of the flow in the scenario.
    flow: u32,
    /// Sender and receiver.
    ends: [Box<dyn Endpoint>; 2],
    /// The port at which the sender's datagrams enter the path.
    port: Port,
    label: Label,
    headers: u16,
    size: Option<u64>,
    running: bool,
    /// Number of payload bytes of the sender's datagrams.
    sent: u64,
}

/// All flows of a run with the endpoints of a transport.
#[derive(Default)]
pub(crate) struct Transports {
    connections: Vec<Connection>,
    /// The first fault that an endpoint has reported.
    fault: Option<SimError>,
    buffer: Vec<u8>,
}

const AT_SENDER: usize = 0;
const AT_RECEIVER: usize = 1;

fn nanos(now: Time) -> Nanos {
    now.as_ns()
}

impl Transports {
    /// Adds flow `flow` of the scenario; returns the number of its connection.
    pub fn add(
        &mut self,
        scenario: &Scenario,
        flow: u32,
        kind: &Kind,
        owners: &mut Owners,
    ) -> Result<u32, SimError> {
        let spec = &scenario.flows[flow as usize];
        let open = |role| {
            let setting = Setting {
                role,
                cc: &spec.cc.kind,
                ecn: matches!(
                    spec.ecn,
                    EcnNegotiation::Requested | EcnNegotiation::Accurate
                ),
                seed: Rng::named(scenario.seed, &format!("transport/{}", spec.id)).next_u64(),
                mtu: MTU,
            };
            (kind.open)(&setting).map_err(|problem| SimError::Transport {
                flow: spec.id.clone(),
                problem,
            })
        };
        self.connections.push(Connection {
            flow,
            ends: [open(Role::Sender)?, open(Role::Receiver)?],
            port: sender_port(spec),
            label: Label::new(spec.dscp, spec.host, scenario.path.nat, spec.ip),
            headers: kind.headers,
            size: spec.size.map(|size| size.get()),
            running: false,
            sent: 0,
        });
        owners.transports.push(flow);
        Ok(self.connections.len() as u32 - 1)
    }

    /// Returns whether there are no such flows.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Fails with the first fault that an endpoint has reported. The caller then ends the run.
    pub fn fault(&self) -> Result<(), SimError> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    /// Starts the flow.
    pub fn start(&mut self, now: Time, number: u32, datapath: &mut Datapath) {
        let connection = &mut self.connections[number as usize];
        connection.running = true;
        let total = connection.size.unwrap_or(UNLIMITED);
        connection.ends[AT_RECEIVER].start(nanos(now));
        connection.ends[AT_SENDER].offer(nanos(now), total);
        connection.ends[AT_SENDER].start(nanos(now));
        self.drive(now, number, AT_RECEIVER, datapath);
        self.drive(now, number, AT_SENDER, datapath);
    }

    /// Makes the sending application resume (`writes`), or write nothing more.
    pub fn offer(&mut self, now: Time, number: u32, writes: bool, datapath: &mut Datapath) {
        let connection = &mut self.connections[number as usize];
        let total = if writes {
            connection.size.unwrap_or(UNLIMITED)
        } else {
            0
        };
        connection.ends[AT_SENDER].offer(nanos(now), total);
        self.drive(now, number, AT_SENDER, datapath);
    }

    /// Ends the flow, whose start the caller cancels: its endpoints send nothing more.
    pub fn stop(&mut self, number: u32, datapath: &mut Datapath) {
        let connection = &mut self.connections[number as usize];
        connection.running = false;
        let first = connection.flow * TIMERS_PER_FLOW;
        for timer in [SENDER, RECEIVER] {
            datapath.timers.set(first + timer, None);
        }
    }

    /// Ends the flow at the end of the run: datagrams in transit are not read.
    pub fn close(&mut self, number: u32) {
        self.connections[number as usize].running = false;
    }

    /// Handles a timer of an endpoint, which fires.
    pub fn wake(&mut self, now: Time, number: u32, timer: u32, datapath: &mut Datapath) {
        let end = if timer == SENDER {
            AT_SENDER
        } else {
            AT_RECEIVER
        };
        let connection = &mut self.connections[number as usize];
        if connection.running {
            connection.ends[end].on_timeout(nanos(now));
            self.drive(now, number, end, datapath);
        }
    }

    /// Handles a packet that has left the path.
    pub fn arrive(&mut self, now: Time, packet: &Packet, datapath: &mut Datapath) {
        let number = packet.flow() & !TRANSPORT;
        let connection = &mut self.connections[number as usize];
        let end = usize::from(packet.port() == connection.port);
        let payloads = &mut datapath.observer.packets.payloads;
        if connection.running {
            let datagram = payloads.get(packet.number());
            let ecn = Ecn::from_bits(packet.ecn_bits());
            connection.ends[end].handle(nanos(now), datagram, ecn);
        }
        payloads.free(packet.number());
        if !connection.running {
            return;
        }
        self.drive(now, number, end, datapath);
        let connection = &self.connections[number as usize];
        let arrived = connection.ends[AT_RECEIVER].stats().delivered;
        if end == AT_RECEIVER && connection.size.is_some_and(|size| arrived >= size) {
            let info = self.info(number);
            let meter = &mut datapath.flows[self.connections[number as usize].flow as usize].meter;
            if meter.runs() {
                meter.finished(now, &info);
            }
            self.stop(number, datapath);
        }
    }

    /// Sends the datagrams that an endpoint has ready, and sets its timer.
    fn drive(&mut self, now: Time, number: u32, end: usize, datapath: &mut Datapath) {
        let connection = &mut self.connections[number as usize];
        let port = if end == AT_SENDER {
            connection.port
        } else {
            NEAR + FAR - connection.port
        };
        let id = TRANSPORT | number;
        for count in 0.. {
            self.buffer.clear();
            let Some(ecn) = connection.ends[end].poll(nanos(now), &mut self.buffer) else {
                break;
            };
            let most = usize::from(u16::MAX - connection.headers);
            if count == MOST_AT_ONCE || self.buffer.len() > most {
                self.fault.get_or_insert_with(|| SimError::Transport {
                    flow: format!("{}", connection.flow),
                    problem: "the endpoint sends without end, or a datagram above 64 kB".into(),
                });
                break;
            }
            if end == AT_SENDER {
                connection.sent += self.buffer.len() as u64;
            }
            let slot = datapath.observer.packets.payloads.put(&self.buffer);
            let bytes = self.buffer.len() as u16 + connection.headers;
            let packet = Packet::datagram(id, port == NEAR, slot, now, bytes)
                .with_ecn(ecn as u8)
                .labelled(connection.label, port);
            let flow = &datapath.flows[connection.flow as usize];
            match flow.access_reverse.get().filter(|_| end == AT_RECEIVER) {
                Some(link) => datapath.access.push(now, link, packet),
                None => datapath
                    .nic(now, id, (port, connection.label))
                    .send_datagram(packet),
            }
        }
        if let Some(problem) = connection.ends[end].fault() {
            let flow = format!("{}", connection.flow);
            self.fault
                .get_or_insert(SimError::Transport { flow, problem });
            return;
        }
        let due = connection.ends[end].timeout().map(Time::from_ns);
        let timer = if end == AT_SENDER { SENDER } else { RECEIVER };
        datapath.timers.set(
            connection.flow * TIMERS_PER_FLOW + timer,
            due.map(|at| at.max(now + Span::ns(1))),
        );
    }

    /// The access link that a packet from the path must pass to a receiver farther away. `None` if
    /// there is no such link, or if the packet is for the sender.
    pub fn access_link(&self, packet: &Packet, datapath: &Datapath) -> Option<u32> {
        let connection = &self.connections[(packet.flow() & !TRANSPORT) as usize];
        let forward = packet.port() == connection.port;
        datapath.flows[connection.flow as usize]
            .access_forward
            .get()
            .filter(|_| forward)
    }

    /// Handles a packet that leaves an access link: at its receiver, or towards the path.
    pub fn leave_access_link(&mut self, now: Time, packet: &Packet, datapath: &mut Datapath) {
        let connection = &self.connections[(packet.flow() & !TRANSPORT) as usize];
        if packet.port() == connection.port {
            self.arrive(now, packet, datapath);
        } else {
            let port = NEAR + FAR - connection.port;
            datapath
                .network
                .push(now, port, *packet, &mut datapath.observer);
        }
    }

    /// The state of a flow in the form of that of a TCP sender.
    pub fn info(&self, number: u32) -> Info {
        let connection = &self.connections[number as usize];
        let sender = connection.ends[AT_SENDER].stats();
        let received = connection.ends[AT_RECEIVER].stats().delivered;
        let full = sender.datagram.max(1);
        let packets = |bytes: u64| u32::try_from(bytes / full).unwrap_or(u32::MAX);
        Info {
            bytes_acked: received,
            bytes_sent: connection.sent,
            bytes_retrans: sender.lost_bytes,
            retransmits: sender.lost_packets,
            cwnd: packets(sender.cwnd),
            in_flight: packets(sender.in_flight),
            srtt: Span::ns(sender.srtt),
            rtt: Span::ns(sender.srtt),
            min_rtt: Span::ns(sender.min_rtt),
            ..Info::default()
        }
    }
}
