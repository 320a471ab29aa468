//! Why a SOCKS proxy opened no tunnel, in the words of libcurl.

use fulmar_client::{Socks4Error, Socks5Error};

/// The text for the error of a layer, if it is one of SOCKS, with `CURLINFO_PROXY_ERROR`.
pub(crate) fn socks_failure(
    error: &(dyn std::error::Error + Send + Sync + 'static),
    host: &str,
) -> Option<(String, i64)> {
    let (text, number) = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(error), _) => of_socks4(error),
        (None, Some(error)) => of_socks5(error, host),
        (None, None) => return None,
    };
    Some((text, number))
}

/// The client cannot resolve the host that a proxy of this version gets as an address.
pub(crate) fn socks_unresolved(version: u8, host: &str) -> String {
    format!("Failed to resolve \"{host}\" for SOCKS{version} connect.")
}

/// `CURLPX_RESOLVE_HOST`.
pub(crate) const RESOLVE_HOST: i64 = 27;

fn of_socks4(error: &Socks4Error) -> (String, i64) {
    let text = |text: &str| text.to_owned();
    match error {
        Socks4Error::BadVersion(_) => {
            (text("SOCKS4 reply has wrong version, version should be 0."), 2)
        }
        Socks4Error::Refused { code, address, port } => {
            let (reason, number) = match code {
                91 => ("request rejected or failed", 26),
                92 => {
                    let reason = "request rejected because SOCKS server cannot connect to identd \
                                  on the client";
                    (reason, 7)
                }
                93 => {
                    let reason = "request rejected because the client program and identd report \
                                  different user-ids";
                    (reason, 8)
                }
                _ => ("Unknown", 31),
            };
            let text = format!(
                "Can't complete SOCKS4 connection to {address}:{port}. ({code}), {reason}."
            );
            (text, number)
        }
        _ => (text("connection to proxy closed"), 3),
    }
}

fn of_socks5(error: &Socks5Error, host: &str) -> (String, i64) {
    let text = |text: &str| text.to_owned();
    let refused = |code: u8, number: i64| {
        (format!("Can't complete SOCKS5 connection to {host}. ({code})"), number)
    };
    match error {
        Socks5Error::BadVersion(_) => {
            (text("Received invalid version in initial SOCKS5 response."), 2)
        }
        Socks5Error::NoMethod => (text("No authentication method was acceptable."), 12),
        Socks5Error::MethodNotOffered(_) => (text("Unknown SOCKS5 mode received"), 32),
        Socks5Error::LoginRefused(status) => {
            (format!("User was rejected by the SOCKS5 server (1 {status})."), 33)
        }
        Socks5Error::GeneralFailure => refused(1, 20),
        Socks5Error::NotAllowed => refused(2, 23),
        Socks5Error::NetworkUnreachable => refused(3, 22),
        Socks5Error::HostUnreachable => refused(4, 21),
        Socks5Error::ConnectionRefused => refused(5, 19),
        Socks5Error::TtlExpired => refused(6, 24),
        Socks5Error::CommandNotSupported => refused(7, 18),
        Socks5Error::AddressTypeNotSupported => refused(8, 17),
        Socks5Error::UnknownReply(code) => refused(*code, 25),
        Socks5Error::BadAddressType(_) => (text("SOCKS5 reply has wrong address type."), 1),
        _ => (text("connection to proxy closed"), 3),
    }
}
