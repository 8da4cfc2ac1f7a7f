//! Handling of one ACK, in Linux's order: scoreboard, RTT and reordering window, tail loss probe,
//! state of recovery, timer, window, retransmissions.

use super::chrono::Limit;
use super::delivery_rate::Newest;
use super::{Sender, TailProbe, Time};
use crate::cc::{Ack, Cause, Delivery, FlightSample, Loss, Sample};
use crate::host::Fate;
use crate::kernel::Rule;
use crate::tcp::paws;
use crate::tcp::scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED, Seg};
use crate::tcp::sender::stamp;
use crate::tcp::wire::{AckSegment, MAX_SACKS, Range, Segment};
use crate::tcp::{EcnUse, State};
use crate::units::Span;

/// The contents of one ACK.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct News {
    /// The ACK acknowledged new data in order.
    pub una_advanced: bool,
    /// The ACK SACKed something new.
    pub sacked: bool,
    /// The ACK reported duplicate data that this sender had retransmitted.
    pub dsack: bool,
    /// The ACK reported the tail loss probe as duplicate data.
    pub dsack_of_probe: bool,
    /// The ACK acknowledged or SACKed data that was sent before recovery began and never
    /// retransmitted.
    pub original_delivered: bool,
    /// The ACK cumulatively acknowledged a retransmission.
    pub retrans_acked: bool,
    /// The ACK changed the peer's window, or is no duplicate for another reason.
    pub window_update: bool,
    /// The ACK reported marks.
    pub ece: bool,
    /// Number of marks.
    pub marked: u32,
    /// A retransmission was marked lost.
    pub retrans_lost: bool,
    /// The retransmission timer starts anew.
    pub set_timer: bool,
    /// Packets that this ACK newly reports as delivered.
    pub delivered: u32,
    /// Payload bytes of those packets that were in the scoreboard.
    pub delivered_bytes: u64,
    /// `una` before this ACK.
    pub prior_una: u64,
    /// `fack` before this ACK.
    pub prior_fack: u64,
    /// The lowest byte found to have been reordered.
    pub reordered_from: u64,
    /// The timestamp echoed, ms.
    pub tsecr: u32,
}

impl News {
    /// Returns whether the ACK only reports that data arrived out of order.
    pub fn duplicate(&self) -> bool {
        !(self.una_advanced || self.window_update || self.dsack)
    }
}

/// The repairs that follow an ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Repair {
    None,
    Lost,
    /// F-RTO: new data first.
    New,
}

/// Times (µs) when the segments that one ACK delivers were sent; RTTs are measured from them.
#[derive(Default)]
struct SentTimes {
    first_acked: Option<u64>,
    last_acked: Option<u64>,
    first_sacked: Option<u64>,
    last_sacked: Option<u64>,
    /// The segment that was sent last: time, end and number.
    newest: Option<(u64, u64, u64)>,
}

/// Values before an ACK.
pub(super) struct Before {
    una: u64,
    in_flight: u32,
    /// Segments were SACKed.
    sacked: bool,
    /// Number of loss marks.
    lost: u64,
}

/// Returns whether the first SACK block of an ACK reports duplicate data: it lies below the ACK's
/// edge or within the next block.
#[inline(always)]
pub(super) fn is_dsack(ack: u64, first: &Range, others: &[Range]) -> bool {
    let inside = |b: &Range| first.start >= b.start && first.end <= b.end;
    first.start < ack || others.first().is_some_and(inside)
}

impl SentTimes {
    fn delivered(&mut self, seg: &Seg, number: u64) {
        let (sent_us, end) = (seg.sent_us, seg.end());
        if self
            .newest
            .is_none_or(|(newest_us, newest_end, _)| (sent_us, end) > (newest_us, newest_end))
        {
            self.newest = Some((sent_us, end, number));
        }
    }
}

impl Sender {
    /// Returns whether an ACK with an old timestamp is accepted: it is the answer to a SYN, or a
    /// recent duplicate of the last ACK.
    pub(super) fn may_come_late(&self, ack: &AckSegment) -> bool {
        let duplicate =
            ack.ack == self.board.una() && ack.window <= self.peer_window && ack.window > 0;
        let timeout_us = self.ticks.to_us(self.rto_ticks());
        ack.syn || duplicate && paws::is_recent_duplicate(self.ts_recent, ack.tsval, timeout_us)
    }

    /// The values before an ACK that are needed after it.
    #[inline(always)]
    pub(super) fn before(&self) -> Before {
        Before {
            una: self.board.una(),
            in_flight: self.board.in_flight(),
            sacked: self.board.sacked_out() > 0,
            lost: self.board.lost_total(),
        }
    }

    /// Stores the peer's window.
    #[inline(always)]
    pub(super) fn update_window(&mut self, ack: &AckSegment) {
        self.peer_window = ack.window;
        self.max_window = self.max_window.max(ack.window);
    }

    /// The measurements of an ACK for the congestion control. `prior`: packets that had been
    /// delivered when the newest packet of this ACK was sent. `shown`: the delivered packets, and
    /// the marked ones among them, for kernels before [`Rule::DeliveredBeforeEvent`].
    #[inline(always)]
    pub(super) fn sample(
        &self,
        now: Time,
        ack: &AckSegment,
        rtt: Option<u64>,
        prior: Option<u64>,
        shown: (u64, u64),
    ) -> Sample {
        let mut ev = Sample::at(now);
        ev.rtt = rtt.map(|us| Span::ns(us * 1000));
        ev.una = self.board.una();
        ev.nxt = self.board.nxt();
        ev.pacing = self.pacing;
        ev.paced = self.pacer.on;
        ev.state = self.state;
        ev.srtt8_us = self.rtt.srtt8_us();
        let counted_before = self.cfg.kernel.follows(Rule::DeliveredBeforeEvent)
            || self.ecn.agreed() == EcnUse::Accurate;
        (ev.delivered, ev.delivered_ce) = if counted_before {
            (self.delivered.packets, self.delivered_ce)
        } else {
            shown
        };
        ev.stamps = (ack.tsval, ack.tsecr);
        ev.sacked = self.board.sacked_out();
        ev.flight = prior.map_or(0, |prior| (self.delivered.packets - prior) as u32);
        ev.feedback = ack.feedback;
        ev
    }

    /// Passes the [measurements](Self::sample) of an ACK to the congestion control. `in_order`: the
    /// packets that it acknowledged in order, whether it reports marks, and whether it only
    /// acknowledges data in order.
    #[inline(never)]
    pub(super) fn tell_sample(
        &mut self,
        now: Time,
        ack: &AckSegment,
        rtt: Option<u64>,
        prior: Option<u64>,
        shown: (u64, u64),
        in_order: (u32, bool, bool),
    ) {
        let mut ev = self.sample(now, ack, rtt, prior, shown);
        (ev.acked, ev.ece, ev.plain) = in_order;
        self.cc.on_sample(&mut self.w, &ev);
    }

    /// Takes the delivery sample of an ACK, and sets the window and the pacing rate. `acked`: the
    /// packets that it acknowledged in order. `told`: the congestion control needs the sample.
    #[inline(always)]
    pub(super) fn finish_ack(
        &mut self,
        now: Time,
        news: &News,
        before: &Before,
        newest: Option<&Newest>,
        rtt: Option<u64>,
        (acked, told): (u32, bool),
    ) {
        // Filled in place: a copy would have to wait for the fields that were just written.
        let mut ev = Ack::at(now);
        ev.lost = (self.board.lost_total() - before.lost) as u32;
        let (now_us, least_us) = (now.as_us(), self.rtt.min_us());
        let took = self
            .delivered
            .sample(now_us, newest, news.delivered, least_us);
        if told {
            // A single short packet: its ACK may have been delayed.
            let maybe_delayed = acked == 1
                && !(before.sacked || news.retrans_acked || news.sacked)
                && self.board.una() - before.una < self.mss()
                && newest.is_some_and(|n| n.snapshot.delivered + 1 == self.delivered.packets);
            ev.delivery = Some(Delivery {
                sample: newest
                    .zip(took)
                    .map(|(newest, us)| self.delivered.rate_sample(newest, us)),
                rtt: rtt.map(Span::us),
                maybe_delayed,
                prior_in_flight: before.in_flight,
                next_departure: self.pacer.wstamp,
                totals: self.totals(),
                flight: self.flight_told(newest),
            });
        }
        self.control_window(now, news, ev);
        if self.w.app_limited {
            self.w.app_limited = false;
            self.delivered.limit_by_app(self.board.in_flight());
        }
        if self.needs.owns_recovery {
            self.take_pacing();
        } else {
            self.update_pacing();
        }
    }

    /// As [`finish_ack`](Self::finish_ack), for every congestion control, in a function of its own.
    #[inline(never)]
    pub(super) fn finish_any_ack(
        &mut self,
        now: Time,
        news: &News,
        before: &Before,
        newest: Option<&Newest>,
        rtt: Option<u64>,
        acked: u32,
    ) {
        let told = self.needs.needs_delivery;
        self.finish_ack(now, news, before, newest, rtt, (acked, told));
    }

    /// Handles any ACK, as [`on_ack`](Self::on_ack).
    #[inline(never)]
    pub(super) fn on_any_ack<R: Into<Fate>>(
        &mut self,
        now: Time,
        ack: &AckSegment,
        wire: &mut impl FnMut(Segment) -> R,
    ) -> bool {
        let before = self.before();
        let prior_una = before.una;
        let mut times = SentTimes::default();
        let mut news = News {
            una_advanced: ack.ack > prior_una,
            prior_una,
            prior_fack: self.board.fack(),
            reordered_from: self.board.nxt(),
            tsecr: ack.tsecr,
            ece: ack.ack >= prior_una && self.ecn.echoed(ack),
            ..News::default()
        };
        if news.una_advanced {
            self.timeouts = 0;
        } else if ack.ack < prior_una && ack.n_sacks == 0 {
            return false; // an old ACK
        }
        let plain = news.una_advanced
            && ack.window == self.peer_window
            && ack.n_sacks == 0
            && !ack.ece
            && ack.marks.counters() == 0;
        if ack.ack >= prior_una
            && (news.una_advanced || ack.window > self.peer_window || ack.window == 0)
        {
            news.window_update = true;
            self.update_window(ack);
        }
        let nothing_out = self.board.packets_out() == 0;
        if ack.n_sacks > 0 {
            self.tag_sacks(now, ack, &mut news, &mut times);
        }
        // The delivered count of congestion controls before `DeliveredBeforeEvent`: with the
        // SACKed packets of this ACK, without those that it acknowledges in order.
        let shown = self.delivered.packets + u64::from(news.delivered);
        let shown_ce = self.delivered_ce
            + if news.ece {
                u64::from(news.delivered)
            } else {
                0
            };
        let mut acked = 0;
        if !nothing_out && ack.ack >= prior_una {
            if news.una_advanced {
                acked = self.clean(now, ack.ack, &mut news, &mut times);
            }
            if !self.cfg.sack {
                self.take_back_duplicates(acked, &mut news);
            }
            if self.board.packets_out() == 0 {
                self.limit_ends(now, Limit::Busy);
            }
        }
        self.count_delivered(ack, &mut news);
        // Its record is valid until the next transmission, even if the segment is acknowledged.
        let newest = (times.newest).map(|(_, _, n)| Newest::of(self.board.seg(n), n));
        let prior = newest.as_ref().map(|n| n.snapshot.delivered);
        self.rack.update_window(prior, self.delivered.packets);
        let mut rtt = None;
        if !nothing_out {
            rtt = self.take_rtt(now, &mut news, &times);
            if self.needs.needs_samples {
                let shown = (shown, shown_ce);
                self.tell_sample(now, ack, rtt, prior, shown, (acked, news.ece, plain));
            }
        }
        if let Some(probe) = self.probe {
            self.on_probe_acked(now, ack.ack, probe, &news);
        }
        let dubious = !(news.una_advanced || news.window_update)
            || news.sacked
            || news.dsack
            || news.ece
            || self.state != State::Open;
        let mut repair = Repair::None;
        if dubious && (!nothing_out || news.dsack) {
            repair = self.on_dubious_ack(now, &mut news);
        }
        if nothing_out {
            return false;
        }
        let timer_due = news.set_timer && self.state == State::Open && self.probe_follows();
        if news.set_timer && !timer_due {
            self.set_timer(now);
        }
        self.finish_any_ack(now, &news, &before, newest.as_ref(), rtt, acked);
        match repair {
            Repair::None => {}
            Repair::Lost => self.repair(now, wire),
            Repair::New => {
                self.push(now, wire);
                if self.board.nxt() <= self.high_seq {
                    self.frto = false;
                    self.retransmit_lost(now, wire);
                }
            }
        }
        timer_due
    }

    /// Retransmits lost segments, unless pacing holds them back and will resume by itself.
    #[inline(always)]
    pub(super) fn repair<R: Into<Fate>>(&mut self, now: Time, wire: &mut impl FnMut(Segment) -> R) {
        if !self.pacer.waits(now) {
            self.retransmit_lost(now, wire);
        }
    }

    /// Reads the SACK blocks, newest first; the first may be a DSACK.
    fn tag_sacks(&mut self, now: Time, ack: &AckSegment, news: &mut News, times: &mut SentTimes) {
        let said = &ack.sacks[..usize::from(ack.n_sacks).min(ack.sacks.len())];
        let (una, nxt) = (self.board.una().max(ack.ack), self.board.nxt());
        if let [first, others @ ..] = said {
            if is_dsack(ack.ack, first, others) && first.start < first.end && first.end <= nxt {
                self.on_dsack(*first, ack.ack, news);
            }
        }
        let (mut sacked, mut n) = ([Range::default(); MAX_SACKS], 0);
        let (mut new, mut n_new) = ([(0, Range::default()); MAX_SACKS], 0);
        for block in said {
            // A block below the ACK itself reports nothing about data in flight.
            if block.start < una || block.start >= block.end || block.end > nxt {
                continue;
            }
            sacked[n] = *block;
            n += 1;
            // Most of an ACK's blocks repeat those of the ACK before: no lookup is needed for them.
            if let Some(from) = self.first_unknown(*block) {
                new[n_new] = (from, *block);
                n_new += 1;
            }
        }
        self.sacked = sacked;
        let new = &mut new[..n_new];
        if n_new > 1 {
            new.sort_unstable_by_key(|(from, _)| *from);
        }
        let fack = self.board.fack();
        let spares = n_new > 0 && self.spares_memory();
        for (from, block) in new {
            let mut at = *from;
            if spares || self.spared {
                at = self.looks_again(at, block.start);
            }
            while let Some(i) = self.board.next_unsacked(at, block.end) {
                if spares && !self.can_select(i, block.start, block.end) {
                    self.spared = true;
                    break;
                }
                at = i + 1;
                if self.take_sack(now, i, fack, news, times) == block.end {
                    break;
                }
            }
        }
        if self.state != State::Loss || self.undo.is_some() {
            self.check_reordering(news.reordered_from, fack.max(self.board.fack()));
        }
    }

    /// The number of the first segment of `block` that the ACK before did not SACK.
    #[inline]
    fn first_unknown(&self, block: Range) -> Option<u64> {
        let mut end = 0;
        for known in &self.sacked {
            if known.start <= block.start && block.start < known.end {
                end = known.end;
            }
        }
        if end >= block.end {
            return None;
        }
        // Blocks consist of whole segments.
        let number = if end > 0 {
            self.board.starting_at(end)
        } else {
            None
        };
        Some(number.unwrap_or_else(|| self.board.number_of(block.start)))
    }

    /// Handles the first SACK of segment `i`; returns the byte after its last byte.
    #[inline(never)]
    fn take_sack(
        &mut self,
        now: Time,
        i: u64,
        fack: u64,
        news: &mut News,
        times: &mut SentTimes,
    ) -> u64 {
        let seg = self.board.sack(i);
        self.rack
            .delivered(now.as_us(), seg.sent_us, seg.end(), seg.flags, &self.rtt);
        if !seg.is(RETRANS | EVER_RETRANS) {
            // Sent once, and segments sent later had arrived before it.
            if seg.seq < fack.max(self.board.una()) {
                news.reordered_from = news.reordered_from.min(seg.seq);
            }
            if seg.end() <= self.high_seq {
                news.original_delivered = true;
            }
            times.first_sacked.get_or_insert(seg.sent_us);
            times.last_sacked = Some(seg.sent_us);
        }
        times.delivered(&seg, i);
        news.sacked = true;
        news.delivered += 1;
        news.delivered_bytes += u64::from(seg.len);
        seg.end()
    }

    /// Handles a DSACK: the receiver got `block` twice.
    fn on_dsack(&mut self, block: Range, ack: u64, news: &mut News) {
        let len = block.end - block.start;
        if len > self.max_window {
            return;
        }
        let segments = len.div_ceil(self.mss()).max(1);
        if len <= self.mss() && self.probe.is_some_and(|p| p.high_seq == block.end) {
            news.dsack_of_probe = true;
        }
        self.dsack_dups = self.dsack_dups.saturating_add(segments as u32);
        if u64::from(self.dsack_dups) > self.retransmits {
            return; // the network duplicates
        }
        if self.rack.reordering_seen && !news.dsack_of_probe {
            self.rack.dsack_seen = true;
        }
        news.dsack = true;
        news.delivered += segments as u32;
        let Some(undo) = &mut self.undo else { return };
        if block.end <= ack.max(news.prior_una) && block.end > undo.marker {
            undo.retransmissions = undo
                .retransmissions
                .map(|n| n.saturating_sub(segments as u32));
        } else if block.end > ack {
            // Duplicate data above `una`: the retransmission, if one is out, was redundant.
            let i = self.board.number_of(block.start);
            if self.board.numbers().contains(&i) && self.board.seg(i).is(EVER_RETRANS) {
                if block.end > undo.marker {
                    undo.retransmissions = undo
                        .retransmissions
                        .map(|n| n.saturating_sub(segments as u32));
                }
                self.board.clear_retrans(i);
            }
        }
    }

    /// Removes cumulatively acknowledged segments from the scoreboard; returns their number.
    #[inline]
    fn clean(&mut self, now: Time, ack: u64, news: &mut News, times: &mut SentTimes) -> u32 {
        let mut reordered_from = self.board.nxt();
        let first = self.board.numbers().start;
        loop {
            if let Some(run) = self.board.pop_untouched(ack) {
                news.delivered += run.segments;
                news.delivered_bytes += run.last.end() - run.first_seq;
                times.first_acked.get_or_insert(run.first_sent_us);
                times.last_acked = Some(run.last.sent_us);
                reordered_from = reordered_from.min(run.first_seq);
                news.original_delivered |= run.first_end <= self.high_seq;
                let last = run.last;
                times.delivered(last, run.last_number);
                self.rack
                    .delivered(now.as_us(), last.sent_us, last.end(), last.flags, &self.rtt);
            }
            if !self.board.acknowledges_first(ack) {
                break;
            }
            let sacked = self.board.pop_sacked(ack);
            news.retrans_acked |= sacked & EVER_RETRANS != 0;
            if sacked == 0 {
                self.clean_touched(now, ack, news, times, &mut reordered_from);
            }
        }
        let packets = (self.board.numbers().start - first) as u32;
        // A hole that was never retransmitted got filled although later data had been SACKed.
        if packets > 0 && reordered_from < news.prior_fack {
            self.check_reordering(reordered_from, news.prior_fack);
        }
        packets
    }

    /// Removes the first segment, which is acknowledged and was SACKed, marked lost or
    /// retransmitted.
    #[inline(never)]
    fn clean_touched(
        &mut self,
        now: Time,
        ack: u64,
        news: &mut News,
        times: &mut SentTimes,
        reordered_from: &mut u64,
    ) {
        let number = self.board.numbers().start;
        let Some(seg) = self.board.pop_acked(ack) else {
            return;
        };
        if seg.is(EVER_RETRANS) {
            news.retrans_acked = true;
        } else if !seg.is(SACKED) {
            times.last_acked = Some(seg.sent_us);
            times.first_acked.get_or_insert(seg.sent_us);
            *reordered_from = (*reordered_from).min(seg.seq);
            if seg.end() <= self.high_seq {
                news.original_delivered = true;
            }
        }
        if !seg.is(SACKED) {
            news.delivered += 1;
            news.delivered_bytes += u64::from(seg.len);
            times.delivered(&seg, number);
            // An echo older than the retransmission: the original has arrived.
            let spurious = seg.is(EVER_RETRANS)
                && u64::from(news.tsecr) < seg.sent_us / 1000
                && self.cfg.timestamps;
            if !spurious {
                self.rack
                    .delivered(now.as_us(), seg.sent_us, seg.end(), seg.flags, &self.rtt);
            }
        }
        debug_assert!(!(seg.is(SACKED) && seg.is(LOST)));
    }

    /// Measures the round trip by an ACK; returns the sample for congestion controls, µs.
    #[inline]
    fn take_rtt(&mut self, now: Time, news: &mut News, times: &SentTimes) -> Option<u64> {
        let us = now.as_us();
        let since = |sent: u64| self.since(now, sent);
        let mut sample = None;
        let mut shown = None;
        if let (Some(first), Some(last), false) =
            (times.first_acked, times.last_acked, news.retrans_acked)
        {
            sample = Some(since(first));
            shown = Some(since(last));
        }
        let by_sack = times.first_sacked.map(since);
        if let Some(last) = times.last_sacked {
            shown = Some(since(last));
        }
        sample = sample.or(by_sack);
        if sample.is_none() && news.una_advanced && news.tsecr > 0 {
            let by_stamp = u64::from(stamp(now).saturating_sub(news.tsecr).max(1)) * 1000;
            sample = Some(by_stamp);
            shown = sample;
        }
        if let (Some(m), Some(shown)) = (sample, shown) {
            self.add_rtt(now, m, shown);
        }
        if news.una_advanced {
            news.set_timer = true;
        } else if let (Some(m), Some(first)) = (by_sack, self.board.first()) {
            // SACKs of data sent before the first segment's last transmission must not keep
            // extending its timeout.
            news.set_timer = m > us.saturating_sub(first.sent_us);
        }
        shown
    }

    /// Round trip of a packet that was sent at `sent_us`, µs.
    #[inline(always)]
    pub(super) fn since(&self, now: Time, sent_us: u64) -> u64 {
        self.cfg.clock.since(now.as_us(), sent_us, self.cfg.hz)
    }

    /// Adds a round trip to the estimator, and `least` to the filter of the minimum, µs.
    #[inline(always)]
    pub(super) fn add_rtt(&mut self, now: Time, us: u64, least: u64) {
        self.rtt.sample_min(least, self.ticks.at(now));
        self.rtt.sample(us, self.board.una(), self.board.nxt());
        self.take_timeout(self.rtt.rto_ticks(self.ticks));
    }

    /// `from` was delivered after data up to `fack`: stores that the path reorders, and by how many
    /// segments.
    pub(super) fn check_reordering(&mut self, from: u64, fack: u64) {
        const MOST: u32 = 300;
        if from >= fack {
            return;
        }
        let segments = (fack - from).div_ceil(self.mss());
        self.reordering = self.reordering.max((segments as u32).min(MOST));
        self.rack.reordering_seen = true;
    }

    /// Checks whether the tail loss probe repaired a loss (RFC 8985 section 7.4).
    fn on_probe_acked(&mut self, now: Time, ack: u64, probe: TailProbe, news: &News) {
        if ack < probe.high_seq {
            return;
        }
        if !probe.retransmission || news.dsack_of_probe {
            self.probe = None;
        } else if ack > probe.high_seq {
            // It repaired a loss that no ACK showed: one reduction, over at once.
            self.begin_reduction(now, Cause::TailProbe);
            self.set_state(now, State::Cwr);
            self.end_reduction(now);
            self.keep_open(now);
        } else if !(news.una_advanced || news.window_update || news.sacked) {
            self.probe = None;
        }
    }

    /// The flight record of that delivered packet which was sent last, for congestion controls that
    /// need it.
    #[inline(always)]
    fn flight_told(&self, newest: Option<&Newest>) -> Option<FlightSample> {
        let (flights, newest) = (self.flights.as_ref()?, newest?);
        let then = flights.of(newest.number);
        Some(FlightSample {
            in_flight: then.in_flight,
            delivered: self.delivered.packets - newest.snapshot.delivered,
            delivered_ce: self.delivered_ce - then.delivered_ce,
            lost: self.board.lost_total() - then.lost,
            cwnd_limited: flights.window_limits(),
        })
    }

    /// Sets the window after this ACK: by PRR in recovery, otherwise by the congestion control.
    #[inline(always)]
    fn control_window(&mut self, now: Time, news: &News, mut ev: Ack) {
        ev.state = self.state;
        ev.delivered = news.delivered;
        ev.ece = news.ece;
        ev.marked = news.marked;
        ev.cwnd_limited = self.window_is_limit();
        ev.una = self.board.una();
        ev.nxt = self.board.nxt();
        ev.in_flight = self.board.in_flight();
        ev.may_grow = false;
        if !self.needs.owns_recovery && self.reducing() {
            let safe = self.safe(news, ev.lost);
            self.reduce_window(news.delivered, safe);
        } else {
            // On a path that reorders, selective ACKs count as progress too.
            ev.may_grow = news.una_advanced || (self.reordering > super::REORDERING && news.sacked);
            if ev.may_grow && !self.needs.owns_recovery {
                // As in Linux (`tcp_cong_avoid`), such an ACK is use of the window, even if the
                // window cannot grow.
                self.cwnd_stamp = now;
            }
        }
        self.cc.on_ack(&mut self.w, &ev);
        if self.w.reduce {
            self.w.reduce = false;
            self.enter_cwr(now, Cause::Asked);
        }
    }

    /// Reports congestion to the congestion control.
    pub(super) fn tell_loss(&mut self, now: Time, cause: Cause) {
        let mut ev = Loss::at(now);
        ev.cause = cause;
        ev.in_flight = self.board.in_flight();
        self.cc.on_loss(&mut self.w, &ev);
    }
}
