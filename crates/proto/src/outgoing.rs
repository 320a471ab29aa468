//! Checks of the heads and trailers to send, before anything is queued.

use crate::body_len::BodyLen;
use crate::errors::UsageError;
use crate::head::{
    Added, Headers, Request, is_field_value, is_forbidden_trailer, is_token, trim_ows,
};
use crate::target;

/// The requests in the hop-by-hop fields of the caller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HopFields {
    pub(crate) close: bool,
    pub(crate) upgrade: bool,
    pub(crate) expects_continue: bool,
    pub(crate) te: bool,
}

/// Examines the fields to send. Received fields and those of a `HeaderBuf` have been checked;
/// `added` has not.
pub(crate) fn survey(headers: Headers<'_>, added: Added<'_>) -> Result<HopFields, UsageError> {
    let mut hop = HopFields::default();
    if headers.as_wire().is_none() {
        headers.own_hops().for_each(|(name, value)| hop.note(name, value));
    }
    for (name, value) in added {
        if !is_token(name.as_bytes()) || !is_field_value(value) {
            return Err(UsageError::BadHead);
        }
        hop.note(name.as_bytes(), value);
    }
    Ok(hop)
}

impl HopFields {
    fn note(&mut self, name: &[u8], value: &[u8]) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            2 if is(b"te") => self.te = true,
            6 if is(b"expect") => {
                self.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
            }
            7 if is(b"upgrade") => self.upgrade = true,
            10 if is(b"connection") => {
                let mut options = value.split(|b| *b == b',').map(trim_ows);
                self.close |= options.any(|option| option.eq_ignore_ascii_case(b"close"));
            }
            _ => {}
        }
    }
}

/// Checks the words of a request line, and whether a body of this length may follow. CONNECT has
/// none (RFC 9110 §9.3.6): its body could be read as part of the tunnel.
pub(crate) fn check_request(request: &Request<'_>, len: BodyLen) -> Result<(), UsageError> {
    if !is_token(request.method) || !target::is_target(request.target) {
        return Err(UsageError::BadHead);
    }
    match len {
        BodyLen::Exact(1..) | BodyLen::Unknown if request.method == b"CONNECT" => {
            Err(UsageError::BodyLongerThanDeclared)
        }
        _ => Ok(()),
    }
}

/// Checks fields that are to follow a body.
pub(crate) fn check_trailers(trailers: Headers<'_>) -> Result<(), UsageError> {
    let forbidden = |(name, _): (&[u8], &[u8])| is_forbidden_trailer(name);
    if trailers.end_to_end().any(forbidden) { Err(UsageError::BadHead) } else { Ok(()) }
}
