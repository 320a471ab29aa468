//! The model of valid configurations.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::memory::{DEFAULTS, Memory, config, warned};
use fulmar_haproxy::model::{
    BackendConfig, BackendTarget, BalanceAlgorithm, BindAddress, BindTls, CheckKind, ClientVerify,
    CookieMode, Expectation, FrontendConfig, HashFunction, HttpMode, LogAddress, LogLine,
    ReuseMode, ServerAddress, ServerProxy, SocketLevel, Splice, TcpStep, TlsVersion, UserSecret,
};
use fulmar_haproxy::{Config, ConfigSource, Environment, Mode, Options, ServerConfig, load};

fn frontend(lines: &str) -> FrontendConfig {
    let text = format!("{DEFAULTS}frontend web\n    bind 127.0.0.1:80\n{lines}\n");
    let (config, _) = warned(&text);
    (*config.frontends[0]).clone()
}

fn backend(lines: &str) -> BackendConfig {
    let (config, _) = warned(&format!("{DEFAULTS}backend app\n{lines}\n"));
    (*config.backends[0]).clone()
}

fn server(parameters: &str) -> ServerConfig {
    let backend = backend(&format!("    server one 127.0.0.1:81 {parameters}"));
    (*backend.servers[0]).clone()
}

fn bound(address: &str) -> Vec<BindAddress> {
    let (config, _) = warned(&format!("{DEFAULTS}frontend web\n    bind {address}\n"));
    config.frontends[0].binds.iter().map(|bind| bind.address.clone()).collect()
}

fn tcp(address: &str) -> BindAddress {
    BindAddress::Tcp(address.parse().expect("an address"))
}

#[test]
fn a_template_is_several_servers() {
    let all = backend("    server-template app 2-4 127.0.0.1:81 weight 7");
    let names: Vec<_> = all.servers.iter().map(|it| (&*it.name, it.id, it.weight)).collect();
    assert_eq!(names, [("app2", 1, 7), ("app3", 2, 7), ("app4", 3, 7)]);
    let here = ServerAddress::Tcp(([127, 0, 0, 1], 81).into());
    assert!(all.servers.iter().all(|it| it.address == here));
    // Each address of a name is used once; the remaining servers are down.
    let named = backend("    server-template app 2 app.example:81");
    let addresses: Vec<_> = named.servers.iter().map(|it| it.address.clone()).collect();
    assert!(matches!(addresses[0], ServerAddress::Tcp(_)), "{addresses:?}");
    assert!(matches!(addresses[1], ServerAddress::Unresolved(_)), "{addresses:?}");
}

#[test]
fn a_frontend_leads_to_its_backend() {
    let text = format!(
        "{DEFAULTS}frontend web\n bind *:80\n default_backend b\nbackend a\nbackend b\n \
         server one 127.0.0.1:81\n"
    );
    let Config { frontends, backends, .. } = config(&text);
    let to = frontends[0].default_backend.expect("a backend");
    assert_eq!(backends[to.0].name, "b");
    assert_eq!((frontends[0].id, backends[0].id, backends[1].id), (1, 2, 3));
    assert_eq!(frontends[0].timeouts.client, Some(Duration::from_secs(2)));
    assert_eq!(backends[1].timeouts.server, Some(Duration::from_secs(3)));
    assert_eq!(backends[1].retries, 3);
    assert_eq!((frontends[0].mode, backends[1].mode), (Mode::Http, Mode::Http));
}

/// As in HAProxy: the first number belongs to the runtime sockets.
#[test]
fn numbers_begin_behind_the_sockets() {
    let rest = "frontend web\n bind *:80\n default_backend b\nbackend b\n id 9\n";
    let numbers = |global: &str| {
        let Config { frontends, backends, .. } = config(&format!("{global}{DEFAULTS}{rest}"));
        (frontends[0].id, backends[0].id)
    };
    assert_eq!(numbers(""), (1, 9));
    assert_eq!(numbers("global\n stats socket /run/fulmar.sock\n"), (2, 9));
}

#[test]
fn a_listen_section_is_both() {
    let text = format!(
        "{DEFAULTS}listen web\n bind *:80\n http-request deny if {{ path /x }}\n server one \
         127.0.0.1:81\n"
    );
    let Config { frontends, backends, .. } = config(&text);
    let (front, back) = (&frontends[0], &backends[0]);
    assert!(front.is_listen && back.is_listen);
    assert_eq!((&front.name, front.id), (&back.name, back.id));
    assert_eq!(front.default_backend.map(|id| id.0), Some(0));
    assert_eq!((front.request_rules.len(), back.request_rules.len()), (1, 0));
}

#[test]
fn defaults_are_inherited_as_far_as_there_is_a_use_for_them() {
    let text = "
defaults base
    mode http
    maxconn 7
    timeout client 1s
    timeout connect 1s
    timeout server 1s
    option forwardfor
    option redispatch
    balance leastconn
    cookie A insert
    log stdout format raw local0
    option tcplog
    stats uri /s
    errorfile 503 /503.http
    default-server inter 5s weight 9
    retries 1
    option httpchk GET /x
    http-check expect status 200
defaults other from base
    timeout server 9s
    retries 2
    http-request set-header X y
frontend f from base
    bind :80
    maxconn 8
    stats realm r
    http-request deny
backend b from other
    http-check expect status 201
    server one 127.0.0.1:81 check
defaults
    mode tcp
    timeout connect 1s
    timeout server 1s
backend plain
    server one 127.0.0.1:81
";
    let Config { frontends, backends, .. } = config(text);
    let (front, back, plain) = (&frontends[0], &backends[0], &backends[1]);
    assert_eq!((front.mode, back.mode, plain.mode), (Mode::Http, Mode::Http, Mode::Tcp));
    assert_eq!(front.connections_max, Some(8));
    assert!(front.options.forward_for.is_some() && back.options.forward_for.is_some());
    assert_eq!(front.request_rules.len(), 1);
    assert_eq!(back.request_rules.len(), 1);
    assert_eq!(front.logs.len(), 1);
    // The first own `stats` line drops inherited ones.
    let stats = front.stats.as_ref().expect("a page");
    assert_eq!((&*stats.uri, stats.realm.as_deref()), ("/haproxy?stats", Some("r")));
    assert_eq!(back.stats.as_ref().map(|page| &*page.uri), Some("/s"));
    assert_eq!(front.errors.pages.len(), 1);
    assert!(matches!(back.algorithm, BalanceAlgorithm::LeastConnections));
    assert_eq!(back.cookie.as_ref().map(|cookie| cookie.how), Some(CookieMode::Insert));
    assert_eq!((back.retries, plain.retries), (2, 3));
    assert_eq!(back.timeouts.server, Some(Duration::from_secs(9)));
    assert_eq!(back.options.redispatch, -1);
    let server = &back.servers[0];
    let interval = server.check.as_ref().map(|check| check.interval);
    assert_eq!((server.weight, interval), (9, Some(Duration::from_secs(5))));
    let CheckKind::Http { steps } = &back.check.kind else { panic!("{:?}", back.check) };
    assert_eq!((&*steps[0].method, &*steps[0].target), ("GET", "/x"));
    // The same applies to `http-check` lines.
    assert_eq!(steps[0].expects.len(), 1);
    let Expectation::Status(ranges) = &steps[0].expects[0].what else { panic!("{steps:?}") };
    assert_eq!(ranges, &[(201, 201)]);
    assert!(plain.cookie.is_none() && plain.errors.pages.is_empty());
}

#[test]
fn http_modes_override_each_other() {
    for (lines, expected) in [
        ("", None),
        ("option httpclose", Some(HttpMode::Close)),
        ("option httpclose\n option http-server-close", Some(HttpMode::ServerClose)),
        ("option httpclose\n no option http-server-close", Some(HttpMode::Close)),
        ("option httpclose\n no option httpclose", None),
        ("option http-keep-alive", Some(HttpMode::KeepAlive)),
    ] {
        assert_eq!(frontend(&format!(" {lines}")).options.http_mode, expected, "{lines}");
    }
}

#[test]
fn a_bind_line_is_one_or_several_listeners() {
    assert_eq!(bound("*:80"), [tcp("0.0.0.0:80")]);
    assert_eq!(bound(":80,[::]:443"), [tcp("0.0.0.0:80"), tcp("[::]:443")]);
    assert_eq!(bound("127.0.0.1:80-82").len(), 3);
    assert_eq!(bound("app.example:80"), [tcp("192.0.2.1:80")]);
    assert_eq!(bound("unix@/a"), [BindAddress::Unix("/a".into())]);
    assert_eq!(bound("abns@a"), [BindAddress::Abstract("a".into())]);
    assert_eq!(bound("fd@3"), [BindAddress::Inherited(3)]);
    let web = frontend("    bind :81-82 name b id 9 maxconn 5 backlog 6 accept-proxy v6only");
    let names: Vec<&str> = web.binds.iter().map(|bind| &*bind.name).collect();
    assert_eq!(names, ["sock-1", "b", "b"]);
    let last = &web.binds[2];
    assert_eq!((last.id, last.connections_max, last.backlog), (9, Some(5), Some(6)));
    assert!(last.accepts_proxy && last.v6only == Some(true) && last.tls.is_none());
    let socket = &frontend("    bind /a mode 660 user proxy group root").binds[1];
    assert_eq!((socket.permissions, socket.owner), (Some(0o660), (Some(13), Some(0))));
}

fn bind_tls(global: &str, parameters: &str) -> BindTls {
    let text = format!("global\n{global}\n{DEFAULTS}frontend web\n    bind :80 {parameters}\n");
    let (config, _) = warned(&text);
    config.frontends[0].binds[0].tls.clone().expect("TLS")
}

fn files(tls: &BindTls) -> Vec<PathBuf> {
    tls.certificates.iter().map(|it| it.file.clone()).collect()
}

#[test]
fn a_bind_line_speaks_tls() {
    let tls = bind_tls("", "ssl crt /certs/a.pem alpn h2,http/1.1 strict-sni no-tls-tickets");
    assert_eq!(files(&tls), [PathBuf::from("/certs/a.pem")]);
    assert_eq!(tls.alpn, ["http/1.1"]);
    assert!(tls.strict_sni && tls.no_tickets && tls.suites.is_empty());
    let both = [PathBuf::from("/certs/a.pem"), PathBuf::from("/certs/b.pem")];
    assert_eq!(files(&bind_tls("", "ssl crt /certs")), both);
    assert_eq!(files(&bind_tls("    crt-base /certs", "ssl crt-list /list")), both);
    let tls = bind_tls(
        "    ssl-default-bind-options ssl-min-ver TLSv1.3 no-tls-tickets\n    ca-base /certs",
        "ssl crt /certs/a.pem verify optional ca-file b.pem ssl-max-ver TLSv1.3",
    );
    assert_eq!(tls.version_min, Some(TlsVersion::Tls13));
    assert!(tls.no_tickets && tls.verify == ClientVerify::Optional);
    assert_eq!(tls.ca_file, Some(PathBuf::from("/certs/b.pem")));
    let tls = bind_tls("", "ssl crt /certs/a.pem ciphers ECDHE-RSA-AES128-GCM-SHA256:RC4");
    assert_eq!(tls.suites.last().map(|s| &**s), Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
    assert_eq!(tls.suites.len(), 4, "with rustls' own of TLS 1.3");
}

#[test]
fn servers_have_addresses_of_many_forms() {
    let at = |text: &str| {
        let backend = backend(&format!("    server one {text}"));
        backend.servers[0].address.clone()
    };
    let tcp = |text: &str| ServerAddress::Tcp(text.parse().expect("an address"));
    assert_eq!(at("127.0.0.1:81"), tcp("127.0.0.1:81"));
    assert_eq!(at("app.example:81"), tcp("192.0.2.1:81"));
    assert_eq!(at("/a.sock"), ServerAddress::Unix("/a.sock".into()));
    let mapped =
        |address: [u8; 4], offset| ServerAddress::Mapped { address: address.into(), offset };
    assert_eq!(at("127.0.0.1"), mapped([127, 0, 0, 1], 0));
    assert_eq!(at("127.0.0.1:+10"), mapped([127, 0, 0, 1], 10));
    assert_eq!(at("127.0.0.1:-10"), mapped([127, 0, 0, 1], -10));
    assert_eq!(at("no:80 init-addr none"), ServerAddress::Unresolved("no:80".into()));
    assert_eq!(at("no:80 init-addr libc,127.0.0.9"), tcp("127.0.0.9:80"));
}

#[test]
fn parameters_of_server_lines() {
    let plain = server("");
    assert_eq!((plain.weight, plain.connections_max, plain.id), (1, 0, 1));
    assert!(plain.check.is_none() && plain.tls.is_none());
    let one = server(
        "weight 5 maxconn 10 minconn 2 maxqueue 3 cookie c backup disabled id 9 slowstart 4s \
         source 127.0.0.2 pool-max-conn 6 pool-purge-delay 7s max-reuse 8 redir http://x \
         send-proxy-v2-ssl-cn tcp-ut 9s",
    );
    assert_eq!((one.weight, one.connections_max, one.connections_min), (5, 10, 2));
    assert_eq!((one.queue_max, one.cookie.as_deref(), one.id), (3, Some("c"), 9));
    assert!(one.backup && one.disabled);
    assert_eq!(one.slow_start, Some(Duration::from_secs(4)));
    assert_eq!(one.source, Some(SocketAddr::from(([127, 0, 0, 2], 0))));
    assert_eq!((one.idle_max, one.reuse_max), (Some(6), Some(8)));
    assert_eq!(one.idle_timeout, Duration::from_secs(7));
    assert_eq!(one.send_proxy, ServerProxy::V2 { tls: true, common_name: true });
    assert_eq!(one.redirect_prefix.as_deref(), Some("http://x"));
}

#[test]
fn checks_follow_their_server_unless_they_go_elsewhere() {
    let check = |parameters: &str| server(&format!("check {parameters}")).check.expect("a check");
    let plain = check("");
    assert_eq!((plain.interval, plain.rise, plain.fall), (Duration::from_secs(2), 2, 3));
    assert!(check("ssl verify none").tls && !check("ssl verify none no-check-ssl").tls);
    assert!(!check("ssl verify none port 80").tls && check("check-ssl verify none port 80").tls);
    assert!(check("send-proxy").send_proxy && !check("send-proxy port 80").send_proxy);
    assert!(check("send-proxy port 80 check-send-proxy").send_proxy);
    assert_eq!(check("addr 127.0.0.3:99").port, Some(99));
}

#[test]
fn checks_are_requests_or_bytes() {
    let CheckKind::Http { steps } = backend(
        " option httpchk HEAD /a HTTP/1.1\\r\\nHost:\\ x\n http-check send hdr A b body hi\n \
         http-check expect ! status 500-599\n http-check expect rstring ok\n http-check connect\n \
         http-check send meth GET uri /b\n http-check expect string fine",
    )
    .check
    .kind
    else {
        panic!("no requests")
    };
    let shown: Vec<_> = steps.iter().map(|step| (&*step.method, &*step.target)).collect();
    assert_eq!(shown, [("HEAD", "/a"), ("GET", "/b")]);
    assert_eq!((steps[0].http11, steps[0].fields.len(), &*steps[0].body), (true, 1, &b"hi"[..]));
    assert_eq!((steps[0].expects.len(), steps[1].expects.len()), (2, 1));
    assert!(steps[0].expects[0].negated && !steps[0].expects[1].negated);
    let CheckKind::Tcp { steps } = backend(
        " option tcp-check\n tcp-check connect port 99 ssl\n tcp-check send PING\\r\\n\n tcp-check \
         send-binary 00ff\n tcp-check expect ! string bad\n tcp-check expect rstring \\+PONG",
    )
    .check
    .kind
    else {
        panic!("no steps")
    };
    assert!(matches!(steps[0], TcpStep::Connect { port: Some(99), tls: true }), "{steps:?}");
    assert!(matches!(&steps[1], TcpStep::Send(bytes) if bytes == b"PING\r\n"), "{steps:?}");
    assert!(matches!(&steps[2], TcpStep::Send(bytes) if bytes == b"\x00\xff"), "{steps:?}");
    assert!(matches!(&steps[3], TcpStep::Expect { negated: true, .. }), "{steps:?}");
}

#[test]
fn backends_balance_and_reuse() {
    let back = backend(
        " balance uri len 5 depth 2 whole path-only\n hash-type consistent crc32 avalanche\n \
         hash-balance-factor 150\n http-reuse always\n retries 4\n retry-on 503 empty-response\n \
         option splice-auto\n fullconn 9",
    );
    assert!(matches!(
        back.algorithm,
        BalanceAlgorithm::Uri { whole: true, len: Some(5), depth: Some(2), path_only: true }
    ));
    assert!(back.hash.consistent && back.hash.avalanche);
    assert_eq!((back.hash.function, back.hash.balance_factor), (HashFunction::Crc32, 150));
    assert_eq!((back.reuse, back.retries), (ReuseMode::Always, 4));
    assert!(back.retry_on.empty_response && !back.retry_on.connection_failure);
    assert_eq!(back.retry_on.statuses, [503]);
    let splice = Splice { auto: Some(true), request: None, response: None };
    assert_eq!((back.options.splice, back.full_connections), (splice, Some(9)));
    assert!(matches!(
        backend(" balance hdr(host) use_domain_only").algorithm,
        BalanceAlgorithm::Field { domain_only: true, .. }
    ));
    let back = backend(" balance random(3)\n server a 127.0.0.1:81\n use-server a if TRUE");
    assert!(matches!(back.algorithm, BalanceAlgorithm::Random { draws: 3 }));
    assert_eq!(back.use_servers[0].0.0, 0);
    let cookie = backend(
        " cookie A insert indirect nocache httponly secure domain .a.b maxidle 5m attr X=y",
    )
    .cookie
    .expect("a cookie");
    assert!(cookie.indirect && cookie.no_cache && cookie.http_only && cookie.secure);
    assert_eq!(cookie.idle_max, Some(Duration::from_secs(300)));
    assert_eq!((&*cookie.domains[0], &*cookie.attributes[0]), (".a.b", "X=y"));
    let dynamic = backend(" dynamic-cookie-key k\n cookie A insert dynamic").cookie;
    assert_eq!(dynamic.expect("a cookie").dynamic_key.as_deref(), Some("k"));
}

#[test]
fn frontends_choose_backends() {
    let text = format!(
        "{DEFAULTS}frontend web\n bind :80\n acl a path /a\n use_backend b if a\n use_backend \
         %[path]\n default_backend c\nbackend b\nbackend c\n"
    );
    let Config { frontends, .. } = config(&text);
    let rules = &frontends[0].use_backends;
    assert!(matches!(rules[0].target, BackendTarget::Backend(id) if id.0 == 0), "{rules:?}");
    assert!(rules[0].condition.is_some() && rules[1].condition.is_none());
    assert!(matches!(rules[1].target, BackendTarget::Named(_)), "{rules:?}");
}

#[test]
fn logs_go_where_they_are_sent() {
    let text = format!(
        "global\n log 127.0.0.1 local0\n log /dev/log len 2048 format rfc5424 sample 1-2,4:5 \
         daemon notice err\n log-tag t\n log-send-hostname h\n{DEFAULTS} log global\nfrontend \
         web\n bind :80\n log stderr format raw local7\n option dontlognull\n capture request \
         header Host len 9\n http-request capture path len 5\nbackend b\n no log\n"
    );
    let Config { global, frontends, backends, .. } = config(&text);
    let logs = &frontends[0].logs;
    assert_eq!(logs.len(), 3);
    assert_eq!(logs[0].to, LogAddress::Udp(([127, 0, 0, 1], 514).into()));
    assert_eq!((logs[0].facility, logs[0].level_max, logs[0].line_size_max), (16, 7, 1024));
    assert_eq!((logs[1].format, logs[1].line_size_max), (LogLine::Rfc5424, 2048));
    assert_eq!((logs[1].facility, logs[1].level_max, logs[1].level_min), (3, 5, 3));
    assert_eq!(logs[1].sample, Some((vec![(1, 2), (4, 4)], 5)));
    assert_eq!(logs[2].to, LogAddress::Descriptor(2));
    assert!(backends[0].logs.is_empty() && frontends[0].log_options.dont_log_null);
    assert_eq!(frontends[0].log_tag.as_deref(), Some("t"));
    assert_eq!(global.log_hostname.as_deref(), Some("h"));
    let captures: Vec<usize> = frontends[0].request_captures.iter().map(|c| c.len).collect();
    assert_eq!(captures, [9, 5]);
}

#[test]
fn global_sets_process_wide_values() {
    let text = "global\n daemon\n master-worker\n nbthread 3\n maxconn 9\n pidfile /p\n user \
                proxy\n gid 7\n chroot /c\n hard-stop-after 5s\n node n\n description a b\n \
                spread-checks 4\n tune.bufsize 9000\n tune.http.maxhdr 50\n tune.maxaccept 10\n \
                set-var proc.a int(5)\n set-var-fmt proc.b x%[int(1)]\n stats socket /s level \
                admin mode 600 expose-fd listeners\n stats timeout 9s\n";
    let Config { global, .. } = config(text);
    assert!(global.daemon && global.master_worker);
    assert_eq!((global.threads, global.connections_max), (Some(3), Some(9)));
    assert_eq!((global.uid, global.gid), (Some(13), Some(7)));
    assert_eq!(global.description.as_deref(), Some("a b"));
    assert_eq!((global.tune.response_buffer_max, global.tune.fields_max), (Some(9000), Some(50)));
    let variables: Vec<_> = global.variables.iter().map(|(name, _)| &**name).collect();
    assert_eq!(variables, ["a", "b"]);
    let socket = &global.stats_sockets[0];
    assert_eq!((socket.level, socket.permissions), (SocketLevel::Admin, Some(0o600)));
    assert!(socket.exposes_listeners);
}

#[test]
fn paths_are_relative_to_the_default_path() {
    let text = "global\n default-path PATH\ndefaults\n mode http\n timeout client 1s\nfrontend a\n \
                bind :80 ssl crt x.pem\n acl a path -f words\n errorfile 503 503.http\n";
    for (path, folder) in [("config", "/d"), ("parent", "/d/.."), ("origin /o", "/o")] {
        let at = |name: &str| format!("{folder}/{name}");
        let machine = Memory::with(&[
            ("/d/a.cfg", &text.replace("PATH", path)),
            (&at("x.pem"), "a certificate"),
            (&at("words"), "a\n"),
            (&at("503.http"), "HTTP/1.0 503 Sorry\r\n\r\n"),
        ]);
        let sources = [ConfigSource::Path("/d/a.cfg".into())];
        let loaded = load(&sources, &Environment::default(), &machine, &Options::default());
        let config = loaded.unwrap_or_else(|found| panic!("{path}: {found}")).config;
        let tls = config.frontends[0].binds[0].tls.as_ref().expect("TLS");
        assert_eq!(files(tls), [PathBuf::from(at("x.pem"))]);
    }
}

#[test]
fn users_are_in_their_groups() {
    let text = "userlist l\n group g users a\n user a insecure-password x\n user b password \
                $6$s$h groups g\n";
    let lists = config(text).userlists;
    let users = &lists[0].users;
    assert_eq!(users[0].secret, UserSecret::Clear("x".into()));
    assert_eq!(users[1].secret, UserSecret::Crypt("$6$s$h".into()));
    assert_eq!(
        (&users[0].groups[..], &users[1].groups[..]),
        (&["g".into()][..], &["g".into()][..])
    );
}

#[test]
fn several_files_are_one_text_and_directories_are_sorted() {
    let machine = Memory::with(&[
        ("/d/b.cfg", "backend ${.SECTION}b\n"),
        ("/d/a.cfg", "backend \"a${.SECTION}\"\n"),
        ("/d/.c.cfg", "nonsense\n"),
        ("/d/c.txt", "nonsense\n"),
        ("/first.cfg", DEFAULTS),
    ]);
    let sources = [ConfigSource::Path("/first.cfg".into()), ConfigSource::Path("/d/a.cfg".into())];
    let loaded = load(&sources, &Environment::default(), &machine, &Options::default());
    assert_eq!(loaded.expect("a configuration").config.backends[0].mode, Mode::Http);
    let sources = [ConfigSource::Path("/d".into())];
    let found = load(&sources, &Environment::default(), &machine, &Options::default());
    let found = found.expect_err("a name with signs").0;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].place.as_ref().map(|place| &*place.file), Some("/d/b.cfg"));
}

#[test]
fn the_name_among_peers_is_a_variable() {
    let text = format!("global\n localpeer me\n log-tag \"${{HAPROXY_LOCALPEER}}\"\n{DEFAULTS}");
    let (config, _) = warned(&text);
    assert_eq!(config.global.log_tag.as_deref(), Some("me"));
    let (config, _) = warned("global\n log-tag \"${HAPROXY_LOCALPEER}\"\n");
    assert_eq!(config.global.log_tag.as_deref(), Some("localhost")); // in memory nothing has a name
}

#[test]
fn tls_defaults_apply_to_unset_values() {
    let text = format!(
        "global\n ssl-default-server-options ssl-min-ver TLSv1.3\n ssl-default-server-ciphers \
         PROFILE=SYSTEM\n{DEFAULTS}backend app\n server one 127.0.0.1:81 ssl verify none alpn \
         http/1.1\n server two 127.0.0.1:82 ssl verify none force-tlsv12 ciphers ECDH+AESGCM\n"
    );
    let (config, _) = warned(&text);
    let tls = |at: usize| config.backends[0].servers[at].tls.clone().expect("it speaks TLS");
    assert_eq!((tls(0).version_min, tls(0).version_max), (Some(TlsVersion::Tls13), None));
    assert!(tls(0).suites.is_empty());
    assert_eq!(tls(0).alpn, ["http/1.1"]);
    assert_eq!(tls(1).version_max, Some(TlsVersion::Tls12));
    assert_eq!(tls(1).suites.iter().filter(|suite| suite.contains("GCM")).count(), 6);
}

/// Settings of earlier lines are not copied for each line.
#[test]
fn many_lines_of_global_cost_as_much_as_few_each() {
    let cost = |lines: usize| {
        let lines: String =
            (0..lines).map(|at| format!("  log 127.0.0.{} local0\n", at % 256)).collect();
        let text = format!("global\n{lines}");
        let info = allocation_counter::measure(|| {
            let _ = warned(&text);
        });
        info.count_total
    };
    let (few, many) = (cost(250), cost(2_000));
    assert!(many < few * 10, "{few} allocations for 250 lines, {many} for 2,000");
}
