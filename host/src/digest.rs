//! SHA-256 (FIPS 180-4), HMAC (RFC 2104) and random numbers, from the crate `ring`.

use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};

/// SHA-256 of the concatenated parts.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}

/// HMAC-SHA-256.
pub fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref());
    out
}

/// Whether `tag` is the HMAC-SHA-256 of the message, in constant time.
pub fn verify(key: &[u8], message: &[u8], tag: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), message, tag).is_ok()
}

/// Whether two values are equal. Their HMACs with a random key are compared, so that the time of
/// the comparison reveals nothing about the values.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    random::<32>().is_ok_and(|key| verify(&key, a, &hmac(&key, b)))
}

/// Hexadecimal digits of bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits, exactly `N`.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

/// Unpredictable bytes from getrandom(2), which needs no file descriptor.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| std::io::Error::other("the kernel has no random numbers"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_the_standards() {
        // FIPS 180-4's example, the empty text, one of two blocks; RFC 4231's cases 2 and 6 (a key
        // longer than a block).
        let digest = |text: &[u8]| hex(&sha256(&[text]));
        assert_eq!(
            digest(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            digest(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(
            digest(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(
            hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac(
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            )),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn digits_come_back_as_bytes_or_not_at_all() {
        assert_eq!(from_hex::<3>("00ff7A"), Some([0, 255, 0x7a]));
        assert_eq!(from_hex::<3>("00ff7"), None);
        assert_eq!(from_hex::<3>("00ffé"), None);
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"abc"));
        assert!(verify(b"k", b"m", &hmac(b"k", b"m")) && !verify(b"k", b"m", &[0; 32]));
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }
}
