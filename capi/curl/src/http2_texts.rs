//! Verbose output about requests of HTTP/2.

/// The fields of a request, each as a text.
pub(crate) fn http2_fields(head: &[u8], is_secure: bool) -> Vec<String> {
    let mut lines = lines(head);
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let fields: Vec<(String, String)> = lines
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect();
    let host = fields.iter().find(|(name, _)| name == "host").map(|(_, value)| value.clone());
    let scheme = if is_secure { "https" } else { "http" };
    let pseudo = [
        (":method", Some(method)),
        (":path", Some(path)),
        (":scheme", Some(scheme.to_owned())),
        (":authority", host),
    ];
    let pseudo = pseudo.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let others = fields.into_iter().filter(|(name, _)| !OF_HTTP1.contains(&&**name));
    pseudo.chain(others).map(|(name, value)| format!("h2h3 [{name}: {value}]")).collect()
}

/// The head as libcurl prints it: with the version, and with names in lower case.
pub(crate) fn http2_head(head: &[u8]) -> Vec<u8> {
    let mut shown = Vec::with_capacity(head.len());
    for (nth, line) in head.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let name = memchr::memchr(b':', line).unwrap_or(0);
        match line.strip_suffix(b"HTTP/1.1\r\n") {
            Some(line) if nth == 0 => shown.extend_from_slice(&[line, b"HTTP/2\r\n"].concat()),
            _ if line[..name].eq_ignore_ascii_case(b"host") => shown.extend_from_slice(line),
            _ => {
                shown.extend(line[..name].to_ascii_lowercase());
                shown.extend_from_slice(&line[name..]);
            }
        }
    }
    shown
}

fn lines(head: &[u8]) -> impl Iterator<Item = String> {
    head.split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).trim_end_matches('\r').to_owned())
}

/// Fields that a request of HTTP/2 has in another form, or not.
const OF_HTTP1: [&str; 7] = [
    "host",
    "connection",
    "expect",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from libcurl with nghttpd.
    #[test]
    fn requests_are_printed_as_by_libcurl() {
        let head = b"GET /ok HTTP/1.1\r\nHost: localhost:1\r\nAccept: */*\r\n\r\n";
        let fields = http2_fields(head, true);
        assert_eq!(
            fields,
            [
                "h2h3 [:method: GET]",
                "h2h3 [:path: /ok]",
                "h2h3 [:scheme: https]",
                "h2h3 [:authority: localhost:1]",
                "h2h3 [accept: */*]",
            ]
        );
        let shown = b"GET /ok HTTP/2\r\nHost: localhost:1\r\naccept: */*\r\n\r\n";
        assert_eq!(http2_head(head), shown);
    }
}
