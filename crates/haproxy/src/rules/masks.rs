//! Addresses and masks in arguments and patterns.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A mask as an address (`255.255.255.0`) or a length (`24`).
pub(crate) fn mask4(text: &str) -> Result<Ipv4Addr, String> {
    match text.parse::<u8>() {
        Ok(len @ 0..=32) => {
            Ok(Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)))
        }
        Ok(_) => Err(format!("'/{text}' exceeds the 32 bits of an IPv4 address")),
        Err(_) => address(text, "an IPv4 mask (24, or 255.255.255.0)"),
    }
}

/// A mask as an address (`ffff:ffff::`) or a length (`32`).
pub(crate) fn mask6(text: &str) -> Result<Ipv6Addr, String> {
    match text.parse::<u8>() {
        Ok(len @ 0..=128) => {
            Ok(Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)))
        }
        Ok(_) => Err(format!("'/{text}' exceeds the 128 bits of an IPv6 address")),
        Err(_) => address(text, "an IPv6 mask (64, or ffff:ffff::)"),
    }
}

pub(crate) fn address<A: std::str::FromStr>(text: &str, what: &str) -> Result<A, String> {
    text.parse().map_err(|_| format!("'{text}' is not {what}"))
}
