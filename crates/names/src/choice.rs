//! Selects and orders the addresses of a result (RFC 8305 §4).
//!
//! Addresses of one family keep the order of the reply. Sorting by reachability (RFC 6724) needs a
//! system call for each address; connection attempts find out as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::options::Family;

/// The addresses to try, best first: without duplicates, IPv6 and IPv4 alternating, otherwise in
/// their order, and at most [`ADDRESSES_MAX`].
pub(crate) fn choose(found: &[IpAddr], family: Family, public_only: bool) -> Vec<IpAddr> {
    let mut v6 = Vec::new();
    let mut v4 = Vec::new();
    for address in found {
        let (list, wanted) = match address {
            IpAddr::V6(_) => (&mut v6, family != Family::V4),
            IpAddr::V4(_) => (&mut v4, family != Family::V6),
        };
        if wanted
            && list.len() < ADDRESSES_MAX
            && !list.contains(address)
            && !(public_only && is_private(*address))
        {
            list.push(*address);
        }
    }
    let turns = v6.len().max(v4.len());
    let by_turns = (0..turns).flat_map(|at| [v6.get(at), v4.get(at)]).flatten();
    by_turns.take(ADDRESSES_MAX).copied().collect()
}

/// The addresses of `localhost`.
pub(crate) const LOOPBACK: [IpAddr; 2] =
    [IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];

/// True for addresses of this machine, its network or no host (RFC 6890), also inside IPv6
/// addresses that carry an IPv4 address.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => {
            let is_ours = v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6.is_multicast();
            is_ours || embedded(v6).is_some_and(is_private_v4)
        }
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || a == 0 // "this network" (RFC 1122 §3.2.1.3)
        || a >= 240 // reserved and broadcast (RFC 1112 §4)
        || (a == 100 && b & 0xc0 == 64) // shared by carriers (RFC 6598)
}

/// The IPv4 address in a mapped (RFC 4291 §2.5.5), translated (RFC 6052 §2.1) or 6to4 address
/// (RFC 3056 §2).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => Some(join(high, low)),
        (0x2002, ..) => Some(join(b, c)),
        _ => None,
    }
}

/// Maximum number of addresses of a result.
pub(crate) const ADDRESSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Vec<IpAddr> {
        text.split_whitespace().map(|word| word.parse().expect(word)).collect()
    }

    #[test]
    fn families_alternate_and_ipv6_is_first() {
        for (family, found, expected) in [
            (Family::Any, "1.0.0.1 1.0.0.2 2::1 2::2", "2::1 1.0.0.1 2::2 1.0.0.2"),
            (Family::Any, "1.0.0.1 1.0.0.2 1.0.0.3 2::1", "2::1 1.0.0.1 1.0.0.2 1.0.0.3"),
            (Family::Any, "1.0.0.2 1.0.0.1 1.0.0.2", "1.0.0.2 1.0.0.1"),
            (Family::V4, "1.0.0.1 2::1", "1.0.0.1"),
            (Family::V6, "1.0.0.1 2::1", "2::1"),
            (Family::V6, "1.0.0.1", ""),
            (Family::Any, "", ""),
        ] {
            assert_eq!(choose(&addresses(found), family, false), addresses(expected), "{found}");
        }
    }

    #[test]
    fn a_long_result_is_truncated_with_both_families() {
        let v4 = (0..1000_u32).map(|n| IpAddr::V4(Ipv4Addr::from(0x0100_0000 + n)));
        let v6 = (0..1000_u32).map(|n| IpAddr::V6(Ipv6Addr::from(u128::from(n) + (2 << 112))));
        let all: Vec<_> = v4.chain(v6).collect();
        let chosen = choose(&all, Family::Any, false);
        assert_eq!(chosen.len(), ADDRESSES_MAX);
        assert_eq!(chosen.iter().filter(|address| address.is_ipv4()).count(), ADDRESSES_MAX / 2);
    }

    #[test]
    fn private_addresses_can_be_left_out() {
        let private = "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.1.1 0.0.0.0 100.64.0.1 \
            224.0.0.1 255.255.255.255 ::1 :: fe80::1 fd00::1 ff02::1 ::ffff:127.0.0.1 ::127.0.0.1 \
            64:ff9b::10.0.0.1 2002:7f00:1::";
        assert!(choose(&addresses(private), Family::Any, true).is_empty());
        let public = "9.9.9.9 172.32.0.1 100.128.0.1 2620:fe::9 ::ffff:9.9.9.9 64:ff9b::9.9.9.9";
        assert_eq!(choose(&addresses(public), Family::Any, true).len(), 6);
    }
}
