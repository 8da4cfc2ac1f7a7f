//! TLS for `https://` URLs, by rustls. In load phases, it only carries the handshake, the requests,
//! and the head of the response; the data that follows is discarded without decryption. The counted
//! bytes are then those of the TLS records, which are 0.13 % larger than their content. The trusted
//! root certificates are those of the system, or of the file `SSL_CERT_FILE`, as for OpenSSL and
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

/// Files of root certificates in Debian, Alpine and Arch; in Fedora; in SUSE; and in the BSDs. Some
/// Linux distributions also have the path of the BSDs.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Time limit for writing a request. Ten seconds are enough, because a request is short.
const WRITES_WITHIN: Duration = Duration::from_secs(10);

/// Largest size of a TLS record, bytes: at most this much of the data may have been read without
/// being decrypted yet.
pub const RECORD: u64 = (16 << 10) + 256;

static INSECURE: AtomicBool = AtomicBool::new(false);

/// Sets whether any certificate is accepted. It must be called before the first TLS connection,
/// which fixes the configuration.
pub fn insecure(insecure: bool) {
    INSECURE.store(insecure, Relaxed);
}

/// Accepts every certificate; the signatures of the handshake are still verified.
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

/// The configuration of all connections of this process. It is shared, so that a second connection
/// to a server resumes the session of the first, as in a browser.
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
            "no root certificates in {}; install ca-certificates, or set SSL_CERT_FILE to a \
             file with them",
            places.join(", ")
        ));
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(known.insert(Arc::new(config))))
}

/// A socket with a read deadline, below TLS, because a record may arrive slowly.
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

/// A connection to a web server, with or without TLS.
pub enum Connection {
    /// `http://`
    Plain(Socket),
    /// `https://`
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl Connection {
    /// A connection over a connected, blocking socket. With a `name` for the certificate, it uses
    /// TLS and completes the handshake. `deadline` applies to the handshake and to all reads until
    /// the next [`Connection::until`].
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
    /// Sets the time by which the transfer of the next HTTP object must end.
    pub fn until(&mut self, deadline: Deadline) {
        match self {
            Connection::Plain(socket) => socket.deadline = deadline,
            Connection::Tls(tls) => tls.sock.deadline = deadline,
        }
    }
    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Connection::Plain(socket) => &socket.stream,
            Connection::Tls(tls) => &tls.sock.stream,
        }
    }
}

/// The message for an error of TLS, with a remedy.
fn explained(error: io::Error) -> io::Error {
    let told = match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidCertificate(why)) => {
            // rustls reports a self-signed certificate as that of a certificate authority.
            let own = format!("{why:?}").contains("CaUsedAsEndEntity");
            let why = if own {
                "it is self-signed".into()
            } else {
                why.to_string()
            };
            format!(
                "its certificate is not trusted: {}; set SSL_CERT_FILE to a file with its root \
                 certificate, or write --insecure",
                field(&why)
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => {
            "the server does not use TLS; write http://".to_string()
        }
        Some(other) => format!("TLS: {}", field(&other.to_string())),
        None => return error,
    };
    io::Error::new(error.kind(), told)
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Plain(socket) => socket.read(bytes),
            // Many servers close the connection without the close_notify alert that TLS requires.
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
