//! Faults of the proxy that were found by reading it, each with what showed it.
#![forbid(unsafe_code)]

use std::net::TcpListener;

use fulmar_haproxy::{Environment, Options, Source, ThisMachine, load};
use fulmar_proxy::Counter;
use fulmar_tests::relay::Table;

/// Timeouts that no test reaches.
const DEFAULTS: &str = "defaults\n  timeout client 60s\n  timeout server 60s\n  timeout connect 5s\n";

fn get(table: &mut Table, target: &str, fields: &str) -> String {
    table.ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// A client's word led from mode http to a backend of mode tcp, past its rules, and the two
/// engines told each other of waiters that the other had.
#[test]
fn a_name_from_a_request_leads_to_no_backend_of_the_other_mode() {
    let raw = TcpListener::bind("127.0.0.1:0").expect("a port");
    let raw = raw.local_addr().expect("it is bound");
    let text = format!(
        "{DEFAULTS}\
         frontend fe\n  mode http\n  bind 127.0.0.1:0\n\
         \x20 use_backend %[req.hdr(x-b)] if {{ req.hdr(x-b) -m found }}\n\
         \x20 use_backend late if {{ req.hdr(x-b) -m found }}\n  default_backend usual\n\
         backend usual\n  mode http\n  http-request return status 200 content-type a/b string usual\n\
         backend late\n  mode http\n  http-request return status 200 content-type a/b string late\n\
         backend raw\n  mode tcp\n  server s {raw} maxconn 1\n"
    );
    let mut table = Table::new(&text, Vec::new());
    assert_eq!(body(&get(&mut table, "/", "X-B: late\r\n")), "late");
    assert_eq!(body(&get(&mut table, "/", "X-B: raw\r\n")), "usual");
    // The first rule that holds decides, even if nobody has the name.
    assert_eq!(body(&get(&mut table, "/", "X-B: nosuch\r\n")), "usual");
    let raw = &table.live.backends[2];
    assert_eq!(raw.counters[0].get(Counter::SessionsTotal), 0, "nobody came there");
}

/// The rules of the backend were skipped without a word.
#[test]
fn mode_tcp_does_not_lead_to_mode_http() {
    for lead in ["default_backend web", "use_backend web if { src 10.0.0.1 }"] {
        let text = format!(
            "{DEFAULTS}frontend fe\n  mode tcp\n  bind 127.0.0.1:0\n  {lead}\n\
             backend web\n  mode http\n  http-request deny\n  server s 127.0.0.1:1\n"
        );
        let source = Source::Text { name: "test.cfg".to_owned(), text };
        let (environment, options) = (Environment::default(), Options::default());
        let wrong = load(&[source], &environment, &ThisMachine, &options).expect_err("refused");
        let wrong = format!("{wrong}");
        assert!(wrong.contains("'fe' has mode tcp, and the backend 'web' mode http"), "{wrong}");
    }
}
