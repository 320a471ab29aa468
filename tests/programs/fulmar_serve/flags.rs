//! The flags of `fulmar serve`, tested with curl and other clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::http::{HttpClient, HttpReply, replies};
use fulmar_tests::process::{
    BY_CALLS, ChildProcess, ExitOutput, Serve, eventually, fulmar, peer, run, text,
};
use fulmar_tests::tree::Tree;
use rustix::process::Signal;

fn end_of(arguments: &[&str]) -> ExitOutput {
    ChildProcess::start(Command::new(fulmar()).args(arguments)).wait()
}

fn site() -> Tree {
    let tree = Tree::new();
    tree.file("index.html", "<title>home</title>");
    tree.file("f", "inside");
    tree
}

/// The response to a request with this first line and these fields.
fn send_request(address: SocketAddr, line: &str, fields: &[&str]) -> HttpReply {
    let mut client = HttpClient::connect(address);
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    client.send(format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    client.read_head().unwrap()
}

/// The output of curl with these arguments.
fn curl(arguments: &[&str]) -> String {
    text(&run(peer("curl").args(["-s", "--max-time", "60"]).args(arguments)).stdout)
}

fn curl_fails(arguments: &[&str]) -> bool {
    let mut command = peer("curl");
    !command.args(["-s", "--max-time", "60"]).args(arguments).output().unwrap().status.success()
}

#[test]
fn invalid_values_are_in_the_message() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let users = tree.turn_while("users");
    fs::write(&users, "ann:$6$nonsense\n").unwrap();
    let users = users.to_str().unwrap();
    let root = tree.root();
    let root = root.to_str().unwrap();
    let cases: [(&[&str], &str); 26] = [
        (&["--header", "nonsense"], "Name: value"),
        (&["--header", "Bad Name: x"], "Bad Name"),
        (&["--header", "X-Two: a\r\nX-Three: b"], "X-Two"),
        (&["--header", "content-length: 3"], "Content-Length is set by the server"),
        (&["--cors", "example.com"], "https://example.com"),
        (&["--cors", "https://example.com/"], "without a path"),
        (&["--auth", "ann:"], "USER:PASSWORD"),
        (&["--auth", ":secret"], "USER:PASSWORD"),
        (&["--auth", "ann:$secret"], "htpasswd -B"),
        (&["--auth", "/nowhere/users"], "/nowhere/users"),
        (&["--auth", users], "line 1"),
        (&["--listen", "unix:"], "missing path after"),
        (&["--listen", "https://127.0.0.1:0"], "127.0.0.1:8080"),
        (&["--metrics", "9100"], "127.0.0.1:8080"),
        (&["--tls-cert", cert], "each --tls-cert needs a --tls-key"),
        (&["--tls-key", key], "each --tls-cert needs a --tls-key"),
        (&["--tls-client-ca", cert], "--tls-cert"),
        (&["--tls-cert", "/nowhere/cert", "--tls-key", key], "/nowhere/cert"),
        (&["--tls-cert", cert, "--tls-key", cert], cert),
        (&["--accept-proxy", "10.0.0.0/33"], "invalid network"),
        (&["--max-connections-per-address", "0"], "--max-connections-per-address"),
        (&["--min-rate", "-1"], "-1"),
        (&["--upload-max", "0"], "greater than 0"),
        (&["--http2-streams", "0"], "must be 1 to 65535"),
        (&["--http2-window", "64000"], "must be 65535 to 2147483647 bytes"),
        (&["--http2-idle-frames", "10"], "must be at least 100"),
    ];
    for (arguments, why) in cases {
        let all = [&["serve", root][..], arguments].concat();
        let ended = end_of(&all);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
}

#[test]
fn headers_are_in_every_response() {
    let tree = site();
    let flags = ["--header", "Cache-Control: max-age=60", "--header", "X-Frame-Options:DENY"];
    let serve = Serve::start(&tree.root(), &flags);
    for (line, status) in [("GET /f", 200), ("GET /none", 404), ("POST /f", 405), ("HEAD /", 200)] {
        let reply = send_request(serve.address, line, &[]);
        assert_eq!(reply.status, status, "{line}");
        assert_eq!(reply.field("cache-control"), Some("max-age=60"), "{line}");
        assert_eq!(reply.field("x-frame-options"), Some("DENY"), "{line}");
        assert!(reply.field("date").is_some() && reply.field("content-length").is_some());
    }
}

#[test]
fn cors_allows_all_origins() {
    let tree = site();
    let serve = Serve::start(&tree.root(), &["--cors", "*"]);
    let reply = send_request(serve.address, "GET /f", &["Origin: https://a.example"]);
    assert_eq!(reply.field("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.field("access-control-expose-headers"), Some("*"));
    assert_eq!(reply.field("vary"), None, "every answer is the same");
    assert_eq!(
        send_request(serve.address, "GET /f", &[]).field("access-control-allow-origin"),
        Some("*")
    );
    assert_eq!(
        send_request(serve.address, "OPTIONS /f", &[]).field("allow"),
        Some("GET, HEAD, OPTIONS")
    );
}

#[test]
fn cors_allows_listed_origins() {
    let tree = site();
    let flags = ["--cors", "https://a.example", "--cors", "http://b.example:81", "--auth", "u:p"];
    let serve = Serve::start(&tree.root(), &flags);
    for origin in ["https://a.example", "http://b.example:81"] {
        let asked = [&format!("Origin: {origin}")[..], "Access-Control-Request-Method: GET"];
        let preflight = send_request(serve.address, "OPTIONS /f", &asked);
        assert_eq!(preflight.status, 204, "no password is required yet");
        assert_eq!(preflight.field("access-control-allow-origin"), Some(origin));
        assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD"));
        assert_eq!(preflight.field("access-control-allow-headers"), Some("*, Authorization"));
        assert_eq!(preflight.field("access-control-max-age"), Some("7200"));
        assert_eq!(preflight.field("vary"), Some("Origin"));
        let reply = send_request(serve.address, "GET /f", &asked[..1]);
        assert_eq!((reply.status, reply.field("vary")), (401, Some("Origin")));
        assert_eq!(reply.field("access-control-allow-origin"), Some(origin));
    }
    for origin in ["https://b.example", "null", "https://a.example.evil.example"] {
        let asked = [&format!("Origin: {origin}")[..], "Access-Control-Request-Method: GET"];
        for line in ["OPTIONS /f", "GET /f"] {
            let reply = send_request(serve.address, line, &asked);
            assert_eq!(reply.field("access-control-allow-origin"), None, "{origin}");
            assert_eq!(reply.field("access-control-allow-methods"), None, "{origin}");
            assert_eq!(reply.field("vary"), Some("Origin"), "{origin}");
        }
    }
}

#[test]
fn a_single_page_application_gets_unknown_names() {
    let tree = site();
    tree.file("sub/x.js", "script");
    let serve = Serve::start(&tree.root(), &["--spa"]);
    let get = |target: &str| {
        let reply = HttpClient::connect(serve.address).get(target);
        (reply.status, text(&reply.body))
    };
    let home = (200, "<title>home</title>".to_owned());
    for target in ["/", "/users/7", "/users/7/", "/f/x", "/none?a.b"] {
        assert_eq!(get(target), home, "{target}");
    }
    assert_eq!(get("/sub/x.js"), (200, "script".into()));
    for (target, status) in [
        ("/none.js", 404),
        ("/sub/none.css", 404),
        ("/.git", 404),
        ("/sub/", 403),
        ("/a/../b", 400),
    ] {
        assert_eq!(get(target).0, status, "{target}");
    }
    assert_eq!(send_request(serve.address, "HEAD /users/7", &[]).status, 200);
    assert_eq!(serve.end(Signal::TERM).stderr, "");
    let bare = Tree::new();
    let serve = Serve::start(&bare.root(), &["--spa", "--list"]);
    assert_eq!(HttpClient::connect(serve.address).get("/none").status, 404, "there is no page");
    assert!(serve.end(Signal::TERM).stderr.contains("has no index.html for --spa"));
}

#[test]
fn a_password_is_required() {
    let tree = site();
    let users = tree.turn_while("users");
    // htpasswd -nbB -C 4 bob secret
    let hashed = "bob:$2y$04$xFX8CHbZyifNyiAQX6KyU.Vum8NhR.1t9RGLNso4HFLnbHHyCMOLy";
    fs::write(&users, format!("# people\nann:open sesame\n{hashed}\n")).unwrap();
    let not_hashed = "the password of user 'ann' is not hashed";
    for (auth, right, warning) in [
        ("ann:open sesame", true, ""),
        (users.to_str().unwrap(), true, not_hashed),
        ("ann:x", false, ""),
    ] {
        let serve = Serve::start(&tree.root(), &["--auth", auth]);
        let reply = send_request(serve.address, "GET /f", &[]);
        assert_eq!(reply.status, 401);
        let challenge = reply.field("www-authenticate").unwrap();
        assert!(challenge.starts_with("Basic realm=\"fulmar serve\""), "{challenge}");
        let url = serve.url("/f");
        let with = |user: &str| curl(&["-w", "%{http_code}", "-o", "/dev/null", "-u", user, &url]);
        assert_eq!(with("ann:open sesame"), if right { "200" } else { "401" });
        assert_eq!([with("ann:wrong"), with("nobody:open sesame"), with("ann:")], ["401"; 3]);
        assert_eq!(send_request(serve.address, "GET /f", &["Authorization: Basic !"]).status, 401);
        let stderr = serve.end(Signal::TERM).stderr; // none about passwords sent over loopback
        assert!(stderr.contains(warning), "{stderr}");
        assert_eq!(stderr.lines().count(), usize::from(!warning.is_empty()), "{stderr}");
    }
}

#[test]
fn guessing_is_limited_and_valid_users_are_not() {
    let tree = site();
    let users = tree.turn_while("users");
    // htpasswd -nbB -C 4 bob secret
    let hashed = "bob:$2y$04$xFX8CHbZyifNyiAQX6KyU.Vum8NhR.1t9RGLNso4HFLnbHHyCMOLy";
    fs::write(&users, format!("ann:open sesame\n{hashed}\n")).unwrap();
    let serve = Serve::start(&tree.root(), &["--auth", users.to_str().unwrap()]);
    let url = serve.url("/f");
    let with = |user: &str| curl(&["-w", "%{http_code}", "-o", "/dev/null", "-u", user, &url]);
    assert_eq!([with("bob:secret"), with("ann:open sesame")], ["200"; 2]);
    for at in 0..10 {
        assert_eq!(with(&format!("bob:guess{at}")), "401", "{at}");
    }
    assert_eq!([with("bob:guess"), with("ann:guess"), with("nobody:guess")], ["429"; 3]);
    let wait = curl(&["-D-", "-o", "/dev/null", "-u", "bob:guess", &url]);
    let wait = wait.lines().find_map(|line| line.strip_prefix("Retry-After: ")).expect("a time");
    assert!((1..=60).contains(&wait.trim().parse::<u32>().unwrap()), "{wait}");
    assert_eq!([with("bob:secret"), with("ann:open sesame")], ["200"; 2], "they are known");
    let other = ["--interface", "127.0.0.2", "-w", "%{http_code}", "-o", "/dev/null", "-u"];
    assert_eq!(curl(&[&other[..], &["bob:guess", &url]].concat()), "401", "another address");
    let stderr = serve.end(Signal::TERM).stderr;
    assert!(stderr.contains("the password of user 'ann' is not hashed"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn high_bcrypt_costs_are_accepted_with_a_warning() {
    let tree = site();
    let users = tree.turn_while("users");
    let hash = |cost| format!("$2y${cost}$xFX8CHbZyifNyiAQX6KyU.Vum8NhR.1t9RGLNso4HFLnbHHyCMOLy");
    for (costs, warning) in [([12, 14], None), ([14, 16], Some("bcrypt cost 16 of user 'u16'"))] {
        let lines = costs.map(|cost| format!("u{cost}:{}\n", hash(cost)));
        fs::write(&users, lines.concat()).unwrap();
        let serve = Serve::start(&tree.root(), &["--auth", users.to_str().unwrap()]);
        assert_eq!(send_request(serve.address, "GET /f", &[]).status, 401);
        let stderr = serve.end(Signal::TERM).stderr;
        assert_eq!(stderr.lines().count(), warning.iter().len(), "{stderr}");
        assert!(stderr.contains(warning.unwrap_or_default()), "{stderr}");
    }
}

#[test]
fn unhashed_passwords_in_a_file_cause_a_warning() {
    let tree = site();
    let users = tree.turn_while("users");
    fs::write(&users, "root:x:0:0:root:/root:/bin/bash\nann:y:1:1::/:/bin/sh\n").unwrap();
    let serve = Serve::start(&tree.root(), &["--auth", users.to_str().unwrap()]);
    let stderr = serve.end(Signal::TERM).stderr;
    assert!(stderr.contains("the password of user 'ann' is not hashed"), "{stderr}");
    assert!(stderr.contains("is not hashed (others not hashed: 1); expected"), "{stderr}");
    fs::write(&users, "ann:y\n").unwrap();
    let serve = Serve::start(&tree.root(), &["--auth", users.to_str().unwrap()]);
    let stderr = serve.end(Signal::TERM).stderr;
    assert!(stderr.contains("the password of user 'ann' is not hashed; expected"), "{stderr}");
}

#[test]
fn unencrypted_passwords_cause_a_warning() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let listen =
        ["serve", tree.root().to_str().unwrap(), "--auth", "u:p", "--listen"].map(String::from);
    let start = |more: &[&str]| {
        let mut command = Command::new(fulmar());
        Serve::start_command(command.args(&listen).args(more), true).end(Signal::TERM).stderr
    };
    assert!(start(&["0.0.0.0:0"]).contains("unencrypted"));
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    assert_eq!(start(&[&["0.0.0.0:0"], &tls[..]].concat()), "");
    assert!(start(&[&["http://0.0.0.0:0"], &tls[..]].concat()).contains("unencrypted"));
}

#[test]
fn http2_can_be_switched_off() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let tls = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let ca = certs.ca();
    let version = ["--cacert", ca.to_str().unwrap(), "-o", "/dev/null", "-w", "%{http_version}"];
    for (flags, by_alpn, by_preface) in [(&[][..], "2", true), (&["--no-http2"], "1.1", false)] {
        let serve = Serve::start(&tree.root(), &[&tls, flags].concat());
        let url = format!("https://localhost:{}/f", serve.address.port());
        assert_eq!(curl(&[&version[..], &[&url]].concat()), by_alpn);
        let serve = Serve::start(&tree.root(), flags);
        let fails = curl_fails(&["--http2-prior-knowledge", &serve.url("/f")]);
        assert_eq!(fails, !by_preface);
    }
}

#[test]
fn precompressed_files_are_sent() {
    let tree = site();
    let page = "a page with repeated content, many times; ".repeat(50);
    let page = tree.file("page.txt", page);
    run(peer("gzip").arg("-k").arg(&page));
    let serve = Serve::start(&tree.root(), &["--precompressed"]);
    let reply = send_request(serve.address, "GET /page.txt", &["Accept-Encoding: gzip"]);
    assert_eq!(reply.field("content-encoding"), Some("gzip"));
    assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
    let plain = fs::read_to_string(&page).unwrap();
    assert_eq!(curl(&["--compressed", &serve.url("/page.txt")]), plain);
    assert_eq!(send_request(serve.address, "GET /page.txt", &[]).field("content-encoding"), None);
    let without = Serve::start(&tree.root(), &[]);
    let reply = send_request(without.address, "GET /page.txt", &["Accept-Encoding: gzip"]);
    assert_eq!(reply.field("content-encoding"), None);
    assert_eq!(serve.end(Signal::TERM).stderr, "", "gzip -k keeps the time");
}

#[test]
fn older_compressed_files_are_sent_with_one_warning() {
    let tree = site();
    let plain = "a page with repeated content, many times; ".repeat(50);
    for name in ["a\n.txt", "b.txt"] {
        let page = tree.file(name, &plain);
        run(peer("gzip").arg("-k").arg(&page));
        fs::File::options()
            .write(true)
            .open(&page)
            .unwrap()
            .set_modified(SystemTime::now())
            .unwrap();
    }
    let serve = Serve::start(&tree.root(), &["--precompressed"]);
    for target in ["/a%0a.txt", "/b.txt"] {
        let reply =
            send_request(serve.address, &format!("GET {target}"), &["Accept-Encoding: gzip"]);
        assert_eq!(reply.field("content-encoding"), Some("gzip"), "{target}");
    }
    let stderr = serve.end(Signal::TERM).stderr;
    assert!(
        stderr.starts_with("fulmar: 'a\\n.txt.gz' is older than the original file"),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn uploads_are_accepted_if_enabled() {
    let tree = site();
    let file = tree.turn_while("new");
    fs::write(&file, "new content").unwrap();
    let put = |serve: &Serve, target: &str| {
        let file = file.to_str().unwrap();
        curl(&["-w", "%{http_code}", "-o", "/dev/null", "-T", file, &serve.url(target)])
    };
    let serve = Serve::start(&tree.root(), &["--upload", "--upload-max", "11", "--cors", "*"]);
    assert_eq!([put(&serve, "/new"), put(&serve, "/f")], ["201", "204"]);
    assert_eq!(HttpClient::connect(serve.address).get("/f").body, b"new content");
    assert_eq!(fs::read(tree.root().join("new")).unwrap(), b"new content");
    let asked = ["Origin: https://a.example", "Access-Control-Request-Method: PUT"];
    let preflight = send_request(serve.address, "OPTIONS /f", &asked);
    assert_eq!(preflight.field("access-control-allow-methods"), Some("GET, HEAD, PUT"));
    fs::write(&file, "twelve bytes").unwrap();
    assert_eq!(put(&serve, "/new"), "413");
    assert_eq!(serve.end(Signal::TERM).stderr, "");
    let without = Serve::start(&tree.root(), &[]);
    assert_eq!(put(&without, "/other"), "405");
    let mut open = Command::new(fulmar());
    open.arg("serve").arg(tree.root()).args(["--listen", "0.0.0.0:0", "--upload"]);
    let ended = Serve::start_command(&mut open, true).end(Signal::TERM);
    assert!(ended.stderr.contains("uploads are not restricted"), "{}", ended.stderr);
}

#[test]
fn metrics_have_a_separate_listener() {
    let tree = site();
    let flags = [&["--metrics", "127.0.0.1:0", "--threads", "2"], BY_CALLS].concat();
    let mut serve = Serve::start(&tree.root(), &flags);
    let line = serve.process.wait_stdout("metrics on ");
    let url = line.trim().strip_prefix("metrics on ").unwrap().to_owned();
    for _ in 0..20 {
        let mut client = HttpClient::connect(serve.address);
        assert_eq!((client.get("/f").status, client.get("/none").status), (200, 404));
    }
    let of = |figures: &str, sample: &str| {
        let line = figures.lines().find_map(|line| line.strip_prefix(&format!("{sample} ")));
        line.unwrap_or_else(|| panic!("no {sample} in\n{figures}")).parse::<f64>().unwrap()
    };
    // A response is counted after it was sent, so its client may be faster.
    let answers = "fulmar_http_request_duration_seconds_count";
    eventually("everything is counted", || of(&curl(&["-f", &url]), answers) >= 40.0);
    let figures = curl(&["-f", &url]);
    let value = |sample: &str| of(&figures, sample);
    assert_eq!(value("fulmar_threads"), 2.0);
    assert_eq!(value("fulmar_http_requests_total{code=\"2xx\",method=\"GET\"}"), 20.0);
    assert_eq!(value("fulmar_http_requests_total{code=\"4xx\",method=\"GET\"}"), 20.0);
    assert_eq!(value("fulmar_connections_accepted_total"), 20.0);
    assert_eq!(value("fulmar_http_request_duration_seconds_count"), 40.0);
    assert_eq!(value("fulmar_syscalls_total{call=\"accept4\"}"), 20.0);
    assert_eq!(value("fulmar_syscalls_total{call=\"epoll_create1\"}"), 2.0, "those that serve");
    assert!((2.0..8.0).contains(&value("fulmar_syscalls_per_request")), "{figures}");
    assert!(figures.contains("# TYPE fulmar_ring_operations_total counter\n"), "{figures}");
    assert_eq!(curl(&["-o", "/dev/null", "-w", "%{content_type}", &url]), CONTENT_TYPE);
    assert_eq!(HttpClient::connect(serve.address).get("/metrics").status, 404, "not public");
    assert!(curl_fails(&["-f", url.trim_end_matches("metrics")]));
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[test]
fn requests_have_identifiers() {
    let tree = site();
    let log = tree.turn_while("log");
    let flags = ["--request-ids", "--log-format", "json", "--access-log", log.to_str().unwrap()];
    let serve = Serve::start(&tree.root(), &flags);
    let one = send_request(serve.address, "GET /f", &["X-Request-Id: theirs"]);
    let two = send_request(serve.address, "GET /none", &[]);
    let ids = [&one, &two].map(|reply| reply.field("x-request-id").unwrap().to_owned());
    assert_ne!(ids[0], ids[1]);
    serve.end(Signal::TERM);
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["client_request_id"], "theirs");
    assert_eq!(lines[1]["client_request_id"], serde_json::Value::Null);
    for (line, id) in lines.iter().zip(ids) {
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        assert_eq!(line["request_id"], *id);
        assert_eq!((&line["complete"], &line["error"]), (&true.into(), &().into()));
        assert!(line["duration_us"].is_u64());
    }
}

#[test]
fn sni_selects_the_certificate() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let (other, other_key) = certs.files(CertOwner::OtherHost);
    let flags = [&cert, &key, &other, &other_key].map(|path| path.to_str().unwrap());
    let [cert, key, other, other_key] = flags;
    let listen = ["--listen", "http://127.0.0.1:0"];
    let mut serve = Serve::start(
        &tree.root(),
        &[
            &["--tls-cert", cert, "--tls-key", key, "--tls-cert", other, "--tls-key", other_key],
            &listen[..],
        ]
        .concat(),
    );
    let ca = certs.ca();
    let port = serve.address.port();
    for name in ["localhost", "other.example"] {
        let resolve = format!("{name}:{port}:127.0.0.1");
        let url = format!("https://{name}:{port}/f");
        let arguments = ["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, &url];
        assert_eq!(curl(&arguments), "inside", "{name}");
    }
    let plain = serve.process.wait_stdout("http://");
    let plain = plain.trim().rsplit(' ').next().unwrap();
    assert_eq!(curl(&[&format!("{plain}f")]), "inside", "next to it, as requested");
}

#[test]
fn certificates_are_reloaded_at_sighup() {
    let tree = site();
    let certs = Certs::new();
    let names = ["cert", "key"].map(|name| tree.turn_while(name));
    let put = |who| {
        let (cert, key) = certs.files(who);
        fs::copy(cert, &names[0]).unwrap();
        fs::copy(key, &names[1]).unwrap();
    };
    put(CertOwner::OtherHost);
    let [cert, key] = [&names[0], &names[1]].map(|path| path.to_str().unwrap());
    let mut serve = Serve::start(&tree.root(), &["--tls-cert", cert, "--tls-key", key]);
    let (ca, url) = (certs.ca(), format!("https://127.0.0.1:{}/f", serve.address.port()));
    let arguments = ["--cacert", ca.to_str().unwrap(), &url];
    assert!(curl_fails(&arguments), "it is for another name");
    put(CertOwner::Server);
    serve.process.signal(Signal::HUP);
    serve.process.wait_stderr("certificates reloaded");
    assert_eq!(curl(&arguments), "inside");
    fs::write(&names[0], "nonsense").unwrap();
    serve.process.signal(Signal::HUP);
    serve.process.wait_stderr("keeping the old certificates");
    assert_eq!(curl(&arguments), "inside");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
}

#[test]
fn client_certificates_are_required() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let ca = certs.ca();
    let [cert, key, ca] = [&cert, &key, &ca].map(|path| path.to_str().unwrap());
    let flags = ["--tls-cert", cert, "--tls-key", key, "--tls-client-ca", ca];
    let serve = Serve::start(&tree.root(), &flags);
    let url = format!("https://127.0.0.1:{}/f", serve.address.port());
    assert!(curl_fails(&["--cacert", ca, &url]));
    let shown = |who| {
        let (cert, key) = certs.files(who);
        [cert, key].map(|path| path.to_str().unwrap().to_owned())
    };
    let [cert, key] = shown(CertOwner::Client);
    assert_eq!(curl(&["--cacert", ca, "--cert", &cert, "--key", &key, &url]), "inside");
    let [cert, key] = shown(CertOwner::StrangerClient);
    assert!(curl_fails(&["--cacert", ca, "--cert", &cert, "--key", &key, &url]));
}

#[test]
fn several_listeners_are_possible() {
    let tree = site();
    let socket = tree.turn_while("socket");
    let log = tree.turn_while("log");
    let unix = format!("unix:{}", socket.display());
    let flags = ["--listen", "[::1]:0", "--listen", &unix, "--access-log", log.to_str().unwrap()];
    let mut serve = Serve::start(&tree.root(), &flags);
    let v6 = serve.process.wait_stdout("http://[::1]:");
    let v6 = v6.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(serve.process.wait_stdout(&unix).ends_with(&format!("on {unix}\n")));
    assert_eq!(curl(&[&serve.url("/f")]), "inside");
    assert_eq!(curl(&["-g", &format!("{v6}f")]), "inside");
    let path = socket.to_str().unwrap();
    assert_eq!(curl(&["--unix-socket", path, "http://localhost/f"]), "inside");
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
    assert!(!socket.exists(), "nothing is left of it");
    let lines = fs::read_to_string(log).unwrap();
    let peers: Vec<_> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(peers, ["127.0.0.1", "::1", "unix:"]);
}

#[test]
fn connections_per_address_are_limited() {
    let tree = site();
    let serve = Serve::start(&tree.root(), &["--max-connections-per-address", "1"]);
    let mut first = HttpClient::connect(serve.address);
    assert_eq!(first.get("/f").status, 200);
    let mut second = TcpStream::connect(serve.address).unwrap();
    let _ = second.write_all(b"GET /f HTTP/1.1\r\nHost: h\r\n\r\n"); // may be closed already
    let mut answer = Vec::new();
    let ended = second.read_to_end(&mut answer);
    assert!(ended.is_err() || answer.is_empty(), "{}", text(&answer));
    assert_eq!(first.get("/f").status, 200);
    drop(first);
    eventually("the place is free again", || {
        let mut client = HttpClient::connect(serve.address);
        let _ = client.socket().write_all(b"GET /f HTTP/1.1\r\nHost: h\r\n\r\n"); // as above
        client.read_head().is_ok_and(|reply| reply.status == 200)
    });
}

#[test]
fn slow_clients_are_accepted_without_a_minimum_rate() {
    let tree = site();
    let serve = Serve::start(&tree.root(), &["--min-rate", "0"]);
    assert_eq!(HttpClient::connect(serve.address).get("/f").status, 200);
}

#[test]
fn the_proxy_header_sets_the_client_address() {
    let tree = site();
    let certs = Certs::new();
    let (cert, key) = certs.files(CertOwner::Server);
    let log = tree.turn_while("log");
    let [cert, key, log] = [&cert, &key, &log].map(|path| path.to_str().unwrap());
    let flags = ["--accept-proxy", "127.0.0.0/8,::1", "--access-log", log];
    let serve = Serve::start(&tree.root(), &flags);
    let mut client = HttpClient::connect(serve.address);
    client.send("PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\nGET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read_reply().unwrap().body, b"inside");
    drop(client);
    assert_eq!(curl(&["--haproxy-protocol", &serve.url("/f")]), "inside");
    let mut silent = HttpClient::connect(serve.address);
    silent.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
    let answer = silent.read_to_end().unwrap_or_default();
    assert_eq!(replies(&answer).unwrap().len(), 0, "connections without a header are closed");
    serve.end(Signal::TERM);
    let lines = fs::read_to_string(log).unwrap();
    let peers: Vec<_> = lines.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(peers, ["192.0.2.7", "127.0.0.1"]);

    let tls = ["--accept-proxy", "127.0.0.1", "--tls-cert", cert, "--tls-key", key];
    let serve = Serve::start(&tree.root(), &tls);
    let (ca, url) = (certs.ca(), format!("https://127.0.0.1:{}/f", serve.address.port()));
    assert_eq!(curl(&["--haproxy-protocol", "--cacert", ca.to_str().unwrap(), &url]), "inside");
    let serve = Serve::start(&tree.root(), &["--accept-proxy", "192.0.2.0/24"]);
    assert!(curl_fails(&["--haproxy-protocol", &serve.url("/f")]), "not one that is believed");
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_moved_log_is_reopened_at_sighup() {
    let tree = site();
    let (log, old) = (tree.turn_while("log"), tree.turn_while("log.1"));
    let flags = ["--access-log", log.to_str().unwrap(), "--threads", "2"];
    let serve = Serve::start(&tree.root(), &flags);
    HttpClient::connect(serve.address).get("/f");
    eventually("the first line is written", || lines(&log) == 1);
    fs::rename(&log, &old).unwrap();
    serve.process.signal(Signal::HUP);
    // Each thread reopens the log by itself. Until then it writes to the old file.
    let mut asked = 1;
    eventually("there is a new one", || {
        HttpClient::connect(serve.address).get("/f");
        asked += 1;
        log.exists() && lines(&log) > 0
    });
    assert_eq!(serve.end(Signal::TERM).status.code(), Some(0));
    assert_eq!(lines(&old) + lines(&log), asked);
}
