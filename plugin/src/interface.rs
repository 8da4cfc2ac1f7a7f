//! The types and the tag that a plugin and narrows share.

use crate::erased::AnyPacket;
use narrows_core::cc::CcKind;
use narrows_core::queue::QueueKind;

/// The part of the tag that names the version of narrows and of this interface.
pub const TAG: &str = concat!("narrows ", env!("CARGO_PKG_VERSION"), ", interface 1");

/// The complete tag, which must be equal in a plugin and in narrows.
pub fn tag() -> String {
    format!("{TAG} {}", narrows_core::INTERFACE)
}

/// The models of a plugin.
pub struct Models {
    /// Its congestion controls.
    pub ccs: Vec<CcKind>,
    /// Its queue disciplines.
    pub queues: Vec<QueueKind<AnyPacket>>,
}

/// The functions of narrows that a plugin calls.
#[derive(Copy, Clone)]
pub struct Host {
    /// Reports a panic: the event and the message.
    pub fail: fn(&str, &str),
}
