//! A `bind` line while it is parsed.

use std::time::Duration;

use super::tls::TlsWords;
use crate::model::{BindAddress, BindTls, Position, SocketLevel};

/// A `bind` line, or one of its addresses: a port range becomes several of `bound`.
#[derive(Clone, Debug)]
pub(crate) struct BindDraft {
    pub(crate) place: Position,
    pub(crate) bound: Vec<BindAddress>,
    pub(crate) name: Option<String>,
    pub(crate) id: Option<u32>,
    pub(crate) connections_max: Option<usize>,
    pub(crate) backlog: Option<u16>,
    pub(crate) accepts_proxy: bool,
    pub(crate) defer_accept: bool,
    pub(crate) v6only: Option<bool>,
    pub(crate) interface: Option<String>,
    pub(crate) user_timeout: Option<Duration>,
    pub(crate) segment_size_max: Option<u16>,
    pub(crate) fast_open: bool,
    pub(crate) permissions: Option<u32>,
    pub(crate) owner: (Option<u32>, Option<u32>),
    /// Only in runtime sockets.
    pub(crate) level: Option<SocketLevel>,
    /// Only in runtime sockets.
    pub(crate) exposes_listeners: bool,
    /// `ssl`.
    pub(crate) is_tls: bool,
    pub(crate) tls: BindTls,
    pub(crate) words: TlsWords,
}
