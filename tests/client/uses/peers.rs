//! The client with other servers: nginx over TLS, with logins, codings and uploads, and as a proxy.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use fulmar_client::{Client, Done, Error, Options, Request, RequestBody, TransferEvent};
use fulmar_proto::FileRange;
use fulmar_semantics::auth::Credentials;
use fulmar_semantics::coding;
use fulmar_semantics::proxy::{ProxyUrl, Settings};
use fulmar_semantics::redirect::{Policy, Reach, RedirectError};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::https::client_tls;
use fulmar_tests::load::Nginx;
use fulmar_tests::loops::{AppLoop, Edge, Loop, OwnLoop};
use fulmar_tests::threads::{ThreadedServer, answer};
use fulmar_tests::transfers::TransferRecorder;
use fulmar_tests::tree::noise;
use fulmar_tls::ClientTls;

fn in_every_loop(checks: [fn(); 3]) {
    checks.into_iter().for_each(|check| check());
}

fn is_ok(done: &Done) -> &Done {
    assert!(done.result.is_ok(), "{done:?}");
    done
}

/// nginx over TLS: a text that it compresses, redirects, a protected location, and a directory for
/// uploads.
fn nginx(certs: &Certs) -> Nginx {
    let (cert, key) = certs.files(CertOwner::Server);
    let (cert, key) = (cert.display(), key.display());
    Nginx::with(|address, dir| {
        fs::create_dir(dir.join("files")).expect("a directory");
        fs::create_dir(dir.join("body")).expect("a directory");
        fs::write(dir.join("files/text"), "fulmar ".repeat(10_000)).expect("room");
        fs::write(dir.join("passwords"), "user:{PLAIN}secret\n").expect("room");
        readable(dir);
        let dir = dir.display();
        format!(
            "gzip on; gzip_types *; gzip_min_length 1; client_max_body_size 30m;\n\
             server {{ listen {address} ssl reuseport; root {dir}/files;\n\
             ssl_certificate {cert}; ssl_certificate_key {key};\n\
             location / {{ dav_methods PUT; }}\n\
             location = /down {{ return 302 http://{address}/text; }}\n\
             location = /up {{ return 307 /text; }}\n\
             location /small/ {{ client_max_body_size 1k; dav_methods PUT; }}\n\
             location /login {{ auth_basic here; auth_basic_user_file {dir}/passwords;\n\
             alias {dir}/files/text; }} }}"
        )
    })
}

/// The workers have another user id if the test is run by root.
fn readable(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for path in [dir.to_owned(), dir.join("files"), dir.join("body")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("it is ours");
    }
}

fn with(tls: &ClientTls) -> Options {
    Options { tls: Some(tls.clone()), ..Options::default() }
}

#[test]
fn responses_of_nginx_are_parsed() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let (nginx, tls) = (nginx(&certs), client_tls(&certs));
        let url = |path: &str| format!("https://{}{path}", nginx.address);
        let mut client = ClientInLoop::<L>::new();
        let text = "fulmar ".repeat(10_000).into_bytes();
        for decode in [None, Some(coding::CodingLimits::default())] {
            let id = client.get(&url("/text"), Options { decode, ..with(&tls) });
            client.run();
            let done = is_ok(client.recorder().ended(id));
            assert_eq!(done.received < 10_000, decode.is_some(), "{done:?}");
            assert!(client.recorder().body(id) == text);
        }
        for (method, path, status) in
            [("HEAD", "/text", 200), ("GET", "/missing", 404), ("OPTIONS", "/text", 405)]
        {
            let request = Request::with_method(method, &url(path)).options(with(&tls).into());
            assert_eq!(is_ok(client.fetch(&request.build().unwrap())).status, status);
        }
        let range = Request::get(&url("/text")).header("Range", b"bytes=7-12");
        let id = client.start(&range.options(with(&tls).into()).build().unwrap());
        client.run();
        assert_eq!(is_ok(client.recorder().ended(id)).status, 206);
        assert_eq!(client.recorder().body(id), b"fulmar");
        assert_eq!(client.client.engine().stats().connections, 1);
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn redirects_do_not_downgrade_tls() {
    let certs = Certs::new();
    let (nginx, tls) = (nginx(&certs), client_tls(&certs));
    let url = |path: &str| format!("https://{}{path}", nginx.address);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for reach in [Reach::NoDowngrade, Reach::HttpsOnly] {
        let redirects = Some(Policy { reach, ..Policy::default() });
        let done = client.fetch_url(&url("/down"), Options { redirects, ..with(&tls) });
        let Err(Error::Redirect(error)) = &done.result else { panic!("{done:?}") };
        assert_eq!((error, done.status), (&RedirectError::Downgrade, 302));
        let done = client.fetch_url(&url("/up"), Options { redirects, ..with(&tls) });
        assert_eq!((is_ok(done).status, done.hops.len()), (200, 1));
    }
    // This policy allows it: nginx responds with 400 to a plain request to its TLS port.
    let redirects = Some(Policy { reach: Reach::HttpAndHttps, ..Policy::default() });
    let done = client.fetch_url(&url("/down"), Options { redirects, ..with(&tls) });
    assert_eq!((is_ok(done).status, done.request.url().scheme()), (400, "http"));
    assert_eq!(done.peer.map(|peer| peer.ip().is_loopback()), Some(true));
}

#[test]
fn nginx_accepts_the_password() {
    let certs = Certs::new();
    let (nginx, tls) = (nginx(&certs), client_tls(&certs));
    let url = format!("https://{}/login", nginx.address);
    for (password, status) in [("secret", 200), ("wrong", 401)] {
        let credentials = Some(Arc::new(Credentials::password("user", password).unwrap()));
        let mut client = ClientInLoop::<OwnLoop<_>>::new();
        for n in 0..3 {
            let options = Options { credentials: credentials.clone(), ..with(&tls) };
            let done = is_ok(client.fetch_url(&url, options));
            assert_eq!((done.status, done.hops.len()), (status, usize::from(n == 0)));
        }
        assert_eq!(client.client.engine().stats().connections, 1);
    }
}

#[test]
fn nginx_stores_and_returns_a_file() {
    fn check<L: Loop<Engine = Client<TransferRecorder>>>() {
        let certs = Certs::new();
        let (nginx, tls) = (nginx(&certs), client_tls(&certs));
        let content = noise(3_000_000);
        let mut file = tempfile::tempfile().expect("room");
        file.write_all(&content).expect("room");
        let range = FileRange { file: Arc::new(file.into()), offset: 0, len: 3_000_000 };
        let url = format!("https://{}/uploaded", nginx.address);
        let back: Arc<std::os::fd::OwnedFd> = Arc::new(tempfile::tempfile().expect("room").into());
        let place = FileRange { file: Arc::clone(&back), offset: 0, len: 3_000_000 };
        let mut written = 0;
        let mut client = ClientInLoop::<L>::acting(move |context, id, event| match event {
            TransferEvent::Head { response, .. } if response.status == 200 => {
                context.store(id, place.clone()); // decrypted bytes arrive as data
            }
            TransferEvent::Data(bytes) => {
                let file = File::from(place.file.try_clone().expect("a descriptor"));
                file.write_all_at(bytes, written).expect("room");
                written += bytes.len() as u64;
            }
            _ => {}
        });
        for (expect_continue_from, status) in [(None, 201), (Some(0), 204)] {
            let request = Request::with_method("PUT", &url).body(RequestBody::File(range.clone()));
            let options = Options { expect_continue_from, ..with(&tls) };
            let done = client.fetch(&request.options(options.into()).build().unwrap());
            assert_eq!(is_ok(done).status, status);
        }
        is_ok(client.fetch_url(&url, with(&tls)));
        let mut bytes = vec![0; content.len()];
        File::from(back.try_clone().unwrap()).read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == content);
        assert_eq!(client.client.engine().stats().connections, 1);
        // An oversized upload is refused before or while it is sent.
        for expect_continue_from in [Some(0), None] {
            let url = format!("https://{}/small/x", nginx.address);
            let request = Request::with_method("PUT", &url).body(RequestBody::File(range.clone()));
            let options = Options { expect_continue_from, ..with(&tls) };
            let done = client.fetch(&request.options(options.into()).build().unwrap());
            assert_eq!(is_ok(done).status, 413);
        }
    }
    in_every_loop([check::<OwnLoop<_>>, check::<AppLoop<_>>, check::<AppLoop<_, Edge>>]);
}

#[test]
fn nginx_forwards_for_us() {
    let server = ThreadedServer::start(|asked| answer(200, "X-From: server\r\n", &asked.target));
    let nginx = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} reuseport;\n\
             location / {{ proxy_pass http://$http_host$request_uri; }} }}"
        )
    });
    let proxy = ProxyUrl::parse(&format!("http://me:secret@{}", nginx.address)).unwrap();
    let settings = Settings { http: Some(proxy), ..Settings::default() };
    let settings = Arc::new(settings);
    let mut client = ClientInLoop::<OwnLoop<_>>::new();
    for n in 0..3 {
        let options = Options { proxies: Some(Arc::clone(&settings)), ..Options::default() };
        let id = client.get(&server.url("/x?y"), options);
        client.run();
        assert_eq!(is_ok(client.recorder().ended(id)).reused, n > 0);
        assert_eq!(client.recorder().body(id), b"/x?y");
    }
    assert_eq!(server.requests()[0].field("host"), Some(&*server.address.to_string()));
    // nginx knows no CONNECT.
    let settings = Settings { https: settings.http.clone(), ..Settings::default() };
    let options = Options { proxies: Some(settings.into()), ..Options::default() };
    let done = client.fetch_url("https://a.example/", options);
    let text = done.result.as_ref().unwrap_err().to_string();
    assert!(text.contains("proxy refused the tunnel"), "{text}");
}
