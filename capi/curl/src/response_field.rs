//! The fields of a response's head that the library itself reads.
//!
//! Each line is looked at once: most names are known by their length not to be among them.

use std::ops::Range;

/// A field with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseField {
    AltSvc,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentRange,
    ContentType,
    LastModified,
    Location,
    ProxyAuthenticate,
    ProxyConnection,
    RetryAfter,
    SetCookie,
    StrictTransportSecurity,
    TransferEncoding,
    WwwAuthenticate,
}

impl ResponseField {
    /// The field of a line, and the line's value.
    pub(crate) fn of(line: &[u8]) -> Option<(Self, &[u8])> {
        let end = memchr::memchr(b':', line)?;
        let is = |field: Self, name: &str| {
            line[..end].eq_ignore_ascii_case(name.as_bytes()).then_some(field)
        };
        let field = match end {
            7 => is(Self::AltSvc, "Alt-Svc"),
            8 => is(Self::Location, "Location"),
            10 => is(Self::Connection, "Connection").or_else(|| is(Self::SetCookie, "Set-Cookie")),
            11 => is(Self::RetryAfter, "Retry-After"),
            12 => is(Self::ContentType, "Content-Type"),
            13 => is(Self::LastModified, "Last-Modified")
                .or_else(|| is(Self::ContentRange, "Content-Range")),
            14 => is(Self::ContentLength, "Content-Length"),
            16 => is(Self::ContentEncoding, "Content-Encoding")
                .or_else(|| is(Self::ProxyConnection, "Proxy-Connection"))
                .or_else(|| is(Self::WwwAuthenticate, "WWW-Authenticate")),
            17 => is(Self::TransferEncoding, "Transfer-Encoding"),
            18 => is(Self::ProxyAuthenticate, "Proxy-authenticate"),
            25 => is(Self::StrictTransportSecurity, "Strict-Transport-Security"),
            _ => None,
        };
        Some((field?, &line[end + 1..]))
    }
}

/// The known fields of a head, in order, each with the place of its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResponseFields {
    fields: Vec<(ResponseField, Range<u32>)>,
}

impl ResponseFields {
    /// Those of a head.
    pub(crate) fn of(head: &[u8]) -> Self {
        let mut fields = Vec::new();
        for line in lines(head) {
            if let Some((field, value)) = ResponseField::of(line) {
                let place = |at: *const u8| {
                    let at = at.addr() - head.as_ptr().addr();
                    u32::try_from(at).expect("the size of a head is limited")
                };
                let value = value.as_ptr_range();
                fields.push((field, place(value.start)..place(value.end)));
            }
        }
        Self { fields }
    }

    /// The lines of the same head, those of known fields with their values.
    pub(crate) fn lines<'a>(
        &'a self,
        head: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], Option<(ResponseField, &'a [u8])>)> {
        let mut known = self.iter(head).peekable();
        lines(head).map(move |line| {
            let field = known.next_if(|(_, value)| line.as_ptr_range().contains(&value.as_ptr()));
            (line, field)
        })
    }

    /// All of them, with their values in the same head.
    pub(crate) fn iter<'a>(
        &'a self,
        head: &'a [u8],
    ) -> impl DoubleEndedIterator<Item = (ResponseField, &'a [u8])> {
        let value = |place: &Range<u32>| &head[place.start as usize..place.end as usize];
        self.fields.iter().map(move |(field, place)| (*field, value(place)))
    }
}

/// The lines of a head, each with its end.
pub(crate) fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = head;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let (line, behind) = rest.split_at(end);
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_fields_are_found_in_any_case() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 6\r\nX: y\r\nlocation:a\r\nLocation;b\r\n\
                     Location-X: c\r\n\r\n";
        let fields = ResponseFields::of(head);
        let found: Vec<_> = fields.iter(head).collect();
        let expected: [(_, &[u8]); 2] =
            [(ResponseField::ContentLength, b" 6\r\n"), (ResponseField::Location, b"a\r\n")];
        assert_eq!(found, expected);
        let lines: Vec<_> = fields.lines(head).map(|(_, field)| field.map(|it| it.0)).collect();
        let (length, location) = (ResponseField::ContentLength, ResponseField::Location);
        let expected = [None, Some(length), None, Some(location), None, None, None];
        assert_eq!(lines, expected);
    }

    #[test]
    fn every_field_has_its_name() {
        let names = [
            "Alt-Svc",
            "Connection",
            "Content-Encoding",
            "Content-Length",
            "Content-Range",
            "Content-Type",
            "Last-Modified",
            "Location",
            "Proxy-Authenticate",
            "Proxy-Connection",
            "Retry-After",
            "Set-Cookie",
            "Strict-Transport-Security",
            "Transfer-Encoding",
            "WWW-Authenticate",
        ];
        for name in names {
            let line = format!("{name}: v");
            let (field, value) = ResponseField::of(line.as_bytes()).expect("it is known");
            let debug = format!("{field:?}").to_lowercase();
            assert_eq!((debug, value), (name.replace('-', "").to_lowercase(), &b" v"[..]));
        }
    }
}
