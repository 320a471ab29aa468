//! Hosts that need no proxy: `CURLOPT_NOPROXY` and `no_proxy`, by the rules of 7.88.
//!
//! A name matches itself and its subdomains, an address a network. `semantics` has such a list,
//! too, with ports and without the quirks of this version.

use std::net::{Ipv4Addr, Ipv6Addr};

/// True if the list has the host. A host of IPv6 has no brackets.
pub(crate) fn is_excluded(host: &str, list: &[u8]) -> bool {
    if list == b"*" {
        return !host.is_empty();
    }
    let list = String::from_utf8_lossy(list);
    let mut tokens = list.split([',', ' ', '\t']).filter(|token| !token.is_empty());
    if host.is_empty() {
        return false;
    }
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        return tokens.any(|token| matches_ipv6(address, token));
    }
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return tokens.any(|token| matches_ipv4(address, token));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    tokens.any(|token| matches_name(host, token))
}

fn matches_name(host: &str, token: &str) -> bool {
    let token = token.strip_suffix('.').unwrap_or(token);
    let token = token.strip_prefix('.').unwrap_or(token);
    let (host, token) = (host.as_bytes(), token.as_bytes());
    let Some(start) = host.len().checked_sub(token.len()) else { return false };
    let is_label = start == 0 || host[start - 1] == b'.';
    is_label && host[start..].eq_ignore_ascii_case(token)
}

/// `address/bits`; `atoi` reads the bits, and 0 means all.
fn network(token: &str) -> (&str, u32) {
    let (address, bits) = token.split_once('/').unwrap_or((token, ""));
    let end = bits.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(bits.len());
    (address, bits[..end].parse().unwrap_or(0))
}

fn matches_ipv4(address: Ipv4Addr, token: &str) -> bool {
    let (network, bits) = network(token);
    let Ok(network) = network.parse::<Ipv4Addr>() else { return false };
    match bits {
        0 | 32 => address == network,
        1..32 => (address.to_bits() ^ network.to_bits()) >> (32 - bits) == 0,
        _ => false,
    }
}

fn matches_ipv6(address: Ipv6Addr, token: &str) -> bool {
    let (network, bits) = network(token);
    let Ok(network) = network.parse::<Ipv6Addr>() else { return false };
    let (address, network) = (address.octets(), network.octets());
    let bits = if bits == 0 { 128 } else { bits };
    let (bytes, rest) = (bits as usize / 8, bits % 8);
    if bytes > 16 || (bytes == 16 && rest > 0) || address[..bytes] != network[..bytes] {
        return false;
    }
    // 7.88 inverts the comparison of a part of a byte, and so excludes the wrong hosts.
    rest == 0 || u32::from(address[bytes] ^ network[bytes]) & (0xff << (8 - rest)) & 0xff == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the cases of libcurl, and its source.
    #[test]
    fn hosts_are_those_of_libcurl() {
        let rows = [
            ("www.example.com", "localhost,.example.com,.example.de", true),
            ("www.example.com.", "localhost,.example.com,.example.de", true),
            ("example.com", "localhost,.example.com,.example.de", true),
            ("example.com.", "localhost example.com. x", true),
            ("nonexample.com", "localhost,example.com", false),
            ("WWW.example.com", "EXAMPLE.com", true),
            ("192.168.0.1", "192.168.0.0/16", true),
            ("192.160.0.1", "192.168.0.0/24,192.160.0.0/16", true),
            ("192.168.1.1", "192.168.0.0/24", false),
            ("192.168.1.1", "foo, bar, 192.168.1.1/33", false),
            ("192.168.1.1", "192.168.1.1/0", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "localhost,.0.0.1", false),
            ("::1", "fe80::, ::1", true),
            ("fe80::5", "fe80::/64", true),
            ("fe81::5", "fe80::/64", false),
            ("febf::5", "fe80::/10", true),
            ("fec0::5", "fe80::/10", false),
            ("a", "*", true),
            ("a", "b,*", false),
            ("", "*", false),
        ];
        for (host, list, is_found) in rows {
            assert_eq!(is_excluded(host, list.as_bytes()), is_found, "{host} {list}");
        }
    }
}
