//! TLS configurations whose handshake messages have the same sizes in every run.
//!
//! The certificate is a constant with an Ed25519 key, because an ECDSA signature varies in length.
//! It protects nothing: key and certificate are public. The client accepts only this certificate,
//! and does not check its period of validity. The server sends no session tickets.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, version::TLS13,
};
use std::sync::Arc;

/// The certificate of the server, in DER.
pub const CERTIFICATE: &[u8] = include_bytes!("cert.der");
/// The private key of the certificate, in PKCS #8.
pub const KEY: &[u8] = include_bytes!("key.der");
/// The name of the server, which the client requests.
pub const NAME: &str = "narrows";

#[derive(Debug)]
struct Only(Arc<CryptoProvider>);

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        end: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end.as_ref() == CERTIFICATE {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::General("another certificate".into()))
        }
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC uses TLS 1.3".into()))
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// The TLS configuration of a client.
pub fn client() -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    Ok(ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Only(provider)))
        .with_no_client_auth())
}

/// The TLS configuration of a server.
pub fn server() -> Result<ServerConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivatePkcs8KeyDer::from(KEY).into(),
        )?;
    config.send_tls13_tickets = 0;
    Ok(config)
}
