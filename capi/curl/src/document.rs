//! Facts of a response about its document: size, range, time, end of the connection.

use fulmar_proto::Version;

use crate::code::CurlCode;
use crate::custom_fields::CustomFields;
use crate::date::getdate;
use crate::easy_options::{EasyOptions, RequestKind};
use crate::events::ReceivedHead;
use crate::failure::Failure;
use crate::number::{NumberError, leading_number};
use crate::option::OptionId as Id;
use crate::response_field::ResponseField;
use crate::stamp::http_date;
use crate::text::has_token;

/// The facts of a head.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentFacts {
    /// `Content-Length`, unless the body is chunked or ends with the connection.
    pub(crate) size: Option<i64>,
    /// The length exceeds 63 bits.
    pub(crate) overflows: bool,
    /// `Content-Range` begins where the download was to be resumed.
    is_resumed: bool,
    /// `Content-Range` has no number: the whole document is sent.
    is_whole: bool,
    /// `Last-Modified`; 0: unknown.
    modified: i64,
    /// The connection ends with the response (RFC 9112 §9.6), or only with it the body does.
    pub(crate) closes: bool,
}

/// The use of a body, decided when its first bytes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyVerdict {
    Deliver,
    /// The transfer has succeeded: the document is complete already.
    IsComplete,
    /// As if the server had answered 304 (RFC 9110 §15.4.5).
    IsUnchanged,
}

impl DocumentFacts {
    /// Of no head.
    pub(crate) const NONE: Self = Self {
        size: None,
        overflows: false,
        is_resumed: false,
        is_whole: false,
        modified: 0,
        closes: false,
    };

    /// Reads a final head. `resumed`: where the download is to begin.
    pub(crate) fn of(head: &ReceivedHead, options: &EasyOptions, resumed: i64) -> Self {
        let mut facts = Self::default();
        let (mut is_coded, mut is_chunked) = (false, false);
        let mut keeps = matches!(head.version, Version::Http11 | Version::Http2);
        let is_bodiless = matches!(head.status, 204 | 304);
        if is_bodiless {
            facts.size = Some(0);
        }
        for (field, value) in head.fields() {
            match field {
                ResponseField::Connection | ResponseField::ProxyConnection => {
                    keeps |= has_token(value, "keep-alive");
                    keeps &= !has_token(value, "close");
                }
                _ if is_bodiless => {}
                ResponseField::ContentLength
                    if !options.values.is_on(Id::IGNORE_CONTENT_LENGTH) =>
                {
                    match leading_number(value) {
                        Ok(size) => facts.size = Some(size),
                        Err(NumberError::Overflow) => (facts.overflows, keeps) = (true, false),
                        Err(NumberError::Missing) => {}
                    }
                }
                ResponseField::TransferEncoding => {
                    is_coded = true;
                    is_chunked |= has_token(value, "chunked");
                }
                ResponseField::ContentRange => {
                    let at = value.iter().position(|byte| byte.is_ascii_digit() || *byte == b'*');
                    match at.map(|at| &value[at..]) {
                        Some(number) if number[0] != b'*' => {
                            facts.is_resumed |= leading_number(number) == Ok(resumed);
                        }
                        _ => facts.is_whole = true,
                    }
                }
                ResponseField::LastModified => {
                    let values = &options.values;
                    if values.is_on(Id::TIMECONDITION) || values.is_on(Id::FILETIME) {
                        facts.modified = getdate(value.trim_ascii());
                    }
                }
                _ => {}
            }
        }
        if is_coded {
            facts.size = None;
        }
        let ends = facts.size.is_some() || is_chunked || head.version == Version::Http2;
        facts.closes = !keeps || !ends;
        facts
    }

    /// `CURLINFO_FILETIME`.
    pub(crate) fn file_time(&self, options: &EasyOptions) -> Option<i64> {
        (options.values.is_on(Id::FILETIME) && self.modified != 0).then_some(self.modified)
    }

    /// Where a download is to be resumed, after the head.
    pub(crate) fn resumed(&self, resumed: i64) -> i64 {
        if self.is_whole { 0 } else { resumed }
    }

    /// Judges a body before its first bytes are delivered. `is_get`: the request is a GET.
    ///
    /// # Errors
    /// The download was to be resumed, and the server sends the whole document.
    pub(crate) fn judge_body(
        &self,
        options: &EasyOptions,
        resumed: i64,
        is_get: bool,
    ) -> Result<BodyVerdict, Failure> {
        let resumed = self.resumed(resumed);
        if resumed != 0 && !self.is_resumed && is_get {
            if self.size == Some(resumed) {
                return Ok(BodyVerdict::IsComplete);
            }
            let text = "HTTP server doesn't seem to support byte ranges. Cannot resume.";
            return Err(Failure::new(CurlCode::RangeError, text));
        }
        let has_range = resumed != 0 || options.values.bytes(Id::RANGE).is_some();
        match options.values.is_on(Id::TIMECONDITION)
            && !has_range
            && !meets_condition(options, self.modified)
        {
            true => Ok(BodyVerdict::IsUnchanged),
            false => Ok(BodyVerdict::Deliver),
        }
    }
}

/// `CURLOPT_TIMECONDITION`: true if a document of this time is wanted.
pub(crate) fn meets_condition(options: &EasyOptions, modified: i64) -> bool {
    let wanted = options.values.number(Id::TIMEVALUE_LARGE);
    if modified == 0 || wanted == 0 {
        return true;
    }
    match options.values.number(Id::TIMECONDITION) {
        CONDITION_IF_UNMODIFIED_SINCE => modified < wanted,
        _ => modified > wanted,
    }
}

/// The field line of `CURLOPT_TIMECONDITION`.
///
/// # Errors
/// The time has no date.
pub(crate) fn condition_line(
    options: &EasyOptions,
    custom: &CustomFields,
) -> Result<Option<Vec<u8>>, Failure> {
    let name = match options.values.number(Id::TIMECONDITION) {
        0 => return Ok(None),
        CONDITION_IF_UNMODIFIED_SINCE => "If-Unmodified-Since",
        CONDITION_LAST_MODIFIED => "Last-Modified",
        _ => "If-Modified-Since",
    };
    let date = http_date(options.values.number(Id::TIMEVALUE_LARGE))
        .ok_or_else(|| Failure::new(CurlCode::BadFunctionArgument, "Invalid TIMEVALUE"))?;
    let is_custom = custom.find(name).is_some();
    Ok((!is_custom).then(|| format!("{name}: {date}").into_bytes()))
}

/// The `Range` line of a request without a body.
pub(crate) fn range_line(options: &EasyOptions, custom: &CustomFields) -> Option<Vec<u8>> {
    if custom.find("Range").is_some() {
        return None;
    }
    match (options.values.number(Id::RESUME_FROM_LARGE), options.values.bytes(Id::RANGE)) {
        (0, Some(range)) => Some([b"Range: bytes=", &range[..]].concat()),
        (0, None) => None,
        (from, _) => Some(format!("Range: bytes={from}-").into_bytes()),
    }
}

/// A 416 to a download that was resumed at `resumed`: the document is complete, and an error page
/// is not wanted.
pub(crate) fn is_beyond_end(options: &EasyOptions, resumed: i64, status: u16) -> bool {
    status == 416 && resumed != 0 && options.request == RequestKind::Get
}

/// `Retry-After` in seconds: a number, or a date.
pub(crate) fn retry_after(value: &[u8], now: i64) -> i64 {
    match leading_number(value) {
        Ok(seconds) if seconds != 0 => seconds,
        _ => match getdate(value.trim_ascii()) {
            -1 => 0,
            date => date - now,
        },
    }
}

/// `CURL_TIMECOND_IFUNMODSINCE`.
const CONDITION_IF_UNMODIFIED_SINCE: i64 = 2;
/// `CURL_TIMECOND_LASTMOD`.
const CONDITION_LAST_MODIFIED: i64 = 3;
