//! The certificate of the server.
//!
//! quiche reads certificate and key from PEM files only, so they are written to files in memory.
//! BoringSSL accepts no Ed25519 certificates by default, so the key is RSA: its signatures have the
//! same size in every run. It protects nothing, because key and certificate are public.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

/// A file in memory, and its path while it is open.
struct Memory(File, String);

fn memory(contents: &[u8]) -> Result<Memory, String> {
    // SAFETY: the name ends with a zero byte; the descriptor belongs to the new file only.
    let descriptor = unsafe { libc::memfd_create(c"narrows".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error().to_string());
    }
    // SAFETY: as above.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(contents).map_err(|e| e.to_string())?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(Memory(file, path))
}

/// Gives the configuration of a server its certificate and key.
pub fn load(config: &mut quiche::Config) -> Result<(), String> {
    let chain = memory(include_bytes!("cert.pem"))?;
    let key = memory(include_bytes!("key.pem"))?;
    config
        .load_cert_chain_from_pem_file(&chain.1)
        .and_then(|()| config.load_priv_key_from_pem_file(&key.1))
        .map_err(|e| format!("cannot load the certificate: {e}"))?;
    drop((chain.0, key.0));
    Ok(())
}
