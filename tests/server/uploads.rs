//! Files that clients put into a directory, over real sockets.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::mpsc;

use fulmar_proto::Request;
use fulmar_serve::root::Lookup;
use fulmar_serve::{Options, Site, UploadOptions};
use fulmar_server::{Handler, HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar_sys::{self as sys, Call as System, Ledger};
use fulmar_tests::curl::Curl;
use fulmar_tests::http::{HttpClient, HttpReply};
use fulmar_tests::loops::{LISTENER, Loop, OwnLoop, done, turn_while};
use fulmar_tests::tests_in_three_loops;
use tempfile::TempDir;

/// A directory and nothing else.
struct SiteHandler(Site);

impl Handler for SiteHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        self.0.serve(responder, request)
    }
}

type SiteEngine = ServerEngine<HandlerApp<SiteHandler>>;

struct SiteServer<L> {
    driver: L,
    address: SocketAddr,
    dir: TempDir,
}

fn start<L: Loop<Engine = SiteEngine>>(upload: Option<UploadOptions>) -> SiteServer<L> {
    start_with(Options { upload, list: true, ..Options::default() })
}

fn start_with<L: Loop<Engine = SiteEngine>>(options: Options) -> SiteServer<L> {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::open(dir.path(), options).unwrap();
    let app = HandlerApp::new(SiteHandler(site), sys::now(), sys::wall_clock);
    let mut engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    engine.add_listener(LISTENER, None);
    let (driver, address) = L::start(engine);
    SiteServer { driver, address, dir }
}

fn taking<L: Loop<Engine = SiteEngine>>() -> SiteServer<L> {
    start(Some(UploadOptions { size_max: size_max::<L>() as u64 }))
}

impl<L: Loop<Engine = SiteEngine>> SiteServer<L> {
    fn turn_while<T: Send>(&mut self, act: impl FnOnce(SocketAddr) -> T + Send) -> T {
        let address = self.address;
        turn_while(&mut self.driver, move || act(address))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Every name in the directory, hidden ones too.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }
}

/// The head of a PUT with a field more.
fn head(target: &str, field: &str, len: usize) -> String {
    format!("PUT {target} HTTP/1.1\r\nHost: h\r\n{field}Content-Length: {len}\r\n\r\n")
}

fn put(client: &mut HttpClient, target: &str, field: &str, body: &[u8]) -> HttpReply {
    client.send([head(target, field, body.len()).as_bytes(), body].concat());
    client.read_reply().expect("a reply")
}

/// As large as a file may be.
fn size_max<L: Loop>() -> usize {
    100_000 / L::SLOWER
}

fn an_uploaded_file_is_visible_at_once<L: Loop<Engine = SiteEngine>>() {
    let mut bench = taking::<L>();
    fs::create_dir(bench.path("sub")).unwrap();
    let large: Vec<u8> = (0..=255).cycle().take(size_max::<L>()).collect();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        assert_eq!(client.get("/sub/a%20b.txt").status, 404);
        let reply = put(&mut client, "/sub/a%20b.txt", "", b"one");
        assert_eq!((reply.status, reply.body.len()), (201, 0));
        let tag = reply.field("etag").expect("a tag").to_owned();
        let got = client.get("/sub/a%20b.txt");
        assert_eq!((&got.body[..], got.field("etag")), (&b"one"[..], Some(&tag[..])));
        let reply = put(&mut client, "/sub/a%20b.txt", "", b"two");
        assert_eq!(reply.status, 204);
        assert_ne!(reply.field("etag"), Some(&tag[..]));
        let got = client.get("/sub/a%20b.txt");
        assert_eq!(got.body, b"two", "what was remembered is forgotten");
        assert_eq!(put(&mut client, "/large", "", &large).status, 201);
        assert!(client.get("/large").body == large);
        assert_eq!(put(&mut client, "/empty", "", b"").status, 201);
        assert_eq!(client.get("/empty").body, b"");
        client.send(
            "PUT /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        );
        assert_eq!(client.read_reply().expect("a reply").status, 201);
        let list = String::from_utf8(client.get("/").body).unwrap();
        assert!(list.contains("chunked") && list.contains("empty"), "{list}");
    });
    assert_eq!(bench.names(), ["chunked", "empty", "large", "sub"]);
    assert_eq!((bench.text("chunked"), bench.text("sub/a b.txt")), ("abcde".into(), "two".into()));
}

fn invalid_uploads_are_refused<L: Loop<Engine = SiteEngine>>() {
    let mut bench = taking::<L>();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(bench.path("dir")).unwrap();
    fs::write(bench.path("file"), "kept").unwrap();
    symlink("file", bench.path("link")).unwrap();
    symlink(outside.path(), bench.path("out")).unwrap();
    bench.turn_while(|address| {
        let long = format!("/{}", "x".repeat(300));
        for (target, field, status) in [
            ("/", "", 409),
            ("/dir", "", 409),
            ("/dir/", "", 409),
            ("/new/", "", 409),
            ("/missing/x", "", 409),
            ("/file/x", "", 409),
            ("/out/x", "", 409),
            ("/link", "", 403),
            ("/.hidden", "", 403),
            ("/dir/.hidden/x", "", 403),
            ("/a%2fb", "", 403),
            ("/../x", "", 400),
            ("/%2e%2e/x", "", 400),
            ("/a%00", "", 400),
            (&long, "", 400),
            ("/x", "Content-Range: bytes 0-0/2\r\n", 400),
            ("/x", "Content-Encoding: gzip\r\n", 415),
            ("/x", "If-Match: *\r\n", 412),
            ("/file", "If-None-Match: *\r\n", 412),
            ("/file", "If-Match: \"x\"\r\n", 412),
            ("/file", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 412),
        ] {
            let reply = put(&mut HttpClient::connect(address), target, field, b"x");
            assert_eq!(reply.status, status, "{target} {field}");
            let page = String::from_utf8_lossy(&reply.body);
            let is_ours = page.contains(&format!("<h1>{status} "));
            assert!(is_ours || status == 400, "{target}: {page}");
        }
    });
    assert_eq!(bench.names(), ["dir", "file", "link", "out"]);
    assert_eq!(bench.text("file"), "kept");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

fn a_file_that_is_too_large_is_refused<L: Loop<Engine = SiteEngine>>() {
    let mut bench = taking::<L>();
    let max = size_max::<L>();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        client.send(head("/a", "Expect: 100-continue\r\n", max + 1));
        assert_eq!(client.read_head().expect("a head").status, 413, "it is not asked for");
        let mut client = HttpClient::connect(address);
        client.send(head("/a", "Expect: 100-continue\r\n", max));
        assert_eq!(client.read_head().expect("a head").status, 100);
        client.send(vec![b'x'; max]);
        assert_eq!(client.read_reply().expect("a reply").status, 201);
        let mut client = HttpClient::connect(address);
        client.send("PUT /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(format!("{:x}\r\n{}\r\n", max + 1, "x".repeat(max + 1)));
        assert_eq!(client.read_reply().expect("a reply").status, 413);
    });
    assert_eq!(bench.names(), ["a"]);
}

fn an_aborted_upload_leaves_no_file<L: Loop<Engine = SiteEngine>>() {
    let mut bench = taking::<L>();
    fs::write(bench.path("a"), "old").unwrap();
    let before = Ledger::here();
    let mut client = HttpClient::connect(bench.address);
    client.send(head("/a", "", 100));
    client.send([b'x'; 99]);
    let written = |_: &mut L| (Ledger::here() - before).count(System::pwrite64).calls > 0;
    bench.driver.turn_until(written);
    drop(client);
    bench.driver.turn_until(|driver| driver.engine().connections() == 0);
    assert_eq!((bench.names(), bench.text("a")), (vec!["a".to_owned()], "old".to_owned()));
    let made = Ledger::here() - before;
    assert_eq!(done(&made, System::close), 3, "the file, its directory and the connection");
}

/// Of two concurrent conditional uploads the slower one fails.
fn of_two_conditional_uploads_the_slower_fails<L: Loop<Engine = SiteEngine>>() {
    let mut bench = taking::<L>();
    fs::write(bench.path("old"), "1").unwrap();
    let (old, new) = (bench.path("old"), bench.path("new"));
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        let tag = client.get("/old").field("etag").unwrap().to_owned();
        let right = put(&mut client, "/old", &format!("If-Match: {tag}\r\n"), b"2");
        assert_eq!(right.status, 204);
        assert_eq!(put(&mut client, "/old", &format!("If-Match: {tag}\r\n"), b"3").status, 412);
        let tag = right.field("etag").unwrap();
        let begin = |target: &str, field: &str| {
            let mut client = HttpClient::connect(address);
            client.send(head(target, &format!("Expect: 100-continue\r\n{field}"), 1));
            assert_eq!(client.read_head().expect("a head").status, 100);
            client
        };
        let mut slow = begin("/old", &format!("If-Match: {tag}\r\n"));
        let mut first = begin("/new", "If-None-Match: *\r\n");
        let mut careless = begin("/new", "");
        fs::write(old, "somebody else's").unwrap();
        fs::write(new, "too").unwrap();
        slow.send("x");
        assert_eq!(slow.read_reply().expect("a reply").status, 412);
        first.send("x");
        assert_eq!(first.read_reply().expect("a reply").status, 412);
        careless.send("x");
        assert_eq!(careless.read_reply().expect("a reply").status, 201);
    });
    assert_eq!((bench.text("old"), bench.text("new")), ("somebody else's".into(), "x".into()));
    assert_eq!(bench.names(), ["new", "old"]);
}

fn uploads_are_refused_unless_enabled<L: Loop<Engine = SiteEngine>>() {
    let mut bench = start::<L>(None);
    bench.turn_while(|address| {
        let reply = put(&mut HttpClient::connect(address), "/a", "", b"x");
        assert_eq!((reply.status, reply.field("allow")), (405, Some("GET, HEAD, OPTIONS")));
    });
    assert_eq!(bench.names(), [""; 0]);
    let mut bench = taking::<L>();
    bench.turn_while(|address| {
        let mut client = HttpClient::connect(address);
        client.send("OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n");
        let reply = client.read_reply().expect("a reply");
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS, PUT"));
    });
}

tests_in_three_loops!(
    at_any_pace: [
        an_uploaded_file_is_visible_at_once,
        invalid_uploads_are_refused,
        a_file_that_is_too_large_is_refused,
        an_aborted_upload_leaves_no_file,
        of_two_conditional_uploads_the_slower_fails,
        uploads_are_refused_unless_enabled,
    ],
);

#[test]
fn readers_see_the_old_file_or_the_new_one() {
    let mut bench = taking::<OwnLoop<_>>();
    let (one, two) = (vec![b'1'; 80_000], vec![b'2'; 90_000]);
    fs::write(bench.path("a"), &one).unwrap();
    let path = bench.path("a");
    bench.turn_while(|address| {
        let (stop, stopped) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                let text = fs::read(&path).unwrap();
                assert!(text.len() == 80_000 || text.len() == 90_000, "{}", text.len());
                assert!(text.iter().all(|byte| *byte == text[0]));
                let _ = begin.send(()); // it is waited for once
            }
        });
        begun.recv().expect("it reads");
        let mut client = HttpClient::connect(address);
        for body in [&two, &one].iter().cycle().take(50) {
            assert_eq!(put(&mut client, "/a", "", body).status, 204);
        }
        drop(stop);
        reader.join().expect("nothing half was read");
    });
    assert_eq!(bench.names(), ["a"]);
}

#[test]
fn an_upload_costs_nine_calls_and_two_more_if_it_replaces() {
    let mut bench = taking::<OwnLoop<_>>();
    let mut client = HttpClient::connect(bench.address);
    for (status, linked, renamed) in [(201, 1, 0), (204, 2, 1)] {
        let before = Ledger::here();
        client.send([head("/a", "", 4).as_bytes(), b"text"].concat());
        bench.driver.turn_until(|_| done(&(Ledger::here() - before), System::send) == 1);
        assert_eq!(client.read_reply().expect("a reply").status, status);
        let made = Ledger::here() - before;
        for (call, times) in [
            (System::openat2, 1),    // the directory
            (System::fstat, 2),      // it, and the file for its tag
            (System::newfstatat, 1), // what is there
            (System::openat, 1),
            (System::pwrite64, 1),
            (System::linkat, linked),
            (System::renameat2, renamed),
            (System::close, 2),
            (System::recv, 1),
        ] {
            assert_eq!(done(&made, call), times, "{}, {status}", call.name());
        }
    }
}

/// Where the kernel cannot hold names below a directory.
#[test]
fn without_openat2_it_is_the_same() {
    let upload = Some(UploadOptions::default());
    let mut bench: SiteServer<OwnLoop<_>> =
        start_with(Options { upload, lookup: Lookup::Walk, ..Options::default() });
    fs::create_dir(bench.path("sub")).unwrap();
    symlink("sub", bench.path("link")).unwrap();
    bench.turn_while(|address| {
        for (target, status) in
            [("/a", 201), ("/a", 204), ("/sub/b", 201), ("/link/c", 409), ("/link", 403)]
        {
            let reply = put(&mut HttpClient::connect(address), target, "", b"x");
            assert_eq!(reply.status, status, "{target}");
        }
    });
    assert_eq!((bench.text("a"), bench.text("sub/b")), ("x".into(), "x".into()));
    assert_eq!(bench.names(), ["a", "link", "sub"]);
}

#[test]
fn curl_uploads() {
    let mut bench = taking::<OwnLoop<_>>();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![7; 90_000]).unwrap();
    let path = file.path().to_str().unwrap();
    bench.turn_while(|address| {
        let url = format!("http://{address}/x.bin");
        let send = |arguments: &[&str]| {
            let all = [&["-T", path], arguments].concat();
            Curl::new(&url).with(&all).run().statuses
        };
        assert_eq!(send(&["-H", "Expect:"]), [201]);
        let waits = ["--expect100-timeout", "60", "-H", "Expect: 100-continue"];
        assert_eq!(send(&waits), [100, 204]);
        assert_eq!(send(&["-H", "Transfer-Encoding: chunked", "-H", "Expect:"]), [204]);
        assert_eq!(send(&["-H", "If-None-Match: *", "-H", "Expect:"]), [412]);
    });
    assert_eq!(fs::read(bench.path("x.bin")).unwrap(), vec![7; 90_000]);
}
