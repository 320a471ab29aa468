//! What commands are about, and what they answer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fulmar_haproxy::BackendId;
use fulmar_haproxy::model::{Level, StatsSocket};
use fulmar_proxy::{Answer, Hearer, Live, LiveBackend, LiveServer, Order, Wake};

use super::shown::Certificates;
use crate::statistics::Process;
use crate::statistics::change::{find_backend, find_server};
use crate::statistics::process::Moment;

/// What commands are about.
#[derive(Clone)]
pub struct World {
    /// The proxy.
    pub live: Arc<Live>,
    /// The process.
    pub process: Arc<Process>,
    pub(super) certificates: Arc<Certificates>,
    news: Arc<Mutex<Vec<(u64, Answer)>>>, // of which console
    wake: Arc<Mutex<Option<Wake>>>,
}

impl World {
    /// Of this proxy, in this process.
    pub(crate) fn new(
        live: Arc<Live>,
        process: Arc<Process>,
        certificates: Arc<Certificates>,
    ) -> Self {
        Self { live, process, certificates, news: Arc::default(), wake: Arc::default() }
    }

    /// What wakes the thread that answers.
    pub fn set_wake(&self, wake: Wake) {
        *self.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(wake);
    }

    pub(super) fn sockets(&self) -> &[StatsSocket] {
        &self.live.config.global.stats_sockets
    }

    pub(super) fn moment(&self, now: Instant) -> Moment {
        Moment::new(now, &self.live, &self.process)
    }

    /// Asks a thread; what it says comes by [`World::take_news`].
    pub(super) fn ask(&self, thread: usize, console: u64, order: impl FnOnce(Hearer) -> Order) {
        let (news, wake) = (Arc::clone(&self.news), Arc::clone(&self.wake));
        let hear = move |answer| {
            news.lock().unwrap_or_else(PoisonError::into_inner).push((console, answer));
            if let Some(wake) = &*wake.lock().unwrap_or_else(PoisonError::into_inner) {
                wake();
            }
        };
        self.live.order(thread, order(Hearer(Arc::new(hear))));
    }

    pub(super) fn take_news(&self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `backend/server`: by names or, behind `#`, by numbers.
    pub(super) fn server(&self, name: Option<&String>) -> Result<Place<'_>, &'static str> {
        let both = name.and_then(|name| name.split_once('/'));
        let (backend, name) = both.ok_or("Require 'backend/server'.\n")?;
        let id = find_backend(&self.live, backend).ok_or("No such backend.\n")?;
        let backend = &self.live.backends[id.0];
        let at = find_server(backend, name).ok_or("No such server.\n")?;
        Ok(Place { id, at, backend, server: &backend.servers[at] })
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

/// A server that a command names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) id: BackendId,
    pub(super) at: usize,
    pub(super) backend: &'a LiveBackend,
    pub(super) server: &'a LiveServer,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Whose answer it is.
    pub(super) console: u64,
    /// What it may do.
    pub(super) level: Level,
    /// It sees prompts, and stays.
    pub(super) interactive: bool,
    /// Silent for so long, it is closed.
    pub(super) timeout: Duration,
}

/// What comes of a command. An empty line follows whatever is said.
pub(super) enum Reply {
    /// This.
    Text(String),
    /// Pieces, until there is none.
    Pieces(Pieces),
    /// Another thread's answer, and what is made of it.
    News(Listener),
    /// Nothing more.
    Quit,
}

impl Reply {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Nothing but the empty line: it is done.
    pub(super) fn done() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Makes the next piece of an answer; false: there was none left.
pub(super) type Pieces = Box<dyn FnMut(&World, Instant, &mut String) -> bool + Send>;

/// Makes a reply of another thread's answer.
pub(super) type Listener = Box<dyn FnOnce(&World, Asker, Answer, &mut String) -> Reply + Send>;

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Pieces(_) => "Pieces",
            Self::News(_) => "News",
            Self::Quit => "Quit",
        })
    }
}
