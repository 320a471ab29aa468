//! Names and passwords that a request carries (RFC 7617 §2).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fulmar_rules::RequestHead;
use fulmar_semantics::auth::is_same_secret;

/// What the value of an `Authorization` field says in the scheme `Basic`: `name:password`.
pub(super) fn basic(value: &[u8]) -> Option<String> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
    String::from_utf8(decoded).ok()
}

/// True if a request carries the name and the password of one of these users, or if there are none.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_basic_and_whole_is_taken() {
        assert_eq!(basic(b"Basic YTpi"), Some("a:b".to_owned()));
        assert_eq!(basic(b"bAsIc  YTpi "), Some("a:b".to_owned()));
        for bad in [&b""[..], b"Basic", b"Basic a", b"Bearer YTpi", b"Basic /w=="] {
            assert_eq!(basic(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
