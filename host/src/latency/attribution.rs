//! Whose delay it is: a round trip cut into what the two applications, their two kernels and the
//! wire took.
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
//! | client application | a question is due, or its answer has come | the application, busy until then, asks or waits again |
//! | client kernel | the application asks, or sleeps | the kernel stamped the packet on its way out, or woke the application |
//! | wire | the one kernel's stamp on the way out | the other's on the way in, both ways together |
//! | server kernel, server application | likewise | likewise |
//!
//! **Asleep or busy** is what tells kernel from application: whoever sleeps in a call that waits
//! and is woken late was kept by its kernel (another program had the processor, the processor
//! slept); whoever was at something else when the packet came kept it waiting itself.
//!
//! The two clocks are never compared: the wire is what the near end saw between its stamps, less
//! what the far end saw between its own. What a protocol does not tell stays together: `server` is
//! a far end that does not say what its kernel took of it, `beyond` is everything that is not told
//! apart beyond the near end's last known stamp.

/// One of the parts.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The near end's application was busy.
    ClientApplication,
    /// The near end's kernel.
    ClientKernel,
    /// Everything between the two kernels.
    Wire,
    /// The far end's kernel.
    ServerKernel,
    /// The far end's application.
    ServerApplication,
    /// The far end, as a whole.
    Server,
    /// Wire and far end, or what of them is not told.
    Beyond,
}

/// How many parts there are.
pub const PARTS: usize = 7;

/// All of them, with their names in JSON.
pub const NAMES: [(&str, Part); PARTS] = [
    ("client_application", Part::ClientApplication),
    ("client_kernel", Part::ClientKernel),
    ("wire", Part::Wire),
    ("server_kernel", Part::ServerKernel),
    ("server_application", Part::ServerApplication),
    ("server", Part::Server),
    ("beyond", Part::Beyond),
];

/// Stamps of the near end, ns of its even clock; zero is not known.
#[derive(Copy, Clone, Debug, Default)]
pub struct Near {
    /// The question was to leave.
    pub due: u64,
    /// The application has slept since then, waiting for that.
    pub rested: u64,
    /// The application asks.
    pub sent: u64,
    /// Its kernel hands the question to the device.
    pub departed: u64,
    /// Its kernel has the answer.
    pub arrived: u64,
    /// The application has waited for it since then.
    pub waiting: u64,
    /// It has it.
    pub read: u64,
    /// From one hardware stamp to the other, where a device has both.
    pub hardware: u64,
}

/// Stamps of the far end, ns of its own clock; zero is not known.
#[derive(Copy, Clone, Debug, Default)]
pub struct Far {
    /// Its kernel has the question.
    pub received: u64,
    /// Its application waits, and the question is there.
    pub ready: u64,
    /// It has it.
    pub read: u64,
    /// It answers.
    pub answered: u64,
    /// Its kernel hands the answer to the device.
    pub departed: u64,
}

/// What each part took, ns, where it is known.
pub type Parts = [Option<u64>; PARTS];

fn known(stamp: u64) -> Option<u64> {
    (stamp != 0).then_some(stamp)
}

/// Cuts a round trip; false: the stamps contradict each other, for a clock was set.
pub fn split(near: &Near, far: &Far) -> (Parts, bool) {
    let mut parts: Parts = [None; PARTS];
    let mut right = true;
    let mut from = |later: u64, earlier: u64| {
        // A stamp in between may have been converted by some tens of ns.
        right &= later + 2_000 >= earlier;
        later.saturating_sub(earlier)
    };
    // Between due and asked: busy until it rested, then kept asleep.
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
                // The devices' own stamps: what lies between them and the software's is the
                // kernel's, too.
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

/// Who is to blame: the part that took most beyond what it usually takes, ns.
pub fn attribute(parts: &Parts, usual: &[u64; PARTS]) -> Option<Part> {
    let beyond = |i: usize| parts[i].map(|took| (took.saturating_sub(usual[i]), i));
    let worst = (0..PARTS)
        .filter_map(beyond)
        .max_by_key(|(more, i)| (*more, PARTS - i));
    worst.map(|(_, i)| NAMES[i].1)
}

impl Part {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An exchange in which everything takes a microsecond, but the wire ten each way.
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
        // Busy when the question was due; asleep, and woken late; held in its kernel.
        assert_eq!(attributed(&later(&near, 1), &far), "client_application");
        assert_eq!(attributed(&later(&near, 2), &far), "client_kernel");
        assert_eq!(attributed(&later(&near, 3), &far), "client_kernel");
        assert_eq!(attributed(&later(&near, 4), &far), "wire");
        // Busy when the answer came; asleep, and woken late.
        let mut busy = later(&near, 6);
        busy.waiting = busy.read - 500;
        assert_eq!(attributed(&busy, &far), "client_application");
        assert_eq!(attributed(&later(&near, 6), &far), "client_kernel");
        // The same at the far end: all that the near end sees is an answer that comes late.
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
