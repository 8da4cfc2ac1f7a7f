//! TLS for `https://` URLs, by rustls: the handshake, the request, and the head of the answer. What
//! comes after that as load is
//! thrown away as it is, records and all (0.13 % more than what is in them), so that measuring
//! costs no deciphering.
//!
//! Whom to trust is the system's list of roots, or the one of `SSL_CERT_FILE`, as for OpenSSL and
//! curl.

use super::deadline::Deadline;
use crate::terminal::field;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where distributions keep the roots: Debian, Alpine and Arch; Fedora; SUSE; the BSDs' place, kept
/// by some.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// A request is short: a server that does not take it within this has failed.
const WRITES_WITHIN: Duration = Duration::from_secs(10);

/// What a record may hold, and what is around it, bytes: so much may have come and not yet be
/// deciphered.
pub const RECORD: u64 = (16 << 10) + 256;

static INSECURE: AtomicBool = AtomicBool::new(false);

/// `insecure`: from now on any certificate will do.
pub fn insecure(insecure: bool) {
    INSECURE.store(insecure, Relaxed);
}

/// Takes any certificate for right; the signatures of the handshake are checked all the same.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

static CONFIG: Mutex<Option<Arc<ClientConfig>>> = Mutex::new(None);

/// What every connection of this process uses, so that a second one to a server resumes the first's
/// session, as a browser's does.
fn config() -> Result<Arc<ClientConfig>, String> {
    let mut known = CONFIG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(config) = &*known {
        return Ok(Arc::clone(config));
    }
    if INSECURE.load(Relaxed) {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        return Ok(Arc::clone(known.insert(Arc::new(config))));
    }
    let named = std::env::var_os("SSL_CERT_FILE");
    let mut places = named
        .iter()
        .map(std::path::PathBuf::from)
        .collect::<Vec<_>>();
    if places.is_empty() {
        places.extend(ROOTS.iter().map(std::path::PathBuf::from));
    }
    let mut roots = RootCertStore::empty();
    for certificates in places
        .iter()
        .filter_map(|place| CertificateDer::pem_file_iter(place).ok())
    {
        roots.add_parsable_certificates(certificates.filter_map(Result::ok));
        if !roots.is_empty() {
            break;
        }
    }
    if roots.is_empty() {
        let places: Vec<_> = places
            .iter()
            .map(|place| place.display().to_string())
            .collect();
        return Err(format!(
            "no roots to trust in {}; install ca-certificates, or name a file of them in \
             SSL_CERT_FILE",
            places.join(", ")
        ));
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(known.insert(Arc::new(config))))
}

/// A socket that is read until a deadline. It lies beneath TLS, because a record may come as slowly
/// as an answer.
pub struct Socket {
    stream: TcpStream,
    deadline: Deadline,
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(self.deadline.read(&self.stream, bytes)?)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A connection to a web server, with TLS or without.
pub enum Connection {
    /// `http://`
    Plain(Socket),
    /// `https://`
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Connection {
    /// Over a connected, blocking socket; with TLS where there is a name to prove, after its
    /// handshake. What is read until the next [`Connection::until`] has this deadline, the
    /// handshake included.
    pub fn new(
        stream: TcpStream,
        name: Option<&str>,
        deadline: Deadline,
    ) -> io::Result<Connection> {
        stream.set_write_timeout(Some(WRITES_WITHIN))?;
        let socket = Socket { stream, deadline };
        let Some(name) = name else {
            return Ok(Connection::Plain(socket));
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let proves = ServerName::try_from(bare.to_string()).map_err(io::Error::other)?;
        let client = ClientConnection::new(config().map_err(io::Error::other)?, proves)
            .map_err(io::Error::other)?;
        let mut tls = StreamOwned::new(client, socket);
        while tls.conn.is_handshaking() {
            if let Err(error) = tls.conn.complete_io(&mut tls.sock) {
                return Err(match error.kind() {
                    ErrorKind::TimedOut => io::Error::new(ErrorKind::TimedOut, "no TLS handshake"),
                    _ => explained(error),
                });
            }
        }
        Ok(Connection::Tls(Box::new(tls)))
    }
    /// The next object is read until then.
    pub fn until(&mut self, deadline: Deadline) {
        match self {
            Connection::Plain(socket) => socket.deadline = deadline,
            Connection::Tls(tls) => tls.sock.deadline = deadline,
        }
    }
    /// What it runs over.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Connection::Plain(socket) => &socket.stream,
            Connection::Tls(tls) => &tls.sock.stream,
        }
    }
}

/// What TLS says, and what may be done about it.
fn explained(error: io::Error) -> io::Error {
    let told = match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidCertificate(why)) => {
            // A certificate that is its own root is shown as an authority's.
            let own = format!("{why:?}").contains("CaUsedAsEndEntity");
            let why = if own {
                "it is self-signed".into()
            } else {
                why.to_string()
            };
            format!(
                "its certificate is not to be trusted: {}; name a file of your own roots in \
                 SSL_CERT_FILE, or do not check it: --insecure",
                field(&why)
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => "no TLS there; try http://".to_string(),
        Some(other) => format!("TLS: {}", field(&other.to_string())),
        None => return error,
    };
    io::Error::new(error.kind(), told)
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(socket) => socket.read(bytes),
            // Many servers hang up without the farewell that TLS asks for.
            Connection::Tls(tls) => match tls.read(bytes) {
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(socket) => socket.write(bytes),
            Connection::Tls(tls) => tls.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Connection::Plain(socket) => socket.flush(),
            Connection::Tls(tls) => tls.flush(),
        }
    }
}
