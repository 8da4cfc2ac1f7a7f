//! Uses queue disciplines of the kernel in the hops of the emulated path, in virtual time.
//!
//! ```text
//!   hop ── enqueue ──▶ packet socket ──▶ queue discipline ──▶ device ──▶ dequeue ──▶ link
//! ```
//!
//! Each discipline has its own network namespace and a [`Gate`]. The device requests a frame from
//! its discipline when the link of the hop is free, and at no other time. The discipline is
//! therefore dequeued at the same instants as on a NIC of this rate. Propagation, loss, policers
//! and varying rates are those of the core.
//!
//! The source MAC address of a frame contains its number, by which the emulator identifies the
//! packet that has left the discipline. A discipline keeps the order within a flow. So if a packet
//! has left, earlier packets of its flow that have not left were dropped. If the discipline is
//! empty, all packets that have not left were dropped.
//!
//! **Reasons of drops.** A packet that is rejected on arrival counts as an overflow if the backlog
//! is at the limit of the discipline. All other drops count as those of the control law.

use crate::emulator::frame::{Frame, HEAD, VNET};
use crate::emulator::tc_words::{self, Words};
use crate::error::HostError;
use crate::netns::{Sysctl, in_new_network, tc};
use crate::sys;
use crate::sys::gate::Gate;
use crate::sys::netlink::{Link, Netlink};
use narrows_core::engine::UnknownQueue;
use narrows_core::net::path::queue_contexts;
use narrows_core::packet::{Ecn, Ip, Packet};
use narrows_core::param::Choice;
use narrows_core::queue::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, Sink};
use narrows_core::registry::Registry;
use narrows_core::scenario::Scenario;
use narrows_core::transport::USUAL_MTU;
use narrows_core::units::Time;
use std::collections::{HashMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the device.
const DEVICE: &str = "q0";
/// Length of an Ethernet header, bytes.
const ETHERNET: usize = 14;
/// The destination MAC address of all frames, a locally administered one.
const TO: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// `TC_PRIO_BULK`, `TC_PRIO_INTERACTIVE` and `TC_PRIO_INTERACTIVE_BULK`.
const BULK: i32 = 2;
const INTERACTIVE: i32 = 6;
const INTERACTIVE_BULK: i32 = 4;

/// Decides whether the emulator must wait for packets of a discipline.
#[derive(Debug)]
pub struct Signal {
    fd: RawFd,
    /// Whether the link is free, and the discipline had no packet that could leave.
    awaits: AtomicBool,
    /// Whether a packet has left the discipline since.
    arrived: AtomicBool,
}

impl Signal {
    /// The descriptor that becomes readable when a packet leaves the discipline; `None` if none is
    /// awaited.
    pub fn awaited(&self) -> Option<RawFd> {
        self.awaits.load(Ordering::Relaxed).then_some(self.fd)
    }
    /// Records that the descriptor was readable.
    pub fn arrived(&self) {
        self.arrived.store(true, Ordering::Relaxed);
    }
}

/// A queue discipline of the kernel.
pub struct KernelQueue {
    gate: Gate,
    netlink: Netlink,
    index: u32,
    signal: Arc<Signal>,
    limit: Option<Limit>,
    /// The frames inside the discipline, from number `first` on; `None`: it has left or was
    /// dropped.
    frames: VecDeque<Option<Frame>>,
    first: u64,
    /// The numbers of the frames inside, by flow.
    flows: HashMap<u64, VecDeque<u64>>,
    backlog: Backlog,
    buffer: Vec<u8>,
}

/// The option that selects the queue disciplines of narrows.
const MODELS: &str = "--queues narrows (of `narrows run` and `narrows shell`)";

/// Checks that every discipline of the path can be configured in the kernel.
pub fn check(scenario: &Scenario, registry: &Registry<Frame>) -> Result<(), HostError> {
    if scenario.wifi.is_some() {
        let problem = format!(
            "is not supported: user-mode Linux has no radio medium; write --engine sim, or \
             {MODELS}"
        );
        return Err(HostError::Key("wifi".into(), problem));
    }
    if scenario.path.offload {
        let problem = format!(
            "is not supported: queue disciplines of the kernel receive single packets; remove \
             offload, or write {MODELS}"
        );
        return Err(HostError::Key("path.offload".into(), problem));
    }
    let (seed, hz) = (scenario.seed, scenario.host.hz);
    let hops = queue_contexts(&scenario.path, seed, hz).into_iter();
    for (number, (hop, context)) in hops.enumerate() {
        if tc_words::is_of_linux(&hop.queue.kind) {
            words(&hop.queue, registry, &context).map_err(|error| match error {
                HostError::Key(key, problem) => {
                    let section = scenario.section_of_hop(number);
                    HostError::Key(format!("{section}.{key}"), problem)
                }
                other => other,
            })?;
        }
    }
    Ok(())
}

fn words(
    choice: &Choice,
    registry: &Registry<Frame>,
    context: &QueueContext,
) -> Result<Words, HostError> {
    let kind = registry.queue(&choice.kind);
    let kind = kind.ok_or_else(|| UnknownQueue(choice.kind.clone()))?;
    tc_words::words(choice, kind.params, context, MODELS)
}

/// A discipline, and its signal if it is one of the kernel's.
type Made = (Box<dyn QueueDiscipline<Frame>>, Option<Arc<Signal>>);

/// The MTU of the devices: that of Ethernet, or of the host with the largest packets, bytes.
pub fn mtu(scenario: &Scenario) -> u32 {
    let named = scenario.hosts.iter().map(|(_, host)| host.mtu());
    let hosts = named.chain([scenario.host.mtu(), u64::from(USUAL_MTU)]);
    hosts.max().unwrap_or_default() as u32
}

/// Creates a queue discipline: one of the kernel in its own network namespace, or that of a plugin.
/// `mtu`: that of its device, bytes.
pub fn create(
    choice: &Choice,
    registry: &Registry<Frame>,
    context: &QueueContext,
    mtu: u32,
) -> Result<Made, HostError> {
    if !tc_words::is_of_linux(&choice.kind) {
        let made = registry.make_queue(choice, context);
        let made = made.ok_or_else(|| UnknownQueue(choice.kind.clone()))?;
        return Ok((made, None));
    }
    let words = words(choice, registry, context)?;
    let queue = in_new_network(move || KernelQueue::new(&words, mtu))?;
    let signal = Arc::clone(&queue.signal);
    Ok((Box::new(queue), Some(signal)))
}

/// The priority that the kernel gives to a forwarded packet with this TOS field (`ip_tos2prio`).
fn priority(tos: u8) -> i32 {
    match tos >> 3 & 3 {
        0 => 0,
        1 => BULK,
        2 => INTERACTIVE,
        _ => INTERACTIVE_BULK,
    }
}

impl KernelQueue {
    fn new(words: &Words, mtu: u32) -> Result<KernelQueue, HostError> {
        let failed = HostError::failed("the device of a queue discipline");
        // Without this, neighbour discovery of the kernel takes places in the discipline.
        for name in [
            "ipv6/conf/all/disable_ipv6",
            "ipv6/conf/default/disable_ipv6",
        ] {
            Sysctl::new(name, 1).set()?;
        }
        let mut gate = Gate::new(DEVICE).map_err(&failed)?;
        let index = sys::interface(c"q0").map_err(&failed)?;
        let mut netlink = Netlink::new().map_err(&failed)?;
        let link = Link {
            mtu: Some(mtu),
            queue: words.device_queue,
            ..Link::default()
        };
        netlink.up(index, &link).map_err(&failed)?;
        match &words.options {
            Some(options) => netlink
                .queue_with(index, &words.kind, options)
                .map_err(|e| {
                    HostError::Unlike(format!(
                        "path.queue: this kernel does not accept {} ({e}); select another \
                         kernel, such as 7.3, or write {MODELS}",
                        words.kind
                    ))
                })?,
            None => {
                let mut all = vec!["qdisc", "replace", "dev", DEVICE, "root", "handle", "1:"];
                all.push(&words.kind);
                all.extend(words.words.iter().map(String::as_str));
                tc(&all, &format!("change path.queue, or write {MODELS}"))?;
            }
        }
        gate.open(index).map_err(&failed)?;
        let signal = Arc::new(Signal {
            fd: gate.fd(),
            awaits: AtomicBool::new(false),
            arrived: AtomicBool::new(false),
        });
        Ok(KernelQueue {
            gate,
            netlink,
            index,
            signal,
            limit: words.limit,
            frames: VecDeque::new(),
            first: 0,
            flows: HashMap::new(),
            backlog: Backlog::default(),
            buffer: Vec::new(),
        })
    }
    /// Number of the next frame.
    fn next(&self) -> u64 {
        self.first + self.frames.len() as u64
    }
    /// Removes a frame by its number.
    fn take(&mut self, number: u64) -> Option<Frame> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let frame = self.frames.get_mut(place)?.take()?;
        self.backlog.remove(frame.size());
        while let Some(None) = self.frames.front() {
            self.frames.pop_front();
            self.first += 1;
        }
        Some(frame)
    }
    /// Removes a frame that has left, and reports the earlier frames of its flow as dropped.
    fn leave(&mut self, now: Time, number: u64, sink: &mut dyn Sink<Frame>) -> Option<Frame> {
        let frame = self.take(number)?;
        let flow = frame.identity();
        while let Some(earlier) = self.flows.get_mut(&flow).and_then(VecDeque::pop_front) {
            if earlier == number {
                break;
            }
            if let Some(dropped) = self.take(earlier) {
                sink.dropped(now, dropped, DropReason::Aqm);
            }
        }
        if self.flows.get(&flow).is_some_and(VecDeque::is_empty) {
            self.flows.remove(&flow);
        }
        Some(frame)
    }
    /// Reports all frames as dropped, because the discipline is empty.
    fn empty(&mut self, now: Time, sink: &mut dyn Sink<Frame>) {
        self.first = self.next();
        for frame in self.frames.drain(..).flatten() {
            self.backlog.remove(frame.size());
            sink.dropped(now, frame, DropReason::Aqm);
        }
        self.flows.clear();
    }
}

impl QueueDiscipline<Frame> for KernelQueue {
    fn enqueue(&mut self, now: Time, packet: Frame, sink: &mut dyn Sink<Frame>) {
        let number = self.next();
        let mut head = [0; HEAD];
        let range = packet.headers(packet.payload(), &mut head);
        self.buffer.clear();
        self.buffer.extend_from_slice(&TO);
        self.buffer.extend_from_slice(&number.to_be_bytes()[2..]);
        let protocol = match packet.ip() {
            Ip::V4 => libc::ETH_P_IP,
            Ip::V6 => libc::ETH_P_IPV6,
        };
        self.buffer
            .extend_from_slice(&(protocol as u16).to_be_bytes());
        self.buffer.extend_from_slice(&head[VNET..range.end]);
        self.buffer.extend_from_slice(packet.body(packet.payload()));
        let priority = priority(packet.tos());
        let sent = self
            .gate
            .prioritize(priority)
            .and_then(|()| self.gate.send(&self.buffer));
        if matches!(sent, Ok(true)) {
            self.backlog.add(packet.size());
            self.flows
                .entry(packet.identity())
                .or_default()
                .push_back(number);
            self.frames.push_back(Some(packet));
            return;
        }
        let full = self
            .limit
            .is_some_and(|limit| !limit.admits(self.backlog, packet.size()));
        let reason = if full {
            DropReason::Overflow
        } else {
            DropReason::Aqm
        };
        sink.dropped(now, packet, reason);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<Frame>) -> Option<Frame> {
        let mut head = [0; ETHERNET + 2];
        let mut is_empty = false;
        loop {
            let Ok(Some(_)) = self.gate.receive(&mut head) else {
                self.signal.awaits.store(true, Ordering::Relaxed);
                if is_empty {
                    self.empty(now, sink);
                } else if self.backlog.packets > 0
                    && matches!(self.netlink.backlog(self.index), Ok(0))
                {
                    // A shaper may have released the last packet since the first attempt.
                    is_empty = true;
                    continue;
                }
                return None;
            };
            let mut number = [0; 8];
            number[2..].copy_from_slice(&head[6..12]);
            // Frames without a known number were sent by the kernel itself.
            let Some(mut frame) = self.leave(now, u64::from_be_bytes(number), sink) else {
                continue;
            };
            self.signal.awaits.store(false, Ordering::Relaxed);
            let tos = head[ETHERNET + 1];
            frame.set_dscp(tos >> 2);
            if tos & 3 == 3 && frame.ecn() != Ecn::Ce {
                frame.set_ce();
                sink.marked(now, &frame, DropReason::Aqm);
            }
            return Some(frame);
        }
    }
    fn timely(&self) -> bool {
        true
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.signal
            .arrived
            .load(Ordering::Relaxed)
            .then_some(Time::ZERO)
    }
    fn on_wakeup(&mut self, _now: Time, _sink: &mut dyn Sink<Frame>) {
        self.signal.arrived.store(false, Ordering::Relaxed);
        self.signal.awaits.store(false, Ordering::Relaxed);
    }
    fn backlog(&self) -> Backlog {
        self.backlog
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_those_of_forwarded_packets() {
        assert_eq!(
            [0x00, 0x02, 0x08, 0x10, 0x18].map(priority),
            [0, 0, 2, 6, 4]
        );
        // Expedited forwarding.
        assert_eq!(priority(0xb8), INTERACTIVE_BULK);
    }
}
