//! A proxy in the thread of a test: its configuration, made by hand, and the loop that drives it.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_haproxy::model::{LogTarget, OnError, RetryOn, ServerAddress, ServerProxy, StatsPage};
use fulmar_haproxy::{Backend, BackendId, Config, Frontend, Mode, Place, Server};
use fulmar_proto::HeaderBuf;
use fulmar_proxy::{BindId, Journal, Live, Page, Proxy, Services, Severity, Stop};
use fulmar_rules::RequestHead;
use fulmar_sys as sys;

use crate::loops::LISTENER;

/// Lines of logs, as they were written: whose they are, and what they say.
pub type Lines = Rc<RefCell<Vec<(Severity, String)>>>;

/// Keeps every line.
#[derive(Clone, Debug, Default)]
pub struct Book(pub Lines);

impl Journal for Book {
    fn log(&mut self, _: &[LogTarget], _: Option<&str>, severity: Severity, line: &[u8]) {
        self.0.borrow_mut().push((severity, String::from_utf8_lossy(line).into_owned()));
    }
}

/// Pages that say what was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages;

impl Services for Pages {
    fn statistics(&mut self, _: &StatsPage, head: &RequestHead, body: &[u8], may: bool) -> Page {
        let target = String::from_utf8_lossy(&head.target);
        let body = format!("stats {target} {may} {}", String::from_utf8_lossy(body));
        Page { status: 200, fields: HeaderBuf::new(), body: body.into_bytes() }
    }

    fn metrics(&mut self, _: &RequestHead) -> Page {
        Page { status: 200, fields: HeaderBuf::new(), body: b"metrics".to_vec() }
    }

    fn wall_clock(&self) -> std::time::SystemTime {
        fulmar_sys::wall_clock()
    }
}

/// A server at this address; everything else as if nothing was said.
pub fn server(name: &str, address: SocketAddr) -> Server {
    Server {
        name: name.to_owned(),
        place: Place { file: "test.cfg".into(), line: 1 },
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

/// A backend of mode http with these servers, and three retries.
pub fn backend(servers: impl IntoIterator<Item = Server>) -> Backend {
    let number = |(at, server): (usize, Server)| {
        let id = u32::try_from(at).expect("few servers") + 1;
        Arc::new(Server { id, ..server })
    };
    Backend {
        name: "be".to_owned(),
        mode: Mode::Http,
        retries: 3,
        retry_on: RetryOn::default(),
        servers: servers.into_iter().enumerate().map(number).collect(),
        ..Backend::default()
    }
}

/// A frontend of mode http that leads to the first backend.
pub fn frontend() -> Frontend {
    Frontend {
        name: "fe".to_owned(),
        mode: Mode::Http,
        default_backend: Some(BackendId(0)),
        binds: vec![fulmar_haproxy::Bind {
            place: Place { file: "test.cfg".into(), line: 1 },
            name: "sock-1".to_owned(),
            id: 1,
            address: fulmar_haproxy::model::BindAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()),
            connections_max: None,
            backlog: None,
            accepts_proxy: false,
            defer_accept: false,
            v6only: None,
            interface: None,
            permissions: None,
            owner: (None, None),
            tls: None,
        }],
        ..Frontend::default()
    }
}

/// The engine of a proxy with one frontend and its backends, what threads share of it, and the
/// lines that it logs.
pub fn engine(
    frontend: Frontend,
    backends: impl IntoIterator<Item = Backend>,
) -> (Proxy, Arc<Live>, Lines, Stop) {
    let config = Config {
        frontends: vec![Arc::new(frontend)],
        backends: backends.into_iter().map(Arc::new).collect(),
        ..Config::default()
    };
    let live = Arc::new(Live::new(config, 1));
    let (book, stop) = (Book::default(), Stop::default());
    let lines = Rc::clone(&book.0);
    let (journal, pages) = (Box::new(book), Box::new(Pages));
    let mut proxy = Proxy::new(sys::now(), Arc::clone(&live), 0, journal, pages, stop.clone());
    proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, None);
    (proxy, live, lines, stop)
}
