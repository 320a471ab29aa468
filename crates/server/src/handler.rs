//! What a program writes: who answers, and what goes on after a head.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use fulmar_engine::End;
use fulmar_proto::{Headers, Request, UsageError};

use crate::panics::Panic;
use crate::responder::Responder;

/// What answers requests; every thread of a server has its own.
///
/// Any function of this form is one:
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
    /// Somebody asks. It is answered with `responder`: at once, or later by what it is given to
    /// ([`Responder::attach`], [`Responder::suspend`]). What is neither is answered 500.
    ///
    /// # Errors
    /// Passed on from `responder`. If nothing has been answered the answer is 500, otherwise the
    /// connection is closed, lest half an answer look complete. Observers receive the cause
    /// ([`crate::Observer::handler_failed`]).
    ///
    /// # Panics
    /// A panic has the same consequences, for this request only. A body handler attached to the request is
    /// dropped and not called again. The handler is called for other requests as before, so state
    /// that they share must be consistent wherever it can panic.
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult;

    /// A connection stands, and so does the layer below it; `info` is what the layer tells
    /// ([`fulmar_proto::Layer::info`]: of TLS its version, names and certificates). What is
    /// returned is kept for the connection: [`Responder::connection_data`]. A panic closes the connection.
    fn establish(&mut self, _peer: SocketAddr, _info: Option<&dyn Any>) -> Option<Box<dyn Any>> {
        None
    }

    /// Descriptors or memory ran out when somebody wanted to connect: what can be given back makes
    /// room.
    fn exhausted(&mut self) {}
}

impl<F: FnMut(&mut Responder<'_>, &Request<'_>) -> HandlerResult + 'static> Handler for F {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        self(responder, request)
    }
}

/// What becomes of what was asked of a [`Responder`].
pub type HandlerResult = Result<(), UsageError>;

/// Why code of the application failed. The client received 500, or the connection was closed if a
/// response had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerError {
    /// The handler returned an error of [`Responder`]: it was used against its contract.
    Usage(UsageError),
    /// The handler returned without a response, and left no work that could send one.
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

/// What goes on with an exchange after its head: a body that comes in, an answer that goes out
/// piece by piece, or both; after an upgrade, a tunnel.
///
/// Nothing calls it while there is nothing to do. Errors and panics are dealt with as in
/// [`Handler::handle`].
pub trait BodyHandler: 'static {
    /// Bytes of the request's body, or of the tunnel. To have no more of them for a while:
    /// [`Responder::pause`].
    ///
    /// # Errors
    /// Passed on from `responder`.
    fn data(&mut self, _responder: &mut Responder<'_>, _bytes: Bytes) -> HandlerResult {
        Ok(())
    }

    /// The request is complete; of a tunnel, the client has said everything.
    ///
    /// # Errors
    /// Passed on from `responder`.
    fn end(&mut self, _responder: &mut Responder<'_>, _trailers: Headers<'_>) -> HandlerResult {
        Ok(())
    }

    /// There is room to send ([`Responder::room`]): told once when it is attached, then whenever there
    /// had been none; and when [`Responder::wake_at`] or a [`crate::Resumer`] asked for it.
    ///
    /// # Errors
    /// Passed on from `responder`.
    fn ready(&mut self, _responder: &mut Responder<'_>) -> HandlerResult {
        Ok(())
    }

    /// The client went away, or was sent away, before the exchange was over.
    fn gone(&mut self, _end: &End) {}
}
