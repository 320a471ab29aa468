//! Reason phrases: `MHD_get_reason_phrase_for`, `MHD_get_reason_phrase_len_for`.

/// The phrase of a status code; `None` where `MHD_get_reason_phrase_for` returns `"Unknown"` and
/// `MHD_get_reason_phrase_len_for` returns 0.
#[must_use]
pub fn reason_phrase(status: u32) -> Option<&'static str> {
    let at = REASONS.binary_search_by_key(&status, |(code, _)| *code).ok()?;
    Some(REASONS[at].1)
}

/// The phrase in a response of which the status has none.
pub(crate) const OTHER_STATUS: &str = "Non-Standard Status";

/// In ascending order. Most are in the registry of IANA.
const REASONS: &[(u32, &str)] = &[
    (100, "Continue"),
    (101, "Switching Protocols"),
    (102, "Processing"),
    (103, "Early Hints"),
    (200, "OK"),
    (201, "Created"),
    (202, "Accepted"),
    (203, "Non-Authoritative Information"),
    (204, "No Content"),
    (205, "Reset Content"),
    (206, "Partial Content"),
    (207, "Multi-Status"),
    (208, "Already Reported"),
    (226, "IM Used"),
    (300, "Multiple Choices"),
    (301, "Moved Permanently"),
    (302, "Found"),
    (303, "See Other"),
    (304, "Not Modified"),
    (305, "Use Proxy"),
    (306, "Switch Proxy"),
    (307, "Temporary Redirect"),
    (308, "Permanent Redirect"),
    (400, "Bad Request"),
    (401, "Unauthorized"),
    (402, "Payment Required"),
    (403, "Forbidden"),
    (404, "Not Found"),
    (405, "Method Not Allowed"),
    (406, "Not Acceptable"),
    (407, "Proxy Authentication Required"),
    (408, "Request Timeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (411, "Length Required"),
    (412, "Precondition Failed"),
    (413, "Content Too Large"),
    (414, "URI Too Long"),
    (415, "Unsupported Media Type"),
    (416, "Range Not Satisfiable"),
    (417, "Expectation Failed"),
    (421, "Misdirected Request"),
    (422, "Unprocessable Content"),
    (423, "Locked"),
    (424, "Failed Dependency"),
    (425, "Too Early"),
    (426, "Upgrade Required"),
    (428, "Precondition Required"),
    (429, "Too Many Requests"),
    (431, "Request Header Fields Too Large"),
    (449, "Reply With"),
    (450, "Blocked by Windows Parental Controls"),
    (451, "Unavailable For Legal Reasons"),
    (500, "Internal Server Error"),
    (501, "Not Implemented"),
    (502, "Bad Gateway"),
    (503, "Service Unavailable"),
    (504, "Gateway Timeout"),
    (505, "HTTP Version Not Supported"),
    (506, "Variant Also Negotiates"),
    (507, "Insufficient Storage"),
    (508, "Loop Detected"),
    (509, "Bandwidth Limit Exceeded"),
    (510, "Not Extended"),
    (511, "Network Authentication Required"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_in_ascending_order_of_their_codes() {
        assert!(REASONS.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn codes_have_the_phrases_of_the_original() {
        assert_eq!(reason_phrase(100), Some("Continue"));
        assert_eq!(reason_phrase(226), Some("IM Used"));
        assert_eq!(reason_phrase(306), Some("Switch Proxy"));
        assert_eq!(reason_phrase(413), Some("Content Too Large"));
        assert_eq!(reason_phrase(449), Some("Reply With"));
        assert_eq!(reason_phrase(450), Some("Blocked by Windows Parental Controls"));
        assert_eq!(reason_phrase(511), Some("Network Authentication Required"));
        assert_eq!((100..1000).filter_map(reason_phrase).count(), 65);
    }

    #[test]
    fn codes_without_a_phrase_have_none() {
        for status in [0, 99, 104, 200 | 1 << 31, 418, 599, 1000, u32::MAX] {
            assert_eq!(reason_phrase(status), None, "{status}");
        }
    }
}
