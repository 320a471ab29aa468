//! Converters of addresses and of names in the configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Converter;
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    Converter::new(
        &["ipmask"],
        Takes::from(1, &[ArgKind::Mask4, ArgKind::Mask6]),
        Type::Address,
        Type::Address,
        mask,
    ),
    Converter::new(&["nbsrv"], Takes::NONE, Type::Text, Type::Int, usable_servers),
    Converter::new(&["srv_queue"], Takes::NONE, Type::Text, Type::Int, server_queue),
];

/// An IPv4-mapped IPv6 address is masked as IPv4.
fn mask<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let masked = match (value.into_address()?.to_canonical(), args.get(0), args.get(1)) {
        (IpAddr::V4(address), Arg::Address4(mask), _) => {
            Ipv4Addr::from_bits(address.to_bits() & mask.to_bits()).into()
        }
        (IpAddr::V6(address), _, Arg::Address6(mask)) => {
            Ipv6Addr::from_bits(address.to_bits() & mask.to_bits()).into()
        }
        _ => return None,
    };
    Some(Sample::Address(masked))
}

fn usable_servers<'a>(
    value: Sample<'a>,
    _: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let name = value.into_text()?;
    subject.fact(&Fact::UsableServers(Some(str::from_utf8(&name).ok()?.into())))
}

fn server_queue<'a>(
    value: Sample<'a>,
    _: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let name = value.into_text()?;
    let name = str::from_utf8(&name).ok()?;
    subject.fact(&match name.split_once('/') {
        Some((backend, server)) => Fact::ServerQueue(Some(backend.into()), server.into()),
        None => Fact::ServerQueue(None, name.into()),
    })
}
