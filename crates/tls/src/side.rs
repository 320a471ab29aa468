//! Which end of TLS: rustls has a type for each, and no trait for what they share.

use std::fmt;

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;

use crate::certificates::{self, Hello};
use crate::error::TlsError;

/// An end of TLS, as rustls keeps it.
pub trait Side: Send + Sized + 'static {
    /// What rustls knows about this end only.
    type Data;

    /// Processes records; see rustls.
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> Status<'c, 'i, Self>;

    /// What both ends have.
    fn common(&self) -> &CommonState;

    /// Takes what a step of the handshake has told besides.
    ///
    /// # Errors
    /// It says better than rustls why the handshake failed.
    fn hear(&mut self) -> Result<(), TlsError> {
        Ok(())
    }

    /// How much of an unfinished handshake message is kept for the peer.
    fn unread_max(&self) -> usize {
        usize::MAX // rustls has a limit for every message
    }

    /// The name that the client has asked for, on a server.
    fn server_name(&self) -> Option<&str> {
        None
    }
}

/// What came of it.
pub type Status<'c, 'i, S> = UnbufferedStatus<'c, 'i, <S as Side>::Data>;

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> Status<'c, 'i, Self> {
        self.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// A server's end: rustls's, and what its client has said first.
pub struct ServerEnd {
    tls: UnbufferedServerConnection,
    hello: Hello,
}

impl ServerEnd {
    pub(crate) fn new(tls: UnbufferedServerConnection) -> Self {
        Self { tls, hello: Hello::Awaited }
    }
}

impl Side for ServerEnd {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> Status<'c, 'i, Self> {
        self.tls.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        &self.tls
    }

    fn hear(&mut self) -> Result<(), TlsError> {
        match certificates::take_heard() {
            Hello::Awaited => Ok(()),
            Hello::Refused(name) => Err(TlsError::UnknownName(name.map(String::from))),
            heard @ Hello::Heard(_) => {
                self.hello = heard;
                Ok(())
            }
        }
    }

    fn unread_max(&self) -> usize {
        match self.hello {
            Hello::Awaited => HELLO_SIZE_MAX,
            _ => usize::MAX,
        }
    }

    fn server_name(&self) -> Option<&str> {
        match &self.hello {
            Hello::Heard(name) => name.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Debug for ServerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerEnd").field("hello", &self.hello).finish_non_exhaustive()
    }
}

/// The largest hellos that clients send have 2 KB, with a key for post-quantum exchange; each
/// connection of somebody who sends one without an end costs so much until the deadline.
const HELLO_SIZE_MAX: usize = 16 * 1024;
