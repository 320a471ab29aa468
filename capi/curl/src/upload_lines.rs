//! `CURLOPT_CRLF`: line feeds of an upload become line ends of the network.
//!
//! Bodies of the read callback only. Forms have such line ends already, and fields that are in
//! memory are sent as they are.

use bytes::Bytes;

use crate::option::OptionId as Id;
use crate::transfer::UploadState;
use crate::values::OptionValues;

/// The length of a body that the read callback supplies: unknown if line feeds are converted.
pub(crate) fn sent_len(values: &OptionValues, len: Option<u64>) -> Option<u64> {
    len.filter(|len| *len == 0 || !values.is_on(Id::CRLF))
}

/// True if the line feeds of a body are converted; not if its length was announced before the
/// option was set.
pub(crate) fn converts(values: &OptionValues, upload: &UploadState) -> bool {
    values.is_on(Id::CRLF) && upload.form.is_none() && upload.left.is_none()
}

/// A carriage return before each line feed, also before those that have one: as in libcurl.
pub(crate) fn with_line_ends(piece: Bytes) -> Bytes {
    let count = memchr::memchr_iter(b'\n', &piece).count();
    if count == 0 {
        return piece;
    }
    let mut converted = Vec::with_capacity(piece.len() + count);
    for line in piece.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                converted.extend_from_slice(text);
                converted.extend_from_slice(b"\r\n");
            }
            None => converted.extend_from_slice(line),
        }
    }
    converted.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::{Argument, EasyOptions};

    #[test]
    fn each_line_feed_gets_a_carriage_return() {
        for (piece, expected) in [
            ("", ""),
            ("no line", "no line"),
            ("\n", "\r\n"),
            ("a\nb\n\nc", "a\r\nb\r\n\r\nc"),
            ("a\r\nb\r", "a\r\r\nb\r"),
        ] {
            assert_eq!(with_line_ends(piece.into()), expected, "{piece:?}");
        }
    }

    #[test]
    fn converted_bodies_have_no_known_length() {
        let mut options = EasyOptions::default();
        assert_eq!(sent_len(&options.values, Some(7)), Some(7));
        options.set(Id::CRLF, Argument::Number(1)).expect("an option");
        let lengths = [Some(7), Some(0), None].map(|len| sent_len(&options.values, len));
        assert_eq!(lengths, [None, Some(0), None]);
    }
}
