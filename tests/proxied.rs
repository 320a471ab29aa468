//! A proxy in a test: its configuration as data, and its log to be read.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_haproxy::model::{
    Bind, BindAddress, LogAddress, LogLine, LogTarget, OnError, ServerAddress, ServerProxy,
};
use fulmar_haproxy::{Backend, BackendId, Config, Frontend, Mode, Place, Server};
use fulmar_proto::HeaderBuf;
use fulmar_proxy::{BindId, Journal, Live, MakeLayer, Page, Proxy, Services, Severity, Stop};
use fulmar_rules::RequestHead;
use fulmar_sys as sys;

use crate::loops::LISTENER;

/// Lines of a log, as they come.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// All of them so far.
    ///
    /// # Panics
    /// If whoever wrote them did.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("nobody panicked while writing").clone()
    }
}

impl Journal for Lines {
    fn log(&mut self, _: &[LogTarget], _: Option<&str>, _: Severity, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.0.lock().expect("nobody panicked while writing").push(line);
    }
}

/// There are no pages.
#[derive(Debug)]
pub struct NoPages;

impl Services for NoPages {
    fn statistics(
        &mut self,
        _: &fulmar_haproxy::model::StatsPage,
        _: &RequestHead,
        _: &[u8],
        _: bool,
    ) -> Page {
        self.metrics(&RequestHead::default())
    }

    fn metrics(&mut self, _: &RequestHead) -> Page {
        Page { status: 404, fields: HeaderBuf::default(), body: Vec::new() }
    }
}

/// Where every proxy of a test listens, as far as its configuration knows.
pub fn bind() -> Bind {
    Bind {
        place: place(),
        name: "sock-1".to_owned(),
        id: 1,
        address: BindAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
        connections_max: None,
        backlog: None,
        accepts_proxy: false,
        defer_accept: false,
        v6only: None,
        interface: None,
        permissions: None,
        owner: (None, None),
        tls: None,
    }
}

fn place() -> Place {
    Place { file: "test.cfg".into(), line: 1 }
}

/// A frontend in mode tcp that leads to the first backend, with timeouts that no test reaches.
pub fn frontend() -> Frontend {
    let mut frontend = Frontend {
        name: "front".to_owned(),
        binds: vec![bind()],
        default_backend: Some(BackendId(0)),
        logs: vec![log_target()],
        ..Frontend::default()
    };
    frontend.timeouts.client = Some(Duration::from_secs(60));
    frontend
}

fn log_target() -> LogTarget {
    LogTarget {
        to: LogAddress::Descriptor(1),
        format: LogLine::Raw,
        facility: 16,
        level_max: 7,
        level_min: 0,
        line_size_max: 65_535,
        sample: None,
    }
}

/// A backend in mode tcp.
pub fn backend(servers: impl IntoIterator<Item = Server>) -> Backend {
    let mut backend = Backend {
        name: "back".to_owned(),
        mode: Mode::Tcp,
        servers: servers.into_iter().map(Arc::new).collect(),
        retries: 3,
        ..Backend::default()
    };
    backend.timeouts.connect = Some(Duration::from_secs(5));
    backend.timeouts.server = Some(Duration::from_secs(60));
    backend
}

/// A server with nothing special about it.
pub fn server(name: &str, address: SocketAddr) -> Server {
    Server {
        name: name.to_owned(),
        place: place(),
        id: 1,
        address: ServerAddress::Tcp(address),
        written_address: address.to_string(),
        weight: 1,
        backup: false,
        disabled: false,
        connections_max: 0,
        connections_min: 0,
        queue_max: 0,
        cookie: None,
        check: None,
        observe: None,
        on_error: OnError::default(),
        error_limit: 10,
        shutdown_when_down: false,
        shutdown_backups_when_up: false,
        slow_start: None,
        send_proxy: ServerProxy::None,
        tls: None,
        source: None,
        idle_max: None,
        idle_timeout: Duration::from_secs(5),
        reuse_max: None,
        user_timeout: None,
        redirect_prefix: None,
    }
}

/// One frontend, and backends behind it.
pub fn config(frontend: Frontend, backends: impl IntoIterator<Item = Backend>) -> Config {
    Config {
        frontends: vec![Arc::new(frontend)],
        backends: backends.into_iter().map(Arc::new).collect(),
        ..Config::default()
    }
}

/// A proxy on one thread, what it shares with others, and its log.
pub fn proxy(config: Config, layer: Option<MakeLayer>) -> (Proxy, Arc<Live>, Lines) {
    let live = Arc::new(Live::new(config, 1));
    let lines = Lines::default();
    let journal = Box::new(lines.clone());
    let stop = Stop::default();
    let mut proxy = Proxy::new(sys::now(), Arc::clone(&live), 0, journal, Box::new(NoPages), stop);
    proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, layer);
    (proxy, live, lines)
}
