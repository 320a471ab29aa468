//! Connections of HTTP/2 that serve several origins (RFC 9113 §9.1.1).

use std::sync::Arc;
use std::time::Duration;

use fulmar_client::{
    Client, Config, Error, Options, Protocol, Request, RequestBody, TransferEvent, TransferId,
    VerbatimHead,
};
use fulmar_names::{Names, Overrides};
use fulmar_proto::h2::ErrorCode;
use fulmar_sys as sys;
use fulmar_tests::certs::Certs;
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::http2_server::{Http2Request, Http2Step, ScriptedHttp2};
use fulmar_tests::https::{Https, client_tls, trusting};
use fulmar_tests::in_every_loop;
use fulmar_tests::loops::{Loop, OwnLoop};
use fulmar_tests::process::PATIENCE;
use fulmar_tests::transfers::{ClientLoop, TransferRecorder};
use fulmar_tls::{ClientOptions, ClientTls, HTTP1, Identity, ServerOptions, ServerTls, Verify};

/// All names are those of loopback, with two exceptions.
fn names() -> Box<Names> {
    let mut overrides = Overrides::default();
    for text in ["*:1:127.0.0.1", "far.example:1:127.0.0.2", "both.example:1:127.0.0.2,127.0.0.1"] {
        overrides.add(text).expect("an override");
    }
    Box::new(Names::new(fulmar_names::Options { overrides, ..Default::default() }))
}

/// A certificate with most names of these tests.
fn common(certs: &Certs) -> Identity {
    let names = ["a.example", "b.example", "c.example", "far.example", "both.example"];
    certs.issue("common", &[&names[..], &["*.wild.example"]].concat())
}

fn server_tls(certs: &Certs) -> ServerTls {
    server_tls_with(certs, ServerOptions::default().alpn)
}

fn server_tls_with(certs: &Certs, alpn: Vec<Vec<u8>>) -> ServerTls {
    let identities = vec![common(certs), certs.issue("other", &["other.example"])];
    ServerTls::new(ServerOptions { identities, alpn, ..Default::default() }).expect("certificates")
}

fn with(tls: ClientTls) -> Arc<Options> {
    Options { tls: Some(tls), ..Options::default() }.into()
}

/// A client in a loop of its own, and a scripted server.
struct CoalescingStage {
    client: OwnLoop<Client<TransferRecorder>>,
    peer: ScriptedHttp2,
    certs: Certs,
    options: Arc<Options>,
}

impl CoalescingStage {
    fn new(script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static) -> Self {
        Self::with_config(Config::default(), script)
    }

    fn with_config(
        config: Config,
        script: impl FnMut(&Http2Request) -> Vec<Http2Step> + 'static,
    ) -> Self {
        let certs = Certs::new();
        let recorder = TransferRecorder::default();
        let client = Client::new(sys::now(), sys::wall_clock(), recorder, config);
        let mut client = OwnLoop::by_calls(client).0;
        client.set_resolver(names());
        let peer = ScriptedHttp2::over_tls(server_tls(&certs), script);
        let options = with(client_tls(&certs));
        Self { client, peer, certs, options }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.peer.address().port())
    }

    fn get(&mut self, host: &str, path: &str) -> TransferId {
        let options = self.options.clone();
        self.start("GET", &self.url(host, path), options)
    }

    fn post(&mut self, host: &str, path: &str) -> TransferId {
        let options = self.options.clone();
        self.start("POST", &self.url(host, path), options)
    }

    fn start(&mut self, method: &str, url: &str, options: Arc<Options>) -> TransferId {
        let body = match method {
            "POST" => RequestBody::Bytes("body".into()),
            _ => RequestBody::Empty,
        };
        let request = Request::with_method(method, url).options(options).body(body);
        let request = request.build().expect("a request");
        self.client.0.with(|client, now| client.start(now, &request))
    }

    fn remove(&mut self, id: TransferId) {
        assert!(self.client.0.with(|client, now| client.with(now, |_, it| it.remove(id))));
    }

    /// A few turns of both sides, after which each has received what the other one has sent.
    fn settle(&mut self) {
        for _ in 0..5 {
            self.client.0.turn_within(Duration::from_millis(1)).expect("a turn");
            self.peer.turn();
        }
    }

    fn run_until(&mut self, mut done: impl FnMut(&Client<TransferRecorder>) -> bool) {
        self.run_stage_until(|stage| done(&stage.client.0.engine));
    }

    fn run_stage_until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let start = sys::now();
        while !done(self) {
            assert!(sys::now() - start < PATIENCE, "nothing happens any more: {:?}", self.peer);
            self.client.0.turn_within(Duration::from_millis(1)).expect("a turn");
            self.peer.turn();
        }
    }

    fn run(&mut self) {
        self.run_until(|client| client.running() == 0);
    }

    /// Gets one after the other.
    fn get_each(&mut self, hosts: &[&str]) -> Vec<TransferId> {
        let get = |host: &&str| {
            let id = self.get(host, "/");
            self.run();
            id
        };
        hosts.iter().map(get).collect()
    }

    fn result(&self, id: TransferId) -> Result<&[u8], &Error> {
        let recorder = self.client.0.engine.application();
        recorder.ended(id).result.as_ref().map(|()| recorder.body(id))
    }

    /// The connection of each request to a host, in order.
    fn connections_of(&self, host: &str) -> Vec<usize> {
        let of = self.peer.requests.iter().filter(|it| host_of(it) == host);
        of.map(|it| it.connection).collect()
    }

    /// Closes what is idle: nothing may be left in the pool.
    fn check_end(&mut self) {
        self.client.0.with(Client::close_idle);
        let client = &self.client.0.engine;
        let left = (client.running(), client.connections(), client.origins());
        assert_eq!(left, (0, 0, 0), "transfers, connections, origins");
    }
}

fn host_of(request: &Http2Request) -> &str {
    request.authority.split(':').next().expect("one part at least")
}

/// The body names the host.
fn respond(request: &Http2Request) -> Vec<Http2Step> {
    vec![Http2Step::Respond(host_of(request).into())]
}

#[test]
fn origins_that_a_certificate_covers_share_a_connection() {
    let mut stage = CoalescingStage::new(respond);
    let hosts = ["a.example", "b.example", "x.wild.example", "both.example", "b.example"];
    let ids = stage.get_each(&hosts);
    for (id, host) in ids.iter().zip(hosts) {
        assert_eq!(stage.result(*id).expect("a response"), host.as_bytes(), "its own authority");
    }
    let stats = stage.client.0.engine.stats();
    assert_eq!((stage.peer.accepted(), stats.connections, stats.reused), (1, 1, 4));
    stage.check_end();
}

#[test]
fn names_are_coalesced_in_every_loop() {
    fn check<L: ClientLoop>() {
        let certs = Certs::new();
        let server = Https::start_with(server_tls(&certs));
        let port = server.address.port();
        let mut client = ClientInLoop::<L>::new();
        client.client.set_resolver(names());
        let options = Options { tls: Some(client_tls(&certs)), ..Options::default() };
        client.fetch_url(&format!("https://a.example:{port}/bytes/10"), options.clone());
        let ids: Vec<TransferId> = ["a", "b", "c"]
            .into_iter()
            .flat_map(|host| [10, 2_000, 30_000].map(|len| (host, len)))
            .map(|(host, len)| {
                client.get(&format!("https://{host}.example:{port}/bytes/{len}"), options.clone())
            })
            .collect();
        client.run();
        for (id, len) in ids.into_iter().zip([10, 2_000, 30_000].into_iter().cycle()) {
            assert!(client.recorder().ended(id).result.is_ok());
            assert_eq!(client.recorder().body(id).len(), len);
        }
        assert_eq!(client.client.engine().stats().connections, 1);
    }
    in_every_loop!(check);
}

/// With resumption there is no certificate in the second handshake: the first one counts.
#[test]
fn a_resumed_session_has_the_names_of_its_certificate() {
    let mut stage = CoalescingStage::new(respond);
    stage.get_each(&["a.example"]);
    stage.check_end();
    stage.get_each(&["a.example", "b.example", "other.example"]);
    assert_eq!(stage.connections_of("b.example"), [1]);
    assert_eq!(stage.connections_of("other.example"), [2], "another certificate");
    stage.check_end();
}

#[test]
fn addresses_in_urls_are_names_of_certificates_too() {
    let certs = Certs::new();
    let server = Https::start(&certs, fulmar_tests::certs::CertOwner::Server);
    let port = server.address.port();
    let mut client = ClientInLoop::<OwnLoop<Client<TransferRecorder>>>::new();
    client.client.set_resolver(names());
    let options = Options { tls: Some(client_tls(&certs)), ..Options::default() };
    for host in ["test.example", "127.0.0.1", "localhost"] {
        let done = client.fetch_url(&format!("https://{host}:{port}/bytes/1"), options.clone());
        assert!(done.result.is_ok(), "{host}: {done:?}");
    }
    assert_eq!(client.client.engine().stats().connections, 1);
}

/// Whatever the key has besides the host keeps connections apart, and so does a certificate
/// without the name.
#[test]
fn other_properties_prevent_coalescing() {
    let mut stage = CoalescingStage::new(respond);
    stage.get_each(&["a.example", "other.example"]);
    assert_eq!((stage.peer.accepted(), stage.connections_of("other.example")), (2, vec![1]));
    let tls = stage.options.tls.clone();
    let usual = || Options { tls: tls.clone(), ..Options::default() };
    let changed = [
        Options { tls: Some(client_tls(&stage.certs)), ..usual() },
        Options { local: Some(([127, 0, 0, 1], 0).into()), ..usual() },
        Options { protocol: Protocol::Http1, ..usual() },
        Options { leniency: fulmar_proto::h1::Leniency::default(), ..usual() },
        Options { addresses: Some([stage.peer.address()].into()), ..usual() },
    ];
    assert_ne!(changed[3].leniency, usual().leniency);
    for (n, options) in changed.into_iter().enumerate() {
        let id = stage.start("GET", &stage.url("b.example", "/"), options.into());
        stage.run();
        assert_eq!(stage.result(id).expect("a response"), b"b.example");
        assert_eq!(stage.peer.accepted(), 3 + n, "option {n}");
    }
    stage.get_each(&["b.example"]);
    assert_eq!(stage.connections_of("b.example").last(), Some(&0), "the usual options");
    stage.check_end();
}

/// Over TLS both protocols are negotiated.
#[test]
fn http2_by_option_coalesces_with_negotiated_http2() {
    let mut stage = CoalescingStage::new(respond);
    stage.get_each(&["a.example"]);
    let tls = stage.options.tls.clone();
    let options = Options { tls, protocol: Protocol::Http2, ..Options::default() };
    for host in ["b.example", "a.example"] {
        let id = stage.start("GET", &stage.url(host, "/"), options.clone().into());
        stage.run();
        assert_eq!(stage.result(id).expect("a response"), host.as_bytes());
    }
    assert_eq!((stage.peer.accepted(), stage.peer.requests.len()), (1, 3));
    stage.check_end();
}

/// Neither by an origin that is not coalesced yet, nor by one that is.
#[test]
fn fresh_connections_are_not_coalesced() {
    let mut stage = CoalescingStage::new(respond);
    stage.get_each(&["a.example", "c.example"]);
    let tls = stage.options.tls.clone();
    let fresh = Options { tls, fresh_connection: true, ..Options::default() };
    for (host, count) in [("b.example", 2), ("c.example", 3)] {
        let id = stage.start("GET", &stage.url(host, "/"), fresh.clone().into());
        stage.run();
        assert_eq!(stage.result(id).expect("a response"), host.as_bytes());
        assert_eq!(stage.peer.accepted(), count, "{host}");
    }
    assert_eq!(stage.connections_of("b.example"), [1]);
    assert_eq!(stage.connections_of("c.example"), [0, 2]);
    stage.check_end();
}

/// The name has an address on which nothing listens. It does not matter.
#[test]
fn given_addresses_replace_those_of_the_name() {
    let mut stage = CoalescingStage::new(respond);
    let tls = stage.options.tls.clone();
    let addresses = Some([stage.peer.address()].into());
    stage.options = Options { tls, addresses, ..Options::default() }.into();
    let ids = stage.get_each(&["a.example", "far.example", "other.example"]);
    for id in ids {
        stage.result(id).expect("a response");
    }
    assert_eq!(stage.connections_of("far.example"), [0]);
    assert_eq!(stage.connections_of("other.example"), [1], "another certificate");
    stage.check_end();
}

#[test]
fn another_port_has_a_connection_of_its_own() {
    let mut stage = CoalescingStage::new(respond);
    let mut other = ScriptedHttp2::over_tls(server_tls(&stage.certs), respond);
    stage.get_each(&["a.example"]);
    let url = format!("https://b.example:{}/", other.address().port());
    let options = stage.options.clone();
    let id = stage.start("GET", &url, options);
    stage.run_stage_until(|stage| {
        other.turn();
        stage.client.0.engine.running() == 0
    });
    assert_eq!(stage.result(id).expect("a response"), b"b.example");
    assert_eq!((stage.peer.requests.len(), other.requests.len()), (1, 1));
}

/// Nothing listens on the address of the name, although the certificate has the name.
#[test]
fn names_of_other_addresses_are_not_coalesced() {
    let mut stage = CoalescingStage::new(respond);
    let ids = stage.get_each(&["a.example", "far.example"]);
    assert!(matches!(stage.result(ids[1]), Err(Error::Connect(_))));
    assert_eq!((stage.peer.accepted(), stage.peer.requests.len()), (1, 1));
    stage.check_end();
}

/// Without it any server could present a certificate with any name.
#[test]
fn only_a_certificate_that_was_verified_in_full_coalesces() {
    let certs = Certs::new();
    let identity = common(&certs);
    for options in [
        ClientOptions { verify: Verify::Nothing, ..trusting(&certs) },
        ClientOptions { verify: Verify::Chain, ..trusting(&certs) },
        ClientOptions { server_name: Some("a.example".into()), ..trusting(&certs) },
    ] {
        let mut stage = CoalescingStage::new(respond);
        let server = ServerTls::new(identity.clone().into()).expect("a certificate");
        stage.peer = ScriptedHttp2::over_tls(server, respond);
        stage.options = with(ClientTls::new(options.clone()).expect("an authority"));
        stage.get_each(&["a.example", "b.example"]);
        assert_eq!((stage.peer.accepted(), stage.peer.requests.len()), (2, 2), "{options:?}");
        stage.check_end();
    }
}

#[test]
fn coalescing_can_be_switched_off() {
    let config = Config { coalescing: false, ..Config::default() };
    let mut stage = CoalescingStage::with_config(config, respond);
    stage.get_each(&["a.example", "b.example", "a.example"]);
    assert_eq!((stage.peer.accepted(), stage.connections_of("a.example")), (2, vec![0, 0]));
    stage.check_end();
}

/// The server has chosen HTTP/1.1 for the name before.
#[test]
fn an_origin_of_http1_is_not_coalesced() {
    let mut stage = CoalescingStage::new(|request| match &*request.path {
        "/slow" => Vec::new(),
        _ => respond(request),
    });
    let both = stage.peer.tls.replace(server_tls_with(&stage.certs, vec![HTTP1.to_vec()]));
    stage.get_each(&["b.example"]);
    stage.peer.tls = both;
    stage.get_each(&["a.example", "b.example"]);
    assert_eq!(stage.connections_of("b.example"), [0, 0]);
    let slow = stage.get("b.example", "/slow");
    stage.run_stage_until(|stage| stage.peer.count("/slow") == 1);
    stage.get("b.example", "/");
    stage.run_until(|client| client.running() == 1);
    assert_eq!(stage.connections_of("b.example"), [0, 0, 0, 2]);
    stage.remove(slow);
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// The other connection is full, and the server chooses HTTP/1.1 for the origin's own one.
#[test]
fn an_origin_that_turns_out_to_be_one_of_http1_is_not_coalesced_any_more() {
    let mut stage = narrow(Config::default(), 1);
    stage.get_each(&["a.example", "b.example"]);
    let both = stage.peer.tls.replace(server_tls_with(&stage.certs, vec![HTTP1.to_vec()]));
    let slow = ["a.example", "b.example"].map(|host| {
        let slow = stage.get(host, "/slow");
        let count = stage.peer.count("/slow");
        stage.run_stage_until(|stage| stage.peer.count("/slow") > count);
        slow
    });
    assert_eq!(stage.connections_of("b.example"), [0, 1]);
    stage.peer.tls = both;
    stage.remove(slow[0]);
    stage.settle();
    let next = stage.get("b.example", "/");
    stage.run_until(|client| client.running() == 1);
    assert_eq!(stage.result(next).expect("a response"), b"b.example");
    assert_eq!(stage.connections_of("b.example"), [0, 1, 2], "the first one is free");
    stage.remove(slow[1]);
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// The other connection is full, and the origin's own ones fail until a stream is free.
#[test]
fn an_origin_without_a_connection_may_be_coalesced_after_a_failure() {
    let mut stage = narrow(Config { per_host_max: 1, ..Config::default() }, 1);
    stage.get_each(&["a.example"]);
    let slow = stage.get("a.example", "/slow");
    stage.run_stage_until(|stage| stage.peer.count("/slow") == 1);
    let other = stage.certs.issue("another", &["another.example"]);
    stage.peer.tls = Some(ServerTls::new(other.into()).expect("a certificate"));
    let ids: Vec<_> = (0..8).map(|_| stage.get("b.example", "/")).collect();
    stage.run_until(|client| client.running() < 9);
    assert!(stage.result(ids[0]).is_err());
    stage.remove(slow);
    stage.run();
    assert!(ids.iter().any(|id| stage.result(*id).is_ok()), "one that found a free stream");
    assert!(stage.connections_of("b.example").iter().all(|at| *at == 0));
    stage.check_end();
}

/// RFC 9110 §15.5.20. The origin's connection is one of HTTP/2 that all its requests share.
#[test]
fn an_origin_is_not_coalesced_again_after_421() {
    let mut stage = CoalescingStage::new(|request| match (request.connection, host_of(request)) {
        (0, "b.example") => vec![Http2Step::Status(421)],
        _ => respond(request),
    });
    stage.get_each(&["a.example"]);
    let ids = [stage.get("b.example", "/"), stage.post("b.example", "/")];
    stage.run();
    for id in ids {
        assert_eq!(stage.result(id).expect("a response"), b"b.example");
        let done = stage.client.0.engine.application().ended(id);
        assert_eq!(done.hops.iter().map(|hop| hop.status).collect::<Vec<_>>(), [421]);
    }
    assert_eq!(stage.connections_of("b.example"), [0, 0, 1, 1]);
    stage.get_each(&["b.example", "c.example", "b.example"]);
    assert_eq!(stage.connections_of("b.example"), [0, 0, 1, 1, 1, 1]);
    assert_eq!((stage.connections_of("c.example"), stage.peer.accepted()), (vec![0], 2));
    stage.check_end();
}

/// Its own connection is one of HTTP/1.1, and is closed.
#[test]
fn an_origin_of_http1_is_not_coalesced_again_after_421() {
    let mut stage = CoalescingStage::new(|request| match (request.connection, host_of(request)) {
        (0, "b.example") => vec![Http2Step::Status(421)],
        (1, _) => vec![Http2Step::Respond(b"b.example".to_vec()), Http2Step::Close],
        _ => respond(request),
    });
    stage.get_each(&["a.example"]);
    stage.peer.tls = Some(server_tls_with(&stage.certs, vec![HTTP1.to_vec()]));
    stage.get_each(&["b.example"]);
    stage.run_until(|client| client.connections() == 1);
    stage.get_each(&["b.example"]);
    assert_eq!(stage.connections_of("b.example"), [0, 1, 2]);
    stage.check_end();
}

/// Each 421 to such a request is delivered. The next one uses a connection of the origin.
#[test]
fn an_origin_is_not_coalesced_again_after_421_to_a_verbatim_head() {
    let mut stage = CoalescingStage::new(|request| match (request.connection, host_of(request)) {
        (0, "b.example") => vec![Http2Step::Status(421)],
        _ => respond(request),
    });
    stage.get_each(&["a.example"]);
    for (status, connections) in [(421, &[0][..]), (200, &[0, 1]), (200, &[0, 1, 1])] {
        let url = stage.url("b.example", "/");
        let head = VerbatimHead::new("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n").expect("a head");
        let request = Request::with_verbatim_head(&url, head).options(stage.options.clone());
        let request = request.build().expect("a request");
        let id = stage.client.0.with(|client, now| client.start(now, &request));
        stage.run();
        let done = stage.client.0.engine.application().ended(id);
        assert!(done.result.is_ok() && done.hops.is_empty(), "{done:?}");
        assert_eq!((done.status, &stage.connections_of("b.example")[..]), (status, connections));
    }
    stage.get_each(&["a.example", "b.example"]);
    assert_eq!((stage.connections_of("a.example"), stage.peer.accepted()), (vec![0, 0], 2));
    stage.check_end();
}

#[test]
fn a_421_on_its_own_connection_is_delivered() {
    let mut stage = CoalescingStage::new(|request| match host_of(request) {
        "b.example" => vec![Http2Step::Status(421)],
        _ => respond(request),
    });
    let ids = stage.get_each(&["a.example", "b.example"]);
    let done = stage.client.0.engine.application().ended(ids[1]);
    assert!(done.result.is_ok() && done.status == 421 && done.hops.len() == 1, "{done:?}");
    assert_eq!(stage.connections_of("b.example"), [0, 1]);
    stage.check_end();
}

/// RFC 9113 §6.8: both origins send again what was not processed.
#[test]
fn goaway_moves_the_transfers_of_all_origins() {
    let mut stage = CoalescingStage::new(|request| match (request.connection, &*request.path) {
        (0, "/last") => vec![Http2Step::GoAway(request.stream)],
        (0, "/behind") => Vec::new(),
        _ => respond(request),
    });
    stage.get_each(&["a.example", "b.example"]);
    let last = stage.get("b.example", "/last");
    let behind = ["a.example", "b.example"]
        .map(|host| [stage.post(host, "/behind"), stage.get(host, "/behind")]);
    stage.run_until(|client| client.running() == 1);
    for (ids, host) in behind.iter().zip(["a.example", "b.example"]) {
        for id in ids {
            assert_eq!(stage.result(*id).expect("a response"), host.as_bytes());
        }
    }
    stage.remove(last);
    stage.run_until(|client| client.connections() == client.idle_connections());
    let connections = stage.peer.accepted();
    assert!((2..=3).contains(&connections), "{connections}");
    stage.check_end();
}

/// Idempotent requests are sent again, others fail: whichever origin they are of.
#[test]
fn a_lost_connection_is_lost_for_all_origins() {
    let mut stage = CoalescingStage::new(|request| match (request.connection, &*request.path) {
        (0, "/close") => vec![Http2Step::Close],
        (0, "/wait") => Vec::new(),
        _ => respond(request),
    });
    stage.get_each(&["a.example", "b.example"]);
    let hosts = ["a.example", "b.example"];
    let gets = hosts.map(|host| stage.get(host, "/wait"));
    let posts = hosts.map(|host| stage.post(host, "/wait"));
    stage.run_stage_until(|stage| stage.peer.count("/wait") == 4);
    let last = stage.get("b.example", "/close");
    stage.run();
    for (id, host) in gets.into_iter().zip(hosts) {
        assert_eq!(stage.result(id).expect("a response"), host.as_bytes());
        assert!(stage.client.0.engine.application().ended(id).retried);
    }
    for id in posts {
        assert!(stage.result(id).is_err());
    }
    assert!(stage.result(last).is_ok());
    stage.check_end();
}

#[test]
fn a_removed_transfer_of_a_coalesced_origin_resets_its_stream_only() {
    let config = Config { per_host_active: Some(1), ..Config::default() };
    let mut stage = CoalescingStage::with_config(config, |request| match &*request.path {
        "/slow" => vec![Http2Step::Begin(b"begun".to_vec())],
        _ => respond(request),
    });
    stage.get_each(&["a.example", "b.example"]);
    let [home, coalesced] = ["a.example", "b.example"].map(|host| stage.get(host, "/slow"));
    let next = stage.get("b.example", "/next");
    let begun = |client: &Client<TransferRecorder>, id| client.application().body(id) == b"begun";
    stage.run_until(|client| begun(client, home) && begun(client, coalesced));
    assert_eq!(stage.peer.count("/next"), 0, "its host has one request at a time");
    stage.remove(coalesced);
    stage.run_until(|client| client.running() == 1);
    assert_eq!(stage.result(next).expect("a response"), b"b.example");
    stage.run_stage_until(|stage| !stage.peer.resets.is_empty());
    let reset = stage.peer.resets[0];
    assert_eq!((reset.0, reset.2), (0, ErrorCode::Cancel));
    stage.remove(home);
    assert_eq!(stage.peer.accepted(), 1);
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// A server that accepts two streams at a time.
fn narrow(config: Config, streams: u32) -> CoalescingStage {
    let mut stage = CoalescingStage::with_config(config, |request| match &*request.path {
        "/slow" => Vec::new(),
        _ => respond(request),
    });
    stage.peer.greeting = vec![Http2Step::StreamsMax(streams)];
    stage
}

#[test]
fn an_origin_opens_its_own_connection_if_the_other_one_is_full() {
    let mut stage = narrow(Config::default(), 2);
    stage.get_each(&["a.example", "b.example"]);
    let slow = [stage.get("a.example", "/slow"), stage.get("b.example", "/slow")];
    let next = stage.get("b.example", "/");
    stage.run_until(|client| client.running() == 2);
    assert_eq!(stage.result(next).expect("a response"), b"b.example");
    assert_eq!(stage.connections_of("b.example"), [0, 0, 1]);
    for id in slow {
        stage.remove(id);
    }
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// The client may open one connection only. It is not closed for the coalesced origin either.
#[test]
fn coalesced_origins_wait_for_free_streams() {
    let mut stage = narrow(Config { connections_max: 1, ..Config::default() }, 2);
    stage.get_each(&["a.example"]);
    let hosts = ["b.example", "a.example", "c.example"];
    let ids: Vec<_> = hosts.into_iter().cycle().take(60).map(|host| stage.get(host, "/")).collect();
    stage.run();
    for (id, host) in ids.into_iter().zip(hosts.into_iter().cycle()) {
        assert_eq!(stage.result(id).expect("a response"), host.as_bytes());
    }
    assert_eq!((stage.peer.accepted(), stage.peer.requests.len()), (1, 61));
    stage.check_end();
}

/// The client may open one connection only, and one of its streams stays. The other origin is new
/// when the connection is full.
#[test]
fn a_new_origin_waits_for_a_stream_of_a_full_connection() {
    let mut stage = narrow(Config { connections_max: 1, ..Config::default() }, 2);
    stage.get_each(&["a.example"]);
    let [stays, ends] = [stage.get("a.example", "/slow"), stage.get("a.example", "/slow")];
    stage.run_stage_until(|stage| stage.peer.count("/slow") == 2);
    let next = stage.get("b.example", "/");
    stage.settle(); // until it waits for a stream
    stage.remove(ends);
    stage.run_until(|client| client.running() == 1);
    assert_eq!(stage.result(next).expect("a response"), b"b.example");
    assert_eq!(stage.peer.accepted(), 1);
    stage.remove(stays);
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// The other origins wait for a connection while the only one is being opened.
#[test]
fn waiting_origins_are_coalesced_onto_a_new_connection() {
    let mut stage = narrow(Config { connections_max: 1, ..Config::default() }, 100);
    let stays = stage.get("a.example", "/slow");
    let ids = ["b.example", "c.example"].map(|host| stage.get(host, "/"));
    stage.run_until(|client| client.running() == 1);
    for id in ids {
        stage.result(id).expect("a response");
    }
    assert_eq!(stage.peer.accepted(), 1);
    stage.remove(stays);
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
}

/// Each connection made the origins that waited try it, and lose their places.
#[test]
fn origins_of_other_certificates_are_served_in_the_order_of_waiting() {
    let config = Config { connections_max: 1, ..Config::default() };
    let mut stage = CoalescingStage::with_config(config, respond);
    let hosts: Vec<String> = (0..20).map(|n| format!("n{n}.alone.example")).collect();
    let issue = |host: &String| stage.certs.issue(host, &[host]);
    let identities = hosts.iter().map(issue).collect();
    let tls = ServerTls::new(ServerOptions { identities, ..Default::default() });
    stage.peer = ScriptedHttp2::over_tls(tls.expect("certificates"), respond);
    for host in &hosts {
        stage.get(host, "/");
    }
    stage.run();
    let served: Vec<&str> = stage.peer.requests.iter().map(host_of).collect();
    assert_eq!(served, hosts);
    stage.check_end();
}

/// Many requests of one origin do not delay the few of another one.
#[test]
fn origins_of_a_connection_take_turns() {
    let mut stage = narrow(Config { connections_max: 1, ..Config::default() }, 1);
    stage.get_each(&["a.example", "b.example", "c.example"]);
    let slow = stage.get("a.example", "/slow");
    stage.run_stage_until(|stage| stage.peer.count("/slow") == 1);
    for (host, count) in [("a.example", 6), ("b.example", 3), ("c.example", 2)] {
        for _ in 0..count {
            stage.get(host, "/");
        }
    }
    stage.settle(); // until they wait for a stream
    stage.remove(slow);
    stage.run();
    let order: String = stage.peer.requests[4..].iter().map(|it| &host_of(it)[..1]).collect();
    let mut first: Vec<char> = order[..6].chars().collect();
    first.sort_unstable();
    assert_eq!(first, ['a', 'a', 'b', 'b', 'c', 'c'], "{order}");
    assert_eq!((order.len(), stage.peer.accepted()), (11, 1));
    stage.check_end();
}

/// The client restarts each transfer of one origin as it ends, in the same event. The connection
/// is of `a.example`, the only one that the client may open, or it may open one for each host.
#[test]
fn an_origin_that_always_has_requests_does_not_starve_the_others() {
    let one = Config { connections_max: 1, ..Config::default() };
    let one_each = Config { per_host_max: 1, ..Config::default() };
    for config in [one, one_each] {
        for (busy, other) in [("a.example", "b.example"), ("b.example", "a.example")] {
            let place = place_beside(config.clone(), busy, other);
            assert!(place <= 6, "{other} had to wait for {place} requests of {busy}: {config:?}");
        }
    }
}

/// The number of requests before the last of three to `other`.
fn place_beside(config: Config, busy: &'static str, other: &str) -> usize {
    let has_own = config.connections_max > 1;
    let mut stage = narrow(config, 1);
    stage.get_each(&["a.example", "b.example"]);
    let mut slow = vec![stage.get("a.example", "/slow")];
    stage.run_stage_until(|stage| stage.peer.count("/slow") == 1);
    if has_own {
        // Its own connection is in use, too: only the shared one becomes free.
        slow.push(stage.get("b.example", "/slow"));
        stage.run_stage_until(|stage| stage.peer.count("/slow") == 2);
        stage.settle(); // until SETTINGS have arrived
    }
    let recorder = stage.client.0.engine.application_mut();
    let mut left = 30;
    recorder.act = Some(Box::new(move |context, _, event| {
        if let TransferEvent::Done(done) = event
            && done.request.url().host_str() == Some(busy)
            && left > 0
        {
            left -= 1;
            context.start(&done.request);
        }
    }));
    for host in [busy, busy, other, other, other] {
        stage.get(host, "/");
    }
    stage.settle(); // until they wait for a stream
    stage.remove(slow[0]);
    stage.run_until(|client| client.running() == slow.len() - 1);
    let before = slow.len() + 2;
    assert_eq!(stage.peer.requests.len(), before + 32 + 3);
    let mut requests = stage.peer.requests[before..].iter();
    let place = requests.rposition(|request| host_of(request) == other).expect("it was sent");
    if has_own {
        stage.remove(slow[1]);
    }
    stage.run_until(|client| client.connections() == client.idle_connections());
    stage.check_end();
    place
}

/// An origin without transfers makes room for another one.
#[test]
fn many_origins_share_one_connection() {
    let mut stage = CoalescingStage::new(respond);
    let hosts: Vec<String> = (0..300).map(|n| format!("host-{n}.wild.example")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    stage.get_each(&hosts);
    assert_eq!((stage.peer.accepted(), stage.peer.requests.len()), (1, 300));
    let origins = stage.client.0.engine.origins();
    assert!((100..=130).contains(&origins), "memory is bounded: {origins}");
    let ids: Vec<_> = hosts.iter().map(|host| stage.get(host, "/")).collect();
    stage.run();
    assert!(ids.into_iter().all(|id| stage.result(id).is_ok()));
    stage.check_end();
}

/// The connection is idle when another origin needs its place: all origins lose it.
#[test]
fn an_idle_connection_is_closed_for_another_origin() {
    let mut stage =
        CoalescingStage::with_config(Config { connections_max: 1, ..Config::default() }, respond);
    stage.get_each(&["a.example", "b.example", "other.example"]);
    let client = &stage.client.0.engine;
    assert_eq!((client.connections(), client.origins()), (1, 1));
    stage.get_each(&["b.example", "a.example"]);
    assert_eq!(
        (stage.connections_of("b.example"), stage.connections_of("a.example")),
        (vec![0, 2], vec![0, 2])
    );
    stage.check_end();
}
