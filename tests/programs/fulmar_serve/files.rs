//! curl fetches files from `fulmar serve`: all kinds, whole and in parts.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use fulmar_tests::curl::{self, Curl, get};
use fulmar_tests::http::HttpReply;
use fulmar_tests::process::Serve;
use fulmar_tests::tree::{MODIFIED_TEXT, SECRET, Tree, decode, encode, noise};

#[test]
fn every_kind_of_file_arrives_byte_for_byte() {
    let tree = Tree::new();
    let sizes = [0, 1, 16_383, 16_384, 16_385, 104 * 1024, 20 << 20];
    let mut files: Vec<(String, Vec<u8>)> =
        sizes.iter().map(|len| (format!("{len}.bin"), noise(*len))).collect();
    let deep = format!("{}file.txt", "deep/".repeat(40));
    let long = "n".repeat(255);
    let names =
        ["a b.txt", "ünï ☃.txt", "100%.txt", "a+b.txt", "a#b.txt", "a?b.txt", "%41.txt", "a\\b"];
    let control = ["\t", "two\nlines", "\r\nX: y", "\x1b[31m", "\x7f"];
    let others = [deep.as_str(), long.as_str(), "a;b=c&d", "~x", "a..b"];
    for name in names.into_iter().chain(others).chain(control) {
        files.push((name.to_owned(), name.as_bytes().to_vec()));
    }
    for (name, bytes) in &files {
        tree.file(name, bytes);
    }
    let serve = Serve::start(&tree.root(), &[]);
    for (name, bytes) in &files {
        let reply = get(&serve.url(&format!("/{}", encode(name))));
        assert_eq!(reply.status, 200, "{name}");
        assert_eq!(reply.field("content-length"), Some(bytes.len().to_string().as_str()), "{name}");
        assert_eq!(reply.field("last-modified"), Some(MODIFIED_TEXT), "{name}");
        assert!(reply.field("date").is_some(), "{name}");
        assert!(reply.body == *bytes, "{name}: other bytes");
    }
}

#[test]
fn a_plus_sign_is_no_space_and_a_query_is_no_name() {
    let tree = Tree::new();
    tree.file("a b", "blank");
    tree.file("a+b", "plus");
    let serve = Serve::start(&tree.root(), &[]);
    for (target, body) in
        [("/a%20b", "blank"), ("/a+b", "plus"), ("/a%2Bb", "plus"), ("/a+b?x=/../y", "plus")]
    {
        assert_eq!(get(&serve.url(target)).body, body.as_bytes(), "{target}");
    }
}

#[test]
fn types_follow_from_names() {
    let tree = Tree::new();
    let cases = [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.png", "image/png"),
        ("a.PNG", "image/png"),
        ("a.svg", "image/svg+xml"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.wasm", "application/wasm"),
        ("a.py", "text/plain; charset=utf-8"),
        ("a.rs", "text/plain; charset=utf-8"),
        ("a.ts", "text/plain; charset=utf-8"),
        ("a.tsx", "text/plain; charset=utf-8"),
        ("Makefile", "text/plain; charset=utf-8"),
        ("a.unheard-of", "application/octet-stream"),
        ("none", "application/octet-stream"),
    ];
    cases.iter().for_each(|(name, _)| drop(tree.file(name, "x")));
    let serve = Serve::start(&tree.root(), &[]);
    for (name, expected) in cases {
        let reply = get(&serve.url(&format!("/{name}")));
        assert_eq!(reply.field("content-type"), Some(expected), "{name}");
    }
}

#[test]
fn a_changed_file_is_served_in_its_new_state() {
    let tree = Tree::new();
    for (len, more) in [(10, 20), (100_000, 200_000), (200_000, 5)] {
        tree.file("a", noise(len));
        let serve = Serve::start(&tree.root(), &[]);
        let before = get(&serve.url("/a"));
        assert!(before.body == noise(len));
        fs::write(tree.root().join("new"), noise(more)).unwrap();
        fs::rename(tree.root().join("new"), tree.root().join("a")).unwrap();
        fulmar_tests::process::eventually("the new file", || {
            let now = get(&serve.url("/a"));
            assert!(now.body == noise(len) || now.body == noise(more), "a mixture");
            assert_eq!(now.body.len() == len, now.field("etag") == before.field("etag"));
            now.body.len() == more
        });
    }
}

#[test]
fn single_ranges_are_the_requested_bytes() {
    for len in [1_000_usize, 104 * 1024] {
        let tree = Tree::new();
        let bytes = noise(len);
        tree.file("f", &bytes);
        let serve = Serve::start(&tree.root(), &[]);
        let cases = [
            ("0-0", 0..1),
            ("0-499", 0..500),
            ("500-599", 500..600),
            ("999-", 999..len),
            ("0-", 0..len),
            ("-1", len - 1..len),
            ("-300", len - 300..len),
            ("-999999", 0..len),
            ("900-99999999", 900..len),
        ];
        for (range, expected) in cases {
            let reply = Curl::new(&serve.url("/f")).with(&["-r", range]).run().reply;
            let (first, last) = (expected.start, expected.end - 1);
            assert_eq!(reply.status, 206, "{range}");
            let content_range = format!("bytes {first}-{last}/{len}");
            assert_eq!(reply.field("content-range"), Some(content_range.as_str()), "{range}");
            assert!(reply.body == bytes[expected], "{range}: other bytes");
        }
        for range in ["999999-", "999999-9999999", "-0"] {
            let reply = Curl::new(&serve.url("/f")).with(&["-r", range]).run().reply;
            assert_eq!(reply.status, 416, "{range}");
            let content_range = format!("bytes */{len}");
            assert_eq!(reply.field("content-range"), Some(content_range.as_str()), "{range}");
        }
        for range in ["Range: bytes=5-2", "Range: lines=0-1", "Range: bytes=a-b"] {
            let reply = Curl::new(&serve.url("/f")).with(&["-H", range]).run().reply;
            assert_eq!((reply.status, reply.body.len()), (200, len), "{range}");
        }
    }
}

/// The parts of a `multipart/byteranges` body (RFC 2046 §5.1): `Content-Range` and bytes of each.
fn parts(reply: &HttpReply) -> Vec<(String, Vec<u8>)> {
    let content_type = reply.field("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let delimiter = format!("--{boundary}");
    let mut rest = reply.body.strip_prefix(delimiter.as_bytes()).expect("it begins with one");
    let mut parts = Vec::new();
    loop {
        if rest == b"--\r\n" {
            return parts;
        }
        let mut part = rest.strip_prefix(b"\r\n").expect("a line end after the delimiter");
        let head =
            HttpReply::read_head(&mut [b"HTTP/1.1 206 \r\n", part].concat().as_slice()).unwrap();
        let start = part.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        part = &part[start..];
        let line = format!("\r\n{delimiter}");
        let end = part.windows(line.len()).position(|bytes| bytes == line.as_bytes()).unwrap();
        assert_eq!(head.field("content-type"), Some("text/plain; charset=utf-8"));
        parts.push((head.field("content-range").unwrap().to_owned(), part[..end].to_vec()));
        rest = &part[end + line.len()..];
    }
}

#[test]
fn several_ranges_are_sent_as_parts() {
    for len in [1_000_usize, 104 * 1024] {
        let tree = Tree::new();
        let bytes = noise(len);
        tree.file("f.txt", &bytes);
        let serve = Serve::start(&tree.root(), &[]);
        let asked = "0-9,100-199,-5,999999-";
        let reply = Curl::new(&serve.url("/f.txt")).with(&["-r", asked]).run().reply;
        assert_eq!(reply.status, 206);
        assert_eq!(reply.field("content-range"), None);
        let expected: Vec<_> = [0..10, 100..200, len - 5..len]
            .into_iter()
            .map(|span| {
                let range = format!("bytes {}-{}/{len}", span.start, span.end - 1);
                (range, bytes[span].to_vec())
            })
            .collect();
        assert_eq!(parts(&reply), expected);
        // Overlapping parts, or too many parts, would cost more than the whole.
        let many: Vec<_> = (0..65).map(|at| format!("{0}-{0}", at * 2)).collect();
        for asked in ["0-10,5-20", &many.join(",")] {
            let reply = Curl::new(&serve.url("/f.txt")).with(&["-r", asked]).run().reply;
            assert_eq!((reply.status, reply.body.len()), (200, len), "{asked}");
        }
    }
}

#[test]
fn a_range_is_for_one_state_of_the_file() {
    let tree = Tree::new();
    tree.file("f", noise(1000));
    let serve = Serve::start(&tree.root(), &[]);
    let etag = get(&serve.url("/f")).field("etag").unwrap().to_owned();
    for (validator, status) in [
        (etag.as_str(), 206),
        ("\"other\"", 200),
        (&format!("W/{etag}"), 200),
        (MODIFIED_TEXT, 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT", 200),
        ("rubbish", 200),
    ] {
        let if_range = format!("If-Range: {validator}");
        let curl = Curl::new(&serve.url("/f")).with(&["-r", "10-19", "-H", &if_range]);
        let reply = curl.run().reply;
        assert_eq!(reply.status, status, "{validator}");
        assert_eq!(reply.body.len(), if status == 206 { 10 } else { 1000 }, "{validator}");
    }
}

#[test]
fn conditional_requests_are_evaluated() {
    let tree = Tree::new();
    tree.file("f", noise(1000));
    let serve = Serve::start(&tree.root(), &[]);
    let etag = get(&serve.url("/f")).field("etag").unwrap().to_owned();
    let (earlier, later) = ("Sun, 06 Nov 1994 08:49:36 GMT", "Mon, 07 Nov 1994 08:49:37 GMT");
    for (condition, status) in [
        (format!("If-None-Match: {etag}"), 304),
        (format!("If-None-Match: W/{etag}"), 304),
        (format!("If-None-Match: \"x\", {etag}"), 304),
        ("If-None-Match: *".to_owned(), 304),
        ("If-None-Match: \"x\"".to_owned(), 200),
        (format!("If-Modified-Since: {MODIFIED_TEXT}"), 304),
        (format!("If-Modified-Since: {later}"), 304),
        (format!("If-Modified-Since: {earlier}"), 200),
        ("If-Modified-Since: rubbish".to_owned(), 200),
        (format!("If-Match: {etag}"), 200),
        ("If-Match: *".to_owned(), 200),
        ("If-Match: \"x\"".to_owned(), 412),
        (format!("If-Match: W/{etag}"), 412),
        (format!("If-Unmodified-Since: {MODIFIED_TEXT}"), 200),
        (format!("If-Unmodified-Since: {earlier}"), 412),
    ] {
        for head in [false, true] {
            let curl = Curl::new(&serve.url("/f")).with(&["-H", &condition]);
            let reply = if head { curl.head() } else { curl }.run().reply;
            assert_eq!(reply.status, status, "{condition}");
            let whole = status == 200 && !head;
            assert!(status == 412 || (reply.body.len() == 1000) == whole, "{condition}");
            if status == 304 {
                assert_eq!(reply.field("etag"), Some(etag.as_str()), "{condition}");
                assert!(reply.body.is_empty(), "{condition}");
            }
        }
    }
    // An entity tag takes precedence over a date.
    let both = ["-H", "If-None-Match: \"x\"", "-H", &format!("If-Modified-Since: {later}")];
    assert_eq!(Curl::new(&serve.url("/f")).with(&both).run().reply.status, 200);
}

#[test]
fn curl_keeps_unchanged_files() {
    let tree = Tree::new();
    tree.file("f", noise(1000));
    let serve = Serve::start(&tree.root(), &[]);
    let (etags, copy) = (tree.turn_while("etags"), tree.turn_while("copy"));
    let fetch = |statuses: &[u64]| {
        let mut command = curl::plain();
        command.arg("--etag-compare").arg(&etags).arg("--etag-save").arg(&etags);
        command.arg("-z").arg(&copy).arg("-R").arg("-o").arg(&copy);
        command.args(["-w", "%{http_code}\n"]).arg(serve.url("/f"));
        assert_eq!(curl::numbers(&mut command), statuses);
    };
    fetch(&[200]);
    fetch(&[304]);
    assert!(fs::read(&copy).unwrap() == noise(1000));
}

#[test]
fn head_has_the_fields_of_get() {
    let tree = Tree::new();
    tree.file("small", noise(100));
    tree.file("large", noise(104 * 1024));
    tree.file("d/x", "");
    let serve = Serve::start(&tree.root(), &["--list", "--test-endpoints"]);
    for target in ["/small", "/large", "/", "/d", "/d/", "/none", "/bytes/70000", "/%2e%2e/x"] {
        let said = |reply: &HttpReply| {
            let mut fields = reply.fields.clone();
            fields.retain(|(name, _)| name != "date"); // the clock may advance by a second
            (reply.status, fields)
        };
        let got = get(&serve.url(target));
        let head = Curl::new(&serve.url(target)).head().run().reply;
        assert_eq!(said(&head), said(&got), "{target}");
    }
}

#[test]
fn a_directory_ends_in_a_slash() {
    let tree = Tree::new();
    tree.file("a b/ü/x", "");
    tree.file("with/index.html", "<p>the index");
    tree.file("old/index.htm", "<p>the old index");
    let serve = Serve::start(&tree.root(), &["--list"]);
    for (target, location) in [
        ("/a%20b", "/a%20b/"),
        ("/a%20b/%C3%BC", "/a%20b/%C3%BC/"),
        ("//with", "/with/"),
        ("/with?x=1", "/with/?x=1"),
    ] {
        let reply = get(&serve.url(target));
        assert_eq!((reply.status, reply.field("location")), (301, Some(location)), "{target}");
    }
    let followed = Curl::new(&serve.url("/with")).with(&["-L"]).run();
    assert_eq!(followed.statuses, [301, 200]);
    assert_eq!(followed.reply.body, b"<p>the index");
    assert_eq!(get(&serve.url("/old/")).body, b"<p>the old index");
    assert_eq!(get(&serve.url("/with/index.html")).body, b"<p>the index");
    assert_eq!(get(&serve.url("/with/index.html/")).status, 404);
}

#[test]
fn directories_are_not_listed_by_default() {
    let tree = Tree::new();
    tree.file("d/x", "");
    let serve = Serve::start(&tree.root(), &[]);
    let refused = get(&serve.url("/d/"));
    assert_eq!(refused.status, 403);
    assert!(String::from_utf8(refused.body).unwrap().contains("--list"));
    assert_eq!(get(&serve.url("/d/x")).status, 200);
}

/// The links of a page to names below it.
fn links(page: &str) -> Vec<String> {
    let links = page.split("<a href=\"./").skip(1);
    links.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn a_listing_links_to_files_with_any_name() {
    let tree = Tree::new();
    let names: [&[u8]; 15] = [
        b"line\nbreak\r",
        b"<script>alert(1)<script>",
        b"\"&'onload=x",
        b"-rf",
        b"a:b",
        b"javascript:alert(1)",
        b"\xff\xfe\x80",
        b"100%41",
        b"a?b#c",
        b"a+b c",
        b"back\\slash",
        "\u{202e}txt.exe".as_bytes(),
        "ünï☃".as_bytes(),
        b"~tilde",
        b"index.html.bak",
    ];
    names.iter().for_each(|name| drop(tree.file(name, name)));
    tree.file(".hidden", "");
    fs::create_dir(tree.root().join("sub <dir>")).unwrap();
    let serve = Serve::start(&tree.root(), &["--list"]);
    let reply = get(&serve.url("/"));
    assert_eq!(reply.status, 200);
    assert!(reply.field("content-security-policy").unwrap().contains("default-src 'none'"));
    let page = String::from_utf8(reply.body).expect("declared as such");
    assert!(!page.to_lowercase().contains("<script"), "{page}");
    assert!(!page.contains(".hidden") && !page.contains('\u{202e}') && !page.contains("\"&'"));
    let mut found: Vec<Vec<u8>> = Vec::new();
    for link in links(&page) {
        let name = decode(&link);
        let reply = get(&serve.url(&format!("/{link}")));
        assert_eq!(reply.status, 200, "{link}");
        if let Some(dir) = name.strip_suffix(b"/") {
            assert_eq!(dir, b"sub <dir>");
            continue;
        }
        assert_eq!(reply.body, name, "{link}");
        found.push(name);
    }
    found.sort();
    let mut expected = names.map(<[u8]>::to_vec);
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn dot_files_are_hidden_by_default() {
    let tree = Tree::new();
    tree.file(".env", "x");
    tree.file(".git/config", "x");
    let targets = ["/.env", "/%2eenv", "/.git/config", "/.git", "/.git/"];
    let serve = Serve::start(&tree.root(), &["--list"]);
    for target in targets {
        assert_eq!(get(&serve.url(target)).status, 404, "{target}");
    }
    let serve = Serve::start(&tree.root(), &["--list", "--hidden"]);
    for (target, status) in targets.into_iter().zip([200, 200, 200, 301, 200]) {
        assert_eq!(get(&serve.url(target)).status, status, "{target}");
    }
    assert!(String::from_utf8(get(&serve.url("/")).body).unwrap().contains("./.env"));
}

#[test]
fn links_work_inside_and_not_outside() {
    let tree = Tree::new();
    tree.file("real/file", "inside");
    let root = tree.root();
    symlink("real/file", root.join("in")).unwrap();
    symlink("../in", root.join("real/up")).unwrap();
    symlink("real", root.join("dir-in")).unwrap();
    symlink("../secret.txt", root.join("out")).unwrap();
    symlink("..", root.join("dir-out")).unwrap();
    symlink(tree.turn_while("secret.txt"), root.join("absolute")).unwrap();
    symlink("/etc/passwd", root.join("passwd")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("nothing", root.join("dangling")).unwrap();
    let serve = Serve::start(&root, &["--list"]);
    for target in ["/in", "/real/up", "/dir-in/file"] {
        assert_eq!(get(&serve.url(target)).body, b"inside", "{target}");
    }
    for target in [
        "/out",
        "/dir-out/",
        "/dir-out/secret.txt",
        "/absolute",
        "/passwd",
        "/magic/etc/passwd",
        "/loop",
        "/dangling",
    ] {
        let reply = get(&serve.url(target));
        assert!(matches!(reply.status, 403 | 404), "{target}: {}", reply.status);
        assert!(!reply.body.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    }
    for (target, listed) in [("/", &["real/", "dir-in", "in"][..]), ("/real/", &["file", "up"])] {
        let page = String::from_utf8(get(&serve.url(target)).body).unwrap();
        assert_eq!(links(&page), listed, "{target}: links that respond 404 are not listed");
    }
}

#[test]
fn no_encoding_of_dots_leaves_the_root() {
    let tree = Tree::new();
    tree.file("d/x", "inside");
    let serve = Serve::start(&tree.root(), &["--list", "--hidden"]);
    let ups = [
        "..",
        "%2e%2e",
        "%2E%2E",
        ".%2e",
        "%2e.",
        "%252e%252e",
        "..%2f",
        "%2e%2e%2f",
        "..%5c",
        "%c0%ae%c0%ae",
        "%e0%80%ae.",
        "....",
        "..;",
        "..%00",
        "%uff0e%uff0e",
        "..%c0%af",
        "%2f..",
    ];
    for up in ups {
        for target in [
            format!("/{up}/secret.txt"),
            format!("/{up}secret.txt"),
            format!("/d/{up}/{up}/secret.txt"),
            format!("//{up}//secret.txt"),
            format!("/./{up}/./secret.txt"),
            format!("/{}etc/passwd", format!("{up}/").repeat(12)),
        ] {
            let reply = get(&serve.url(&target));
            assert!(matches!(reply.status, 400 | 404), "{target}: {}", reply.status);
        }
    }
    // Names that only look similar.
    tree.file("..d/...", "inside");
    assert_eq!(get(&serve.url("/..d/...")).body, b"inside");
}

#[test]
fn other_methods_are_not_allowed() {
    let tree = Tree::new();
    tree.file("f", "inside");
    let serve = Serve::start(&tree.root(), &[]);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"] {
        for target in ["/f", "/none", "/"] {
            let reply = Curl::new(&serve.url(target)).with(&["-X", method]).run().reply;
            assert_eq!(reply.status, 405, "{method} {target}");
            assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"), "{method} {target}");
        }
    }
    for arguments in [&["-X", "OPTIONS"][..], &["-X", "OPTIONS", "--request-target", "*"]] {
        let reply = Curl::new(&serve.url("/f")).with(arguments).run().reply;
        assert_eq!((reply.status, reply.field("content-length")), (204, None));
        assert_eq!(reply.field("allow"), Some("GET, HEAD, OPTIONS"));
    }
    assert_eq!(fs::read(tree.root().join("f")).unwrap(), b"inside");
}

#[test]
fn uploads_are_echoed() {
    let tree = Tree::new();
    let bytes = noise(3 << 20);
    fs::write(tree.turn_while("upload"), &bytes).unwrap();
    let upload = format!("@{}", tree.turn_while("upload").display());
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let cases: [&[&str]; 5] = [
        &["-H", "Expect:"],
        &["-H", "Expect: 100-continue"],
        &["-H", "Transfer-Encoding: chunked", "-H", "Expect:"],
        &["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue"],
        &["--http1.0", "-H", "Expect:"],
    ];
    // curl waits for the response, not for its timeout of a second.
    let upload = ["--expect100-timeout", "60", "--data-binary", &upload];
    for arguments in cases {
        let curl = Curl::new(&serve.url("/echo")).with(&upload);
        let fetched = curl.with(arguments).run();
        let waits = arguments.iter().any(|argument| argument.contains("100-continue"));
        let statuses: &[u16] = if waits { &[100, 200] } else { &[200] };
        assert_eq!(fetched.statuses, statuses, "{arguments:?}");
        assert!(fetched.reply.body == bytes, "{arguments:?}: other bytes");
    }
    // A final status instead of 100 saves the upload.
    let curl = Curl::new(&serve.url("/none")).with(&upload);
    let fetched = curl.with(&["-H", "Expect: 100-continue"]).run();
    assert_eq!(fetched.statuses, [405]);
}

fn connects(command: &mut Command) -> u64 {
    curl::numbers(command.args(["-w", "%{num_connects}\n"])).iter().sum()
}

#[test]
fn connections_are_kept() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut command = curl::plain();
    command.args(["-o", "/dev/null"]).arg(serve.url("/bytes/[1-100]"));
    assert_eq!(connects(&mut command), 1);
    let mut command = curl::plain();
    command.args(["-o", "/dev/null", "-H", "Connection: close"]).arg(serve.url("/bytes/[1-5]"));
    assert_eq!(connects(&mut command), 5);
    let mut command = curl::plain();
    command.args(["-o", "/dev/null", "--http1.0"]).arg(serve.url("/bytes/[1-5]"));
    assert_eq!(connects(&mut command), 5);
}

#[test]
fn http_1_0_responses_have_no_chunks() {
    let tree = Tree::new();
    tree.file("f", noise(104 * 1024));
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let reply = Curl::new(&serve.url("/f")).with(&["--http1.0"]).run().reply;
    assert_eq!((reply.status, reply.field("connection")), (200, Some("close")));
    assert!(reply.body == noise(104 * 1024));
    let keep = ["--http1.0", "-H", "Connection: keep-alive"];
    let reply = Curl::new(&serve.url("/f")).with(&keep).run().reply;
    assert_eq!((reply.status, reply.body.len()), (200, 104 * 1024));
    let connection = reply.field("connection").unwrap_or("close").to_ascii_lowercase();
    assert!(matches!(connection.as_str(), "keep-alive" | "close"), "{connection}");
    // `Accept-Encoding` only lists codings that curl supports.
    let mut command = curl::plain();
    command.args(keep).args(["-o", "/dev/null"]).arg(serve.url("/bytes/[1-5]"));
    assert_eq!(connects(&mut command), if connection == "close" { 5 } else { 1 });
}
