//! Connections to web servers in a build without the feature `tls`, where `https://` URLs are an
//! error.

use super::deadline::Deadline;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit for writing a request, which is short.
const WRITES_WITHIN: Duration = Duration::from_secs(10);

/// Size of a TLS record, bytes; without TLS there are none.
pub const RECORD: u64 = 0;

/// Has no effect, since this build verifies no certificates.
pub fn insecure(_insecure: bool) {}

/// A connection to a web server, with a read deadline.
pub struct Connection {
    stream: TcpStream,
    deadline: Deadline,
}

impl Connection {
    /// A connection over a connected, blocking socket. With a `name` for a certificate (`https://`)
    /// it fails.
    pub fn new(
        stream: TcpStream,
        name: Option<&str>,
        deadline: Deadline,
    ) -> io::Result<Connection> {
        if name.is_some() {
            let text = "this build of narrows-host has no TLS; write http://";
            return Err(io::Error::new(ErrorKind::Unsupported, text));
        }
        stream.set_write_timeout(Some(WRITES_WITHIN))?;
        Ok(Connection { stream, deadline })
    }
    /// Sets the deadline of the next object.
    pub fn until(&mut self, deadline: Deadline) {
        self.deadline = deadline;
    }
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(self.deadline.read(&self.stream, bytes)?)
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
