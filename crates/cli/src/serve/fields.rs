//! Fields of every answer, checked before anything is answered.

use crate::output::Failure;
use fulmar_proto::HeaderBuf;

/// They, ready to be sent.
pub(super) fn of(fields: &[(String, String)]) -> Result<HeaderBuf, Failure> {
    let mut checked = HeaderBuf::new();
    for (name, value) in fields {
        if let Some(ours) = OURS.iter().find(|ours| ours.eq_ignore_ascii_case(name)) {
            let message = format!("{ours} is the server's to say; leave it out");
            return Err(super::usage("--header", message));
        }
        checked.push(name, value.as_bytes()).map_err(|_| {
            let message = format!(
                "{name:?}: {value:?} is no field; a name is made of letters, digits and -, and \
                 neither has control characters"
            );
            super::usage("--header", message)
        })?;
    }
    Ok(checked)
}

/// What depends on the answer or on the connection: said once more, it would contradict it.
const OURS: &[&str] = &[
    "Accept-Ranges",
    "Access-Control-Allow-Origin",
    "Allow",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Location",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "WWW-Authenticate",
    "X-Request-Id",
];
