//! Key hashing as in HAProxy: the same key selects the same server.

use std::net::IpAddr;

use fulmar_haproxy::model::HashFunction;

/// Hash function and post-processing (`hash-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyHasher {
    /// The function.
    pub function: HashFunction,
    /// Whether the result is mixed with `avalanche`.
    pub avalanche: bool,
}

impl KeyHasher {
    /// The hash of a key.
    pub fn key(self, key: &[u8]) -> u32 {
        self.stir(match self.function {
            HashFunction::Sdbm => sdbm(key),
            HashFunction::Djb2 => djb2(key),
            HashFunction::Wt6 => wt6(key),
            HashFunction::Crc32 => crc32(key),
        })
    }

    /// The hash of an address (`balance source`), which does not use the function.
    pub fn address(self, address: IpAddr) -> u32 {
        self.stir(match address {
            IpAddr::V4(address) => u32::from(address),
            IpAddr::V6(address) => {
                let words = address.octets();
                let words = words.as_chunks::<4>().0;
                words.iter().fold(0, |hash, word| hash ^ u32::from_be_bytes(*word))
            }
        })
    }

    fn stir(self, hash: u32) -> u32 {
        if self.avalanche { avalanche(hash) } else { hash }
    }
}

/// The part of a target that `balance uri` hashes: without the query unless `whole`, at most `len`
/// bytes, and at most `depth` directories.
pub fn uri_part(uri: &[u8], whole: bool, len: Option<usize>, depth: Option<usize>) -> &[u8] {
    let uri = &uri[..uri.len().min(len.unwrap_or(usize::MAX))];
    let mut slashes = 0;
    let end = uri.iter().position(|byte| match byte {
        b'/' => {
            slashes += 1;
            depth.is_some_and(|depth| slashes == depth + 1)
        }
        b'?' => !whole,
        _ => false,
    });
    &uri[..end.unwrap_or(uri.len())]
}

/// The part of a host name that `use_domain_only` hashes: the label before the last dot.
pub fn domain_part(host: &[u8]) -> &[u8] {
    let Some(end) = host.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0) else {
        return host;
    };
    let start = host[..end].iter().rposition(|byte| *byte == b'.').map_or(0, |dot| dot + 1);
    &host[start..end]
}

fn sdbm(key: &[u8]) -> u32 {
    key.iter().fold(0, |hash: u32, byte| {
        let shifted = (hash << 6).wrapping_add(hash << 16);
        shifted.wrapping_add(u32::from(*byte)).wrapping_sub(hash)
    })
}

fn djb2(key: &[u8]) -> u32 {
    key.iter().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

fn wt6(key: &[u8]) -> u32 {
    let (mut h0, mut h1, mut step0, mut step1) = (0xa53c_965a_u32, 0x5ca6_953a_u32, 6, 18);
    for byte in key.iter().copied().map(u32::from) {
        h0 = !(h0 ^ byte);
        h1 = !h1.wrapping_add(byte);
        (h0, h1) = (h1.rotate_left(step0), h0.rotate_left(step1));
        let mixed = ((h0 >> 16) ^ h1) & 0xffff;
        (step0, step1) = (mixed & 0x1f, mixed >> 11);
    }
    h0 ^ h1
}

fn crc32(key: &[u8]) -> u32 {
    let bit = |hash: u32, _| (hash >> 1) ^ if hash & 1 == 1 { 0xedb8_8320 } else { 0 };
    !key.iter().fold(!0, |hash, byte| (0..8).fold(hash ^ u32::from(*byte), bit))
}

/// Bob Jenkins' full avalanche of an integer, times a large prime.
pub(crate) fn avalanche(hash: u32) -> u32 {
    let a = hash.wrapping_add(0x7ed5_5d16).wrapping_add(hash << 12);
    let a = (a ^ 0xc761_c23c) ^ (a >> 19);
    let a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    let a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    let a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    let a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_targets_and_hosts() {
        let part = |uri: &'static str, whole, len, depth| {
            str::from_utf8(uri_part(uri.as_bytes(), whole, len, depth)).unwrap()
        };
        assert_eq!(part("/a/b/c?q=/x", false, None, None), "/a/b/c");
        assert_eq!(part("/a/b/c?q=/x", true, None, None), "/a/b/c?q=/x");
        assert_eq!(part("/a/b/c?q=/x", true, Some(3), None), "/a/");
        assert_eq!(part("/a/b/c?q=/x", false, None, Some(1)), "/a");
        assert_eq!(part("/a/b/c?q=/x", false, None, Some(2)), "/a/b");
        assert_eq!(part("", false, Some(3), Some(2)), "");
        for (host, domain) in [
            ("www.example.com", "example"),
            ("example.com", "example"),
            ("localhost", "localhost"),
            ("a.b.c.d", "c"),
            (".com", ".com"),
            ("", ""),
        ] {
            assert_eq!(domain_part(host.as_bytes()), domain.as_bytes(), "{host}");
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(djb2(b""), 5381);
        assert_eq!(djb2(b"a"), 5381 * 33 + 97);
        assert_eq!(sdbm(b"a"), 97);
        assert_eq!(wt6(b""), 0xa53c_965a ^ 0x5ca6_953a);
        let source = KeyHasher::default();
        assert_eq!(source.address("1.2.3.4".parse().unwrap()), 0x0102_0304);
        assert_eq!(source.address("1::2".parse().unwrap()), 0x0001_0002);
    }
}
