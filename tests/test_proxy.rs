//! A proxy in the thread of a test: its configuration, built in code, and its loop.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fulmar_engine::{DriverEvent, Engine};
use fulmar_haproxy::model::{LogTarget, OnError, RetryOn, ServerAddress, ServerProxy, StatsPage};
use fulmar_haproxy::rules::RequestHead;
use fulmar_haproxy::{
    BackendConfig, BackendId, Config, FrontendConfig, Mode, Position, ServerConfig,
};
use fulmar_haproxy::{ConfigSource, Environment, Options, ThisMachine, load};
use fulmar_proto::HeaderBuf;
use fulmar_proxy::{
    BindId, GeneratedPage, Live, LogSeverity, MakeLayer, Proxy, ProxyLog, Services, Stop,
};
use fulmar_sys as sys;

use crate::buffers::bounded;
use crate::loops::{LISTENER, Loop, OwnLoop, client};
use crate::scripted::Scripted;

/// Lines of logs, as they were written, with their severity.
pub type LogLines = Rc<RefCell<Vec<(LogSeverity, String)>>>;

/// Keeps every line.
#[derive(Clone, Debug, Default)]
pub struct RecordingJournal(pub LogLines);

impl ProxyLog for RecordingJournal {
    fn log(&mut self, _: &[LogTarget], _: Option<&str>, severity: LogSeverity, line: &[u8]) {
        self.0.borrow_mut().push((severity, String::from_utf8_lossy(line).into_owned()));
    }
}

/// Pages that contain the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct EchoPages;

impl Services for EchoPages {
    fn statistics(
        &mut self,
        _: &StatsPage,
        head: &RequestHead,
        body: Option<&[u8]>,
        may: bool,
    ) -> GeneratedPage {
        let body = body.unwrap_or(b"cut");
        let target = String::from_utf8_lossy(&head.target);
        let body = format!("stats {target} {may} {}", String::from_utf8_lossy(body));
        GeneratedPage { status: 200, fields: HeaderBuf::new(), body: body.into_bytes() }
    }

    fn metrics(&mut self, _: &RequestHead) -> GeneratedPage {
        GeneratedPage { status: 200, fields: HeaderBuf::new(), body: b"metrics".to_vec() }
    }

    fn wall_clock(&self) -> std::time::SystemTime {
        fulmar_sys::wall_clock()
    }
}

/// A server at this address with default settings.
pub fn server(name: &str, address: SocketAddr) -> ServerConfig {
    ServerConfig {
        name: name.to_owned(),
        place: Position { file: "test.cfg".into(), line: 1 },
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
        follows: None,
        observe: None,
        on_error: OnError::default(),
        error_limit: 10,
        shutdown_when_down: false,
        shutdown_backups_when_up: false,
        slow_start: None,
        send_proxy: ServerProxy::None,
        tls: None,
        source: None,
        interface: None,
        idle_max: None,
        idle_timeout: Duration::from_secs(5),
        reuse_max: None,
        user_timeout: None,
        redirect_prefix: None,
    }
}

/// A backend of mode http with these servers, and three retries.
pub fn backend(servers: impl IntoIterator<Item = ServerConfig>) -> BackendConfig {
    let number = |(at, server): (usize, ServerConfig)| {
        let id = u32::try_from(at).expect("few servers") + 1;
        Arc::new(ServerConfig { id, ..server })
    };
    BackendConfig {
        name: "be".to_owned(),
        mode: Mode::Http,
        retries: 3,
        retry_on: RetryOn::default(),
        servers: servers.into_iter().enumerate().map(number).collect(),
        ..BackendConfig::default()
    }
}

/// A frontend of mode http for the first backend.
pub fn frontend() -> FrontendConfig {
    FrontendConfig {
        name: "fe".to_owned(),
        mode: Mode::Http,
        default_backend: Some(BackendId(0)),
        binds: vec![fulmar_haproxy::Bind {
            place: Position { file: "test.cfg".into(), line: 1 },
            name: "sock-1".to_owned(),
            id: 1,
            address: fulmar_haproxy::model::BindAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into()),
            connections_max: None,
            backlog: None,
            accepts_proxy: false,
            defer_accept: false,
            v6only: None,
            interface: None,
            user_timeout: None,
            segment_size_max: None,
            fast_open: false,
            permissions: None,
            owner: (None, None),
            tls: None,
        }],
        ..FrontendConfig::default()
    }
}

/// The engine of a proxy with one frontend and its backends, the state that threads share, and its
/// log lines.
pub fn engine(
    frontend: FrontendConfig,
    backends: impl IntoIterator<Item = BackendConfig>,
) -> (Proxy, Arc<Live>, LogLines, Stop) {
    let config = Config {
        frontends: vec![Arc::new(frontend)],
        backends: backends.into_iter().map(Arc::new).collect(),
        ..Config::default()
    };
    run(config, None)
}

/// The same from the text of a configuration; the listener belongs to its first frontend.
///
/// # Panics
/// If the text is wrong.
pub fn configured(text: &str) -> (Proxy, Arc<Live>, LogLines, Stop) {
    configured_on(text, None)
}

/// The same, with a layer below each connection of a client.
///
/// # Panics
/// If the text is wrong.
pub fn configured_on(text: &str, layer: Option<MakeLayer>) -> (Proxy, Arc<Live>, LogLines, Stop) {
    let source = ConfigSource::Text { name: "test.cfg".to_owned(), text: text.to_owned() };
    let (environment, options) = (Environment::default(), Options::default());
    let loaded = load(&[source], &environment, &ThisMachine, &options);
    let loaded = loaded.unwrap_or_else(|wrong| panic!("{wrong:?}"));
    run(loaded.config, layer)
}

fn run(config: Config, layer: Option<MakeLayer>) -> (Proxy, Arc<Live>, LogLines, Stop) {
    let live = Arc::new(Live::new(config, 1));
    let (book, stop) = (RecordingJournal::default(), Stop::default());
    let lines = Rc::clone(&book.0);
    let (journal, pages) = (Box::new(book), Box::new(EchoPages));
    let mut proxy = Proxy::new(sys::now(), Arc::clone(&live), 0, journal, pages, stop.clone());
    proxy.add_listener(LISTENER, BindId { frontend: 0, bind: 0 }, layer);
    (proxy, live, lines, stop)
}

/// A client in the thread of the proxy, and origins beside it.
#[derive(Debug)]
pub struct TestProxy {
    /// The proxy.
    pub proxy: OwnLoop<Proxy>,
    /// What it shares with others.
    pub live: Arc<Live>,
    /// What it has logged.
    pub lines: LogLines,
    /// Servers.
    pub origins: Vec<Scripted>,
    /// Where the proxy listens.
    pub address: SocketAddr,
    /// The client's connection.
    pub stream: TcpStream,
    stop: Stop,
}

impl TestProxy {
    /// A proxy with this configuration and a client. `ORIGIN0` and so on are replaced by the
    /// addresses of origins.
    ///
    /// # Panics
    /// If the text is wrong.
    pub fn new(text: &str, origins: Vec<Scripted>) -> Self {
        let mut text = text.to_owned();
        for (at, origin) in origins.iter().enumerate() {
            text = text.replace(&format!("ORIGIN{at}"), &origin.address().to_string());
        }
        let (proxy, live, lines, stop) = configured(&text);
        let (proxy, address) = OwnLoop::start(proxy);
        Self { proxy, live, lines, origins, address, stream: bounded(client(address)), stop }
    }

    /// Replaces the client's connection by a new one.
    pub fn reconnect(&mut self) {
        self.stream = bounded(client(self.address));
    }

    /// Sends, and turns until `done` with the received bytes; true if the connection has ended.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn talk(
        &mut self,
        bytes: impl AsRef<[u8]>,
        done: impl Fn(&[u8]) -> bool,
    ) -> (Vec<u8>, bool) {
        self.stream.set_nonblocking(true).expect("a socket");
        let bytes = bytes.as_ref();
        let Self { proxy, origins, stream, .. } = self;
        let (mut at, mut got, mut ended) = (0, Vec::new(), false);
        proxy.turn_until(|_| {
            origins.iter_mut().for_each(Scripted::turn);
            if let Ok(n) = stream.write(&bytes[at..]) {
                at += n;
            }
            let mut buffer = vec![0; 64 * 1024];
            match stream.read(&mut buffer) {
                Ok(0) => ended = true,
                Ok(n) => got.extend_from_slice(&buffer[..n]),
                Err(error) => ended = error.kind() != ErrorKind::WouldBlock,
            }
            ended || done(&got)
        });
        (got, ended)
    }

    /// Sends a request, and returns the whole response, with interim ones before it.
    ///
    /// # Panics
    /// If there is none.
    pub fn send_request(&mut self, request: impl AsRef<[u8]>) -> String {
        let (got, _) = self.talk(request, is_whole);
        String::from_utf8(got).expect("text")
    }

    /// The status of the response to a GET.
    pub fn status(&mut self, target: &str) -> u16 {
        let answer = self.send_request(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        answer.get(9..12).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Turns proxy and origins until `done`.
    ///
    /// # Panics
    /// If that takes too long.
    pub fn turn_until(&mut self, done: impl Fn(&mut Proxy, &[Scripted]) -> bool) {
        let Self { proxy, origins, .. } = self;
        proxy.turn_until(|proxy| {
            origins.iter_mut().for_each(Scripted::turn);
            done(proxy.engine(), origins)
        });
    }

    /// Starts a soft stop.
    pub fn stop(&mut self) {
        self.stop.set();
        self.proxy.with(|proxy, now| proxy.handle(now, DriverEvent::Wake));
    }

    /// What has been logged, line by line.
    pub fn log(&self) -> Vec<String> {
        self.lines.borrow().iter().map(|(_, line)| line.clone()).collect()
    }
}

/// True if this is a whole response, with interim ones before it.
pub fn is_whole(got: &[u8]) -> bool {
    let text = String::from_utf8_lossy(got);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    if head.starts_with("HTTP/1.1 1") && !head.starts_with("HTTP/1.1 101") {
        return is_whole(body.as_bytes());
    }
    let lower = head.to_ascii_lowercase();
    let field = |name: &str| lower.lines().find_map(|line| line.strip_prefix(name));
    match (field("content-length: "), field("transfer-encoding: ")) {
        (Some(len), _) => body.len() >= len.trim().parse().expect("a length"),
        (None, Some(_)) => body.ends_with("0\r\n\r\n"),
        (None, None) => true,
    }
}
