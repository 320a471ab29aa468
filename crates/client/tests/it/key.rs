//! The pool's key: two requests share a connection if, and only if, nothing that the connection
//! depends on differs. A field that is forgotten here sends one user's request on another's
//! connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use fulmar_client::{
    Application, Client, Config, Context, Options, Protocol, Request, TransferEvent, TransferId,
};
use fulmar_engine::{Action, DriverEvent, Engine, KeepAlive, SocketEvent, SocketId};
use fulmar_proto::Input;
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_semantics::{coding, redirect};
use fulmar_tls::{ClientOptions, ClientTls, Roots, Verify, Version};
use proptest::prelude::*;

/// Everything that a connection depends on, each a number of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Knobs {
    scheme: usize,
    host: usize,
    port: usize,
    tls: usize,
    unix: usize,
    proxy: usize,
    local: usize,
    interface: usize,
    keep_alive: usize,
}

/// What a connection does not depend on.
#[derive(Clone, Copy, Debug)]
struct UnkeyedParts {
    path: usize,
    method: usize,
    options: usize,
}

const SCHEMES: [&str; 2] = ["http", "https"];
/// Spelled differently, and normalised to `a.example`, `b.example`, 127.0.0.1 and `[::1]`.
const HOSTS: [&[&str]; 4] = [
    &["a.example", "A.EXAMPLE", "a%2Eexample"],
    &["b.example"],
    &["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1"],
    &["[::1]", "[0:0::0:1]"],
];
/// 0: the scheme's own.
const PORTS: [u16; 3] = [0, 8080, 8443];
const PROXIES: [Option<&str>; 6] = [
    None,
    Some("http://proxy.example:3128"),
    Some("http://proxy.example:3129"),
    Some("http://other.example:3128"),
    Some("socks5://proxy.example:3128"),
    Some("socks5h://user:secret@proxy.example:3128"),
];

static TLS: LazyLock<Vec<ClientTls>> = LazyLock::new(|| {
    let plain =
        || ClientOptions { roots: Roots::empty(), verify: Verify::Nothing, ..Default::default() };
    let named = ClientOptions { server_name: Some("name.example".to_owned()), ..plain() };
    let strict = ClientOptions { version_min: Version::Tls13, ..plain() };
    let spoken = ClientOptions { alpn: vec![b"http/1.1".to_vec()], ..plain() };
    let all = [plain(), named, strict, spoken];
    all.into_iter().map(|options| ClientTls::new(options).expect("nothing is read")).collect()
});

impl Knobs {
    fn request(self, rest: UnkeyedParts) -> Request {
        let names = HOSTS[self.host];
        let host = names[rest.path % names.len()];
        let port = match PORTS[self.port] {
            0 => String::new(),
            port => format!(":{port}"),
        };
        let url = format!("{}://{host}{port}/{}", SCHEMES[self.scheme], rest.path);
        let keep_alive = |idle| KeepAlive {
            idle: Duration::from_secs(idle),
            interval: Duration::from_secs(5),
            count: 3,
        };
        let proxy = PROXIES[self.proxy].map(|text| ProxyUrl::parse(text).expect("a proxy"));
        let proxies = Settings { http: proxy.clone(), https: proxy, ..Settings::default() };
        let options = Options {
            tls: Some(TLS[self.tls].clone()),
            unix_socket: [None, Some("/run/a"), Some("/run/b")][self.unix].map(PathBuf::from),
            proxies: Some(Arc::new(proxies)),
            local: [None, Some(2), Some(3)][self.local]
                .map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))),
            interface: [None, Some("lo"), Some("eth0")][self.interface].map(Box::from),
            keep_alive: [None, Some(10), Some(20)][self.keep_alive].map(keep_alive),
            ..rest.options()
        };
        let method = ["GET", "HEAD", "DELETE"][rest.method];
        Request::with_method(method, &url).options(Arc::new(options)).build().expect("a request")
    }

    /// What of these the connection really depends on.
    fn matters(self) -> impl PartialEq + std::fmt::Debug {
        let is_tls = self.scheme == 1;
        let port = match PORTS[self.port] {
            0 if is_tls => 443,
            0 => 80,
            port => port,
        };
        let is_unix = self.unix > 0;
        let proxy = if is_unix { 0 } else { self.proxy };
        // A proxy that forwards is all that a connection knows.
        let forwards = !is_tls && (1..=3).contains(&proxy);
        let target = (!forwards).then_some((self.host, port));
        let tls = is_tls.then_some(self.tls);
        (tls, target, self.unix, proxy, self.local, self.interface, self.keep_alive)
    }
}

impl UnkeyedParts {
    fn options(self) -> Options {
        let second = Some(Duration::from_secs(1));
        match self.options {
            0 => Options::default(),
            1 => Options { decode: Some(coding::CodingLimits::default()), ..Options::default() },
            2 => Options { redirects: Some(redirect::Policy::default()), ..Options::default() },
            3 => Options { total_timeout: second, body_max: Some(1), ..Options::default() },
            _ => Options { retries: 3, referer: true, cookies: false, ..Options::default() },
        }
    }
}

prop_compose! {
    fn knobs()(
        scheme in 0..2_usize, host in 0..4_usize, port in 0..3_usize, tls in 0..4_usize,
        unix in 0..3_usize, proxy in 0..6_usize, local in 0..3_usize, interface in 0..3_usize,
        keep_alive in 0..3_usize,
    ) -> Knobs {
        Knobs { scheme, host, port, tls, unix, proxy, local, interface, keep_alive }
    }
}

prop_compose! {
    fn rest()(path in 0..5_usize, method in 0..3_usize, options in 0..5_usize) -> UnkeyedParts {
        UnkeyedParts { path, method, options }
    }
}

/// One knob turned to `to`: most pairs of random settings differ in everything, which proves
/// little.
fn turned(knobs: Knobs, which: usize, to: usize) -> Knobs {
    let mut other = knobs;
    let (knob, choices) = match which {
        0 => (&mut other.scheme, 2),
        1 => (&mut other.host, 4),
        2 => (&mut other.port, 3),
        3 => (&mut other.tls, 4),
        4 => (&mut other.unix, 3),
        5 => (&mut other.proxy, 6),
        6 => (&mut other.local, 3),
        7 => (&mut other.interface, 3),
        _ => (&mut other.keep_alive, 3),
    };
    *knob = to % choices;
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn keys_are_equal_if_and_only_if_nothing_that_matters_differs(
        a in knobs(), which in 0..9_usize, to in 0..12_usize, x in rest(), y in rest(),
    ) {
        let b = turned(a, which, to);
        let same = a.matters() == b.matters();
        let (first, second) = (a.request(x), b.request(y));
        prop_assert_eq!(first.key() == second.key(), same, "{:?} {:?}", first.key(), second.key());
    }

    /// The pool follows the keys, where there is neither TLS nor a tunnel.
    #[test]
    fn a_connection_is_used_again_if_and_only_if_nothing_that_matters_differs(
        mut a in knobs(), which in 0..9_usize, to in 0..12_usize, x in rest(), y in rest(),
    ) {
        (a.scheme, a.proxy) = (0, a.proxy % 4);
        let mut b = turned(a, which, to);
        (b.scheme, b.proxy) = (0, b.proxy % 4);
        let same = a.matters() == b.matters();
        prop_assert_eq!(uses_one_connection(&a.request(x), &b.request(y)), same);
    }
}

/// Over TLS, HTTP/2 is negotiated if ALPN has it. HTTP/2 has no upgrade.
#[test]
fn protocol_of_the_key_follows_tls_and_upgrade() {
    use Protocol::{Http1, Http2, Negotiated};
    let (both, only_http1) = (&TLS[0], &TLS[3]);
    for (url, protocol, tls, upgrades, expected) in [
        ("http://a/", Negotiated, both, false, Http1),
        ("http://a/", Http2, both, false, Http2),
        ("http://a/", Http2, both, true, Http1),
        ("http://a/", Http1, both, false, Http1),
        ("https://a/", Negotiated, both, false, Negotiated),
        ("https://a/", Http2, both, false, Negotiated),
        ("https://a/", Http1, both, false, Http1),
        ("https://a/", Negotiated, both, true, Http1),
        ("https://a/", Http2, both, true, Http1),
        ("https://a/", Negotiated, only_http1, false, Http1),
        ("https://a/", Http2, only_http1, false, Http1),
    ] {
        let options = Options { protocol, tls: Some(tls.clone()), ..Options::default() };
        let request = Request::get(url).options(options.into());
        let request = if upgrades { request.header("Upgrade", b"odd") } else { request };
        let request = request.build().expect("a request");
        assert_eq!(request.key().protocol, expected, "{url} {protocol:?} upgrades: {upgrades}");
    }
}

/// One pair for each knob: none is forgotten by chance.
#[test]
fn every_single_difference_prevents_reuse() {
    let plain = Knobs {
        scheme: 1,
        host: 0,
        port: 0,
        tls: 0,
        unix: 0,
        proxy: 0,
        local: 0,
        interface: 0,
        keep_alive: 0,
    };
    let rest = UnkeyedParts { path: 0, method: 0, options: 0 };
    for which in 0..9 {
        let other = turned(plain, which, if which == 0 { 0 } else { 1 });
        assert_ne!(plain.request(rest).key(), other.request(rest).key(), "knob {which}");
    }
    assert_eq!(plain.request(rest).key(), plain.request(rest).key());
    // The same port, with and without TLS.
    let secure = Request::get("https://a.example:8443/").build().unwrap();
    let open = Request::get("http://a.example:8443/").build().unwrap();
    assert_ne!(secure.key(), open.key());
}

/// Counts what is over.
#[derive(Debug, Default)]
struct EndedTransfers(usize);

impl Application for EndedTransfers {
    fn handle(&mut self, _: &mut Context<'_>, _: TransferId, event: TransferEvent<'_>) {
        if let TransferEvent::Done(done) = event {
            assert!(done.result.is_ok(), "{done:?}");
            self.0 += 1;
        }
    }
}

/// One request after the other, in a world where everything succeeds.
fn uses_one_connection(first: &Request, second: &Request) -> bool {
    let now = *NOW;
    let mut client =
        Client::new(now, SystemTime::UNIX_EPOCH, EndedTransfers::default(), Config::default());
    for (nth, request) in [first, second].into_iter().enumerate() {
        client.start(now, request);
        let mut asked = serve(&mut client, now);
        while let Some(socket) = asked.pop() {
            let answer: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
            let mut bytes = BytesMut::from(answer);
            client.handle(now, SocketEvent::Input(Input::all(&mut bytes, false)).of(socket));
            asked.extend(serve(&mut client, now));
        }
        assert_eq!(client.application().0, nth + 1);
    }
    client.stats().connections == 1
}

/// Executes the actions; returns the sockets on which a request was sent.
fn serve(client: &mut Client<EndedTransfers>, now: Instant) -> Vec<SocketId> {
    let mut asked = Vec::new();
    while let Some(action) = client.poll_action() {
        match action {
            Action::Resolve { lookup, .. } => {
                let addresses = [IpAddr::from(Ipv4Addr::LOCALHOST)];
                client.handle(now, DriverEvent::Resolved(lookup, Ok(&addresses)));
            }
            Action::Connect { socket, .. } => client.handle(now, SocketEvent::Connected.of(socket)),
            Action::Transmit { socket } => {
                let sent = client.poll_transmit(socket).map_or(0, |sent| {
                    let segments = sent.segments.iter().map(fulmar_proto::Segment::len);
                    sent.inline.len() as u64 + segments.sum::<u64>()
                });
                client.handle(now, SocketEvent::Sent(sent).of(socket));
                asked.push(socket);
            }
            _ => {}
        }
    }
    asked
}

#[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Options of the socket and the first bytes of a connection bind it, too.
#[test]
fn options_of_sockets_separate_connections() {
    let request = |options: Options| {
        let request = Request::get("http://a.test/").options(Arc::new(options));
        request.build().expect("a request")
    };
    let usual = || request(Options::default());
    assert_eq!(usual().key(), usual().key());
    for options in [
        Options { proxy_header: true, ..Options::default() },
        Options { nagle: true, ..Options::default() },
        Options { fast_open: true, ..Options::default() },
        Options { address_scope: 1, ..Options::default() },
    ] {
        assert_ne!(request(options.clone()).key(), usual().key(), "{options:?}");
        assert_eq!(request(options.clone()).key(), request(options).key());
    }
}
