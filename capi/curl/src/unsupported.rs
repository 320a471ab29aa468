//! Features that are not built in, and so refused.

use crate::code::CurlCode;
use crate::easy_options::EasyOptions;
use crate::failure::Failure;
use crate::option::OptionId as Id;

/// A transfer that would silently differ from what its options demand does not begin.
pub(crate) fn refuse_unsupported(options: &EasyOptions) -> Result<(), Failure> {
    let values = &options.values;
    let has = |id| values.bytes(id).is_some_and(|text| !text.is_empty());
    // PKCS#12, and the keys of engines.
    let is_missing = |id| {
        let is = |kind: &[u8], known: &str| kind.eq_ignore_ascii_case(known.as_bytes());
        values.bytes(id).is_some_and(|kind| is(kind, "P12") || is(kind, "ENG"))
    };
    let is_engine = |id| values.bytes(id).is_some_and(|kind| kind.eq_ignore_ascii_case(b"ENG"));
    let refused = [
        // They demand more of a server's certificate, or other connections.
        (values.is_on(Id::SSL_VERIFYSTATUS), "CURLOPT_SSL_VERIFYSTATUS is not built in"),
        (is_missing(Id::SSLCERTTYPE), "only PEM and DER are built in for CURLOPT_SSLCERTTYPE"),
        (is_engine(Id::SSLKEYTYPE), "engines are not built in for CURLOPT_SSLKEYTYPE"),
        (
            is_missing(Id::PROXY_SSLCERTTYPE),
            "only PEM and DER are built in for CURLOPT_PROXY_SSLCERTTYPE",
        ),
        (is_engine(Id::PROXY_SSLKEYTYPE), "engines are not built in for CURLOPT_PROXY_SSLKEYTYPE"),
        (has(Id::DOH_URL), "CURLOPT_DOH_URL is not built in"),
    ];
    match refused.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, text)) => Err(Failure::new(CurlCode::NotBuiltIn, text)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::easy_options::Argument;

    #[test]
    fn what_would_be_ignored_is_refused() {
        let refused = |id, argument| {
            let mut options = EasyOptions::default();
            options.set(id, argument).expect("a valid option");
            refuse_unsupported(&options).map_err(|failure| failure.code)
        };
        let text = |text: &'static str| Argument::Bytes(Some(text.as_bytes()));
        for (id, argument) in [
            (Id::SSLCERTTYPE, text("P12")),
            (Id::PROXY_SSLKEYTYPE, text("ENG")),
            (Id::DOH_URL, text("https://a.test/")),
        ] {
            assert_eq!(refused(id, argument), Err(CurlCode::NotBuiltIn), "{id:?}");
        }
        assert_eq!(refused(Id::SSLCERTTYPE, text("pem")), Ok(()));
        assert_eq!(refused(Id::PROXY_SSLCERTTYPE, text("der")), Ok(()));
    }
}
