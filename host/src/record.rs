//! A live run as a capture file. Whoever passes packets must not wait for a disk: a thread of its own writes.

use crate::frame::{Frame, HEAD, VNET};
use narrows_core::capture::{self, Capture, Sink, Where, SNAP};
use narrows_core::queue::Why;
use narrows_core::units::Time;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{sync_channel, TrySendError};
use std::thread::JoinHandle;

/// So many chunks of 64 KiB wait for the disk at most.
const WAITING: usize = 1024;

/// The thread that writes a capture.
pub struct Writer {
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    /// Creates the file; what is given to the sink goes there.
    pub fn create(file: &Path) -> io::Result<(Sink, Writer)> {
        let mut file = File::create(file)?;
        let (send, receive) = sync_channel::<Vec<u8>>(WAITING);
        let thread = std::thread::spawn(move || {
            // What arrives after an error has nowhere to go.
            for chunk in receive {
                file.write_all(&chunk)?;
            }
            file.flush()
        });
        let sink = move |bytes: &[u8]| {
            !matches!(
                send.try_send(bytes.to_vec()),
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
            )
        };
        Ok((Box::new(sink), Writer { thread }))
    }
    /// Waits until everything is written; the sink must be gone. `whole`: did it take everything?
    pub fn finish(self, whole: bool) -> io::Result<()> {
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("its thread failed")))?;
        if whole {
            Ok(())
        } else {
            Err(io::Error::other("the disk is slower than the packets"))
        }
    }
}

/// A capture, and what the hops are called.
pub struct Record {
    capture: Capture,
    hops: Vec<String>,
}

impl Record {
    /// Of a path with these hops.
    pub fn new(capture: Capture, hops: Vec<String>) -> Record {
        Record { capture, hops }
    }
    /// A packet was seen.
    pub fn packet(&mut self, at: Time, seen: Where, frame: &Frame) {
        let comment = if frame.damaged() { "damaged on the way" } else { "" };
        self.write(at, seen, frame, comment);
    }
    /// A packet was dropped by a hop, or marked.
    pub fn verdict(&mut self, at: Time, hop: u8, frame: &Frame, dropped: bool, why: Why) {
        let comment = capture::comment(dropped, &self.hops[usize::from(hop)], why);
        self.write(at, Where::Inside, frame, &comment);
    }
    fn write(&mut self, at: Time, seen: Where, frame: &Frame, comment: &str) {
        let mut head = [0; HEAD];
        let range = frame.headers(frame.payload(), &mut head);
        let headers = &head[VNET..range.end];
        let len = (headers.len() + frame.payload()) as u32;
        let mut shown = [0; SNAP];
        let mut shows = headers.len().min(SNAP);
        shown[..shows].copy_from_slice(&headers[..shows]);
        if !frame.is_tcp() {
            // Their own headers count as payload: those of UDP are eight bytes.
            let own = &frame.body(frame.payload().min(8));
            let room = own.len().min(SNAP - shows);
            shown[shows..shows + room].copy_from_slice(&own[..room]);
            shows += room;
        }
        self.capture.packet(at, seen, &shown[..shows], len, comment);
    }
    /// The run is over; false when not everything was taken.
    pub fn finish(self) -> bool {
        self.capture.finish()
    }
}
