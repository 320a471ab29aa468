//! Which end of TLS: rustls has a type for each, and no trait for what they share.

use rustls::CommonState;
use rustls::unbuffered::UnbufferedStatus;

/// An end of TLS, as rustls keeps it.
pub trait Side: Send + Sized + 'static {
    /// What rustls knows about this end only.
    type Data;

    /// Processes records; see rustls.
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> Status<'c, 'i, Self>;

    /// What both ends have.
    fn common(&self) -> &CommonState;
}

/// What came of it.
pub type Status<'c, 'i, S> = UnbufferedStatus<'c, 'i, <S as Side>::Data>;
