//! Networks.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::rules::masks::{mask4, mask6};

/// Networks; the longest matching prefix is found.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks {
    v4: MaskIndex,
    v6: MaskIndex,
}

/// Networks of one family, as numbers.
#[derive(Clone, Debug, Default)]
struct MaskIndex {
    /// By mask, the longest first.
    by_mask: Vec<(u128, HashMap<u128, usize>)>,
}

impl Networks {
    /// Parses an address, optionally with a mask after a slash.
    pub(super) fn add(&mut self, text: &str, at: usize) -> Result<(), String> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        if let Some(address) = address4(address) {
            let mask = mask.map_or(Ok(Ipv4Addr::BROADCAST), mask4)?;
            self.v4.add(address.to_bits().into(), mask.to_bits().into(), at);
            return Ok(());
        }
        let address: Ipv6Addr = address.parse().map_err(|_| {
            format!(
                "'{text}' is not a valid IPv4 or IPv6 address or network (host names are not \
                     resolved)"
            )
        })?;
        let mask = mask.map_or(Ok(Ipv6Addr::from_bits(u128::MAX)), mask6)?;
        self.v6.add(address.to_bits(), mask.to_bits(), at);
        Ok(())
    }

    /// IPv4 addresses embedded in IPv6 (`::ffff:1.2.3.4`, `::1.2.3.4`, 2002::/16) match networks of
    /// both families.
    pub(super) fn find(&self, address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(address) => self
                .v4
                .find(address.to_bits().into())
                .or_else(|| self.v6.find(address.to_ipv6_mapped().to_bits())),
            IpAddr::V6(address) => self
                .v6
                .find(address.to_bits())
                .or_else(|| self.v4.find(embedded4(address)?.to_bits().into())),
        }
    }
}

impl MaskIndex {
    fn add(&mut self, address: u128, mask: u128, at: usize) {
        let order =
            |known: &(u128, _)| (mask.count_ones(), mask).cmp(&(known.0.count_ones(), known.0));
        let place = match self.by_mask.binary_search_by(order) {
            Ok(place) => place,
            Err(place) => {
                self.by_mask.insert(place, (mask, HashMap::new()));
                place
            }
        };
        self.by_mask[place].1.entry(address & mask).or_insert(at);
    }

    fn find(&self, address: u128) -> Option<usize> {
        self.by_mask.iter().find_map(|(mask, networks)| networks.get(&(address & mask)).copied())
    }
}

/// The IPv4 address embedded in an IPv6 address.
fn embedded4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] => Some(joined(g, h)),
        [0x2002, ..] => Some(joined(b, c)),
        _ => None,
    }
}

/// An IPv4 address; with fewer numbers, the last one fills the rest (`127.1`).
fn address4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text
        .split('.')
        .map(|part| part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())?)
        .collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return None;
    }
    let bits_left = 32 - 8 * u32::try_from(first.len()).ok()?;
    if bits_left < 32 && *last >> bits_left != 0 || first.is_empty() {
        return None;
    }
    let high = first.iter().fold(0u32, |high, part| high << 8 | part);
    Some(Ipv4Addr::from_bits(high << bits_left | last))
}
