//! The key `ip` of flows and probes: the version of IP.

use super::error::{Collector, Fix};
use super::read::Field;
use super::value::Value;
use super::write::{Entries, write_some};
use crate::packet::Ip;

const V4: u8 = 4;
const V6: u8 = 6;

/// Reads the key.
pub(super) fn read(out: &mut Collector<'_>, f: &Field<'_>) -> Option<Ip> {
    match f.node().value {
        Value::Integer(n) if n == i128::from(V4) => Some(Ip::V4),
        Value::Integer(n) if n == i128::from(V6) => Some(Ip::V6),
        _ => {
            out.refuse(f, "is neither 4 nor 6", Fix::Value("6".into()));
            None
        }
    }
}

/// Writes the key, if it is not the default.
pub(super) fn put(e: &mut Entries, ip: Ip) {
    write_some(e, "ip", &Some(V6).filter(|_| ip == Ip::V6));
}
