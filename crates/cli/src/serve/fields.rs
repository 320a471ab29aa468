//! Header fields for every response, checked at start.

use crate::output::ToolFailure;
use fulmar_proto::HeaderBuf;

/// The checked fields.
pub(super) fn of(fields: &[(String, String)]) -> Result<HeaderBuf, ToolFailure> {
    let mut checked = HeaderBuf::new();
    for (name, value) in fields {
        if let Some(reserved) = RESERVED.iter().find(|reserved| reserved.eq_ignore_ascii_case(name))
        {
            let message = format!("{reserved} is set by the server; remove it");
            return Err(ToolFailure::usage("--header", message));
        }
        checked.push(name, value.as_bytes()).map_err(|_| {
            let message = format!(
                "invalid field {name:?}: {value:?}; a name consists of letters, digits and -, and \
                 control characters are not allowed"
            );
            ToolFailure::usage("--header", message)
        })?;
    }
    Ok(checked)
}

/// Fields that the server sets for each response or connection.
const RESERVED: &[&str] = &[
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
