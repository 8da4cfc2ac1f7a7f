//! Lets the caller of a run control one flow.
//!
//! The events of the flow's congestion control are observed. The caller can replace the congestion
//! control by a fixed ("held") window and pacing rate.
//!
//! Without a held window, every call is passed to the congestion control unchanged, so the run has
//! the same results as without control.

use narrows_core::cc::{
    Ack, CongestionControl, Loss, LostPacket, Reduced, Rto, Sample, Sent, SpuriousLoss, Start,
    StateChange, Window,
};
use narrows_core::packet::Congestion;
use narrows_core::transport::MSS;
use narrows_core::units::{Bytes, Rate, Span};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counters of a flow since the begin of the run, and the window that the caller holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steering {
    /// Number of ACKs that arrived.
    pub acks: u64,
    /// Numbers of packets that these ACKs reported as delivered, lost, and marked.
    pub delivered: u64,
    pub lost: u64,
    pub marked: u64,
    /// The last RTT sample, and the smoothed RTT.
    pub rtt: Option<Span>,
    pub srtt: Span,
    /// The window (packets) and the pacing rate that the caller has set, if any.
    pub held: Option<(u32, Option<Rate>)>,
}

/// The state that a flow and its controller share.
pub(crate) type SharedSteering = Arc<Mutex<Steering>>;

pub(crate) fn lock(of: &SharedSteering) -> MutexGuard<'_, Steering> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The congestion control of a flow, with its controller.
pub(crate) struct Steered {
    pub inner: Box<dyn CongestionControl>,
    pub shared: SharedSteering,
}

impl Steered {
    /// Passes an event to the congestion control, unless the caller holds the window.
    fn pass(&mut self, w: &mut Window, act: impl FnOnce(&mut dyn CongestionControl, &mut Window)) {
        let (held, srtt) = {
            let shared = lock(&self.shared);
            (shared.held, shared.srtt)
        };
        match held {
            Some((cwnd, pacing)) => {
                w.cwnd = cwnd.min(w.clamp);
                w.pacing = pacing.or_else(|| usual_pacing(w.cwnd, srtt));
            }
            None => act(&mut *self.inner, w),
        }
    }
    fn held(&self) -> Option<(u32, Option<Rate>)> {
        lock(&self.shared).held
    }
}

/// The pacing rate by which the sender sizes bursts: 1.2 windows per smoothed RTT, as in Linux. The
/// sender does not compute it if its congestion control owns recovery, as this one does.
fn usual_pacing(cwnd: u32, srtt: Span) -> Option<Rate> {
    let bytes = u64::from(cwnd) * u64::from(MSS) * 6 / 5;
    Rate::of(Bytes::new(bytes), srtt)
}

macro_rules! pass_events {
    ($($event:ident: $type:ty),* $(,)?) => {$(
        fn $event(&mut self, w: &mut Window, ev: &$type) {
            self.pass(w, |cc, w| cc.$event(w, ev));
        }
    )*};
}

impl CongestionControl for Steered {
    pass_events! {
        on_start: Start, on_sent: Sent, on_loss: Loss, on_packet_lost: LostPacket, on_rto: Rto,
        on_reduced: Reduced, on_state: StateChange, on_spurious_loss: SpuriousLoss,
    }
    fn on_sample(&mut self, w: &mut Window, ev: &Sample) {
        {
            let mut shared = lock(&self.shared);
            shared.rtt = ev.rtt.or(shared.rtt);
            shared.srtt = Span::ns(ev.srtt8_us * 125);
        }
        self.pass(w, |cc, w| cc.on_sample(w, ev));
    }
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        {
            let mut shared = lock(&self.shared);
            shared.acks += 1;
            shared.delivered += u64::from(ev.delivered);
            shared.lost += u64::from(ev.lost);
            shared.marked += u64::from(ev.marked);
        }
        self.pass(w, |cc, w| cc.on_ack(w, ev));
    }
    fn in_slow_start(&self, w: &Window) -> bool {
        self.held().is_none() && self.inner.in_slow_start(w)
    }
    fn owns_recovery(&self) -> bool {
        self.held().is_some() || self.inner.owns_recovery()
    }
    fn needs_pacing(&self) -> bool {
        self.held()
            .map_or_else(|| self.inner.needs_pacing(), |(_, pacing)| pacing.is_some())
    }
    fn needs_samples(&self) -> bool {
        self.inner.needs_samples()
    }
    fn needs_delivery(&self) -> bool {
        self.inner.needs_delivery()
    }
    fn needs_flight_record(&self) -> bool {
        self.inner.needs_flight_record()
    }
    fn needs_feedback(&self) -> bool {
        self.inner.needs_feedback()
    }
    fn congestion(&self, w: &Window) -> Option<Congestion> {
        self.inner.congestion(w)
    }
    fn send_buffer_windows(&self) -> u32 {
        self.inner.send_buffer_windows()
    }
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        self.inner.describe(visit);
    }
    fn mode(&self) -> Option<&'static str> {
        self.inner.mode()
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(Steered {
            inner: self.inner.fork(),
            shared: Arc::new(Mutex::new(lock(&self.shared).clone())),
        })
    }
}
