//! Rules of a configuration, from its text: changes to requests and responses.

use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer, ok};
use fulmar_tests::test_proxy::TestProxy;

/// Responds with the request.
fn echo() -> Scripted {
    Scripted::new(|heard: &ScriptedRequest| ok(heard.head.as_bytes()))
}

fn named(name: &'static str) -> Scripted {
    Scripted::new(move |_: &ScriptedRequest| ok(name.as_bytes()))
}

fn table(frontend: &str, backend: &str, origins: Vec<Scripted>) -> TestProxy {
    let servers: String =
        (0..origins.len()).map(|at| format!("  server s{at} ORIGIN{at} cookie c{at}\n")).collect();
    let text = format!(
        "defaults\n  mode http\n  timeout connect 1s\n  timeout client 5s\n  timeout server 5s\n\
         frontend fe\n  bind 127.0.0.1:0\n  default_backend be\n{frontend}\n\
         backend be\n{backend}\n{servers}\
         backend other\n  http-request return status 200 content-type text/plain string other\n"
    );
    TestProxy::new(&text, origins)
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: example.org\r\n{fields}\r\n")
}

#[test]
fn requests_are_changed_on_their_way() {
    let rules = "  http-request set-header X-New %[src]\n  http-request del-header X-Old\n  \
                 http-request set-path /new%[path]\n  http-request add-header X-Two 2";
    let mut table = table(rules, "  http-request set-query a=b", vec![echo()]);
    let got = table.send_request(get("/a?x", "X-Old: 1\r\nX-Two: 1\r\n"));
    assert!(got.contains("GET /new/a?a=b HTTP/1.1\r\n"), "{got}");
    assert!(got.contains("X-New: 127.0.0.1\r\n") && !got.contains("X-Old"), "{got}");
    assert!(got.contains("X-Two: 1\r\n") && got.contains("X-Two: 2\r\n"), "{got}");
}

#[test]
fn some_requests_are_answered_here() {
    let rules = "  acl bad path_beg /bad\n  http-request deny if bad\n  \
                 http-request deny deny_status 429 if { path /many }\n  \
                 http-request redirect location /there if { path /here }\n  \
                 http-request return status 200 content-type text/plain string own if { path /own \
                 }\n  \
                 http-request auth realm secret if { path /auth }\n  \
                 monitor-uri /alive";
    let mut table = table(rules, "", vec![named("server")]);
    let cases = [("/bad/a", 403), ("/many", 429), ("/own", 200), ("/auth", 401), ("/alive", 200)];
    for (target, status) in cases {
        assert_eq!(table.status(target), status, "{target}");
    }
    let got = table.send_request(get("/here", ""));
    assert!(
        got.starts_with("HTTP/1.1 302") && got.to_lowercase().contains("location: /there\r\n"),
        "{got}"
    );
    assert!(table.send_request(get("/own", "")).ends_with("own"));
    assert!(table.origins[0].requests.is_empty(), "none of these was the server's");
    assert_eq!(table.status("/else"), 200);
    assert_eq!(table.origins[0].requests.len(), 1);
}

#[test]
fn rules_choose_the_backend() {
    let rules = "  use_backend other if { path_beg /other }\n  \
                 use_backend %[req.hdr(x-backend)] if { req.hdr(x-backend) -m found }";
    let mut table = table(rules, "", vec![named("default")]);
    assert!(table.send_request(get("/", "")).ends_with("default"));
    assert!(table.send_request(get("/other/a", "")).ends_with("other"));
    assert!(table.send_request(get("/", "X-Backend: other\r\n")).ends_with("other"));
    assert!(
        table.send_request(get("/", "X-Backend: none\r\n")).ends_with("default"),
        "no such backend"
    );
}

#[test]
fn responses_are_changed_on_their_way() {
    let rules = "  http-response set-header X-Status %[status]\n  \
                 http-response del-header Server\n  \
                 http-after-response set-header X-After yes\n  http-request deny if { path /bad }";
    let origin = Scripted::new(|_: &ScriptedRequest| {
        vec![ServerStep::Send(answer("200 OK", "Server: secret\r\nX-Own: 1\r\n", b"body"))]
    });
    let mut table = table(rules, "  http-response set-status 203", vec![origin]);
    let got = table.send_request(get("/", ""));
    assert!(got.starts_with("HTTP/1.1 203"), "{got}");
    assert!(got.contains("X-Own: 1\r\n") && got.ends_with("\r\n\r\nbody"), "{got}");
    assert!(got.to_lowercase().contains("x-status: 203\r\n") && !got.contains("secret"), "{got}");
    assert!(got.to_lowercase().contains("x-after: yes\r\n"), "{got}");
    let got = table.send_request(get("/bad", ""));
    assert!(
        got.starts_with("HTTP/1.1 403") && got.to_lowercase().contains("x-after: yes\r\n"),
        "{got}"
    );
    assert!(!got.to_lowercase().contains("x-status"), "{got}");
}

#[test]
fn a_denied_response_is_502_and_its_connection_is_not_used_again() {
    let mut table = table("", "  http-response deny if { status 200 }", vec![named("secret")]);
    let got = table.send_request(get("/", ""));
    assert!(got.starts_with("HTTP/1.1 502") && !got.contains("secret"), "{got}");
    assert_eq!(table.status("/"), 502);
    assert_eq!(table.origins[0].accepted(), 2);
}

#[test]
fn a_server_gets_the_addresses_of_its_clients() {
    let mut table = table("  option forwardfor", "", vec![echo()]);
    let got = table.send_request(get("/", "X-Forwarded-For: 9.9.9.9\r\n"));
    assert!(got.contains("X-Forwarded-For: 9.9.9.9\r\n"), "{got}");
    assert!(got.to_lowercase().contains("x-forwarded-for: 127.0.0.1\r\n"), "{got}");
    let mut excepted = self::table("  option forwardfor except 127.0.0.0/8", "", vec![echo()]);
    assert!(!excepted.send_request(get("/", "")).to_lowercase().contains("x-forwarded-for"));
    let mut once = self::table("  option forwardfor if-none", "", vec![echo()]);
    let got = once.send_request(get("/", "X-Forwarded-For: 9.9.9.9\r\n")).to_lowercase();
    assert_eq!(got.matches("x-forwarded-for").count(), 1, "{got}");
}

#[test]
fn a_cookie_selects_the_server_of_a_client() {
    let how = "  balance roundrobin\n  cookie SRV insert indirect nocache";
    let mut table = table("", how, vec![echo(), echo()]);
    let got = table.send_request(get("/", ""));
    let at = got.find("Set-Cookie: SRV=").expect("a cookie");
    let value = &got[at + 16..at + 18];
    assert!(!got.contains("Cache-Control"), "no cache would keep it: {got}");
    let own: usize = value[1..].parse().expect("c0 or c1");
    for _ in 0..3 {
        let got = table.send_request(get("/", &format!("Cookie: a=1; SRV={value}; b=2\r\n")));
        assert!(!got.contains("Set-Cookie"), "it knows already: {got}");
        assert!(got.contains("Cookie: a=1; b=2\r\n"), "the server does not see it: {got}");
    }
    assert_eq!(table.origins[own].requests.len(), 4);
    assert_eq!(table.origins[1 - own].requests.len(), 0);
}

#[test]
fn cookies_of_servers_are_rewritten_or_prefixed() {
    let origin = || {
        Scripted::new(|heard: &ScriptedRequest| {
            let body = heard.head.clone().into_bytes();
            vec![ServerStep::Send(answer("200 OK", "Set-Cookie: S=abc; Path=/x\r\n", &body))]
        })
    };
    let mut rewritten = table("", "  cookie S rewrite", vec![origin()]);
    assert!(rewritten.send_request(get("/", "")).contains("Set-Cookie: S=c0; Path=/x\r\n"));
    let mut prefixed = table("", "  cookie S prefix", vec![origin()]);
    assert!(prefixed.send_request(get("/", "")).contains("Set-Cookie: S=c0~abc; Path=/x\r\n"));
    let got = prefixed.send_request(get("/", "Cookie: S=c0~abc\r\n"));
    assert!(got.contains("Cookie: S=abc\r\n"), "the server sees its own: {got}");
}

#[test]
fn the_statistics_page_requires_authentication() {
    let stats = "  stats enable\n  stats uri /stats\n  stats auth me:secret\n  stats admin if TRUE";
    let mut table = table(stats, "", vec![named("server")]);
    let got = table.send_request(get("/stats", ""));
    assert!(
        got.starts_with("HTTP/1.1 401") && got.to_lowercase().contains("www-authenticate: basic"),
        "{got}"
    );
    assert!(
        table
            .send_request(get("/stats", "Authorization: Basic bWU6d3Jvbmc=\r\n"))
            .starts_with("HTTP/1.1 401")
    );
    let got = table.send_request(get("/stats;csv", "Authorization: Basic bWU6c2VjcmV0\r\n"));
    assert!(got.ends_with("stats /stats;csv true "), "{got}");
    let post = "POST /stats HTTP/1.1\r\nHost: h\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\
                Content-Length: 8\r\n\r\ns=1&a=up";
    assert!(table.send_request(post).ends_with("stats /stats true s=1&a=up"));
}

#[test]
fn prometheus_is_answered() {
    let rule = "  http-request use-service prometheus-exporter if { path /metrics }";
    let mut table = table(rule, "", vec![named("server")]);
    assert!(table.send_request(get("/metrics", "")).ends_with("metrics"));
}

#[test]
fn error_pages_come_from_the_configuration() {
    let page = "  http-error status 503 content-type text/plain string closed";
    let mut table = table(page, "", vec![]);
    let got = table.send_request(get("/", ""));
    assert!(got.starts_with("HTTP/1.1 503") && got.ends_with("closed"), "{got}");
}

#[test]
fn variables_live_as_long_as_their_scope() {
    let rules = "  http-request set-var(sess.seen) str(yes) if { path /set }\n  \
                 http-request set-var(txn.own) path\n  \
                 http-response set-header X-Vars %[var(sess.seen)]-%[var(txn.own)]";
    let mut table = table(rules, "", vec![named("server")]);
    assert!(table.send_request(get("/a", "")).to_lowercase().contains("x-vars: -/a\r\n"));
    table.send_request(get("/set", ""));
    assert!(table.send_request(get("/b", "")).to_lowercase().contains("x-vars: yes-/b\r\n"));
    table.reconnect();
    assert!(table.send_request(get("/c", "")).to_lowercase().contains("x-vars: -/c\r\n"));
}

#[test]
fn a_body_can_be_waited_for() {
    let rules =
        "  http-request wait-for-body time 1s\n  http-request deny if { req.body -m sub bad }";
    let mut table =
        table(rules, "", vec![Scripted::new(|heard: &ScriptedRequest| ok(&heard.body))]);
    let post = |body: &str| {
        let len = body.len();
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{body}")
    };
    assert!(table.send_request(post("good")).ends_with("\r\n\r\ngood"));
    assert!(table.send_request(post("a bad one")).starts_with("HTTP/1.1 403"));
    assert_eq!(table.origins[0].requests.len(), 1);
}

#[test]
fn a_tarpit_holds_its_answer_back() {
    let rules = "  timeout tarpit 60ms\n  http-request tarpit if { path /slow }";
    let mut table = table(rules, "", vec![named("server")]);
    let began = fulmar_sys::now();
    assert_eq!(table.status("/slow"), 500);
    assert!(fulmar_sys::now() - began >= std::time::Duration::from_millis(60));
}

#[test]
fn a_key_selects_its_server() {
    for (how, fields) in [
        ("  balance hdr(x-key)", "X-Key: {}\r\n"),
        ("  balance hash req.hdr(x-key)", "X-Key: {}\r\n"),
        ("  balance url_param key", ""),
        ("  balance uri whole", ""),
    ] {
        let mut table = table("", how, vec![echo(), echo(), echo()]);
        for key in ["a", "b", "c", "d"] {
            let fields = fields.replace("{}", key);
            for _ in 0..4 {
                table.send_request(get(&format!("/?key={key}"), &fields));
            }
            let heard: Vec<usize> =
                table.origins.iter().map(|origin| origin.requests.len()).collect();
            assert!(heard.iter().all(|count| count % 4 == 0), "{how}: {heard:?} after {key}");
        }
    }
}
