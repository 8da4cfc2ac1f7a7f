//! Tests of a session: silent clients, the seat, samples, and the rate of replies.

use super::super::fed;
use super::super::limits::{GONE, Limits};
use super::super::metered::Accepted;
use super::*;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

fn accepted(listener: &OwnedFd, shared: &Shared) -> (TcpStream, Connection) {
    let near = TcpStream::connect(socket::local(listener).unwrap()).unwrap();
    loop {
        let now = sys::monotonic();
        if let Accepted::Connection(link) =
            Connection::accept(listener, &shared.accounts, false, now).unwrap()
        {
            return (near, link);
        }
    }
}

#[test]
fn a_download_that_nobody_reads_ends_and_gives_its_seat_back() {
    let shared = fed::shared();
    let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (_near, mut control) = accepted(&listener, &shared);
    let (mut out, now) = (Vec::new(), sys::monotonic());
    let mut session = Session::new(&control, [1; 16], now, &mut out, &shared).unwrap();
    let ask = |session: &mut Session, value: &Value, now| {
        session
            .heard(&wire::to_frame(value), &mut Vec::new(), now, &shared)
            .map(drop)
    };
    ask(&mut session, &json!({ "proof": null }), now).unwrap();
    control.admit(session.allowance().unwrap());
    assert_eq!(shared.accounts.clients(), 1);
    ask(
        &mut session,
        &json!({ "do": "open", "stream": 1, "direction": "down" }),
        now,
    )
    .unwrap();
    let (_load, link) = accepted(&listener, &shared);
    session.joined(1, link, &mut out, now, &shared).unwrap();
    ask(
        &mut session,
        &json!({ "do": "start", "streams": [1], "sample_ms": 10 }),
        now,
    )
    .unwrap();
    // The load fills the buffers of both ends, and then nothing moves any more.
    let moved = |session: &Session| match session.flows.get(&1) {
        Some(Flow::Here(carried, _)) => sys::tcp_info(carried.stream.socket()).unwrap().bytes_acked,
        _ => panic!("no stream"),
    };
    let mut last = (0, 0);
    while last.0 == 0 || last.1 < 20 {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let now = moved(&session);
        last = if now == last.0 {
            (now, last.1 + 1)
        } else {
            (now, 0)
        };
    }
    let now = sys::monotonic();
    session.look(now);
    // Samples that the session takes itself are no sign of life.
    for at in 1..=10 {
        assert_eq!(
            session.tick(&mut Vec::new(), now + at * GONE / 10, &shared),
            Ok(())
        );
        session.look(now + at * GONE / 10);
    }
    assert_eq!(
        session.tick(&mut Vec::new(), now + GONE + 1, &shared),
        Err(End::Timeout)
    );
    session.gone(&shared);
    assert_eq!(shared.accounts.clients(), 0);
}

#[test]
fn nothing_is_sent_without_a_sign_of_life() {
    let shared = fed::shared();
    let allowance = shared.admit("192.0.2.1".parse().unwrap(), 1).unwrap();
    use super::super::budget::Datagrams;
    use super::super::limits::SILENCE;
    assert_eq!(
        allowance.datagrams(1, 1200, 1 + SILENCE),
        Datagrams::Send(1)
    );
    assert!(matches!(
        allowance.datagrams(1, 1200, 2 + SILENCE),
        Datagrams::Wait(_)
    ));
    allowance.alive(SILENCE);
    assert_eq!(
        allowance.datagrams(1, 1200, 2 + SILENCE),
        Datagrams::Send(1)
    );
    // Without --udp-rate, the rate is 1 Gbit/s, with a burst of at most 5 ms.
    let now = 3 + SILENCE;
    let burst: usize = std::iter::repeat_with(|| match allowance.datagrams(32, 1200, now) {
        Datagrams::Send(n) => n,
        _ => 0,
    })
    .take_while(|n| *n > 0)
    .sum();
    assert!((500..=530).contains(&burst), "{burst}");
    allowance.end();
    assert_eq!(
        allowance.datagrams(1, 1200, now + 1_000_000_000),
        Datagrams::Stop
    );
    assert_eq!(allowance.answer(64, now), None);
}

#[test]
fn the_samples_of_many_streams_are_limited_together() {
    const STREAMS: u16 = 80;
    let shared = fed::limited(Limits {
        new_connections: (1000, 1000),
        ..Limits::default()
    });
    let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (_near, mut control) = accepted(&listener, &shared);
    let (mut out, now) = (Vec::new(), sys::monotonic());
    let mut session = Session::new(&control, [1; 16], now, &mut out, &shared).unwrap();
    let ask = |session: &mut Session, value: Value| {
        let heard = session.heard(&wire::to_frame(&value), &mut Vec::new(), now, &shared);
        heard.map(drop)
    };
    ask(&mut session, json!({ "proof": null })).unwrap();
    control.admit(session.allowance().unwrap());
    let mut near = Vec::new();
    for stream in 1..=STREAMS {
        let open =
            json!({ "do": "open", "stream": stream, "direction": "down", "pacing_bytes": 1 });
        ask(&mut session, open).unwrap();
        let (end, link) = accepted(&listener, &shared);
        near.push(end);
        session
            .joined(stream, link, &mut out, now, &shared)
            .unwrap();
    }
    let streams: Vec<u16> = (1..=STREAMS).collect();
    let start = json!({ "do": "start", "streams": streams, "sample_ms": 10 });
    ask(&mut session, start).unwrap();
    let mut rows = 0;
    for ms in 0..2000 {
        out.clear();
        session
            .tick(&mut out, now + ms * 1_000_000, &shared)
            .unwrap();
        let mut left = out.as_slice();
        while let Ok(Some((frame, took))) = wire::frame(left, ANSWER) {
            rows += frame["rows"].as_array().map_or(0, |rows| rows.len() as u64);
            left = &left[took..];
        }
    }
    // Without the limit there would be 100 rows per second of each stream.
    assert!(
        (3 * ROWS / 2..=2 * ROWS + u64::from(STREAMS)).contains(&rows),
        "{rows} rows"
    );
    session.gone(&shared);
}

#[test]
fn replies_keep_the_rate() {
    let rate = narrows_core::units::Rate::bit(100_000);
    let shared = fed::limited(Limits {
        rate: Some(rate),
        ..Limits::default()
    });
    let listener = socket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (_near, mut control) = accepted(&listener, &shared);
    let (mut out, now) = (Vec::new(), sys::monotonic());
    let mut session = Session::new(&control, [1; 16], now, &mut out, &shared).unwrap();
    let proof = wire::to_frame(&json!({ "proof": null }));
    session.heard(&proof, &mut out, now, &shared).unwrap();
    control.admit(session.allowance().unwrap());
    // A stream number that occurs several times in a request is answered once.
    let mut input: Vec<u8> = Vec::new();
    let streams = vec![1; 200];
    for _ in 0..2000 {
        input.extend(wire::to_frame(&json!({ "do": "stop", "streams": streams })));
    }
    let mut sent = 0;
    for ms in 0..2000 {
        let now = now + ms * 1_000_000;
        out.clear();
        // Requests are processed at the start, and whenever the session is due.
        if ms > 0 && session.due() > now {
            continue;
        }
        let took = session.heard(&input, &mut out, now, &shared).unwrap();
        input.drain(..took);
        sent += out.len();
        assert_eq!(session.waits(), !input.is_empty());
    }
    // The rate for two seconds, a burst, and the reply that exceeds it.
    assert!((20_000..29_000).contains(&sent), "{sent} bytes");
    session.gone(&shared);
}
