//! Invalid configurations: errors with their positions, and leniency.

use crate::memory::{DEFAULTS, alerts, read, warned};
use fulmar_haproxy::model::ServerAddress;
use fulmar_haproxy::{ConfigLeniency, Severity};

/// Expects one error at this position that contains `part`.
fn refused(text: &str, line: u32, column: u32, part: &str) {
    let found = alerts(text);
    assert_eq!(found.len(), 1, "{text}\n{found:?}");
    let (at_line, at_column, message) = &found[0];
    assert_eq!((*at_line, *at_column), (line, column), "{text}\n{message}");
    assert!(message.contains(part), "{text}\n{message}");
}

#[test]
fn errors_have_the_position_and_the_nearest_keyword() {
    for (text, line, column, part) in [
        ("global\n maxcon 5\n", 2, 2, "did you mean 'maxconn'?"),
        ("defaults\n option  htplog\n", 2, 10, "did you mean 'option httplog'?"),
        ("defaults\n timeout conect 5s\n", 2, 10, "did you mean 'timeout connect'?"),
        ("fronted x\n", 1, 1, "did you mean 'frontend'?"),
        ("global\nbakcend x\n", 2, 1, "did you mean 'backend'?"),
        ("defaults\n stick-table type ip\n", 2, 2, "stick tables are not supported"),
        ("defaults\n timeout client 5x\n", 2, 17, "us, ms, s, m, h, d"),
        ("defaults\n timeout client\n", 2, 16, "expected a time"),
        ("defaults\n mode http x\n", 2, 12, "unexpected argument"),
        ("defaults\n option nolinger off\n", 2, 18, "unexpected argument"),
        ("defaults\n option nolinger\nglobal\n cpu-map 0\n", 4, 11, "expected a word"),
        ("global\n grace len\n", 2, 8, "us, ms, s, m, h, d"),
        ("global\n tune.maxrewrite\n", 2, 17, "expected a word"),
        ("global\n tune.maxrewrite 1024 unless\n", 2, 23, "unexpected argument"),
        ("defaults\n bind :80\n", 2, 2, "not allowed in a 'defaults'"),
        ("defaults\n http-request deny\n", 2, 2, "section without a name"),
        ("frontend a from b\n", 1, 17, "unknown 'defaults' section 'b'"),
        ("backend a\nbackend a\n", 2, 9, "line 1"),
        ("backend a\n server s 127.0.0.1:80 chek\n", 2, 24, "did you mean 'check'?"),
        ("backend a\n server s 127.0.0.1:80 agent-check\n", 2, 24, "agent checks"),
        ("backend a\n server s 127.0.0.1:80 track t\n", 2, 30, "unknown server 't'"),
        ("backend a\n server s 127.0.0.1:80 track s\n", 2, 30, "tracks this server"),
        ("backend a\n server s no.example:80\n", 2, 11, "could not resolve address"),
        ("backend a\n server-template s 5-3 127.0.0.1:80\n", 2, 20, "the range is reversed"),
        ("backend a\n server s 127.0.0.1:80 ssl\n", 2, 11, "verify none"),
        ("frontend a\n bind :80 ssl\n", 2, 7, "requires a certificate"),
        ("frontend a\n bind :80 ssl crt /no\n", 2, 19, "cannot read"),
        ("frontend a\n bind :80\n default_backend x\n", 3, 18, "unknown backend 'x'"),
        ("backend a\n use-server x if TRUE\n", 2, 13, "unknown server 'x'"),
        ("resolvers r\n hold valid 3s\n", 1, 1, "resolved only once"),
        ("frontend a\n http-request set-header x %[res.hdr(a)]\n", 2, 15, "with a response"),
        ("frontend a\n http-request set-var(txn.a) status\n", 2, 15, "with a response"),
        (
            "frontend a\n http-request return content-type a/b lf-string %[status]\n",
            2,
            15,
            "with a response",
        ),
        ("frontend a\n http-response set-header x %[path]\n", 2, 16, "with a request"),
        ("frontend a\n use_backend %[srv_name]\n", 2, 14, "a server is selected"),
        ("frontend a\n unique-id-format %[status]\n", 2, 19, "with a response"),
        ("frontend a\n tcp-request connection set-var(sess.a) path\n", 2, 25, "a request"),
        ("frontend a\n http-request set-header x %[nbsrv(no)]\n", 2, 15, "unknown backend 'no'"),
        ("frontend a\n use_backend %[fe_conn(no)]\n", 2, 14, "unknown frontend 'no'"),
        ("frontend a\n log-format %[nbsrv(no)]\n", 2, 13, "unknown backend"),
        ("frontend a\n http-request capture src id 0\n", 2, 15, "unknown capture slot 0"),
        ("frontend a\n http-request set-timeout server 1s\n", 2, 15, "requires a backend"),
        ("backend a\n filter spoe engine e\n", 2, 9, "unknown filter 'spoe'"),
        ("global\n user nobody\n", 2, 7, "unknown user 'nobody'"),
        ("global\n log x!y local0\n", 2, 6, "invalid address"),
        ("global\n \"abc\n", 2, 2, "unmatched quote"),
        (".if 1\nglobal\n", 1, 0, "'.endif'"),
        ("global", 1, 7, "missing LF"),
        ("defaults\n errorfiles e\n", 2, 13, "unknown 'http-errors' section"),
        ("listen a\n bind :80\n default_backend a\n", 3, 18, "refers to itself"),
        ("userlist l\n user a password md5\n", 2, 18, "insecure hash"),
    ] {
        refused(text, line, column, part);
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "global\n maxcon 5\n nbthread 0\ndefaults\n mode htp\nbackend b\n server s \
                1.2.3.4:80 x y\n";
    let lines: Vec<u32> = alerts(text).iter().map(|(line, ..)| *line).collect();
    assert_eq!(lines, [2, 3, 5, 7, 7]);
}

#[test]
fn lines_of_unsupported_sections_are_skipped() {
    assert_eq!(
        alerts("resolvers r\n nameserver a 1.2.3.4:53\n hold valid 3s\nbackend b\n").len(),
        1
    );
    assert_eq!(alerts("frontend a/b\n nonsense\n").len(), 1);
}

#[test]
fn an_alert_ends_the_reading() {
    let found = alerts("global\n.alert \"not here\"\n nonsense\n");
    assert_eq!(found, [(2, 1, "not here".to_owned())]);
}

#[test]
fn leniency_makes_warnings_of_what_was_chosen() {
    let text = format!(
        "global\n maxcon 5\n{DEFAULTS}resolvers r\n nameserver a 1.2.3.4:53\nbackend b\n server \
         s no.example:80 agent-check weight 7\n"
    );
    assert_eq!(alerts(&text).len(), 4);
    let all = ConfigLeniency::parse("keywords,sections,names").expect("three words");
    assert_eq!(Ok(all), ConfigLeniency::parse("all"));
    assert_eq!(ConfigLeniency::parse("keywords,x"), Err("x".to_owned()));
    let loaded = read(&text, all).expect("warnings only");
    assert!(loaded.warnings.iter().all(|found| found.severity == Severity::Warning));
    assert_eq!(loaded.warnings.len(), 4);
    let server = &loaded.config.backends[0].servers[0];
    assert_eq!(
        (server.weight, &server.address),
        (7, &ServerAddress::Unresolved("no.example:80".into()))
    );
    for (word, left) in [("keywords", 2), ("sections", 3), ("names", 3)] {
        let found =
            read(&text, ConfigLeniency::parse(word).expect(word)).expect_err("something is left");
        let alerts = found.0.iter().filter(|found| found.severity == Severity::Alert).count();
        assert_eq!(alerts, left, "{word}\n{found}");
    }
    // An invalid value is an error even with full leniency.
    assert!(read("defaults\n mode x\n", all).is_err());
}

#[test]
fn ignored_settings_are_warnings() {
    for (text, part) in [
        ("frontend a\n bind :80\n", "no 'timeout client'"),
        ("backend a\n server s 127.0.0.1:80\n", "no 'timeout connect', 'timeout server'"),
        ("frontend a\n timeout client 1s\n", "no 'bind' line"),
        ("backend a\n maxconn 5\n", "'maxconn' requires listeners"),
        ("backend a\n cookie A insert\n", "requires mode http"),
        ("backend a\n mode tcp\n balance uri\n", "using 'roundrobin'"),
        ("backend a\n http-check expect status 200\n", "without 'option httpchk'"),
        ("defaults\n mode http\nbackend a\n acl x path\n", "never matches"),
        ("frontend a\n bind :80\n timeout client 1s\n option tcplog\n", "no 'log' line"),
        ("cache c\n total-max-size 4\n", "caching is not supported"),
        ("peers p\n peer a 127.0.0.1:1\n", "stick tables are not supported"),
        ("backend a\n mode http\n compression algo gzip\n", "let the server compress"),
        ("backend a\n mode http\n http-request cache-use c\n", "caching is not supported"),
        ("defaults\n option accept-invalid-http-request\n", "no effect"),
        ("global\n ssl-default-bind-ciphers PROFILE=SYSTEM\n", "cipher suites of rustls"),
        ("defaults\n option persist\n", "another server"),
        ("backend a\n mode http\n force-persist if TRUE\n", "another server"),
        ("userlist u\n group g\n group g\n", "already defined"),
        (
            "frontend a\n bind :80\n timeout client 1s\n tcp-request connection reject if { path \
             /x }\n",
            "has no value here",
        ),
    ] {
        let (_, warnings) = warned(text);
        assert_eq!(warnings.len(), 1, "{text}\n{warnings:?}");
        assert!(warnings[0].contains(part), "{text}\n{warnings:?}");
    }
}
