//! Persistence cookies: HAProxy and we get the same requests, and must do the same.

use std::time::UNIX_EPOCH;

use fulmar_tests::running_haproxy::RunningHaProxy;
use fulmar_tests::scripted::{Scripted, ScriptedRequest, ServerStep, answer};
use fulmar_tests::test_proxy::TestProxy;

/// A request's cookie, and the fields of the server's response.
type CookieRequest<'a> = (&'a str, &'a str);

/// The result: cookie fields of the response, those of the request that the server received, and
/// four letters of the log.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    set: Vec<String>,
    seen: Vec<String>,
    letters: String,
}

/// Sends the same requests to both, in sequence.
fn compare(backend: &str, asked: &[CookieRequest<'_>]) {
    compare_with(backend, "server a ORIGIN0 cookie A", "GET", asked);
}

fn compare_with(backend: &str, servers: &str, method: &str, asked: &[CookieRequest<'_>]) {
    let text = format!(
        "global\n log stdout format raw local0\ndefaults\n mode http\n log global\n \
         option httplog\n retries 1\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend fe\n bind 127.0.0.1:0\n default_backend be\nbackend be\n {backend}\n {servers}\n"
    );
    // The response has the fields that the request contains.
    let origin = Scripted::new(|heard: &ScriptedRequest| {
        let fields = heard.field("x-answer").unwrap_or_default().replace('^', "\r\n");
        vec![ServerStep::Send(answer("200 OK", &fields, b"x"))]
    });
    let mut table = TestProxy::new(&text, vec![origin]);
    let mut theirs = RunningHaProxy::new(&text, &table.origins);
    for (cookie, fields) in asked {
        let cookie = if cookie.is_empty() { "".into() } else { format!("Cookie: {cookie}\r\n") };
        let fields = fields.replace("\r\n", "^");
        let request =
            format!("{method} / HTTP/1.1\r\nHost: h\r\n{cookie}X-Answer: {fields}\r\n\r\n");
        let got = theirs.send_request(&request, &mut table.origins);
        let expected = Came::of(&got, &mut table.origins[0], &theirs.line());
        table.reconnect();
        let got = table.send_request(&request);
        let line = table.log().pop().expect("a line");
        let ours = Came::of(&got, &mut table.origins[0], &line);
        assert_eq!(ours, expected, "{backend}; {servers}; {request}");
    }
}

impl Came {
    fn of(got: &str, origin: &mut Scripted, line: &str) -> Self {
        let heard = std::mem::take(&mut origin.requests).pop();
        let cookies = |head: &str, name: &str| -> Vec<String> {
            let fields = head.lines().filter_map(|line| line.split_once(": "));
            let named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
            named.map(|(_, value)| undated(value.trim_end())).collect()
        };
        Self {
            set: cookies(got, "set-cookie"),
            seen: heard.map(|it| cookies(&it.head, "cookie")).unwrap_or_default(),
            letters: line.split(' ').nth(9).unwrap_or_default().to_owned(),
        }
    }
}

/// Seconds may pass between the two: a date is only seen to be there.
fn undated(value: &str) -> String {
    let mut parts = value.split('|');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "|" + part.get(5..).unwrap_or(part))
}

/// A cookie of this age, in seconds.
fn aged(value: &str, ages: &[i64]) -> String {
    let now = fulmar_sys::wall_clock().duration_since(UNIX_EPOCH).expect("after 1970");
    let now = i64::try_from(now.as_secs()).expect("a date of this century");
    let mut text = value.to_owned();
    for age in ages {
        let units = (now - age) / 4;
        let digit = |shift: i64| DIGITS[usize::try_from((units >> shift) & 63).expect("6 bits")];
        text.push('|');
        text.extend([24, 18, 12, 6, 0].map(|shift| char::from(digit(shift))));
    }
    text
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const OWN: &str = "Set-Cookie: C=own; path=/x\r\n";

#[test]
fn a_cookie_is_inserted_once() {
    let asked = [
        ("", ""),
        ("C=A", ""),
        ("C=B", ""),
        ("a=1; C=A; b=2", ""),
        ("", OWN),
        ("C=A", OWN),
        ("C=A|zzzzz|yyyyy", ""),
    ];
    compare("cookie C insert", &asked);
    compare("cookie C insert indirect", &asked);
    compare("cookie C insert preserve", &asked);
    compare("cookie C insert indirect preserve", &asked);
    compare("cookie C insert postonly", &asked);
    compare_with("cookie C insert postonly", "server a ORIGIN0 cookie A", "POST", &asked[..2]);
    compare_with("cookie C insert", "server a ORIGIN0", "GET", &asked[..2]);
}

#[test]
fn a_cookie_has_its_attributes() {
    let all = "cookie C insert httponly secure domain .a.example attr SameSite=Lax attr Foo=bar";
    compare(all, &[("", "")]);
}

#[test]
fn a_servers_own_cookie_is_changed() {
    let asked = [
        ("", ""),
        ("", OWN),
        ("C=A", ""),
        ("C=A", OWN),
        ("C=A~own", ""),
        ("C=own", ""),
        ("b=2; C=A~own; d=3", OWN),
    ];
    compare("cookie C rewrite", &asked[..4]);
    compare("cookie C prefix", &asked);
    compare("cookie C", &asked[..4]);
}

/// Two of one name had the value of the first, and a semicolon at the end kept ours in the request.
#[test]
fn every_pair_is_changed_by_itself_and_the_others_stay() {
    let asked = [
        ("C=A~one; C=A~two", ""),
        ("C=A~own; other=1;", ""),
        ("a=1;  C=B~own;;b=2", ""),
        ("a=1\r\nCookie: C=x~y", ""),
        ("C=x~one; C=A~two", ""),
        ("C=A~", ""),
    ];
    compare("cookie C prefix", &asked);
    let asked = [
        ("C=A; a=1;", ""),
        ("a=1; C=A;", ""),
        ("a=1;C=A;b=2", ""),
        ("C=A; C=A", ""),
        ("C=;C=A", ""),
    ];
    compare("cookie C insert indirect", &asked);
    compare("cookie C insert", &asked);
}

/// As in HAProxy, which parses cookies leniently.
#[test]
fn blanks_commas_quotes_and_attributes_are_parsed() {
    let asked = [
        ("C = A", "Set-Cookie: C =own; path=/\r\n"),
        ("a=1; C = A ; c=3", "Set-Cookie: C= own ; path=/\r\n"),
        ("a=1,C=A", "Set-Cookie: C=\"o;w\"; path=/\r\n"),
        ("C=A; $Path=/; a=2", "Set-Cookie: C\r\n"),
        ("a=\"x; C=A\"", "Set-Cookie: a=1; C=x\r\n"),
        ("C=\"A\"", ""),
        ("C", ""),
    ];
    compare("cookie C insert indirect", &asked);
    compare("cookie C rewrite", &asked);
    compare("cookie C prefix", &asked);
}

#[test]
fn a_cookie_expires() {
    let cookies = [
        String::new(),
        "C=A".into(),
        aged("C=A", &[0]),
        aged("C=A", &[1800]),
        aged("C=A", &[7200]),
        aged("C=A", &[-7200]),
        aged("C=A", &[-90_000]),
        "C=A|zz".into(),
        aged("C=A", &[8, 3600]),
        aged("C=A", &[8, 9200]),
        aged("C=A", &[5000, 6000]),
    ];
    let asked: Vec<CookieRequest<'_>> = cookies.iter().map(|cookie| (&**cookie, "")).collect();
    compare("cookie C insert maxidle 1h", &asked);
    compare("cookie C insert maxlife 2h maxidle 1h", &asked);
    compare("cookie C insert maxlife 2h indirect", &asked);
    compare("cookie C insert", &asked);
}

#[test]
fn a_value_may_follow_from_the_address() {
    let dynamic = "cookie C insert dynamic\n dynamic-cookie-key secret";
    compare_with(dynamic, "server a ORIGIN0", "GET", &[("", ""), ("C=A", "")]);
}

#[test]
fn some_cookies_do_not_count() {
    let asked = [("", ""), ("C=A", "")];
    compare("cookie C insert\n ignore-persist if { path / }", &asked);
    compare("cookie C insert\n use-server a if { path / }", &asked);
    let down = "server a 127.0.0.1:1 cookie A disabled\n server b ORIGIN0 cookie B";
    compare_with("cookie C insert", down, "GET", &asked);
    let dead = "server a 127.0.0.1:1 cookie A\n server b ORIGIN0 cookie B";
    compare_with("option redispatch\n cookie C insert", dead, "GET", &asked[1..]);
}

/// As with HAProxy 2.6: only if a cache could keep it otherwise.
#[test]
fn a_response_with_a_cookie_can_be_marked_private() {
    let text = "defaults\n mode http\n timeout connect 1s\n timeout client 5s\n timeout server 5s\n\
                frontend fe\n bind 127.0.0.1:0\n default_backend be\n\
                backend be\n cookie C insert nocache\n server a ORIGIN0 cookie A\n";
    let origin = Scripted::new(|heard: &ScriptedRequest| {
        let field = if heard.path() == "/kept" { "ETag: \"1\"\r\n" } else { "" };
        vec![ServerStep::Send(answer("200 OK", field, b"x"))]
    });
    let mut table = TestProxy::new(text, vec![origin]);
    assert!(!table.send_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n").contains("Cache-Control"));
    let kept = table.send_request("GET /kept HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(kept.contains("Cache-Control: private\r\n"), "{kept}");
    let again = table.send_request("GET /kept HTTP/1.1\r\nHost: h\r\nCookie: C=A\r\n\r\n");
    assert!(!again.contains("Cache-Control"), "{again}");
}
