//! The thread that writes a live run's capture: the thread that passes packets must not wait for a disk.

use narrows_core::capture::Sink;
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
