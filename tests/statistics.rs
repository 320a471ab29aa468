//! A proxy for its statistics page: a configuration in code, with invented traffic.

use std::io::{BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fulmar_gateway::statistics::{Process, Reports};
use fulmar_haproxy::model::{
    BackendTarget, CookieInsert, ServerCheck, StatsAdmin as MayChange, StatsPage, UseBackend,
};
use fulmar_haproxy::rules::RequestHead;
use fulmar_haproxy::{BackendConfig, BackendId, Config, FrontendConfig, Mode, ServerConfig};
use fulmar_proto::HeaderBuf;
use fulmar_proxy::balance::{Admin, Health};
use fulmar_proxy::{Counters, GeneratedPage, Live, Services, Stat};

use crate::process::PATIENCE;
use crate::test_proxy;

/// Two frontends, and backends with servers in every state.
pub fn config() -> Config {
    let mut config = Config::default();
    config.global.connections_max = Some(4_000);
    config.frontends = vec![
        Arc::new(FrontendConfig {
            name: "www".into(),
            id: 2,
            description: Some("Shop & <blog>".into()),
            connections_max: Some(2_000),
            use_backends: vec![UseBackend {
                target: BackendTarget::Backend(BackendId(1)),
                condition: None,
            }],
            ..test_proxy::frontend()
        }),
        Arc::new(FrontendConfig {
            name: "database".into(),
            id: 5,
            is_listen: true,
            mode: Mode::Tcp,
            default_backend: Some(BackendId(2)),
            ..test_proxy::frontend()
        }),
    ];
    config.backends = vec![
        Arc::new(BackendConfig {
            name: "shop".into(),
            id: 3,
            cookie: Some(cookie()),
            ..servers(6)
        }),
        Arc::new(BackendConfig { name: "blog\"<&>".into(), id: 4, ..servers(3) }),
        Arc::new(BackendConfig {
            name: "database".into(),
            id: 5,
            is_listen: true,
            mode: Mode::Tcp,
            ..servers(2)
        }),
    ];
    config
}

fn cookie() -> CookieInsert {
    CookieInsert { name: "SRV".into(), ..CookieInsert::default() }
}

fn servers(count: u16) -> BackendConfig {
    let one = |nth: u16| ServerConfig {
        backup: nth == 6,
        connections_max: if nth == 1 { 50 } else { 0 },
        check: (nth != 5).then(check),
        weight: u32::from(nth) * 10,
        ..test_proxy::server(&format!("web{nth}"), (Ipv4Addr::LOCALHOST, 8_000 + nth).into())
    };
    test_proxy::backend((1..=count).map(one))
}

/// A check with HAProxy's settings.
pub fn check() -> ServerCheck {
    ServerCheck {
        interval: Duration::from_secs(2),
        fast_interval: None,
        down_interval: None,
        rise: 2,
        fall: 3,
        port: None,
        address: None,
        tls: false,
        sni: None,
        send_proxy: false,
    }
}

/// That configuration on one thread, after some traffic.
pub fn live() -> Arc<Live> {
    let live = Arc::new(Live::new(config(), 1));
    let now = fulmar_sys::now();
    live.clocks[0].set(live.millis(now));
    let group = &live.backends[0].group;
    group.set_health(1, Health::Down, now);
    group.set_admin(2, Admin::Maintenance);
    group.set_admin(3, Admin::Drain);
    for _ in 0..3 {
        busy(&live);
    }
    live
}

/// A little more traffic.
pub fn busy(live: &Live) {
    for (at, frontend) in live.frontends.iter().enumerate() {
        traffic(&frontend.counters[0], 400 / (at as u64 + 1));
    }
    for backend in &live.backends {
        traffic(&backend.counters[0], 190);
        for (at, server) in backend.servers.iter().enumerate() {
            traffic(&server.counters[0], 60 / (at as u64 + 1));
        }
    }
}

fn traffic(counters: &Counters, count: u64) {
    for nth in 0..count {
        counters.add(Stat::Connections, 1);
        counters.add(Stat::SessionsTotal, 1);
        counters.add(Stat::Requests, 1);
        counters.add(Stat::BytesIn, 612);
        counters.add(Stat::BytesOut, 48_213);
        counters.add(Stat::ResponseTime, nth % 23);
        counters.add(Stat::TotalTime, 3 + nth % 40);
        counters.add(Stat::Timed, 1);
        let class = match nth % 20 {
            0 => Stat::Responses5xx,
            1 | 2 => Stat::Responses4xx,
            3..=6 => Stat::Responses3xx,
            _ => Stat::Responses2xx,
        };
        counters.add(class, 1);
    }
    counters.add(Stat::Sessions, count / 7);
    counters.add(Stat::Retries, count / 50);
    counters.add(Stat::ConnectErrors, count / 100);
}

/// The page of a proxy at `/stats`, with all options.
pub fn page() -> StatsPage {
    StatsPage {
        uri: "/stats".into(),
        admin: MayChange::Always,
        show_legends: true,
        node: Some("edge-1".into()),
        description: Some("Ingress, Stockholm".into()),
        ..StatsPage::default()
    }
}

/// Requests a page.
pub fn send_request(
    reports: &mut Reports,
    page: &StatsPage,
    method: &str,
    target: &str,
    more: &PageRequest<'_>,
) -> GeneratedPage {
    let mut fields = HeaderBuf::new();
    for (name, value) in more.fields {
        fields.push(name, value.as_bytes()).expect("fields of tests are good");
    }
    let request = RequestHead {
        method: method.into(),
        target: target.into(),
        fields,
        ..RequestHead::default()
    };
    match target.starts_with("/metrics") {
        true => reports.metrics(&request),
        false => reports.statistics(page, &request, Some(more.body.as_bytes()), more.may_change),
    }
}

/// What goes with a question.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageRequest<'a> {
    /// Fields of the request.
    pub fields: &'a [(&'a str, &'a str)],
    /// Its body.
    pub body: &'a str,
    /// `stats admin`.
    pub may_change: bool,
}

/// The reports of a proxy.
pub fn reports(live: &Arc<Live>) -> Reports {
    let process = Arc::new(Process::new("edge-1".into(), 4_000, 20_000));
    process.add_thread();
    Reports::new(Arc::clone(live), process)
}

/// Serves a page to a browser until it is dropped.
#[derive(Debug)]
pub struct StatsSite {
    address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StatsSite {
    /// With the traffic going on.
    pub fn start(live: Arc<Live>, page: StatsPage) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let thread = std::thread::spawn(move || {
            let mut reports = reports(&live);
            while !until.load(Ordering::Relaxed) {
                let Ok((socket, _)) = listener.accept() else { break };
                live.clocks[0].set(live.millis(fulmar_sys::now()));
                busy(&live);
                // A browser may close at any time.
                let _ = answer(socket, &mut reports, &page);
            }
        });
        Self { address, ended, thread: Some(thread) }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/stats", self.address)
    }
}

impl Drop for StatsSite {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.expect("it is dropped once").expect("the site does not panic");
        }
    }
}

fn answer(mut socket: TcpStream, reports: &mut Reports, page: &StatsPage) -> std::io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut reader, &mut line)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or("GET"), words.next().unwrap_or("/"));
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut reader, &mut line)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => fields.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let length = fields.iter().find(|field| field.0 == "content-length");
    let length: usize = length.map_or(0, |field| field.1.parse().unwrap_or(0));
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let given: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let body = String::from_utf8_lossy(&body).into_owned();
    let asked = PageRequest { fields: &given, body: &body, may_change: true };
    let answer = match target.starts_with("/stats") {
        true => send_request(reports, page, method, target, &asked),
        false => GeneratedPage { status: 404, fields: HeaderBuf::new(), body: Vec::new() },
    };
    write!(socket, "HTTP/1.1 {} Answer\r\nConnection: close\r\n", answer.status)?;
    for (name, value) in answer.fields.as_headers().iter() {
        socket.write_all(name)?;
        socket.write_all(b": ")?;
        socket.write_all(value)?;
        socket.write_all(b"\r\n")?;
    }
    write!(socket, "Content-Length: {}\r\n\r\n", answer.body.len())?;
    socket.write_all(&answer.body)
}
