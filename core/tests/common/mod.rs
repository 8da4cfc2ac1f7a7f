//! Common parts of the scenario tests: a registry with one of everything, and two valid files.
#![allow(dead_code)]

use narrows_core::param::{Kind, Param};
use narrows_core::queue::fifo::Fifo;
use narrows_core::queue::{Limit, QueueKind};
use narrows_core::registry::Registry;
use narrows_core::scenario::{Errors, Scenario};
use narrows_core::units::{Bytes, Rate, Span};

/// Every key, in every form.
pub const FULL: &str = include_str!("../data/full.toml");
/// No key that has a default.
pub const LEAST: &str = include_str!("../data/least.toml");

/// The packets of the registry; none is sent.
pub type Frame = crate::frame::Frame<()>;

const fn param(name: &'static str, kind: Kind) -> Param {
    Param {
        name,
        kind,
        help: "for tests",
        source: "none",
    }
}

/// The parameters of `shelf`, a queue with one of every kind.
pub const SHELF: &[Param] = &[
    param("target", Kind::Span(Span::ms(5), Span::us(1), Span::s(1))),
    param("depth", Kind::Count(1, 1, 8)),
    param("beta", Kind::Number(0.5, 0.0, 1.0)),
    param("ecn", Kind::Bool(false)),
    param(
        "quantum",
        Kind::Bytes(Bytes::new(300), Bytes::new(64), Bytes::new(65536)),
    ),
    param(
        "drain",
        Kind::Rate(Rate::mbit(1), Rate::bit(1), Rate::mbit(1000)),
    ),
    param("mode", Kind::Word(&["soft", "hard"])),
];

/// The registry of narrows, and `shelf`.
pub fn registry() -> Registry<Frame> {
    let mut registry = Registry::standard();
    registry.register_queue(QueueKind {
        name: "shelf",
        help: "for tests",
        source: "none",
        params: SHELF,
        check: narrows_core::param::no_check,
        feedback: false,
        make: &|_, context| Box::new(Fifo::new(context.limit.unwrap_or(Limit::Packets(10)))),
    });
    registry
}

/// Reads a document called `x.toml`.
pub fn read(text: &str) -> Result<Scenario, Errors> {
    Scenario::from_toml(text, "x.toml", &registry())
}

/// Reads a document that is right.
pub fn good(text: &str) -> Scenario {
    read(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The errors of a document that is wrong.
pub fn bad(text: &str) -> Errors {
    match read(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => e,
    }
}
