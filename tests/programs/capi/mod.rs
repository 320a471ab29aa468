//! The libraries with a C interface, in programs that were compiled once with the headers of the
//! original: each runs with the installed libcurl and with ours, and has to print the same.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use fulmar_tests::process::{ChildProcess, run, text};

mod curl_config;
mod proxies;
mod resolving;
mod tls;
mod tls_ends;
mod websocket;

#[path = "../../../crates/proto/tests/it/common/escapes.rs"]
mod escapes;

/// The folder of the libraries, linked by the script that `make capi` calls.
fn libraries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = run(Command::new(root.join("scripts/build-capi")).arg("dev"));
        let library = text(&output.stdout).lines().last().map(PathBuf::from).expect("a path");
        let folder = root.join(library.parent().expect("a folder"));
        folder.canonicalize().expect("it was just made")
    })
}

/// Compiles a program of a folder of the repository. Tests that run at the same time may share a
/// program: each compiles a file of its own, and renames it.
fn compiled(folder: &str, name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{name}"));
    let made = program.with_extension(format!("{}.{number}", std::process::id()));
    let source = format!("{}/../{folder}/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&made).arg(source);
    run(compiler.args(["-lcurl", "-lpthread"]));
    std::fs::rename(made, &program).expect("both are in one folder");
    program
}

/// What a program of this folder prints with the installed library, and with ours.
fn both(name: &str, arguments: &[String]) -> [String; 2] {
    both_of("tests/programs/capi", name, arguments)
}

fn both_of(folder: &str, name: &str, arguments: &[String]) -> [String; 2] {
    let program = compiled(folder, name);
    [None, Some(libraries())].map(|folder| printed(&program, arguments, folder))
}

/// What a program of this folder prints with ours, where the installed library is unsafe.
fn ours(name: &str, arguments: &[String]) -> String {
    printed(&compiled("tests/programs/capi", name), arguments, Some(libraries()))
}

fn printed(program: &Path, arguments: &[String], folder: Option<&Path>) -> String {
    printed_by(Command::new(program).args(arguments), folder)
}

/// The output of a command that runs such a program.
fn printed_by(command: &mut Command, folder: Option<&Path>) -> String {
    command.env_remove("LD_LIBRARY_PATH");
    for name in PROXY_VARIABLES {
        command.env_remove(name);
    }
    if let Some(folder) = folder {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let ended = ChildProcess::start(command).wait();
    assert!(ended.status.success(), "{command:?}: {:?} {}", ended.status, ended.stderr);
    ended.stdout
}

/// Variables of the environment that lead requests to a proxy, or past it.
const PROXY_VARIABLES: [&str; 7] =
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"];

/// A server: `/case/N` gets the bytes of a case, and the end of the connection; `/echo` gets its
/// request, `/leave` a redirect to `/echo` of another host; everything else six bytes.
fn serve(cases: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    let cases = Arc::new(cases);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cases = Arc::clone(&cases);
            thread::spawn(move || respond(stream, &cases));
        }
    });
    address
}

/// A server or proxy that responds to each request with the same bytes.
fn respond_always(response: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let response = response.clone();
            thread::spawn(move || {
                let lines = BufReader::new(&stream).lines();
                let requests = lines.map_while(Result::ok).filter(String::is_empty);
                requests.map(|_| (&stream).write_all(&response)).all(|sent| sent.is_ok())
            });
        }
    });
    address
}

fn respond(mut stream: TcpStream, cases: &[Vec<u8>]) -> Option<()> {
    let mut input = Vec::new();
    loop {
        while !input.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut piece = [0; 4096];
            let len = stream.read(&mut piece).ok().filter(|len| *len > 0)?;
            input.extend_from_slice(&piece[..len]);
        }
        let head = text(&std::mem::take(&mut input));
        let target = head.split(' ').nth(1)?;
        if target == "/echo" {
            let request = whole_request(&mut stream, head.clone().into_bytes())?;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
            stream.write_all(&[head.as_bytes(), &request].concat()).ok()?;
            continue;
        }
        if target == "/leave" {
            let port = stream.local_addr().ok()?.port();
            let head = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation:";
            let head = format!("{head} http://localhost:{port}/echo\r\n\r\n");
            stream.write_all(head.as_bytes()).ok()?;
            continue;
        }
        let Some(case) = target.strip_prefix("/case/") else {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").ok()?;
            continue;
        };
        stream.write_all(&cases[case.parse::<usize>().ok()?]).ok()?;
        stream.shutdown(Shutdown::Write).ok()?;
        // Closing with unread bytes would reset the connection.
        let _ = stream.read(&mut [0; 4096]);
        return None;
    }
}

/// Receives the body of a request, chunked or with a length, and returns both.
fn whole_request(stream: &mut TcpStream, mut request: Vec<u8>) -> Option<Vec<u8>> {
    let body_at = request.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&request[..body_at]).to_lowercase();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_chunked = field("transfer-encoding:") == Some("chunked");
    let len = field("content-length:").and_then(|len| len.parse::<usize>().ok()).unwrap_or(0);
    if field("expect:").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    loop {
        let body = &request[body_at..];
        let is_whole = match is_chunked {
            true => body == b"0\r\n\r\n" || body.ends_with(b"\r\n0\r\n\r\n"),
            false => body.len() >= len,
        };
        if is_whole {
            return Some(request);
        }
        let mut piece = [0; 4096];
        let len = stream.read(&mut piece).ok().filter(|len| *len > 0)?;
        request.extend_from_slice(&piece[..len]);
    }
}

/// What `curl_formadd` accepts, ownership of parts, and the requests with forms.
#[test]
fn forms_are_those_of_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("forms", &[format!("http://{address}/echo")]);
    assert!(original.contains("Content-Length: 142"), "{original}");
    assert_eq!(ours, original);
}

/// `curl_easy_header` and `curl_easy_nextheader` after a redirect, with interim responses and
/// trailers, with folded and repeated lines.
#[test]
fn headers_are_found_as_by_libcurl() {
    let cases: [&[u8]; 3] = [
        b"HTTP/1.1 302 Found\r\nLocation: /case/1\r\nSet-Cookie: a=1\r\nConnection: close\r\n\
          Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nSet-Cookie: early\r\n\r\nHTTP/1.1 200 OK\r\nset-cookie:b=2\t\r\n\
          Set-Cookie: c=3\r\nFolded: one\r\n  \t two\r\nTransfer-Encoding: chunked\r\n\
          Connection: close\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\n\
          X: after\r\nSet-Cookie: d\r\n\r\n",
        b"HTTP/1.1 204 None\r\nEmpty:\r\n\r\n",
    ];
    let address = serve(cases.map(<[u8]>::to_vec).to_vec());
    let urls = [0, 2].map(|case| format!("http://{address}/case/{case}"));
    let [original, ours] = both("headers", &urls);
    assert!(original.contains("X=after"), "{original}");
    assert_eq!(ours, original);
}

/// Re-entered functions, nested transfers, pauses, threads, `fork`, the order of cleanups.
#[test]
fn contract_of_libcurl_is_kept() {
    let address = serve(Vec::new());
    let [original, ours] = both("contract", &[format!("http://{address}/")]);
    assert!(original.contains("scenario 4"), "{original}");
    assert_eq!(ours, original);
}

/// Descriptors, texts, resumed and ended transfers, credentials behind a redirect.
#[test]
fn lifetimes_are_those_of_libcurl() {
    let address = serve(Vec::new());
    let file = format!("{}/capi-netrc", env!("CARGO_TARGET_TMPDIR"));
    let [original, ours] = both("lifetimes", &[format!("http://{address}"), file]);
    assert!(original.starts_with("descriptors: 0 more\n"), "{original}");
    assert_eq!(ours, original);
}

/// Bodies with a custom `Transfer-Encoding: chunked` end with their callback, not at their size.
#[test]
fn chunked_bodies_are_those_of_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("chunked_bodies", &[format!("http://{address}/echo")]);
    assert_eq!(original.matches("b\r\nhello world\r\n0\r\n\r\n").count(), 8, "{original}");
    assert_eq!(ours, original);
}

/// Header and write callbacks that pause at each place of a response.
#[test]
fn header_lines_are_held_as_by_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("held_lines", &[format!("http://{address}/")]);
    assert_eq!(original.matches("resumed: 0\n").count(), 38, "{original}");
    assert_eq!(ours, original);
}

/// `NULL` and foreign handles, numbers out of range, callbacks that fail or use their own handle,
/// texts of megabytes, limits of time at their borders: the same codes, and no crash.
#[test]
fn misuse_has_the_codes_of_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("misuse", &[format!("http://{address}/echo")]);
    assert!(original.contains("# limits_of_time\n"), "{original}");
    assert!(!original.contains("\nsignal "), "{original}");
    assert_eq!(ours, original);
}

/// Handles that are freed within their own callbacks, and in those of others.
#[test]
fn handles_may_be_freed_in_callbacks() {
    let address = serve(Vec::new());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi-freed-upload");
    let url = format!("file://{}", file.display());
    let printed = ours("freed", &[format!("http://{address}/echo"), url]);
    let count = |text: &str| printed.matches(text).count();
    assert_eq!(count("upload: 42, freed 1, 1 calls\n"), 2, "{printed}");
    assert_eq!(std::fs::read_to_string(&file).expect("it was created"), "");
    assert_eq!(count("42, freed 1"), 5 + 2, "{printed}");
    assert_eq!(count("0 running, 1 messages, 1 ends\nend 0\n"), 14, "{printed}");
}

/// `CURLOPT_CRLF`, `CURLOPT_BUFFERSIZE`: what a server receives, and the sizes of pieces.
#[test]
fn bodies_have_the_lines_and_pieces_of_libcurl() {
    let [original, ours_printed] = both("bodies", &[]);
    assert!(original.contains("5000: 0, 300000 in pieces of up to 5000, 5000\n"), "{original}");
    assert_eq!(ours_printed, original);
    // libcurl announces the length before the conversion.
    let printed = ours("bodies", &["lines".to_owned()]);
    let chunks = "\r\n\r\nd\r\none\r\n\r\ntwo\r\r\n\r\n7\r\nthree\r\n\r\n0\r\n\r\n\n";
    assert_eq!(printed.matches(chunks).count(), 3, "{printed}");
    assert!(!printed.contains("Content-Length"), "{printed}");
}

/// `curl_easy_upkeep`: PINGs over HTTP/2 after `CURLOPT_UPKEEP_INTERVAL_MS`.
#[test]
fn connections_are_kept_alive_as_by_libcurl() {
    let [original, ours_printed] = both("upkeep", &[]);
    assert!(original.contains("0 pings\npings, 0 others\n"), "{original}");
    assert_eq!(ours_printed, original);
    // libcurl 7.88.1 fails on a connection with prior knowledge that it uses again.
    let printed = ours("upkeep", &["again".to_owned()]);
    assert_eq!(printed.matches("0, 200, 1 connections\n").count(), 2, "{printed}");
}

/// A pause of the write callback that another callback ends keeps the order.
#[test]
fn a_body_stays_in_order_if_a_callback_resumes_it() {
    let chunks: String = ('A'..='J').map(|piece| format!("1\r\n{piece}\r\n")).collect();
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let address = serve(vec![format!("{head}{chunks}0\r\n\r\n").into_bytes()]);
    let [original, ours] = both("pausing", &[format!("http://{address}/case/0")]);
    assert_eq!(original, "0 'ABCDEFGHIJ'\n");
    assert_eq!(ours, original);
}

/// CONNECT that is repeated for ever, or whose response is malformed and sets cookies; a redirect
/// with credentials that are not allowed.
#[test]
fn responses_to_connect_do_not_concern_the_host() {
    let padding = "p".repeat(1000);
    let challenge = "Digest realm=\"r\", nonce=\"n\", stale=true, qop=\"auth\"";
    let endless = format!(
        "HTTP/1.1 407 x\r\nProxy-Authenticate: {challenge}\r\nX-Padding: {padding}\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let malformed = "HTTP/1.1 200 OK\r\nSet-Cookie: of=proxy\r\nX: \0\r\n\r\n";
    let redirect =
        "HTTP/1.1 302 x\r\nLocation: http://u:p@127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let ports = [&endless, malformed, redirect]
        .map(|response| respond_always(response.as_bytes().to_vec()).port().to_string());
    let lines = "line HTTP/1.1 200 OK\r\nline Set-Cookie: of=proxy\r\n";
    let end = "malformed: fails 1, status 0, CONNECT 200, no cookie\n";
    // libcurl stores the cookie if it suppresses the lines.
    assert_eq!(
        ours("tunnels", &ports),
        format!("endless: 56, CONNECT 407\n{lines}{end}{end}redirected: 7, 1\nredirected: 67, 1\n")
    );
}

/// Broken framing, floods of header lines, early responses, repetitions, redirects with
/// credentials, cookies, content codings, lack of descriptors, texts that are no hosts.
#[test]
fn faults_have_the_results_of_libcurl() {
    let [original, ours] = both("faults", &[]);
    assert!(original.contains("# codings\n") && !original.contains("signal "), "{original}");
    assert_eq!(ours, original);
}

/// `CURLOPT_INTERFACE`, `CURLOPT_LOCALPORT` and its range: what is taken, free, or unknown.
#[test]
fn local_ports_are_bound_as_by_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("local_ports", &[format!("http://{address}/")]);
    assert!(original.contains("range 40: 0, behind, ''\n"), "{original}");
    assert_eq!(ours, original);
}

/// Responses in single bytes, connections that end at each byte, or are refused, limits of time, a
/// full disk, signals, names that cannot exist.
#[test]
fn outages_have_the_results_of_libcurl() {
    let [original, ours] = both("outages", &[]);
    assert!(original.contains("# names\n") && !original.contains("signal "), "{original}");
    assert_eq!(ours, original);
}

/// `CURLOPT_ABSTRACT_UNIX_SOCKET`, `CURLOPT_IGNORE_CONTENT_LENGTH`, and functions that permit
/// requests and the resolution of names.
#[test]
fn options_of_connections_and_bodies_work_as_in_libcurl() {
    let [original, ours] = both("options", &[]);
    assert!(original.contains("[hello]ignored length: 0, length -1, \n"), "{original}");
    assert_eq!(ours, original);
}

/// Texts about connections: refused, used again, repeated, kept, closed; redirects, a proxy.
#[test]
fn verbose_output_is_that_of_libcurl() {
    let cases = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nok",
        "HTTP/1.1 302 Found\r\nLocation: /\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        "",
    ];
    let server = serve(cases.map(|case| case.as_bytes().to_vec()).to_vec());
    let proxy = respond_always(b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n".to_vec());
    let urls = [server, proxy].map(|address| format!("http://{address}"));
    let [original, ours] = both("verbose", &urls);
    assert!(original.contains("* Connection #0 to host 127.0.0.1 left intact\n"), "{original}");
    assert!(original.contains("* Closing connection -1\n"), "{original}");
    assert_eq!(ours, original);
}

/// Refused connections, unknown names, malformed URLs: sizes, times, the method, the defaults of
/// certificates.
#[test]
fn unsent_requests_have_the_information_of_libcurl() {
    let [original, ours] = both("unsent", &[]);
    assert!(original.contains("http://127.0.0.1:1/: 7, POST, /etc/ssl/certs/"), "{original}");
    assert_eq!(ours, original);
}

/// libcurl returns them as the response to the next request.
#[test]
fn bytes_behind_a_response_are_not_used() {
    let printed = ours("faults", &["poisoning".to_owned()]);
    assert_eq!(printed.matches("2 connections, 2 requests\n").count(), 7, "{printed}");
    assert!(!printed.contains("poison"), "{printed}");
}

/// `CURLOPT_HAPROXYPROTOCOL`, `CURLOPT_TCP_KEEPALIVE`, `CURLOPT_TCP_NODELAY` and their relatives.
#[test]
fn sockets_and_first_bytes_are_those_of_libcurl() {
    for (group, expected) in [
        ("first", "PROXY in a tunnel\n"),
        ("sockets", "nodelay 1\n"),
        ("responses", "raw chunks, reused\n"),
        ("upgrades", "version 3\n"),
    ] {
        let [original, ours] = both("wire", &[group.to_owned()]);
        assert!(original.contains(expected), "{original}");
        assert_eq!(ours, original);
    }
}

/// `curl_global_init_mem`: memory of the application, and calls without it.
#[test]
fn memory_is_that_of_the_application() {
    let [original, ours] = both("memory", &[]);
    assert!(original.contains("\n0 blocks left\n"), "{original}");
    assert_eq!(ours, original);
}

#[test]
fn printf_family_prints_as_in_libcurl() {
    let [original, ours] = both("printf", &[]);
    assert!(original.contains("null: (nil)"), "{original}");
    assert_eq!(ours, original);
}

/// Shares: codes of options, use by handles, calls of lock functions.
#[test]
fn shares_lock_as_in_libcurl() {
    let [original, ours] = both("share", &[]);
    assert!(original.ends_with("end: 0\n"), "{original}");
    assert_eq!(ours, original);
}

/// Connections in shares: how many are opened, which lock functions are called, threads.
#[test]
fn connections_are_shared_as_in_libcurl() {
    let address = serve(Vec::new());
    let [original, ours] = both("shared_connections", &[format!("http://{address}/")]);
    assert!(original.contains("0, 0 connects\n"), "{original}");
    assert!(original.ends_with("200 done in threads\nend: 0\n"), "{original}");
    assert_eq!(ours, original);
}

/// Cookies of files, jars, lists, copies and shares.
#[test]
fn cookies_are_those_of_libcurl() {
    let jar = format!("{}/capi-cookies-jar", env!("CARGO_TARGET_TMPDIR"));
    let [original, ours] = both("cookies", &[jar]);
    assert!(original.contains("cleanup\n"), "{original}");
    assert_eq!(without_distant_time(&ours), without_distant_time(&original));
}

/// HSTS and alternative services: files, callbacks, copies, shares, requests that become secure.
#[test]
fn hsts_is_that_of_libcurl() {
    let cache = format!("{}/capi-hsts-cache", env!("CARGO_TARGET_TMPDIR"));
    let [original, ours] = both("hsts", &[cache]);
    assert!(original.contains("failed: https://x.sub.localhost/b?c#d\n"), "{original}");
    assert_eq!(ours, original);
}

/// The text without the expiry of a cookie that lives for thousands of years: it depends on the
/// second of the run.
fn without_distant_time(text: &str) -> String {
    let is_near = |word: &&str| word.len() < 12 || !word.bytes().all(|b| b.is_ascii_digit());
    let line = |line: &str| line.split(['\t', ' ']).filter(is_near).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Descriptors are announced, open and removed; nothing is left.
#[test]
fn sockets_are_reported_to_the_loop_of_the_application() {
    let address = serve(Vec::new());
    for at_a_time in ["1", "8"] {
        let arguments = [format!("http://{address}/"), "60".into(), at_a_time.into()];
        let [original, ours] = both("sockets", &arguments);
        assert_eq!(original, "60 done, 360 bytes, 0 sockets left, 0 faults\n");
        assert_eq!(ours, original);
    }
}

/// Without the waits, which all transfers share that are ready after one. Watching connections that
/// become idle and are used again costs none.
#[test]
fn a_transfer_needs_a_send_and_a_receive() {
    let address = serve(Vec::new());
    let words = ["--mode", "requests", "--clients", "8", "--requests", "400", "--url"];
    let mut arguments: Vec<String> = words.map(Into::into).into();
    arguments.push(format!("http://{address}/"));
    let calls = both_of("bench/peers", "libcurl", &arguments).map(|output| {
        let found: serde_json::Value = serde_json::from_str(&output).expect("a report");
        assert_eq!(found["errors"], 0, "{output}");
        let count = |name: &str| found["syscalls"][name].as_f64().expect("a count");
        let all = ["send", "recv", "poll", "epoll_ctl"].map(count).iter().sum::<f64>();
        all / found["requests"].as_f64().expect("a count")
    });
    let [original, ours] = calls;
    assert!(original > 3.0, "{original}");
    assert!(ours <= 2.1, "{ours}");
}

/// `CURLMOPT_MAX_HOST_CONNECTIONS`, `CURLMOPT_MAX_TOTAL_CONNECTIONS`, `CURLMOPT_MAXCONNECTS` and
/// `CURLOPT_MAXCONNECTS`: how many connections are open at most, and how many are kept.
#[test]
fn connections_are_limited_as_in_libcurl() {
    let urls = [serve(Vec::new()), serve(Vec::new())].map(|address| format!("http://{address}/"));
    let [original, ours] = both("limits", &urls);
    assert!(original.contains("host 2, total 3, kept -1, 0: done 40, peak 3\n"), "{original}");
    assert_eq!(ours, original);
}

/// A transfer with another value of an option does not use a connection that libcurl would not use.
/// For some options (`CURLOPT_RESOLVE`, `CURLOPT_TCP_NODELAY`) it opens one where libcurl does not.
#[test]
fn connections_are_used_for_the_same_options_only() {
    let [original, ours] = both("reuse", &[]);
    assert_eq!(original.lines().count(), 32, "{original}");
    let split = |line: &str| -> (String, u32) {
        let (transfers, count) = line.rsplit_once(", ").expect("a count");
        let count = count.strip_suffix(" connections").and_then(|count| count.parse().ok());
        (transfers.to_owned(), count.expect("a number"))
    };
    for (original, ours) in original.lines().zip(ours.lines()) {
        let (needed, made) = (split(original), split(ours));
        assert_eq!(made.0, needed.0);
        assert!(made.1 >= needed.1, "{ours} instead of {original}");
    }
    assert_eq!(ours.lines().next(), Some("nothing: 0 0, 1 connections"));
}

/// Descriptors of the application in `curl_multi_poll` and `curl_multi_wait`, also for urgent data.
#[test]
fn waits_report_the_events_of_libcurl() {
    let [original, ours] = both("waits", &[]);
    assert!(original.contains("urgent, events 2: 0, count 1, 2\n"), "{original}");
    assert_eq!(ours, original);
}

/// Callbacks for sockets, `CURLOPT_CONNECT_ONLY`, addresses and descriptors of connections.
#[test]
fn sockets_are_opened_and_closed_by_the_application() {
    let address = serve(Vec::new());
    let [original, ours] = both("hooks", &[format!("http://{address}/")]);
    assert!(original.contains("recv 0 44 'HTTP/1.1 200 OK'"), "{original}");
    assert_eq!(ours, original);
}

/// Functions for sockets of several handles of one server, added together and in a share.
#[test]
fn every_socket_passes_the_functions_of_its_transfer() {
    let address = serve(Vec::new());
    let [original, ours] = both("filters", &[format!("http://{address}/")]);
    assert!(original.starts_with("results 0 7 0, opened 0, refused 1"), "{original}");
    assert_eq!(ours, original);
}

/// Every function of the installed library with its version, those of later releases, and nothing
/// else: other symbols would replace those of programs.
#[test]
fn exported_functions_are_those_of_libcurl() {
    let installed = run(Command::new("cc").arg("-print-file-name=libcurl.so"));
    let original = exported(Path::new(text(&installed.stdout).trim()));
    let mut ours = exported(&libraries().join("libcurl.so.4"));
    for name in LATER_FUNCTIONS {
        let symbol = format!("{name}@@CURL_OPENSSL_4");
        let at = ours.iter().position(|it| *it == symbol);
        ours.remove(at.unwrap_or_else(|| panic!("{symbol} is missing")));
    }
    assert_eq!(original.len(), 91);
    assert_eq!(ours, original);
}

/// The dynamic symbols of a library in order, without the names of versions.
fn exported(library: &Path) -> Vec<String> {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let listed = text(&output.stdout);
    let symbols = listed.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next().filter(|kind| *kind != "A");
        kind.and_then(|_| words.next()).map(str::to_owned)
    });
    let mut symbols: Vec<String> = symbols.collect();
    symbols.sort();
    symbols
}

/// Functions that came after libcurl 7.88.
const LATER_FUNCTIONS: [&str; 9] = [
    "curl_easy_ssls_export",
    "curl_easy_ssls_import",
    "curl_global_trace",
    "curl_multi_get_handles",
    "curl_multi_get_offt",
    "curl_multi_notify_disable",
    "curl_multi_notify_enable",
    "curl_multi_waitfds",
    "curl_ws_start_frame",
];

/// The responses of `crates/proto/tests/libcurl`: results, status, header lines, bodies, texts.
#[test]
fn responses_are_those_of_libcurl() {
    let cases = LibcurlResponse::all();
    let address = serve(cases.iter().map(|case| case.bytes.clone()).collect());
    let url = |(case, at): (&LibcurlResponse, usize)| {
        let allows = if case.allows_http09 { "0" } else { "" };
        let method = if case.is_head { "H" } else { "" };
        format!("{allows}{method}http://{address}/case/{at}")
    };
    let arguments: Vec<String> = cases.iter().zip(0..).map(url).collect();
    let [original, ours] = both("responses", &arguments);
    assert_eq!(original.lines().count(), cases.len());
    let mut wrong = Vec::new();
    for ((case, original), ours) in cases.iter().zip(original.lines()).zip(ours.lines()) {
        if original != ours {
            wrong.push(format!("# {}\n  {original}\n  {ours}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

struct LibcurlResponse {
    name: String,
    bytes: Vec<u8>,
    allows_http09: bool,
    is_head: bool,
}

impl LibcurlResponse {
    fn all() -> Vec<Self> {
        let table = include_str!("../../../crates/proto/tests/libcurl/responses.txt");
        let blocks = table.split("\n\n").filter(|block| !block.trim().is_empty());
        blocks.map(Self::parse).collect()
    }

    fn parse(block: &str) -> Self {
        let mut lines = block.lines().filter(|line| !line.is_empty());
        let name = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a name");
        let mut case =
            Self { name: name.to_owned(), bytes: Vec::new(), allows_http09: false, is_head: false };
        for line in lines {
            match line.split_once(' ').unwrap_or((line, "")) {
                (">", bytes) => case.bytes.extend(escapes::unescape(bytes)),
                ("http09", _) => case.allows_http09 = true,
                ("request", method) => case.is_head = method == "HEAD",
                _ => {}
            }
        }
        case
    }
}
