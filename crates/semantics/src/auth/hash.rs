//! The hash functions of Digest (RFC 7616 §6.1), with hexadecimal output.

use md5::{Digest, Md5};
use sha2::{Sha256, Sha512_256};

/// MD5 is supported because many servers have nothing else; it is the last choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Md5,
    Sha256,
    Sha512_256,
}

/// A hash in lower-case hexadecimal.
#[derive(Clone, Copy)]
pub(super) struct Hex {
    digits: [u8; 64],
    len: usize,
}

impl Hash {
    /// The hash of the parts, joined with colons.
    pub(super) fn of(self, parts: &[&[u8]]) -> Hex {
        match self {
            Self::Md5 => hash::<Md5>(parts),
            Self::Sha256 => hash::<Sha256>(parts),
            Self::Sha512_256 => hash::<Sha512_256>(parts),
        }
    }
}

impl Hex {
    /// At most 32 bytes.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        Self { digits, len: bytes.len() * 2 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.len]
    }
}

fn hash<D: Digest>(parts: &[&[u8]]) -> Hex {
    let mut hash = D::new();
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    Hex::new(&hash.finalize())
}

fn digit(nibble: u8) -> u8 {
    b"0123456789abcdef"[usize::from(nibble)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        for (hash, expected) in [
            (Hash::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (Hash::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (Hash::Sha512_256, "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"),
        ] {
            assert_eq!(hash.of(&[b"abc"]).as_bytes(), expected.as_bytes());
        }
        assert_eq!(Hash::Md5.of(&[b"a", b"b"]).as_bytes(), Hash::Md5.of(&[b"a:b"]).as_bytes());
    }
}
