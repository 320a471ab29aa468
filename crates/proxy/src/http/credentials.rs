//! Credentials in requests: names and passwords (RFC 7617 §2), and authentication of connections
//! (RFC 4559).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fulmar_haproxy::rules::RequestHead;
use fulmar_proto::{Headers, Response};
use fulmar_semantics::auth::is_same_secret;

/// The credentials in an `Authorization` field of scheme `Basic`: `name:password`.
pub(super) fn basic(value: &[u8]) -> Option<String> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
    String::from_utf8(decoded).ok()
}

/// True if a request has the name and the password of one of these users, or if there are none.
pub(super) fn admits(request: &RequestHead, users: &[(String, String)]) -> bool {
    let given = request.fields.as_headers().get("authorization").and_then(basic);
    let is_one = |given: &str| {
        let known = |(name, password): &(String, String)| {
            given.split_once(':').is_some_and(|(its_name, its_password)| {
                its_name == name && is_same_secret(password, its_password)
            })
        };
        users.iter().any(known)
    };
    users.is_empty() || given.is_some_and(|given| is_one(&given))
}

/// True if a response requests authentication for the whole connection (RFC 4559 §4): it must not
/// be shared from then on.
pub(super) fn requests_connection_auth(head: &Response<'_>) -> bool {
    let name = match head.status {
        401 => "www-authenticate",
        407 => "proxy-authenticate",
        _ => return false,
    };
    head.headers.get_all(name).any(is_of_connection)
}

/// True if a request contains such authentication.
pub(super) fn authenticates_connection(fields: Headers<'_>) -> bool {
    ["authorization", "proxy-authorization"]
        .iter()
        .any(|name| fields.get_all(name).any(is_of_connection))
}

/// `Negotiate`, `Nego2` or `NTLM`, with any parameters.
fn is_of_connection(value: &[u8]) -> bool {
    let scheme = value.get(..4);
    scheme.is_some_and(|it| it.eq_ignore_ascii_case(b"nego") || it.eq_ignore_ascii_case(b"ntlm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_basic_credentials_are_decoded() {
        assert_eq!(basic(b"Basic YTpi"), Some("a:b".to_owned()));
        assert_eq!(basic(b"bAsIc  YTpi "), Some("a:b".to_owned()));
        for bad in [&b""[..], b"Basic", b"Basic a", b"Bearer YTpi", b"Basic /w=="] {
            assert_eq!(basic(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
