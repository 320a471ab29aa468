//! Answers that the proxy gives itself.

use std::sync::Arc;

use crate::format::Format;

/// An answer to be made.
#[derive(Clone, Debug)]
pub struct Reply {
    /// 200 to 599.
    pub status: u16,
    /// Its fields, beside the length of its body.
    pub fields: Vec<(String, Format)>,
    /// Its body.
    pub body: ReplyBody,
}

/// The body of an answer of our own.
#[derive(Clone, Debug)]
pub enum ReplyBody {
    /// None.
    Empty,
    /// As it stands.
    Fixed(Arc<[u8]>),
    /// To be made.
    Format(Format),
    /// The error page of this status, as configured or built in.
    ErrorPage,
}

/// What is answered to errors of our own, by status (`errorfile`, `http-error`, `errorfiles`):
/// those that are not there are built in.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// By status.
    pub pages: Vec<(u16, Arc<Reply>)>,
}
