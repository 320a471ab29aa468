//! The head of an HTTP request, byte for byte as libcurl 7.88 writes it.
//!
//! Pure: options, custom fields and what the transfer knows go in; the bytes come out, with the
//! facts that the engine has to know of them. The order of the fields is libcurl's.

use crate::code::CurlCode;
use crate::codings::CODINGS;
use crate::cookies::{SentCookie, cookie_field};
use crate::custom_fields::{CustomFields, names};
use crate::easy_options::{EasyOptions, HTTP_VERSION_1_0, RequestKind};
use crate::http2_upgrade::UPGRADE_FIELDS;
use crate::option::OptionId as Id;

/// The input of a head besides the options.
#[derive(Debug)]
pub(crate) struct HeadParts<'a> {
    pub(crate) method: &'a [u8],
    /// The request target: a path, or a URL for a proxy.
    pub(crate) target: &'a [u8],
    /// `host`, or `host:port` for a port that is not the scheme's.
    pub(crate) host: &'a str,
    pub(crate) custom: &'a CustomFields,
    /// The lines that decide on the fields for a proxy.
    pub(crate) proxy_custom: &'a CustomFields,
    /// They are sent, too.
    pub(crate) sends_proxy_fields: bool,
    /// A redirect has left the first host: a custom `Host` is for the first one only.
    pub(crate) has_left_host: bool,
    /// Custom `Authorization` and `Cookie` lines may be sent to this host.
    pub(crate) trusts_host: bool,
    /// The request passes through a proxy that reads it.
    pub(crate) is_proxied: bool,
    pub(crate) proxy_authorization: Option<&'a [u8]>,
    pub(crate) authorization: Option<&'a [u8]>,
    /// A `Range` or `Content-Range` line without its end.
    pub(crate) range: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    /// Cookies of the cookie engine.
    pub(crate) cookies: &'a [SentCookie],
    /// `CURLOPT_COOKIE`.
    pub(crate) cookie: Option<&'a [u8]>,
    /// A line for `CURLOPT_TIMECONDITION`.
    pub(crate) condition: Option<&'a [u8]>,
    pub(crate) body: HeadBody<'a>,
    /// The body is withheld until the server has chosen an authentication scheme.
    pub(crate) negotiates: bool,
    /// The server does not know `Expect`.
    pub(crate) refuses_expect: bool,
    /// The server has responded with HTTP/1.0.
    pub(crate) is_http10: bool,
    /// The settings with which an upgrade to HTTP/2 is requested, if it is.
    pub(crate) http2_settings: Option<String>,
}

/// The body that a head announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadBody<'a> {
    None,
    /// The length, if it is known.
    Put(Option<u64>),
    Post(Option<u64>),
    /// The length, and the lines that the form needs.
    Form(Option<u64>, &'a [Vec<u8>]),
}

/// A head, and what its bytes mean for the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WrittenHead {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_chunked: bool,
    pub(crate) expects_continue: bool,
    pub(crate) closes: bool,
}

impl WrittenHead {
    /// Writes a head.
    ///
    /// # Errors
    /// [`CurlCode::UploadFailed`]: a body of unknown length in HTTP/1.0.
    pub(crate) fn write(options: &EasyOptions, parts: &HeadParts<'_>) -> Result<Self, CurlCode> {
        let is_http10 =
            parts.is_http10 || options.values.number(Id::HTTP_VERSION) == HTTP_VERSION_1_0;
        let te = te_of_body(parts, is_http10)?;
        let mut head = HeadWriter { bytes: Vec::with_capacity(256), custom: parts.custom };
        let version: &[u8] = if is_http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" };
        head.raw(&[parts.method, b" ", parts.target, version]);
        let has_host = head.host(parts);
        head.line("Proxy-Authorization", parts.proxy_authorization);
        head.line("Authorization", parts.authorization);
        head.raw_line(parts.range);
        let text = |id| options.values.bytes(id).map(|text| &text[..]).filter(|t| !t.is_empty());
        head.unless_custom("User-Agent", text(Id::USERAGENT));
        head.unless_custom("Accept", Some(b"*/*"));
        let sends_te =
            options.values.is_on(Id::TRANSFER_ENCODING) && parts.custom.find("TE").is_none();
        if sends_te {
            head.te();
        }
        head.unless_custom("Accept-Encoding", accept_encoding(options));
        head.unless_custom("Referer", parts.referer);
        if parts.is_proxied && parts.proxy_custom.find("Proxy-Connection").is_none() {
            head.unless_custom("Proxy-Connection", Some(b"Keep-Alive"));
        }
        if te == BodyCoding::Chunked {
            head.line("Transfer-Encoding", Some(b"chunked"));
        }
        if let Some(settings) = &parts.http2_settings {
            head.raw(&[UPGRADE_FIELDS, settings.as_bytes(), b"\r\n"]);
        }
        let cookie = cookie_field(parts.cookies, head.bytes.len(), parts.cookie);
        head.line("Cookie", cookie.as_deref());
        head.raw_line(parts.condition);
        head.custom(options, parts, has_host, sends_te);
        let expects_continue = head.body(parts, te != BodyCoding::Identity, is_http10);
        head.raw(&[b"\r\n"]);
        head.bytes.shrink_to_fit(); // it is kept for the next transfer
        Ok(Self {
            bytes: head.bytes,
            is_chunked: te != BodyCoding::Identity,
            expects_continue,
            closes: is_http10 || parts.custom.has_token("Connection", "close"),
        })
    }
}

/// The transfer coding of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyCoding {
    Identity,
    /// Chunked, with a field of ours.
    Chunked,
    /// Chunked, with a custom field.
    CustomChunked,
}

fn te_of_body(parts: &HeadParts<'_>, is_http10: bool) -> Result<BodyCoding, CurlCode> {
    if parts.custom.find("Transfer-Encoding").is_some() {
        return Ok(match parts.custom.has_token("Transfer-Encoding", "chunked") {
            true => BodyCoding::CustomChunked,
            false => BodyCoding::Identity,
        });
    }
    let is_unknown =
        matches!(parts.body, HeadBody::Put(None) | HeadBody::Post(None) | HeadBody::Form(None, _));
    match is_unknown && !parts.negotiates {
        false => Ok(BodyCoding::Identity),
        true if is_http10 => Err(CurlCode::UploadFailed),
        true => Ok(BodyCoding::Chunked),
    }
}

/// The value of `Accept-Encoding`; an empty option means all codings.
fn accept_encoding(options: &EasyOptions) -> Option<&[u8]> {
    let text = options.values.bytes(Id::ACCEPT_ENCODING)?;
    Some(if text.is_empty() { CODINGS.as_bytes() } else { text })
}

/// A head in the making.
struct HeadWriter<'a> {
    bytes: Vec<u8>,
    custom: &'a CustomFields,
}

impl HeadWriter<'_> {
    fn raw(&mut self, pieces: &[&[u8]]) {
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
    }

    fn raw_line(&mut self, line: Option<&[u8]>) {
        if let Some(line) = line {
            self.raw(&[line, b"\r\n"]);
        }
    }

    fn line(&mut self, name: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.raw(&[name.as_bytes(), b": ", value, b"\r\n"]);
        }
    }

    /// A field, unless the application replaces or removes it.
    fn unless_custom(&mut self, name: &str, value: Option<&[u8]>) {
        if self.custom.find(name).is_none() {
            self.line(name, value);
        }
    }

    /// The `Host` field, in the place of a custom one too. False if there is none.
    fn host(&mut self, parts: &HeadParts<'_>) -> bool {
        match self.custom.find("Host").filter(|_| !parts.has_left_host) {
            None => self.line("Host", Some(parts.host.as_bytes())),
            Some(b"Host:") => return false,
            Some(line) => {
                let value = line["Host:".len()..].to_vec();
                self.raw(&[b"Host:", &value, b"\r\n"]);
            }
        }
        true
    }

    /// The codings of a transfer that the client accepts (CURLOPT_TRANSFER_ENCODING(3)).
    fn te(&mut self) {
        let custom =
            self.custom.find("Connection").map(|line| line["Connection:".len()..].to_vec());
        let custom = custom.filter(|value| !value.trim_ascii().is_empty());
        match custom {
            Some(value) => self.raw(&[b"Connection:", &value, b", TE\r\nTE: gzip\r\n"]),
            None => self.raw(&[b"Connection: TE\r\nTE: gzip\r\n"]),
        }
    }

    fn custom(
        &mut self,
        options: &EasyOptions,
        parts: &HeadParts<'_>,
        has_host: bool,
        sends_te: bool,
    ) {
        let is_form = matches!(options.request, RequestKind::PostForm | RequestKind::PostMime);
        let proxy_lines = Some(parts.proxy_custom).filter(|_| parts.sends_proxy_fields);
        let proxy_lines = proxy_lines.into_iter().flat_map(CustomFields::sent);
        for line in self.custom.sent().chain(proxy_lines) {
            let is_elsewhere = (has_host && names(&line, "Host"))
                || (is_form && names(&line, "Content-Type"))
                || (parts.negotiates && names(&line, "Content-Length"))
                || (sends_te && names(&line, "Connection"));
            let is_secret = names(&line, "Authorization") || names(&line, "Cookie");
            if !is_elsewhere && (!is_secret || parts.trusts_host) {
                self.raw(&[&line, b"\r\n"]);
            }
        }
    }

    /// The fields of the body. Returns whether it waits for `100 Continue`.
    fn body(&mut self, parts: &HeadParts<'_>, is_chunked: bool, is_http10: bool) -> bool {
        let (len, waits_from) = match parts.body {
            HeadBody::None => return false,
            HeadBody::Put(len) => (len, 1),
            HeadBody::Post(len) | HeadBody::Form(len, _) => (len, EXPECT_CONTINUE_FROM),
        };
        let len = if parts.negotiates { Some(0) } else { len };
        if let Some(len) = len.filter(|_| !is_chunked) {
            let text = len.to_string();
            match parts.negotiates {
                true => self.line("Content-Length", Some(text.as_bytes())),
                false => self.unless_custom("Content-Length", Some(text.as_bytes())),
            }
        }
        match parts.body {
            HeadBody::Form(_, lines) if !parts.negotiates => {
                lines.iter().for_each(|line| self.raw_line(Some(line)));
            }
            HeadBody::Post(_) => {
                self.unless_custom("Content-Type", Some(b"application/x-www-form-urlencoded"));
            }
            _ => {}
        }
        if self.custom.find("Expect").is_some() {
            let is_put_without_body = matches!(parts.body, HeadBody::Put(Some(0)));
            return self.custom.has_token("Expect", "100-continue") && !is_put_without_body;
        }
        let expects =
            !is_http10 && !parts.refuses_expect && len.is_none_or(|len| len >= waits_from);
        if expects {
            self.line("Expect", Some(b"100-continue"));
        }
        expects
    }
}

/// Smaller bodies of a POST do not wait for `100 Continue`.
const EXPECT_CONTINUE_FROM: u64 = 1024 * 1024 + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    fn parts<'a>(custom: &'a CustomFields, body: HeadBody<'a>) -> HeadParts<'a> {
        HeadParts {
            method: b"GET",
            target: b"/a",
            host: "h:81",
            custom,
            proxy_custom: custom,
            sends_proxy_fields: false,
            has_left_host: false,
            trusts_host: true,
            is_proxied: false,
            proxy_authorization: None,
            authorization: None,
            range: None,
            referer: None,
            cookies: &[],
            cookie: None,
            condition: None,
            body,
            negotiates: false,
            refuses_expect: false,
            is_http10: false,
            http2_settings: None,
        }
    }

    fn custom(lines: &[&str]) -> CustomFields {
        CustomFields::new(lines.iter().map(|line| line.as_bytes().to_vec()).collect())
    }

    fn write(options: &EasyOptions, parts: &HeadParts<'_>) -> String {
        let head = WrittenHead::write(options, parts).expect("valid");
        String::from_utf8(head.bytes).expect("text").replace("\r\n", "|")
    }

    fn options(texts: &[(Id, &str)]) -> EasyOptions {
        let mut options = EasyOptions::default();
        for (id, text) in texts {
            options.set(*id, Argument::Bytes(Some(text.as_bytes()))).expect("accepted");
        }
        options
    }

    #[test]
    fn fields_have_the_order_of_libcurl() {
        let options = options(&[(Id::USERAGENT, "u"), (Id::ACCEPT_ENCODING, "")]);
        let custom = custom(&["X-A: 1", "X-E;"]);
        let parts = HeadParts {
            proxy_authorization: Some(b"Basic p"),
            authorization: Some(b"Basic a"),
            range: Some(b"Range: bytes=1-2"),
            referer: Some(b"r"),
            cookies: &[SentCookie { name: b"a".to_vec(), value: b"b".to_vec() }],
            cookie: Some(b"c=d"),
            condition: Some(b"If-Modified-Since: then"),
            is_proxied: true,
            ..parts(&custom, HeadBody::Post(None))
        };
        let expected = "GET /a HTTP/1.1|Host: h:81|Proxy-Authorization: Basic p|\
             Authorization: Basic a|Range: bytes=1-2|User-Agent: u|Accept: */*|\
             Accept-Encoding: deflate, gzip, br, zstd|Referer: r|Proxy-Connection: Keep-Alive|\
             Transfer-Encoding: chunked|Cookie: a=b; c=d|If-Modified-Since: then|X-A: 1|X-E:|\
             Content-Type: application/x-www-form-urlencoded|Expect: 100-continue||";
        assert_eq!(write(&options, &parts), expected);
    }

    #[test]
    fn custom_lines_take_the_place_of_fields_or_remove_them() {
        let rows: [(&[&str], &str); 6] = [
            (&[], "GET /a HTTP/1.1|Host: h:81|Accept: */*||"),
            (&["Accept:"], "GET /a HTTP/1.1|Host: h:81||"),
            (&["host: other"], "GET /a HTTP/1.1|Host: other|Accept: */*||"),
            (&["Host:"], "GET /a HTTP/1.1|Accept: */*||"),
            (&["Accept: x"], "GET /a HTTP/1.1|Host: h:81|Accept: x||"),
            (&["Cookie: a"], "GET /a HTTP/1.1|Host: h:81|Accept: */*|Cookie: a||"),
        ];
        for (lines, expected) in rows {
            let custom = custom(lines);
            let parts = parts(&custom, HeadBody::None);
            assert_eq!(write(&EasyOptions::default(), &parts), expected, "{lines:?}");
        }
    }

    #[test]
    fn secrets_do_not_follow_to_another_host() {
        let custom = custom(&["Authorization: s", "Cookie: s", "Host: first", "X: 1"]);
        let parts =
            HeadParts { has_left_host: true, trusts_host: false, ..parts(&custom, HeadBody::None) };
        let expected = "GET /a HTTP/1.1|Host: h:81|Accept: */*|X: 1||";
        assert_eq!(write(&EasyOptions::default(), &parts), expected);
    }

    /// A body, custom lines, the lines of the body, and if it is chunked and if it waits.
    type BodyRow<'a> = (HeadBody<'a>, &'a [&'a str], &'a str, (bool, bool));

    /// Lengths, `Expect`, and what the connection has to know.
    #[test]
    fn bodies_are_announced_as_by_libcurl() {
        let rows: [BodyRow<'_>; 9] = [
            (
                HeadBody::Post(Some(3)),
                &[],
                "Content-Length: 3|Content-Type: application/x-www-form-urlencoded|",
                (false, false),
            ),
            (
                HeadBody::Post(Some(3)),
                &["Content-Type: t"],
                "Content-Type: t|Content-Length: 3|",
                (false, false),
            ),
            (
                HeadBody::Post(Some(1 << 20)),
                &["Content-Type: t"],
                "Content-Type: t|Content-Length: 1048576|",
                (false, false),
            ),
            (
                HeadBody::Post(Some((1 << 20) + 1)),
                &["Content-Type: t"],
                "Content-Type: t|Content-Length: 1048577|Expect: 100-continue|",
                (false, true),
            ),
            (HeadBody::Put(Some(1)), &[], "Content-Length: 1|Expect: 100-continue|", (false, true)),
            (HeadBody::Put(Some(0)), &[], "Content-Length: 0|", (false, false)),
            (HeadBody::Put(Some(5)), &["Expect:"], "Content-Length: 5|", (false, false)),
            (
                HeadBody::Put(Some(5)),
                &["Transfer-Encoding: chunked"],
                "Transfer-Encoding: chunked|Expect: 100-continue|",
                (true, true),
            ),
            (HeadBody::Put(None), &["Expect: 100-continue"], "Expect: 100-continue|", (true, true)),
        ];
        for (body, lines, expected, facts) in rows {
            let custom = custom(lines);
            let parts = parts(&custom, body);
            let head = WrittenHead::write(&EasyOptions::default(), &parts).expect("valid");
            let text = String::from_utf8(head.bytes).expect("text").replace("\r\n", "|");
            let (_, rest) = text.split_once("Accept: */*|").expect("an Accept field");
            let rest = rest
                .strip_prefix("Transfer-Encoding: chunked|")
                .filter(|_| lines != ["Transfer-Encoding: chunked"])
                .unwrap_or(rest);
            assert_eq!(rest, format!("{expected}|"), "{body:?} {lines:?}");
            assert_eq!((head.is_chunked, head.expects_continue), facts, "{body:?} {lines:?}");
        }
    }

    #[test]
    fn unknown_length_needs_http_1_1() {
        let mut options = EasyOptions::default();
        options.set(Id::HTTP_VERSION, Argument::Number(1)).expect("accepted");
        let custom = custom(&[]);
        let failed = WrittenHead::write(&options, &parts(&custom, HeadBody::Put(None)));
        assert_eq!(failed, Err(CurlCode::UploadFailed));
        let head = WrittenHead::write(&options, &parts(&custom, HeadBody::Put(Some(1))));
        let head = head.expect("valid");
        assert!(head.closes && !head.expects_continue);
        assert!(head.bytes.starts_with(b"GET /a HTTP/1.0\r\n"));
    }
}
