//! Which protocols a transfer and its redirects may use (CURLOPT_PROTOCOLS_STR(3)).

use crate::code::CurlCode;
use crate::option::OptionId as Id;
use crate::values::OptionValues;

/// The mask of a list of names, separated by commas: the value of `CURLOPT_PROTOCOLS`.
///
/// # Errors
/// [`CurlCode::UnsupportedProtocol`]: a name is unknown. [`CurlCode::BadFunctionArgument`]: there
/// is none.
pub(crate) fn mask_of(names: &[u8]) -> Result<i64, CurlCode> {
    if names.eq_ignore_ascii_case(b"all") {
        return Ok(ALL);
    }
    let mut mask = 0;
    for name in names.split(|byte| *byte == b',').filter(|name| !name.is_empty()) {
        let known = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        mask |= known.ok_or(CurlCode::UnsupportedProtocol)?.1;
    }
    if mask == 0 { Err(CurlCode::BadFunctionArgument) } else { Ok(mask) }
}

/// True if the options allow the scheme, for a redirect or the first request.
pub(crate) fn allows(values: &OptionValues, scheme: &[u8], is_redirect: bool) -> bool {
    let redirects = if is_redirect { values.number(Id::REDIR_PROTOCOLS) } else { ALL };
    values.number(Id::PROTOCOLS) & redirects & protocol_bit(scheme) != 0
}

/// The bit of a scheme (`CURLPROTO_*`); 0 if it is unknown.
pub(crate) fn protocol_bit(scheme: &[u8]) -> i64 {
    let known = NAMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name.as_bytes()));
    known.map_or(0, |(_, bit)| *bit)
}

/// `CURLPROTO_ALL`.
const ALL: i64 = -1;

/// The names and bits (`CURLPROTO_*`) of libcurl 7.88.1. Only HTTP, WebSocket
/// and files can be used.
const NAMES: [(&str, i64); 32] = [
    ("http", 1),
    ("https", 1 << 1),
    ("ftp", 1 << 2),
    ("ftps", 1 << 3),
    ("scp", 1 << 4),
    ("sftp", 1 << 5),
    ("telnet", 1 << 6),
    ("ldap", 1 << 7),
    ("ldaps", 1 << 8),
    ("dict", 1 << 9),
    ("file", 1 << 10),
    ("tftp", 1 << 11),
    ("imap", 1 << 12),
    ("imaps", 1 << 13),
    ("pop3", 1 << 14),
    ("pop3s", 1 << 15),
    ("smtp", 1 << 16),
    ("smtps", 1 << 17),
    ("rtsp", 1 << 18),
    ("rtmp", 1 << 19),
    ("rtmpt", 1 << 20),
    ("rtmpe", 1 << 21),
    ("rtmpte", 1 << 22),
    ("rtmps", 1 << 23),
    ("rtmpts", 1 << 24),
    ("gopher", 1 << 25),
    ("smb", 1 << 26),
    ("smbs", 1 << 27),
    ("mqtt", 1 << 28),
    ("gophers", 1 << 29),
    ("ws", 1 << 30),
    ("wss", 1 << 31),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::OptionValue;

    /// As with libcurl 7.88.1.
    #[test]
    fn names_have_the_codes_of_libcurl() {
        assert_eq!(mask_of(b"http,"), Ok(1));
        assert_eq!(mask_of(b",HTTP,https"), Ok(3));
        assert_eq!(mask_of(b"http,https,ftp,ftps"), Ok(0b1111));
        assert_eq!(mask_of(b"ALL"), Ok(ALL));
        assert_eq!(mask_of(b",,"), Err(CurlCode::BadFunctionArgument));
        assert_eq!(mask_of(b""), Err(CurlCode::BadFunctionArgument));
        for unknown in [&b"http,all"[..], b"http ", b" http", b"http,ft"] {
            assert_eq!(mask_of(unknown), Err(CurlCode::UnsupportedProtocol));
        }
    }

    #[test]
    fn redirects_may_use_fewer_protocols() {
        let mut values = OptionValues::default();
        assert!(allows(&values, b"HTTP", true));
        assert!(allows(&values, b"file", false));
        assert!(!allows(&values, b"file", true));
        assert!(!allows(&values, b"ht3p", false));
        values.set(Id::REDIR_PROTOCOLS, OptionValue::Number(2));
        assert!(allows(&values, b"http", false));
        assert!(!allows(&values, b"http", true));
    }
}
