//! Client identity: cookies, and responses to authentication challenges.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulmar_client::{Client, Done, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_semantics::auth::{self, Authorization, Credentials};
use fulmar_semantics::cookies::{Jar, JarLimits};
use fulmar_semantics::netrc::Netrc;
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_semantics::redirect::Policy;
use fulmar_sys as sys;
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::loops::{AppLoop, Bytewise, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn is_ok(done: &Done) -> &Done {
    assert!(done.result.is_ok(), "{done:?}");
    done
}

/// A server that sets the cookie of the query, whatever its host name: to be used as a proxy, so
/// that host names need no resolver.
fn cookie_server() -> ThreadedServer {
    ThreadedServer::start(|asked| {
        let url = url::Url::parse(&asked.target).or_else(|_| {
            url::Url::parse("http://127.0.0.1/").and_then(|base| base.join(&asked.target))
        });
        let set = |(_, value): (_, std::borrow::Cow<'_, str>)| format!("Set-Cookie: {value}\r\n");
        answer(200, &url.unwrap().query_pairs().map(set).collect::<String>(), "")
    })
}

fn via(server: &ThreadedServer) -> Options {
    let proxy = ProxyUrl::parse(&server.url("")).unwrap();
    let settings = Settings { http: Some(proxy), ..Settings::default() };
    Options { proxies: Some(settings.into()), ..Options::default() }
}

fn with_jar<L: Loop<Engine = Client<TransferRecorder>>>() -> ClientInLoop<L> {
    let mut client = ClientInLoop::<L>::new();
    client.client.with(|client, _| client.set_cookies(Some(Jar::new(JarLimits::default()))));
    client
}

/// The Cookie field that the client sent with the request of `url`.
fn cookies<L: Loop<Engine = Client<TransferRecorder>>>(
    client: &mut ClientInLoop<L>,
    server: &ThreadedServer,
    url: &str,
) -> Option<String> {
    is_ok(client.fetch_url(url, via(server)));
    server.requests().pop().unwrap().field("cookie").map(str::to_owned)
}

#[test]
fn cookies_go_back_where_they_belong() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = cookie_server();
        let mut client = with_jar::<L>();
        let mut asked = |url: &str| cookies(&mut client, &server, url);
        assert_eq!(asked("http://www.example.com/?c=a%3D1"), None);
        assert_eq!(asked("http://www.example.com/").as_deref(), Some("a=1"));
        assert_eq!(asked("http://www.example.com:81/x").as_deref(), Some("a=1"), "no ports");
        assert_eq!(asked("http://other.example.com/"), None, "of this host only");
        asked("http://www.example.com/?c=d%3D2%3B+Domain%3Dexample.com");
        assert_eq!(asked("http://other.example.com/").as_deref(), Some("d=2"));
        assert_eq!(asked("http://example.org/"), None);
        asked("http://www.example.com/?c=p%3D3%3B+Path%3D%2Fdir");
        assert_eq!(asked("http://www.example.com/dir/x").as_deref(), Some("p=3; a=1; d=2"));
        assert_eq!(asked("http://www.example.com/directory").as_deref(), Some("a=1; d=2"));
        // Refused: for every host, for another host, and a cookie that only TLS may set.
        for cookie in ["x%3D1%3B+Domain%3Dcom", "x%3D1%3B+Domain%3Dexample.org", "x%3D1%3B+Secure"]
        {
            asked(&format!("http://www.example.com/?c={cookie}"));
        }
        assert_eq!(asked("http://www.example.com/").as_deref(), Some("a=1; d=2"));
        asked("http://www.example.com/?c=a%3D%3B+Max-Age%3D0&c=d%3D4%3B+Domain%3Dexample.com");
        assert_eq!(asked("http://www.example.com/").as_deref(), Some("d=4"));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn no_cookies_without_a_jar_or_when_disabled() {
    let server = cookie_server();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    client.fetch_url(&server.url("/?c=a%3D1"), Options::default());
    assert!(client.client.engine().cookies().is_none());
    let mut client = with_jar::<OwnLoop<_>>();
    let none = || Options { cookies: false, ..Options::default() };
    client.fetch_url(&server.url("/?c=a%3D1"), none());
    assert!(client.client.engine().cookies().unwrap().is_empty());
    client.fetch_url(&server.url("/?c=a%3D1"), Options::default());
    client.fetch_url(&server.url("/"), none());
    assert_eq!(server.requests().pop().unwrap().field("cookie"), None);
    // Fields of the caller have precedence.
    let own = Request::get(&server.url("/")).header("Cookie", b"own=1").build().unwrap();
    client.fetch(&own);
    assert_eq!(server.requests().pop().unwrap().field("cookie"), Some("own=1"));
}

#[test]
fn cookies_of_a_redirect_go_with_the_next_request() {
    let server = ThreadedServer::start(|asked| match (&*asked.target, asked.field("cookie")) {
        ("/", None) => answer(302, "Location: /in\r\nSet-Cookie: s=1\r\n", ""),
        ("/in", Some("s=1")) => answer(200, "", ""),
        _ => answer(403, "", ""),
    });
    let mut client = with_jar::<OwnLoop<_>>();
    let options = Options { redirects: Some(Policy::default()), ..Options::default() };
    assert_eq!(is_ok(client.fetch_url(&server.url("/"), options)).status, 200);
}

#[test]
fn a_jar_is_read_from_a_file_and_written_to_one() {
    let server = cookie_server();
    let mut client = with_jar::<OwnLoop<_>>();
    client.fetch_url(&server.url("/?c=kept%3D1%3B+Max-Age%3D1000"), Options::default());
    let mut file = Vec::new();
    let jar = client.client.engine().cookies().unwrap();
    jar.export(sys::wall_clock(), &mut file);
    assert!(String::from_utf8_lossy(&file).contains("kept\t1"));
    let mut jar = Jar::new(JarLimits::default());
    jar.import(sys::wall_clock(), &file).unwrap();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    client.client.with(|client, _| client.set_cookies(Some(jar)));
    client.fetch_url(&server.url("/"), Options::default());
    assert_eq!(server.requests().pop().unwrap().field("cookie"), Some("kept=1"));
}

/// A server that requires a proof, counts nonces, and can forget them.
#[derive(Default)]
struct ChallengingServer {
    /// The counts that each nonce was used with.
    nonces: Mutex<HashMap<String, BTreeSet<u32>>>,
}

const CHALLENGE: &str = "qop=\"auth, auth-int\", algorithm=SHA-256";

impl ChallengingServer {
    fn challenge(&self, stale: bool) -> Vec<u8> {
        let mut nonces = self.nonces.lock().unwrap();
        let nonce = format!("nonce{}", nonces.len());
        let field = format!(
            "WWW-Authenticate: Digest realm=\"r\", nonce=\"{nonce}\", {CHALLENGE}, \
             stale={stale}\r\n"
        );
        nonces.insert(nonce, BTreeSet::new());
        answer(401, &field, "no")
    }

    fn digest(&self, asked: &RequestRecord) -> Vec<u8> {
        let Some(field) = asked.field("authorization") else { return self.challenge(false) };
        let Some(Authorization::Digest(proof)) = Authorization::parse(field.as_bytes()) else {
            return answer(400, "", "");
        };
        let request = auth::AuthRequest {
            method: asked.method.as_bytes(),
            target: asked.target.as_bytes(),
            body: Some(&asked.body),
        };
        let nonce = String::from_utf8_lossy(proof.nonce()).into_owned();
        let right = proof.verify("r", "user", "secret", request);
        {
            let mut nonces = self.nonces.lock().unwrap();
            let uses = nonces.get_mut(&nonce).expect("one of ours");
            if right && uses.len() < FORGOTTEN_AFTER {
                // Requests on several connections may overtake each other.
                let count = proof.count().expect("it counts");
                let fits = (1..=8).contains(&count) && uses.insert(count);
                return if fits { answer(200, "", "welcome") } else { answer(400, "", "") };
            }
        }
        self.challenge(right)
    }
}

/// The number of requests per nonce.
const FORGOTTEN_AFTER: usize = 5;

fn gated() -> ThreadedServer {
    let gate = ChallengingServer::default();
    ThreadedServer::start(move |asked| gate.digest(asked))
}

fn basic() -> ThreadedServer {
    ThreadedServer::start(|asked| match asked.field("authorization") {
        Some("Basic dXNlcjpzZWNyZXQ=") => answer(200, "", "welcome"),
        _ => answer(401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "no"),
    })
}

fn known(password: &str) -> Options {
    let credentials = Credentials::password("user", password).unwrap();
    Options { credentials: Some(credentials.into()), ..Options::default() }
}

#[test]
fn digest_is_challenged_once_and_then_preemptive() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let server = gated();
        let mut client = ClientInLoop::<L>::new();
        let options = Arc::new(known("secret"));
        for n in 0..12 {
            let request = Request::with_method("POST", &server.url(&format!("/{n}?q")))
                .body(RequestBody::Bytes("body".into()))
                .options(Arc::clone(&options));
            let id = client.start(&request.build().unwrap());
            client.run();
            assert_eq!(client.recorder().body(id), b"welcome", "{n}");
            let done = is_ok(client.recorder().ended(id));
            assert_eq!(done.status, 200, "{n}");
            // The first is challenged, and then each one with a nonce that is too old.
            assert_eq!(done.hops.len(), usize::from(n % 5 == 0), "{n}");
            assert_eq!(client.recorder().trace(id), "HdD");
        }
        assert_eq!((server.requests().len(), server.connections()), (15, 1));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn many_at_once_share_a_session() {
    let server = gated();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let options = Arc::new(known("secret"));
    let request = Request::get(&server.url("/")).options(options).build().unwrap();
    let ids: Vec<_> = (0..4).map(|_| client.start(&request)).collect();
    client.run();
    for id in ids {
        assert_eq!(is_ok(client.recorder().ended(id)).status, 200);
    }
}

#[test]
fn wrong_passwords_end_with_the_servers_answer() {
    for server in [gated(), basic()] {
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let options = Arc::new(known("wrong"));
        for _ in 0..3 {
            let before = server.requests().len();
            let request = Request::get(&server.url("/")).options(Arc::clone(&options));
            let id = client.start(&request.build().unwrap());
            client.run();
            let done = is_ok(client.recorder().ended(id));
            assert_eq!(done.status, 401);
            assert_eq!(client.recorder().body(id), b"no");
            assert!(server.requests().len() - before <= 4, "{}", server.requests().len() - before);
        }
    }
    // Without a password, and with a field of the caller: once.
    let server = basic();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    assert_eq!(client.fetch_url(&server.url("/"), Options::default()).status, 401);
    let own = Request::get(&server.url("/")).header("Authorization", b"Basic eDp5");
    let own = own.options(known("secret").into()).build().unwrap();
    assert_eq!(client.fetch(&own).status, 401);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_challenge_that_cannot_be_met_is_the_answer() {
    for challenge in [
        "Bearer realm=\"r\"",
        "Negotiate",
        "Digest realm=\"r\", nonce=\"n\", algorithm=UNKNOWN",
        "Digest realm=\"r",
        "",
        ",,,",
    ] {
        let field = format!("WWW-Authenticate: {challenge}\r\n");
        let server = ThreadedServer::start(move |_| answer(401, &field, "no"));
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let id = client.get(&server.url("/"), known("secret"));
        client.run();
        assert_eq!(is_ok(client.recorder().ended(id)).status, 401);
        assert_eq!(client.recorder().body(id), b"no");
        assert_eq!(server.requests().len(), 1, "{challenge}");
    }
}

#[test]
fn basic_waits_for_a_challenge_unless_preemptive() {
    let server = basic();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    assert_eq!(is_ok(client.fetch_url(&server.url("/"), known("secret"))).hops.len(), 1);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let options = Options { preemptive_auth: true, ..known("secret") };
    let done = is_ok(client.fetch_url(&server.url("/"), options));
    assert_eq!((done.status, done.hops.len()), (200, 0));
}

#[test]
fn tokens_are_always_sent() {
    let server = ThreadedServer::start(|asked| match asked.field("authorization") {
        Some("Bearer t0ken") => answer(200, "", ""),
        _ => answer(401, "WWW-Authenticate: Bearer\r\n", ""),
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for (token, status) in [("t0ken", 200), ("other", 401)] {
        let credentials = Some(Credentials::token(token).unwrap().into());
        let options = Options { credentials, ..Options::default() };
        let done = is_ok(client.fetch_url(&server.url("/"), options));
        assert_eq!((done.status, done.hops.len()), (status, 0));
    }
}

#[test]
fn the_url_counts_more_than_options_and_those_more_than_netrc() {
    let server = basic();
    let port = server.address.port();
    let right = Netrc::parse("machine 127.0.0.1 login user password secret").unwrap();
    let wrong = Netrc::parse("default login user password wrong").unwrap();
    let elsewhere = Netrc::parse("machine example.com login user password secret").unwrap();
    for (user, password, netrc, status) in [
        ("user:secret@", None, None, 200),
        ("user:%73ecret@", Some("wrong"), None, 200),
        ("user:wrong@", Some("secret"), Some(&right), 401),
        ("", Some("secret"), Some(&wrong), 200),
        ("", None, Some(&right), 200),
        ("", None, Some(&wrong), 401),
        ("", None, Some(&elsewhere), 401),
    ] {
        let options = password.map(known).unwrap_or_default();
        let options = Options { netrc: netrc.cloned().map(Into::into), ..options };
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let done = client.fetch_url(&format!("http://{user}127.0.0.1:{port}/"), options);
        assert_eq!(is_ok(done).status, status, "{user} {password:?} {netrc:?}");
        assert!(!done.request.url().as_str().contains("secret"));
    }
}

#[test]
fn sessions_outlive_requests_however_their_logins_were_given() {
    for netrc in [true, false] {
        let server = gated();
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let login = if netrc { "" } else { "user:secret@" };
        let file = Netrc::parse("machine 127.0.0.1 login user password secret").unwrap();
        let file = Arc::new(file);
        for n in 0..3 {
            // Each is compiled anew.
            let url = format!("http://{login}{}/{n}", server.address);
            let options = Options { netrc: netrc.then(|| file.clone()), ..Options::default() };
            let done = is_ok(client.fetch_url(&url, options));
            assert_eq!((done.status, done.hops.len()), (200, usize::from(n == 0)));
        }
    }
}

#[test]
fn origins_and_users_have_sessions_of_their_own() {
    let (a, b) = (gated(), gated());
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for (server, options, status) in [
        (&a, known("secret"), 200),
        (&a, known("wrong"), 401),
        (&b, known("secret"), 200),
        (&a, known("secret"), 200),
    ] {
        assert_eq!(is_ok(client.fetch_url(&server.url("/"), options)).status, status);
    }
    // Nothing was proved to a server that had sent no challenge.
    assert_eq!(b.requests()[0].field("authorization"), None);
}

#[test]
fn a_stream_is_not_sent_twice() {
    let server = basic();
    let mut client = ClientInLoop::<OwnLoop<_>>::acting(|context, id, event| {
        if matches!(event, TransferEvent::Writable) {
            context.send(id, bytes::Bytes::from_static(b"hello"));
            context.finish(id);
        }
    });
    let options = Arc::new(known("secret"));
    let post = || {
        let request =
            Request::with_method("POST", &server.url("/")).body(RequestBody::Stream(None));
        request.options(Arc::clone(&options)).build().unwrap()
    };
    let done = client.fetch(&post());
    assert!(matches!(done.result, Err(Error::NotReplayable)), "{done:?}");
    assert_eq!(done.status, 401);
    // But now the scheme of the server is known.
    assert_eq!(is_ok(client.fetch(&post())).status, 200);
}

#[test]
fn digest_through_a_proxy_uses_the_origin_form_target() {
    let gate = ChallengingServer::default();
    // As proxies do: the server sees the origin form.
    let server = ThreadedServer::start(move |asked| {
        let target = asked.target.strip_prefix("http://a.example").unwrap().to_owned();
        gate.digest(&RequestRecord { target, ..asked.clone() })
    });
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let options = Options { proxies: via(&server).proxies, ..known("secret") };
    assert_eq!(is_ok(client.fetch_url("http://a.example/x?y", options)).status, 200);
}

#[test]
fn the_time_between_two_proofs_is_reported() {
    let server = basic();
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let done = is_ok(client.fetch_url(&server.url("/"), known("secret")));
    assert_eq!(done.hops[0].status, 401);
    assert!(done.hops[0].timings.total > Duration::ZERO);
    assert!(done.timings().total >= done.hops[0].timings.total);
    assert!(done.reused && !done.retried);
}
