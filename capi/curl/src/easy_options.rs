//! What `curl_easy_setopt` does with an argument: checks, and options that change others.

use std::sync::Arc;

use crate::auth::method;
use crate::code::CurlCode;
use crate::option::{OptionId as Id, OptionInfo, OptionKind, check_number};
use crate::protocols::mask_of;
use crate::values::{CPointer, OptionValue, OptionValues};

/// The argument of an option, of the kind that the option has.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A `long` or a `curl_off_t`.
    Number(i64),
    /// A string or a blob, copied; `None` for `NULL`.
    Bytes(Option<&'a [u8]>),
    /// An address.
    Pointer(CPointer),
}

/// The request that the options select; the option that was set last decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// GET.
    #[default]
    Get,
    /// HEAD.
    Head,
    /// POST of bytes or of what the read callback returns.
    Post,
    /// POST of a form, from `curl_formadd`.
    PostForm,
    /// POST of a form, from `curl_mime_init`.
    PostMime,
    /// PUT of what the read callback returns.
    Put,
}

/// The options of an easy handle.
#[derive(Clone, Debug, Default)]
pub struct EasyOptions {
    /// The values; of options with two units or widths under the number of the finer one.
    pub values: OptionValues,
    /// The request.
    pub request: RequestKind,
    /// `CURLOPT_NOBODY`: no body is delivered.
    pub is_bodiless: bool,
}

impl EasyOptions {
    /// Sets an option (curl_easy_setopt(3)).
    ///
    /// # Errors
    /// The codes of libcurl 7.88.1: the option is unknown, its argument is out of range, or what
    /// it selects is not built in.
    pub fn set(&mut self, id: Id, argument: Argument<'_>) -> Result<(), CurlCode> {
        let option = OptionInfo::by_id(id).ok_or(CurlCode::UnknownOption)?;
        match (option.kind, argument) {
            (OptionKind::Long | OptionKind::Values | OptionKind::Offset, Argument::Number(n)) => {
                check_number(id, n)?;
                self.set_number(id, n);
                Ok(())
            }
            (OptionKind::Text, Argument::Bytes(text)) => self.set_text(id, text),
            (OptionKind::Blob, Argument::Bytes(blob)) => {
                self.store_bytes(id, blob);
                Ok(())
            }
            (_, Argument::Bytes(copy)) if id == Id::COPYPOSTFIELDS => {
                self.values.unset(Id::POSTFIELDS);
                self.store_bytes(id, copy);
                self.request = RequestKind::Post;
                Ok(())
            }
            (_, Argument::Pointer(pointer)) => self.set_pointer(id, pointer),
            _ => Err(CurlCode::BadFunctionArgument),
        }
    }

    fn set_number(&mut self, id: Id, number: i64) {
        match id {
            Id::HTTPGET if number != 0 => {
                self.select(RequestKind::Get);
                self.values.unset(Id::UPLOAD);
            }
            Id::HTTPGET => {}
            Id::POST => self.choose(number, RequestKind::Post),
            Id::PUT => self.choose(number, RequestKind::Put),
            Id::UPLOAD => {
                self.choose(number, RequestKind::Put);
                self.values.set(id, OptionValue::Number(number));
            }
            Id::NOBODY => {
                self.is_bodiless = number != 0;
                match (self.is_bodiless, self.request) {
                    (true, _) => self.request = RequestKind::Head,
                    (false, RequestKind::Head) => self.request = RequestKind::Get,
                    (false, _) => {}
                }
            }
            Id::POSTFIELDSIZE | Id::POSTFIELDSIZE_LARGE => {
                // A copy of fewer bytes than this cannot be sent.
                let copied = self.values.bytes(Id::COPYPOSTFIELDS).map(|copy| copy.len());
                if copied.is_some_and(|len| (len as u64) < number.max(0).unsigned_abs()) {
                    self.values.unset(Id::COPYPOSTFIELDS);
                }
                self.values.set(Id::POSTFIELDSIZE_LARGE, OptionValue::Number(number));
            }
            _ => {
                let (id, number) = canonical(id, number);
                self.values.set(id, OptionValue::Number(number));
            }
        }
    }

    fn set_text(&mut self, id: Id, text: Option<&[u8]>) -> Result<(), CurlCode> {
        match id {
            Id::DNS_INTERFACE | Id::DNS_LOCAL_IP4 | Id::DNS_LOCAL_IP6 | Id::DNS_SERVERS => {
                return Err(CurlCode::UnknownOption);
            }
            Id::EGDSOCKET | Id::RANDOM_FILE => return Ok(()),
            Id::PROTOCOLS_STR | Id::REDIR_PROTOCOLS_STR => {
                let mask = mask_of(text.ok_or(CurlCode::BadFunctionArgument)?)?;
                let is_first = id == Id::PROTOCOLS_STR;
                let id = if is_first { Id::PROTOCOLS } else { Id::REDIR_PROTOCOLS };
                self.values.set(id, OptionValue::Number(mask));
                return Ok(());
            }
            _ if text.is_some_and(|text| text.len() > TEXT_SIZE_MAX) => {
                return Err(CurlCode::BadFunctionArgument);
            }
            Id::SSLENGINE if text.is_some_and(|text| !text.is_empty()) => {
                return Err(CurlCode::SslEngineNotFound);
            }
            Id::PROXY_TLSAUTH_TYPE => return Err(CurlCode::BadFunctionArgument),
            Id::TLSAUTH_TYPE if text.is_some_and(|text| !text.eq_ignore_ascii_case(b"SRP")) => {
                return Err(CurlCode::BadFunctionArgument);
            }
            // The last one counts.
            Id::UNIX_SOCKET_PATH => self.values.unset(Id::ABSTRACT_UNIX_SOCKET),
            Id::ABSTRACT_UNIX_SOCKET => self.values.unset(Id::UNIX_SOCKET_PATH),
            Id::USERPWD => self.set_login(text, Id::USERNAME, Id::PASSWORD),
            Id::PROXYUSERPWD => self.set_login(text, Id::PROXYUSERNAME, Id::PROXYPASSWORD),
            Id::AWS_SIGV4 if text.is_some() => {
                let scheme = OptionValue::Number(method::AWS_SIGV4.into());
                self.values.set(Id::HTTPAUTH, scheme);
            }
            _ => {}
        }
        self.store_bytes(id, text);
        Ok(())
    }

    /// `user:password`; without a colon, a user.
    fn set_login(&mut self, login: Option<&[u8]>, user_id: Id, password_id: Id) {
        let colon = login.and_then(|login| memchr::memchr(b':', login));
        let user = login.map(|login| &login[..colon.unwrap_or(login.len())]);
        let password = colon.and_then(|colon| login.map(|login| &login[colon + 1..]));
        self.store_bytes(user_id, user);
        self.store_bytes(password_id, password);
    }

    fn set_pointer(&mut self, id: Id, pointer: CPointer) -> Result<(), CurlCode> {
        match id {
            Id::CONV_FROM_NETWORK_FUNCTION
            | Id::CONV_FROM_UTF8_FUNCTION
            | Id::CONV_TO_NETWORK_FUNCTION => return Err(CurlCode::UnknownOption),
            Id::SSL_CTX_FUNCTION if !pointer.is_null() => return Err(CurlCode::NotBuiltIn),
            Id::POSTFIELDS => {
                self.values.unset(Id::COPYPOSTFIELDS);
                self.request = RequestKind::Post;
            }
            Id::HTTPPOST => self.select(RequestKind::PostForm),
            Id::MIMEPOST => self.select(RequestKind::PostMime),
            _ => {}
        }
        match pointer.is_null() {
            true => self.values.unset(id),
            false => self.values.set(id, OptionValue::Pointer(pointer)),
        }
        Ok(())
    }

    fn choose(&mut self, number: i64, request: RequestKind) {
        match number {
            // With CURLOPT_NOBODY, it stays a request for the head.
            0 if self.is_bodiless => self.request = RequestKind::Head,
            0 => self.request = RequestKind::Get,
            _ => self.select(request),
        }
    }

    /// Selects a request whose response has a body.
    fn select(&mut self, request: RequestKind) {
        self.request = request;
        self.is_bodiless = false;
    }

    fn store_bytes(&mut self, id: Id, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.values.set(id, OptionValue::Bytes(Arc::from(bytes))),
            None => self.values.unset(id),
        }
    }
}

/// The number under the option with the finer unit or the wider type.
fn canonical(id: Id, number: i64) -> (Id, i64) {
    match id {
        Id::TIMEOUT => (Id::TIMEOUT_MS, number * 1000),
        Id::CONNECTTIMEOUT | Id::CONNECTTIMEOUT_MS => {
            let ms = if id == Id::CONNECTTIMEOUT { number * 1000 } else { number };
            (Id::CONNECTTIMEOUT_MS, if ms == 0 { CONNECT_TIMEOUT_DEFAULT_MS } else { ms })
        }
        Id::SERVER_RESPONSE_TIMEOUT => (id, number * 1000),
        Id::INFILESIZE => (Id::INFILESIZE_LARGE, number),
        Id::RESUME_FROM => (Id::RESUME_FROM_LARGE, number),
        Id::MAXFILESIZE => (Id::MAXFILESIZE_LARGE, number),
        Id::TIMEVALUE => (Id::TIMEVALUE_LARGE, number),
        Id::BUFFERSIZE => (id, if number < 1 { 16_384 } else { number.clamp(1_024, 524_288) }),
        Id::UPLOAD_BUFFERSIZE => (id, number.clamp(16_384, 2 * 1024 * 1024)),
        _ => (id, number),
    }
}

/// `CURL_HTTP_VERSION_1_0`, of `CURLOPT_HTTP_VERSION` and `CURLINFO_HTTP_VERSION`.
pub(crate) const HTTP_VERSION_1_0: i64 = 1;
/// `CURL_HTTP_VERSION_1_1`.
pub(crate) const HTTP_VERSION_1_1: i64 = 2;
/// `CURL_HTTP_VERSION_2_0`.
pub(crate) const HTTP_VERSION_2_0: i64 = 3;
/// `CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE`.
pub(crate) const HTTP_VERSION_2_PRIOR_KNOWLEDGE: i64 = 5;
/// `CURL_MAX_INPUT_LENGTH`.
pub(crate) const TEXT_SIZE_MAX: usize = 8_000_000;
const CONNECT_TIMEOUT_DEFAULT_MS: i64 = 300_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn number(options: &mut EasyOptions, id: Id, number: i64) {
        options.set(id, Argument::Number(number)).expect("accepted");
    }

    fn text<'a>(text: &'a str) -> Argument<'a> {
        Argument::Bytes(Some(text.as_bytes()))
    }

    /// The option that was set last decides, and one that is switched off selects GET.
    #[test]
    fn last_option_selects_the_request() {
        let set = |steps: &[(Id, i64)]| {
            let mut options = EasyOptions::default();
            for (id, value) in steps {
                number(&mut options, *id, *value);
            }
            (options.request, options.is_bodiless)
        };
        assert_eq!(set(&[(Id::POST, 1)]), (RequestKind::Post, false));
        assert_eq!(set(&[(Id::POST, 1), (Id::UPLOAD, 1)]), (RequestKind::Put, false));
        assert_eq!(set(&[(Id::UPLOAD, 1), (Id::HTTPGET, 1)]), (RequestKind::Get, false));
        assert_eq!(set(&[(Id::POST, 1), (Id::NOBODY, 1)]), (RequestKind::Head, true));
        assert_eq!(set(&[(Id::NOBODY, 1), (Id::NOBODY, 0)]), (RequestKind::Get, false));
        assert_eq!(set(&[(Id::NOBODY, 1), (Id::POST, 1)]), (RequestKind::Post, false));
        assert_eq!(set(&[(Id::UPLOAD, 1), (Id::NOBODY, 0)]), (RequestKind::Put, false));
        assert_eq!(set(&[(Id::POST, 1), (Id::POST, 0)]), (RequestKind::Get, false));
        assert_eq!(set(&[(Id::NOBODY, 1), (Id::UPLOAD, 0)]), (RequestKind::Head, true));
    }

    #[test]
    fn seconds_and_milliseconds_are_one_value() {
        let mut options = EasyOptions::default();
        number(&mut options, Id::TIMEOUT_MS, 1_500);
        number(&mut options, Id::TIMEOUT, 3);
        number(&mut options, Id::CONNECTTIMEOUT_MS, 0);
        assert_eq!(options.values.number(Id::TIMEOUT_MS), 3_000);
        assert_eq!(options.values.number(Id::CONNECTTIMEOUT_MS), 300_000, "the default");
    }

    #[test]
    fn copied_fields_that_are_too_short_are_dropped() {
        let mut options = EasyOptions::default();
        options.set(Id::COPYPOSTFIELDS, text("a=b")).expect("accepted");
        number(&mut options, Id::POSTFIELDSIZE, 3);
        assert!(options.values.bytes(Id::COPYPOSTFIELDS).is_some());
        number(&mut options, Id::POSTFIELDSIZE, 4);
        assert!(options.values.bytes(Id::COPYPOSTFIELDS).is_none());
        assert_eq!(options.request, RequestKind::Post);
    }

    #[test]
    fn login_is_split_at_its_first_colon() {
        let mut options = EasyOptions::default();
        let found = |options: &EasyOptions| {
            let value = |id| options.values.bytes(id).map(|text| text.escape_ascii().to_string());
            (value(Id::USERNAME), value(Id::PASSWORD))
        };
        options.set(Id::USERPWD, text("user:pass:word")).expect("accepted");
        assert_eq!(found(&options), (Some("user".into()), Some("pass:word".into())));
        options.set(Id::USERPWD, text("user")).expect("accepted");
        assert_eq!(found(&options), (Some("user".into()), None));
        options.set(Id::USERPWD, Argument::Bytes(None)).expect("accepted");
        assert_eq!(found(&options), (None, None));
    }

    #[test]
    fn bad_arguments_have_the_codes_of_libcurl() {
        let mut options = EasyOptions::default();
        let long = "y".repeat(TEXT_SIZE_MAX + 1);
        let rows = [
            (Id(1), Argument::Number(1), CurlCode::UnknownOption),
            (Id::URL, Argument::Number(1), CurlCode::BadFunctionArgument),
            (Id::URL, text(&long), CurlCode::BadFunctionArgument),
            (Id::DNS_SERVERS, text("127.0.0.1"), CurlCode::UnknownOption),
            (Id::PROTOCOLS_STR, text(""), CurlCode::BadFunctionArgument),
            (Id::PROTOCOLS_STR, text("http,gopher9"), CurlCode::UnsupportedProtocol),
            (Id::SSLENGINE, text("x"), CurlCode::SslEngineNotFound),
            (Id::TLSAUTH_TYPE, text("x"), CurlCode::BadFunctionArgument),
        ];
        for (id, argument, code) in rows {
            assert_eq!(options.set(id, argument), Err(code), "{id:?}");
        }
        options.set(Id::PROTOCOLS_STR, text("HTTP,https")).expect("accepted");
    }
}
