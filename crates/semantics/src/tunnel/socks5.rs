//! SOCKS version 5: CONNECT (RFC 1928), without login or with user and password (RFC 1929).
//!
//! ```text
//! we:     methods          login (if chosen)           request
//! proxy:           choice                    verdict            reply ─▶ tunnel open
//! ```

use std::fmt;

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, LayerError, Opened, Outbox, Sealed, Transmit};
use url::Host;

use crate::proxy::Login;

/// A tunnel through a SOCKS5 proxy. Fails with [`Socks5Error`].
pub struct Socks5 {
    stage: Socks5Stage,
    outbox: Outbox,
    /// The message with user and password, if there is a login.
    login: Option<Vec<u8>>,
    request: Vec<u8>,
    next: Option<Box<dyn Layer>>,
}

/// The message that the proxy sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Socks5Stage {
    /// The method it selected.
    Choice,
    /// The status of the login.
    Verdict,
    /// The result of the connect.
    Reply,
    /// None: the tunnel is open.
    Done,
}

impl Socks5 {
    /// Requests a tunnel to `host`; the proxy resolves names. With a login, the proxy chooses
    /// whether to use it. `next` takes over when the tunnel is open.
    ///
    /// # Errors
    /// A value does not fit into the protocol.
    pub fn new(
        host: &Host<&str>,
        port: u16,
        login: Option<&Login>,
        next: Option<Box<dyn Layer>>,
    ) -> Result<Self, Socks5Misuse> {
        let request = request(host, port)?;
        let login = login.map(login_message).transpose()?;
        let methods = if login.is_some() { &[NO_LOGIN, LOGIN][..] } else { &[NO_LOGIN] };
        let mut outbox = Outbox::default();
        outbox.compose(|out| {
            out.push(VERSION);
            out.extend(u8::try_from(methods.len()));
            out.extend_from_slice(methods);
        });
        Ok(Self { stage: Socks5Stage::Choice, outbox, login, request, next })
    }

    /// Reads the expected message, if it is complete.
    fn read(&mut self, input: &mut Input<'_>) -> Result<Opened, Socks5Error> {
        if !input.is_empty() && !self.outbox.is_empty() {
            return Err(Socks5Error::Unsolicited); // a reply before the request was sent
        }
        let size = match self.stage {
            Socks5Stage::Choice => self.read_choice(input.bytes())?,
            Socks5Stage::Verdict => read_verdict(input.bytes())?,
            Socks5Stage::Reply => read_reply(input.bytes())?,
            Socks5Stage::Done => return Ok(Opened::Blocked),
        };
        let Some(size) = size else {
            let eof = input.has_eof();
            return if eof { Err(Socks5Error::UnexpectedEof) } else { Ok(Opened::Blocked) };
        };
        let last = self.stage;
        self.go_on(input.bytes()[1]);
        input.skip(size);
        Ok(if last == Socks5Stage::Reply {
            Opened::Replaced(self.next.take())
        } else {
            Opened::Some
        })
    }

    /// Handles a complete message; `method` is the selected method, if the message has one.
    fn go_on(&mut self, method: u8) {
        self.stage = match self.stage {
            Socks5Stage::Choice if method == LOGIN => {
                let login = self.login.take().expect("the method was offered, so there is a login");
                self.outbox.compose(|out| out.extend_from_slice(&login));
                Socks5Stage::Verdict
            }
            Socks5Stage::Choice | Socks5Stage::Verdict => {
                self.outbox.compose(|out| out.extend_from_slice(&self.request));
                Socks5Stage::Reply
            }
            Socks5Stage::Reply | Socks5Stage::Done => Socks5Stage::Done,
        };
    }

    /// `VER METHOD`; the size of the message if it is complete.
    fn read_choice(&self, bytes: &[u8]) -> Result<Option<usize>, Socks5Error> {
        match *bytes {
            [VERSION, NO_LOGIN, ..] => Ok(Some(2)),
            [VERSION, LOGIN, ..] if self.login.is_some() => Ok(Some(2)),
            [VERSION, NO_METHOD, ..] => Err(Socks5Error::NoMethod),
            [VERSION, method, ..] => Err(Socks5Error::MethodNotOffered(method)),
            [] | [VERSION] => Ok(None),
            [version, ..] => Err(Socks5Error::BadVersion(version)),
        }
    }
}

/// `VER STATUS` (RFC 1929 §2).
fn read_verdict(bytes: &[u8]) -> Result<Option<usize>, Socks5Error> {
    match *bytes {
        [LOGIN_VERSION, 0, ..] => Ok(Some(2)),
        [LOGIN_VERSION, status, ..] => Err(Socks5Error::LoginRefused(status)),
        [] | [LOGIN_VERSION] => Ok(None),
        [version, ..] => Err(Socks5Error::BadVersion(version)),
    }
}

/// `VER REP RSV ATYP BND.ADDR BND.PORT` (RFC 1928 §6). The address, from which the proxy connects,
/// is ignored. A refusal is returned as soon as its code is received: some proxies send no more.
fn read_reply(bytes: &[u8]) -> Result<Option<usize>, Socks5Error> {
    let address_size = match *bytes {
        [] | [VERSION] | [VERSION, 0] | [VERSION, 0, 0] | [VERSION, 0, 0, NAME] => return Ok(None),
        [VERSION, 0, 0, IPV4, ..] => 4,
        [VERSION, 0, 0, IPV6, ..] => 16,
        [VERSION, 0, 0, NAME, len, ..] => 1 + usize::from(len),
        [VERSION, 0, 0, kind, ..] => return Err(Socks5Error::BadAddressType(kind)),
        [VERSION, 0, ..] => return Err(Socks5Error::BadReserved),
        [VERSION, code, ..] => return Err(Socks5Error::of_reply(code)),
        [version, ..] => return Err(Socks5Error::BadVersion(version)),
    };
    let size = 4 + address_size + 2;
    Ok((bytes.len() >= size).then_some(size))
}

/// `VER CMD RSV ATYP DST.ADDR DST.PORT` (RFC 1928 §4).
fn request(host: &Host<&str>, port: u16) -> Result<Vec<u8>, Socks5Misuse> {
    let mut out = vec![VERSION, CONNECT, 0];
    match host {
        Host::Ipv4(address) => {
            out.push(IPV4);
            out.extend_from_slice(&address.octets());
        }
        Host::Ipv6(address) => {
            out.push(IPV6);
            out.extend_from_slice(&address.octets());
        }
        Host::Domain(name) => {
            let size = u8::try_from(name.len()).ok().filter(|size| *size > 0);
            out.extend([NAME, size.ok_or(Socks5Misuse::BadName)?]);
            out.extend_from_slice(name.as_bytes());
        }
    }
    out.extend_from_slice(&port.to_be_bytes());
    Ok(out)
}

/// `VER ULEN UNAME PLEN PASSWD` (RFC 1929 §2). The RFC requires at least one byte each; empty ones
/// are sent nevertheless, as in curl, and the proxy decides.
fn login_message(login: &Login) -> Result<Vec<u8>, Socks5Misuse> {
    let mut out = vec![LOGIN_VERSION];
    for text in [&login.user, &login.password] {
        out.push(u8::try_from(text.len()).map_err(|_| Socks5Misuse::LoginTooLong)?);
        out.extend_from_slice(text);
    }
    Ok(out)
}

impl Layer for Socks5 {
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

/// Without the login.
impl fmt::Debug for Socks5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socks5").field("stage", &self.stage).finish_non_exhaustive()
    }
}

/// Why the proxy opened no tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Socks5Error {
    /// The message has another version.
    BadVersion(u8),
    /// The proxy accepts none of the offered methods; without a login, it may require one.
    NoMethod,
    /// The proxy selected a method that was not offered.
    MethodNotOffered(u8),
    /// User or password are wrong; with the status.
    LoginRefused(u8),
    /// Reply 1: general failure.
    GeneralFailure,
    /// Reply 2: not allowed by its rules.
    NotAllowed,
    /// Reply 3: network unreachable.
    NetworkUnreachable,
    /// Reply 4: host unreachable.
    HostUnreachable,
    /// Reply 5: connection refused by the host.
    ConnectionRefused,
    /// Reply 6: time to live expired.
    TtlExpired,
    /// Reply 7: CONNECT is not supported.
    CommandNotSupported,
    /// Reply 8: the address type is not supported.
    AddressTypeNotSupported,
    /// A reply that is not in the RFC.
    UnknownReply(u8),
    /// A reserved byte is not 0.
    BadReserved,
    /// An address type that is not in the RFC.
    BadAddressType(u8),
    /// A reply before the request was sent.
    Unsolicited,
    /// The connection was closed before the tunnel was open.
    UnexpectedEof,
}

impl Socks5Error {
    fn of_reply(code: u8) -> Self {
        match code {
            1 => Self::GeneralFailure,
            2 => Self::NotAllowed,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::ConnectionRefused,
            6 => Self::TtlExpired,
            7 => Self::CommandNotSupported,
            8 => Self::AddressTypeNotSupported,
            code => Self::UnknownReply(code),
        }
    }
}

impl fmt::Display for Socks5Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the SOCKS proxy ")?;
        f.write_str(match self {
            Self::BadVersion(version) => return write!(f, "speaks version {version}, not 5"),
            Self::NoMethod => "accepts none of the offered login methods",
            Self::MethodNotOffered(method) => {
                return write!(f, "chose login method {method}, which was not offered");
            }
            Self::LoginRefused(status) => {
                return write!(f, "refused user and password with status {status}");
            }
            Self::GeneralFailure => "reported a general failure",
            Self::NotAllowed => "does not allow this connection",
            Self::NetworkUnreachable => "cannot reach the network",
            Self::HostUnreachable => "cannot reach the host",
            Self::ConnectionRefused => "was refused by the host",
            Self::TtlExpired => "reported an expired time to live",
            Self::CommandNotSupported => "does not support CONNECT",
            Self::AddressTypeNotSupported => "does not support this kind of address",
            Self::UnknownReply(code) => return write!(f, "replied {code}, which is unknown"),
            Self::BadReserved => "sent a reserved byte that is not 0",
            Self::BadAddressType(kind) => {
                return write!(f, "replied with unknown address type {kind}");
            }
            Self::Unsolicited => "replied before the request was sent",
            Self::UnexpectedEof => "closed the connection before the tunnel was open",
        })
    }
}

impl std::error::Error for Socks5Error {}

/// Why a tunnel cannot be requested with SOCKS5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Socks5Misuse {
    /// The host name is empty or longer than 255 bytes.
    BadName,
    /// The user or the password is longer than 255 bytes.
    LoginTooLong,
}

impl fmt::Display for Socks5Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadName => "host name for a SOCKS proxy must have 1 to 255 bytes",
            Self::LoginTooLong => {
                "user and password for a SOCKS proxy must have at most 255 bytes each"
            }
        })
    }
}

impl std::error::Error for Socks5Misuse {}

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const LOGIN: u8 = 2;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
