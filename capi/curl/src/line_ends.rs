//! Line ends in texts that become lines of a request.
//!
//! libcurl sends them, so a text from outside could add fields, or a second request. Here the
//! transfer fails, and nothing is sent.

use crate::code::CurlCode;
use crate::custom_fields::CustomFields;
use crate::failure::Failure;
use crate::option::OptionId as Id;
use crate::values::OptionValues;

/// Refuses line ends in the options of one line.
///
/// # Errors
/// [`CurlCode::BadFunctionArgument`].
pub(crate) fn refuse_in_options(values: &OptionValues) -> Result<(), Failure> {
    let mut texts = LINES.iter().filter_map(|(id, name)| Some((values.bytes(*id)?, *name)));
    match texts.find(|(text, _)| has_line_end(text)) {
        Some((_, name)) => Err(refused(name)),
        None => Ok(()),
    }
}

/// Refuses them in the lines of `CURLOPT_HTTPHEADER` and `CURLOPT_PROXYHEADER`.
///
/// # Errors
/// [`CurlCode::BadFunctionArgument`].
pub(crate) fn refuse_in_fields(fields: &[CustomFields]) -> Result<(), Failure> {
    match fields.iter().flat_map(CustomFields::lines).any(has_line_end) {
        true => Err(refused("a custom header field")),
        false => Ok(()),
    }
}

fn has_line_end(text: &[u8]) -> bool {
    memchr::memchr2(b'\r', b'\n', text).is_some()
}

fn refused(name: &str) -> Failure {
    Failure::new(CurlCode::BadFunctionArgument, format!("Line end in {name}"))
}

/// Options whose text becomes a part of a line.
const LINES: [(Id, &str); 8] = [
    (Id::CUSTOMREQUEST, "CURLOPT_CUSTOMREQUEST"),
    (Id::REQUEST_TARGET, "CURLOPT_REQUEST_TARGET"),
    (Id::USERAGENT, "CURLOPT_USERAGENT"),
    (Id::REFERER, "CURLOPT_REFERER"),
    (Id::COOKIE, "CURLOPT_COOKIE"),
    (Id::RANGE, "CURLOPT_RANGE"),
    (Id::ACCEPT_ENCODING, "CURLOPT_ACCEPT_ENCODING"),
    (Id::XOAUTH2_BEARER, "CURLOPT_XOAUTH2_BEARER"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::{Argument, EasyOptions};

    #[test]
    fn texts_add_no_lines_to_a_request() {
        for (id, name) in LINES {
            for (text, is_refused) in [("a b", false), ("a\r\nX: y", true), ("a\nb", true)] {
                let mut options = EasyOptions::default();
                options.set(id, Argument::Bytes(Some(text.as_bytes()))).expect("any text");
                let result = refuse_in_options(&options.values);
                assert_eq!(result.is_err(), is_refused, "{name} {text:?}");
            }
        }
        let fields = |line: &str| [CustomFields::new(vec![b"A: 1".to_vec(), line.into()])];
        assert!(refuse_in_fields(&fields("B: 2\t")).is_ok());
        for line in ["B: 2\r\nC: 3", "B: 2\r\n", "B: 2\rC"] {
            let refused = refuse_in_fields(&fields(line)).expect_err(line);
            assert_eq!(refused.code, CurlCode::BadFunctionArgument);
        }
    }
}
