//! Which responses a cache may store (RFC 9111 §3), as in HAProxy 2.6.

use fulmar_haproxy::rules::{RequestHead, ResponseHead};

/// True if a cache on the way to the client could store this response: the status, the method and
/// its cache fields permit it, and it has a validator or an expiry.
pub(super) fn is_cacheable(request: &RequestHead, response: &ResponseHead) -> bool {
    let methods: [&[u8]; 4] = [b"GET", b"HEAD", b"OPTIONS", b"TRACE"];
    if !methods.contains(&&request.method[..]) || !STATUSES.contains(&response.status) {
        return false;
    }
    let fields = response.fields.as_headers();
    let words = |name: &'static str| {
        let values = fields.get_all(name).flat_map(|value| value.split(|byte| *byte == b','));
        values.map(|word| word.trim_ascii().to_ascii_lowercase())
    };
    let mut may = !words("Pragma").any(|word| word == b"no-cache");
    let mut is_dated = ["ETag", "Last-Modified", "Expires"].iter().any(|name| fields.has(name));
    for word in words("Cache-Control") {
        match &word[..] {
            b"no-store" | b"no-cache" | b"max-age=0" | b"s-maxage=0" => may = false,
            b"public" => may = true,
            word => is_dated |= word.starts_with(b"max-age") || word.starts_with(b"s-maxage"),
        }
    }
    may && is_dated
}

const STATUSES: [u16; 11] = [200, 203, 204, 206, 300, 301, 404, 405, 410, 414, 501];

#[cfg(test)]
mod tests {
    use super::*;

    /// HAProxy 2.6 has the same results.
    #[test]
    fn results_equal_those_of_haproxy() {
        let is = |method: &[u8], status, fields: &[(&str, &str)]| {
            let mut request = RequestHead::default();
            request.method.extend_from_slice(method);
            let mut response = ResponseHead { status, ..ResponseHead::default() };
            for (name, value) in fields {
                response.fields.push(name, value.as_bytes()).unwrap();
            }
            is_cacheable(&request, &response)
        };
        let tag = ("ETag", "\"x\"");
        for (fields, may) in [
            (&[][..], false),
            (&[tag], true),
            (&[tag, ("Cache-Control", "private")], true),
            (&[tag, ("Cache-Control", "no-store")], false),
            (&[tag, ("Cache-Control", "No-Cache")], false),
            (&[tag, ("Cache-Control", "no-cache=\"set-cookie\"")], true),
            (&[tag, ("Cache-Control", "max-age=0")], false),
            (&[tag, ("Cache-Control", "no-store"), ("Cache-Control", "public")], true),
            (&[tag, ("Pragma", "no-cache")], false),
            (&[("Cache-Control", "foo, max-age=5")], true),
            (&[("Cache-Control", "public")], false),
            (&[("Expires", "0")], true),
            (&[("Last-Modified", "x")], true),
        ] {
            assert_eq!(is(b"GET", 200, fields), may, "{fields:?}");
        }
        for (status, may) in [(201, false), (204, true), (302, false), (404, true), (500, false)] {
            assert_eq!(is(b"GET", status, &[tag]), may, "{status}");
        }
        assert!(is(b"HEAD", 200, &[tag]) && !is(b"POST", 200, &[tag]));
    }
}
