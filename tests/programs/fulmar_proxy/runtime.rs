//! The runtime socket compared with HAProxy's: the same configuration, commands and replies.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fulmar_gateway::{Gateway, Options};
use fulmar_haproxy::{Environment, ThisMachine, load};
use fulmar_host::Running;
use fulmar_tests::process::{ChildProcess, PATIENCE, eventually, peer};
use tempfile::TempDir;

mod following;
mod lists;
mod messages;
mod states;

/// Frontends at Unix sockets in a folder, and servers without traffic.
fn text(folder: &Path, servers: usize) -> String {
    let folder = folder.display();
    let mut text = format!(
        "global
  nbthread 1
  maxconn 2000
  node here
  stats socket {folder}/admin.sock level admin
  stats socket {folder}/operator.sock level operator
  stats socket {folder}/user.sock level user
defaults
  mode http
  timeout connect 1s
  timeout client 1m
  timeout server 1m
frontend www
  bind unix@{folder}/www.sock name web
  option socket-stats
  maxconn 100
  default_backend shop
frontend stats
  bind unix@{folder}/stats.sock
  stats enable
  stats uri /stats
  stats admin if TRUE
  http-request use-service prometheus-exporter if {{ path /metrics }}
frontend plain
  bind unix@{folder}/plain.sock
  mode tcp
  default_backend raw
backend shop
  cookie SRV insert
  server s1 127.0.0.1:1 cookie c1 weight 10
  server s2 127.0.0.1:2 backup maxconn 30
  server s3 127.0.0.1:3 disabled
  server s4 127.0.0.1:4 weight 0
backend raw
  mode tcp
  balance leastconn
  server t1 127.0.0.1:5
  server t2 127.0.0.1:6 maxqueue 7
"
    );
    if servers > 0 {
        text += "backend many\n";
        for nth in 0..servers {
            text += &format!("  server many{nth} 127.0.0.1:9\n");
        }
    }
    text
}

/// Our proxy with this configuration; stopped on drop.
pub(crate) struct FulmarRuntime {
    folder: TempDir,
    running: Option<Running<()>>,
    /// Warnings at the start.
    warnings: Vec<String>,
    _alone: MutexGuard<'static, ()>,
}

/// A process runs one proxy at a time: its successor finds it by the process number.
static ALONE: Mutex<()> = Mutex::new(());

impl FulmarRuntime {
    fn start(servers: usize) -> Self {
        Self::with(|folder| text(folder, servers))
    }

    pub(crate) fn with(text: impl Fn(&Path) -> String) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let source = fulmar_haproxy::ConfigSource::text("test.cfg", &text(folder.path()));
        let environment = Environment::of_process();
        let loaded = load(&[source], &environment, &ThisMachine, &Default::default());
        let config = loaded.unwrap_or_else(|wrong| panic!("{wrong:?}")).config;
        let gateway = Gateway::open(config, Options::default()).unwrap();
        let warnings = gateway.warnings().map(str::to_owned).collect();
        Self { folder, running: Some(gateway.start().unwrap()), warnings, _alone: alone }
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            let ended = running.join();
            if !std::thread::panicking() {
                ended.unwrap();
            }
        }
    }
}

impl Drop for FulmarRuntime {
    fn drop(&mut self) {
        self.stop();
    }
}

/// HAProxy with the same configuration.
struct HaProxyRuntime {
    folder: TempDir,
    _process: ChildProcess,
}

impl HaProxyRuntime {
    fn start() -> Self {
        Self::with(|folder| text(folder, 0))
    }

    fn with(text: impl Fn(&Path) -> String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, text(folder.path())).unwrap();
        let process = ChildProcess::start(peer("haproxy").arg("-db").arg("-f").arg(&file));
        let socket = folder.path().join("admin.sock");
        eventually("HAProxy answers", || UnixStream::connect(&socket).is_ok());
        talk(folder.path(), "admin", &["show version\n"]); // once all sockets are there
        Self { folder, _process: process }
    }
}

/// The replies to these chunks, until the end.
fn talk(folder: &Path, socket: &str, chunks: &[&str]) -> String {
    let mut to = UnixStream::connect(folder.join(format!("{socket}.sock"))).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    for chunk in chunks {
        to.write_all(chunk.as_bytes()).unwrap();
    }
    let mut answer = Vec::new();
    match to.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
        _ => {}
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.replace(&folder.display().to_string(), "/folder")
}

#[test]
fn commands_are_answered_as_haproxy_answers_them() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let mut wrong = String::new();
    for (socket, commands) in [("admin", ADMIN), ("operator", LOWER), ("user", LOWER)] {
        for command in commands.lines() {
            let line = format!("{command}\n");
            let expected = talk(theirs.folder.path(), socket, &[&line]);
            let answer = talk(ours.folder.path(), socket, &[&line]);
            if answer != expected {
                wrong += &format!("{socket}: {command}\n  {expected:?}\n  {answer:?}\n");
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn a_dialogue_has_prompts() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let all = "prompt\nshow cli level;get weight shop/s1\nuser\nshow env\nquit\n";
    let expected = talk(theirs.folder.path(), "admin", &[all]);
    assert_eq!(talk(ours.folder.path(), "admin", &[all]), expected);
    for at in 1..all.len() {
        let parts = [&all[..at], &all[at..]];
        assert_eq!(talk(ours.folder.path(), "admin", &parts), expected, "at {at}");
    }
}

#[test]
fn rows_are_those_of_haproxy() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let read = |folder: &Path| talk(folder, "admin", &["show stat\n"]);
    let (ours, theirs) = (read(ours.folder.path()), read(theirs.folder.path()));
    let head = |text: &str| text.lines().next().unwrap().to_owned();
    assert_eq!(head(&ours), head(&theirs));
    let names: Vec<&str> = theirs.lines().next().unwrap()[2..].split(',').collect();
    let mut wrong = String::new();
    assert_eq!(ours.lines().count(), theirs.lines().count());
    for (ours, row) in ours.lines().zip(theirs.lines()).skip(1) {
        for ((name, our), their) in names.iter().zip(ours.split(',')).zip(row.split(',')) {
            // Time passes between both, and the time of a backend without servers differs.
            if our != their && !["lastchg", "downtime"].contains(name) {
                wrong += &format!("{row:.20} {name}: {their:?}, not {our:?}\n");
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn typed_output_has_the_types_of_haproxy() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let kinds = |folder: &Path| {
        let text = talk(folder, "admin", &["show stat typed\n"]);
        let lines = text.lines().filter(|line| !line.contains(".downtime."));
        lines.map(|line| line.rsplitn(2, ':').last().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    let (ours, theirs) = (kinds(ours.folder.path()), kinds(theirs.folder.path()));
    let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
    let more: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing {missing:?}, more {more:?}");
}

#[test]
fn info_fields_have_the_names_of_haproxy() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let names = |folder: &Path| {
        let text = talk(folder, "admin", &["show info typed\n"]);
        let name = |line: &str| Some(line.split_once(':')?.0.to_owned());
        text.lines().filter_map(name).collect::<Vec<_>>()
    };
    let (ours, theirs) = (names(ours.folder.path()), names(theirs.folder.path()));
    let ours_alone = |name: &&String| !theirs.contains(name) && !name.starts_with("10");
    assert_eq!(ours.iter().filter(ours_alone).count(), 0);
    assert!(ours.len() > 40, "{ours:?}");
}

/// The response to a request at the statistics frontend.
fn send_request(folder: &Path, request: &str) -> String {
    talk(folder, "stats", &[request])
}

#[test]
fn metrics_have_the_names_of_haproxy() {
    let (ours, theirs) = (FulmarRuntime::start(0), HaProxyRuntime::start());
    let request = "GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let families = |folder: &Path| {
        let text = send_request(folder, request);
        assert!(text.starts_with("HTTP/1.1 200 "), "{text:.200}");
        let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let mut all: Vec<String> = lines.map(str::to_owned).collect();
        // Without checks, only one of the two has this metric.
        let is_common = |line: &String| !line.starts_with("haproxy_server_downtime_seconds_total");
        all.retain(|line| !line.starts_with("haproxy_process_") && is_common(line));
        all.sort_unstable();
        all
    };
    let (mut ours, theirs) = (families(ours.folder.path()), families(theirs.folder.path()));
    ours.retain(|line| !line.starts_with("fulmar_"));
    let missing: Vec<_> = theirs.iter().filter(|line| !ours.contains(line)).collect();
    let more: Vec<_> = ours.iter().filter(|line| !theirs.contains(line)).collect();
    assert!(missing.is_empty() && more.is_empty(), "missing {missing:?}, more {more:?}");
}

#[test]
fn the_page_is_served_and_changes_servers() {
    let ours = FulmarRuntime::start(0);
    let folder = ours.folder.path();
    let page = send_request(folder, "GET /stats HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("</html>\n"), "{page:.300}");
    let csv =
        send_request(folder, "GET /stats;csv HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert!(csv.contains("\nshop,s1,0,0,"), "{csv:.300}");
    let form = "s=s1&action=drain&b=shop";
    let post = |origin: &str| {
        send_request(
            folder,
            &format!(
                "POST /stats HTTP/1.1\r\nHost: h\r\nOrigin: {origin}\r\nConnection: close\r\n\
                 Content-Length: {}\r\n\r\n{form}",
                form.len()
            ),
        )
    };
    let refused = post("http://elsewhere").to_lowercase();
    assert!(refused.contains("location: /stats;st=deny"), "{refused:.300}");
    let done = post("http://h").to_lowercase();
    assert!(done.starts_with("http/1.1 303 ") && done.contains("location: /stats;st=done"));
    assert!(talk(folder, "user", &["show stat\n"]).contains(",DRAIN,"));
}

#[test]
fn a_long_answer_waits_for_its_reader() {
    let ours = FulmarRuntime::start(2_000);
    let mut to = UnixStream::connect(ours.folder.path().join("user.sock")).unwrap();
    to.write_all(b"show stat json\n").unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 1_000]; // far less than is sent at once
    loop {
        match to.read(&mut piece).unwrap() {
            0 => break,
            len => answer.extend_from_slice(&piece[..len]),
        }
    }
    let rows: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 2 + 1 + 1 + 4 + 1 + 2 + 1 + 2_000 + 1);
}

#[test]
fn sessions_are_shown_and_cut_off() {
    let ours = FulmarRuntime::start(0);
    let folder = ours.folder.path();
    let mut client = UnixStream::connect(folder.join("www.sock")).unwrap();
    let mut name = String::new();
    eventually("the session is shown", || {
        let shown = talk(folder, "operator", &["show sess\n"]);
        name = shown.split(':').next().unwrap_or_default().trim().to_owned();
        shown.contains("proto=unix_stream") && shown.contains("fe=www")
    });
    assert!(talk(folder, "operator", &[&format!("show sess {name}\n")]).contains("fe=www"));
    assert_eq!(talk(folder, "admin", &[&format!("shutdown session {name}\n")]), "\n");
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.read(&mut [0; 100]).unwrap_or(0), 0);
    let again = talk(folder, "admin", &[&format!("shutdown session {name}\n")]);
    assert_eq!(again, "No such session (use 'show sess').\n\n");
}

#[test]
fn idle_connections_are_closed() {
    let ours = FulmarRuntime::start(0);
    let mut to = UnixStream::connect(ours.folder.path().join("user.sock")).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    to.write_all(b"prompt\nset timeout cli 100ms\n").unwrap();
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "\n> \n> ");
}

/// Commands of an admin, in this order.
const ADMIN: &str = "\
set server
set server shop/s1
set server shop/s1 state
set server shop/s1 state foo
set server shop/nope state ready
set server nope/s1 state ready
set server nope state ready
set server shop/s1 state drain
set server shop/s1 state ready
set server shop/s1 weight 300
set server shop/s1 weight abc
set server shop/s1 weight 12x
set server shop/s1 weight 50%
get weight shop/s1
set server shop/s1 weight -1
set server shop/s1 weight 200%
get weight shop/s1
set server shop/s1 weight
set server shop/s1 weight 10
set server shop/s1 addr 127.0.0.1 port 1
set server shop/s1 addr 127.0.0.2
set server shop/s1 addr 127.0.0.1 port 8
set server shop/s1 addr nonsense
set server shop/s1 addr
set server shop/s4 check-port 80
set server shop/s1 health foo
set server shop/s1 health
set server shop/s1 health down
set server shop/s1 health up
set server shop/s1 agent up
set server shop/s1 foo
set server shop/s1 fqdn x
set server shop/s1 ssl on
set weight shop/s1
set weight shop/s1 20
get weight shop/s1
get weight shop/nope
get weight nope/s1
get weight
get weight #5/#1
get weight shop/s1/x
disable server shop/s1
enable server shop/s1
disable server shop/nope
disable server
enable server
enable health shop/s4
disable frontend nope
disable frontend
disable frontend plain
disable frontend plain
enable frontend plain
enable frontend plain
disable frontend shop
enable frontend
set maxconn frontend nope 100
set maxconn frontend plain
set maxconn frontend plain 50
set maxconn server shop/s1 50
set maxconn server shop/s1 0
set maxconn server shop/s1 x
set maxconn server shop/nope 5
set maxconn server shop/s1
set maxconn global
set maxconn global 500
set maxconn global 0
set maxconn global 999999
set rate-limit connections global 100
set rate-limit connections global 0
set rate-limit sessions global 0
set timeout cli 30s
set timeout cli
set timeout foo
set timeout cli abc
set timeout cli 0
clear counters
clear counters all
show cli level
show cli sockets
show env NO_SUCH_VARIABLE
show backend
shutdown session
shutdown session 0x1
shutdown sessions server shop/s1
shutdown sessions server shop/nope
shutdown sessions server
shutdown frontend nope
shutdown frontend
show errors nope
show sess 0x1
show fd 99999
show servers state nope
show servers conn nope
show stat nope -1 -1
operator
user
show cli level;show backend
user;disable server shop/s1;show cli level
operator;show cli level;clear counters all
 show   cli  level 
quit
shutdown frontend plain
shutdown frontend plain
enable frontend plain";

/// Commands of lower levels.
const LOWER: &str = "\
set server shop/s1 state ready
disable frontend www
enable server shop/s1
set weight shop/s1 4
set maxconn global 3
clear counters all
shutdown session 0x1
shutdown sessions server shop/s1
get weight shop/s1
show backend
show cli level
show cli sockets
operator;show cli level";

/// Once, all its commands were read and buffered for as long as it sent them.
#[test]
fn commands_pause_while_replies_are_unread() {
    let ours = FulmarRuntime::start(0);
    let mut stream = UnixStream::connect(ours.folder.path().join("user.sock")).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    stream.write_all(b"prompt\n").unwrap();
    let flood = "help\n".repeat(10_000);
    let mut sent = 0;
    while sent < 64 << 20 {
        match stream.write(flood.as_bytes()) {
            Ok(n) => sent += n,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                break;
            }
        }
    }
    assert!(sent < 4 << 20, "{sent} bytes of commands were taken");
    // Its replies continue as soon as it reads.
    let mut read = vec![0; 1 << 20];
    let mut left = 20 << 20;
    while left > 0 {
        let n = stream.read(&mut read).unwrap();
        assert!(n > 0, "{left} bytes are missing");
        left -= n.min(left);
    }
}
