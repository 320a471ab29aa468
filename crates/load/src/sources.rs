//! Source addresses: `10.0.0.1-10.0.0.9,10.1.0.0/24`.
//!
//! One source address reaches one destination from some 28,000 ports; more connections than that
//! need more addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses to connect from, in their given order.
///
/// ```
/// use fulmar_load::Sources;
/// let sources: Sources = "127.0.0.2-127.0.0.4,127.1.0.0/30".parse().unwrap();
/// assert_eq!(sources.len(), 5);
/// assert_eq!(sources.nth(3).unwrap().to_string(), "127.1.0.1");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    ranges: Vec<Range>,
}

/// Consecutive addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: IpAddr,
    len: u64,
}

impl Sources {
    /// True if the kernel chooses.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many addresses there are.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).sum()
    }

    /// The address at position `at`.
    pub fn nth(&self, mut at: u64) -> Option<IpAddr> {
        for range in &self.ranges {
            if at < range.len {
                return Some(range.nth(at));
            }
            at -= range.len;
        }
        None
    }

    /// The address of connection `number`: connections use all addresses in turn.
    pub fn at(&self, number: u64) -> Option<IpAddr> {
        self.nth(number.checked_rem(self.len())?)
    }

    /// True if a connection to `peer` can come from here.
    pub fn reach(&self, peer: IpAddr) -> bool {
        self.ranges.first().is_none_or(|range| range.first.is_ipv4() == peer.is_ipv4())
    }
}

impl Range {
    fn nth(self, at: u64) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => {
                let at = u32::try_from(at).expect("the length was checked");
                Ipv4Addr::from_bits(first.to_bits() + at).into()
            }
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(at)).into(),
        }
    }

    fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let len = match (first, last) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(b.to_bits().checked_sub(a.to_bits())?),
            (IpAddr::V6(a), IpAddr::V6(b)) => b.to_bits().checked_sub(a.to_bits())?,
            _ => return None,
        };
        let len = u64::try_from(len).ok()?.checked_add(1)?;
        (len <= RANGE_LEN_MAX).then_some(Self { first, len })
    }

    /// The hosts of a network. In IPv4 its first and last address denote the whole network and are
    /// left out, if there are others.
    fn network(address: IpAddr, prefix: u32) -> Option<Self> {
        match address {
            IpAddr::V4(address) => {
                let hosts = u32::MAX.checked_shr(prefix).unwrap_or(0);
                let base = address.to_bits() & !hosts;
                let inset = u32::from(prefix <= 30);
                let (first, last) = (base + inset, (base | hosts) - inset);
                let of = |bits| Ipv4Addr::from_bits(bits).into();
                (prefix <= 32).then(|| Self::between(of(first), of(last)))?
            }
            IpAddr::V6(address) => {
                let hosts = u128::MAX.checked_shr(prefix).unwrap_or(0);
                let base = address.to_bits() & !hosts;
                let of = |bits| Ipv6Addr::from_bits(bits).into();
                (prefix <= 128).then(|| Self::between(of(base), of(base | hosts)))?
            }
        }
    }
}

impl FromStr for Sources {
    type Err = SourcesError;

    fn from_str(text: &str) -> Result<Self, SourcesError> {
        let mut ranges = Vec::new();
        for part in text.split(',').map(str::trim) {
            ranges.push(parse_range(part).ok_or_else(|| SourcesError(part.to_owned()))?);
        }
        let v4 = ranges.iter().filter(|range| range.first.is_ipv4()).count();
        if v4 != 0 && v4 != ranges.len() {
            return Err(SourcesError(text.to_owned()));
        }
        let sources = Self { ranges };
        if sources.len() > RANGE_LEN_MAX {
            return Err(SourcesError(text.to_owned()));
        }
        Ok(sources)
    }
}

fn parse_range(part: &str) -> Option<Range> {
    if let Some((address, prefix)) = part.split_once('/') {
        return Range::network(address.parse().ok()?, prefix.parse().ok()?);
    }
    match part.split_once('-') {
        Some((first, last)) => {
            Range::between(first.trim().parse().ok()?, last.trim().parse().ok()?)
        }
        None => Some(Range { first: part.parse().ok()?, len: 1 }),
    }
}

/// Not a list of addresses, ranges and networks of one family, or more than 2^24 of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesError(String);

impl fmt::Display for SourcesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a list of source addresses: write 10.0.0.1, 10.0.0.1-10.0.0.9, \
             10.0.0.0/24, or several with commas between, all IPv4 or all IPv6",
            self.0
        )
    }
}

impl std::error::Error for SourcesError {}

const RANGE_LEN_MAX: u64 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_ranges_and_networks_are_read() {
        for (text, len, first, last) in [
            ("10.0.0.1", 1, "10.0.0.1", "10.0.0.1"),
            ("10.0.0.1-10.0.0.9", 9, "10.0.0.1", "10.0.0.9"),
            ("10.0.0.250 - 10.0.1.5", 12, "10.0.0.250", "10.0.1.5"),
            ("10.0.0.77/24", 254, "10.0.0.1", "10.0.0.254"),
            ("10.0.0.4/31", 2, "10.0.0.4", "10.0.0.5"),
            ("10.0.0.4/32", 1, "10.0.0.4", "10.0.0.4"),
            ("127.0.0.0/8", (1 << 24) - 2, "127.0.0.1", "127.255.255.254"),
            ("10.0.0.1, 10.0.0.7-10.0.0.8", 3, "10.0.0.1", "10.0.0.8"),
            ("fd00::1-fd00::3", 3, "fd00::1", "fd00::3"),
            ("fd00::/120", 256, "fd00::", "fd00::ff"),
        ] {
            let sources: Sources = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(sources.len(), len, "{text}");
            assert_eq!(sources.nth(0).unwrap().to_string(), first);
            assert_eq!(sources.nth(len - 1).unwrap().to_string(), last);
            assert_eq!((sources.nth(len), sources.at(len)), (None, sources.nth(0)));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "x",
            "10.0.0.1,",
            "10.0.0.9-10.0.0.1",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.1-::1",
            "10.0.0.1,::1",
            "0.0.0.0/0",
            "::/0",
            "127.0.0.0/8,10.0.0.1-10.0.0.3",
            "fd00::/129",
        ] {
            assert!(text.parse::<Sources>().is_err(), "{text}");
        }
    }
}
