//! Verbose output about TLS: what is offered, what was negotiated, and the server's certificate.
//!
//! The messages of a handshake, which OpenSSL reports, are not printed.

use fulmar_client::NegotiatedTls;
use fulmar_tls::Version;

use crate::certificates::certificate_facts;
use crate::cipher_list::openssl_name;
use crate::easy_options::HTTP_VERSION_1_0;
use crate::handles::EasyState;
use crate::option::OptionId as Id;
use crate::system_roots::{SYSTEM_ROOTS, SYSTEM_ROOTS_FOLDER};

/// Before the handshake.
pub(crate) fn handshake_texts(state: &EasyState) -> Vec<String> {
    let mut texts = Vec::new();
    let Some(transfer) = &state.transfer else { return texts };
    let is_proxy = transfer.secures_proxy();
    if !is_proxy && !transfer.target.is_secure {
        return texts;
    }
    let values = &state.options.values;
    if values.is_on(Id::SSL_ENABLE_ALPN) {
        let offered = match values.number(Id::HTTP_VERSION) {
            _ if is_proxy || transfer.target.is_websocket => "http/1.1",
            HTTP_VERSION_1_0 => "http/1.0",
            2 => "http/1.1",
            _ => "h2,http/1.1",
        };
        texts.push(format!("ALPN: offers {offered}"));
    }
    let [verify, file, directory, blob] = match is_proxy {
        true => {
            [Id::PROXY_SSL_VERIFYPEER, Id::PROXY_CAINFO, Id::PROXY_CAPATH, Id::PROXY_CAINFO_BLOB]
        }
        false => [Id::SSL_VERIFYPEER, Id::CAINFO, Id::CAPATH, Id::CAINFO_BLOB],
    };
    if values.is_on(verify) {
        let text = |id| values.bytes(id).map(|it| String::from_utf8_lossy(it).into_owned());
        let has_blob = values.bytes(blob).is_some();
        if has_blob {
            texts.push("successfully imported CA certificate blob".to_owned());
        }
        let default = if has_blob { "none" } else { SYSTEM_ROOTS };
        let file = text(file).unwrap_or_else(|| default.to_owned());
        let directory = text(directory).unwrap_or_else(|| SYSTEM_ROOTS_FOLDER.to_owned());
        texts.push(format!(" CAfile: {file}"));
        texts.push(format!(" CApath: {directory}"));
    }
    texts
}

/// After the handshake.
pub(crate) fn negotiated_texts(state: &EasyState, tls: &NegotiatedTls) -> Vec<String> {
    let mut texts = Vec::new();
    let Some(transfer) = &state.transfer else { return texts };
    let is_proxy = transfer.secures_proxy();
    if tls.resumed {
        texts.push("SSL re-using session ID".to_owned());
    }
    let version = match tls.version {
        Version::Tls13 => "TLSv1.3",
        Version::Tls12 => "TLSv1.2",
    };
    texts.push(format!("SSL connection using {version} / {}", openssl_name(tls.cipher)));
    let values = &state.options.values;
    if values.is_on(Id::SSL_ENABLE_ALPN) {
        texts.push(match &tls.alpn {
            Some(name) => format!("ALPN: server accepted {}", String::from_utf8_lossy(name)),
            None => "ALPN: server did not agree on a protocol. Uses default.".to_owned(),
        });
    }
    let Some(certificate) = tls.certificate.as_deref().and_then(certificate_facts) else {
        return texts;
    };
    texts.push(format!("{} certificate:", if is_proxy { "Proxy" } else { "Server" }));
    texts.push(format!(" subject: {}", certificate.subject));
    texts.push(format!(" start date: {}", certificate.start));
    texts.push(format!(" expire date: {}", certificate.end));
    let [verify_host, verify_peer] = match is_proxy {
        true => [Id::PROXY_SSL_VERIFYHOST, Id::PROXY_SSL_VERIFYPEER],
        false => [Id::SSL_VERIFYHOST, Id::SSL_VERIFYPEER],
    };
    let host = transfer.tls_host();
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    if values.is_on(verify_host) {
        texts.extend(match_text(host, &certificate.names));
    }
    texts.push(format!(" issuer: {}", certificate.issuer));
    match values.is_on(verify_peer) {
        true => texts.push(" SSL certificate verify ok.".to_owned()),
        false if certificate.issuer == certificate.subject => texts.push(
            " SSL certificate verify result: self-signed certificate (18), continuing anyway."
                .to_owned(),
        ),
        false => {} // it is not known
    }
    texts
}

/// The protocol on a new connection.
pub(crate) fn protocol_text(tls: &NegotiatedTls) -> &'static str {
    match tls.alpn.as_deref() {
        Some(b"h2") => "using HTTP/2",
        Some(b"http/1.1") => "using HTTP/1.1",
        _ => "using HTTP/1.x",
    }
}

/// The name that a certificate was accepted for.
fn match_text(host: &str, names: &[String]) -> Option<String> {
    if host.parse::<std::net::IpAddr>().is_ok() {
        return Some(format!(" subjectAltName: host \"{host}\" matched cert's IP address!"));
    }
    let matches = |name: &&String| {
        name.eq_ignore_ascii_case(host)
            || name.strip_prefix("*.").is_some_and(|parent| {
                host.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent))
            })
    };
    let name = names.iter().find(matches)?;
    Some(format!(" subjectAltName: host \"{host}\" matched cert's \"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from libcurl.
    #[test]
    fn the_matching_name_is_printed() {
        let names = ["a.example".to_owned(), "*.b.example".to_owned()];
        let text = |host| match_text(host, &names);
        let expected = " subjectAltName: host \"x.b.example\" matched cert's \"*.b.example\"";
        assert_eq!(text("x.b.example").as_deref(), Some(expected));
        assert_eq!(text("b.example"), None);
        let expected = " subjectAltName: host \"127.0.0.1\" matched cert's IP address!";
        assert_eq!(text("127.0.0.1").as_deref(), Some(expected));
    }
}
