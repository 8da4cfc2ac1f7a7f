//! Stands in for the transport over UDP in builds without the feature `transport`.

use super::link::Link;
use super::plan::{Direction, FlowSpec};
use super::transport::Terms;
use crate::HostError;
use crate::measure::bulk::{Budget, Stream};
use narrows_core::cc::CcKind;
use std::net::SocketAddr;
use std::sync::Arc;

/// A flow that is being opened; there is none.
pub struct Opener {
    /// The terms that this end proposes.
    pub terms: Terms,
}

fn missing<T>() -> Result<T, HostError> {
    Err(HostError::Missing(
        "--transport udp: this narrows-host was built without it; write --transport tcp".into(),
    ))
}

impl Opener {
    /// Fails, because the transport is missing.
    pub fn new(
        _: &Link,
        _: SocketAddr,
        _: u16,
        _: Direction,
        _: (&[CcKind], Option<&str>),
    ) -> Result<Opener, HostError> {
        missing()
    }
    /// Fails likewise.
    pub fn join(
        self,
        _: &mut Link,
        _: &FlowSpec,
        _: &Arc<Budget>,
    ) -> Result<(Arc<Stream>, String), HostError> {
        missing()
    }
}
