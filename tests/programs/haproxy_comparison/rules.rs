//! Compares actions and log formats with HAProxy: the same requests and rules in a running HAProxy
//! and in our executor. The lines of its log are rendered again by ours.

#[path = "../../../crates/haproxy/tests/it/world/mod.rs"]
mod world;

use std::fmt::Write;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use fulmar_haproxy::rules::eval_context::{Fact, LogField};
use fulmar_haproxy::rules::format::{FormatOptions, FormatString};
use fulmar_haproxy::rules::http::{HttpRule, HttpVerdict, RuleSet, RulesProgress, run};
use fulmar_haproxy::rules::reply::{ErrorPages, ReplyTemplate};
use fulmar_haproxy::rules::{EvalContext, ResponseHead, Sample};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::bound;
use fulmar_tests::process::run as run_program;
use fulmar_tests::process::{ChildProcess, eventually, fulmar, peer, text};

use world::{EvalWorld, http_rule, lines};

#[test]
fn changes_equal_those_of_haproxy() {
    let theirs = HaProxyRules::start(CHANGES);
    let mut client = HttpClient::connect(theirs.address);
    let mut wrong = String::new();
    for (at, rules) in CHANGES.iter().enumerate() {
        let mut world = asking(at, &client);
        let rules: Vec<_> = rules.iter().map(|rule| read(rule)).collect();
        let verdict = run(&rules, &mut RulesProgress::default(), &mut world);
        assert!(matches!(verdict, HttpVerdict::Continue), "{rules:?}: {verdict:?}");
        let ours = shown(&world);
        let reply = send_request(&mut client, at);
        let theirs = text(&reply.body).replace("%0D%0A", "\n").trim_end().to_owned();
        if ours != theirs {
            writeln!(wrong, "{:?}\n{theirs}\nnot\n{ours}", CHANGES[at]).expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn responses_equal_those_of_haproxy() {
    let theirs = HaProxyRules::start(ANSWERS);
    let mut wrong = String::new();
    for (at, lines) in ANSWERS.iter().enumerate() {
        let mut client = HttpClient::connect(theirs.address);
        let mut world = asking(at, &client);
        let rules: Vec<_> = lines.iter().map(|rule| read(rule)).collect();
        let verdict = run(&rules, &mut RulesProgress::default(), &mut world);
        let ours = answer(&verdict, &world);
        let theirs = common_part(&send_request(&mut client, at));
        if ours != theirs {
            writeln!(wrong, "{lines:?}: {theirs:?}, not {ours:?}").expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

/// The same files in both programs: the parts around the rules have no effect either.
#[test]
fn our_proxy_responds_as_haproxy_does() {
    let mut wrong = String::new();
    for cases in [CHANGES, ANSWERS] {
        let (theirs, ours) =
            (HaProxyRules::start(cases), HaProxyRules::start_as(cases, fulmar_proxy));
        for (at, case) in cases.iter().enumerate() {
            let [theirs, ours] = [&theirs, &ours].map(|running| {
                let mut client = HttpClient::connect(running.address);
                common_part(&send_request(&mut client, at))
            });
            if theirs != ours {
                writeln!(wrong, "{case:?}: {theirs:?}, not {ours:?}").expect("memory");
            }
        }
    }
    assert_eq!(wrong, "");
}

/// We reject what HAProxy rejects.
#[test]
fn rules_invalid_in_haproxy_are_invalid() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("haproxy.cfg");
    for (keyword, rule) in REFUSED {
        let config = format!("{PREAMBLE}frontend test\n  {keyword} {rule}\n");
        fs::write(&file, config).expect("a file");
        let output = peer("haproxy").arg("-c").arg("-f").arg(&file).output().expect("it starts");
        assert!(!output.status.success(), "HAProxy takes {rule}");
        let set = match *keyword {
            "http-request" => RuleSet::Request,
            "http-response" => RuleSet::Response,
            _ => RuleSet::AfterResponse,
        };
        assert!(http_rule(set, rule).is_err(), "we take {rule}");
    }
}

#[test]
fn log_lines_equal_those_of_haproxy() {
    let (_holder, address) = bound();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let format = FORMATS.join("~~");
    let config = format!(
        "global\n  log stdout format raw local0\n{PREAMBLE}frontend front\n  bind {address}\n  \
         log global\n  capture request header X-A len 20\n  capture request header X-B len 20\n  \
         capture request header X-C len 20\n  log-format \"%Ts %ms %cp %pid %rt~~{}\"\n  \
         http-request set-var(txn.evil) hdr(x-a)\n  http-request return status 200\n",
        format.replace('\\', "\\\\").replace('"', "\\\""),
    );
    let mut process = start(haproxy, dir.path(), &config, address);
    let mut client = HttpClient::connect(address);
    client.send(
        "GET http://h:1/p/a?q=|{1}\"%41 HTTP/1.1\r\nHost: h:1\r\nX-A: a\"b]c\\d|e\r\nX-C: x \
         y\r\n\r\n",
    );
    assert_eq!(client.read_reply().expect("a reply").status, 200);
    let line = process.wait_stdout("p/a?q=");
    let (facts, written) = line.trim_end().split_once("~~").expect("both parts");
    let facts: Vec<i64> = facts.split(' ').map(|text| text.parse().expect("a number")).collect();
    let [seconds, ms, port, process_id, count] = facts[..] else { panic!("{facts:?}") };
    let word = |text: &'static str| Sample::Text(text.as_bytes().into());
    let ip = |address: SocketAddr| Sample::Address(address.ip());
    let world = EvalWorld { source: Some(address), ..EvalWorld::asking("GET", "/", &[]) }
        .evil(b"a\"b]c\\d|e")
        .logging(LogField::RequestLine, word("GET http://h:1/p/a?q=|{1}\"%41 HTTP/1.1"))
        .logging(LogField::Accepted, Sample::Int(seconds * 1000 + ms))
        .logging(LogField::ClientAddress, ip(address))
        .logging(LogField::ClientPort, Sample::Int(port))
        .logging(LogField::FrontendAddress, ip(address))
        .logging(LogField::FrontendPort, Sample::Int(address.port().into()))
        .logging(LogField::RequestCounter, Sample::Int(count))
        .logging(LogField::Frontend, word("front"))
        .logging(LogField::FrontendTransport, word("front"))
        .logging(LogField::Backend, word("front"))
        .logging(LogField::Server, word("<NOSRV>"))
        .logging(LogField::Status, Sample::Int(200))
        .logging(LogField::RequestCaptures, Sample::Int(3))
        .knowing(Fact::CapturedRequest(0), word("a\"b]c\\d|e"))
        .knowing(Fact::CapturedRequest(2), word("x y"))
        .knowing(Fact::Process, Sample::Int(process_id));
    let ours = FormatString::parse(&format, 1, FormatOptions::HTTP_LOG).expect("formats");
    let mut line = Vec::new();
    ours.render(&world, &mut line);
    let line = text(&line);
    for ((format, theirs), ours) in FORMATS.iter().zip(written.split("~~")).zip(line.split("~~")) {
        assert_eq!(ours, theirs, "{format}");
    }
    assert_eq!(line, written);
}

/// The request of a case in our representation.
fn asking(at: usize, client: &HttpClient) -> EvalWorld {
    let case = at.to_string();
    let mut fields: Vec<(&str, &[u8])> =
        FIELDS.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    fields.push(("X-Case", case.as_bytes()));
    let mut world = EvalWorld::asking("GET", TARGET, &fields);
    world.source = client.socket().local_addr().ok();
    world.destination = client.socket().peer_addr().ok();
    let line = Sample::Text(format!("GET {TARGET} HTTP/1.1").into_bytes().into());
    world
        .logging(LogField::RequestLine, line)
        .logging(LogField::Frontend, Sample::text(b"test"))
        .logging(LogField::Backend, Sample::text(b"test"))
}

/// Sends it to HAProxy.
fn send_request(client: &mut HttpClient, at: usize) -> fulmar_tests::http::HttpReply {
    let mut head = format!("GET {TARGET} HTTP/1.1\r\n");
    for (name, value) in FIELDS {
        write!(head, "{name}: {value}\r\n").expect("memory");
    }
    client.send(format!("{head}X-Case: {at}\r\n\r\n"));
    client.read_reply().expect("a reply")
}

/// A response with the fields that rules set, sorted.
fn common_part(reply: &fulmar_tests::http::HttpReply) -> (u16, Vec<String>, String) {
    let is_meant = |name: &str| {
        ["location", "set-cookie", "cache-control", "www-authenticate", "content-type"]
            .contains(&name)
            || name.starts_with("x-")
    };
    let fields = reply.fields.iter().filter(|(name, _)| is_meant(name));
    let mut fields: Vec<_> = fields.map(|(name, value)| format!("{name}: {value}")).collect();
    fields.sort();
    // The built-in pages have other texts.
    let is_page = ["<html><body><h1>", "<!doctype"].iter().any(|it| text(&reply.body).contains(it));
    if is_page {
        fields.retain(|field| !field.starts_with("content-type"));
    }
    (reply.status, fields, if is_page { String::new() } else { text(&reply.body) })
}

fn read(rule: &str) -> HttpRule {
    http_rule(RuleSet::Request, rule).unwrap_or_else(|fault| panic!("{rule}: {fault:?}"))
}

/// A request as the last rule in HAProxy shows it.
fn shown(world: &EvalWorld) -> String {
    let request = world.request().expect("there is one");
    let method = text(&request.method);
    let mut out = format!("{method} {}", text(&request.target));
    for (name, value) in request.fields.iter() {
        let name = text(name).to_ascii_lowercase();
        write!(out, "\n{name}: {}", text(value)).expect("memory");
    }
    out.trim_end().to_owned()
}

/// The response to a verdict: status, sorted fields, and body.
fn answer(verdict: &HttpVerdict<'_>, world: &EvalWorld) -> (u16, Vec<String>, String) {
    let rendered = match verdict {
        HttpVerdict::Deny(reply) | HttpVerdict::Return(reply) | HttpVerdict::Tarpit(reply) => {
            reply.render(world, &[&ErrorPages::default()])
        }
        HttpVerdict::Redirect(head) => Some((ResponseHead::clone(head), bytes::Bytes::new())),
        HttpVerdict::Auth(realm) => {
            let mut name = Vec::new();
            match realm {
                Some(realm) => realm.render(world, &mut name),
                None => name.extend_from_slice(b"test"),
            }
            ReplyTemplate::challenge(&name, world, &[])
        }
        other => panic!("{other:?}"),
    };
    let (head, body) = rendered.expect("an answer");
    let mut fields: Vec<_> = lines(&head.fields)
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
        .collect();
    fields.sort();
    let is_page = body.starts_with(b"<!doctype");
    if is_page {
        fields.retain(|field| !field.starts_with("content-type"));
    }
    let body = if is_page { String::new() } else { text(&body) };
    (head.status, fields, body)
}

/// HAProxy with the rules of each case.
struct HaProxyRules {
    address: SocketAddr,
    _process: ChildProcess,
    _holder: std::os::fd::OwnedFd,
    _dir: tempfile::TempDir,
}

impl HaProxyRules {
    fn start(cases: &[&[&str]]) -> Self {
        Self::start_as(cases, haproxy)
    }

    fn start_as(cases: &[&[&str]], program: fn() -> Command) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (holder, address) = bound();
        let mut config = format!(
            "global\n  expose-experimental-directives\n{PREAMBLE}frontend test\n  bind \
             {address}\n  \
             http-request set-var(txn.case) req.hdr(x-case)\n"
        );
        for (at, rules) in cases.iter().enumerate() {
            for rule in *rules {
                writeln!(config, "  http-request {rule} if {{ var(txn.case) -m str {at} }}")
                    .expect("memory");
            }
        }
        config.push_str(
            "  http-request return status 200 content-type text/plain \
             lf-string '%[method] %[url]%%0D%%0A%[req.hdrs]'\n",
        );
        let process = start(program, dir.path(), &config, address);
        Self { address, _process: process, _holder: holder, _dir: dir }
    }
}

fn haproxy() -> Command {
    peer("haproxy")
}

fn fulmar_proxy() -> Command {
    let mut command = Command::new(fulmar());
    command.arg("proxy");
    command
}

fn start(
    program: fn() -> Command,
    dir: &std::path::Path,
    config: &str,
    address: SocketAddr,
) -> ChildProcess {
    let file = dir.join("haproxy.cfg");
    fs::write(&file, config).expect("a file");
    let command = || {
        let mut command = program();
        command.arg("-db").arg("-f").arg(&file);
        command
    };
    run_program(command().arg("-c"));
    let process = ChildProcess::start(&mut command());
    eventually("it listens", || TcpStream::connect(address).is_ok());
    process
}

const PREAMBLE: &str = "defaults\n  mode http\n  timeout client 20s\n  timeout server 20s\n  \
                        timeout connect 20s\n  timeout tarpit 1ms\n  option dontlognull\n";

/// The target of every request.
const TARGET: &str = "/dir//sub/../page%2e%7E%2fx/./?z=1&a=%20+b&z=0&b";

/// The fields of every request.
const FIELDS: &[(&str, &str)] = &[
    ("Host", "www.example.com:8080"),
    ("X-A", "one"),
    ("X-List", "a, bb,\"c,d\",e"),
    ("X-A", "two words"),
    ("X-Path", "/from%20field"),
    ("X-Aa", "three"),
];

/// Rules that change a request, by case.
const CHANGES: &[&[&str]] = &[
    &["set-header X-New %[hdr(x-a)]-%[src]"],
    &["set-header x-a new"],
    &["add-header X-A %[hdr(nope)]more"],
    &["del-header x-a"],
    &["del-header x- -m beg", "set-header x y"],
    &["del-header -a -m end"],
    &["del-header -l -m sub"],
    &["del-header ^x-a+$ -m reg"],
    &["replace-header x-a (.)(w?)(.*) '<\\1|\\2|\\0>'"],
    &["replace-header x-a one$ <%[src]>"],
    &["replace-header x-a o.e '\\x41\\\\'"],
    &["replace-value x-list ^(.)$ <\\1>"],
    &["replace-value x-list b b%[hdr(x-aa)]"],
    &["replace-value x-list ^nothing$ x"],
    &["set-path /new"],
    &["set-path /%[hdr(host)]%[path]"],
    &["set-path /new?x"],
    &["set-pathq /new"],
    &["set-pathq /new?x=1"],
    &["set-query x=%[src]"],
    &["set-query %[hdr(nope)]"],
    &["set-pathq /a", "set-query %[hdr(nope)]"],
    &["set-pathq /a", "set-query b"],
    &["set-uri /other?x"],
    &["set-uri http://www.example.com/a?b", "set-path /c"],
    &["set-uri http://www.example.com/", "set-header host other:5"],
    &["set-uri http://www.example.com/", "replace-header host (.*) \\1:5"],
    &["replace-path /dir/(.*) /\\1"],
    &["replace-path ^/nothing(.*) /\\1"],
    &["replace-path (.*) /x\\1"],
    &["replace-pathq ([^?]*)(\\?(.*))? \\1/foo\\2"],
    &["replace-uri (.*)\\?.* \\1"],
    &["set-var(txn.a) hdr(x-aa),upper", "set-header x-b %[var(txn.a)]"],
    &["set-var-fmt(txn.a) <%[src]>", "unset-var(txn.a)", "set-header x-b a%[var(txn.a)]"],
    &["set-var(txn.a) int(5)", "set-var(txn.a,ifgt) int(4)", "set-header x-b %[var(txn.a)]"],
    &["set-var(txn.a) int(5)", "set-var(txn.a,iflt) int(4)", "set-header x-b %[var(txn.a)]"],
    &["set-var(txn.a,ifexists) int(4)", "set-header x-b <%[var(txn.a)]>"],
    &["set-var(txn.a) int(5)", "set-var(txn.a,ifnotexists) int(4)", "set-header x-b %[var(txn.a)]"],
    &["set-var(txn.a) int(5)", "set-var(txn.a,ifset) int(0)", "set-header x-b %[var(txn.a)]"],
    &["set-var(txn.a) int(5)", "set-var(txn.a,ifnotset) int(0)", "set-header x-b %[var(txn.a)]"],
    &["set-src str(10.1.2.3)", "set-src-port int(7)", "set-header x-b %[src]:%[src_port]"],
    &["set-dst str(2001:db8::7)", "set-header x-b %[dst]"],
    &["normalize-uri path-merge-slashes"],
    &["normalize-uri path-strip-dot"],
    // Without an argument, HAProxy 2.6 treats these three as path-merge-slashes.
    &["normalize-uri path-strip-dotdot full"],
    &["normalize-uri percent-decode-unreserved strict"],
    &["normalize-uri percent-to-uppercase strict"],
    &["normalize-uri query-sort-by-name"],
    &["set-path /../../a/..", "normalize-uri path-strip-dotdot full"],
    &["set-path /a/b/.", "normalize-uri path-strip-dot"],
    &["set-path /a/b/..", "normalize-uri path-strip-dotdot full"],
    &["strict-mode off", "set-header x-b y"],
    &["set-header x-b '%[hdr(x-path),url_dec]%%'"],
    &["set-header x-b a%{+E}[hdr(x-list)]"],
    &["set-header x-b a%{+Q}[hdr(x-list)]%HM%HU%f%b"],
];

/// Rules that respond, by case.
const ANSWERS: &[&[&str]] = &[
    &["deny"],
    &["deny deny_status 429"],
    &["deny status 404 content-type text/plain string 'not %[src]'"],
    &["deny hdr x-b y"],
    &["tarpit"],
    &["return"],
    &["return status 299 hdr X-B %[hdr(x-a)] hdr x-c %[path]"],
    &["return content-type text/plain lf-string 'you are %[src] %HM %[hdr(nope)]'"],
    &["return content-type text/plain string '%[src] %%'"],
    &["return status 404 default-errorfiles"],
    &["return status 503"],
    &["redirect location /x"],
    &["redirect location http://%[hdr(host)]/x code 301"],
    &["redirect location %[hdr(nope)] ignore-empty", "deny"],
    &["redirect location '/a b'"],
    &["redirect prefix http://other"],
    &["redirect prefix / code 307"],
    &["redirect prefix /p drop-query code 308"],
    &["set-path /p", "redirect prefix / drop-query append-slash code 301"],
    &["redirect prefix / drop-query append-slash code 303"],
    &["redirect prefix /p append-slash"],
    &["set-uri /p", "redirect prefix http://other append-slash"],
    &["set-uri /p", "redirect scheme https append-slash code 301"],
    &["redirect scheme https"],
    &["redirect scheme https code 301 drop-query"],
    &["redirect location / code 301 set-cookie A=b"],
    &["redirect location / code 302 clear-cookie A="],
    &["set-uri http://other/a?b", "redirect scheme https code 301"],
    &["auth"],
    &["auth realm 'A Realm'"],
];

/// Invalid rules.
const REFUSED: &[(&str, &str)] = &[
    ("http-request", "alow"),
    ("http-request", "set-status 200"),
    ("http-request", "deny status 418"),
    ("http-request", "deny status 99"),
    ("http-request", "return string x"),
    ("http-request", "return status 204 content-type a/b string x"),
    ("http-request", "return content-type a/b file /no/such/file"),
    ("http-request", "redirect code 302"),
    ("http-request", "redirect location / code 200"),
    ("http-request", "set-header x"),
    ("http-request", "set-header x %zz"),
    ("http-request", "set-header x %[nope]"),
    ("http-request", "set-header x %[src"),
    ("http-request", "replace-header x ( y"),
    ("http-request", "set-var(a) src"),
    ("http-request", "set-var(txn.a)"),
    ("http-request", "set-log-level loud"),
    ("http-request", "capture src"),
    ("http-request", "use-service nope"),
    ("http-request", "wait-for-body at-least 5"),
    ("http-request", "strict-mode maybe"),
    ("http-request", "allow now"),
    ("http-response", "reject"),
    ("http-response", "auth"),
    ("http-response", "set-path /"),
    ("http-after-response", "deny"),
    ("http-after-response", "return"),
    ("http-after-response", "redirect location /"),
];

/// Log formats.
const FORMATS: &[&str] = &[
    "%r",
    "%{+Q}r",
    "%{+E}r",
    "%HM|%HP|%HPO|%HQ|%HU|%HV",
    "%{+Q}HU",
    "%ci:%cp %fi:%fp",
    "%{+X}ci:%{+X}cp",
    "%{+X}pid %{+X}Ts %{+X}rt",
    "%t|%T|%Tl|%ms",
    "%f %ft %b %s %ST",
    "%{+Q}f %{+Q}s",
    "%hr",
    "%hrl",
    "%{+Q}hr",
    "%{+Q}hrl",
    "%{+E}hr",
    "a %hs b",
    "a %hs %hsl",
    "%CC %CS %{+Q}CC",
    "%sslc %sslv %ID",
    "%[var(txn.evil)]",
    "%{+Q}[var(txn.evil)]",
    "%{+E}[var(txn.evil)]",
    "%{+Q,+E}[var(txn.evil)]",
    "%[var(txn.none)]|%{+Q}[var(txn.none)]",
    "%[src,ipmask(8)]",
    "100%%  x   y",
    "%{+Q,-Q}r",
    "%{+Q}o %f %cp %{-Q}f %{+X}cp %r %hr",
];
