//! Both sides of the C interface in one program: an endpoint that sends back what it receives.

use narrows_endpoint::{Ecn, Endpoint, Nanos, Role, Setting, Stats, UDP_HEADERS, raw};

/// Sends back each datagram after 1 µs, and reports the seed as its window.
struct Echo {
    seed: u64,
    held: Option<(Nanos, Vec<u8>, Ecn)>,
    fault: Option<String>,
}

fn open(setting: &Setting<'_>) -> Result<Box<dyn Endpoint>, String> {
    match (setting.cc, setting.role) {
        ("none", Role::Sender) if setting.ecn && setting.mtu == 1500 => Ok(Box::new(Echo {
            seed: setting.seed,
            held: None,
            fault: None,
        })),
        (cc, _) => Err(format!("no {cc}")),
    }
}

impl Endpoint for Echo {
    fn start(&mut self, _now: Nanos) {}
    fn handle(&mut self, now: Nanos, datagram: &mut [u8], ecn: Ecn) {
        assert!(!datagram.is_empty(), "an empty datagram");
        self.held = Some((now + 1000, datagram.to_vec(), ecn));
    }
    fn poll(&mut self, now: Nanos, buffer: &mut Vec<u8>) -> Option<Ecn> {
        let (_, datagram, ecn) = self.held.take_if(|(due, ..)| *due <= now)?;
        buffer.extend_from_slice(&datagram);
        Some(ecn)
    }
    fn timeout(&self) -> Option<Nanos> {
        self.held.as_ref().map(|(due, ..)| *due)
    }
    fn on_timeout(&mut self, _now: Nanos) {}
    fn offer(&mut self, _now: Nanos, total: u64) {
        if total == 0 {
            self.fault = Some("it is over".into());
        }
    }
    fn stats(&self) -> Stats {
        Stats {
            cwnd: self.seed,
            ..Stats::default()
        }
    }
    fn fault(&self) -> Option<String> {
        self.fault.clone()
    }
}

narrows_endpoint::export! {
    { "echo", "echo 1", "an echo", "none,other", narrows_endpoint::UDP_HEADERS, open }
}

fn opened(cc: &str) -> Result<Box<dyn Endpoint>, String> {
    // SAFETY: the function is that of this program.
    let kinds = unsafe { raw::kinds(narrows_exported::narrows_transports) }.unwrap();
    let [kind] = &kinds[..] else {
        panic!("{kinds:?}");
    };
    assert_eq!(
        (kind.name, kind.version, kind.help),
        ("echo", "echo 1", "an echo")
    );
    assert_eq!(
        (&kind.ccs[..], kind.headers),
        (&["none", "other"][..], UDP_HEADERS)
    );
    (kind.open)(&Setting {
        role: Role::Sender,
        cc,
        ecn: true,
        seed: u64::MAX - 1,
        mtu: 1500,
    })
}

#[test]
fn calls_and_results_cross_the_interface() {
    let mut echo = opened("none").unwrap();
    let mut buffer = Vec::new();
    echo.start(0);
    echo.handle(5, &mut [1, 2, 3], Ecn::Ce);
    assert_eq!(
        (echo.poll(5, &mut buffer), echo.timeout()),
        (None, Some(1005))
    );
    echo.on_timeout(1005);
    assert_eq!(
        (echo.poll(1005, &mut buffer), &buffer[..]),
        (Some(Ecn::Ce), &[1, 2, 3][..])
    );
    assert_eq!((echo.timeout(), echo.stats().cwnd), (None, u64::MAX - 1));
    assert_eq!(echo.fault(), None);
}

#[test]
fn a_refusal_a_panic_and_a_fault_are_texts() {
    assert_eq!(opened("other").err().as_deref(), Some("no other"));
    let mut echo = opened("none").unwrap();
    echo.handle(0, &mut [], Ecn::NotEct);
    let fault = echo.fault().unwrap();
    assert!(fault.starts_with("an empty datagram"), "{fault}");
    // Later calls have no effect.
    echo.handle(0, &mut [1], Ecn::NotEct);
    assert_eq!(echo.timeout(), None);
    let mut echo = opened("none").unwrap();
    echo.offer(0, 0);
    assert!(echo.fault().unwrap().starts_with("it is over"));
}
