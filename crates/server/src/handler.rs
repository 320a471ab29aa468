//! What a program writes: who answers, and what goes on after a head.

use std::any::Any;
use std::net::SocketAddr;

use bytes::Bytes;
use fulmar_engine::End;
use fulmar_proto::{Headers, Misuse, Request};

use crate::call::Call;

/// What answers requests; every thread of a server has its own.
///
/// Any function of this form is one:
///
/// ```
/// use fulmar_proto::Request;
/// use fulmar_server::{Call, Outcome};
///
/// fn hello(call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
///     match request.target {
///         b"/" => call.text(200, "hello\n"),
///         _ => call.text(404, "nothing here\n"),
///     }
/// }
/// # fulmar_server::Calls::new(hello, std::time::Instant::now(), || std::time::UNIX_EPOCH);
/// ```
pub trait Handler: 'static {
    /// Somebody asks. It is answered with `call`: at once, or later by what it is given to
    /// ([`Call::attach`], [`Call::suspend`]). What is neither is answered 500.
    ///
    /// # Errors
    /// Passed on from `call`. If nothing has been answered the answer is 500, otherwise the
    /// connection is closed, lest half an answer look complete.
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome;

    /// A connection stands, and so does the layer below it; `info` is what the layer tells
    /// ([`fulmar_proto::Layer::info`]: of TLS its version, names and certificates). What is
    /// returned is kept for the connection: [`Call::kept`].
    fn establish(&mut self, _peer: SocketAddr, _info: Option<&dyn Any>) -> Option<Box<dyn Any>> {
        None
    }

    /// Descriptors or memory ran out when somebody wanted to connect: what can be given back makes
    /// room.
    fn exhausted(&mut self) {}
}

impl<F: FnMut(&mut Call<'_>, &Request<'_>) -> Outcome + 'static> Handler for F {
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        self(call, request)
    }
}

/// What becomes of what was asked of a [`Call`].
pub type Outcome = Result<(), Misuse>;

/// What goes on with an exchange after its head: a body that comes in, an answer that goes out
/// piece by piece, or both; after an upgrade, a tunnel.
///
/// Nothing calls it while there is nothing to do. Errors are dealt with as in
/// [`Handler::handle`].
pub trait Work: 'static {
    /// Bytes of the request's body, or of the tunnel. To have no more of them for a while:
    /// [`Call::pause`].
    ///
    /// # Errors
    /// Passed on from `call`.
    fn data(&mut self, _call: &mut Call<'_>, _bytes: Bytes) -> Outcome {
        Ok(())
    }

    /// The request is complete; of a tunnel, the client has said everything.
    ///
    /// # Errors
    /// Passed on from `call`.
    fn end(&mut self, _call: &mut Call<'_>, _trailers: Headers<'_>) -> Outcome {
        Ok(())
    }

    /// There is room to send ([`Call::room`]): told once when it is attached, then whenever there
    /// had been none; and when [`Call::wake_at`] or a [`crate::Resumer`] asked for it.
    ///
    /// # Errors
    /// Passed on from `call`.
    fn ready(&mut self, _call: &mut Call<'_>) -> Outcome {
        Ok(())
    }

    /// The client went away, or was sent away, before the exchange was over.
    fn gone(&mut self, _end: &End) {}
}
