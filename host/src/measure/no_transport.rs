//! Stands in for the transport over UDP in builds without the feature `transport`.

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

pub use flow::Flow;

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

/// One end of a flow.
pub mod flow {
    use super::{Arc, CcKind, OwnedFd, SocketAddr, Terms, segment::Key};
    use crate::measure::bulk::{Budget, Role};
    use crate::protocols::tcp_info::Row;

    /// The next turn of a stream.
    #[derive(Copy, Clone, PartialEq, Eq, Debug)]
    #[allow(missing_docs)]
    pub enum Next {
        Until(u64),
        At(u64),
        Stop,
    }

    /// One end of a flow; there is none.
    #[derive(Debug)]
    pub enum Flow {}

    /// Why a flow ended; there is none.
    #[derive(Copy, Clone, Debug)]
    pub enum Tripped {}

    #[allow(missing_docs)]
    impl Tripped {
        pub fn text(self) -> &'static str {
            match self {}
        }
    }

    #[allow(missing_docs)]
    impl Flow {
        pub fn new(
            _: Role,
            _: &CcKind,
            _: Terms,
            _: (Key, SocketAddr),
            _: u8,
            _: &Arc<Budget>,
        ) -> std::io::Result<Flow> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
        pub fn cc(&self) -> &'static str {
            match *self {}
        }
        pub fn payload(&self) -> u32 {
            match *self {}
        }
        pub fn ecn(&self) -> bool {
            match *self {}
        }
        pub fn tripped(&self) -> Option<Tripped> {
            match *self {}
        }
        pub fn heard(&self) -> u64 {
            match *self {}
        }
        pub fn progress(&self) -> u64 {
            match *self {}
        }
        pub fn moved(&self) -> u64 {
            match *self {}
        }
        pub fn row(&self, _: u64) -> Row {
            match *self {}
        }
        pub fn turn(&mut self, _: &OwnedFd, _: &Budget) -> Next {
            match *self {}
        }
    }
}
