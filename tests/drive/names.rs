//! Name resolution over real sockets, in both kinds of loops, against a misbehaving server.

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use fulmar_drive::Change;
use fulmar_engine::{LookupId, ResolveError};
use fulmar_names::{Family, Names, Options, Overrides};
use fulmar_sys as sys;
use fulmar_tests::dns::{self, A, AAAA, Dns, DnsQuery, DnsReply, address_of, alias};
use fulmar_tests::lookups::{LookupEngine, LookupOutcome};
use fulmar_tests::loops::{AppLoop, Loop, OwnLoop, PollLoop};
use fulmar_tests::process::PATIENCE;
use tempfile::TempDir;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// Empty files in place of the machine's.
struct EmptyFiles(TempDir);

impl EmptyFiles {
    fn new() -> Self {
        let files = Self(TempDir::new().unwrap());
        files.write("resolv.conf", "nameserver 127.0.0.1\n");
        files.write("hosts", "# nobody\n");
        files
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }

    fn options(&self, server: SocketAddr) -> Options {
        Options {
            servers: vec![server],
            resolv_conf: self.0.path().join("resolv.conf"),
            hosts: self.0.path().join("hosts"),
            // Other tests run beside the server: no try and no lookup ends before its reply.
            try_timeout: PATIENCE / 2,
            deadline: PATIENCE,
            resolution_delay: PATIENCE / 2,
            ..Options::default()
        }
    }
}

/// Runs the same in both kinds of loops, each with a server and a resolver of its own.
fn in_both(
    script: impl Fn(&DnsQuery) -> DnsReply + Clone + Send + Sync + 'static,
    change: impl Fn(&mut Options),
    act: impl Fn(&mut Driven<'_>),
) {
    fn run<L: Loop<Engine = LookupEngine>>(
        server: &Dns,
        change: &impl Fn(&mut Options),
        act: &impl Fn(&mut Driven<'_>),
    ) {
        let files = EmptyFiles::new();
        let mut options = files.options(server.address);
        change(&mut options);
        let (mut driver, _) = L::start(LookupEngine::default());
        driver.set_resolver(Box::new(Names::new(options)));
        let before = driver.watched();
        let start = sys::now();
        act(&mut Driven { server, files: &files, driver: &mut Erased(&mut driver), start });
        assert_eq!(driver.watched(), before, "nobody waits, and nothing is watched");
        assert_eq!(driver.deadline(), None, "nobody waits, and there is no deadline");
    }
    run::<OwnLoop<LookupEngine>>(&Dns::start(script.clone()), &change, &act);
    run::<PollLoop<LookupEngine>>(&Dns::start(script.clone()), &change, &act);
    run::<AppLoop<LookupEngine>>(&Dns::start(script), &change, &act);
}

/// A loop of either kind.
trait AnyLoop {
    fn engine(&mut self) -> &mut LookupEngine;
    fn turn_until(&mut self, done: &mut dyn FnMut(&mut LookupEngine) -> bool);
    fn kick(&mut self);
    fn watched(&self) -> usize;
}

struct Erased<'a, L>(&'a mut L);

impl<L: Loop<Engine = LookupEngine>> AnyLoop for Erased<'_, L> {
    fn engine(&mut self) -> &mut LookupEngine {
        self.0.engine()
    }

    fn turn_until(&mut self, done: &mut dyn FnMut(&mut LookupEngine) -> bool) {
        self.0.turn_until(|driver| done(driver.engine()));
    }

    fn kick(&mut self) {
        self.0.kick();
    }

    fn watched(&self) -> usize {
        self.0.watched().len()
    }
}

struct Driven<'a> {
    server: &'a Dns,
    files: &'a EmptyFiles,
    driver: &'a mut dyn AnyLoop,
    start: Instant,
}

impl Driven<'_> {
    fn lookup(&mut self, name: &str) -> LookupId {
        self.driver.engine().lookup(name)
    }

    fn wait(&mut self, lookup: LookupId) -> LookupOutcome {
        self.kick();
        self.driver.turn_until(&mut |engine| engine.answer(lookup).is_some());
        self.driver.engine().answer(lookup).unwrap().clone()
    }

    fn resolve(&mut self, name: &str) -> LookupOutcome {
        let lookup = self.lookup(name);
        self.wait(lookup)
    }

    fn kick(&mut self) {
        self.driver.kick();
    }
}

fn both(heard: &DnsQuery) -> DnsReply {
    dns::addresses(&heard.name, heard.kind, &[V4, V6])
}

#[test]
fn both_families_are_queried_and_ipv6_comes_first() {
    in_both(
        both,
        |_| {},
        |driven| {
            assert_eq!(driven.resolve("Host.Example"), Ok(vec![V6, V4]));
            assert_eq!(driven.server.count("host.example"), 2);
            assert!(driven.server.queries().iter().all(|heard| !heard.tcp));
            assert_eq!(driven.resolve("host.example"), Ok(vec![V6, V4]), "from the cache");
            assert_eq!(driven.server.count("host.example"), 2);
        },
    );
}

#[test]
fn a_lookup_can_be_limited_to_one_family() {
    for (family, kind, address) in [(Family::V4, A, V4), (Family::V6, AAAA, V6)] {
        in_both(
            both,
            |options| options.family = family,
            |driven| {
                assert_eq!(driven.resolve("host.example"), Ok(vec![address]));
                let kinds: Vec<_> =
                    driven.server.queries().iter().map(|heard| heard.kind).collect();
                assert_eq!(kinds, [kind]);
            },
        );
    }
}

#[test]
fn hosts_with_ipv6_only_are_found() {
    let script = |heard: &DnsQuery| dns::addresses(&heard.name, heard.kind, &[V6]);
    in_both(script, |_| {}, |driven| assert_eq!(driven.resolve("six.example"), Ok(vec![V6])));
}

#[test]
fn a_deadline_holds_against_a_server_that_never_replies() {
    let change = |options: &mut Options| options.deadline = Duration::from_millis(150);
    in_both(
        |_| DnsReply::Nothing,
        change,
        |driven| {
            assert_eq!(driven.resolve("slow.example"), Err(ResolveError::TimedOut));
            let elapsed = sys::now() - driven.start;
            assert!(elapsed >= Duration::from_millis(150), "{elapsed:?}");
            assert!(elapsed < PATIENCE / 2, "a try takes as long: {elapsed:?}");
        },
    );
}

#[test]
fn tries_end_before_the_deadline() {
    let change = |options: &mut Options| {
        options.try_timeout = Duration::from_millis(100);
        options.tries = 2;
    };
    in_both(
        |_| DnsReply::Nothing,
        change,
        |driven| {
            assert_eq!(driven.resolve("slow.example"), Err(ResolveError::TimedOut));
            assert!(sys::now() - driven.start < PATIENCE, "the deadline");
        },
    );
}

#[test]
fn ipv4_does_not_wait_for_a_server_that_ignores_ipv6() {
    let script = |heard: &DnsQuery| if heard.kind == A { both(heard) } else { DnsReply::Nothing };
    in_both(
        script,
        |options| options.resolution_delay = Duration::from_millis(50),
        |driven| {
            assert_eq!(driven.resolve("four.example"), Ok(vec![V4]));
            assert!(sys::now() - driven.start < PATIENCE / 2, "a try takes as long");
        },
    );
}

#[test]
fn cancelling_takes_less_than_a_millisecond() {
    in_both(
        |_| DnsReply::Nothing,
        |_| {},
        |driven| {
            let shortest = (0..20).map(|n| {
                let lookup = driven.lookup(&format!("slow{n}.example"));
                driven.kick();
                driven.driver.engine().give_up(lookup);
                let start = sys::now();
                driven.kick();
                sys::now() - start
            });
            let shortest = shortest.min().unwrap();
            assert!(shortest < Duration::from_millis(1), "{shortest:?}");
            for _ in 0..10 {
                driven.kick();
            }
            assert_eq!(driven.driver.engine().answers, []);
        },
    );
}

#[test]
fn one_lookup_of_many_can_be_cancelled() {
    in_both(
        both,
        |_| {},
        |driven| {
            let first = driven.lookup("host.example");
            let second = driven.lookup("host.example");
            let third = driven.lookup("host.example");
            driven.driver.engine().give_up(second);
            driven.driver.engine().doomed.push(third); // when the first result arrives
            assert_eq!(driven.wait(first), Ok(vec![V6, V4]));
            driven.kick();
            assert_eq!(driven.driver.engine().answers.len(), 1);
        },
    );
}

#[test]
fn the_end_does_not_wait_for_a_server() {
    let server = Dns::start(|_| DnsReply::Nothing);
    let files = EmptyFiles::new();
    let shortest = (0..20).map(|_| {
        let (mut driver, _) = OwnLoop::start(LookupEngine::default());
        driver.set_resolver(Box::new(Names::new(files.options(server.address))));
        driver.engine().lookup("slow.example");
        driver.kick();
        let start = sys::now();
        drop(driver);
        sys::now() - start
    });
    let shortest = shortest.min().unwrap();
    assert!(shortest < Duration::from_millis(2), "{shortest:?}");
}

#[test]
fn failures_have_distinct_errors() {
    let script = |heard: &DnsQuery| match &heard.name[..] {
        "missing.example" => DnsReply::Code(dns::NAME_ERROR),
        "failing.example" => DnsReply::Code(dns::SERVER_FAILURE),
        "refused.example" => DnsReply::Code(dns::REFUSED),
        "empty.example" => DnsReply::Records(Vec::new()),
        "loop.example" => DnsReply::Records(vec![
            alias("loop.example", "pool.example"),
            alias("pool.example", "loop.example"),
        ]),
        _ => DnsReply::Nothing,
    };
    in_both(
        script,
        |_| {},
        |driven| {
            for (name, error) in [
                ("missing.example", ResolveError::NotFound),
                ("failing.example", ResolveError::ServerFailed),
                ("refused.example", ResolveError::ServerFailed),
                ("empty.example", ResolveError::NoAddress),
                ("loop.example", ResolveError::ServerFailed),
            ] {
                assert_eq!(driven.resolve(name), Err(error), "{name}");
            }
            let heard = driven.server.count("failing.example");
            assert_eq!(driven.resolve("failing.example"), Err(ResolveError::ServerFailed));
            assert!(driven.server.count("failing.example") > heard, "a failure is not kept");
        },
    );
}

/// An address without a listener, as long as the socket lives: it holds the port, and receives only
/// from itself.
fn silent_address() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    socket.connect(address).unwrap();
    (socket, address)
}

#[test]
fn a_port_without_a_server_is_unreachable() {
    let (_holder, silent_address) = silent_address();
    let change = |options: &mut Options| options.servers = vec![silent_address];
    in_both(both, change, |driven| {
        assert_eq!(driven.resolve("host.example"), Err(ResolveError::Unreachable));
    });
}

#[test]
fn the_second_server_is_queried_when_the_first_is_gone() {
    let (_holder, silent_address) = silent_address();
    let change = |options: &mut Options| options.servers.insert(0, silent_address);
    in_both(both, change, |driven| {
        assert_eq!(driven.resolve("host.example"), Ok(vec![V6, V4]));
    });
}

#[test]
fn aliases_are_followed_and_unrelated_records_are_ignored() {
    let evil = IpAddr::from([198, 51, 100, 66]);
    let script = move |heard: &DnsQuery| {
        let mut records = vec![address_of("bank.example", 60, evil)];
        if heard.kind == A {
            records.push(alias("www.example", "web.example"));
            records.push(alias("web.example", "host.example"));
            records.push(address_of("host.example", 60, V4));
            records.push(address_of("www.example", 60, evil));
        }
        DnsReply::Records(records)
    };
    in_both(
        script,
        |_| {},
        |driven| {
            assert_eq!(driven.resolve("www.example"), Ok(vec![V4]));
            let heard = driven.server.queries().len();
            let _ = driven.resolve("bank.example");
            assert!(driven.server.queries().len() > heard, "the extra record was not kept either");
        },
    );
}

#[test]
fn a_reply_to_another_query_is_ignored() {
    let script = |heard: &DnsQuery| {
        let evil = [IpAddr::from([198, 51, 100, 66])];
        let forged = dns::addresses(&heard.name, heard.kind, &evil);
        DnsReply::Forged(Box::new(forged), Box::new(both(heard)))
    };
    in_both(script, |_| {}, |driven| assert_eq!(driven.resolve("host.example"), Ok(vec![V6, V4])));
}

#[test]
fn every_lookup_ends_in_time_for_any_reply() {
    let script = |heard: &DnsQuery| {
        let www = vec![alias(&heard.name, "host.example"), address_of("host.example", 60, V4)];
        let seed = heard.name.bytes().fold(u64::from(heard.kind), |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(byte.into())
        });
        DnsReply::Mangled(Box::new(DnsReply::Records(www)), seed)
    };
    let change = |options: &mut Options| {
        options.try_timeout = Duration::from_millis(100);
        options.deadline = Duration::from_millis(500);
    };
    in_both(script, change, |driven| {
        let lookups: Vec<_> = (0..500).map(|n| driven.lookup(&format!("n{n}.example"))).collect();
        for lookup in lookups {
            let _ = driven.wait(lookup); // or a panic: no event follows
        }
        // Each within its half second, and the work for 500 of them in a debug build.
        assert!(sys::now() - driven.start < PATIENCE);
    });
}

#[test]
fn names_without_a_dot_are_searched_for() {
    let script = |heard: &DnsQuery| match &heard.name[..] {
        "wiki.second.example" => both(heard),
        _ => DnsReply::Code(dns::NAME_ERROR),
    };
    in_both(
        script,
        |_| {},
        |driven| {
            driven.files.write("resolv.conf", "search first.example second.example\n");
            assert_eq!(driven.resolve("wiki"), Ok(vec![V6, V4]));
            assert_eq!(driven.server.count("wiki.first.example"), 2);
            assert_eq!(driven.resolve("wiki."), Err(ResolveError::NotFound));
        },
    );
}

#[test]
fn without_a_resolver_there_is_no_answer() {
    let (mut app, _) = <AppLoop<LookupEngine>>::start(LookupEngine::default());
    let lookup = app.engine().lookup("host.example");
    app.kick();
    assert_eq!(app.engine().answer(lookup), Some(&Err(ResolveError::NoResolver)));
}

#[test]
fn a_thousand_addresses_come_over_tcp_and_are_cut() {
    let script = |heard: &DnsQuery| {
        let all = (0..1000_u32).map(|n| IpAddr::V4(Ipv4Addr::from(0xc612_0000 + n)));
        dns::addresses(&heard.name, heard.kind, &all.collect::<Vec<_>>())
    };
    in_both(
        script,
        |_| {},
        |driven| {
            let addresses = driven.resolve("many.example").unwrap();
            assert_eq!(addresses.len(), 64);
            assert_eq!(addresses[0], IpAddr::from([198, 18, 0, 0]));
            let of_a = driven.server.queries().into_iter().filter(|heard| heard.kind == A);
            assert_eq!(of_a.map(|heard| heard.tcp).collect::<Vec<_>>(), [false, true]);
        },
    );
}

#[test]
fn a_thousand_lookups_of_one_name_cause_two_datagrams() {
    in_both(
        both,
        |_| {},
        |driven| {
            let lookups: Vec<_> = (0..1000).map(|_| driven.lookup("busy.example")).collect();
            for lookup in lookups {
                assert_eq!(driven.wait(lookup), Ok(vec![V6, V4]));
            }
            assert_eq!(driven.server.count("busy.example"), 2);
            assert_eq!(driven.driver.engine().answers.len(), 1000);
        },
    );
}

#[test]
fn a_thousand_names_are_queried_gradually() {
    in_both(
        both,
        |options| options.try_timeout = Duration::from_secs(2), // a datagram may be lost
        |driven| {
            let lookups: Vec<_> =
                (0..1000).map(|n| driven.lookup(&format!("n{n}.example"))).collect();
            driven.kick();
            assert!(driven.server.queries().len() <= 512, "at a stroke");
            assert!(driven.driver.watched() <= 8, "a listener and a few sockets");
            for lookup in lookups {
                assert_eq!(driven.wait(lookup), Ok(vec![V6, V4]));
            }
        },
    );
}

#[test]
fn some_names_need_no_server() {
    let change = |options: &mut Options| {
        options.overrides.add("here.example:443:[2001:db8::1],192.0.2.1").unwrap();
    };
    in_both(both, change, |driven| {
        driven.files.write("hosts", "192.0.2.1 file.example alias.example\n");
        let loopback = vec![IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
        for (name, answer) in [
            ("localhost", Ok(loopback.clone())),
            ("a.LOCALHOST.", Ok(loopback)),
            ("here.example", Ok(vec![V6, V4])),
            ("alias.example", Ok(vec![V4])),
            ("service.onion", Err(ResolveError::NotFound)),
            ("", Err(ResolveError::BadName)),
            ("a..b", Err(ResolveError::BadName)),
            ("no name", Err(ResolveError::BadName)),
            ("b\u{fc}cher.example", Err(ResolveError::BadName)),
        ] {
            assert_eq!(driven.resolve(name), answer, "{name:?}");
        }
        assert_eq!(driven.server.queries(), []);
    });
}

#[test]
fn private_addresses_can_be_refused() {
    let script = |heard: &DnsQuery| {
        let found: &[IpAddr] = match &heard.name[..] {
            "mixed.example" => &[IpAddr::V4(Ipv4Addr::LOCALHOST), V4],
            _ => &[IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        };
        dns::addresses(&heard.name, heard.kind, found)
    };
    let change = |options: &mut Options| {
        options.public_only = true;
        options.overrides = Overrides::default();
        options.overrides.add("mine.example:80:127.0.0.1").unwrap();
    };
    in_both(script, change, |driven| {
        assert_eq!(driven.resolve("rebound.example"), Err(ResolveError::NoAddress));
        assert_eq!(driven.resolve("mixed.example"), Ok(vec![V4]));
        assert_eq!(driven.resolve("localhost"), Err(ResolveError::NoAddress));
        assert_eq!(driven.resolve("mine.example"), Ok(vec![Ipv4Addr::LOCALHOST.into()]));
    });
}

/// A loop with a virtual clock, for long waits.
struct VirtualClockLoop {
    app: AppLoop<LookupEngine>,
    offset: Duration,
}

impl VirtualClockLoop {
    fn start(options: Options) -> Self {
        let (mut app, _) = <AppLoop<LookupEngine>>::start(LookupEngine::default());
        app.set_resolver(Box::new(Names::new(options)));
        Self { app, offset: Duration::ZERO }
    }

    /// Starts a lookup at the virtual time, and waits.
    fn resolve(&mut self, name: &str) -> LookupOutcome {
        let lookup = self.app.engine().lookup(name);
        self.app.reactor.timeout_action(sys::now() + self.offset);
        self.app.listen_to_changes();
        // Replies arrive by events; their time may be the real one.
        self.app.turn_until(|app| app.engine().answer(lookup).is_some());
        self.app.engine().answer(lookup).unwrap().clone()
    }
}

#[test]
fn results_are_cached_for_their_ttl() {
    let server = Dns::start(|heard| match &heard.name[..] {
        "minute.example" => both(heard),
        "once.example" => DnsReply::Records(vec![address_of("once.example", 0, V4)]),
        _ => DnsReply::Code(dns::NAME_ERROR),
    });
    let files = EmptyFiles::new();
    let mut later = VirtualClockLoop::start(files.options(server.address));
    let mut expect = |seconds: u64, name: &str, questions: usize| {
        later.offset = Duration::from_secs(seconds);
        let _ = later.resolve(name);
        assert_eq!(server.count(name), questions, "{name} after {seconds} s");
    };
    expect(0, "minute.example", 2);
    expect(0, "missing.example", 2);
    expect(0, "once.example", 2);
    expect(0, "once.example", 2); // for a second
    expect(8, "missing.example", 2);
    expect(8, "once.example", 4);
    expect(11, "missing.example", 4); // a missing name is cached for a limited time
    expect(59, "minute.example", 2);
    expect(61, "minute.example", 4);
}

#[test]
fn other_servers_are_queried_when_resolv_conf_changes() {
    let address = |n: u8| IpAddr::from([192, 0, 2, n]);
    let start = |n| Dns::start(move |heard| dns::addresses(&heard.name, heard.kind, &[address(n)]));
    let (first, second) = (start(1), start(2));
    let silent = Dns::start(|_| DnsReply::Nothing);
    let files = EmptyFiles::new();
    let mut options = files.options(first.address);
    options.servers.clear();
    let mut age = 100;
    let mut use_server = |server: &Dns| {
        let path = files.write("resolv.conf", &format!("nameserver {}\n", server.address));
        age -= 10;
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    use_server(&first);
    let mut later = VirtualClockLoop::start(options);
    assert_eq!(later.resolve("a.example"), Ok(vec![address(1)]));
    use_server(&silent);
    assert_eq!(later.resolve("b.example"), Ok(vec![address(1)]), "it is not looked at so often");
    later.offset += Duration::from_secs(6);
    let waiting = later.app.engine().lookup("c.example");
    later.app.reactor.timeout_action(sys::now() + later.offset);
    later.app.listen_to_changes();
    use_server(&second);
    later.offset += Duration::from_secs(1);
    assert!(later.app.engine().answer(waiting).is_none());
    later.offset += Duration::from_secs(5);
    let other = later.resolve("d.example");
    assert_eq!(other, Ok(vec![address(2)]));
    assert_eq!(later.app.engine().answer(waiting), Some(&Ok(vec![address(2)])), "asked again");
}

#[test]
fn an_application_receives_socket_changes_in_order() {
    let server = Dns::start(both);
    let files = EmptyFiles::new();
    let (mut app, _) = <AppLoop<LookupEngine>>::start(LookupEngine::default());
    app.set_resolver(Box::new(Names::new(files.options(server.address))));
    app.changes.clear();
    let lookup = app.engine().lookup("host.example");
    app.kick();
    app.turn_until(|app| app.engine().answer(lookup).is_some());
    let sockets = app.changes.iter().filter(|change| !matches!(change, Change::Timer { .. }));
    let sockets: Vec<_> = sockets.collect();
    let [Change::Watch { fd, interest, .. }, Change::Forget { fd: forgotten, .. }] = sockets[..]
    else {
        panic!("one socket, watched and forgotten: {sockets:?}");
    };
    assert_eq!((fd, interest.read, interest.write), (forgotten, true, false));
}

#[test]
fn an_idle_resolver_is_quiet() {
    let server = Dns::start(both);
    let files = EmptyFiles::new();
    let (mut own, _) = OwnLoop::start(LookupEngine::default());
    own.set_resolver(Box::new(Names::new(files.options(server.address))));
    let lookup = own.engine().lookup("host.example");
    own.kick();
    own.turn_until(|own| own.engine().answer(lookup).is_some());
    assert_eq!(own.deadline(), None);
    let events = own.stats().events;
    own.turn(Duration::from_millis(300));
    assert_eq!(own.stats().events, events);
}
