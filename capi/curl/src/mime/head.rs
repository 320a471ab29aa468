//! The header lines of a part.

use super::{Mime, MimeContent, MimePart};

/// How names in `Content-Disposition` are escaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormEscape {
    /// `"`, CR and LF as `%22`, `%0D` and `%0A`, as browsers do.
    #[default]
    Percent,
    /// `\` before `\` and `"`: `CURLMIMEOPT_FORMESCAPE`.
    Backslash,
}

/// The content type of a file name's extension.
pub fn content_type_of(filename: &[u8]) -> Option<&'static str> {
    let has = |extension: &str| {
        let start = filename.len().checked_sub(extension.len());
        start.is_some_and(|start| filename[start..].eq_ignore_ascii_case(extension.as_bytes()))
    };
    TYPES.iter().find(|(extension, _)| has(extension)).map(|(_, name)| *name)
}

/// The lines of a part, each with its end. `disposition` is the default of the parent.
pub(super) fn lines(part: &MimePart, disposition: Option<&str>, escape: FormEscape) -> Vec<u8> {
    let content_type = part_type(part);
    let mut out = Vec::new();
    if custom(part, "Content-Disposition").is_none() {
        let is_named = part.name.is_some() || part.filename.is_some();
        let disposition = disposition.or_else(|| is_named.then_some("attachment"));
        let disposition = disposition.filter(|kind| is_named || *kind != "attachment");
        if let Some(kind) = disposition {
            out.extend_from_slice(b"Content-Disposition: ");
            out.extend_from_slice(kind.as_bytes());
            for (parameter, value) in [("name", &part.name), ("filename", &part.filename)] {
                if let Some(value) = value {
                    out.extend_from_slice(format!("; {parameter}=\"").as_bytes());
                    write_escaped(value, escape, &mut out);
                    out.push(b'"');
                }
            }
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(content_type) = content_type {
        out.extend_from_slice(b"Content-Type: ");
        out.extend_from_slice(&content_type);
        out.extend_from_slice(b"\r\n");
    }
    let encoder = part.encoder.filter(|_| custom(part, "Content-Transfer-Encoding").is_none());
    if let Some(encoder) = encoder {
        let line = format!("Content-Transfer-Encoding: {}\r\n", encoder.name());
        out.extend_from_slice(line.as_bytes());
    }
    // A content type of the caller was written above, with the boundary.
    for line in part.headers.iter().filter(|line| field_value(line, "Content-Type").is_none()) {
        out.extend_from_slice(line);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The type of a multipart content, with its boundary.
pub(super) fn multipart_type(mime: &Mime, content_type: &[u8]) -> Vec<u8> {
    [content_type, b"; boundary=", &mime.boundary].concat()
}

/// The disposition of the parts below a content of this type.
pub(super) fn disposition_below(content_type: &[u8]) -> Option<&'static str> {
    is_type(content_type, "multipart/form-data").then_some("form-data")
}

/// The type of a part: the caller's, or else that of its content or file name.
pub(super) fn own_type(part: &MimePart) -> Option<&[u8]> {
    let custom = part.mime_type.as_deref().or_else(|| custom(part, "Content-Type"));
    custom.or_else(|| default_type(part).map(str::as_bytes))
}

/// The value of `Content-Type`. `text/plain` is omitted if it is the default and there is no file
/// name.
fn part_type(part: &MimePart) -> Option<Vec<u8>> {
    let content_type = own_type(part)?;
    if let MimeContent::Multipart(mime) = &part.content {
        return Some(multipart_type(mime, content_type));
    }
    let is_custom = part.mime_type.is_some() || custom(part, "Content-Type").is_some();
    let is_implied = !is_custom && part.filename.is_none() && is_type(content_type, "text/plain");
    (!is_implied).then(|| content_type.to_vec())
}

fn default_type(part: &MimePart) -> Option<&'static str> {
    let of_name = || part.filename.as_deref().and_then(content_type_of);
    match &part.content {
        MimeContent::Multipart(_) => Some("multipart/mixed"),
        MimeContent::File { path, .. } => of_name()
            .or_else(|| content_type_of(path))
            .or_else(|| part.filename.is_some().then_some("application/octet-stream")),
        _ => of_name(),
    }
}

/// The value of a line of the caller.
fn custom<'a>(part: &'a MimePart, name: &str) -> Option<&'a [u8]> {
    part.headers.iter().find_map(|line| field_value(line, name))
}

fn field_value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":").filter(|_| start.eq_ignore_ascii_case(name.as_bytes()))?;
    let first = value.iter().position(|byte| *byte != b' ').unwrap_or(value.len());
    Some(&value[first..])
}

/// True if the type is this one, with or without parameters.
fn is_type(content_type: &[u8], name: &str) -> bool {
    let Some((start, rest)) = content_type.split_at_checked(name.len()) else { return false };
    let ends = matches!(rest.first(), None | Some(b'\t' | b'\r' | b'\n' | b' ' | b';'));
    ends && start.eq_ignore_ascii_case(name.as_bytes())
}

fn write_escaped(value: &[u8], escape: FormEscape, out: &mut Vec<u8>) {
    for byte in value {
        let text: &[u8] = match (escape, byte) {
            (FormEscape::Percent, b'"') => b"%22",
            (FormEscape::Percent, b'\r') => b"%0D",
            (FormEscape::Percent, b'\n') => b"%0A",
            (FormEscape::Backslash, b'"') => b"\\\"",
            (FormEscape::Backslash, b'\\') => b"\\\\",
            (_, byte) => std::slice::from_ref(byte),
        };
        out.extend_from_slice(text);
    }
}

const TYPES: &[(&str, &str)] = &[
    (".gif", "image/gif"),
    (".jpg", "image/jpeg"),
    (".jpeg", "image/jpeg"),
    (".png", "image/png"),
    (".svg", "image/svg+xml"),
    (".txt", "text/plain"),
    (".htm", "text/html"),
    (".html", "text/html"),
    (".pdf", "application/pdf"),
    (".xml", "application/xml"),
];
