//! Plain HTTP that a client sends to a port with TLS: an error that users make in URLs.

/// What the first bytes of a client are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// A method and a blank: a request line of HTTP/1 (RFC 9112 §3).
    Http,
    /// The part of a method, or nothing.
    Incomplete,
    /// Anything else. No TLS record begins with a letter (RFC 8446 §5.1).
    Other,
}

impl FirstBytes {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let len = bytes.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        match bytes.get(len) {
            None if len <= METHOD_LEN_MAX => Self::Incomplete,
            Some(b' ') if (METHOD_LEN_MIN..=METHOD_LEN_MAX).contains(&len) => Self::Http,
            _ => Self::Other,
        }
    }
}

/// The response, in plain text; the connection is closed after it.
pub(crate) const RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 51\r\n\
    Connection: close\r\n\
    \r\n\
    The plain HTTP request was sent to an HTTPS port.\r\n";

/// `GET`.
const METHOD_LEN_MIN: usize = 3;
/// `UPDATEREDIRECTREF` (RFC 4437) is the longest registered one.
const METHOD_LEN_MAX: usize = 17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines_are_recognized_in_any_split() {
        for http in [&b"GET / HTTP/1.1\r\n"[..], b"OPTIONS *", b"PROPFIND /a", b"PRI * HTTP/2.0"] {
            let blank = http.iter().position(|byte| *byte == b' ').unwrap();
            for len in 0..=http.len() {
                let expected = if len > blank { FirstBytes::Http } else { FirstBytes::Incomplete };
                assert_eq!(FirstBytes::of(&http[..len]), expected, "{:?}", &http[..len]);
            }
        }
        for other in [&b"\x16\x03\x01"[..], b"\x80", b"GET/", b"get /", b"SSH-2.0-x", b"A /"] {
            assert_eq!(FirstBytes::of(other), FirstBytes::Other, "{other:?}");
        }
        assert_eq!(FirstBytes::of(&[b'A'; METHOD_LEN_MAX + 1]), FirstBytes::Other);
    }

    #[test]
    fn content_length_is_that_of_the_body() {
        let text = std::str::from_utf8(RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{}", body.len());
    }
}
