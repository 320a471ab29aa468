//! Requests to real directories: responses and costs.

use std::collections::HashMap;
use std::fs::{self, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use fulmar_proto::{BodyLen, HeaderBuf, Request, Segment};
use fulmar_serve::{Options, OutdatedHook, Site, SiteBody, SiteResponse};
use fulmar_sys::Ledger;

const LARGE_SIZE: usize = 104_000;

/// A response as received.
#[derive(Debug, PartialEq, Eq)]
struct SeenResponse {
    status: u16,
    fields: HashMap<String, String>,
    body: Vec<u8>,
}

struct SiteBench {
    dir: tempfile::TempDir,
    site: Site,
    now: Instant,
    unix: i64,
}

fn bench(options: Options) -> SiteBench {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("docs/deep")).unwrap();
    fs::create_dir_all(at("empty")).unwrap();
    fs::create_dir_all(at("odd/index.html")).unwrap();
    fs::create_dir(at("a:b c\\d")).unwrap();
    fs::write(at("docs/index.htm"), "<p>docs").unwrap();
    fs::write(at("docs/deep/a b.txt"), "deep").unwrap();
    fs::write(at("small.txt"), "0123456789").unwrap();
    fs::write(at("nothing.txt"), "").unwrap();
    fs::write(at("large.bin"), large()).unwrap();
    fs::write(at(".secret"), "secret").unwrap();
    let now = fulmar_sys::now();
    // A minute later than the files, so that their dates are strong validators.
    let unix = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 60;
    let site = Site::open(dir.path(), options).unwrap();
    SiteBench { dir, site, now, unix: i64::try_from(unix).unwrap() }
}

fn large() -> Vec<u8> {
    (0..LARGE_SIZE).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

impl SiteBench {
    fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> SeenResponse {
        let mut headers = HeaderBuf::new();
        for (name, value) in fields {
            headers.push(name, value.as_bytes()).unwrap();
        }
        let request = Request::new(method.as_bytes(), target.as_bytes(), headers.as_headers());
        see(&self.site.answer(self.now, self.unix, &request))
    }

    fn get(&mut self, target: &str) -> SeenResponse {
        self.ask("GET", target, &[])
    }

    fn range(&mut self, target: &str, range: &str) -> SeenResponse {
        self.ask("GET", target, &[("Range", range)])
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn wait(&mut self) {
        self.now += Duration::from_secs(1);
    }

    /// The system calls of one more GET.
    fn calls(&mut self, target: &str) -> Vec<(&'static str, u64)> {
        let before = Ledger::here();
        let answer =
            self.site.answer(self.now, self.unix, &Request::new(b"GET", target.as_bytes(), NONE));
        drop(answer);
        (Ledger::here() - before).iter().map(|(call, count)| (call.name(), count.calls)).collect()
    }
}

const NONE: fulmar_proto::Headers<'static> = fulmar_proto::Headers::EMPTY;

fn see(answer: &SiteResponse<'_>) -> SeenResponse {
    let head = answer.head();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields = HashMap::new();
    for (name, value) in head.headers.iter() {
        assert!(fields.insert(text(name), text(value)).is_none());
    }
    for (name, value) in head.added {
        assert!(fields.insert((*name).to_owned(), text(value)).is_none());
    }
    let body = match &answer.body {
        SiteBody::Empty => vec![],
        SiteBody::Bytes(bytes) => bytes.to_vec(),
        SiteBody::File(range) => read(&Segment::File(range.clone())),
        SiteBody::Parts(parts) => parts.iter().flat_map(read).collect(),
    };
    assert_eq!(body.len() as u64, answer.body_len());
    match answer.len {
        BodyLen::Empty => assert!(body.is_empty()),
        BodyLen::Exact(len) => {
            assert!(body.is_empty() || body.len() as u64 == len);
            fields.insert("Content-Length".to_owned(), len.to_string());
        }
        BodyLen::Unknown => panic!("a file has a length"),
    }
    SeenResponse { status: head.status, fields, body }
}

fn read(segment: &Segment) -> Vec<u8> {
    match segment {
        Segment::Bytes(bytes) => bytes.to_vec(),
        Segment::File(range) => {
            let mut bytes = vec![0; usize::try_from(range.len).unwrap()];
            let file = fs::File::from(range.file.try_clone().unwrap());
            file.read_exact_at(&mut bytes, range.offset).unwrap();
            bytes
        }
        Segment::Pipe(_) => unreachable!("nothing here comes in a pipe"),
    }
}

impl SeenResponse {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }
}

#[test]
fn files_are_sent() {
    let mut bench = bench(Options::default());
    let small = bench.get("/small.txt?query");
    assert_eq!((small.status, small.text()), (200, "0123456789"));
    assert_eq!(small.field("Content-Type"), "text/plain; charset=utf-8");
    assert_eq!(small.field("Content-Length"), "10");
    assert_eq!(small.field("Accept-Ranges"), "bytes");
    assert!(small.field("ETag").starts_with('"') && small.field("Last-Modified").ends_with("GMT"));
    assert_eq!(bench.get("http://host/small.txt"), small);
    let large_file = bench.get("/large.bin");
    assert_eq!((large_file.status, large_file.body), (200, large()));
    assert_eq!(bench.get("/docs/deep/a%20b.txt").text(), "deep");
    let nothing = bench.get("/nothing.txt");
    assert_eq!((nothing.status, nothing.field("Content-Length")), (200, "0"));
}

#[test]
fn head_is_get_without_a_body() {
    let mut bench = bench(Options { list: true, ..Options::default() });
    for target in ["/small.txt", "/large.bin", "/docs/", "/docs", "/", "/missing", "/.secret"] {
        let get = bench.get(target);
        let head = bench.ask("HEAD", target, &[]);
        assert_eq!(head, SeenResponse { body: vec![], ..get }, "{target}");
    }
    let ranged = bench.ask("HEAD", "/small.txt", &[("Range", "bytes=0-0")]);
    assert_eq!((ranged.status, ranged.field("Content-Length")), (200, "10"));
}

#[test]
fn missing_files_are_not_found() {
    let mut bench = bench(Options::default());
    symlink("/etc/passwd", bench.path("link")).unwrap();
    for (target, status) in [
        ("/missing", 404),
        ("/small.txt/", 404),
        ("/small.txt/x", 404),
        ("/.secret", 404),
        ("/%2esecret", 404),
        ("/docs%2findex.htm", 404),
        ("/link", 404),
        ("/empty/", 403),
        ("/odd/", 403),
        ("/", 403),
        ("/../etc/passwd", 400),
        ("/docs/%2e%2e/%2e%2e/etc/passwd", 400),
        ("/a%00", 400),
        ("/%", 400),
        ("*", 400),
    ] {
        let seen = bench.get(target);
        assert_eq!(seen.status, status, "{target}");
        assert_eq!(seen.field("Content-Type"), "text/html; charset=utf-8");
        assert!(seen.text().contains(&format!("<h1>{status} ")), "{}", seen.text());
    }
}

#[test]
fn other_methods_are_refused() {
    let mut bench = bench(Options::default());
    for method in ["POST", "PUT", "DELETE", "TRACE", "CONNECT", "get", "BREW"] {
        let seen = bench.ask(method, "/small.txt", &[]);
        assert_eq!((seen.status, seen.field("Allow")), (405, "GET, HEAD, OPTIONS"));
    }
    for target in ["*", "/small.txt", "/missing"] {
        let seen = bench.ask("OPTIONS", target, &[]);
        assert_eq!((seen.status, seen.field("Allow")), (204, "GET, HEAD, OPTIONS"));
        assert!(seen.body.is_empty() && seen.field("Content-Length").is_empty());
    }
}

#[test]
fn directories_have_a_slash_and_an_index() {
    let mut bench = bench(Options::default());
    for (target, location) in [
        ("/docs", "/docs/"),
        ("//docs", "/docs/"),
        ("/docs/./deep?x", "/docs/deep/?x"),
        ("/docs?a=/b%20c&d#e", "/docs/?a=/b%20c&d"),
        // The cached redirect has no query of an earlier request.
        ("/docs", "/docs/"),
        ("/a:b%20c%5Cd", "/a%3Ab%20c%5Cd/"),
    ] {
        let seen = bench.get(target);
        assert_eq!((seen.status, seen.field("Location")), (301, location), "{target}");
    }
    let index = bench.get("/docs/");
    assert_eq!((index.status, index.text()), (200, "<p>docs"));
    assert_eq!(index.field("Content-Type"), "text/html; charset=utf-8");
    bench.wait();
    fs::write(bench.path("docs/index.html"), "<p>better").unwrap();
    assert_eq!(bench.get("/docs/").text(), "<p>better");
}

#[test]
fn directories_are_listed_on_request() {
    let mut bench = bench(Options { list: true, ..Options::default() });
    let name = std::ffi::OsStr::from_bytes(b"\xff<b>");
    fs::write(bench.dir.path().join(name), "odd").unwrap();
    symlink("/etc", bench.path("absolute")).unwrap();
    symlink("missing", bench.path("dangling")).unwrap();
    symlink("socket", bench.path("to-a-socket")).unwrap();
    symlink("small.txt", bench.path("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();
    let root = bench.get("/");
    assert_eq!((root.status, root.field("Content-Type")), (200, "text/html; charset=utf-8"));
    for shown in ["\"./docs/\"", "\"./small.txt\"", "101 KiB", "./%FF%3Cb%3E", "\"./link\""] {
        assert!(root.text().contains(shown), "{shown} in {}", root.text());
    }
    for hidden in [".secret", "socket", "<b>", "href=\"../\"", "absolute", "dangling"] {
        assert!(!root.text().contains(hidden), "{hidden}");
    }
    assert_eq!(bench.get("/%FF%3Cb%3E").text(), "odd");
    assert!(bench.get("/docs/deep/").text().contains("href=\"/docs/\">docs</a>"));
    assert_eq!(bench.get("/docs/").text(), "<p>docs");
    assert_eq!(bench.range("/", "bytes=0-0").status, 200);
    bench.wait();
    fs::write(bench.path("new.txt"), "").unwrap();
    assert!(bench.get("/").text().contains("./new.txt"));
}

#[test]
fn names_with_control_characters_are_found_listed_and_redirected_to() {
    let mut bench = bench(Options { list: true, ..Options::default() });
    for (name, escaped) in [
        (&b"\t"[..], "%09"),
        (b"a\nb", "a%0Ab"),
        (b"\r\nX: y", "%0D%0AX%3A%20y"),
        (b"\x1b[31m", "%1B%5B31m"),
        (b"\x7f", "%7F"),
        (b"\x01", "%01"),
    ] {
        let directory = [name, b".d"].concat();
        fs::write(bench.dir.path().join(std::ffi::OsStr::from_bytes(name)), escaped).unwrap();
        fs::create_dir(bench.dir.path().join(std::ffi::OsStr::from_bytes(&directory))).unwrap();
        let found = bench.get(&format!("/{escaped}"));
        assert_eq!((found.status, found.text()), (200, escaped));
        let redirect = bench.get(&format!("/{escaped}.d"));
        let location = format!("/{escaped}.d/");
        assert_eq!((redirect.status, redirect.field("Location")), (301, &location[..]));
        bench.wait();
        let listing = bench.get("/");
        assert!(listing.text().contains(&format!("\"./{escaped}\"")), "{}", listing.text());
        let text = listing.text().replace('\n', "");
        assert!(!text.contains(char::is_control), "{text}");
        let inside = bench.get(&format!("/{escaped}.d/"));
        assert!(!inside.text().replace('\n', "").contains(char::is_control), "{}", inside.text());
    }
    assert_eq!(bench.get("/%09%00").status, 400);
    assert_eq!(bench.get("/%0b").status, 404);
}

#[test]
fn a_listing_is_bounded() {
    let mut bench = bench(Options { list: true, ..Options::default() });
    for at in 0..10_001 {
        fs::write(bench.path(&format!("empty/{at}")), "").unwrap();
    }
    let page = bench.get("/empty/");
    assert_eq!(page.text().matches("<time").count(), 10_000);
    assert!(page.text().contains("more names"));
}

#[test]
fn dot_files_are_served_on_request() {
    let mut bench = bench(Options { hidden: true, list: true, ..Options::default() });
    assert_eq!(bench.get("/.secret").text(), "secret");
    assert!(bench.get("/").text().contains("./.secret"));
    assert_eq!(bench.get("/..").status, 400);
}

#[test]
fn an_unchanged_file_is_not_sent_again() {
    let mut bench = bench(Options::default());
    for target in ["/small.txt", "/large.bin"] {
        let first = bench.get(target);
        let (etag, date) = (first.field("ETag"), first.field("Last-Modified"));
        for (name, value) in [("If-None-Match", etag), ("If-Modified-Since", date)] {
            let seen = bench.ask("GET", target, &[(name, value)]);
            assert_eq!((seen.status, seen.body.len()), (304, 0));
            assert_eq!((seen.field("ETag"), seen.field("Last-Modified")), (etag, date));
            assert!(seen.field("Content-Type").is_empty());
        }
        assert_eq!(bench.ask("GET", target, &[("If-Match", "\"x\"")]).status, 412);
        assert_eq!(bench.ask("GET", target, &[("If-None-Match", "\"x\"")]), first);
        let part = [("Range", "bytes=0-0"), ("If-Range", date)];
        assert_eq!(bench.ask("GET", target, &part).status, 206);
        let whole = [("Range", "bytes=0-0"), ("If-Range", "\"x\"")];
        assert_eq!(bench.ask("GET", target, &whole), first);
        let both = [("Range", "bytes=0-0"), ("If-None-Match", etag)];
        assert_eq!(bench.ask("GET", target, &both).status, 304);
    }
}

#[test]
fn parts_are_sent() {
    let mut bench = bench(Options::default());
    let part = bench.range("/small.txt", "bytes=2-4");
    assert_eq!((part.status, part.text()), (206, "234"));
    assert_eq!(part.field("Content-Range"), "bytes 2-4/10");
    assert_eq!(part.field("Content-Type"), "text/plain; charset=utf-8");
    let part = bench.range("/large.bin", "bytes=-1000");
    assert_eq!((part.status, &part.body[..]), (206, &large()[LARGE_SIZE - 1000..]));
    let none = bench.range("/large.bin", "bytes=104000-");
    assert_eq!((none.status, none.field("Content-Range")), (416, "bytes */104000"));
    assert_eq!(bench.range("/nothing.txt", "bytes=0-").status, 416);
    assert_eq!(bench.range("/nothing.txt", "bytes=-5").status, 200);
    assert_eq!(bench.range("/large.bin", "bytes=0-,0-").status, 200);
    assert_eq!(bench.range("/missing", "bytes=0-").status, 404);
}

#[test]
fn several_parts_are_sent_in_one_body() {
    let mut bench = bench(Options::default());
    for (target, content, media) in [
        ("/small.txt", b"0123456789".to_vec(), "text/plain; charset=utf-8"),
        ("/large.bin", large(), "application/octet-stream"),
    ] {
        let seen = bench.range(target, "bytes=5-6,0-2,-1");
        assert_eq!((seen.status, seen.field("Content-Range")), (206, ""));
        let (media_type, boundary) = seen.field("Content-Type").split_once("boundary=").unwrap();
        assert_eq!((media_type, boundary.len()), ("multipart/byteranges; ", 32));
        assert!(!seen.field("ETag").is_empty() && !seen.field("Last-Modified").is_empty());
        let (len, mut expected) = (content.len(), Vec::new());
        for (at, (start, end)) in [(5, 7), (0, 3), (len - 1, len)].into_iter().enumerate() {
            let (gap, last) = (if at == 0 { "" } else { "\r\n" }, end - 1);
            expected.extend_from_slice(
                format!(
                    "{gap}--{boundary}\r\nContent-Type: {media}\r\n\
                     Content-Range: bytes {start}-{last}/{len}\r\n\r\n"
                )
                .as_bytes(),
            );
            expected.extend_from_slice(&content[start..end]);
        }
        expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(seen.body, expected);
    }
}

#[test]
fn boundaries_do_not_repeat() {
    let mut bench = bench(Options::default());
    let first = bench.range("/small.txt", "bytes=0-0,5-5");
    let second = bench.range("/small.txt", "bytes=0-0,5-5");
    assert_ne!(first.field("Content-Type"), second.field("Content-Type"));
}

#[test]
fn a_fresh_file_costs_nothing() {
    let mut bench = bench(Options { list: true, ..Options::default() });
    let targets = ["/small.txt", "/large.bin", "/docs/", "/docs", "/", "http://h/small.txt"];
    for target in targets {
        bench.get(target);
        bench.get(target);
    }
    let now = bench.now;
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"localhost").unwrap();
    headers.push("User-Agent", b"test").unwrap();
    for target in targets {
        assert_eq!(bench.calls(target), [], "{target}");
        for method in [&b"GET"[..], b"HEAD"] {
            let request = Request::new(method, target.as_bytes(), headers.as_headers());
            let memory =
                allocation_counter::measure(|| drop(bench.site.answer(now, bench.unix, &request)));
            assert_eq!(memory.count_total, 0, "{target}");
        }
    }
}

#[test]
fn refusals_and_304_allocate_nothing() {
    let mut bench = bench(Options::default());
    let etag = bench.get("/small.txt").field("ETag").to_owned();
    let mut headers = HeaderBuf::new();
    headers.push("If-None-Match", etag.as_bytes()).unwrap();
    let now = bench.now;
    for (method, target, status) in [
        ("GET", "/small.txt", 304),
        ("POST", "/", 405),
        ("GET", "/.secret", 404),
        ("GET", "/..", 400),
    ] {
        let request = Request::new(method.as_bytes(), target.as_bytes(), headers.as_headers());
        let memory = allocation_counter::measure(|| {
            assert_eq!(bench.site.answer(now, bench.unix, &request).status, status);
        });
        assert_eq!(memory.count_total, 0, "{target}");
    }
}

#[test]
fn a_part_of_a_fresh_file_allocates_once_at_most() {
    let mut bench = bench(Options::default());
    bench.range("/large.bin", "bytes=0-0");
    let mut headers = HeaderBuf::new();
    headers.push("Range", b"bytes=5-9").unwrap();
    let request = Request::new(b"GET", b"/large.bin", headers.as_headers());
    let memory =
        allocation_counter::measure(|| drop(bench.site.answer(bench.now, bench.unix, &request)));
    assert!(memory.count_total <= 1, "{}", memory.count_total);
}

#[test]
fn a_file_is_checked_again_after_a_second() {
    let mut bench = bench(Options::default());
    let kernel = bench.site.follows_links();
    let open = if kernel { "openat2" } else { "openat" };
    assert_eq!(
        bench.calls("/small.txt"),
        [("close", 1), (open, 1), ("fstat", 1), ("pread64", 1)].sorted()
    );
    assert_eq!(bench.calls("/large.bin"), [(open, 1), ("fstat", 1)]);
    bench.now += Duration::from_millis(999);
    assert_eq!(bench.calls("/small.txt"), []);
    bench.now += Duration::from_millis(1);
    for target in ["/small.txt", "/large.bin"] {
        assert_eq!(bench.calls(target), [("close", 1), (open, 1), ("fstat", 1)], "{target}");
        assert_eq!(bench.calls(target), []);
    }
}

trait Sorted {
    fn sorted(self) -> Self;
}

impl<const N: usize> Sorted for [(&'static str, u64); N] {
    /// In the order of the ledger.
    fn sorted(mut self) -> Self {
        let place = |name: &str| fulmar_sys::Call::ALL.iter().position(|call| call.name() == name);
        self.sort_by_key(|(name, _)| place(name));
        self
    }
}

#[test]
fn changes_are_seen() {
    let mut bench = bench(Options::default());
    for target in ["/small.txt", "/large.bin"] {
        let path = bench.path(&target[1..]);
        let first = bench.get(target);
        // Other bytes, the same length.
        overwrite(&path, first.body.len());
        assert_eq!(bench.get(target).field("ETag"), first.field("ETag"));
        bench.wait();
        let second = bench.get(target);
        assert_ne!(second.field("ETag"), first.field("ETag"));
        assert!(second.body.iter().all(|b| *b == b'!'));
        // Another file with the same name.
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let other = bench.path("other");
        overwrite(&other, first.body.len());
        let times = FileTimes::new().set_modified(time);
        fs::File::options().write(true).open(&other).unwrap().set_times(times).unwrap();
        fs::rename(&other, &path).unwrap();
        bench.wait();
        assert_ne!(bench.get(target).field("ETag"), second.field("ETag"));
        // Deleted, and a directory in its place.
        fs::remove_file(&path).unwrap();
        bench.wait();
        assert_eq!(bench.get(target).status, 404);
        fs::create_dir(&path).unwrap();
        assert_eq!(bench.get(target).status, 301);
    }
}

fn overwrite(path: &Path, len: usize) {
    fs::write(path, vec![b'!'; len]).unwrap();
}

#[test]
fn a_transfer_keeps_the_file_it_began_with() {
    let mut bench = bench(Options::default());
    let request = Request::new(b"GET", b"/large.bin", NONE);
    let SiteBody::File(range) = bench.site.answer(bench.now, bench.unix, &request).body else {
        panic!("large")
    };
    fs::write(bench.path("other"), vec![b'!'; LARGE_SIZE]).unwrap();
    fs::rename(bench.path("other"), bench.path("large.bin")).unwrap();
    bench.wait();
    assert_eq!(bench.get("/large.bin").body[0], b'!');
    assert_eq!(bench.site.cache().retired_len(), 1);
    assert_eq!(read(&Segment::File(range)), large());
    bench.site.cache().sweep();
    assert_eq!(bench.site.cache().retired_len(), 0);
}

#[test]
fn the_cache_is_bounded() {
    let mut bench = bench(Options { entries_max: 2, ..Options::default() });
    for target in ["/small.txt", "/large.bin", "/docs/", "/docs", "/missing", "/nothing.txt"] {
        bench.get(target);
    }
    assert_eq!(bench.site.cache().len(), 2);
}

#[test]
fn the_walk_serves_the_same() {
    let walk = Options { lookup: fulmar_serve::root::Lookup::Walk, ..Options::default() };
    let mut bench = bench(walk);
    assert!(!bench.site.follows_links());
    for (target, status) in [
        ("/small.txt", 200),
        ("/small.txt/", 404),
        ("/docs/", 200),
        ("/docs", 301),
        ("/docs/deep/a%20b.txt", 200),
        ("/", 403),
        ("/missing", 404),
    ] {
        assert_eq!(bench.get(target).status, status, "{target}");
    }
}

#[test]
fn the_walk_lists_no_links_since_it_follows_none() {
    let lookup = fulmar_serve::root::Lookup::Walk;
    let mut bench = bench(Options { list: true, lookup, ..Options::default() });
    symlink("small.txt", bench.path("link")).unwrap();
    assert_eq!(bench.get("/link").status, 404);
    assert!(!bench.get("/").text().contains("link\">"));
}

/// `page.html` of 100 bytes, and three compressed versions, all of the same age.
fn compressed_bench() -> SiteBench {
    let bench = bench(Options { precompressed: true, ..Options::default() });
    for (name, body) in [
        ("page.html", "h".repeat(100)),
        ("page.html.br", "b".repeat(20)),
        ("page.html.gz", "g".repeat(30)),
        ("page.html.zst", "z".repeat(25)),
    ] {
        fs::write(bench.path(name), body).unwrap();
        bench.set_age(name, 10);
    }
    bench
}

impl SiteBench {
    fn set_age(&self, name: &str, seconds: u64) {
        self.set_age_ns(name, seconds, 0);
    }

    fn set_age_ns(&self, name: &str, seconds: u64, nanoseconds: u32) {
        let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000 - seconds, nanoseconds);
        let file = fs::File::options().write(true).open(self.path(name)).unwrap();
        file.set_times(FileTimes::new().set_modified(then)).unwrap();
    }

    fn taking(&mut self, codings: &str) -> SeenResponse {
        self.ask("GET", "/page.html", &[("Accept-Encoding", codings)])
    }
}

#[test]
fn the_preferred_coding_is_sent_and_of_equals_the_smallest() {
    let mut bench = compressed_bench();
    for (codings, coding, len) in [
        ("gzip, deflate, br, zstd", "br", 20),
        ("gzip, zstd", "zstd", 25),
        ("gzip", "gzip", 30),
        ("br;q=0.5, gzip", "gzip", 30),
        ("br;q=0.5, gzip;q=0.5, identity", "", 100),
        ("gzip;q=0.001", "gzip", 30),
        ("*", "br", 20),
        ("*, br;q=0", "zstd", 25),
        ("identity", "", 100),
        ("deflate", "", 100),
        ("gzip;q=0", "", 100),
        ("identity;q=0", "", 100),
        ("*;q=0", "", 100),
        ("gzip;q=nonsense", "", 100),
        ("", "", 100),
    ] {
        let seen = bench.taking(codings);
        let got = (seen.status, seen.field("Content-Encoding"), seen.body.len());
        assert_eq!(got, (200, coding, len), "{codings:?}");
        assert_eq!(seen.field("Content-Type"), "text/html; charset=utf-8");
        assert_eq!(seen.field("Vary"), "Accept-Encoding");
        assert_eq!(seen.field("Content-Length"), len.to_string());
        let head = bench.ask("HEAD", "/page.html", &[("Accept-Encoding", codings)]);
        assert_eq!(head, SeenResponse { body: vec![], ..seen });
    }
    assert_eq!(bench.get("/page.html").body.len(), 100);
    assert_eq!(bench.get("/page.html.gz").field("Content-Encoding"), "");
    assert_eq!(bench.get("/small.txt").field("Vary"), "");
    bench.site = Site::open(bench.dir.path(), Options::default()).unwrap();
    let plain = bench.taking("gzip");
    assert_eq!((plain.body.len(), plain.field("Vary")), (100, ""));
}

#[test]
fn each_coding_has_its_own_tag_and_ranges() {
    let mut bench = compressed_bench();
    let [plain, gzip, brotli] = ["identity", "gzip", "br"].map(|codings| bench.taking(codings));
    let tags = [&plain, &gzip, &brotli].map(|seen| seen.field("ETag").to_owned());
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2], "{tags:?}");
    assert!(tags[1].ends_with("-gzip\""));
    let ask = |bench: &mut SiteBench, fields: &[(&str, &str)]| {
        bench.ask("GET", "/page.html", &[fields, &[("Accept-Encoding", "gzip")]].concat())
    };
    let same = ask(&mut bench, &[("If-None-Match", &tags[1])]);
    assert_eq!((same.status, same.field("Vary")), (304, "Accept-Encoding"));
    assert_eq!(ask(&mut bench, &[("If-None-Match", &tags[0])]).status, 200);
    assert_eq!(ask(&mut bench, &[("If-Match", &tags[2])]).status, 412);
    let part = ask(&mut bench, &[("Range", "bytes=28-"), ("If-Range", &tags[1])]);
    assert_eq!((part.status, part.text()), (206, "gg"));
    assert_eq!(part.field("Content-Range"), "bytes 28-29/30");
    assert_eq!(part.field("Content-Encoding"), "gzip");
    assert_eq!(ask(&mut bench, &[("Range", "bytes=0-0"), ("If-Range", &tags[0])]).status, 200);
    assert_eq!(ask(&mut bench, &[("Range", "bytes=50-")]).status, 416);
    let parts = ask(&mut bench, &[("Range", "bytes=0-0,29-29")]);
    assert_eq!((parts.status, parts.field("Content-Encoding")), (206, ""));
    assert_eq!(parts.text().matches("Content-Encoding: gzip\r\n").count(), 2);
    assert_eq!(parts.field("Vary"), "Accept-Encoding");
}

#[test]
fn an_older_one_is_sent_and_reported_by_whole_seconds() {
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&reports);
    let mut bench = compressed_bench();
    let hook = OutdatedHook::new(move |name| {
        seen.lock().unwrap().push(String::from_utf8(name.to_vec()).unwrap());
    });
    let options = Options { precompressed: true, on_outdated: Some(hook), ..Options::default() };
    bench.site = Site::open(bench.dir.path(), options).unwrap();
    // As brotli -k leaves it: the same time without the fraction of a second.
    bench.set_age_ns("page.html", 10, 625_587_297);
    for (codings, coding) in [("br", "br"), ("zstd", "zstd"), ("gzip", "gzip")] {
        assert_eq!(bench.taking(codings).field("Content-Encoding"), coding, "whole seconds");
    }
    assert_eq!(*reports.lock().unwrap(), [""; 0], "equally old");
    bench.set_age("page.html.br", 11);
    bench.set_age("page.html.gz", 3600);
    bench.wait();
    for (codings, coding) in [("br", "br"), ("zstd", "zstd"), ("gzip", "gzip")] {
        assert_eq!(bench.taking(codings).field("Content-Encoding"), coding, "older, as nginx does");
    }
    assert_eq!(*reports.lock().unwrap(), ["page.html.br", "page.html.gz"]);
}

#[test]
fn a_larger_or_irregular_compressed_file_is_ignored() {
    let mut bench = compressed_bench();
    for name in ["page.html.gz", "page.html.br", "page.html.zst"] {
        fs::write(bench.path(name), "g".repeat(100)).unwrap();
    }
    assert_eq!(bench.taking("gzip, br, zstd").field("Vary"), "", "not smaller");
    fs::remove_file(bench.path("page.html.gz")).unwrap();
    fs::create_dir(bench.path("page.html.gz")).unwrap();
    fs::remove_file(bench.path("page.html.br")).unwrap();
    symlink("/etc/hostname", bench.path("page.html.br")).unwrap();
    bench.wait();
    assert_eq!(bench.taking("gzip, br").field("Vary"), "", "a directory, a link that leads out");
}

#[test]
fn a_new_compressed_file_is_sent_within_a_second() {
    let mut bench = compressed_bench();
    let taking = ("Accept-Encoding", "br");
    assert_eq!(bench.taking("br").text(), "b".repeat(20));
    fs::write(bench.path("page.html.br"), "new").unwrap();
    assert_eq!(bench.calls("/page.html"), []);
    assert_eq!(bench.taking("br").text(), "b".repeat(20));
    bench.wait();
    assert_eq!(bench.taking("br").text(), "new");
    bench.wait();
    let confirmed = bench.calls("/page.html").iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(confirmed, 12, "four files are opened, looked at and closed");
    assert_eq!(bench.calls("/page.html"), []);
    fs::remove_file(bench.path("page.html.br")).unwrap();
    bench.wait();
    assert_eq!(bench.ask("GET", "/page.html", &[taking]).field("Content-Encoding"), "");
    // A file without compressed versions costs three more calls a second, one with them none.
    bench.calls("/small.txt");
    bench.wait();
    assert_eq!(bench.calls("/small.txt"), [("close", 1), ("openat2", 4), ("fstat", 1)]);
    bench.calls("/page.html.zst");
    bench.wait();
    assert_eq!(bench.calls("/page.html.zst"), [("close", 1), ("openat2", 1), ("fstat", 1)]);
}
