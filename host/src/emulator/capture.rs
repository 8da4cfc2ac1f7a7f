//! A thread that writes the packet capture of a live run to a file, so that the forwarding thread
//! does not wait for a disk.

use crate::HostError;
use narrows_core::capture::Sink;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Largest number of chunks (of up to 64 KiB) that wait to be written.
const WAITING: usize = 1024;

/// The thread that writes a capture.
pub struct Writer {
    thread: JoinHandle<io::Result<()>>,
    file: PathBuf,
}

impl Writer {
    /// Creates the file, and the sink that passes chunks to the thread. The sink returns `false` if
    /// the thread has fallen behind or failed.
    pub fn create(name: &Path) -> io::Result<(Sink, Writer)> {
        let mut file = File::create(name)?;
        let (send, receive) = sync_channel::<Vec<u8>>(WAITING);
        let thread = std::thread::spawn(move || {
            // After an error the thread ends, and further chunks are dropped.
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
        let file = name.to_path_buf();
        Ok((Box::new(sink), Writer { thread, file }))
    }
    /// Waits until everything is written. The sink must have been dropped. `whole`: whether the
    /// sink has accepted every chunk.
    pub fn finish(self, whole: bool) -> Result<(), HostError> {
        let written = self.thread.join();
        let written = written.unwrap_or_else(|_| Err(io::Error::other("its thread failed")));
        let slow = || io::Error::other("the disk is slower than the packets");
        written
            .and_then(|()| if whole { Ok(()) } else { Err(slow()) })
            .map_err(|error| {
                HostError::Missing(format!("--record {}: {error}", self.file.display()))
            })
    }
}
