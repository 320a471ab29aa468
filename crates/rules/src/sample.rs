//! Values that rules compute with (HAProxy's configuration manual, §7.1).

use std::borrow::Cow;
use std::net::IpAddr;

/// A value taken from a message, a connection or the proxy itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An address, without a port.
    Address(IpAddr),
    /// Text: bytes that are shown as they are.
    Text(Cow<'a, [u8]>),
    /// Bytes that are shown in hexadecimal.
    Binary(Cow<'a, [u8]>),
}

impl Sample<'_> {
    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Sample<'static> {
        match self {
            Self::Bool(value) => Sample::Bool(value),
            Self::Int(value) => Sample::Int(value),
            Self::Address(value) => Sample::Address(value),
            Self::Text(value) => Sample::Text(Cow::Owned(value.into_owned())),
            Self::Binary(value) => Sample::Binary(Cow::Owned(value.into_owned())),
        }
    }
}
