//! Compares load balancing with HAProxy: the same keys go to the same servers, for each hash, with
//! the same requests.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};

use fulmar_haproxy::model::HashFunction;
use fulmar_proxy::balance::hash::{KeyHasher, domain_part, uri_part};
use fulmar_proxy::balance::{GroupPolicy, MemberSettings, Picker, PickerRule, ServerGroup};
use fulmar_tests::http::HttpClient;
use fulmar_tests::load::bound;
use fulmar_tests::process::{ChildProcess, eventually, peer, text};

/// A balance configuration, and our computation of it.
struct BalanceCase {
    balance: &'static str,
    hash_type: &'static str,
    rule: PickerRule,
    hasher: KeyHasher,
    key: fn(&KeyedRequest, KeyHasher) -> u32,
}

/// A request, with the possible keys.
struct KeyedRequest {
    source: IpAddr,
    target: String,
    host: String,
}

const MAP: PickerRule = PickerRule::MapHash;
const RING: PickerRule = PickerRule::ConsistentHash { balance_factor: 0 };

const fn hasher(function: HashFunction, avalanche: bool) -> KeyHasher {
    KeyHasher { function, avalanche }
}

fn path(asked: &KeyedRequest, hasher: KeyHasher) -> u32 {
    hasher.key(uri_part(asked.target.as_bytes(), false, None, None))
}

fn source(asked: &KeyedRequest, hasher: KeyHasher) -> u32 {
    hasher.address(asked.source)
}

fn cases() -> Vec<BalanceCase> {
    use HashFunction::{Crc32, Djb2, Sdbm, Wt6};
    let case = |balance, hash_type, rule, hasher, key| BalanceCase {
        balance,
        hash_type,
        rule,
        hasher,
        key,
    };
    vec![
        case("uri", "map-based sdbm", MAP, hasher(Sdbm, false), path),
        case("uri", "map-based djb2", MAP, hasher(Djb2, false), path),
        case("uri", "map-based wt6", MAP, hasher(Wt6, false), path),
        case("uri", "map-based crc32", MAP, hasher(Crc32, false), path),
        case("uri", "map-based crc32 avalanche", MAP, hasher(Crc32, true), path),
        case("uri", "consistent sdbm", RING, hasher(Sdbm, false), path),
        case("uri", "consistent djb2 avalanche", RING, hasher(Djb2, true), path),
        case("uri whole", "map-based", MAP, hasher(Sdbm, false), |asked, hasher| {
            hasher.key(uri_part(asked.target.as_bytes(), true, None, None))
        }),
        case("uri len 9", "map-based", MAP, hasher(Sdbm, false), |asked, hasher| {
            hasher.key(uri_part(asked.target.as_bytes(), false, Some(9), None))
        }),
        case("uri depth 2", "map-based", MAP, hasher(Sdbm, false), |asked, hasher| {
            hasher.key(uri_part(asked.target.as_bytes(), false, None, Some(2)))
        }),
        case("hdr(host)", "map-based", MAP, hasher(Sdbm, false), |asked, hasher| {
            hasher.key(asked.host.as_bytes())
        }),
        case(
            "hdr(host) use_domain_only",
            "map-based",
            MAP,
            hasher(Sdbm, false),
            |asked, hasher| hasher.key(domain_part(asked.host.as_bytes())),
        ),
        case("source", "map-based", MAP, hasher(Sdbm, false), source),
        case("source", "map-based sdbm avalanche", MAP, hasher(Sdbm, true), source),
        case("source", "consistent sdbm", RING, hasher(Sdbm, false), source),
        case("source", "consistent", RING, hasher(Sdbm, true), source),
    ]
}

/// Number and weight of each server.
const SERVERS: [(u32, u32); 4] = [(1, 10), (2, 20), (7, 5), (4, 10)];

#[test]
fn keys_go_where_haproxy_sends_them() {
    let cases = cases();
    let (address, _theirs) = start(&cases);
    let settings =
        SERVERS.map(|(id, weight)| MemberSettings { id, weight, ..MemberSettings::default() });
    let group = ServerGroup::new(GroupPolicy::default(), settings);
    let mut wrong = String::new();
    for number in 0..60 {
        let asked = asked(number);
        let mut client = HttpClient::connect(address);
        client.send(proxy_header(asked.source));
        for (at, case) in cases.iter().enumerate() {
            let KeyedRequest { target, host, .. } = &asked;
            client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Case: {at}\r\n\r\n"));
            let theirs = text(&client.read_reply().expect("a reply").body);
            let key = (case.key)(&asked, case.hasher);
            let ours = Picker::new(case.rule, 0).pick(&group, Some(key), &[]).expect("one is up");
            if theirs != ours.to_string() {
                let (balance, kind) = (case.balance, case.hash_type);
                writeln!(
                    wrong,
                    "{balance}, {kind}: {target} from {}: {theirs}, not {ours}",
                    asked.source
                )
                .expect("a string");
            }
        }
    }
    assert_eq!(wrong, "");
}

/// By a table; the start position is random.
#[test]
fn static_turns_come_in_the_same_order() {
    let case = BalanceCase {
        balance: "static-rr",
        hash_type: "map-based",
        rule: PickerRule::StaticRoundRobin,
        hasher: KeyHasher::default(),
        key: |_, _| 0,
    };
    let (address, _theirs) = start(&[case]);
    let mut client = HttpClient::connect(address);
    client.send(proxy_header([10, 0, 0, 1].into()));
    let mut theirs = String::new();
    for _ in 0..18 {
        client.send("GET / HTTP/1.1\r\nHost: h\r\nX-Case: 0\r\n\r\n");
        theirs += &text(&client.read_reply().expect("a reply").body);
    }
    let settings =
        SERVERS.map(|(id, weight)| MemberSettings { id, weight, ..MemberSettings::default() });
    let group = ServerGroup::new(GroupPolicy::default(), settings);
    let mut picker = Picker::new(PickerRule::StaticRoundRobin, 0);
    let mut turn = || picker.pick(&group, None, &[]).expect("one is up").to_string();
    let ours: String = (0..36).map(|_| turn()).collect();
    assert!(ours.contains(&theirs), "{theirs} is not in {ours}");
}

fn asked(number: u8) -> KeyedRequest {
    let source = match number % 3 {
        0 => IpAddr::from([10, number, 7, 255 - number]),
        1 => IpAddr::from([192, 168, 1, number]),
        _ => IpAddr::from([0x2001, 0xdb8, 0, u16::from(number), 0xffff, 0, 1, 0x8000]),
    };
    let (dir, page) = (number % 7, u32::from(number) * 7_919);
    let host = match number % 4 {
        0 => format!("www.example{number}.com"),
        1 => format!("host{number}"),
        2 => format!("a.b.{number}.org:8080"),
        _ => format!("{number}.net"),
    };
    KeyedRequest { source, target: format!("/d{dir}/p/{page}.html?q=/{number}"), host }
}

/// PROXY protocol, version 1.
fn proxy_header(source: IpAddr) -> String {
    match source {
        IpAddr::V4(_) => format!("PROXY TCP4 {source} 127.0.0.1 4000 80\r\n"),
        IpAddr::V6(_) => format!("PROXY TCP6 {source} ::1 4000 80\r\n"),
    }
}

/// HAProxy with a backend for each case; each server responds with its name.
fn start(
    cases: &[BalanceCase],
) -> (SocketAddr, (ChildProcess, std::os::fd::OwnedFd, tempfile::TempDir)) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (holder, address) = bound();
    let answers = dir.path().join("answers");
    let answers = answers.display();
    let mut config = format!(
        "global\n  nbthread 1\n\
         defaults\n  mode http\n  timeout client 20s\n  timeout server 20s\n  timeout connect 5s\n\
         frontend in\n  bind {address} accept-proxy\n  use_backend %[req.hdr(x-case)]\n\
         frontend answers\n  bind unix@{answers}\n\
         \x20 http-request return status 200 content-type text/plain lf-string \
         %[req.hdr(x-server)]\n",
    );
    for (at, case) in cases.iter().enumerate() {
        let BalanceCase { balance, hash_type, .. } = case;
        write!(
            config,
            "backend {at}\n  balance {balance}\n  hash-type {hash_type}\n  http-send-name-header \
             x-server\n"
        )
        .expect("a string");
        for (name, (id, weight)) in SERVERS.iter().enumerate() {
            writeln!(config, "  server {name} unix@{answers} id {id} weight {weight}")
                .expect("a string");
        }
    }
    let file = dir.path().join("haproxy.cfg");
    fs::write(&file, config).expect("a file");
    let process = ChildProcess::start(peer("haproxy").arg("-db").arg("-f").arg(&file));
    eventually("HAProxy listens", || TcpStream::connect(address).is_ok());
    (address, (process, holder, dir))
}
