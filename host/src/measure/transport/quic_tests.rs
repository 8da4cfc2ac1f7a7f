use super::*;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Two sockets of this machine that are connected to each other.
fn pair() -> (UdpSocket, UdpSocket) {
    let (near, far) = ("127.0.0.1:0", "127.0.0.1:0").map_both(UdpSocket::bind);
    near.connect(far.local_addr().unwrap()).unwrap();
    far.connect(near.local_addr().unwrap()).unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

trait Both<T> {
    fn map_both<U>(self, each: impl Fn(T) -> std::io::Result<U>) -> (U, U);
}

impl<T> Both<T> for (T, T) {
    fn map_both<U>(self, each: impl Fn(T) -> std::io::Result<U>) -> (U, U) {
        (each(self.0).unwrap(), each(self.1).unwrap())
    }
}

/// A connection between two ends, of which the first one is the client.
struct Ends {
    sockets: (OwnedFd, OwnedFd),
    near: Box<dyn DatagramFlow>,
    far: Box<dyn DatagramFlow>,
    budgets: (Arc<Budget>, Arc<Budget>),
}

impl Ends {
    /// `role`: that of the client; `most`: bytes that the sender may send.
    fn new(role: Role, cc: &str, key: PublicKey, most: u64) -> Ends {
        let (near, far) = pair();
        let (at, peer) = (near.local_addr().unwrap(), far.local_addr().unwrap());
        let cc = super::cc(Some(cc)).unwrap();
        let budgets = match role {
            Role::Sender => (Budget::new(None, most), Budget::new(None, u64::MAX)),
            Role::Receiver => (Budget::new(None, u64::MAX), Budget::new(None, most)),
        };
        let other = match role {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        };
        Ends {
            near: connect(role, cc, (key, peer), 0, &budgets.0).unwrap(),
            far: accept(other, cc, at, 0, &budgets.1).unwrap(),
            sockets: (near.into(), far.into()),
            budgets,
        }
    }
    /// Lets both ends take their turns until `done`, for at most 10 s.
    fn until(&mut self, done: impl Fn(&Ends) -> bool) {
        let begun = Instant::now();
        while !done(self) && begun.elapsed() < Duration::from_secs(10) {
            self.near.turn(&self.sockets.0, &self.budgets.0);
            self.far.turn(&self.sockets.1, &self.budgets.1);
        }
        let seen = |end: &dyn DatagramFlow| (end.progress(), end.moved(), end.row(0), end.ended());
        let (near, far) = (seen(&*self.near), seen(&*self.far));
        assert!(done(self), "{} {near:?} {far:?}", self.near.cc());
    }
}

#[test]
fn each_control_moves_data_in_each_direction() {
    for role in [Role::Sender, Role::Receiver] {
        for cc in CCS {
            let mut ends = Ends::new(role, cc, public_key().unwrap(), u64::MAX);
            ends.until(|ends| ends.near.progress().min(ends.far.progress()) > 3_000_000);
            let (sender, receiver) = match role {
                Role::Sender => (&ends.near, &ends.far),
                Role::Receiver => (&ends.far, &ends.near),
            };
            assert_eq!(sender.cc(), cc);
            // Acknowledged data has arrived, and no more than was written arrives.
            assert!(sender.progress() <= receiver.progress());
            assert!(receiver.progress() <= sender.moved());
            let row = sender.row(sys::monotonic());
            assert!(row.rtt > 0 && row.min_rtt <= row.rtt && row.cwnd > 0 && row.sent > row.bytes);
            assert!(sender.payload() >= 1200);
            // Nothing of the data is stored.
            assert!(receiver.memory() <= MEMORY.0 + WINDOW.1 / MEMORY.1);
        }
    }
}

#[test]
fn a_budget_ends_a_flow() {
    let mut ends = Ends::new(Role::Sender, "cubic", public_key().unwrap(), 500_000);
    let stops = |ends: &Ends| ends.budgets.0.spent();
    ends.until(stops);
    assert_eq!(ends.near.turn(&ends.sockets.0, &ends.budgets.0), Next::Stop);
    assert!(
        (450_000..=500_000).contains(&ends.near.moved()),
        "{}",
        ends.near.moved()
    );
}

#[test]
fn another_key_than_the_pinned_one_is_refused() {
    let mut key = public_key().unwrap();
    key[KEY - 1] ^= 1;
    let mut ends = Ends::new(Role::Sender, "cubic", key, u64::MAX);
    ends.until(|ends| ends.near.ended().is_some());
    let Some(Ended::Closed(why)) = ends.near.ended() else {
        panic!("{:?}", ends.near.ended());
    };
    assert!(why.contains("another public key"), "{why}");
    assert_eq!(ends.near.moved(), 0);
}

#[test]
fn garbage_gets_no_reply_and_changes_nothing() {
    let (near, far) = pair();
    let budget = Budget::new(None, u64::MAX);
    let at = near.local_addr().unwrap();
    let mut flow = accept(Role::Receiver, "cubic", at, 0, &budget).unwrap();
    let fd: OwnedFd = far.into();
    // Long and short headers, unknown versions, and no QUIC at all.
    for first in [0x00, 0x40, 0x7f, 0xc0, 0xc3, 0xff] {
        for len in [1, 20, 300, 1200, 1500] {
            let mut bytes = vec![0x5a; len];
            bytes[0] = first;
            near.send(&bytes).unwrap();
            for version in [[0, 0, 0, 1], [0xba, 0xba, 0xba, 0xba]] {
                if len >= 20 {
                    bytes[1..5].copy_from_slice(&version);
                    bytes[5] = 8;
                    bytes[14] = 0;
                    near.send(&bytes).unwrap();
                }
            }
        }
        flow.turn(&fd, &budget);
    }
    let mut reply = [0; 2000];
    assert!(near.recv(&mut reply).is_err());
    assert_eq!((flow.progress(), flow.ended()), (0, None));
}

#[test]
fn ranges_are_merged_and_counted() {
    let mut arrived = Arrived::default();
    for start in (0..100).map(|i| i * 20) {
        arrived.add(start, 10);
    }
    assert_eq!((arrived.ranges.len(), arrived.bytes), (100, 1000));
    for start in (0..99).map(|i| i * 20 + 10) {
        arrived.add(start, 10);
    }
    assert_eq!(arrived.ranges.into_iter().collect::<Vec<_>>(), [(0, 1990)]);
    assert_eq!(arrived.bytes, 1990);
}

#[test]
fn an_unknown_control_is_refused_by_name() {
    assert_eq!(cc(None), Ok("cubic"));
    let refused = cc(Some("reno")).unwrap_err();
    assert!(refused.contains("cubic, newreno, bbr"), "{refused}");
}
