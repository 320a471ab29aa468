//! Which part of a file `CURLOPT_RANGE` and `CURLOPT_RESUME_FROM` select.

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::number::{NumberError, leading_number};
use crate::option::OptionId as Id;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSpan {
    pub(crate) start: i64,
    /// `None`: up to the end.
    pub(crate) len: Option<i64>,
}

impl FileSpan {
    /// True if no part is selected.
    pub(crate) fn is_whole(options: &EasyOptions) -> bool {
        range_of(options).is_none()
    }

    /// The part of a file of this size, if that is known.
    ///
    /// # Errors
    /// The range is invalid, or begins behind the end.
    pub(crate) fn of(options: &EasyOptions, size: Option<i64>) -> Result<Self, Failure> {
        let invalid = || Failure::new(CurlCode::RangeError, "");
        let (mut start, max) = match range_of(options) {
            None => (0, None),
            Some(range) => parse(&range).ok_or_else(invalid)?,
        };
        if start < 0 {
            let missing = || Failure::new(CurlCode::ReadError, "Can't get the size of file.");
            start += size.ok_or_else(missing)?;
        }
        let mut left = size.unwrap_or(-1);
        if start > 0 {
            if start > left {
                let text = "failed to resume file:// transfer";
                return Err(Failure::new(CurlCode::BadDownloadResume, text));
            }
            left -= start;
        }
        let left = max.filter(|max| *max > 0).unwrap_or(left);
        Ok(Self { start, len: (left > 0).then_some(left) })
    }
}

fn range_of(options: &EasyOptions) -> Option<Vec<u8>> {
    match options.values.number(Id::RESUME_FROM_LARGE) {
        0 => options.values.bytes(Id::RANGE).map(|range| range.to_vec()),
        from => Some(format!("{from}-").into_bytes()),
    }
}

/// The start, which counts from the end if it is negative, and the largest length.
fn parse(range: &[u8]) -> Option<(i64, Option<i64>)> {
    let from = leading_number(range);
    let digits = range.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &range[digits..];
    let dashes = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'-')).count();
    match (from, leading_number(&rest[dashes..])) {
        (Err(NumberError::Overflow), _) | (_, Err(NumberError::Overflow)) => None,
        (Ok(from), Err(NumberError::Missing)) => Some((from, None)),
        (Err(NumberError::Missing), Ok(last)) => Some((-last, Some(last))),
        (Ok(from), Ok(to)) => {
            let len = to.checked_sub(from).filter(|len| *len >= 0)?.checked_add(1)?;
            Some((from, Some(len)))
        }
        (Err(NumberError::Missing), Err(NumberError::Missing)) => Some((0, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    #[test]
    fn ranges_select_parts_of_a_file() {
        let rows = [
            ("1-4", Ok((1, Some(4)))),
            ("0-3", Ok((0, Some(4)))),
            ("4-4", Ok((4, Some(1)))),
            ("7-", Ok((7, Some(3)))),
            ("-9", Ok((1, Some(9)))),
            ("10-", Ok((10, None))),
            ("11-", Err(CurlCode::BadDownloadResume)),
            ("4-1", Err(CurlCode::RangeError)),
            ("99999999999999999999-", Err(CurlCode::RangeError)),
        ];
        for (range, expected) in rows {
            let mut options = EasyOptions::default();
            options.set(Id::RANGE, Argument::Bytes(Some(range.as_bytes()))).expect("accepted");
            let span = FileSpan::of(&options, Some(10));
            let span = span.map(|span| (span.start, span.len)).map_err(|failure| failure.code);
            assert_eq!(span, expected, "{range}");
        }
        assert!(FileSpan::is_whole(&EasyOptions::default()));
    }
}
