//! Why a transfer failed: the code, and the text for `CURLOPT_ERRORBUFFER` and verbose output.

use std::borrow::Cow;
use std::net::IpAddr;

use fulmar_client::{BuildError, ConnectError, Error, Waiting};
use fulmar_proto::PeerError;
use fulmar_proto::h1::LIBCURL_HEADS_SIZE_MAX;
use fulmar_tls::TlsError;

use crate::code::CurlCode;
use crate::hop_response::HopResponse;
use crate::refused_socket::RefusedSocket;
use crate::socks_failure::{socks_failure, socks_unresolved};
use crate::tls_failure::tls_failure;

/// A code with its text. Without a text, that of the code is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: CurlCode,
    pub(crate) text: Cow<'static, str>,
}

/// Names for the texts of failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureContext<'a> {
    pub(crate) host: &'a str,
    /// The host that a SOCKS proxy connects to.
    pub(crate) target: &'a str,
    /// The host whose certificate is verified.
    pub(crate) tls_host: &'a str,
    pub(crate) port: u16,
    /// They are those of a proxy.
    pub(crate) is_proxied: bool,
    /// The version of the SOCKS proxy, if there is one.
    pub(crate) socks: Option<u8>,
    /// The transfer had a connection, with its TLS.
    pub(crate) has_connection: bool,
    pub(crate) elapsed_ms: u128,
    /// Bytes of heads that have arrived.
    pub(crate) heads: i64,
    /// Body bytes that have arrived.
    pub(crate) received: u64,
    pub(crate) response: &'a HopResponse,
}

impl Failure {
    pub(crate) fn new(code: CurlCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// The client accepts no such request. libcurl passes any host to the resolver, which finds
    /// none, and any port to the kernel.
    pub(crate) fn of_build(error: &BuildError, (host, port): (&str, u16)) -> Self {
        match error {
            BuildError::Url(_) if port == 0 && host.parse::<IpAddr>().is_ok() => {
                let text =
                    format!("Failed to connect to {host} port 0: Couldn't connect to server");
                Self::new(CurlCode::CouldntConnect, text)
            }
            BuildError::Url(_) => {
                Self::new(CurlCode::CouldntResolveHost, format!("Could not resolve host: {host}"))
            }
            error => Self::new(CurlCode::FailedInit, error.to_string()),
        }
    }

    /// The heads of responses have more bytes than are accepted.
    pub(crate) fn of_large_heads(size: i64, max: i64) -> Self {
        let text = format!("Too large response headers: {size} > {max}");
        Self::new(CurlCode::RecvError, text)
    }

    /// A proxy has closed instead of opening a tunnel.
    pub(crate) fn of_connect() -> Self {
        Self::new(CurlCode::RecvError, "Proxy CONNECT aborted")
    }

    /// `CURLOPT_TIMEOUT` has passed while a body was received.
    pub(crate) fn timed_out(elapsed_ms: u128, received: u64, len: Option<u64>) -> Self {
        let of = len.map(|len| format!(" out of {len}")).unwrap_or_default();
        Self::new(
            CurlCode::OperationTimedOut,
            format!(
                "Operation timed out after {elapsed_ms} milliseconds with {received}{of} bytes \
                 received"
            ),
        )
    }

    /// The failure of an exchange.
    pub(crate) fn of(error: &Error, context: FailureContext<'_>) -> Self {
        let FailureContext { host, .. } = context;
        match error {
            Error::Resolve(_) if let Some(version) = context.socks => {
                Self::new(CurlCode::Proxy, socks_unresolved(version, context.target))
            }
            Error::Resolve(_) if context.is_proxied => {
                Self::new(CurlCode::CouldntResolveProxy, format!("Could not resolve proxy: {host}"))
            }
            Error::Resolve(_) => {
                Self::new(CurlCode::CouldntResolveHost, format!("Could not resolve host: {host}"))
            }
            Error::ResolveProxy(proxy) => Self::new(
                CurlCode::CouldntResolveProxy,
                format!("Could not resolve proxy: {}", proxy.host),
            ),
            Error::Connect(error) => {
                let refused = refusal(error);
                let code = refused.map_or(CurlCode::CouldntConnect, |refused| refused.code);
                match refused.and_then(|refused| refused.text.clone()) {
                    Some(text) => Self::new(code, text),
                    None => unconnected(code, context),
                }
            }
            Error::Layer(error) => match error.downcast_ref::<TlsError>() {
                // libcurl takes it for an end of the connection as any other.
                Some(TlsError::Truncated) => malformed(PeerError::UnexpectedEof, context),
                Some(error) => {
                    let (code, text, _) = tls_failure(error, context.tls_host);
                    Self::new(code, text)
                }
                None => match socks_failure(&**error, context.target) {
                    Some((text, _)) => Self::new(CurlCode::Proxy, text),
                    None => Self::new(CurlCode::Proxy, error.to_string()),
                },
            },
            Error::Proxy(_) => Self::new(CurlCode::Proxy, error.to_string()),
            Error::Closed => Self::new(CurlCode::GotNothing, "Empty reply from server"),
            Error::Peer(error) => malformed(*error, context),
            Error::Reset(code) => Self::new(
                CurlCode::Http2Stream,
                format!("HTTP/2 stream was not closed cleanly: {code}"),
            ),
            // Only TLS exchanges bytes before there is a connection, or SOCKS.
            Error::Io(error) if !context.has_connection && context.socks.is_none() => {
                let (host, reason) = (context.tls_host, reason(error));
                let text = format!(
                    "OpenSSL SSL_connect: {reason} in connection to {host}:{} ",
                    context.port
                );
                Self::new(CurlCode::SslConnectError, text)
            }
            Error::Io(error) => {
                Self::new(CurlCode::RecvError, format!("Recv failure: {}", reason(error)))
            }
            Error::TimedOut(waiting) => timed_out(*waiting, context),
            Error::TooSlow => Self::new(CurlCode::OperationTimedOut, "Operation too slow"),
            Error::TooLarge => Self::new(CurlCode::FileSizeExceeded, "Maximum file size exceeded"),
            Error::NotReplayable => {
                Self::new(CurlCode::SendFailRewind, "necessary data rewind wasn't possible")
            }
            Error::Coding(error) => Self::new(CurlCode::BadContentEncoding, error.to_string()),
            Error::Write(error) => Self::new(CurlCode::WriteError, error.to_string()),
            error => Self::new(CurlCode::RecvError, error.to_string()),
        }
    }
}

/// The server has broken the protocol.
fn malformed(error: PeerError, context: FailureContext<'_>) -> Failure {
    let FailureContext { received, response, heads, .. } = context;
    match error {
        PeerError::UnexpectedEof if !response.has_head => {
            Failure::new(CurlCode::GotNothing, "Empty reply from server")
        }
        PeerError::UnexpectedEof => Failure::new(
            CurlCode::PartialFile,
            match response.content_length {
                Some(len) => format!(
                    "transfer closed with {} bytes remaining to read",
                    len.saturating_sub(received)
                ),
                None => "transfer closed with outstanding read data remaining".into(),
            },
        ),
        // Frames of HTTP/2 and records of TLS have no status line either.
        PeerError::BadStartLine | PeerError::OnlyHttp2 | PeerError::OnlyTls => {
            Failure::new(CurlCode::UnsupportedProtocol, "Received HTTP/0.9 when not allowed")
        }
        PeerError::BadVersion => Failure::new(
            CurlCode::UnsupportedProtocol,
            match response.malformed.as_deref().and_then(version_of) {
                Some(version) => format!("Unsupported HTTP version ({version}) in response"),
                None => "Unsupported HTTP version in response".into(),
            },
        ),
        PeerError::BadStatus => Failure::new(
            CurlCode::UnsupportedProtocol,
            "Unsupported response code in HTTP response",
        ),
        PeerError::NulInHead => Failure::new(CurlCode::WeirdServerReply, "Nul byte in header"),
        PeerError::MissingColon => Failure::new(CurlCode::WeirdServerReply, "Header without colon"),
        PeerError::BadLength => {
            Failure::new(CurlCode::WeirdServerReply, "Invalid Content-Length: value")
        }
        PeerError::LineTooLong => Failure::new(CurlCode::OutOfMemory, ""),
        PeerError::BadField => Failure::new(CurlCode::BadFunctionArgument, ""),
        PeerError::BadTrailer => Failure::new(CurlCode::BadFunctionArgument, UNREAD_CHUNKS),
        PeerError::BadChunk => broken_chunk("Malformed encoding found"),
        PeerError::MissingChunkSize => broken_chunk("Illegal or missing hexadecimal sequence"),
        PeerError::LongChunkSize => broken_chunk("Too long hexadecimal number"),
        PeerError::HeadTooLarge => Failure::of_large_heads(heads, LIBCURL_HEADS_SIZE_MAX.into()),
        PeerError::Http2Stream(code) => {
            let text = format!("HTTP/2 stream was not closed cleanly: {code}");
            Failure::new(CurlCode::Http2Stream, text)
        }
        PeerError::Http2(code) => Failure::new(CurlCode::Http2, code.to_string()),
        error => Failure::new(CurlCode::RecvError, error.to_string()),
    }
}

fn broken_chunk(text: &str) -> Failure {
    Failure::new(CurlCode::RecvError, format!("{text} in chunked-encoding"))
}

/// The version of a status line, in the form `major.minor`, if it has one digit for each.
fn version_of(line: &[u8]) -> Option<String> {
    match line.get(5..)? {
        [major, b'.', minor, b' ', ..] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Some(format!("{}.{}", char::from(*major), char::from(*minor)))
        }
        [major, b' ', ..] if major.is_ascii_digit() && *major != b'1' => {
            Some(format!("{}.0", char::from(*major)))
        }
        _ => None,
    }
}

fn timed_out(waiting: Waiting, context: FailureContext<'_>) -> Failure {
    let FailureContext { elapsed_ms, received, response, .. } = context;
    let text = match waiting {
        Waiting::Name | Waiting::ProxyName => {
            format!("Resolving timed out after {elapsed_ms} milliseconds")
        }
        // The limit of `CURLOPT_CONNECTTIMEOUT` is that of the attempts to connect.
        Waiting::Queue | Waiting::Connect => {
            return unconnected(CurlCode::OperationTimedOut, context);
        }
        Waiting::Handshake => format!("Connection timed out after {elapsed_ms} milliseconds"),
        Waiting::Total if !context.has_connection => {
            format!("Connection timed out after {elapsed_ms} milliseconds")
        }
        _ => return Failure::timed_out(elapsed_ms, received, response.content_length),
    };
    Failure::new(CurlCode::OperationTimedOut, text)
}

/// There is no connection.
fn unconnected(code: CurlCode, context: FailureContext<'_>) -> Failure {
    let FailureContext { host, port, elapsed_ms, .. } = context;
    let reason = code.text();
    let text = format!("Failed to connect to {host} port {port} after {elapsed_ms} ms: {reason}");
    Failure::new(code, text)
}

/// Why the last socket of a failed connect was not used, if it was refused here.
fn refusal(error: &ConnectError) -> Option<&RefusedSocket> {
    let (_, error) = error.tried.last()?;
    error.get_ref()?.downcast_ref::<RefusedSocket>()
}

/// The text of an error of the system, without the number that Rust adds.
pub(crate) fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The text of failures to deliver what chunks or trailers contain.
pub(crate) const UNREAD_CHUNKS: &str = "Failed reading the chunked-encoded stream";

#[cfg(test)]
mod tests {
    use fulmar_client::{CompiledOrigin, Options};

    use super::*;

    /// Recorded from libcurl.
    #[test]
    fn a_host_that_the_client_refuses_has_no_address() {
        let error = CompiledOrigin::new("http://1.2.3.4.5/", Options::default());
        let error = error.expect_err("it is no address");
        let code = |peer| Failure::of_build(&error, peer).code;
        assert_eq!(code(("1.2.3.4.5", 80)), CurlCode::CouldntResolveHost);
        assert_eq!(code(("127.0.0.1", 0)), CurlCode::CouldntConnect);
    }

    /// Recorded from libcurl, but for the body without a length.
    #[test]
    fn tls_that_ends_without_close_notify_ends_as_any_connection() {
        let failure = |has_head, content_length| {
            let response = HopResponse { has_head, content_length, ..HopResponse::default() };
            let context = FailureContext {
                host: "h",
                target: "h",
                tls_host: "h",
                port: 443,
                is_proxied: false,
                socks: None,
                has_connection: true,
                elapsed_ms: 0,
                heads: 0,
                received: 3,
                response: &response,
            };
            let Failure { code, text } =
                Failure::of(&Error::Layer(TlsError::Truncated.into()), context);
            (code, text.into_owned())
        };
        let partial = |text: &str| (CurlCode::PartialFile, text.to_owned());
        assert_eq!(failure(false, None), (CurlCode::GotNothing, "Empty reply from server".into()));
        let left = "transfer closed with 7 bytes remaining to read";
        assert_eq!(failure(true, Some(10)), partial(left));
        let left = "transfer closed with outstanding read data remaining";
        assert_eq!(failure(true, None), partial(left));
    }
}
