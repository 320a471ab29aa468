//! Answers that are written down in whole, as they would go on the wire (HAProxy's manual, §4.2,
//! `errorfile`).

use bytes::Bytes;
use fulmar_proto::HeaderBuf;

use super::{Reply, ReplyBody};
use crate::rules::format::Format;

/// Reads one. Framing and what concerns a connection is left out: each connection writes its own.
///
/// # Errors
/// It is no response, or its length is not that of its body: the message says what is wrong.
pub fn parse_file(bytes: &[u8]) -> Result<Reply, String> {
    if bytes.is_empty() {
        return Ok(Reply { status: 200, fields: Vec::new(), body: ReplyBody::Silence });
    }
    if bytes.len() > FILE_SIZE_MAX {
        return Err(format!("it has {} bytes; {FILE_SIZE_MAX} are allowed", bytes.len()));
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_LEN_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let head_len = match response.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => {
            return Err("its head has no end: an empty line is missing".to_owned());
        }
        Err(error) => return Err(format!("its head is not that of a response: {error}")),
    };
    let body = &bytes[head_len..];
    let status = response.code.filter(|code| (200..600).contains(code));
    let status = status.ok_or("its status is not from 200 to 599")?;
    let mut kept = HeaderBuf::new();
    for field in response.headers.iter() {
        let name = field.name;
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(format!("'{name}' cannot stand here: the body is written as it is"));
        }
        if name.eq_ignore_ascii_case("content-length") {
            let len = body.len();
            if field.value != len.to_string().as_bytes() {
                return Err(format!("'{name}' is not the length of its body, which is {len}"));
            }
        }
        let pushed = kept.push(name, field.value.trim_ascii());
        pushed.map_err(|_| format!("the value of '{name}' cannot be one"))?;
    }
    if !body.is_empty() && matches!(status, 204 | 304) {
        return Err(format!("it has a body, which a response {status} never has"));
    }
    let fields = kept
        .as_headers()
        .end_to_end()
        .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), Format::literal(value)));
    let body = match body {
        [] => ReplyBody::Empty,
        body => ReplyBody::Fixed(Bytes::copy_from_slice(body)),
    };
    Ok(Reply { status, fields: fields.collect(), body })
}

/// Bytes of a file: error pages are kept in memory.
const FILE_SIZE_MAX: usize = 1 << 20;

/// Fields of one.
const FIELDS_LEN_MAX: usize = 64;
