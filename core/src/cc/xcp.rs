//! XCP's sender: routers determine the change of the window.
//!
//! Algorithm: every data packet carries the window `cwnd` in bytes, the smoothed RTT and the change
//! of the window that the sender requests, `(rate · rtt − cwnd) / (cwnd / s)`. `s` is the packet
//! size. The request is the difference between the window for the parameter `rate` and the present
//! window, divided among the packets of a round trip. Routers on the path reduce the requested
//! change to the change that they allow ([`queue::xcp`](crate::queue::xcp)). The receiver returns
//! the reduced change as feedback, and with each ACK `cwnd = max(cwnd + feedback, s)`. A loss
//! halves the window, as in Reno. There is no slow start.
//!
//! Sources: Katabi, Handley, Rohrs: Congestion Control for High Bandwidth-Delay Product Networks
//! (SIGCOMM 2002), sections 3.1 to 3.4. According to draft-falk-xcp-spec-03, an ACK of several
//! packets returns the sum of their feedback. Deviations:
//! - `s` is a full frame, as routers see it: the window includes headers, so that it is comparable
//!   with a link's rate;
//! - a sender that does not use up its window ignores positive feedback (the paper's senders are
//!   never idle);
//! - in recovery the transport reduces the window, and feedback is ignored until recovery ends;
//! - the window in a header is rounded to bytes, feedback to 1/256 byte.

use super::{Ack, CcKind, CongestionControl, Family, Host, Loss, Need, Sample, Start, Window};
use crate::packet::{Congestion, Feedback};
use crate::param::{Kind, Param, Params};
use crate::transport::{HEADERS, MSS, State};
use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;

/// Size of a full frame, in bytes.
const FRAME: f64 = HEADERS as f64 + MSS as f64;

/// The parameters.
pub const PARAMS: &[Param] = &[Param {
    name: "rate",
    kind: Kind::Rate(
        Rate::mbit(10_000_000),
        Rate::bit(1_000),
        Rate::mbit(10_000_000),
    ),
    help: "rate that the sender requests from routers; the default requests all of their capacity",
    source: "Katabi, Handley, Rohrs 2002, section 3.2: the desired rate",
}];

/// XCP's state.
#[derive(Clone, Debug)]
pub struct Xcp {
    rate: Rate,
    /// The window in bytes of full frames, including a fraction of a packet, which [`Window`]
    /// lacks.
    cwnd: f64,
    /// The window in packets that was last computed from `cwnd`. If `Window::cwnd` differs from it,
    /// the transport has changed the window.
    set: u32,
    srtt: Span,
    /// Feedback in the present ACK.
    heard: Feedback,
}

impl Xcp {
    /// The state at the start of a connection.
    pub fn new(params: &Params, _host: &Host) -> Xcp {
        Xcp {
            rate: params.rate("rate"),
            cwnd: 0.0,
            set: 0,
            srtt: Span::ZERO,
            heard: Feedback::default(),
        }
    }
    /// The window in bytes of full frames.
    fn bytes(&self, w: &Window) -> f64 {
        if w.cwnd == self.set {
            self.cwnd
        } else {
            f64::from(w.cwnd) * FRAME
        }
    }
}

impl CongestionControl for Xcp {
    fn on_start(&mut self, _w: &mut Window, ev: &Start) {
        self.srtt = ev.srtt;
    }
    fn on_sample(&mut self, _w: &mut Window, ev: &Sample) {
        self.srtt = Span::us(ev.srtt8_us / 8);
        self.heard = ev.feedback;
    }
    fn on_ack(&mut self, w: &mut Window, ev: &Ack) {
        let heard = core::mem::take(&mut self.heard).as_bytes();
        if matches!(ev.state, State::Cwr | State::Recovery) || (heard > 0.0 && !ev.cwnd_limited) {
            return;
        }
        self.cwnd = (self.bytes(w) + heard)
            .max(FRAME)
            .min(f64::from(w.clamp) * FRAME);
        self.set = (self.cwnd / FRAME) as u32;
        w.cwnd = self.set;
    }
    fn on_loss(&mut self, w: &mut Window, _ev: &Loss) {
        w.ssthresh = (w.cwnd / 2).max(2);
    }
    fn in_slow_start(&self, _w: &Window) -> bool {
        false
    }
    fn needs_feedback(&self) -> bool {
        true
    }
    fn congestion(&self, w: &Window) -> Option<Congestion> {
        let cwnd = self.bytes(w).max(FRAME);
        let wanted = (self.rate * self.srtt).get() as f64;
        let demand = (wanted - cwnd) / (cwnd / FRAME);
        Some(Congestion::new(
            Bytes::new(cwnd as u64),
            self.srtt,
            Feedback::bytes(demand),
        ))
    }
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        visit("cwnd_bytes", self.cwnd);
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "xcp",
    help: "routers write into every packet by how much the sender's window changes",
    source: "Katabi, Handley, Rohrs 2002; draft-falk-xcp-spec-03",
    family: Family::Switch,
    year: 2002,
    needs: &[Need::Feedback],
    default_in: &[],
    params: PARAMS,
    make: &|params, host| Box::new(Xcp::new(params, host)),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Cause;
    use crate::units::Time;

    fn started(params: &[(&'static str, crate::param::Value)], cwnd: u32) -> (Xcp, Window) {
        let mut all = Params::defaults(PARAMS);
        for (name, value) in params {
            all.set(name, value.clone());
        }
        let mut xcp = Xcp::new(&all, &Host::default());
        let mut w = Window::new(cwnd);
        let mut ev = Start::at(Time::ZERO);
        ev.srtt = Span::ms(100);
        xcp.on_start(&mut w, &ev);
        (xcp, w)
    }
    /// An ACK with feedback of this many bytes.
    fn ack(xcp: &mut Xcp, w: &mut Window, bytes: f64, change: impl Fn(&mut Ack)) {
        let mut sample = Sample::at(Time::ZERO);
        sample.srtt8_us = 800_000;
        sample.feedback = Feedback::bytes(bytes);
        xcp.on_sample(w, &sample);
        let mut ev = Ack::at(Time::ZERO);
        change(&mut ev);
        xcp.on_ack(w, &ev);
    }

    #[test]
    fn the_window_changes_only_by_the_feedback() {
        let (mut xcp, mut w) = started(&[], 10);
        ack(&mut xcp, &mut w, 2.0 * FRAME, |_| ());
        assert_eq!(w.cwnd, 12);
        ack(&mut xcp, &mut w, -4.0 * FRAME, |_| ());
        assert_eq!(w.cwnd, 8);
        for _ in 0..100 {
            ack(&mut xcp, &mut w, 0.0, |ev| ev.delivered = 2);
        }
        assert_eq!(w.cwnd, 8);
    }

    #[test]
    fn parts_of_a_packet_add_up() {
        let (mut xcp, mut w) = started(&[], 10);
        for _ in 0..4 {
            ack(&mut xcp, &mut w, 0.25 * FRAME, |_| ());
        }
        assert_eq!(w.cwnd, 11);
        assert_eq!(
            xcp.congestion(&w).map(|c| c.cwnd()),
            Some(Bytes::new(11 * 1514))
        );
    }

    #[test]
    fn one_packet_is_the_least() {
        let (mut xcp, mut w) = started(&[], 10);
        ack(&mut xcp, &mut w, -1e9, |_| ());
        assert_eq!(w.cwnd, 1);
    }

    #[test]
    fn a_header_has_the_window_the_rtt_and_the_requested_change() {
        let rate = crate::param::Value::Rate(Rate::bit(1514 * 8 * 300));
        let (mut xcp, mut w) = started(&[("rate", rate)], 10);
        // 300 packets/s over 100 ms are 30; 20 are missing, over 10 packets.
        let header = xcp.congestion(&w).unwrap();
        assert_eq!(
            (header.cwnd(), header.rtt()),
            (Bytes::new(15_140), Span::ms(100))
        );
        assert_eq!(header.feedback, Feedback::bytes(2.0 * FRAME));
        // A sender above its rate reduces the window.
        ack(&mut xcp, &mut w, 50.0 * FRAME, |_| ());
        assert_eq!(
            xcp.congestion(&w).unwrap().feedback,
            Feedback::bytes(-0.5 * FRAME)
        );
    }

    #[test]
    fn without_a_limit_the_request_has_its_maximum() {
        let (xcp, w) = started(&[], 10);
        assert!(xcp.congestion(&w).unwrap().feedback.as_bytes() > 8e6);
    }

    #[test]
    fn a_loss_halves_the_window_and_recovery_is_left_alone() {
        let (mut xcp, mut w) = started(&[], 20);
        let mut loss = Loss::at(Time::ZERO);
        loss.cause = Cause::Loss;
        xcp.on_loss(&mut w, &loss);
        assert_eq!(w.ssthresh, 10);
        w.cwnd = 15;
        ack(&mut xcp, &mut w, 5.0 * FRAME, |ev| {
            ev.state = State::Recovery
        });
        assert_eq!(w.cwnd, 15);
        // From the window after recovery, without the feedback during it.
        w.cwnd = 10;
        ack(&mut xcp, &mut w, FRAME, |_| ());
        assert_eq!(w.cwnd, 11);
    }

    #[test]
    fn an_unused_window_does_not_grow() {
        let (mut xcp, mut w) = started(&[], 10);
        ack(&mut xcp, &mut w, 5.0 * FRAME, |ev| ev.cwnd_limited = false);
        assert_eq!(w.cwnd, 10);
        ack(&mut xcp, &mut w, -5.0 * FRAME, |ev| ev.cwnd_limited = false);
        assert_eq!(w.cwnd, 5);
    }
}
