//! Deviations from the grammar that a connection accepts, and their repair.
//!
//! The parsers are strict. If the connection allows it, a message that they refuse is repaired and
//! parsed again by the same strict parsers. So a strict connection pays nothing, and a repaired
//! message has passed every check.
//!
//! Two recipients that repair differently enable request smuggling, so a recipient that forwards
//! messages stays strict. A user agent forwards nothing, and has to understand old servers.

use std::fmt;

/// A set of deviations from the grammar that a connection accepts. Combine its members with
/// [`Leniency::with`] and [`Leniency::without`].
///
/// ```
/// use fulmar_proto::h1::Leniency;
/// let leniency = Leniency::lenient().without(Leniency::BARE_LF);
/// assert!(leniency.has(Leniency::FOLDED_FIELDS) && !leniency.has(Leniency::BARE_LF));
/// assert_eq!(Leniency::default(), Leniency::strict());
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Leniency(u16);

impl Leniency {
    /// A line that begins with a blank continues the field before it (`obs-fold`, RFC 9112 §5.2):
    /// the line end and the blanks around it become one SP.
    pub const FOLDED_FIELDS: Self = Self(1);
    /// A LF without a CR ends a line (RFC 9112 §2.2): in heads, chunk framing and trailers.
    pub const BARE_LF: Self = Self(1 << 1);
    /// Blanks between a chunk size, or its extensions, and the line end (RFC 9112 §7.1), after a
    /// size at most [`super::CHUNK_BLANKS_MAX`].
    pub const CHUNK_BLANKS: Self = Self(1 << 2);
    /// `Transfer-Encoding` overrides a `Content-Length` beside it (RFC 9112 §6.3). The connection
    /// is not used again.
    pub const CODING_OVER_LENGTH: Self = Self(1 << 3);
    /// `Transfer-Encoding` counts in a message of HTTP/1.0, too (RFC 9112 §6.1). The connection is
    /// not used again.
    pub const CODING_IN_HTTP10: Self = Self(1 << 4);
    /// A `Content-Length` that repeats one number, as a list or as several fields (RFC 9112 §6.3).
    pub const REPEATED_LENGTH: Self = Self(1 << 5);
    /// A first response that does not begin with `HTTP/` is the body of a response of HTTP/0.9: up
    /// to the end of the connection, with status 200 and without fields. Not to HEAD and CONNECT.
    pub const HTTP_09: Self = Self(1 << 6);

    /// By the rules of [`ResponseProfile::Libcurl`]: `Content-Length` is ignored, and a body that
    /// is not chunked ends with the connection.
    pub const IGNORED_LENGTH: Self = Self(1 << 8);

    /// The rules of [`ResponseProfile::Libcurl`], which only clients have.
    pub(super) const LIBCURL: Self = Self(1 << 7);

    /// With [`ResponseProfile::Libcurl`]: a chunked body is delivered with its framing and its
    /// trailers, as it was received. The end is found all the same.
    pub const RAW_CHUNKS: Self = Self(1 << 9);

    /// Nothing: for servers and proxies.
    pub const fn strict() -> Self {
        Self(0)
    }

    /// Everything but [`Leniency::HTTP_09`], [`Leniency::IGNORED_LENGTH`] and
    /// [`Leniency::RAW_CHUNKS`]: for user agents.
    pub const fn lenient() -> Self {
        Self(Self::HTTP_09.0 - 1)
    }

    /// These and `more`.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// These but for `less`.
    #[must_use]
    pub const fn without(self, less: Self) -> Self {
        Self(self.0 & !less.0)
    }

    /// True if all of `those` are among these.
    pub const fn has(self, those: Self) -> bool {
        self.0 & those.0 == those.0
    }

    /// True if a section of fields that the grammar does not allow may be one nevertheless.
    pub(super) const fn repairs_fields(self) -> bool {
        self.0 & (Self::FOLDED_FIELDS.0 | Self::BARE_LF.0) != 0
    }
}

/// The rules by which a client reads responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResponseProfile {
    /// The grammar, with the deviations of a [`Leniency`].
    #[default]
    Grammar,
    /// Those of libcurl 7.88, for programs that depend on them. Of the leniency only
    /// [`Leniency::HTTP_09`], [`Leniency::IGNORED_LENGTH`] and [`Leniency::RAW_CHUNKS`] count.
    ///
    /// A head may have any number of fields, in lines of up to [`super::LIBCURL_LINE_SIZE_MAX`]
    /// bytes, and [`super::LIBCURL_HEADS_SIZE_MAX`] bytes with all interim heads. Lines end with LF
    /// or CR LF. Each is judged when it is complete: [`super::H1Client::judged_len`] counts those
    /// before the refused one. A head that the end of the connection cuts counts as far as its last
    /// complete line. The last of several `Content-Length` counts, and what follows its number is
    /// ignored. A coding without `chunked`, and a 101 that was not requested, have a body up to the
    /// end of the connection; codings are not undone. [`Headers`](crate::Headers) has the lines
    /// that are fields of the grammar, [`Headers::received`](crate::Headers::received) has all.
    Libcurl,
}

impl fmt::Debug for Leniency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = NAMES.iter().filter(|(one, _)| self.has(*one)).map(|(_, name)| name);
        f.write_str("Leniency")?;
        f.debug_set().entries(names).finish()
    }
}

const NAMES: [(Leniency, &str); 9] = [
    (Leniency::FOLDED_FIELDS, "folded fields"),
    (Leniency::BARE_LF, "bare LF"),
    (Leniency::CHUNK_BLANKS, "chunk blanks"),
    (Leniency::CODING_OVER_LENGTH, "coding over length"),
    (Leniency::CODING_IN_HTTP10, "coding in HTTP/1.0"),
    (Leniency::REPEATED_LENGTH, "repeated length"),
    (Leniency::HTTP_09, "HTTP/0.9"),
    (Leniency::IGNORED_LENGTH, "ignored length"),
    (Leniency::RAW_CHUNKS, "raw chunks"),
];

/// A section of lines, which decides how many of them cannot be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionKind {
    /// A head: a start line, then fields.
    Head,
    /// Trailers: fields only.
    Trailers,
}

impl SectionKind {
    /// Lines that do not continue another: the start line and the first field.
    fn unfolded_lines(self) -> usize {
        match self {
            Self::Head => 2,
            Self::Trailers => 1,
        }
    }
}

/// Writes the lines of a complete section into `out`: every line ends with CR LF, and a folded
/// field is one line. A fold in front of the first field continues nothing (RFC 9112 §2.2); the
/// parser refuses it.
pub(super) fn repair(bytes: &[u8], section: SectionKind, leniency: Leniency, out: &mut Vec<u8>) {
    out.clear();
    let folds = leniency.has(Leniency::FOLDED_FIELDS);
    for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let mut text = line_text(line);
        if folds && at >= section.unfolded_lines() && text.first().is_some_and(is_blank) {
            out.truncate(out.len() - CRLF.len());
            let kept = out.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
            out.truncate(kept);
            out.push(b' ');
            while let [b' ' | b'\t', rest @ ..] = text {
                text = rest;
            }
        }
        out.extend_from_slice(text);
        out.extend_from_slice(CRLF);
    }
}

/// A line without its end.
fn line_text(line: &[u8]) -> &[u8] {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// The start line with CR LF at its end.
pub(super) fn repaired_line(line: &[u8]) -> Vec<u8> {
    [line_text(line), CRLF].concat()
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

const CRLF: &[u8] = b"\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_are_distinct_and_have_names() {
        let all = NAMES.iter().fold(Leniency::strict(), |all, (one, _)| {
            assert!(!all.has(*one), "{one:?}");
            all.with(*one)
        });
        let others = Leniency::HTTP_09.with(Leniency::IGNORED_LENGTH).with(Leniency::RAW_CHUNKS);
        assert_eq!(all, Leniency::lenient().with(others));
        assert_eq!(Leniency::lenient().without(others), Leniency::lenient());
        assert_eq!(format!("{:?}", Leniency::BARE_LF), r#"Leniency{"bare LF"}"#);
    }

    #[test]
    fn a_repaired_section_is_grammar() {
        let fixed = |section, text: &[u8]| {
            let mut out = b"old content".to_vec();
            repair(text, section, Leniency::lenient(), &mut out);
            String::from_utf8(out).expect("text")
        };
        for (text, repaired) in [
            ("S\r\nA: b\r\n\r\n", "S\r\nA: b\r\n\r\n"),
            ("S\nA: b\n\n", "S\r\nA: b\r\n\r\n"),
            ("S\r\nA: b \r\n\t c\r\n\r\n", "S\r\nA: b c\r\n\r\n"),
            ("S\r\nA:\r\n b\r\n\r\n", "S\r\nA: b\r\n\r\n"),
            ("S\r\nA: b\r\n \r\n  c\r\n\r\n", "S\r\nA: b c\r\n\r\n"),
            ("S\r\n A: b\r\n\r\n", "S\r\n A: b\r\n\r\n"),
            ("S\r\nA: b\r\r\n\r\n", "S\r\nA: b\r\r\n\r\n"),
        ] {
            assert_eq!(fixed(SectionKind::Head, text.as_bytes()), repaired, "{text:?}");
        }
        assert_eq!(fixed(SectionKind::Trailers, b"A: b\n c\n\n"), "A: b c\r\n\r\n");
        assert_eq!(fixed(SectionKind::Trailers, b" A: b\n\n"), " A: b\r\n\r\n");
    }
}
