//! URLs in messages and logs, without passwords (RFC 3986 §3.2.1).
//!
//! Needs the feature `url`.

use std::borrow::Cow;

use url::Url;

/// The URL without the password of its userinfo. The user stays.
///
/// ```
/// use fulmar_semantics::userinfo::without_password;
/// assert_eq!(without_password("http://ann:secret@h/a"), "http://ann@h/a");
/// assert_eq!(without_password("http://h/a:b@c"), "http://h/a:b@c");
/// ```
///
/// If the text is not a valid URL, everything from the first colon after the scheme to the last `@`
/// is removed, because the password may have an unencoded slash. A valid URL without a password,
/// such as `http://ann:12/34@h`, is returned unchanged.
pub fn without_password(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return text.into();
    }
    // A `://` in a password or a query does not begin an authority.
    let scheme = text.find("://").filter(|at| !text[..*at].contains([':', '@', '/']));
    let authority = scheme.map_or(0, |at| at + 3);
    // Without a scheme, the parser takes the user for the scheme, and there is no host.
    let parsed = Url::parse(text).ok().filter(Url::has_host);
    let is_delimiter = |byte: u8| matches!(byte, b'/' | b'\\' | b'?' | b'#');
    let end = match &parsed {
        Some(url) if url.password().is_none() => return text.into(),
        Some(_) => text.bytes().skip(authority).position(is_delimiter),
        None => None,
    };
    let end = end.map_or(text.len(), |len| authority + len);
    let cut = text[authority..end].rfind('@').map(|at| authority + at).and_then(|at| {
        let colon = authority + text[authority..at].find(':')?;
        Some([&text[..colon], &text[at..]].concat())
    });
    match (parsed, cut) {
        (None, None) => text.into(),
        (None, Some(cut)) => cut.into(),
        (Some(_), Some(cut)) if Url::parse(&cut).is_ok_and(|url| url.password().is_none()) => {
            cut.into()
        }
        // Another form that the parser accepts, such as `http:/ann:secret@h`.
        (Some(mut url), _) => {
            let _ = url.set_password(None); // fails only for URLs without a host
            String::from(url).into()
        }
    }
}
