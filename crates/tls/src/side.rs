//! The two sides of TLS. rustls has one type for each side, but no trait for the common functions.

use std::fmt;

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;

use crate::certificates::{self, ReceivedHello};
use crate::error::TlsError;

/// One side of TLS, implemented by rustls.
pub trait TlsSide: Send + Sized + 'static {
    /// Data that rustls has for this side only.
    type Data;

    /// Processes records (see rustls).
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> ProcessStatus<'c, 'i, Self>;

    /// State that both sides have.
    fn common(&self) -> &CommonState;

    /// Called after each step of the handshake.
    ///
    /// # Errors
    /// The handshake failed, with a more precise cause than the error of rustls.
    fn after_step(&mut self) -> Result<(), TlsError> {
        Ok(())
    }

    /// Maximum size in bytes of an incomplete handshake message.
    fn unread_max(&self) -> usize {
        usize::MAX // rustls limits every message
    }

    /// True before the first message of a client (server side only).
    fn awaits_hello(&self) -> bool {
        false
    }

    /// The server name requested by the client (server side only).
    fn server_name(&self) -> Option<&str> {
        None
    }
}

/// The result of [`TlsSide::process`].
pub type ProcessStatus<'c, 'i, S> = UnbufferedStatus<'c, 'i, <S as TlsSide>::Data>;

impl TlsSide for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> ProcessStatus<'c, 'i, Self> {
        self.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

/// The server side: the rustls connection, and the result of certificate selection.
pub struct ServerSide {
    tls: UnbufferedServerConnection,
    hello: ReceivedHello,
}

impl ServerSide {
    pub(crate) fn new(tls: UnbufferedServerConnection) -> Self {
        Self { tls, hello: ReceivedHello::Awaited }
    }
}

impl TlsSide for ServerSide {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> ProcessStatus<'c, 'i, Self> {
        self.tls.process_tls_records(input)
    }

    fn common(&self) -> &CommonState {
        &self.tls
    }

    fn after_step(&mut self) -> Result<(), TlsError> {
        match certificates::take_hello() {
            ReceivedHello::Awaited => Ok(()),
            ReceivedHello::Refused(name) => Err(TlsError::UnknownName(name.map(String::from))),
            hello @ ReceivedHello::Accepted(_) => {
                self.hello = hello;
                Ok(())
            }
        }
    }

    fn unread_max(&self) -> usize {
        if self.awaits_hello() { HELLO_SIZE_MAX } else { usize::MAX }
    }

    fn awaits_hello(&self) -> bool {
        matches!(self.hello, ReceivedHello::Awaited)
    }

    fn server_name(&self) -> Option<&str> {
        match &self.hello {
            ReceivedHello::Accepted(name) => name.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Debug for ServerSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSide").field("hello", &self.hello).finish_non_exhaustive()
    }
}

/// Maximum size in bytes of a ClientHello. Clients send up to 2 KB, including a post-quantum key
/// share. A connection with an endless ClientHello uses this much memory until its deadline.
const HELLO_SIZE_MAX: usize = 16 * 1024;
