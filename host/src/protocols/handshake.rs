//! The handshake of protocol version 2, by which both ends of a measurement prove that they know
//! the same token.
//!
//! ```text
//! client                                             server
//! hello: version 2, its nonce
//!                                                    greeting: its nonce, the client's address as the server sees it
//! proof:  HMAC(token, "client" and the transcript), the server's address as the client sees it
//!                                                    welcome: HMAC(token, "server" and the transcript)
//! ```
//!
//! The transcript contains both nonces and both addresses with ports, each with its length, so that
//! different transcripts have different bytes. A proof is not valid in another connection (the
//! nonces differ), in the other direction (the role differs), or for another server. A man in the
//! middle only gets proofs for its own address, which the right server refuses. Both sides compare
//! the HMAC-SHA-256 values in constant time. The client proves first, so a server reveals nothing
//! that helps to guess tokens. A false server to which a client connects can try tokens offline
//! against the client's proof, so a token should be random.
//!
//! **Public keys.** A server with a public key for QUIC vouches for it by a further HMAC. The key
//! of the HMAC is the token; its message is the server's transcript and the public key. Only this
//! session accepts it.
//!
//! **Addresses behind NAT.** The client's address is the one that the server sees, outside any NAT
//! of the client. The server's address is the one to which the client has connected. It must be the
//! one at which the server was reached, or one of `--public`. The server cannot know an address
//! that a NAT before it changes. An IPv4 address inside `64:ff9b::/96` (NAT64, RFC 6052) counts as
//! that IPv4 address.

use crate::digest::{hmac, verify};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A nonce of 16 random bytes.
pub type Nonce = [u8; 16];

/// The end that gives a proof.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Role {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// The data over which the proofs are computed.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Transcript {
    /// Nonce of the client.
    pub client: Nonce,
    /// Nonce of the server.
    pub server: Nonce,
    /// The client's address and port, as the server sees them.
    pub from: SocketAddr,
    /// The server's address and port, to which the client has connected.
    pub to: SocketAddr,
}

/// The form of an address in the transcript. The scope of an IPv6 address is dropped.
pub fn canonical(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(canonical_ip(of.ip()), of.port())
}

/// The IPv4 address of a mapped or NAT64 address (`64:ff9b::/96`, RFC 6052); other addresses are
/// unchanged.
pub fn canonical_ip(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        other => other,
    }
}

impl Transcript {
    fn bytes(&self, role: Role) -> Vec<u8> {
        let role: &[u8] = match role {
            Role::Client => b"client",
            Role::Server => b"server",
        };
        let addresses = [self.from, self.to].map(|address| canonical(address).to_string());
        let [from, to] = &addresses;
        let parts = [
            b"narrows protocol 2",
            role,
            &self.client,
            &self.server,
            from.as_bytes(),
            to.as_bytes(),
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }
    /// The proof that the end with that role knows the token.
    pub fn proof(&self, token: &str, role: Role) -> [u8; 32] {
        hmac(token.as_bytes(), &self.bytes(role))
    }
    /// The proof of the server that `key` is its public key.
    pub fn vouch(&self, token: &str, key: &[u8]) -> [u8; 32] {
        hmac(token.as_bytes(), &self.with_key(key))
    }
    /// Whether `proof` is the right one for this public key of the server.
    pub fn vouches(&self, token: &str, key: &[u8], proof: &[u8]) -> bool {
        verify(token.as_bytes(), &self.with_key(key), proof)
    }
    fn with_key(&self, key: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes(Role::Server);
        bytes.extend((key.len() as u32).to_be_bytes());
        bytes.extend(key);
        bytes
    }
    /// Whether `proof` is the right one of the end with that role.
    pub fn proves(&self, token: &str, role: Role, proof: &[u8]) -> bool {
        verify(token.as_bytes(), &self.bytes(role), proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript {
        Transcript {
            client: [1; 16],
            server: [2; 16],
            from: "192.0.2.1:4000".parse().unwrap(),
            to: "198.51.100.2:5201".parse().unwrap(),
        }
    }

    #[test]
    fn a_proof_is_of_one_role_in_one_connection_between_two_addresses() {
        let right = transcript();
        let proof = right.proof("correct-horse", Role::Client);
        assert!(right.proves("correct-horse", Role::Client, &proof));
        assert!(!right.proves("correct-horse", Role::Server, &proof));
        assert!(!right.proves("correct-house", Role::Client, &proof));
        let others = [
            Transcript {
                client: [3; 16],
                ..right
            },
            Transcript {
                server: [3; 16],
                ..right
            },
            Transcript {
                client: right.server,
                server: right.client,
                ..right
            },
            Transcript {
                from: "192.0.2.1:4001".parse().unwrap(),
                ..right
            },
            Transcript {
                to: "203.0.113.9:5201".parse().unwrap(),
                ..right
            },
        ];
        for other in others {
            assert!(
                !other.proves("correct-horse", Role::Client, &proof),
                "{other:?}"
            );
        }
    }

    #[test]
    fn an_address_is_the_same_in_every_form() {
        let v4: SocketAddr = "198.51.100.2:5201".parse().unwrap();
        for form in ["[::ffff:198.51.100.2]:5201", "[64:ff9b::198.51.100.2]:5201"] {
            assert_eq!(canonical(form.parse().unwrap()), v4);
        }
        let v6: SocketAddr = "[2001:db8::1]:5201".parse().unwrap();
        assert_eq!(canonical(v6), v6);
        assert_ne!(
            canonical("[64:ff9b:1::198.51.100.2]:5201".parse().unwrap()),
            v4
        );
    }
}
