//! Complete responses in files (HAProxy's manual, §4.2, `errorfile`).

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use super::{ReplyBody, ReplyTemplate};
use crate::rules::format::FormatString;

/// Parses a file. Framing and connection fields are removed: each connection writes its own.
///
/// # Errors
/// The file is not a response, or its length field does not match its body.
pub fn parse_file(bytes: &[u8]) -> Result<ReplyTemplate, String> {
    if bytes.is_empty() {
        return Ok(ReplyTemplate { status: 200, fields: Vec::new(), body: ReplyBody::Silence });
    }
    if bytes.len() > FILE_SIZE_MAX {
        return Err(format!("{} bytes exceed the limit of {FILE_SIZE_MAX}", bytes.len()));
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_LEN_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let head_len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => {
            return Err("incomplete headers: missing empty line".to_owned());
        }
        Err(error) => return Err(format!("invalid response headers: {error}")),
    };
    let body = &bytes[head_len..];
    let status = response.code.filter(|code| (200..600).contains(code));
    let status = status.ok_or("the status is not from 200 to 599")?;
    let mut kept = HeaderBuf::new();
    for field in response.headers.iter() {
        let name = field.name;
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(format!("'{name}' is not allowed: the body is sent unchanged"));
        }
        if name.eq_ignore_ascii_case("content-length") {
            let len = body.len();
            if field.value != len.to_string().as_bytes() {
                return Err(format!("'{name}' does not match the length of the body ({len})"));
            }
        }
        let pushed = kept.push(name, field.value.trim_ascii());
        pushed.map_err(|_| format!("invalid value of '{name}'"))?;
    }
    if !body.is_empty() && matches!(status, 204 | 304) {
        return Err(format!("a response with status {status} cannot have a body"));
    }
    let fields = kept.as_headers().end_to_end().map(|(name, value)| {
        (String::from_utf8_lossy(name).into_owned(), FormatString::literal(value))
    });
    let body = match body {
        [] => ReplyBody::Empty,
        body => ReplyBody::Fixed(Bytes::copy_from_slice(body)),
    };
    Ok(ReplyTemplate { status, fields: fields.collect(), body })
}

/// Limit of file sizes: error pages are kept in memory.
const FILE_SIZE_MAX: usize = 1 << 20;

/// Limit of fields.
const FIELDS_LEN_MAX: usize = 64;
