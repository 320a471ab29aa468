//! Samples: typed values of rules (HAProxy's configuration manual, §7.1), and conversions between
//! types.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

use crate::rules::number::{leading_address, leading_int};

/// A value from a message, a connection or the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An address, without a port.
    Address(IpAddr),
    /// Text, written as it is.
    Text(Cow<'a, [u8]>),
    /// Arbitrary bytes.
    Binary(Cow<'a, [u8]>),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Not known before evaluation.
    Any,
    /// A boolean.
    Bool,
    /// A signed integer.
    Int,
    /// An address.
    Address,
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

impl<'a> Sample<'a> {
    /// Borrowed text.
    pub fn text(bytes: &'a [u8]) -> Self {
        Self::Text(Cow::Borrowed(bytes))
    }

    /// Its type.
    pub fn kind(&self) -> Type {
        match self {
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Address(_) => Type::Address,
            Self::Text(_) => Type::Text,
            Self::Binary(_) => Type::Binary,
        }
    }

    /// An owned copy.
    pub fn into_owned(self) -> Sample<'static> {
        match self {
            Self::Bool(value) => Sample::Bool(value),
            Self::Int(value) => Sample::Int(value),
            Self::Address(value) => Sample::Address(value),
            Self::Text(value) => Sample::Text(Cow::Owned(value.into_owned())),
            Self::Binary(value) => Sample::Binary(Cow::Owned(value.into_owned())),
        }
    }

    /// Converts to another type; `None` if that is not possible.
    pub fn cast(self, to: Type) -> Option<Self> {
        match to {
            Type::Any => Some(self),
            Type::Bool => self.into_bool().map(Self::Bool),
            Type::Int => self.into_int().map(Self::Int),
            Type::Address => self.into_address().map(Self::Address),
            Type::Text => self.into_text().map(Self::Text),
            Type::Binary => self.into_binary().map(Self::Binary),
        }
    }

    /// True unless it is zero; for text, the number at its start.
    pub(crate) fn into_bool(self) -> Option<bool> {
        self.into_int().map(|value| value != 0)
    }

    /// A number; for text, the number at its start, or 0; for IPv4 addresses, the 32 bits.
    pub(crate) fn into_int(self) -> Option<i64> {
        match self {
            Self::Bool(value) => Some(i64::from(value)),
            Self::Int(value) => Some(value),
            Self::Address(IpAddr::V4(address)) => Some(i64::from(address.to_bits())),
            Self::Text(text) if !text.is_empty() => Some(leading_int(&text)),
            Self::Text(_) | Self::Address(IpAddr::V6(_)) | Self::Binary(_) => None,
        }
    }

    /// An address; for numbers, the lower 32 bits.
    pub fn into_address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            #[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
            Self::Int(value) => Some(Ipv4Addr::from_bits(value as u32).into()),
            Self::Text(text) => leading_address(&text),
            Self::Bool(_) | Self::Binary(_) => None,
        }
    }

    /// Text; for bytes, those before the first NUL; `1` or `0` for booleans.
    pub fn into_text(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Bool(value) => Some(Cow::Borrowed(if value { b"1" } else { b"0" })),
            Self::Int(value) => Some(Cow::Owned(value.to_string().into_bytes())),
            Self::Address(address) => Some(Cow::Owned(written(address))),
            Self::Text(text) => Some(text),
            Self::Binary(bytes) => Some(before_nul(bytes)),
        }
    }

    /// Bytes; 4 or 16 for addresses; 8 for numbers, big-endian.
    pub(crate) fn into_binary(self) -> Option<Cow<'a, [u8]>> {
        match self {
            Self::Bool(value) => Some(Cow::Owned(i64::from(value).to_be_bytes().to_vec())),
            Self::Int(value) => Some(Cow::Owned(value.to_be_bytes().to_vec())),
            Self::Address(IpAddr::V4(address)) => Some(Cow::Owned(address.octets().to_vec())),
            Self::Address(IpAddr::V6(address)) => Some(Cow::Owned(address.octets().to_vec())),
            Self::Text(bytes) | Self::Binary(bytes) => Some(bytes),
        }
    }
}

impl Sample<'static> {
    /// A view of a stored value.
    pub(crate) fn borrowed(&self) -> Sample<'_> {
        match self {
            Sample::Text(text) => Sample::text(text),
            Sample::Binary(bytes) => Sample::Binary(bytes[..].into()),
            Sample::Bool(value) => Sample::Bool(*value),
            Sample::Int(value) => Sample::Int(*value),
            Sample::Address(address) => Sample::Address(*address),
        }
    }
}

impl Type {
    /// True if values of this type may be convertible to `to`.
    pub(crate) fn casts_to(self, to: Self) -> bool {
        match (self, to) {
            (Self::Any, _) | (_, Self::Any | Self::Text | Self::Binary) => true,
            (from, to) if from == to => true,
            (Self::Bool | Self::Int | Self::Text, Self::Bool | Self::Int) => true,
            (Self::Int | Self::Text, Self::Address) | (Self::Address, Self::Int) => true,
            _ => false,
        }
    }
}

/// As in the manual.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Address => "ip",
            Self::Text => "string",
            Self::Binary => "binary",
        })
    }
}

fn written(address: IpAddr) -> Vec<u8> {
    let mut text = Vec::with_capacity(40);
    write!(text, "{address}").expect("memory takes all that is written");
    text
}

fn before_nul(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Some(end) = bytes.iter().position(|byte| *byte == 0) else { return bytes };
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    }
}
