//! What handlers of web programs use, over real sockets: forms, users, cookies, files.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use fulmar_client::Options as ClientOptions;
use fulmar_proto::{FileRange, HeaderBuf, Headers, Request, Response};
use fulmar_semantics::auth::{BadGate, Credentials, Gate, GateOptions};
use fulmar_semantics::conditional::Validators;
use fulmar_semantics::cookies::{NewCookie, Pairs};
use fulmar_serve::{Options, Site};
use fulmar_server::{Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call as System, Ledger};
use fulmar_tests::client_in_loop::ClientInLoop;
use fulmar_tests::curl::{self, Curl};
use fulmar_tests::http::{HttpClient, HttpReply};
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, done, turn_while};
use fulmar_tests::process::{peer, run, text};
use fulmar_tests::tests_in_three_loops;
use fulmar_web::auth::Guard;
use fulmar_web::form::{self, Content, Form, Value};
use fulmar_web::htpasswd::Htpasswd;
use fulmar_web::representation::Representation;
use fulmar_web::temporary::TemporaryDir;
use tempfile::TempDir;

/// A program with one of everything.
struct WebHandler {
    site: Site,
    basic: Guard,
    digest: Guard,
    place: TemporaryDir,
    /// Bytes of one file of a form.
    file_max: u64,
}

impl Handler for WebHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match request.target {
            b"/form" => {
                let options = form::Options::with_files(self.place.clone(), self.file_max);
                let place = self.place.clone();
                form::collect(responder, request, &options, move |responder, form| {
                    let shown = show(&form);
                    keep(form, &place);
                    responder.text(200, shown)
                })
            }
            b"/texts" => {
                form::collect(responder, request, &form::Options::default(), |responder, form| {
                    responder.text(200, show(&form))
                })
            }
            b"/basic" | b"/digest" => {
                let guard = if request.target == b"/basic" { &self.basic } else { &self.digest };
                let Some(user) = guard.admit(responder, request)? else { return Ok(()) };
                responder.text(200, format!("hello, {user}\n"))
            }
            b"/visit" => visit(responder, request),
            b"/report" => {
                let date = Some(784_111_777);
                let validators = Validators { etag: Some("\"v1\"".into()), modified: date };
                let mut headers = HeaderBuf::new();
                headers.push("Cache-Control", b"no-cache")?;
                headers.push("X-Other", b"1")?;
                let report = Representation::new("0123456789", "text/plain", validators);
                Representation { headers: headers.as_headers(), ..report }.reply(responder, request)
            }
            b"/excerpt" => {
                let file = fs::File::open("server/web.rs").unwrap();
                let content = FileRange { file: Arc::new(file.into()), offset: 4, len: 20 };
                let none = Representation::new("", "text/x-rust", Validators::default());
                Representation { content: content.into(), ..none }.reply(responder, request)
            }
            _ => self.site.serve(responder, request),
        }
    }
}

/// Counts visits in a cookie.
fn visit(responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
    let known = Pairs::of(request.headers).get("visits").map(|v| String::from_utf8_lossy(v));
    let visits = known.and_then(|count| count.parse::<u32>().ok()).unwrap_or(0) + 1;
    let count = visits.to_string();
    let cookie = NewCookie { secure: false, ..NewCookie::new("visits", &count) };
    let value = cookie.to_value().expect("a number fits");
    let added = [("Set-Cookie", &value[..])];
    let head = Response { added: &added, ..Response::new(200, Headers::EMPTY) };
    responder.reply(head, format!("{count}\n"))
}

/// A line for each field.
fn show(form: &Form) -> String {
    let line = |field: &form::FormField| match &field.value {
        Value::Text(value) => format!("{}={}\n", text(&field.name), text(value)),
        Value::File(file) => {
            let (name, len) = (text(&file.filename), file.content.len());
            format!("{}: {name}, {len} bytes\n", text(&field.name))
        }
    };
    form.fields.iter().map(line).collect()
}

/// Keeps the first file under the name from a text field; the handler chooses the name.
fn keep(mut form: Form, place: &TemporaryDir) {
    let wants = form.text("keep").is_some();
    if let (true, Some(file)) = (wants, form.take_file("file"))
        && let Content::Temporary(file) = file.content
    {
        use std::os::fd::AsFd;
        file.keep(place.as_fd(), c"kept").expect("the name of a file");
    }
}

type WebEngine = ServerEngine<HandlerApp<WebHandler>>;

struct WebServer<L> {
    driver: L,
    address: SocketAddr,
    /// What is served.
    site: TempDir,
    /// Where forms put their files.
    uploads: TempDir,
}

fn start<L: Loop<Engine = WebEngine>>() -> WebServer<L> {
    let (site, uploads) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = Options { precompressed: true, ..Options::default() };
    let users = || Htpasswd::parse(&hashed()).expect("what htpasswd makes");
    let plain = |user: &str| (user == "Zoë").then(|| "pass:word".to_owned());
    let program = WebHandler {
        site: Site::open(site.path(), options).unwrap(),
        basic: guard(Gate::new(GateOptions::basic("a \"b\""), users(), [1; 32])),
        digest: guard(Gate::new(GateOptions::digest("a \"b\""), plain, [2; 32])),
        place: TemporaryDir::open(uploads.path()).unwrap(),
        file_max: file_max::<L>() as u64,
    };
    let app = HandlerApp::new(program, sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (mut driver, address) = L::start(engine);
    let waker = driver.waker();
    driver.engine().mailbox().set_waker(waker.into());
    WebServer { driver, address, site, uploads }
}

fn guard(gate: Result<Gate, BadGate>) -> Guard {
    Guard::new(gate.expect("it can be")).expect("there are random bytes")
}

/// A line that the peer htpasswd makes.
fn hashed() -> String {
    let output = run(peer("htpasswd").args(["-nbB", "Zoë", "pass:word"]));
    assert!(output.stdout.starts_with("Zoë:$2y$05$".as_bytes()));
    text(&output.stdout)
}

impl<L: Loop<Engine = WebEngine>> WebServer<L> {
    fn turn_while<T: Send>(&mut self, act: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let address = self.address;
        turn_while(&mut self.driver, move || act(address))
    }

    fn uploaded(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let entries = fs::read_dir(self.uploads.path()).unwrap();
        entries.map(|entry| name(entry).into_string().unwrap()).collect()
    }
}

fn post(target: &str, media: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: {media}\r\n\
         Content-Length: {len}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn send_request(client: &mut HttpClient, request: impl AsRef<[u8]>) -> HttpReply {
    client.send(request);
    client.read_reply().expect("a reply")
}

fn body(reply: &HttpReply) -> String {
    text(&reply.body)
}

/// A multipart form with a text and a file.
fn upload(file: &[u8]) -> Vec<u8> {
    let start = "--B\r\nContent-Disposition: form-data; name=keep\r\n\r\nyes\r\n\
        --B\r\nContent-Disposition: form-data; name=file; filename=\"../../x\"\r\n\r\n";
    [start.as_bytes(), file, b"\r\n--B--\r\n"].concat()
}

const MULTIPART: &str = "multipart/form-data; boundary=B";
const URLENCODED: &str = "application/x-www-form-urlencoded";

/// As large as a file of a form may be.
fn file_max<L: Loop>() -> usize {
    50_000 / L::SLOWER
}

fn forms_are_collected<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    let contents: Vec<u8> = (0..=255).cycle().take(file_max::<L>()).collect();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let reply = send_request(&mut client, post("/texts", URLENCODED, b"a=b+c&d=%C3%BC"));
        assert_eq!((reply.status, body(&reply)), (200, "a=b c\nd=ü\n".to_owned()));
        let reply = send_request(&mut client, post("/form", MULTIPART, &upload(&contents)));
        assert_eq!(body(&reply), format!("keep=yes\nfile: ../../x, {} bytes\n", contents.len()));
        let reply = send_request(&mut client, post("/form", MULTIPART, &upload(b"")));
        assert_eq!(body(&reply), "keep=yes\nfile: ../../x, 0 bytes\n");
        assert_eq!(send_request(&mut client, post("/texts", URLENCODED, b"")).status, 200);
    });
    assert_eq!(bench.uploaded(), ["kept"]);
    assert!(fs::read(bench.uploads.path().join("kept")).unwrap() == contents);
}

fn invalid_and_oversized_forms_are_refused<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    bench.turn_while(|address| {
        let form = upload(b"x");
        let huge = upload(&vec![b'x'; file_max::<L>() + 1]);
        for (target, media, sent, status) in [
            ("/texts", "text/plain", &b"a=b"[..], 415),
            ("/texts", MULTIPART, &form, 400), // a file, where none is taken
            ("/form", MULTIPART, &form[..form.len() - 5], 400),
            ("/form", MULTIPART, b"nonsense", 400),
            ("/form", "multipart/form-data", &form, 400),
            ("/form", MULTIPART, &huge, 413),
        ] {
            let mut client = HttpClient::connect(address);
            let reply = send_request(&mut client, post(target, media, sent));
            assert_eq!(reply.status, status, "{target} {media}");
            assert!(reply.field("content-type").is_some_and(|m| m.starts_with("text/plain")));
        }
        // A body with a declared length above the limit is refused without a 100.
        let mut client = HttpClient::connect(address);
        client.send(format!(
            "POST /form HTTP/1.1\r\nHost: h\r\nContent-Type: {MULTIPART}\r\n\
             Content-Length: 900000000\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(client.read_head().expect("a head").status, 413);
        let mut client = HttpClient::connect(address);
        client.send(format!(
            "POST /form HTTP/1.1\r\nHost: h\r\nContent-Type: {MULTIPART}\r\n\
             Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            form.len()
        ));
        assert_eq!(client.read_head().expect("a head").status, 100);
        assert_eq!(send_request(&mut client, &form).status, 200);
    });
    assert_eq!(bench.uploaded(), ["kept"]);
}

fn an_aborted_form_leaves_no_file<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    let form = post("/form", MULTIPART, &upload(&vec![b'x'; file_max::<L>()]));
    let before = Ledger::here();
    let address = bench.address;
    let mut client = HttpClient::connect(address);
    client.send(&form[..form.len() - 20]);
    let made = |responder| done(&(Ledger::here() - before), responder);
    bench.driver.turn_until(|_| made(System::pwrite64) > 0);
    drop(client);
    bench.driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!(made(System::close), 2, "the file and the connection");
    assert_eq!(bench.uploaded(), [""; 0]);
}

fn protected_paths_require_authentication<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let reply = client.get("/basic");
        assert_eq!(reply.status, 401);
        let asked = reply.field("www-authenticate");
        assert_eq!(asked, Some("Basic realm=\"a \\\"b\\\"\", charset=\"UTF-8\""));
        for (value, status) in [
            ("Basic Wm/DqzpwYXNzOndvcmQ=", 200),
            ("Basic Wm/DqzpwYXNzOndvcmQ=", 200),
            ("Basic Wm/DqzpwYXNz", 401),
            ("Basic Wm9lOnBhc3M6d29yZA==", 401),
            ("Basic ", 401),
            ("Basic =", 401),
            ("Bearer abc", 401),
            ("Digest username=x", 401),
        ] {
            let request =
                format!("GET /basic HTTP/1.1\r\nHost: h\r\nAuthorization: {value}\r\n\r\n");
            let reply = send_request(&mut client, request);
            assert_eq!(reply.status, status, "{value}");
            assert_eq!(reply.field("www-authenticate").is_some(), status == 401);
        }
        assert_eq!(client.get("/digest").status, 401);
    });
}

fn cookies_are_read_and_set<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let reply = client.get("/visit");
        let set = reply.field("set-cookie").unwrap();
        assert_eq!(set, "visits=1; Path=/; HttpOnly; SameSite=Lax");
        let again = "GET /visit HTTP/1.1\r\nHost: h\r\nCookie: a=b; visits=41; visits=7\r\n\r\n";
        assert_eq!(body(&send_request(&mut client, again)), "42\n");
        let odd = "GET /visit HTTP/1.1\r\nHost: h\r\nCookie: ;;=; visits; visits=\"1\"\r\n\r\n";
        assert_eq!(body(&send_request(&mut client, odd)), "1\n");
    });
}

fn any_handler_can_serve_files<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    let large: Vec<u8> = (0..=255).cycle().take(120_000 / L::SLOWER).collect();
    fs::write(bench.site.path().join("large.bin"), &large).unwrap();
    fs::write(bench.site.path().join("small.txt"), "0123456789").unwrap();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let reply = client.get("/small.txt");
        assert_eq!((reply.status, &reply.body[..]), (200, &b"0123456789"[..]));
        assert_eq!(reply.field("content-type"), Some("text/plain; charset=utf-8"));
        let tag = reply.field("etag").unwrap().to_owned();
        assert!(client.get("/large.bin").body == large);
        for (field, status, expected) in [
            ("Range: bytes=2-4", 206, "234"),
            ("Range: bytes=20-", 416, ""),
            (&format!("If-None-Match: {tag}"), 304, ""),
            ("If-Match: \"x\"", 412, ""),
        ] {
            let request = format!("GET /small.txt HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
            let reply = send_request(&mut client, request);
            assert_eq!(reply.status, status, "{field}");
            assert!(status >= 400 || body(&reply) == expected, "{field}");
        }
        let parts = send_request(
            &mut client,
            "GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,9-9\r\n\r\n",
        );
        assert_eq!((parts.status, parts.body.len() > 100), (206, true));
        client.send("HEAD /large.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = client.read_head().expect("a head");
        assert_eq!(
            (head.status, head.field("content-length")),
            (200, Some(&large.len().to_string()[..]))
        );
        assert_eq!(client.get("/missing").status, 404);
        assert_eq!(client.get("/../x").status, 400);
        assert_eq!(send_request(&mut client, "PUT /x HTTP/1.1\r\nHost: h\r\n\r\n").status, 405);
    });
}

fn a_representation_is_sent_in_parts_or_not_at_all<L: Loop<Engine = WebEngine>>() {
    let mut bench = start::<L>();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let mut get = |target: &str, field: &str| {
            let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{field}\r\n");
            send_request(&mut client, request)
        };
        let whole = get("/report", "");
        assert_eq!((whole.status, body(&whole)), (200, "0123456789".to_owned()));
        for (name, value) in [
            ("etag", "\"v1\""),
            ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("content-type", "text/plain"),
            ("accept-ranges", "bytes"),
            ("x-other", "1"),
        ] {
            assert_eq!(whole.field(name), Some(value));
        }
        for (field, status, expected) in [
            ("Range: bytes=2-4\r\n", 206, "234"),
            ("Range: bytes=-3\r\nIf-Range: \"v1\"\r\n", 206, "789"),
            ("Range: bytes=-3\r\nIf-Range: \"v0\"\r\n", 200, "0123456789"),
            ("Range: bytes=10-\r\n", 416, ""),
            ("If-None-Match: W/\"v1\"\r\n", 304, ""),
            ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 304, ""),
            ("If-Match: \"v0\"\r\n", 412, "the resource has changed\n"),
        ] {
            let reply = get("/report", field);
            assert_eq!((reply.status, &body(&reply)[..]), (status, expected), "{field}");
            let range = match status {
                206 => Some(if expected == "234" { "bytes 2-4/10" } else { "bytes 7-9/10" }),
                416 => Some("bytes */10"),
                _ => None,
            };
            assert_eq!(reply.field("content-range"), range, "{field}");
            assert_eq!(reply.field("etag").is_some(), matches!(status, 200 | 206 | 304));
            assert_eq!(reply.field("cache-control").is_some(), matches!(status, 200 | 206 | 304));
        }
        assert_eq!(get("/report", "If-None-Match: \"v1\"\r\n").field("x-other"), None);
        let parts = get("/report", "Range: bytes=0-1,8-\r\n");
        let media = parts.field("content-type").unwrap();
        let boundary = media.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |range: &str, text: &str| {
            let fields = format!("Content-Type: text/plain\r\nContent-Range: bytes {range}/10");
            format!("--{boundary}\r\n{fields}\r\n\r\n{text}\r\n")
        };
        let expected = part("0-1", "01") + &part("8-9", "89") + &format!("--{boundary}--\r\n");
        assert_eq!((parts.status, body(&parts)), (206, expected));
        assert_eq!(body(&get("/excerpt", "")), "What handlers of web");
        assert_eq!(body(&get("/excerpt", "Range: bytes=5-7\r\n")), "han");
        client.send("HEAD /report HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\n\r\n");
        let head = client.read_head().expect("a head");
        assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
        let refused = send_request(&mut client, "POST /report HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
    });
}

tests_in_three_loops!(
    at_any_pace: [
        forms_are_collected,
        invalid_and_oversized_forms_are_refused,
        an_aborted_form_leaves_no_file,
        protected_paths_require_authentication,
        cookies_are_read_and_set,
        any_handler_can_serve_files,
        a_representation_is_sent_in_parts_or_not_at_all,
    ],
);

fn url(address: SocketAddr, target: &str) -> String {
    format!("http://{address}{target}")
}

#[test]
fn curl_is_admitted() {
    let mut bench = start::<OwnLoop<_>>();
    bench.turn_while(|address| {
        let run = |target: &str, arguments: &[&str]| {
            let fetched = Curl::new(&url(address, target)).with(arguments).run();
            (fetched.statuses, body(&fetched.reply))
        };
        let hello = "hello, Zoë\n".to_owned();
        assert_eq!(run("/basic", &["--basic", "-u", "Zoë:pass:word"]), (vec![200], hello.clone()));
        assert_eq!(run("/digest", &["--digest", "-u", "Zoë:pass:word"]).0, [401, 200]);
        assert_eq!(run("/digest", &["--anyauth", "-u", "Zoë:pass:word"]).1, hello);
        assert_eq!(run("/basic", &["-u", "Zoë:wrong"]).0, [401]);
        assert_eq!(run("/digest", &["--digest", "-u", "Zoë:wrong"]).0, [401, 401]);
        // Another nonce for each request, as curl likes it.
        let both = Curl::new(&url(address, "/digest"))
            .with(&["--digest", "-u", "Zoë:pass:word", &url(address, "/digest"), "-o", "/dev/null"])
            .run();
        assert_eq!(both.statuses, [401, 200, 401, 200]);
    });
}

#[test]
fn our_client_is_admitted() {
    let mut bench = start::<OwnLoop<_>>();
    bench.turn_while(|address| {
        let send_request = |alone: &mut ClientInLoop<OwnLoop<_>>, target: &str, password: &str| {
            let credentials = Credentials::password("Zoë", password).unwrap();
            let options =
                ClientOptions { credentials: Some(credentials.into()), ..ClientOptions::default() };
            alone.fetch_url(&url(address, target), options).status
        };
        for target in ["/basic", "/digest"] {
            // A client has one way of proving itself to an origin.
            let mut alone = ClientInLoop::new();
            for _ in 0..3 {
                assert_eq!(send_request(&mut alone, target, "pass:word"), 200, "{target}");
            }
            assert_eq!(send_request(&mut ClientInLoop::new(), target, "pass"), 401, "{target}");
        }
    });
}

#[test]
fn curl_sends_forms() {
    let mut bench = start::<OwnLoop<_>>();
    let file = bench.site.path().join("ü \"q\".bin");
    fs::write(&file, vec![7; 45_000]).unwrap();
    bench.turn_while(|address| {
        let send = |target: &str, arguments: &[&str]| {
            body(&Curl::new(&url(address, target)).with(arguments).run().reply)
        };
        let fields = ["-d", "a=1", "--data-urlencode", "b=ü &"];
        assert_eq!(send("/texts", &fields), "a=1\nb=ü &\n");
        assert_eq!(send("/texts", &["-F", "a=x y", "-F", "b=<-"]), "a=x y\nb=\n");
        let form = format!("file=@\"{}\"", file.to_str().unwrap().replace('"', "\\\""));
        let sent = send("/form", &["-F", "keep=1", "-F", &form]);
        assert_eq!(sent, "keep=1\nfile: ü %22q%22.bin, 45000 bytes\n");
        let sent = send(
            "/form",
            &[
                "-F",
                "keep=1",
                "-F",
                &form,
                "-H",
                "Expect: 100-continue",
                "--expect100-timeout",
                "60",
            ],
        );
        assert!(sent.ends_with("45000 bytes\n"), "{sent}");
    });
    assert_eq!(fs::read(bench.uploads.path().join("kept")).unwrap(), vec![7; 45_000]);
}

/// The same text, as gzip, Brotli and zstd.
fn compress(folder: &Path, name: &str, contents: &[u8]) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(contents).unwrap();
    let mut brotli_out = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams::default();
    brotli::BrotliCompress(&mut &contents[..], &mut brotli_out, &parameters).unwrap();
    let zstd = zstd::encode_all(contents, 3).unwrap();
    fs::write(folder.join(name), contents).unwrap();
    for (extension, bytes) in [("gz", gzip.finish().unwrap()), ("br", brotli_out), ("zst", zstd)] {
        assert!(bytes.len() < contents.len());
        fs::write(folder.join(format!("{name}.{extension}")), bytes).unwrap();
    }
}

#[test]
fn curl_gets_precompressed_files() {
    let mut bench = start::<OwnLoop<_>>();
    let contents = "all work and no play makes a dull boy\n".repeat(3_000);
    compress(bench.site.path(), "page.txt", contents.as_bytes());
    bench.turn_while(|address| {
        let page = url(address, "/page.txt");
        for (arguments, coding) in [
            (&["--compressed"][..], None), // whichever is smallest
            (&["--compressed", "-H", "Accept-Encoding: gzip"], Some("gzip")),
            (&["--compressed", "-H", "Accept-Encoding: br"], Some("br")),
            (&["--compressed", "-H", "Accept-Encoding: zstd"], Some("zstd")),
        ] {
            let reply = Curl::new(&page).with(arguments).run().reply;
            assert!(body(&reply) == contents, "{arguments:?}");
            assert_eq!(reply.field("vary"), Some("Accept-Encoding"));
            let sent = reply.field("content-encoding").expect("a coding");
            assert!(coding.is_none_or(|coding| coding == sent), "{arguments:?}: {sent}");
        }
        let plain = curl::get(&page);
        assert_eq!((body(&plain) == contents, plain.field("content-encoding")), (true, None));
    });
}

#[test]
fn a_form_with_a_file_that_is_kept_costs_four_calls_more() {
    let mut bench = start::<OwnLoop<_>>();
    let texts = post("/texts", URLENCODED, b"a=b");
    let file = post("/form", MULTIPART, &upload(&[b'x'; 1000]));
    let mut costs = Vec::new();
    let mut client = HttpClient::connect(bench.address);
    for request in [&texts, &texts, &file] {
        let before = Ledger::here();
        client.send(request);
        bench.driver.turn_until(|driver| {
            let application = driver.engine().application();
            application.requests() == costs.len() as u64 + 1
                && done(&(Ledger::here() - before), System::send) == 1
        });
        let made = Ledger::here() - before;
        costs.push(made);
        assert_eq!(client.read_reply().expect("a reply").status, 200);
    }
    let made = |call| costs[2].count(call).calls - costs[1].count(call).calls;
    let calls = [System::openat, System::pwrite64, System::linkat, System::close];
    assert_eq!(calls.map(made), [1; 4], "made, written, named and closed");
    // When it is time to look at a connection depends on the machine.
    let looks = [System::epoll_wait, System::epoll_wait_empty, System::epoll_pwait2];
    let looks = |spent: &Ledger| {
        let all = looks.iter().chain(&[System::epoll_ctl]);
        all.map(|responder| spent.count(*responder).calls).sum::<u64>()
    };
    let total = |spent: &Ledger| spent.total() - looks(spent);
    assert_eq!(total(&costs[2]) - total(&costs[1]), 4);
    assert_eq!(done(&costs[1], System::recv), 1);
}
