//! The identity of a server of QUIC: a raw public key (RFC 7250) instead of a certificate.
//!
//! The server has a random Ed25519 key per process. The client accepts only the key that the server
//! has sent over the control connection. With a token, an HMAC vouches for that key
//! ([`crate::protocols::handshake`]). The client presents no key. Its address and port are proved
//! before the server reads the first datagram ([`super::super`]).

use super::failed;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// The application protocol of the connection (ALPN, which QUIC requires).
const PROTOCOL: &[u8] = b"narrows";
/// Length of an Ed25519 public key in its encoding (SubjectPublicKeyInfo, RFC 8410), bytes.
pub const KEY: usize = 44;
/// The public key of a server.
pub type PublicKey = [u8; KEY];

/// The identity of this process as a server.
struct Identity {
    public: PublicKey,
    config: Arc<QuicServerConfig>,
}

fn identity() -> std::io::Result<&'static Identity> {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    if let Some(identity) = IDENTITY.get() {
        return Ok(identity);
    }
    let random = ring::rand::SystemRandom::new();
    let key = Ed25519KeyPair::generate_pkcs8(&random).map_err(failed)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_ref().to_vec()));
    let provider = Arc::new(provider::default_provider());
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(failed)?;
    let public = key.public_key().ok_or_else(|| failed("no public key"))?;
    let public = public.as_ref().to_vec();
    let certified = CertifiedKey::new(vec![CertificateDer::from(public.clone())], key);
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(
            certified,
        ))));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // A connection is used once, so tickets to resume it have no use.
    config.send_tls13_tickets = 0;
    let identity = Identity {
        public: public.try_into().map_err(|_| failed("no Ed25519 key"))?,
        config: Arc::new(QuicServerConfig::try_from(config).map_err(failed)?),
    };
    Ok(IDENTITY.get_or_init(|| identity))
}

/// The public key of this process as a server.
pub fn public_key() -> std::io::Result<PublicKey> {
    identity().map(|identity| identity.public)
}

/// The TLS settings of this process as a server.
pub(super) fn server() -> std::io::Result<Arc<QuicServerConfig>> {
    identity().map(|identity| Arc::clone(&identity.config))
}

/// Accepts one public key only.
#[derive(Debug)]
struct Pinned {
    key: PublicKey,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if key.as_ref() == self.key {
            return Ok(ServerCertVerified::assertion());
        }
        let problem = "another public key than that of the control connection";
        Err(rustls::Error::General(problem.into()))
    }
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _key: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC uses TLS 1.3".into()))
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// The TLS settings of a client that accepts only the public key `key`.
pub(super) fn pinned(key: PublicKey) -> std::io::Result<QuicClientConfig> {
    let provider = Arc::new(provider::default_provider());
    let pinned = Pinned {
        key,
        provider: Arc::clone(&provider),
    };
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    QuicClientConfig::try_from(tls).map_err(failed)
}
