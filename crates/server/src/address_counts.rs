//! Counts the connections of each address. The table has the addresses that have any.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

/// The number of connections by address.
#[derive(Debug, Default)]
pub(crate) struct AddressCounts {
    counts: HashMap<u64, u32>, // by key
    keys: Vec<u64>,            // of each connection, by its position; `UNCOUNTED`: not counted
}

/// The network that a connection comes from, as the limits count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerNetwork {
    /// An IPv4 address, or the IPv6 network that one client has for itself.
    Network(u64),
    /// An address of this machine.
    Loopback(u64),
    /// From a Unix socket.
    Unnamed,
}

impl PeerNetwork {
    pub(crate) fn of(address: IpAddr) -> Self {
        let address = address.to_canonical(); // IPv4 on a socket for both
        let key = match address {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) if v6.is_loopback() => LOOPBACK_V6,
            // Below 2^32 is 0000::/8, which has no global addresses (RFC 4291 §2.4).
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments().map(u64::from);
                a << 48 | b << 32 | c << 16 | d
            }
        };
        match address {
            _ if address.is_unspecified() => Self::Unnamed,
            _ if address.is_loopback() => Self::Loopback(key),
            _ => Self::Network(key),
        }
    }

    /// Equal for all connections of this network.
    pub(crate) fn key(self) -> u64 {
        match self {
            Self::Network(key) | Self::Loopback(key) => key,
            Self::Unnamed => UNCOUNTED,
        }
    }
}

impl AddressCounts {
    /// The number of connections from there.
    pub(crate) fn count(&self, origin: PeerNetwork) -> usize {
        self.counts.get(&origin.key()).map_or(0, |count| *count as usize)
    }

    /// Counts a connection. `at` is its position among all connections.
    pub(crate) fn enter(&mut self, at: u32, origin: PeerNetwork) {
        let (at, key) = (at as usize, origin.key());
        if key != UNCOUNTED {
            *self.counts.entry(key).or_default() += 1;
            if self.keys.len() <= at {
                self.keys.resize(at + 1, UNCOUNTED);
            }
            let before = std::mem::replace(&mut self.keys[at], key);
            debug_assert_eq!(before, UNCOUNTED, "a connection is counted once");
        }
    }

    /// The connection at this position is closed. It may not have been counted.
    pub(crate) fn leave(&mut self, at: u32) {
        let Some(key) = self.keys.get_mut(at as usize).map(std::mem::take) else { return };
        match self.counts.entry(key) {
            Entry::Vacant(_) => debug_assert_eq!(key, UNCOUNTED, "an open connection is counted"),
            Entry::Occupied(count) if *count.get() == 1 => drop(count.remove()),
            Entry::Occupied(mut count) => *count.get_mut() -= 1,
        }
        while self.keys.pop_if(|key| *key == UNCOUNTED).is_some() {}
        if self.keys.capacity() > 4 * self.keys.len().max(KEPT_LEN) {
            self.keys.shrink_to(2 * self.keys.len());
        }
        if self.counts.capacity() > 4 * self.counts.len().max(KEPT_LEN) {
            self.counts.shrink_to(2 * self.counts.len());
        }
    }
}

/// `0.0.0.0`, which is the address of no peer.
const UNCOUNTED: u64 = 0;
/// `0.0.0.1`, which is no peer's address either.
const LOOPBACK_V6: u64 = 1;
/// A capacity of so many entries is not returned.
const KEPT_LEN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> PeerNetwork {
        PeerNetwork::of(text.parse().unwrap())
    }

    #[test]
    fn an_address_is_one_of_ipv4_or_a_network_of_ipv6() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::ffff:1:2:3", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("127.0.0.1", "127.0.0.2", false),
            ("::1", "::", false),
        ] {
            assert_eq!(origin(one) == origin(other), same, "{one} {other}");
        }
        assert_eq!(origin("0.0.0.0"), PeerNetwork::Unnamed);
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(matches!(origin(local), PeerNetwork::Loopback(_)), "{local}");
        }
    }

    /// After any order of connects and closes the table has exactly the open connections.
    #[test]
    fn the_table_follows_the_connections() {
        let mut addresses = AddressCounts::default();
        let one = origin("192.0.2.1");
        for round in 0..3_u32 {
            for at in 0..10_000 {
                let other = PeerNetwork::Network(1 << 40 | u64::from(at % 5_000));
                addresses.enter(at, if at % 2 == 0 { one } else { other });
                assert!(at % 2 == 0 || addresses.count(other) <= 2);
            }
            assert_eq!(addresses.count(one), 5_000);
            for at in 0..10_000 {
                addresses.leave((at * 7 + round) % 10_000);
            }
            assert_eq!((addresses.counts.len(), addresses.keys.len()), (0, 0));
            assert!(addresses.counts.capacity() <= 8 * KEPT_LEN);
            assert!(addresses.keys.capacity() <= 8 * KEPT_LEN);
        }
        addresses.enter(3, PeerNetwork::Unnamed);
        addresses.leave(3);
        addresses.leave(77);
        assert!(addresses.counts.is_empty() && addresses.keys.is_empty());
    }
}
