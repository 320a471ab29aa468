//! Proxies through the client: forwarding, CONNECT and SOCKS5, the requests that they receive, and
//! the names of their refusals.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use fulmar_client::{Client, Done, Error, Options, Request};
use fulmar_semantics::proxy::{NoProxy, ProxyUrl, Settings};
use fulmar_semantics::tunnel::{HttpConnectError, Socks5Error};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::https::{Https, client_tls};
use fulmar_tests::load::unused_port;
use fulmar_tests::loops::{AppLoop, Bytewise, Loop, OwnLoop};
use fulmar_tests::threads::{RequestRecord, ThreadedServer, answer, relay};
use fulmar_tests::transfers::TransferRecorder;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn is_ok(done: &Done) -> &Done {
    assert!(done.result.is_ok(), "{done:?}");
    done
}

fn proxied(proxy: &str) -> Options {
    let proxy = ProxyUrl::parse(proxy).unwrap();
    let settings =
        Settings { http: Some(proxy.clone()), https: Some(proxy), ..Settings::default() };
    Options { proxies: Some(settings.into()), ..Options::default() }
}

fn via(server: &ThreadedServer, scheme: &str) -> Options {
    proxied(&format!("{scheme}{}", server.address))
}

#[test]
fn a_forwarding_proxy_gets_the_absolute_form_and_its_own_login() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let proxy = ThreadedServer::start(|_| answer(200, "", "forwarded"));
        let mut client = ClientInLoop::<L>::new();
        let options = || via(&proxy, "http://me:se%63ret@");
        for url in ["http://a.example/x?y#z", "http://b.example:81/", "http://10.0.0.1"] {
            let id = client.get(url, options());
            client.run();
            is_ok(client.recorder().ended(id));
            assert_eq!(client.recorder().body(id), b"forwarded");
        }
        let asked = proxy.requests();
        let targets: Vec<_> = asked.iter().map(|asked| &*asked.target).collect();
        assert_eq!(targets, ["http://a.example/x?y", "http://b.example:81/", "http://10.0.0.1/"]);
        assert_eq!(asked[1].field("host"), Some("b.example:81"));
        for asked in &asked {
            assert_eq!(asked.field("proxy-authorization"), Some("Basic bWU6c2VjcmV0"));
        }
        assert_eq!(proxy.connections(), 1, "one for all hosts");
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn excluded_hosts_use_no_proxy() {
    let server = ThreadedServer::start(|asked| answer(200, "", &asked.target));
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let none = |list: &str| {
        let settings = Settings {
            http: Some(ProxyUrl::parse(&server.url("")).unwrap()),
            none_for: NoProxy::parse(list),
            ..Settings::default()
        };
        Options { proxies: Some(settings.into()), ..Options::default() }
    };
    for (list, target) in [
        ("", server.url("/x")),
        ("example.com", server.url("/x")),
        ("127.0.0.1", "/x".to_owned()),
        ("127.0.0.0/8", "/x".to_owned()),
        ("*", "/x".to_owned()),
    ] {
        is_ok(client.fetch_url(&server.url("/x"), none(list)));
        let asked = server.requests().pop().unwrap();
        assert_eq!(asked.target, target, "{list:?}");
    }
    // The same address, but never the same connection: keys distinguish forwarding from direct
    // requests.
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_login_does_not_reach_the_server_behind_the_tunnel() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let server = Https::start(&certs, CertOwner::Server);
        let address = server.address;
        let proxy = ThreadedServer::with_connections(move |_, stream, log| {
            let mut from = BufReader::new(stream);
            let asked = RequestRecord::read_head(&mut from)?.expect("a request");
            log.push(asked);
            let there = TcpStream::connect(address)?;
            from.get_ref().write_all(b"HTTP/1.1 200 OK\r\nX-Proxy: 1\r\n\r\n")?;
            relay(from.get_ref(), &there)
        });
        let mut client = ClientInLoop::<L>::new();
        let options =
            || Options { tls: Some(client_tls(&certs)), ..via(&proxy, "http://me:secret@") };
        let shared = std::sync::Arc::new(options());
        for _ in 0..2 {
            let request = Request::get("https://test.example/bytes/1000");
            let id = client.start(&request.options(shared.clone()).build().unwrap());
            client.run();
            is_ok(client.recorder().ended(id));
            assert_eq!(client.recorder().body(id).len(), 1000);
        }
        let asked = proxy.requests();
        assert_eq!(asked.len(), 1, "the tunnel is kept");
        assert_eq!((&*asked[0].method, &*asked[0].target), ("CONNECT", "test.example:443"));
        assert_eq!(asked[0].field("proxy-authorization"), Some("Basic bWU6c2VjcmV0"));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn refusals_name_the_proxy() {
    for status in [403, 407, 502, 301, 404] {
        let proxy = ThreadedServer::start(move |_| {
            answer(status, "Proxy-Authenticate: Basic realm=\"p\"\r\nLocation: http://x/\r\n", "no")
        });
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let options = Options { redirects: Some(Default::default()), ..via(&proxy, "http://") };
        let done = client.fetch_url("https://a.example/", options);
        let Err(Error::Layer(error)) = &done.result else { panic!("{status}: {done:?}") };
        let Some(HttpConnectError::Refused { status: told, .. }) = error.downcast_ref() else {
            panic!("{error:?}");
        };
        assert_eq!(*told, status);
        let text = done.result.as_ref().unwrap_err().to_string();
        assert!(text.contains("proxy") && text.contains(&status.to_string()), "{text}");
        assert_eq!(done.result.as_ref().unwrap_err().kind(), "proxy");
        assert_eq!((done.status, client.client.engine().connections()), (0, 0));
    }
    // The response of a forwarding proxy itself.
    let proxy =
        ThreadedServer::start(|_| answer(407, "Proxy-Authenticate: Basic realm=\"p\"\r\n", ""));
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    assert_eq!(is_ok(client.fetch_url("http://a.example/", via(&proxy, "http://"))).status, 407);
    // One that never replies, and one that does not exist.
    for scheme in ["http://", "socks5h://"] {
        let silent =
            ThreadedServer::with_connections(|_, mut stream, _| stream.read(&mut [0]).map(drop));
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let done = client.fetch_url("https://a.example/", via(&silent, scheme));
        let text = done.result.as_ref().unwrap_err().to_string();
        assert!(text.contains("proxy"), "{scheme}: {text}");
        let (_holder, nobody) = unused_port();
        let done = client.fetch_url("https://a.example/", proxied(&format!("{scheme}{nobody}")));
        let error = done.result.as_ref().unwrap_err();
        assert_eq!(error.kind(), "connect");
        assert!(error.to_string().contains(&format!("proxy {nobody}")), "{error}");
    }
}

/// The request that a SOCKS proxy received.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sought {
    Address(SocketAddr),
    Name(String, u16),
}

/// A SOCKS5 proxy (RFC 1928, RFC 1929) that connects to `to` for every request, or replies `code`.
/// With a login, it requires that. The requested address is recorded as the target of a request.
fn socks(to: SocketAddr, login: Option<(&'static str, &'static str)>, code: u8) -> ThreadedServer {
    ThreadedServer::with_connections(move |connection, mut stream, log| {
        let mut take = |len: usize| -> std::io::Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            stream.read_exact(&mut bytes).map(|()| bytes)
        };
        let hello = take(2)?;
        let methods = take(hello[1].into())?;
        let wanted = if login.is_some() { 2 } else { 0 };
        let method = if methods.contains(&wanted) { wanted } else { 0xff };
        stream.write_all(&[5, method])?;
        if method == 0xff {
            return Ok(());
        }
        let mut take = |len: usize| -> std::io::Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            stream.read_exact(&mut bytes).map(|()| bytes)
        };
        if let Some((user, password)) = login {
            let user_len = take(2)?[1];
            let told = take(user_len.into())?;
            let password_len = take(1)?[0];
            let right =
                told == user.as_bytes() && take(password_len.into())? == password.as_bytes();
            stream.write_all(&[1, u8::from(!right)])?;
            if !right {
                return Ok(());
            }
        }
        let mut take = |len: usize| -> std::io::Result<Vec<u8>> {
            let mut bytes = vec![0; len];
            stream.read_exact(&mut bytes).map(|()| bytes)
        };
        let head = take(4)?;
        assert_eq!(head[..3], [5, 1, 0]);
        let host = match head[3] {
            1 => Some(std::net::IpAddr::from(<[u8; 4]>::try_from(&take(4)?[..]).expect("four"))),
            4 => Some(std::net::IpAddr::from(<[u8; 16]>::try_from(&take(16)?[..]).expect("16"))),
            _ => None,
        };
        let name = if host.is_none() {
            let len = take(1)?[0];
            String::from_utf8_lossy(&take(len.into())?).into_owned()
        } else {
            String::new()
        };
        let port = take(2)?;
        let port = u16::from_be_bytes([port[0], port[1]]);
        let sought =
            host.map_or(Sought::Name(name, port), |host| Sought::Address((host, port).into()));
        log.push(RequestRecord {
            connection,
            target: format!("{sought:?}"),
            ..RequestRecord::default()
        });
        stream.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0])?;
        if code != 0 {
            return Ok(());
        }
        relay(&stream, &TcpStream::connect(to)?)
    })
}

#[test]
fn socks_carries_http_and_https_with_and_without_a_login() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let (plain, secure) = (
            ThreadedServer::start(|_| answer(200, "", "plain")),
            Https::start(&certs, CertOwner::Server),
        );
        let login = Some(("me", "secret"));
        for (scheme, url, to, sought) in [
            (
                "socks5h://me:secret@",
                "http://a.example:81/",
                plain.address,
                Sought::Name("a.example".into(), 81),
            ),
            (
                "socks5h://me:secret@",
                "https://test.example/bytes/5",
                secure.address,
                Sought::Name("test.example".into(), 443),
            ),
            (
                "socks5://me:secret@",
                "http://10.9.8.7:82/",
                plain.address,
                Sought::Address(([10, 9, 8, 7], 82).into()),
            ),
            (
                "socks5h://me:secret@",
                "http://[2001:db8::1]/",
                plain.address,
                Sought::Address("[2001:db8::1]:80".parse().unwrap()),
            ),
        ] {
            let proxy = socks(to, login, 0);
            let mut client = ClientInLoop::<L>::new();
            let options = std::sync::Arc::new(Options {
                tls: Some(client_tls(&certs)),
                ..via(&proxy, scheme)
            });
            for n in 0..2 {
                let request = Request::get(url).options(options.clone()).build().unwrap();
                let id = client.start(&request);
                client.run();
                let done = is_ok(client.recorder().ended(id));
                assert_eq!(done.reused, n == 1, "{url}");
                assert_eq!(client.recorder().body(id).len(), 5);
            }
            let asked = proxy.requests();
            assert_eq!(asked.len(), 1);
            assert_eq!(asked[0].target, format!("{sought:?}"));
        }
        // The request itself is an ordinary one.
        assert!(plain.requests().iter().all(|asked| asked.target == "/"));
        assert!(plain.requests().iter().all(|a| a.field("proxy-authorization").is_none()));
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<Bytewise<OwnLoop<_>>>]);
}

#[test]
fn each_reply_of_a_socks_proxy_has_its_own_error() {
    let to = SocketAddr::from(([127, 0, 0, 1], 1));
    for (code, error) in [
        (1, Socks5Error::GeneralFailure),
        (2, Socks5Error::NotAllowed),
        (3, Socks5Error::NetworkUnreachable),
        (4, Socks5Error::HostUnreachable),
        (5, Socks5Error::ConnectionRefused),
        (8, Socks5Error::AddressTypeNotSupported),
        (99, Socks5Error::UnknownReply(99)),
    ] {
        let proxy = socks(to, None, code);
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let done = client.fetch_url("http://a.example/", via(&proxy, "socks5h://"));
        let Err(Error::Layer(told)) = &done.result else { panic!("{done:?}") };
        assert_eq!(told.downcast_ref(), Some(&error));
        assert!(told.to_string().contains("proxy"));
    }
    for (scheme, error) in [
        ("socks5h://", Socks5Error::NoMethod),
        ("socks5h://me:wrong@", Socks5Error::LoginRefused(1)),
    ] {
        let proxy = socks(to, Some(("me", "secret")), 0);
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        let done = client.fetch_url("http://a.example/", via(&proxy, scheme));
        let Err(Error::Layer(told)) = &done.result else { panic!("{done:?}") };
        assert_eq!(told.downcast_ref(), Some(&error));
    }
}

#[test]
fn different_routes_share_no_connection() {
    let server = ThreadedServer::start(|_| answer(200, "", ""));
    let proxies = [socks(server.address, None, 0), socks(server.address, None, 0)];
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    let url = "http://127.0.0.2:81/";
    let ways = || {
        [
            via(&proxies[0], "socks5h://"),
            via(&proxies[1], "socks5h://"),
            via(&proxies[0], "socks5h://me:x@"),
            via(&proxies[0], "socks5h://me:y@"),
            via(&proxies[0], "socks5://"),
        ]
    };
    for (reused, connections) in [(false, 5), (true, 5)] {
        for options in ways() {
            assert_eq!(is_ok(client.fetch_url(url, options)).reused, reused);
        }
        assert_eq!(client.client.engine().connections(), connections);
    }
}
