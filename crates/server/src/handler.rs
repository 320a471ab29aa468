//! The traits of an application: a handler for requests, and a body handler for what follows a
//! head.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use fulmar_engine::End;
use fulmar_proto::{Headers, Request, UsageError};

use crate::panics::Panic;
use crate::responder::Responder;

/// Responds to requests. Each thread of a server has its own.
///
/// A function of this form is a handler:
///
/// ```
/// use fulmar_proto::Request;
/// use fulmar_server::{HandlerResult, Responder};
///
/// fn hello(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
///     match request.target {
///         b"/" => responder.text(200, "hello\n"),
///         _ => responder.text(404, "nothing here\n"),
///     }
/// }
/// # fulmar_server::HandlerApp::new(hello, std::time::Instant::now(), || std::time::UNIX_EPOCH);
/// ```
pub trait Handler: 'static {
    /// A request's head arrived. The handler responds through `responder`: at once, or later from
    /// what it attaches ([`Responder::attach`], [`Responder::suspend`]). If it does neither, the
    /// response is 500.
    ///
    /// # Errors
    /// Those of `responder`. If no response has begun, the response is 500. Otherwise the
    /// connection is closed (HTTP/1) or the stream is reset (HTTP/2), so that an incomplete
    /// response does not look complete. Observers receive the cause
    /// ([`crate::Observer::handler_failed`]).
    ///
    /// # Panics
    /// A panic has the same consequences, for this request only. A body handler attached to the
    /// request is dropped and not called again. The handler is called for other requests as before,
    /// so state that they share must be consistent wherever it can panic.
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult;

    /// A connection and the layer below it are established. `info` is
    /// [`fulmar_proto::Layer::info`]: for TLS its version, names and certificates. The returned
    /// value is the connection's: [`Responder::connection_data`]. A panic closes the connection.
    fn establish(&mut self, _peer: SocketAddr, _info: Option<&dyn Any>) -> Option<Box<dyn Any>> {
        None
    }

    /// An accept failed for lack of descriptors or memory. The handler can free some.
    fn exhausted(&mut self) {}
}

impl<F: FnMut(&mut Responder<'_>, &Request<'_>) -> HandlerResult + 'static> Handler for F {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        self(responder, request)
    }
}

/// The result of using a [`Responder`].
pub type HandlerResult = Result<(), UsageError>;

/// Why code of the application failed. The client received 500. If a response had begun, the
/// connection was closed (HTTP/1) or the stream was reset (HTTP/2).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler returned an error of [`Responder`]: it broke the contract.
    Usage(UsageError),
    /// The handler returned without a response, and attached nothing that could send one.
    NoResponse,
    /// A [`crate::Suspended`] was dropped without a response.
    SuspendedDropped,
    /// It panicked.
    Panic(Panic),
}

impl HandlerError {
    /// The panic, if it was one.
    pub fn panic(&self) -> Option<&Panic> {
        match self {
            Self::Panic(panic) => Some(panic),
            Self::Usage(_) | Self::NoResponse | Self::SuspendedDropped => None,
        }
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => write!(f, "misuse: {error}"),
            Self::NoResponse => f.write_str("the handler returned without a response"),
            Self::SuspendedDropped => {
                f.write_str("a suspended request was dropped without a response")
            }
            Self::Panic(panic) => panic.fmt(f),
        }
    }
}

impl std::error::Error for HandlerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Usage(error) => Some(error),
            Self::NoResponse | Self::SuspendedDropped | Self::Panic(_) => None,
        }
    }
}

impl From<UsageError> for HandlerError {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}

/// Continues an exchange after its head: receives a request's body, sends a response's, or both;
/// after an upgrade, a tunnel.
///
/// It is called only when there is something to do. Errors and panics are handled as in
/// [`Handler::handle`].
///
/// ```
/// use bytes::Bytes;
/// use fulmar_proto::{Headers, Request};
/// use fulmar_server::{BodyHandler, HandlerResult, Responder};
///
/// /// Counts the bytes of a body of any length.
/// struct Count(u64);
///
/// impl BodyHandler for Count {
///     fn data(&mut self, _: &mut Responder<'_>, bytes: Bytes) -> HandlerResult {
///         self.0 += bytes.len() as u64;
///         Ok(())
///     }
///
///     fn end(&mut self, responder: &mut Responder<'_>, _: Headers<'_>) -> HandlerResult {
///         responder.text(200, format!("{} bytes\n", self.0))
///     }
/// }
///
/// fn count(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
///     responder.attach(Count(0))
/// }
/// # fulmar_server::HandlerApp::new(count, std::time::Instant::now(), || std::time::UNIX_EPOCH);
/// ```
pub trait BodyHandler: 'static {
    /// Bytes of the request's body, or of the tunnel. [`Responder::pause`] stops them.
    ///
    /// # Errors
    /// Those of `responder`.
    fn data(&mut self, _responder: &mut Responder<'_>, _bytes: Bytes) -> HandlerResult {
        Ok(())
    }

    /// The request is complete. In a tunnel, the client has closed its direction.
    ///
    /// # Errors
    /// Those of `responder`.
    fn end(&mut self, _responder: &mut Responder<'_>, _trailers: Headers<'_>) -> HandlerResult {
        Ok(())
    }

    /// There is room to send ([`Responder::room`]). Called once after it is attached, then whenever
    /// room becomes free, and after [`Responder::wake_at`] or a [`crate::Resumer`].
    ///
    /// # Errors
    /// Those of `responder`.
    fn ready(&mut self, _responder: &mut Responder<'_>) -> HandlerResult {
        Ok(())
    }

    /// The connection closed, or the stream was reset ([`End::Reset`]), before the exchange was
    /// over.
    fn gone(&mut self, _end: &End) {}
}
