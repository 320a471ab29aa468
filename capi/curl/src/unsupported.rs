//! Features that are not built in, and so refused.

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::option::OptionId as Id;
use crate::values::OptionValues;

/// A transfer that would silently differ from what its options demand does not begin.
pub(crate) fn refuse_unsupported(options: &EasyOptions) -> Result<(), Failure> {
    let values = &options.values;
    let has = |id| values.bytes(id).is_some_and(|text| !text.is_empty());
    refuse([(has(Id::DOH_URL), "CURLOPT_DOH_URL is not built in")])
}

/// Refuses options that require more of a server's certificate, or other keys. Programs set them
/// for all transfers, so they count only where TLS begins.
pub(crate) fn refuse_unsupported_tls(values: &OptionValues) -> Result<(), Failure> {
    refuse([
        (values.is_on(Id::SSL_VERIFYSTATUS), "CURLOPT_SSL_VERIFYSTATUS is not built in"),
        (
            is_missing(values, Id::SSLCERTTYPE),
            "only PEM and DER are built in for CURLOPT_SSLCERTTYPE",
        ),
        (is_engine(values, Id::SSLKEYTYPE), "engines are not built in for CURLOPT_SSLKEYTYPE"),
    ])
}

/// The same for the TLS of an HTTPS proxy.
pub(crate) fn refuse_unsupported_proxy_tls(values: &OptionValues) -> Result<(), Failure> {
    refuse([
        (
            is_missing(values, Id::PROXY_SSLCERTTYPE),
            "only PEM and DER are built in for CURLOPT_PROXY_SSLCERTTYPE",
        ),
        (
            is_engine(values, Id::PROXY_SSLKEYTYPE),
            "engines are not built in for CURLOPT_PROXY_SSLKEYTYPE",
        ),
    ])
}

/// PKCS#12, and the keys of engines.
fn is_missing(values: &OptionValues, id: Id) -> bool {
    is_engine(values, id) || values.bytes(id).is_some_and(|kind| kind.eq_ignore_ascii_case(b"P12"))
}

fn is_engine(values: &OptionValues, id: Id) -> bool {
    values.bytes(id).is_some_and(|kind| kind.eq_ignore_ascii_case(b"ENG"))
}

fn refuse<const COUNT: usize>(options: [(bool, &'static str); COUNT]) -> Result<(), Failure> {
    match options.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, text)) => Err(Failure::new(CurlCode::NotBuiltIn, text)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    /// The results for no TLS, for the server's, and for the proxy's.
    fn refused(id: Id, argument: Argument<'_>) -> [bool; 3] {
        let mut options = EasyOptions::default();
        options.set(id, argument).expect("a valid option");
        let results = [
            refuse_unsupported(&options),
            refuse_unsupported_tls(&options.values),
            refuse_unsupported_proxy_tls(&options.values),
        ];
        results.map(|result| {
            result.is_err_and(|failure| {
                assert_eq!(failure.code, CurlCode::NotBuiltIn, "{id:?}");
                true
            })
        })
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let text = |text: &'static str| Argument::Bytes(Some(text.as_bytes()));
        for (id, argument, expected) in [
            (Id::DOH_URL, text("https://a.test/"), [true, false, false]),
            (Id::ISSUERCERT, text("ca.pem"), [false; 3]),
            (Id::SSL_VERIFYSTATUS, Argument::Number(1), [false, true, false]),
            (Id::SSLCERTTYPE, text("P12"), [false, true, false]),
            (Id::PROXY_SSLCERTTYPE, text("eng"), [false, false, true]),
            (Id::PROXY_SSLKEYTYPE, text("ENG"), [false, false, true]),
            (Id::SSLCERTTYPE, text("pem"), [false; 3]),
            (Id::PROXY_SSLCERTTYPE, text("der"), [false; 3]),
        ] {
            assert_eq!(refused(id, argument), expected, "{id:?}");
        }
    }
}
