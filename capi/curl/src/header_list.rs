//! The received header lines, for `curl_easy_header` and `curl_easy_nextheader`.

use std::ffi::{CStr, CString};

use crate::code::HeaderCode;
use crate::rare::ConstDefault;

/// Where a line comes from (`CURLH_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum HeaderOrigin {
    /// The head of a response.
    Header = 1,
    /// Lines behind a body.
    Trailer = 1 << 1,
    /// The response to `CONNECT`.
    Connect = 1 << 2,
    /// An interim response.
    Interim = 1 << 3,
    /// A pseudo field of HTTP/2.
    Pseudo = 1 << 4,
}

/// A header that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundHeader<'a> {
    /// Its name, as it was received.
    pub name: &'a CStr,
    /// Its value, without blanks around it.
    pub value: &'a CStr,
    /// How many of this name there are.
    pub amount: usize,
    /// Which of them this is.
    pub index: usize,
    /// Its origin, and a bit that is reserved.
    pub origin: u32,
    /// Its position among all lines, from 1.
    pub position: usize,
}

/// The lines of a transfer, in the order of their arrival. Few applications look at them, so they
/// are kept as they were received until then.
#[derive(Clone, Debug, Default)]
pub struct HeaderList {
    lines: Vec<ListedHeader>,
    /// Lines that are not among them yet, each with its end.
    bytes: Vec<u8>,
    /// Their origins.
    received: Vec<ReceivedLines>,
    /// The number of the current request: 0, and one more after each redirect.
    requests: i32,
}

/// Lines that have come one after the other.
#[derive(Clone, Copy, Debug)]
struct ReceivedLines {
    /// Where they end, and those of the next one begin.
    end: u32,
    origin: HeaderOrigin,
    request: i32,
}

/// Texts have allocations of their own: the application keeps their addresses.
#[derive(Clone, Debug)]
struct ListedHeader {
    name: CString,
    value: CString,
    origin: u32,
    request: i32,
}

impl ConstDefault for HeaderList {
    const DEFAULT: &'static Self =
        &Self { lines: Vec::new(), bytes: Vec::new(), received: Vec::new(), requests: 0 };
}

impl HeaderList {
    /// A transfer begins: the memory of the last one is used again.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.received.clear();
        self.bytes.clear();
        self.requests = 0;
    }

    /// Another request begins.
    pub(crate) fn start_request(&mut self) {
        self.requests += 1;
    }

    /// Lines of so many bytes follow.
    pub(crate) fn reserve(&mut self, len: usize) {
        self.bytes.reserve_exact(len);
    }

    /// Stores a line, of which the last byte is the only LF. False if it is none: a field without a
    /// colon, or the continuation of nothing. The status line and the empty line are no headers.
    pub(crate) fn push(&mut self, line: &[u8], origin: HeaderOrigin) -> bool {
        if line.last() != Some(&b'\n') {
            return false;
        }
        match line[0] {
            b'\r' | b'\n' => return true,
            b' ' | b'\t' if self.is_empty() => return false,
            b' ' | b'\t' => {}
            _ if colon_of(line, origin).is_none() => return false,
            _ => {}
        }
        self.bytes.extend_from_slice(line);
        let end = u32::try_from(self.bytes.len()).expect("heads of a transfer are limited");
        match self.received.last_mut() {
            Some(last) if (last.origin, last.request) == (origin, self.requests) => last.end = end,
            _ => self.received.push(ReceivedLines { end, origin, request: self.requests }),
        }
        true
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.received.is_empty()
    }

    /// Lists the lines that have arrived since the last time.
    fn list_received(&mut self) {
        let mut start = 0;
        for ReceivedLines { end, origin, request } in self.received.drain(..) {
            let bytes = &self.bytes[start..end as usize];
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                list_line(&mut self.lines, line, origin, request);
            }
            start = end as usize;
        }
        self.bytes.clear();
    }

    /// The header of this name and index (curl_easy_header(3)). A `request` of -1 is the last one.
    ///
    /// # Errors
    /// There is none.
    pub fn find(
        &mut self,
        name: &[u8],
        index: usize,
        origins: u32,
        request: i32,
    ) -> Result<FoundHeader<'_>, HeaderCode> {
        if origins == 0 || origins > ORIGINS_ALL || request < -1 {
            return Err(HeaderCode::BadArgument);
        }
        self.list_received();
        if self.lines.is_empty() {
            return Err(HeaderCode::NoHeaders);
        }
        let request = self.request(request).ok_or(HeaderCode::NoRequest)?;
        let positions: Vec<_> = self.positions(name, origins, request).collect();
        match (positions.get(index), positions.is_empty()) {
            (Some(at), _) => Ok(self.found(*at, index, positions.len())),
            (None, true) => Err(HeaderCode::Missing),
            (None, false) => Err(HeaderCode::BadIndex),
        }
    }

    /// The next header behind a position; behind 0 the first one (curl_easy_nextheader(3)).
    pub fn next(&mut self, origins: u32, request: i32, position: usize) -> Option<FoundHeader<'_>> {
        self.list_received();
        let request = self.request(request)?;
        let is_wanted = |line: &ListedHeader| line.origin & origins != 0 && line.request == request;
        let at = position + self.lines.get(position..)?.iter().position(is_wanted)?;
        let name = self.lines[at].name.to_bytes();
        let positions: Vec<_> = self.positions(name, origins, request).collect();
        let index = positions.iter().position(|position| *position == at)?;
        Some(self.found(at, index, positions.len()))
    }

    fn request(&self, request: i32) -> Option<i32> {
        let request = if request == -1 { self.requests } else { request };
        (request <= self.requests).then_some(request)
    }

    fn positions(&self, name: &[u8], origins: u32, request: i32) -> impl Iterator<Item = usize> {
        let is_of = move |line: &ListedHeader| {
            line.name.to_bytes().eq_ignore_ascii_case(name)
                && line.origin & origins != 0
                && line.request == request
        };
        self.lines.iter().enumerate().filter(move |(_, line)| is_of(line)).map(|(at, _)| at)
    }

    fn found(&self, at: usize, index: usize, amount: usize) -> FoundHeader<'_> {
        let ListedHeader { name, value, origin, .. } = &self.lines[at];
        let origin = origin | RESERVED_BIT;
        FoundHeader { name, value, amount, index, origin, position: at + 1 }
    }
}

/// Lists a line that was stored.
fn list_line(lines: &mut Vec<ListedHeader>, line: &[u8], origin: HeaderOrigin, request: i32) {
    let end = line.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let (line, line_end) = line.split_at(end.expect("a line has an end"));
    let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    let blanks = |text: &[u8]| text.iter().take_while(blank).count();
    match (colon_of(line, origin), lines.last_mut()) {
        // A continuation, with one blank of those in front of it.
        (_, Some(last)) if blanks(line) > 0 => {
            let text = line.trim_ascii_end();
            let text = &text[blanks(text).saturating_sub(1)..];
            last.value = c_text(&[last.value.to_bytes(), text].concat());
        }
        (Some(colon), _) => {
            let value = &line[colon + 1..];
            let value = value[blanks(value)..].trim_ascii_end();
            // libcurl keeps the end of the line as the value of an empty field.
            let value = if value.is_empty() { &line_end[..1] } else { value };
            let (name, value) = (c_text(&line[..colon]), c_text(value));
            lines.push(ListedHeader { name, value, origin: origin as u32, request });
        }
        (None, _) => unreachable!("a line without a colon is not stored"),
    }
}

/// Where the name of a line ends. That of a pseudo field begins with a colon.
fn colon_of(line: &[u8], origin: HeaderOrigin) -> Option<usize> {
    let name_at = usize::from(origin == HeaderOrigin::Pseudo);
    // Names are short: this is quicker than a search of many bytes at once.
    let ends = |byte: &u8| matches!(byte, b':' | 0 | b'\r' | b'\n');
    let colon = line.get(name_at..)?.iter().position(ends)? + name_at;
    (line[colon] == b':').then_some(colon)
}

/// Up to a NUL.
fn c_text(text: &[u8]) -> CString {
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    CString::new(&text[..end]).expect("it was cut before a NUL")
}

const ORIGINS_ALL: u32 = 0x1f;
/// libcurl sets a bit that is not documented, so that programs test bits instead of comparing.
const RESERVED_BIT: u32 = 1 << 27;

#[cfg(test)]
mod tests {
    use super::*;

    fn list(lines: &[(&str, HeaderOrigin)]) -> HeaderList {
        let mut list = HeaderList::default();
        for (line, origin) in lines {
            assert!(list.push(line.as_bytes(), *origin), "{line}");
        }
        list
    }

    fn text(found: FoundHeader<'_>) -> String {
        let FoundHeader { name, value, amount, index, origin, .. } = found;
        let [name, value] = [name, value].map(|text| text.to_str().expect("text"));
        format!("{name}={value} {index}/{amount} {}", origin & ORIGINS_ALL)
    }

    #[test]
    fn lines_are_split_as_by_libcurl() {
        let rows = [
            ("A: b\r\n", "A=b"),
            ("A:\t b \t\r\n", "A=b"),
            ("A:\n", "A=\n"),
            ("A: \r\n", "A=\r"),
            ("A : b\r\n", "A =b"),
            ("A:b:c\r\n", "A=b:c"),
        ];
        for (line, expected) in rows {
            let mut list = list(&[(line, HeaderOrigin::Header)]);
            let found = list.next(1, -1, 0).expect("a header");
            assert_eq!(text(found), format!("{expected} 0/1 1"), "{line:?}");
        }
        let mut list = HeaderList::default();
        assert!(list.push(b"\r\n", HeaderOrigin::Header), "the end of a head");
        for line in ["no colon\r\n", " continues nothing\r\n", "no end"] {
            assert!(!list.push(line.as_bytes(), HeaderOrigin::Header), "{line:?}");
        }
        assert_eq!(list.next(1, -1, 0), None);
    }

    #[test]
    fn continuations_keep_one_blank() {
        let mut list = list(&[("A: b \r\n", HeaderOrigin::Header)]);
        for line in [" \t c\r\n", "\td \r\n", " \r\n"] {
            assert!(list.push(line.as_bytes(), HeaderOrigin::Header), "{line:?}");
        }
        assert_eq!(text(list.next(1, -1, 0).expect("a header")), "A=b c\td 0/1 1");
    }

    #[test]
    fn headers_are_found_by_name_origin_and_request() {
        let mut list = list(&[
            ("A: 1\r\n", HeaderOrigin::Interim),
            ("A: 2\r\n", HeaderOrigin::Header),
            ("B: 3\r\n", HeaderOrigin::Header),
            ("a: 4\r\n", HeaderOrigin::Trailer),
            (":status: 200\r\n", HeaderOrigin::Pseudo),
        ]);
        let find = |list: &mut HeaderList, name: &str, index, origins, request| {
            list.find(name.as_bytes(), index, origins, request).map(text)
        };
        assert_eq!(find(&mut list, "A", 1, 0x1f, -1), Ok("A=2 1/3 1".into()));
        assert_eq!(find(&mut list, "a", 0, 3, 0), Ok("A=2 0/2 1".into()));
        assert_eq!(find(&mut list, ":status", 0, 16, 0), Ok(":status=200 0/1 16".into()));
        let rows = [
            ("A", 3, 0x1f, -1, HeaderCode::BadIndex),
            ("C", 0, 0x1f, -1, HeaderCode::Missing),
            ("B", 0, 2, -1, HeaderCode::Missing),
            ("A", 0, 1, 1, HeaderCode::NoRequest),
            ("A", 0, 0, 0, HeaderCode::BadArgument),
            ("A", 0, 32, 0, HeaderCode::BadArgument),
            ("A", 0, 1, -2, HeaderCode::BadArgument),
        ];
        for (name, index, origins, request, code) in rows {
            let found = find(&mut list, name, index, origins, request);
            assert_eq!(found, Err(code), "{name} {origins}");
        }
        list.start_request();
        assert_eq!(find(&mut list, "A", 0, 1, -1), Err(HeaderCode::Missing));
        assert_eq!(find(&mut list, "A", 0, 1, 0), Ok("A=2 0/1 1".into()));
        assert_eq!(find(&mut HeaderList::default(), "A", 0, 1, 1), Err(HeaderCode::NoHeaders));
    }

    #[test]
    fn headers_follow_each_other_with_their_index() {
        let mut list = list(&[
            ("A: 1\r\n", HeaderOrigin::Header),
            ("B: 2\r\n", HeaderOrigin::Trailer),
            ("A: 3\r\n", HeaderOrigin::Header),
        ]);
        let mut found = Vec::new();
        let mut position = 0;
        while let Some(next) = list.next(1, -1, position) {
            position = next.position;
            found.push(text(next));
        }
        assert_eq!(found, ["A=1 0/2 1", "A=3 1/2 1"]);
        assert_eq!(list.next(1, 1, 0), None, "there was one request");
        assert_eq!(list.next(1, 0, 9), None, "of another transfer");
    }
}
