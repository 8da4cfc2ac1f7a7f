//! Stands in for the transport over UDP in builds without the feature `transport`.

use crate::measure::bulk::{Budget, Role};
use crate::measure::datagram_flow::DatagramFlow;
use crate::measure::pacer::Pacer;
use narrows_core::cc::CcKind;
use serde_json::Value;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Whether this program has the transport.
pub const PRESENT: bool = false;

/// The terms of a flow. No request contains valid terms.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Payload of a full segment, bytes.
    pub payload: u32,
}

#[allow(missing_docs)]
impl Terms {
    pub fn of(_: &CcKind) -> Terms {
        Terms { payload: 0 }
    }
    pub fn fitted(self, _: &OwnedFd, _: bool) -> Terms {
        self
    }
    pub fn with_payload(self, _: u32) -> Terms {
        self
    }
    pub fn to_json(self) -> Value {
        Value::Null
    }
    pub fn from_json(_: &Value) -> Option<Terms> {
        None
    }
}

/// The congestion control called `name`; there is none.
pub fn cc<'a>(_: &'a [CcKind], _: Option<&str>) -> Result<&'a CcKind, String> {
    Err("this server has no transport over UDP".into())
}

/// The names of the congestion controls.
pub mod terms {
    use narrows_core::cc::CcKind;

    /// No congestion control.
    pub fn standard() -> Vec<CcKind> {
        Vec::new()
    }
}

/// The datagrams of a flow.
pub mod segment {
    /// The secret of a flow.
    pub type Key = [u8; 8];
}

#[path = "transport/no_quic.rs"]
pub mod quic;

/// One end of a flow; there is none.
pub fn own(
    _: Role,
    _: (&CcKind, Pacer),
    _: Terms,
    _: (segment::Key, SocketAddr),
    _: u8,
    _: &Arc<Budget>,
) -> std::io::Result<Box<dyn DatagramFlow>> {
    Err(std::io::ErrorKind::Unsupported.into())
}
