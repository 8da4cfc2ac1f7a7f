use super::super::limits::PENDING_OF_ADDRESS;
use super::*;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

#[test]
fn an_unvalidated_source_gets_no_more_than_it_sent_and_so_often() {
    let accounts = Accounts::new(Limits {
        packets: 1000,
        ..Limits::default()
    });
    accounts.answers_at(vec![8620]);
    let (to, now) = (at("192.0.2.1:4000"), SECOND);
    assert_eq!(accounts.reply(to, 22, 30, true, now), None);
    assert_eq!(
        accounts.reply(to, 22, 30, true, now),
        Some(Permit { bytes: 30 })
    );
    assert_eq!(accounts.reply(to, 10, 30, true, now), None);
    // Privileged ports, and a port at which this server answers.
    for port in [53, 862, 8620] {
        assert_eq!(
            accounts.reply(SocketAddr::new(to.ip(), port), 64, 64, true, now),
            None
        );
    }
    // A burst of 100 ms of the rate.
    let other = at("[2001:db8::1]:4000");
    let count = |to, now| {
        (0..500)
            .filter(|_| accounts.reply(to, 64, 64, true, now).is_some())
            .count()
    };
    assert_eq!(count(other, now), 101);
    // The same /64.
    assert_eq!(count(at("[2001:db8::2]:4001"), now), 0);
    assert_eq!(count(other, now + SECOND / 2), 101);
    let plain = (0..500).filter(|_| accounts.reply(other, 64, 64, false, now).is_some());
    assert_eq!(plain.count(), 11);
}

#[test]
fn pending_connections_of_one_address_crowd_out_only_their_own() {
    let accounts = Accounts::new(Limits::default());
    let (crowd, one) = (
        Source::from(at("192.0.2.1:1").ip()),
        Source::from(at("192.0.2.2:1").ip()),
    );
    let oldest = accounts.connected(crowd, 5);
    for _ in 1..PENDING_OF_ADDRESS {
        assert!(accounts.connected(crowd, 5).is_some());
        assert_eq!(accounts.crowded(crowd), None);
    }
    assert!(accounts.connected(crowd, 5).is_some() && accounts.connected(one, 5).is_some());
    assert_eq!(
        (accounts.crowded(crowd), accounts.crowded(one)),
        (oldest, None)
    );
    // 1024 at once, then 256 in a second.
    let count = |now| {
        (0..5000)
            .filter(|_| accounts.connected(crowd, now).is_some())
            .count()
    };
    let more = count(5) + PENDING_OF_ADDRESS + 1;
    assert!((1024..=1026).contains(&more), "{more}");
    let more = count(5 + SECOND);
    assert!((255..=257).contains(&more), "{more}");
    assert!(accounts.connected(one, 5).is_some());
}

/// Opens a pending connection from each address, and closes those that the accounts select. `open`
/// has those that remain.
fn crowd(
    accounts: &Accounts,
    addresses: impl Iterator<Item = IpAddr>,
    open: &mut HashMap<u64, Source>,
) {
    for ip in addresses {
        let source = Source::from(ip);
        let id = accounts.connected(source, SECOND).expect("a connection");
        open.insert(id, source);
        if let Some(id) = accounts.crowded(source) {
            let source = open.remove(&id).expect("it is open");
            accounts.settled(source, id);
        }
    }
}

#[test]
fn a_prefix_of_65_536_networks_crowds_out_only_its_own() {
    for client in ["192.0.2.1", "2001:db8:ffff::1", "2001:db8::1", "ffff::1"] {
        let accounts = Accounts::new(Limits::default());
        let client = Source::from(client.parse::<IpAddr>().expect("an address"));
        // The client is there first: it is older than all the others.
        let id = accounts.connected(client, SECOND).expect("a connection");
        let mut open = HashMap::from([(id, client)]);
        let network = |n: u128| {
            IpAddr::from(std::net::Ipv6Addr::from(
                0x2001_0db8_0001 << 80 | n << 64 | 1,
            ))
        };
        crowd(&accounts, (0..1 << 16).map(network), &mut open);
        assert_eq!(open.get(&id), Some(&client));
        assert_eq!(open.len(), accounts.limits.pending());
    }
}

#[test]
fn of_many_unrelated_addresses_the_oldest_makes_room() {
    let accounts = Accounts::new(Limits::default());
    let mut open = HashMap::new();
    // Each address is in another /16.
    let address = |n: u32| IpAddr::from(std::net::Ipv4Addr::from((1 + n) << 16 | 1));
    let most = accounts.limits.pending();
    crowd(&accounts, (0..2 * most as u32).map(address), &mut open);
    let left: std::collections::BTreeSet<u64> = open.into_keys().collect();
    assert!(left.into_iter().eq(most as u64 + 1..=2 * most as u64));
}

#[test]
fn no_network_takes_all_seats() {
    // The number of seats that clients at these addresses get, one after the other, and the last
    // refusal.
    let admitted = |limits: Limits, addresses: &mut dyn Iterator<Item = IpAddr>| {
        let accounts = Accounts::new(limits);
        let (mut seats, mut last) = (Vec::new(), None);
        for ip in addresses {
            match accounts.admit(ip, SECOND) {
                Ok(seat) => seats.push(seat),
                Err(refused) => last = Some(refused),
            }
        }
        (seats.len(), last)
    };
    let limits = Limits::default();
    let v4 = |bits: u32| IpAddr::from(std::net::Ipv4Addr::from(bits));
    let v6 = |bits: u128| IpAddr::from(std::net::Ipv6Addr::from(bits));
    let mut one_24 = (0..200).map(|n| v4(0xc000_0200 + n));
    assert_eq!(admitted(limits, &mut one_24), (32, Some(Refused::Network)));
    let mut one_48 = (0..200).map(|n| v6(0x2001_0db8_0001 << 80 | n << 64 | 1));
    assert_eq!(admitted(limits, &mut one_48), (32, Some(Refused::Network)));
    let mut one_16 = (0..200).map(|n| v4(0xc000_0001 + (n << 8)));
    assert_eq!(admitted(limits, &mut one_16), (48, Some(Refused::Network)));
    let mut one_32 = (0..200).map(|n| v6(0x2001_0db8 << 96 | n << 80 | 1));
    assert_eq!(admitted(limits, &mut one_32), (48, Some(Refused::Network)));
    let mut all = (0..200).map(|n| v4(0x0100_0001 + (n << 16)));
    assert_eq!(admitted(limits, &mut all), (64, Some(Refused::Full)));
    // Behind one NAT there may be as many as the option says.
    let nat = Limits {
        per_address: Some(60),
        ..limits
    };
    let mut same = (0..200).map(|_| v4(0xc000_0201));
    assert_eq!(admitted(nat, &mut same), (60, Some(Refused::Address)));
    // A seat that is given back is free for others of the same network.
    let accounts = Accounts::new(Limits {
        clients: 1,
        ..limits
    });
    for n in 0..3 {
        let seat = accounts.admit(v4(0xc000_0200 + n), SECOND).expect("a seat");
        assert_eq!(accounts.room(v4(0xc000_0210), SECOND), Err(Refused::Full));
        seat.end();
    }
}

#[test]
fn a_wrong_token_costs_more_time_each_time() {
    let accounts = Accounts::new(Limits::default());
    let (ip, mut now) = (at("192.0.2.1:1").ip(), 5);
    let mut waits = Vec::new();
    for _ in 0..12 {
        accounts.guessed(ip, false, now);
        let wait = accounts.may_guess(ip, now).err();
        waits.push(wait.map_or(0, |refused| match refused {
            Refused::Backoff(s) => s,
            other => panic!("{other:?}"),
        }));
        now += waits.last().copied().unwrap_or(0) * SECOND;
        assert_eq!(accounts.may_guess(ip, now), Ok(()));
    }
    assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
    assert_eq!(accounts.may_guess(at("192.0.2.2:1").ip(), 5), Ok(()));
    accounts.guessed(ip, true, now);
    accounts.guessed(ip, false, now);
    assert_eq!(accounts.may_guess(ip, now), Ok(()));
}

#[test]
fn datagrams_of_a_session_are_limited_by_their_number_and_by_their_bytes() {
    let limits = Limits {
        udp_packets: 1000,
        udp_rate: narrows_core::units::Rate::mbit(1),
        ..Limits::default()
    };
    // 1000 datagrams of 16 bytes per second, or 100 of 1250 bytes, and a burst of at most 5 ms.
    for (len, expected) in [(16, 1000..=1006), (1250, 100..=101)] {
        let accounts = Accounts::new(limits);
        let one = accounts
            .admit(at("192.0.2.1:1").ip(), SECOND)
            .expect("a seat");
        let (mut now, mut sent) = (SECOND, 0);
        while now < 2 * SECOND {
            match one.datagrams(32, len, now) {
                Datagrams::Send(n) => sent += n,
                Datagrams::Wait(until) => now = until,
                Datagrams::Stop => panic!("it has not ended"),
            }
        }
        assert!(expected.contains(&sent), "{len}: {sent}");
    }
    // By default, datagrams of UDP load have no higher packet rate than answers.
    assert!(Limits::default().udp_packets <= Limits::default().packets);
}

#[test]
fn senders_wait_while_their_sockets_hold_too_much() {
    let accounts = Accounts::new(Limits::default());
    let one = accounts.admit(at("192.0.2.1:1").ip(), 5).expect("a seat");
    let (mut first, mut second) = (0, 0);
    one.hold(&mut first, 200_000_000, 5);
    assert_eq!(one.load().may_send(6), May::Move);
    one.hold(&mut second, 100_000_000, 5);
    assert!(matches!(one.load().may_send(6), May::Wait(_)));
    one.release(&mut first);
    assert_eq!(one.load().may_send(6), May::Move);
}

#[test]
fn slow_readers_hold_up_only_themselves_and_not_for_long() {
    let accounts = Accounts::new(Limits::default());
    let admit = |address: &str| accounts.admit(at(address).ip(), SECOND).expect("a seat");
    // Two addresses have all of the memory, and both have as many sessions.
    let readers = [
        "192.0.2.1:1",
        "192.0.2.1:2",
        "198.51.100.1:1",
        "198.51.100.1:2",
    ]
    .map(admit);
    let mut charged = [0; 4];
    let charge = |charged: &mut [u64; 4], now| {
        for (reader, charged) in readers.iter().zip(charged) {
            reader.hold(charged, 126_000_000, now);
            reader.alive(now);
        }
    };
    charge(&mut charged, SECOND);
    let (other, mut few) = (admit("203.0.113.1:1"), 0);
    other.hold(&mut few, 20_000_000, SECOND);
    other.alive(SECOND);
    charge(&mut charged, 2 * SECOND);
    for reader in &readers {
        assert!(matches!(reader.load().may_send(2 * SECOND), May::Wait(_)));
        assert!(!reader.stuck(2 * SECOND + GONE));
        assert!(reader.stuck(2 * SECOND + GONE + 1));
    }
    assert_eq!(other.load().may_send(2 * SECOND), May::Move);
    assert!(!other.stuck(3 * GONE));
    // One that reads gives its part back and goes on.
    readers[0].hold(&mut charged[0], 1_000_000, 3 * SECOND);
    readers[1].hold(&mut charged[1], 60_000_000, 3 * SECOND);
    assert!(!readers[0].stuck(3 * GONE) && !readers[1].stuck(3 * GONE));
    assert_eq!(readers[1].load().may_send(2 * SECOND), May::Move);
    for (reader, charged) in readers.iter().zip(&mut charged) {
        reader.release(charged);
    }
    other.release(&mut few);
    let table = lock(&accounts.table);
    assert_eq!((table.memory, table.holders), (0, 0));
}

#[test]
fn a_table_of_many_addresses_stays_small() {
    let accounts = Accounts::new(Limits::default());
    for n in 0..100_000_u32 {
        let source = Source::from(IpAddr::from(n.to_be_bytes()));
        let now = u64::from(n) * 1_000_000;
        let id = accounts.connected(source, now).expect("a connection");
        accounts.settled(source, id);
    }
    assert!(lock(&accounts.table).of.len() <= ACCOUNTS + 200);
}

#[test]
fn a_crowd_does_not_make_an_address_that_has_to_wait_forgotten() {
    let accounts = Accounts::new(Limits::default());
    let guesser = at("192.0.2.1:1").ip();
    for _ in 0..6 {
        accounts.guessed(guesser, false, SECOND);
    }
    assert_eq!(
        accounts.may_guess(guesser, SECOND),
        Err(Refused::Backoff(8))
    );
    for n in 0..6 * ACCOUNTS as u32 {
        let ip = IpAddr::from((0x0a00_0000 + n).to_be_bytes());
        // 20,000 a second; some try a token, too, and have to wait for less.
        let now = SECOND + u64::from(n) * 50_000;
        let source = Source::from(ip);
        let id = accounts.connected(source, now).expect("a connection");
        accounts.settled(source, id);
        for _ in 0..FREE_GUESSES {
            accounts.guessed(ip, false, now);
        }
    }
    assert_eq!(
        accounts.may_guess(guesser, 6 * SECOND),
        Err(Refused::Backoff(3))
    );
    // Its next wrong token costs twice as much as the one before, although it has waited.
    accounts.guessed(guesser, false, 10 * SECOND);
    assert_eq!(
        accounts.may_guess(guesser, 10 * SECOND),
        Err(Refused::Backoff(16))
    );
    let known = lock(&accounts.table).of.len();
    assert!(known <= 3 * ACCOUNTS, "{known}");
}
