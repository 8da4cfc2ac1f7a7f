//! Attribution of delay: divides a response time among the two applications, their two kernels, and
//! the network.
//!
//! ```text
//! client  due ─ sent ─ departed ··································· arrived ─ read
//!               app    kernel   \                                /  kernel    app
//! wire                           \  wire                  wire  /
//! server                          received ─ ready/read ─ answered ─ departed
//!                                 kernel         app       kernel
//! ```
//!
//! | part | from | to |
//! |---|---|---|
//! | client application | question due, or answer arrived | the application sends or waits |
//! | client kernel, out | the application sends | the kernel timestamps the departing packet |
//! | client kernel, in | the kernel timestamps the answer | the waiting application is woken |
//! | wire | departure timestamp of one kernel | arrival timestamp of the other, both ways |
//! | server kernel, server application | as for the client | as for the client |
//!
//! **Waiting or busy.** If the application waits in a system call and is woken late, the delay is
//! attributed to its kernel. Then another program had the processor, or the processor had to leave
//! an idle state. If the application was busy when the packet arrived, the delay is attributed to
//! the application.
//!
//! The clocks of the two hosts are never compared. The delay of the wire is the time between
//! departure and arrival at the client minus the time between arrival and departure at the server.
//! Parts that a protocol does not report separately are not divided. `server` is the whole delay of
//! a server whose protocol does not separate kernel and application. `beyond` is the rest of the
//! time that the client's timestamps leave, if the network cannot be separated from the far kernel.

/// A part of the delay.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The client's application, because it was busy.
    ClientApplication,
    /// The client's kernel.
    ClientKernel,
    /// The network between the two kernels.
    Wire,
    /// The server's kernel.
    ServerKernel,
    /// The server's application, because it was busy, or while it processed the question.
    ServerApplication,
    /// The server as a whole.
    Server,
    /// Everything outside the known parts: the network, and parts of the two hosts that cannot be
    /// separated from it.
    Beyond,
}

/// Number of parts.
pub const PARTS: usize = 7;

/// All parts, with their names in JSON.
pub const NAMES: [(&str, Part); PARTS] = [
    ("client_application", Part::ClientApplication),
    ("client_kernel", Part::ClientKernel),
    ("wire", Part::Wire),
    ("server_kernel", Part::ServerKernel),
    ("server_application", Part::ServerApplication),
    ("server", Part::Server),
    ("beyond", Part::Beyond),
];

/// Timestamps of the client, ns of its monotonic clock; 0: unknown.
#[derive(Copy, Clone, Debug, Default)]
pub struct Near {
    /// Time at which the question was due.
    pub due: u64,
    /// Time at which the application started to sleep until the question was due.
    pub rested: u64,
    /// Time at which the application sent the question.
    pub sent: u64,
    /// Time at which the kernel of the client passed the question to the device.
    pub departed: u64,
    /// Time at which the kernel of the client received the answer.
    pub arrived: u64,
    /// Time at which the application started to wait for answers.
    pub waiting: u64,
    /// Time at which the application received the answer.
    pub read: u64,
    /// Time between the hardware timestamps of departure and arrival, if the device has both.
    pub hardware: u64,
}

/// Timestamps of the server, ns of its own clock; 0: unknown.
#[derive(Copy, Clone, Debug, Default)]
pub struct Far {
    /// Time at which the kernel of the server received the question.
    pub received: u64,
    /// Time from which on the question had arrived and the application of the server waited.
    pub ready: u64,
    /// Time at which the application of the server received the question.
    pub read: u64,
    /// Time at which the application of the server answered.
    pub answered: u64,
    /// Time at which the kernel of the server passed the answer to the device.
    pub departed: u64,
}

/// Time of each part, ns; `None`: unknown.
pub type Parts = [Option<u64>; PARTS];

fn known(stamp: u64) -> Option<u64> {
    (stamp != 0).then_some(stamp)
}

/// Divides a response time. The second value is `false` if the timestamps contradict each other, as
/// after a clock was set.
pub fn split(near: &Near, far: &Far) -> (Parts, bool) {
    let mut parts: Parts = [None; PARTS];
    let mut right = true;
    let mut from = |later: u64, earlier: u64| {
        // An intermediate timestamp may differ by some tens of ns after its conversion.
        right &= later + 2_000 >= earlier;
        later.saturating_sub(earlier)
    };
    // Between due and sent, the application was busy until it went to sleep; the rest is a late
    // wake-up by the kernel.
    let busy = near.rested.clamp(near.due, near.sent.max(near.due)) - near.due;
    let woken_late =
        near.sent.saturating_sub(near.due) - busy.min(near.sent.saturating_sub(near.due));
    let (mut application, mut kernel) = (busy, woken_late);
    let stamped = known(near.departed).zip(known(near.arrived));
    if let Some((departed, arrived)) = stamped {
        kernel += from(departed, near.sent);
        let awaited = near.waiting.clamp(arrived, near.read.max(arrived));
        application += awaited - arrived;
        kernel += from(near.read, awaited);
    }
    let outside = match stamped {
        Some((departed, arrived)) => {
            let outside = from(arrived, departed);
            match known(near.hardware) {
                // The time between hardware and software timestamps belongs to the kernel.
                Some(hardware) if hardware <= outside => {
                    kernel += outside - hardware;
                    hardware
                }
                _ => outside,
            }
        }
        None => from(near.read, near.sent),
    };
    parts[Part::ClientApplication as usize] = Some(application);
    parts[Part::ClientKernel as usize] = stamped.map(|_| kernel);
    let entered = known(far.received).or(known(far.read));
    let left = known(far.departed).or(known(far.answered));
    let Some((entered, left)) = entered.zip(left) else {
        parts[Part::Beyond as usize] = Some(outside);
        return (parts, right);
    };
    let within = from(left, entered);
    let rest = from(outside, within);
    match (known(far.received), known(far.read)) {
        (Some(received), Some(read)) => {
            let ready = far.ready.clamp(received, read.max(received));
            let leaving =
                known(far.departed).map_or(0, |departed| departed.saturating_sub(far.answered));
            parts[Part::ServerKernel as usize] = Some(read.saturating_sub(ready) + leaving);
            parts[Part::ServerApplication as usize] =
                Some((ready - received) + from(far.answered, read));
        }
        (None, Some(read)) => {
            parts[Part::ServerApplication as usize] = Some(from(far.answered, read))
        }
        _ => parts[Part::Server as usize] = Some(within),
    }
    let whole = stamped.is_some() && far.received != 0;
    parts[if whole { Part::Wire } else { Part::Beyond } as usize] = Some(rest);
    (parts, right)
}

/// The part to which a slow answer is attributed: the one with the largest excess over `usual`, its
/// median so far in ns.
pub fn attribute(parts: &Parts, usual: &[u64; PARTS]) -> Option<Part> {
    let beyond = |i: usize| parts[i].map(|took| (took.saturating_sub(usual[i]), i));
    let worst = (0..PARTS)
        .filter_map(beyond)
        .max_by_key(|(more, i)| (*more, PARTS - i));
    worst.map(|(_, i)| NAMES[i].1)
}

impl Part {
    /// The name of the part in JSON.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An exchange in which each part takes 1 µs, except the wire with 10 µs in each direction.
    fn usual() -> (Near, Far) {
        let near = Near {
            due: 1_000_000,
            rested: 500_000,
            sent: 1_001_000,
            departed: 1_002_000,
            arrived: 1_026_000,
            waiting: 1_002_000,
            read: 1_027_000,
            hardware: 0,
        };
        let far = Far {
            received: 77_000,
            ready: 77_000,
            read: 78_000,
            answered: 79_000,
            departed: 80_000,
        };
        (near, far)
    }

    fn attributed(near: &Near, far: &Far) -> &'static str {
        let (parts, right) = split(near, far);
        assert!(right);
        let sum: u64 = parts.iter().flatten().sum();
        assert_eq!(sum, near.read - near.due, "{parts:?}");
        let (a, b) = usual();
        attribute(&parts, &split(&a, &b).0.map(|part| part.unwrap_or(0)))
            .unwrap()
            .name()
    }

    #[test]
    fn the_parts_of_a_round_trip() {
        let (near, far) = usual();
        let (parts, right) = split(&near, &far);
        assert!(right);
        assert_eq!(
            parts,
            [
                Some(0),
                Some(3000),
                Some(21_000),
                Some(2000),
                Some(1000),
                None,
                None
            ]
        );
    }

    #[test]
    fn a_stall_anywhere_is_whose_it_is() {
        let later = |near: &Near, from: usize| {
            let mut stamps = [
                near.due,
                near.rested,
                near.sent,
                near.departed,
                near.arrived,
                near.waiting,
                near.read,
            ];
            for stamp in &mut stamps[from..] {
                *stamp += 4 * MS;
            }
            let [due, rested, sent, departed, arrived, waiting, read] = stamps;
            Near {
                due,
                rested,
                sent,
                departed,
                arrived,
                waiting,
                read,
                hardware: 0,
            }
        };
        let (near, far) = usual();
        // Client: busy when the question was due; woken late; the question delayed in the kernel.
        assert_eq!(attributed(&later(&near, 1), &far), "client_application");
        assert_eq!(attributed(&later(&near, 2), &far), "client_kernel");
        assert_eq!(attributed(&later(&near, 3), &far), "client_kernel");
        assert_eq!(attributed(&later(&near, 4), &far), "wire");
        // Client: busy when the answer arrived; woken late.
        let mut busy = later(&near, 6);
        busy.waiting = busy.read - 500;
        assert_eq!(attributed(&busy, &far), "client_application");
        assert_eq!(attributed(&later(&near, 6), &far), "client_kernel");
        // The same at the server, which the client observes as a late answer.
        let near = later(&near, 4);
        let mut stamps = [
            far.received,
            far.ready,
            far.read,
            far.answered,
            far.departed,
        ];
        for (from, who) in [
            (4, "server_kernel"),
            (3, "server_application"),
            (2, "server_kernel"),
            (1, "server_application"),
        ] {
            let mut slow = stamps;
            slow[from..].iter_mut().for_each(|stamp| *stamp += 4 * MS);
            let [received, ready, read, answered, departed] = slow;
            assert_eq!(
                attributed(
                    &near,
                    &Far {
                        received,
                        ready,
                        read,
                        answered,
                        departed
                    }
                ),
                who
            );
        }
        stamps[0] -= 1;
        assert_eq!(
            attributed(
                &near,
                &Far {
                    received: stamps[0],
                    ..far
                }
            ),
            "wire"
        );
    }

    #[test]
    fn what_is_not_told_stays_together() {
        let (near, far) = usual();
        let only = |far: Far| split(&near, &far).0;
        assert_eq!(only(Far::default())[Part::Beyond as usize], Some(24_000));
        let stamp = only(Far {
            ready: 0,
            read: 0,
            ..far
        });
        assert_eq!(
            (stamp[Part::Server as usize], stamp[Part::Wire as usize]),
            (Some(3000), Some(21_000))
        );
        let irtt = only(Far {
            received: 0,
            ready: 0,
            departed: 0,
            ..far
        });
        assert_eq!(
            (
                irtt[Part::ServerApplication as usize],
                irtt[Part::Beyond as usize]
            ),
            (Some(1000), Some(23_000))
        );
        let unstamped = Near {
            departed: 0,
            arrived: 0,
            ..near
        };
        let (parts, _) = split(&unstamped, &Far::default());
        assert_eq!(
            (
                parts[Part::ClientKernel as usize],
                parts[Part::Beyond as usize]
            ),
            (None, Some(26_000))
        );
    }

    #[test]
    fn stamps_of_a_clock_that_was_set_are_no_answer() {
        let (near, far) = usual();
        assert!(!split(&Near { arrived: 5, ..near }, &far).1);
        assert!(
            !split(
                &near,
                &Far {
                    departed: far.received + 40_000_000,
                    ..far
                }
            )
            .1
        );
    }
}
