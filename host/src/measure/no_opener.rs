//! Stands in for the transport over UDP in builds without the feature `transport`.

use super::link::Link;
use super::options::Options;
use super::plan::{Direction, FlowSpec};
use crate::HostError;
use crate::measure::bulk::{Budget, Stream};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;

/// A flow that is being opened; there is none.
pub enum Opener {}

fn missing<T>() -> Result<T, HostError> {
    Err(HostError::Missing(
        "--transport: this narrows-host was built without it; write --transport tcp".into(),
    ))
}

impl Opener {
    /// Fails, because the transport is missing.
    pub fn new(
        _: &Link,
        _: SocketAddr,
        _: u16,
        _: Direction,
        _: &Options,
        _: Option<&str>,
    ) -> Result<Opener, HostError> {
        missing()
    }
    /// The terms that this end proposes.
    pub fn terms(&self) -> Value {
        match *self {}
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
