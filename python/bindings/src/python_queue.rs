//! A queue discipline that is a Python class.
//!
//! The class receives objects that represent the packets; the packets themselves stay in this
//! module. A packet that the class has neither returned nor dropped is in the queue. Therefore this
//! module also counts the backlog.

use crate::external::{self, Factory, item};
use narrows_core::packet::{Ecn, Packet as _};
use narrows_core::param::Params;
use narrows_core::queue::{Backlog, DropReason, Limit, QueueContext, QueueDiscipline, Sink};
use narrows_core::units::{Bytes, Rate, Time};
use narrows_plugin::monitor;
use narrows_sim::Packet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A drop or mark that a class requested for a packet, by its id.
enum Action {
    Drop(u64, DropReason),
    Mark(u64),
}

#[derive(Default)]
struct Shared {
    backlog: Backlog,
    actions: Vec<Action>,
}

type SharedQueue = Arc<Mutex<Shared>>;

fn lock(of: &SharedQueue) -> MutexGuard<'_, Shared> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Represents a packet in a queue for a Python class.
#[pyclass(frozen, module = "narrows._core")]
pub struct QueuedPacket {
    id: u64,
    queue: SharedQueue,
    /// Size of the packet on the wire, in bytes.
    #[pyo3(get)]
    size: u64,
    /// Index in the scenario of the flow or probe that the packet belongs to; probes follow the
    /// flows. None if unknown.
    #[pyo3(get)]
    flow: Option<u32>,
    /// A hash of the packet's flow, which depends on the seed of the queue.
    #[pyo3(get)]
    flow_hash: u32,
    /// The DSCP (differentiated services code point) of the packet.
    #[pyo3(get)]
    dscp: u8,
    /// Whether the packet is ECN-capable.
    #[pyo3(get)]
    ecn_capable: bool,
    /// The time at which the packet arrived at the queue, in seconds of the run.
    #[pyo3(get)]
    arrived_s: f64,
}

#[pymethods]
impl QueuedPacket {
    /// Drops the packet; `why` is "aqm" (dropped by an AQM) or "overflow" (the buffer is full).
    #[pyo3(signature = (why="aqm"))]
    fn drop(&self, why: &str) -> PyResult<()> {
        let why = match why {
            "aqm" => DropReason::Aqm,
            "overflow" => DropReason::Overflow,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "drop({why:?}): write \"aqm\" or \"overflow\""
                )));
            }
        };
        lock(&self.queue).actions.push(Action::Drop(self.id, why));
        Ok(())
    }
    /// Marks the packet (CE) if it is ECN-capable; returns whether it was marked.
    fn mark(&self) -> bool {
        if self.ecn_capable {
            lock(&self.queue).actions.push(Action::Mark(self.id));
        }
        self.ecn_capable
    }
}

/// The link and the state of a queue.
#[pyclass(frozen, module = "narrows._core")]
pub struct QueueState {
    queue: SharedQueue,
    limit: Limit,
    /// The rate of the link in Mbit/s; the mean rate if it varies.
    #[pyo3(get)]
    rate_mbit: f64,
}

#[pymethods]
impl QueueState {
    /// Number of packets in the queue.
    #[getter]
    fn backlog_packets(&self) -> u64 {
        lock(&self.queue).backlog.packets
    }
    /// Number of bytes in the queue.
    #[getter]
    fn backlog_bytes(&self) -> u64 {
        lock(&self.queue).backlog.bytes.get()
    }
    /// Whether the packet fits into the buffer in addition to the backlog.
    fn admits(&self, packet: &QueuedPacket) -> bool {
        let backlog = lock(&self.queue).backlog;
        self.limit.admits(backlog, Bytes::new(packet.size))
    }
}

/// The common part of all instances of a class.
pub struct QueueClass {
    class: Factory,
    file: String,
    wakes: bool,
}

/// A queue discipline whose methods an instance of a Python class implements.
pub struct PythonQueue {
    of: Arc<QueueClass>,
    instance: Option<Py<PyAny>>,
    shared: SharedQueue,
    packets: BTreeMap<u64, Packet>,
    next_id: u64,
    seed: u64,
    wakeup: Option<Time>,
}

impl PythonQueue {
    /// The part that all instances of a Python class share, from its registration `spec`.
    pub fn factory(
        class: &Bound<'_, PyAny>,
        spec: &Bound<'_, PyDict>,
    ) -> PyResult<Arc<QueueClass>> {
        Ok(Arc::new(QueueClass {
            class: Arc::new(class.clone().unbind()),
            file: item(spec, "file")?.extract()?,
            wakes: item(spec, "wakes")?.extract()?,
        }))
    }

    /// Calls a method of the instance with `act`. An exception is reported as a fault of the model,
    /// and the result is then `None`.
    fn call<T>(&self, act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        let instance = self.instance.as_ref()?;
        Python::attach(|py| {
            act(instance.bind(py))
                .map_err(|error| external::report(py, &self.of.file, &error))
                .ok()
        })
    }

    /// Executes the drops and marks that the class requested.
    fn settle(&mut self, now: Time, sink: &mut dyn Sink<Packet>) {
        let actions = std::mem::take(&mut lock(&self.shared).actions);
        for action in actions {
            match action {
                Action::Drop(id, why) => match self.packets.remove(&id) {
                    Some(packet) => {
                        lock(&self.shared).backlog.remove(packet.size());
                        sink.dropped(now, packet, why);
                    }
                    None => monitor::fail_now("drop() of a packet that is not in the queue"),
                },
                Action::Mark(id) => match self.packets.get_mut(&id) {
                    Some(packet) => {
                        packet.set_ce();
                        sink.marked(now, packet, DropReason::Aqm);
                    }
                    None => monitor::fail_now("mark() of a packet that is not in the queue"),
                },
            }
        }
    }

    fn take(&mut self, id: u64) -> Option<Packet> {
        let packet = self.packets.remove(&id);
        match &packet {
            Some(packet) => lock(&self.shared).backlog.remove(packet.size()),
            None => monitor::fail_now("dequeue() returns a packet that is not in the queue"),
        }
        packet
    }

    /// Calls `next_wakeup` of the class and stores the time of the next wake-up.
    fn ask_wakeup(&mut self, now: Time) {
        if !self.of.wakes {
            return;
        }
        let next = self
            .call(|queue| queue.call_method0("next_wakeup")?.extract::<Option<f64>>())
            .flatten();
        self.wakeup = match next {
            Some(s) if !s.is_finite() || s <= now.as_s() => {
                monitor::fail_now(&format!(
                    "next_wakeup() returns {s}; it must be None or a time after the present one"
                ));
                None
            }
            next => next.map(|s| Time::from_ns((s * 1e9) as u64)),
        };
    }
}

/// Creates an instance of the Python class, and the queue discipline that calls it.
pub fn make(
    class: &Arc<QueueClass>,
    params: &Params,
    place: &QueueContext,
) -> Box<dyn QueueDiscipline<Packet>> {
    let shared = SharedQueue::default();
    let limit = place.limit.unwrap_or(Limit::Packets(1000));
    let instance = Python::attach(|py| {
        let made = || -> PyResult<Py<PyAny>> {
            let class = class.class.bind(py);
            let instance = class.call_method1("__new__", (class,))?;
            external::set_params(&instance, params)?;
            instance.setattr("seed", place.seed)?;
            let state = QueueState {
                queue: Arc::clone(&shared),
                limit,
                rate_mbit: Rate::as_mbit(place.rate),
            };
            instance.setattr("state", Py::new(py, state)?)?;
            instance.call_method0("__init__")?;
            Ok(instance.unbind())
        };
        made()
            .map_err(|error| external::report(py, &class.file, &error))
            .ok()
    });
    Box::new(PythonQueue {
        of: Arc::clone(class),
        instance,
        shared,
        packets: BTreeMap::new(),
        next_id: 0,
        seed: place.seed,
        wakeup: None,
    })
}

impl QueueDiscipline<Packet> for PythonQueue {
    fn enqueue(&mut self, now: Time, packet: Packet, sink: &mut dyn Sink<Packet>) {
        let id = self.next_id;
        self.next_id += 1;
        let (size, hash) = (packet.size(), packet.flow_hash(self.seed));
        let stands_for = QueuedPacket {
            id,
            queue: Arc::clone(&self.shared),
            size: size.get(),
            flow: packet.owner(),
            flow_hash: hash,
            dscp: packet.dscp(),
            ecn_capable: packet.ecn() != Ecn::NotEct,
            arrived_s: now.as_s(),
        };
        self.packets.insert(id, packet);
        self.call(|queue| {
            queue
                .call_method1("enqueue", (now.as_s(), stands_for))
                .map(drop)
        });
        // The backlog counts the packet only after the call, so that the class sees the backlog
        // without it.
        lock(&self.shared).backlog.add(size);
        self.settle(now, sink);
        self.ask_wakeup(now);
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<Packet>) -> Option<Packet> {
        let found = self.call(|queue| {
            let found = queue.call_method1("dequeue", (now.as_s(),))?;
            if found.is_none() {
                return Ok(None);
            }
            let packet = found.cast::<QueuedPacket>().map_err(|_| {
                PyValueError::new_err("dequeue() returns neither a packet nor None")
            })?;
            Ok(Some(packet.get().id))
        });
        self.settle(now, sink);
        let packet = match found? {
            Some(id) => self.take(id),
            None => None,
        };
        self.ask_wakeup(now);
        if packet.is_none() && self.wakeup.is_none() && !self.packets.is_empty() {
            monitor::fail_now(&format!(
                "dequeue() returns None, but {} packets are in the queue and next_wakeup() \
                 returns no time; a packet that is not stored must be passed to drop()",
                self.packets.len()
            ));
        }
        packet
    }
    fn wakes(&self) -> bool {
        self.of.wakes
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.wakeup
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<Packet>) {
        self.wakeup = None;
        self.call(|queue| queue.call_method1("on_wakeup", (now.as_s(),)).map(drop));
        self.settle(now, sink);
        self.ask_wakeup(now);
    }
    fn backlog(&self) -> Backlog {
        lock(&self.shared).backlog
    }
}
