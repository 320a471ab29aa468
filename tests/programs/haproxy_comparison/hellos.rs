//! TLS client hellos as samples: of rustls and OpenSSL, whole, truncated at every byte, and with
//! every byte changed.

use std::io::Read;
use std::net::TcpListener;

use fulmar_haproxy::rules::eval_context::Payload;
use fulmar_haproxy::rules::lists::NoFiles;
use fulmar_haproxy::rules::{
    Acls, CompileContext, Condition, EvalContext, Expression, Word, WordCursor,
};
use fulmar_tests::process::{ChildProcess, peer, text};
use fulmar_tests::tls_end::TlsEnd;
use fulmar_tls::{ClientOptions, ClientTls};

/// Samples of a hello: names, protocols, version, session ticket.
type HelloSamples = (Option<&'static str>, Option<&'static str>, i64, i64);

#[test]
fn hellos_of_other_stacks_are_parsed() {
    for (hello, (name, protocols, version, ticket)) in hellos() {
        let first = First { bytes: &hello, complete: false };
        let expected = [
            ("req.ssl_hello_type", Some("1".to_owned())),
            ("req.ssl_sni", name.map(str::to_owned)),
            ("req.ssl_alpn", protocols.map(str::to_owned)),
            ("req.ssl_ver", Some(version.to_string())),
            ("req.ssl_st_ext", Some(ticket.to_string())),
            ("req.ssl_ec_ext", Some("1".to_owned())),
        ];
        for (expression, expected) in expected {
            assert_eq!(first.value(expression), expected, "{expression} {name:?}");
        }
        assert_eq!(first.check("if { req.ssl_ver 3.1:3.3 }"), Some(true));
        assert_eq!(first.check("if { req.ssl_ver gt 3.3 }"), Some(false));
        let more = [&hello[..], b"what follows"].concat();
        let first = First { bytes: &more, complete: false };
        assert_eq!(first.value("req.ssl_sni").as_deref(), name);
    }
}

#[test]
fn incomplete_hellos_are_awaited() {
    for (hello, (name, ..)) in hellos() {
        for cut in 0..hello.len() {
            let first = First { bytes: &hello[..cut], complete: false };
            assert_eq!(first.check("if { req.ssl_hello_type 1 }"), None, "{cut}");
            assert_eq!(first.check("if { req.ssl_sni -m found }"), None, "{cut}");
            assert_eq!(first.value("req.ssl_sni"), None, "{cut}");
            let last = First { complete: true, ..first };
            assert_eq!(last.check("if { req.ssl_hello_type 1 }"), Some(false), "{cut}");
        }
        let first = First { bytes: &hello, complete: false };
        assert_eq!(first.check("if { req.ssl_hello_type 1 }"), Some(true));
        assert_eq!(first.check("if { req.ssl_sni -m found }"), Some(name.is_some()));
    }
}

#[test]
fn changed_hellos_do_not_panic() {
    for (mut hello, _) in hellos() {
        for at in 0..hello.len() {
            for change in [1, 0x80, 0xff] {
                hello[at] ^= change;
                let first = First { bytes: &hello, complete: true };
                for expression in ["req.ssl_sni", "req.ssl_alpn", "req.ssl_st_ext"] {
                    let _ = first.value(expression);
                }
                hello[at] ^= change;
            }
        }
    }
}

#[test]
fn other_data_is_not_awaited() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x02\x01",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x03\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x02",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x80\x2e\x01\x03\x01",
    ] {
        let first = First { bytes, complete: false };
        assert_eq!(first.check("if { req.ssl_hello_type 1 }"), Some(false), "{bytes:?}");
    }
}

/// Hellos with their contents.
fn hellos() -> Vec<(Vec<u8>, HelloSamples)> {
    const TLS_1_2: i64 = 0x3_0003; // also in hellos of TLS 1.3
    let sclient = |arguments: &[&str]| openssl(arguments);
    vec![
        (
            rustls("www.example.org", &["h2", "http/1.1"]),
            (Some("www.example.org"), Some("h2,http/1.1"), TLS_1_2, 1),
        ),
        (rustls("10.0.0.1", &[]), (None, None, TLS_1_2, 1)),
        (
            sclient(&["-servername", "a.example", "-alpn", "acme-tls/1"]),
            (Some("a.example"), Some("acme-tls/1"), TLS_1_2, 1),
        ),
        (sclient(&["-noservername", "-tls1_3", "-no_ticket"]), (None, None, TLS_1_2, 0)),
        (sclient(&["-servername", "b.example", "-tls1_2"]), (Some("b.example"), None, TLS_1_2, 1)),
    ]
}

fn rustls(host: &str, protocols: &[&str]) -> Vec<u8> {
    let alpn = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tls = ClientTls::new(ClientOptions { alpn, ..ClientOptions::default() });
    let session = tls.expect("a configuration").session(host).expect("a session");
    TlsEnd::new(session).take()
}

/// The first bytes of `openssl s_client`.
fn openssl(arguments: &[&str]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut command = peer("openssl");
    let _process =
        ChildProcess::start(command.args(["s_client", "-connect", &address]).args(arguments));
    let (mut stream, _) = listener.accept().expect("a client");
    let mut hello = vec![0; 5];
    stream.read_exact(&mut hello).expect("the header of a record");
    let len = usize::from(u16::from_be_bytes([hello[3], hello[4]]));
    hello.resize(5 + len, 0);
    stream.read_exact(&mut hello[5..]).expect("a record");
    hello
}

/// The first bytes of a connection.
#[derive(Clone, Copy)]
struct First<'a> {
    bytes: &'a [u8],
    complete: bool,
}

impl First<'_> {
    fn value(&self, expression: &str) -> Option<String> {
        let expression = Expression::parse(expression, 1).expect("an expression");
        expression.evaluate(self)?.into_text().map(|value| text(&value))
    }

    fn check(&self, line: &str) -> Option<bool> {
        let words: Vec<_> =
            line.split(' ').map(|text| Word { text: text.to_owned(), column: 1 }).collect();
        let context = CompileContext { acls: &Acls::new(), files: &NoFiles };
        let condition = Condition::parse(&mut WordCursor::new(&words, 1), &context);
        condition.expect("a condition").check(self)
    }
}

impl EvalContext for First<'_> {
    fn payload(&self) -> Payload<'_> {
        Payload { bytes: self.bytes, complete: self.complete }
    }
}
