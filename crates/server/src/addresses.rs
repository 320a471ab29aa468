//! How many connections each address has. An address is in the table as long as it has any.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

/// Connections by address.
#[derive(Debug, Default)]
pub(crate) struct AddressCounts {
    counts: HashMap<u64, u32>, // by key
    keys: Vec<u64>,            // of each connection, by its place; `NOBODY`: it is not counted
}

/// Who connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerNetwork {
    /// From an address, or from one of a network that one client has for itself.
    Network(u64),
    /// From this machine.
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
            // Below 2^32 lies 0000::/8, from which nobody connects (RFC 4291 §2.4).
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

    /// The same for all connections from there.
    pub(crate) fn key(self) -> u64 {
        match self {
            Self::Network(key) | Self::Loopback(key) => key,
            Self::Unnamed => NOBODY,
        }
    }
}

impl AddressCounts {
    /// How many connections stand from there.
    pub(crate) fn count(&self, origin: PeerNetwork) -> usize {
        self.counts.get(&origin.key()).map_or(0, |count| *count as usize)
    }

    /// One more, which has this place among all connections.
    pub(crate) fn enter(&mut self, at: u32, origin: PeerNetwork) {
        let (at, key) = (at as usize, origin.key());
        if key != NOBODY {
            *self.counts.entry(key).or_default() += 1;
            if self.keys.len() <= at {
                self.keys.resize(at + 1, NOBODY);
            }
            self.keys[at] = key;
        }
    }

    /// The connection at this place is gone.
    pub(crate) fn leave(&mut self, at: u32) {
        let Some(key) = self.keys.get_mut(at as usize).map(std::mem::take) else { return };
        if let Entry::Occupied(mut count) = self.counts.entry(key) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        while self.keys.pop_if(|key| *key == NOBODY).is_some() {}
        if self.keys.capacity() > 4 * self.keys.len().max(KEPT_LEN) {
            self.keys.shrink_to(2 * self.keys.len());
        }
        if self.counts.capacity() > 4 * self.counts.len().max(KEPT_LEN) {
            self.counts.shrink_to(2 * self.counts.len());
        }
    }
}

/// `0.0.0.0`, which is nobody's address.
const NOBODY: u64 = 0;
/// `0.0.0.1`, which is nobody's either.
const LOOPBACK_V6: u64 = 1;
/// So many entries are not worth giving back.
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

    /// Whatever order connections come and go in, the table has those that are there.
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
