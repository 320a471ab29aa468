//! Conversions between fulmar's heads and those of the `http` crate.

use crate::{OwnedResponse, ResponseBody};
use fulmar_proto::{HeaderBuf, Request, UsageError, Version};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};

/// Converts the head of a request. Nothing is decoded: the target is the URI.
///
/// # Errors
/// The `http` crate does not accept the target. It accepts `*` and `host:port`, but not some bytes
/// that RFC 9112 leaves to the server.
pub fn request(request: &Request<'_>) -> Result<http::Request<()>, http::Error> {
    let version = match request.version {
        Version::Http09 => http::Version::HTTP_09,
        Version::Http10 => http::Version::HTTP_10,
        Version::Http11 => http::Version::HTTP_11,
        Version::Http2 => http::Version::HTTP_2,
    };
    let mut builder =
        http::Request::builder().method(request.method).uri(request.target).version(version);
    for (name, value) in request.headers.iter() {
        builder = builder.header(name, value);
    }
    builder.body(())
}

/// Converts a complete response. The server determines the framing: `Content-Length`,
/// `Transfer-Encoding`, and `Connection` unless it is `close`, are dropped.
///
/// # Errors
/// The status is below 200, or a value has bytes that may not be sent.
pub fn response<B: Into<ResponseBody>>(
    from: http::Response<B>,
) -> Result<OwnedResponse, UsageError> {
    let (head, body) = from.into_parts();
    if head.status.as_u16() < 200 {
        return Err(UsageError::BadHead);
    }
    let mut headers = HeaderBuf::new();
    for (name, value) in &head.headers {
        let ours = [CONTENT_LENGTH, TRANSFER_ENCODING].contains(name)
            || (name == CONNECTION && !value.as_bytes().eq_ignore_ascii_case(b"close"));
        if !ours {
            headers.push(name.as_str(), value.as_bytes())?;
        }
    }
    Ok(OwnedResponse { status: head.status.as_u16(), headers, body: body.into() })
}

#[cfg(test)]
mod tests {
    use fulmar_proto::Headers;
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heads_arrive_as_they_are() {
        let mut fields = HeaderBuf::new();
        for (name, value) in [("Host", "h"), ("Cookie", "a=1"), ("Cookie", "b=2")] {
            fields.push(name, value.as_bytes()).unwrap();
        }
        let head = Request::new(b"GET", b"/a%20b?q=%2F", fields.as_headers());
        let theirs = request(&head).unwrap();
        assert_eq!((theirs.method(), theirs.uri().path()), (&http::Method::GET, "/a%20b"));
        assert_eq!(theirs.uri().query(), Some("q=%2F"));
        let cookies: Vec<_> = theirs.headers().get_all("cookie").iter().collect();
        assert_eq!(cookies, ["a=1", "b=2"]);
        for target in [&b"*"[..], b"h:80", b"http://h/x"] {
            assert!(request(&Request::new(b"OPTIONS", target, Headers::EMPTY)).is_ok());
        }
        assert!(request(&Request::new(b"GET", b"/{}\xff ", Headers::EMPTY)).is_err());
    }

    #[test]
    fn framing_is_ours() {
        let theirs = http::Response::builder()
            .status(201)
            .header("Content-Length", "17")
            .header("Transfer-Encoding", "chunked")
            .header("Connection", "keep-alive")
            .header("X-Kept", "yes")
            .body("body")
            .unwrap();
        let ours = response(theirs).unwrap();
        let names: Vec<_> = ours.headers.as_headers().iter().map(|(name, _)| name).collect();
        assert_eq!((ours.status, ours.body.len()), (201, 4));
        assert_eq!(names, [b"x-kept"]);
        let interim = http::Response::builder().status(101).body("").unwrap();
        assert_eq!(response(interim).unwrap_err(), UsageError::BadHead);
    }

    proptest! {
        #[test]
        fn values_survive_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
            let theirs = http::Response::builder().header("x-v", value).body("").unwrap();
            if let Ok(ours) = response(theirs) {
                prop_assert_eq!(ours.headers.as_headers().get("x-v"), Some(&bytes[..]));
            }
        }
    }
}
