//! What commands act on, and their replies.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{SocketLevel, StatsSocket};
use fulmar_proxy::{Live, LiveBackend, LiveServer, Order, OrderReply, ReplyTo, Wake};

use super::certificate_store::CertificateStore;
use crate::statistics::Process;
use crate::statistics::change::{find_backend, find_server};
use crate::statistics::process::Moment;

/// What commands act on.
#[derive(Clone)]
pub struct RuntimeContext {
    /// The proxy.
    pub live: Arc<Live>,
    /// The process.
    pub process: Arc<Process>,
    pub(super) certificates: Arc<CertificateStore>,
    news: Arc<Mutex<Vec<(u64, OrderReply)>>>, // with the connection each belongs to
    wake: Arc<Mutex<Option<Wake>>>,
}

impl RuntimeContext {
    /// For this proxy in this process.
    pub(crate) fn new(
        live: Arc<Live>,
        process: Arc<Process>,
        certificates: Arc<CertificateStore>,
    ) -> Self {
        Self { live, process, certificates, news: Arc::default(), wake: Arc::default() }
    }

    /// Sets the function that wakes the runtime thread.
    pub fn set_wake(&self, wake: Wake) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }

    pub(super) fn sockets(&self) -> &[StatsSocket] {
        &self.live.config.global.stats_sockets
    }

    pub(super) fn moment(&self, now: Instant) -> Moment {
        Moment::new(now, &self.live, &self.process)
    }

    /// Sends a request to a thread. [`RuntimeContext::take_answers`] returns the reply.
    pub(super) fn send_request(
        &self,
        thread: usize,
        console: u64,
        order: impl FnOnce(ReplyTo) -> Order,
    ) {
        let (news, wake) = (Arc::clone(&self.news), Arc::clone(&self.wake));
        let hear = move |answer| {
            news.lock().unwrap_or_else(PoisonError::into_inner).push((console, answer));
            if let Some(wake) = &*wake.lock().unwrap_or_else(PoisonError::into_inner) {
                wake();
            }
        };
        self.live.order(thread, order(ReplyTo(Arc::new(hear))));
    }

    pub(super) fn take_answers(&self) -> Vec<(u64, OrderReply)> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Parses `backend/server`: names or, after `#`, numbers.
    pub(super) fn server(&self, name: Option<&String>) -> Result<ServerRef<'_>, &'static str> {
        let both = name.and_then(|name| name.split_once('/'));
        let (backend, name) = both.ok_or("Require 'backend/server'.\n")?;
        let id = find_backend(&self.live, backend).ok_or("No such backend.\n")?;
        let backend = &self.live.backends[id.0];
        let at = find_server(backend, name).ok_or("No such server.\n")?;
        Ok(ServerRef { id, at, backend, server: &backend.servers[at] })
    }
}

impl fmt::Debug for RuntimeContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeContext").finish_non_exhaustive()
    }
}

/// A server that a command names.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerRef<'a> {
    pub(super) id: BackendId,
    pub(super) at: usize,
    pub(super) backend: &'a LiveBackend,
    pub(super) server: &'a LiveServer,
}

/// The connection that sent a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsoleSettings {
    /// Its key.
    pub(super) console: u64,
    /// Its level.
    pub(super) level: SocketLevel,
    /// It has a prompt and stays open.
    pub(super) interactive: bool,
    /// Its idle timeout.
    pub(super) timeout: Duration,
}

/// Reply to a command. An empty line follows.
pub(super) enum CommandReply {
    /// A complete text.
    Text(String),
    /// Text in pieces, until there are no more.
    Pieces(Pieces),
    /// Waits for another thread's reply, and converts it.
    Deferred(AnswerHandler),
    /// Closes the connection.
    Quit,
}

impl CommandReply {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// An empty reply: success.
    pub(super) fn done() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for CommandReply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Appends the next piece of a reply; returns false if there are no more.
pub(super) type Pieces = Box<dyn FnMut(&RuntimeContext, Instant, &mut String) -> bool + Send>;

/// Converts another thread's reply.
pub(super) type AnswerHandler = Box<
    dyn FnOnce(&RuntimeContext, ConsoleSettings, OrderReply, &mut String) -> CommandReply + Send,
>;

impl fmt::Debug for CommandReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Pieces(_) => "Pieces",
            Self::Deferred(_) => "News",
            Self::Quit => "Quit",
        })
    }
}
