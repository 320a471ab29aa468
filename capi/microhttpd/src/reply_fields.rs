//! The header and footer fields of a response: `MHD_add_response_header` and its relatives.
//!
//! The library writes some fields itself, so three names have rules of their own:
//!
//! - `Connection` exists once and is the first field. Its tokens are added and deleted one by one;
//!   `close` comes first, and `keep-alive` is ignored, because the connection decides that.
//! - `Transfer-Encoding` may only be `chunked`, once.
//! - `Date` exists once; a new value replaces the old one.
//!
//! `Content-Length` needs [`ReplyFlags::CONTENT_LENGTH_ALLOWED`].

use std::ffi::{CStr, CString};
use std::fmt;

/// The fields of a response, with texts that C can read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplyFields {
    fields: Vec<ReplyField>,
    is_upgrade: bool,
}

/// A field of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyField {
    /// Header or footer.
    pub place: FieldPlace,
    /// The name, as it was given.
    pub name: CString,
    /// The value, as it was given.
    pub value: CString,
}

/// Where a field is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPlace {
    /// `MHD_HEADER_KIND`: in the head.
    Header,
    /// `MHD_FOOTER_KIND`: after a chunked body.
    Footer,
}

/// Options of a response: `enum MHD_ResponseFlags`. Bits without a meaning are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyFlags(pub u32);

/// Why a field is refused (`MHD_NO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldRefusal {
    /// Name or value is empty.
    Empty,
    /// A line end, or a blank in a name.
    BadByte,
    /// `Content-Length` without its flag.
    ContentLength,
    /// A transfer coding other than chunked.
    Coding,
    /// `Connection: close` on a response that upgrades.
    CloseOfUpgrade,
    /// `Connection` without a token of use.
    NoToken,
}

impl ReplyFlags {
    /// `MHD_RF_HTTP_1_0_COMPATIBLE_STRICT`: no chunks, and the connection closes.
    pub const HTTP_1_0_STRICT: Self = Self(1);
    /// `MHD_RF_HTTP_1_0_SERVER`: respond as an HTTP/1.0 server does.
    pub const HTTP_1_0_SERVER: Self = Self(1 << 1);
    /// `MHD_RF_INSANITY_HEADER_CONTENT_LENGTH`: fields `Content-Length` of the program are sent.
    pub const CONTENT_LENGTH_ALLOWED: Self = Self(1 << 2);
    /// `MHD_RF_SEND_KEEP_ALIVE_HEADER`: `Connection: Keep-Alive` in HTTP/1.1, too.
    pub const SEND_KEEP_ALIVE: Self = Self(1 << 3);

    /// True if all bits of the other are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl ReplyFields {
    /// The fields of `MHD_create_response_for_upgrade`: `Connection: Upgrade`.
    #[must_use]
    pub fn for_upgrade() -> Self {
        let field = ReplyField {
            place: FieldPlace::Header,
            name: CONNECTION.to_owned(),
            value: c"Upgrade".to_owned(),
        };
        Self { fields: vec![field], is_upgrade: true }
    }

    /// True for `MHD_create_response_for_upgrade`.
    #[must_use]
    pub fn is_upgrade(&self) -> bool {
        self.is_upgrade
    }

    /// `MHD_add_response_header`.
    ///
    /// # Errors
    /// The rules of the module.
    pub fn add_header(
        &mut self,
        name: &CStr,
        value: &CStr,
        flags: ReplyFlags,
    ) -> Result<(), FieldRefusal> {
        if is_name(name, b"connection") {
            return self.add_connection(value.to_bytes());
        }
        check(name, value)?;
        if is_name(name, b"transfer-encoding") {
            if !value.to_bytes().eq_ignore_ascii_case(b"chunked") {
                return Err(FieldRefusal::Coding);
            }
            if self.header(b"transfer-encoding").is_some() {
                return Ok(());
            }
        } else if is_name(name, b"date") {
            self.fields.retain(|field| !field.is_header(b"date"));
        } else if is_name(name, b"content-length") && !flags.has(ReplyFlags::CONTENT_LENGTH_ALLOWED)
        {
            return Err(FieldRefusal::ContentLength);
        }
        self.push(FieldPlace::Header, name, value);
        Ok(())
    }

    /// `MHD_add_response_footer`, which has no rules for single names.
    ///
    /// # Errors
    /// [`FieldRefusal::Empty`], [`FieldRefusal::BadByte`].
    pub fn add_footer(&mut self, name: &CStr, value: &CStr) -> Result<(), FieldRefusal> {
        check(name, value)?;
        self.push(FieldPlace::Footer, name, value);
        Ok(())
    }

    /// `MHD_del_response_header`: removes the first field with exactly this name and value, also a
    /// footer. From `Connection` it removes the tokens of the value. False if there is none.
    pub fn delete(&mut self, name: &CStr, value: &CStr) -> bool {
        if is_name(name, b"connection") && self.header(b"connection").is_some() {
            return self.delete_tokens(value.to_bytes());
        }
        let found = |field: &ReplyField| *field.name == *name && *field.value == *value;
        let at = self.fields.iter().position(found);
        at.map(|at| self.fields.remove(at)).is_some()
    }

    /// `MHD_get_response_header`: the value of the first field with this name, also of a footer.
    #[must_use]
    pub fn value(&self, name: &CStr) -> Option<&CStr> {
        let found = self.fields.iter().find(|field| is_name(&field.name, name.to_bytes()));
        found.map(|field| &*field.value)
    }

    /// All fields in the order of `MHD_get_response_headers`.
    #[must_use]
    pub fn all(&self) -> &[ReplyField] {
        &self.fields
    }

    /// The fields of one place, in the order in which they are sent.
    pub fn of(&self, place: FieldPlace) -> impl Iterator<Item = &ReplyField> {
        self.fields.iter().filter(move |field| field.place == place)
    }

    /// The header field with this name in lower case.
    pub(crate) fn header(&self, name: &[u8]) -> Option<&ReplyField> {
        self.fields.iter().find(|field| field.is_header(name))
    }

    /// True if the program requested to close the connection.
    pub(crate) fn closes(&self) -> bool {
        let field = self.header(b"connection");
        field.is_some_and(|f| tokens_of(f.value.to_bytes()).first().is_some_and(|t| is_close(t)))
    }

    fn push(&mut self, place: FieldPlace, name: &CStr, value: &CStr) {
        self.fields.push(ReplyField { place, name: name.to_owned(), value: value.to_owned() });
    }

    fn add_connection(&mut self, value: &[u8]) -> Result<(), FieldRefusal> {
        let mut added = tokens_of(value);
        let closes = added.iter().any(|token| is_close(token));
        added.retain(|token| !is_close(token) && !token.eq_ignore_ascii_case(b"keep-alive"));
        if closes && self.is_upgrade {
            return Err(FieldRefusal::CloseOfUpgrade);
        }
        if added.is_empty() && !closes {
            return Err(FieldRefusal::NoToken);
        }
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return Err(FieldRefusal::BadByte);
        }
        let old = self.header(b"connection").map(|field| tokens_of(field.value.to_bytes()));
        let mut tokens = old.unwrap_or_default();
        tokens.append(&mut added);
        if closes && !tokens.first().is_some_and(|token| is_close(token)) {
            tokens.insert(0, b"close".to_vec());
        }
        self.set_connection(&tokens);
        Ok(())
    }

    fn delete_tokens(&mut self, value: &[u8]) -> bool {
        let deleted = tokens_of(value);
        let field = self.header(b"connection").expect("the caller found the field");
        let mut tokens = tokens_of(field.value.to_bytes());
        let count = tokens.len();
        tokens.retain(|token| !deleted.iter().any(|other| token.eq_ignore_ascii_case(other)));
        let is_changed = tokens.len() < count;
        if is_changed {
            self.set_connection(&tokens);
        }
        is_changed
    }

    fn set_connection(&mut self, tokens: &[Vec<u8>]) {
        self.fields.retain(|field| !field.is_header(b"connection"));
        if tokens.is_empty() {
            return;
        }
        let value = CString::new(tokens.join(&b", "[..])).expect("C strings have no inner NUL");
        let name = CONNECTION.to_owned();
        self.fields.insert(0, ReplyField { place: FieldPlace::Header, name, value });
    }
}

impl ReplyField {
    fn is_header(&self, name: &[u8]) -> bool {
        self.place == FieldPlace::Header && is_name(&self.name, name)
    }
}

impl fmt::Display for FieldRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "field name or value is empty",
            Self::BadByte => "field has a line end, or a blank in its name",
            Self::ContentLength => "Content-Length needs MHD_RF_INSANITY_HEADER_CONTENT_LENGTH",
            Self::Coding => "Transfer-Encoding must be 'chunked'",
            Self::CloseOfUpgrade => "a response for an upgrade cannot close the connection",
            Self::NoToken => "Connection has no token besides keep-alive",
        })
    }
}

impl std::error::Error for FieldRefusal {}

fn check(name: &CStr, value: &CStr) -> Result<(), FieldRefusal> {
    if name.is_empty() || value.is_empty() {
        return Err(FieldRefusal::Empty);
    }
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let is_bad = |byte: &u8| is_line_end(byte) || matches!(byte, b' ' | b'\t');
    if name.to_bytes().iter().any(is_bad) || value.to_bytes().iter().any(is_line_end) {
        return Err(FieldRefusal::BadByte);
    }
    Ok(())
}

/// Tokens between commas; several blanks in one become a single blank.
fn tokens_of(value: &[u8]) -> Vec<Vec<u8>> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let parts = value.split(|byte| *byte == b',').map(|part| {
        let words = part.split(is_blank).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(&b' ')
    });
    parts.filter(|token| !token.is_empty()).collect()
}

fn is_close(token: &[u8]) -> bool {
    token.eq_ignore_ascii_case(b"close")
}

fn is_name(name: &CStr, other: &[u8]) -> bool {
    name.to_bytes().eq_ignore_ascii_case(other)
}

const CONNECTION: &CStr = c"Connection";

#[cfg(test)]
mod tests;
