//! SOCKS version 4: CONNECT to an IPv4 address, or to a name that the proxy resolves (4A).
//!
//! There is no RFC. The source is "SOCKS: A protocol for TCP proxy across firewalls" by Ying-Da
//! Lee, and its extension 4A.

use std::fmt;
use std::net::Ipv4Addr;

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Outbox, Sealed, Transmit};
use url::Host;

use super::Socks5Misuse;

/// A tunnel through a SOCKS4 proxy. Fails with [`Socks4Error`].
#[derive(Debug)]
pub struct Socks4 {
    outbox: Outbox,
    is_open: bool,
    next: Option<Box<dyn Layer>>,
}

impl Socks4 {
    /// Requests a tunnel to `host`; a name is resolved by the proxy (4A). `next` takes over when
    /// the tunnel is open.
    ///
    /// # Errors
    /// The host is of IPv6, or a value does not fit into the protocol.
    pub fn new(
        host: &Host<&str>,
        port: u16,
        user: &[u8],
        next: Option<Box<dyn Layer>>,
    ) -> Result<Self, Socks5Misuse> {
        let (address, name) = match host {
            Host::Ipv4(address) => (*address, None),
            Host::Domain(name) => (NAME_FOLLOWS, Some(*name)),
            Host::Ipv6(_) => return Err(Socks5Misuse::BadName),
        };
        if user.contains(&0) || user.len() > TEXT_LEN_MAX {
            return Err(Socks5Misuse::LoginTooLong);
        }
        if name.is_some_and(|name| name.is_empty() || name.len() >= TEXT_LEN_MAX) {
            return Err(Socks5Misuse::BadName);
        }
        let mut outbox = Outbox::default();
        outbox.compose(|out| {
            out.extend_from_slice(&[VERSION, CONNECT]);
            out.extend_from_slice(&port.to_be_bytes());
            out.extend_from_slice(&address.octets());
            out.extend_from_slice(user);
            out.push(0);
            if let Some(name) = name {
                out.extend_from_slice(name.as_bytes());
                out.push(0);
            }
        });
        Ok(Self { outbox, is_open: false, next })
    }

    fn read(&mut self, input: &mut Input<'_>) -> Result<Opened, Socks4Error> {
        if self.is_open {
            return Ok(Opened::Blocked);
        }
        let Some(reply) = input.bytes().first_chunk::<REPLY_LEN>().copied() else {
            let has_eof = input.has_eof();
            return if has_eof { Err(Socks4Error::UnexpectedEof) } else { Ok(Opened::Blocked) };
        };
        let [version, code, port @ .., a, b, c, d] = reply;
        if version != 0 {
            return Err(Socks4Error::BadVersion(version));
        }
        if code != GRANTED {
            let address = Ipv4Addr::new(a, b, c, d);
            return Err(Socks4Error::Refused { code, address, port: u16::from_be_bytes(port) });
        }
        input.skip(REPLY_LEN);
        self.is_open = true;
        Ok(Opened::Replaced(self.next.take()))
    }
}

impl Layer for Socks4 {
    fn open(&mut self, input: &mut Input<'_>, _: &mut BytesMut) -> Result<Opened, LayerError> {
        Ok(self.read(input)?)
    }

    fn seal(&mut self, _: Transmit<'_>) -> Result<Sealed, LayerError> {
        Ok(Sealed::Bytes(0))
    }

    fn seal_loaded(&mut self, _: &[u8]) -> Result<(), LayerError> {
        Ok(())
    }

    fn finish(&mut self) {}

    fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.outbox.transmit()
    }

    fn handle_sent(&mut self, bytes: u64) {
        self.outbox.sent(bytes);
    }
}

/// Why the proxy opened no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Socks4Error {
    /// The version of a reply is 0.
    BadVersion(u8),
    /// The proxy refuses: 91 in general, 92 and 93 because of the user.
    Refused {
        /// The code.
        code: u8,
        /// The address in the reply.
        address: Ipv4Addr,
        /// The port in the reply.
        port: u16,
    },
    /// The connection was closed before the tunnel was open.
    UnexpectedEof,
}

impl fmt::Display for Socks4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadVersion(version) => {
                write!(f, "the SOCKS proxy replied with version {version}, not 0")
            }
            Self::Refused { code, .. } => {
                write!(f, "the SOCKS proxy refused the connection with code {code}")
            }
            Self::UnexpectedEof => f.write_str("the SOCKS proxy closed the connection"),
        }
    }
}

impl std::error::Error for Socks4Error {}

const VERSION: u8 = 4;
const CONNECT: u8 = 1;
const GRANTED: u8 = 90;
const REPLY_LEN: usize = 8;
/// A user or a name; libcurl has the same limit for names.
const TEXT_LEN_MAX: usize = 255;
/// 4A: an address that no host has.
const NAME_FOLLOWS: Ipv4Addr = Ipv4Addr::new(0, 0, 0, 1);

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(host: &Host<&str>) -> Vec<u8> {
        let mut layer = Socks4::new(host, 80, b"me", None).expect("a tunnel");
        layer.poll_transmit().map(|transmit| transmit.inline.to_vec()).unwrap_or_default()
    }

    #[test]
    fn requests_have_an_address_or_a_name() {
        let address = Host::Ipv4(Ipv4Addr::new(1, 2, 3, 4));
        assert_eq!(sent(&address), b"\x04\x01\0\x50\x01\x02\x03\x04me\0");
        assert_eq!(sent(&Host::Domain("h.org")), b"\x04\x01\0\x50\0\0\0\x01me\0h.org\0");
        let long = "x".repeat(255);
        assert!(Socks4::new(&Host::Domain(&long), 80, b"", None).is_err());
    }

    #[test]
    fn replies_open_the_tunnel_or_fail() {
        let open = |bytes: &[u8], eof| {
            let host = Host::Domain("h");
            let mut layer = Socks4::new(&host, 80, b"", None).expect("a tunnel");
            let mut memory = BytesMut::from(bytes);
            layer
                .read(&mut Input::all(&mut memory, eof))
                .map(|opened| matches!(opened, Opened::Replaced(None)))
        };
        assert_eq!(open(b"\0\x5a\0\0\0\0\0\0", false), Ok(true));
        assert_eq!(open(b"\0\x5a\0\0\0\0\0", false), Ok(false));
        assert_eq!(open(b"\0\x5a", true), Err(Socks4Error::UnexpectedEof));
        assert_eq!(open(b"\x04\x5a\0\0\0\0\0\0", false), Err(Socks4Error::BadVersion(4)));
        let address = Ipv4Addr::new(1, 2, 3, 4);
        let refused = Socks4Error::Refused { code: 91, address, port: 80 };
        assert_eq!(open(b"\0\x5b\0\x50\x01\x02\x03\x04", false), Err(refused));
    }
}
