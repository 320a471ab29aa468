//! Log formats: parsing and output.

use std::net::IpAddr;

use fulmar_haproxy::rules::eval_context::{Fact, LogField};
use fulmar_haproxy::rules::format::{FormatOptions, FormatString, Purpose, Standard, aliases};
use fulmar_haproxy::rules::{Expression, Sample};
use proptest::prelude::*;

use crate::world::EvalWorld;

fn text(text: &'static str) -> Sample<'static> {
    Sample::Text(text.as_bytes().into())
}

fn address(text: &str) -> Sample<'static> {
    Sample::Address(text.parse::<IpAddr>().expect("an address"))
}

fn rendered(format: &str, options: FormatOptions, world: &EvalWorld) -> String {
    let format =
        FormatString::parse(format, 1, options).unwrap_or_else(|f| panic!("{format}: {f:?}"));
    let mut out = Vec::new();
    format.render(world, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// An exchange with values for most log variables.
fn told() -> EvalWorld {
    EvalWorld::asking("GET", "/changed", &[("a", b"1")])
        .evil(b"a\"b\\c]d\te\x01\x7f\xff")
        .logging(LogField::RequestLine, text("GET http://h/p?q=\"1\" HTTP/1.1"))
        .logging(LogField::ClientAddress, address("192.0.2.7"))
        .logging(LogField::ClientPort, Sample::Int(443))
        .logging(LogField::FrontendAddress, address("2001:db8::1"))
        .logging(LogField::Frontend, text("fe"))
        .logging(LogField::Backend, text("be"))
        .logging(LogField::Server, text("<NOSRV>"))
        .logging(LogField::Status, Sample::Int(-1))
        .logging(LogField::Retries, text("+2"))
        .logging(LogField::RequestCounter, Sample::Int(10))
        .logging(LogField::Accepted, Sample::Int(1_234_567_890_007))
        .logging(LogField::RequestBegan, Sample::Int(1_234_567_891_000))
        .logging(LogField::RequestCaptures, Sample::Int(3))
        .knowing(Fact::CapturedRequest(0), text("a|b"))
        .knowing(Fact::CapturedRequest(2), text("c d"))
        .knowing(Fact::Process, Sample::Int(70000))
        .knowing(Fact::Hostname, text("box"))
}

#[test]
fn logs() {
    for (format, expected) in [
        ("%ci:%cp %f/%b/%s %ST %rc", "192.0.2.7:443 fe/be/<NOSRV> -1 +2"),
        ("%HM|%HP|%HPO|%HQ|%HU|%HV", "GET|http://h/p|/p|?q=#221#22|http://h/p?q=#221#22|HTTP/1.1"),
        ("%{+Q}r", "\"GET http://h/p?q=#221#22 HTTP/1.1\""),
        (
            "%{+X}ci %{+X}cp %{+X}fi %{+X}pid %{+X}rt",
            "C0000207 01BB 20010DB8000000000000000000000001 11170 000A",
        ),
        ("%{+X}o %ci %cp %{-X}cp %cp", " C0000207 01BB 443 01BB"),
        (
            "%T|%trg|%Ts|%{+X}Ts|%ms",
            "13/Feb/2009:23:31:30 +0000|13/Feb/2009:23:31:31 +0000|1234567890|499602D2|007",
        ),
        ("%hr|%hrl", "{a#7Cb||c d}|a#7Cb - c d"),
        ("%{+Q}hr|%{+Q}hrl", "\"{a#7Cb||c d}\"|\"a#7Cb\" \"\" \"c d\""),
        ("<%hs> a %hs %hsl b", "<> a b"),
        ("%CC %{+Q}CC %sslv %bi:%bp %B", "- \"\" - -:- -"),
        ("%H %ID %[src] %[hdr(nope)] %{+Q}[hdr(nope)]", "box - 192.0.2.7 - \"\""),
        ("%[var(txn.evil)]", "a\"b\\c]d\te#01#7F\u{fffd}"),
        ("%{+E}[var(txn.evil)]", "a\\\"b\\\\c\\]d\te#01#7F\u{fffd}"),
        ("%{+Q,+E}[hdr(a)]", "\"1\""),
        ("100%%  a\t b", "100% a b"),
        ("  a", "a"),
        ("\\x %o\\1", "\\x \\1"),
        ("", ""),
    ] {
        // A leading blank is dropped, since consecutive blanks are merged.
        assert_eq!(
            rendered(format, FormatOptions::HTTP_LOG, &told()),
            expected.trim_start(),
            "{format}"
        );
    }
}

#[test]
fn text_for_rules() {
    for (format, expected) in [
        ("  a  b %[src]  ", "  a  b 192.0.2.7  "),
        ("%[hdr(nope)]<%{+Q}[hdr(a)]>", "<1>"),
        ("%[var(txn.evil)]", "a\"b\\c]d\te%01%7F\u{fffd}"),
        ("%[hdr(a),concat(],)]]", "1]]"),
        ("%[ src ]", "192.0.2.7"),
        ("%CC|%s", "|<NOSRV>"),
        ("\\1\\\\", "\\1\\\\"),
    ] {
        assert_eq!(rendered(format, FormatOptions::VALUE, &told()), expected, "{format}");
    }
}

#[test]
fn invalid_requests_are_logged_as_badreq() {
    let format = "%r|%{+Q}r|%HM|%HU|%HV";
    let expected = "<BADREQ>|\"<BADREQ>\"|<BADREQ>|<BADREQ>|<BADREQ>";
    assert_eq!(rendered(format, FormatOptions::HTTP_LOG, &EvalWorld::default()), expected);
}

#[test]
fn faults() {
    for (format, options, column, part) in [
        ("a %zz", FormatOptions::HTTP_LOG, 12, "unknown log variable 'zz'"),
        ("%hrr", FormatOptions::HTTP_LOG, 10, "'hr'"),
        ("%", FormatOptions::HTTP_LOG, 10, "use '%%'"),
        ("5 %, 7", FormatOptions::HTTP_LOG, 12, "use '%%'"),
        ("%{+Q", FormatOptions::HTTP_LOG, 11, "missing '}'"),
        ("%{+Z}r", FormatOptions::HTTP_LOG, 11, "unknown flag '+Z'"),
        ("%{+Q}", FormatOptions::HTTP_LOG, 10, "a variable or '['"),
        ("%[src", FormatOptions::HTTP_LOG, 12, "missing ']'"),
        ("%[hdr(a]b)", FormatOptions::HTTP_LOG, 12, "missing ']'"),
        ("%[hdr(a", FormatOptions::HTTP_LOG, 12, "missing ')'"),
        ("%[srx]", FormatOptions::HTTP_LOG, 12, "'src'"),
        ("%ci %r", FormatOptions::TCP_LOG, 14, "mode http"),
        ("%[]", FormatOptions::HTTP_LOG, 12, ""),
    ] {
        let fault = FormatString::parse(format, 10, options).expect_err(format);
        assert_eq!(fault.column, column, "{format}: {fault:?}");
        assert!(fault.message.contains(part), "{format}: {fault:?}");
    }
}

#[test]
fn every_alias_is_read_and_written() {
    for alias in aliases() {
        for flags in ["", "{+Q,+X,+E}"] {
            rendered(&format!("%{flags}{alias}"), FormatOptions::HTTP_LOG, &EvalWorld::default());
            rendered(&format!("%{flags}{alias}"), FormatOptions::HTTP_LOG, &told());
        }
    }
}

#[test]
fn formats_with_a_name() {
    let world = told();
    let line = |standard| {
        let mut out = Vec::new();
        FormatString::from(standard).render(&world, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert!(line(Standard::Http).starts_with("192.0.2.7:443 ["));
    let end = " {a#7Cb||c d} \"GET http://h/p?q=#221#22 HTTP/1.1\"";
    assert!(line(Standard::Http).ends_with(end), "{}", line(Standard::Http));
    let begin = "192.0.2.7 - - [13/Feb/2009:23:31:31 +0000] \"GET ";
    assert!(line(Standard::HttpClf).starts_with(begin), "{}", line(Standard::HttpClf));
    let end = "] - be/<NOSRV> -/-/- - - -/-/-/-/+2 -/-";
    assert!(line(Standard::Tcp).ends_with(end), "{}", line(Standard::Tcp));
    let connect = "Connect from 192.0.2.7:443 to 2001:db8::1:- (fe/TCP)";
    assert_eq!(line(Standard::ConnectTcp), connect);
    assert!(line(Standard::ConnectHttp).ends_with("(fe/HTTP)"));
    assert!(line(Standard::Error).ends_with("] fe/"), "{}", line(Standard::Error));
    assert!(FormatString::parse(Standard::Tcp.text(), 1, FormatOptions::TCP_LOG).is_ok());
    assert!(FormatString::parse(Standard::ConnectTcp.text(), 1, FormatOptions::TCP_LOG).is_ok());
}

#[test]
fn what_is_always_the_same_is_known() {
    let literal = |text| FormatString::parse(text, 1, FormatOptions::VALUE).unwrap();
    assert_eq!(literal("a b%%").as_literal(), Some(&b"a b%"[..]));
    assert_eq!(literal("").as_literal(), Some(&b""[..]));
    assert_eq!(literal("a%ci").as_literal(), None);
    assert_eq!(FormatString::literal(b"x").as_literal(), Some(&b"x"[..]));
    let format = literal("%[src]%ci%[hdr(a),lower]");
    assert_eq!(format.expressions().map(Expression::name).collect::<Vec<_>>(), ["src", "hdr"]);
}

proptest! {
    #[test]
    fn no_text_panics(
        format in "[ -~]{0,60}",
        variables in "(%(\\{[+QXE,-]{0,4}\\})?[a-zA-Z\\[]{1,3}){0,5}",
    ) {
        let world = told();
        for text in [format, variables] {
            for purpose in
                [Purpose::Value, Purpose::Replacement, Purpose::Log, Purpose::Identifier]
            {
                let options = FormatOptions { purpose, http: true };
                if let Ok(format) = FormatString::parse(&text, 1, options) {
                    format.render(&world, &mut Vec::new());
                }
            }
        }
    }

    /// A log line is one line, whatever the client sends.
    #[test]
    fn a_line_stays_one(sent in proptest::collection::vec(any::<u8>(), 0..60), ms in any::<i64>()) {
        let sent = Sample::Text(sent.into());
        let mut world = told();
        world.facts.retain(|(fact, _)| !matches!(
            fact,
            Fact::CapturedRequest(_) | Fact::Log(LogField::RequestLine | LogField::Accepted)
        ));
        let world = world
            .logging(LogField::RequestLine, sent.clone())
            .logging(LogField::CapturedRequestCookie, sent.clone())
            .logging(LogField::Accepted, Sample::Int(ms))
            .knowing(Fact::CapturedRequest(1), sent.clone())
            .knowing(Fact::UniqueId, sent);
        let mut formats: Vec<FormatString> =
            [Standard::Http, Standard::HttpClf].map(FormatString::from).into();
        let own = "%[capture.req.hdr(1)] %ID %CC %hrl %{+E}r %t";
        formats.push(FormatString::parse(own, 1, FormatOptions::HTTP_LOG).unwrap());
        for format in formats {
            let mut out = Vec::new();
            format.render(&world, &mut out);
            prop_assert!(!out.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t'));
        }
    }
}
