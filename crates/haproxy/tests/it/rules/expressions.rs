//! Expressions without a comparison with HAProxy: responses, facts, maps, and robustness.

use fulmar_haproxy::rules::eval_context::{Fact, Variable};
use fulmar_haproxy::rules::{Sample, convert, fetch};
use proptest::prelude::*;

use crate::given::{Given, condition, parsed, words};

#[test]
fn responses_have_samples_too() {
    let given = Given::response(
        404,
        &[
            ("Set-Cookie", "sid=abc; Path=/; HttpOnly"),
            ("Set-Cookie", "n=7"),
            ("X-List", "a, b"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("X-Ip", "2001:db8::1"),
        ],
    );
    for (expression, expected) in [
        ("status", Some("404")),
        ("res.ver", Some("1.1")),
        ("res.hdr(x-list)", Some("b")),
        ("hdr(x-list,1)", Some("a")),
        ("res.fhdr(date)", Some("Sun, 06 Nov 1994 08:49:37 GMT")),
        ("shdr(date,1)", Some("Sun")),
        ("res.hdr_ip(x-ip)", Some("2001:db8::1")),
        ("res.hdr_cnt(x-list)", Some("2")),
        ("res.hdr_names", Some("set-cookie,set-cookie,x-list,date,x-ip")),
        ("res.cook(sid)", Some("abc")),
        ("scook", Some("abc")),
        ("scook_val(n)", Some("7")),
        ("res.cook(Path)", None),
        ("res.cook_cnt", Some("2")),
        ("req.hdr(x-list)", None),
        ("path", None),
    ] {
        assert_eq!(given.value(expression).as_deref(), expected, "{expression}");
    }
}

#[test]
fn targets_have_parts_in_every_form() {
    for (target, path, query, url_ip, url_port) in [
        ("/a/b?c=d?e", Some("/a/b"), Some("c=d?e"), None, None),
        ("/", Some("/"), None, None, None),
        ("/?", Some("/"), Some(""), None, None),
        ("*", None, None, None, None),
        ("http://h.example/a?b", Some("/a"), Some("b"), None, None),
        ("http://10.0.0.1:81/a", Some("/a"), None, Some("10.0.0.1"), Some("81")),
        ("http://10.0.0.1", None, None, Some("10.0.0.1"), Some("80")),
        ("h.example:443", None, None, None, None),
        ("", None, None, None, None),
    ] {
        let given = Given::request("GET", target, &[]);
        let found = ["path", "query", "url_ip", "url_port"].map(|it| given.value(it));
        let expected = [path, query, url_ip, url_port].map(|it| it.map(str::to_owned));
        assert_eq!(found, expected, "{target}");
    }
}

#[test]
fn facts_are_queried_from_the_proxy() {
    let facts = [
        (Fact::UsableServers(Some("web".into())), Sample::Int(3)),
        (Fact::UsableServers(None), Sample::Int(1)),
        (Fact::ServerIsUp(Some("web".into()), "s1".into()), Sample::Bool(true)),
        (Fact::ServerIsUp(None, "s1".into()), Sample::Bool(false)),
        (Fact::Date, Sample::Int(1_000)),
        (Fact::DateMicros, Sample::Int(2_345)),
        (Fact::TlsServerName, Sample::Text(b"h.example".into())),
        (Fact::AuthenticatedGroups("users".into()), Sample::Text(b"staff,admin".into())),
        (Fact::CapturedRequest(1), Sample::Text(b"captured".into())),
        (Fact::FrontendRequestRate(None), Sample::Int(9)),
    ];
    let mut given = Given::request("GET", "/", &[]);
    given.facts = facts.to_vec();
    given.variables =
        [(Variable::parse("txn.b").expect("a name"), Sample::Text(b"web".into()))].into();
    for (expression, expected) in [
        ("nbsrv(web)", Some("3")),
        ("nbsrv", Some("1")),
        ("var(txn.b),nbsrv", Some("3")),
        ("nbsrv(other)", None),
        ("srv_is_up(web/s1)", Some("1")),
        ("srv_is_up(s1)", Some("0")),
        ("date", Some("1000")),
        ("date(-60)", Some("940")),
        ("date(5,ms)", Some("1000007")),
        ("date(0,us)", Some("1000002345")),
        ("date,http_date", Some("Thu, 01 Jan 1970 00:16:40 GMT")),
        ("date(5,ms),http_date(0,ms)", Some("Thu, 01 Jan 1970 00:16:40.007 GMT")),
        ("date,utime(%H:%M:%S,-1000)", Some("00:00:00")),
        ("ssl_fc_sni,upper", Some("H.EXAMPLE")),
        ("ssl_fc_has_sni", Some("1")),
        ("ssl_fc_alpn", None),
        ("capture.req.hdr(1)", Some("captured")),
        ("capture.req.hdr(0)", None),
        ("fe_req_rate", Some("9")),
        ("fe_sess_rate", None),
        ("env(SET)", Some("value")),
        ("env(UNSET)", None),
    ] {
        assert_eq!(given.value(expression).as_deref(), expected, "{expression}");
    }
    assert_eq!(given.check("if { http_auth_group(users) admin }"), Some(true));
    assert_eq!(given.check("if { http_auth_group(users) guest }"), Some(false));
    assert_eq!(given.check("if { http_auth(users) }"), Some(false));
}

#[test]
fn regular_expressions_of_pcre_are_understood() {
    for (pattern, text, found) in [
        ("a{2}b", "aab", true),
        ("a{2,}b", "aaab", true),
        ("a{b", "a{b", true),
        ("{x}", "{x}", true),
        ("[[]a", "[a", true),
        ("[]]a", "]a", true),
        ("[^]]a", "xa", true),
        ("[[:digit:]&&]+$", "1&&", true),
        ("[~~]", "~", true),
        (r"\/a\_b", "/a_b", true),
        ("(?i)ABC", "abc", true),
        ("^.{3}$", "\u{e9}x", true),
    ] {
        let regex = fulmar_haproxy::rules::regex::Regex::new(pattern, false).expect(pattern);
        assert_eq!(regex.is_match(text.as_bytes()), found, "{pattern} {text}");
    }
    for (pattern, part) in [
        (r"(a)\1", "backreferences"),
        ("(?<!a)b", "look-around"),
        ("a)", "unopened"),
        ("(a{1000}){1000}", "size"),
    ] {
        let error = fulmar_haproxy::rules::regex::Regex::new(pattern, false).expect_err(pattern);
        assert!(error.contains(part), "{pattern}: {error}");
    }
}

#[test]
fn the_tables_have_each_name_once() {
    let mut names: Vec<_> = fetch::all().flat_map(|fetch| fetch.names).collect();
    let len = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), len, "fetches");
    let mut names: Vec<_> = convert::all().flat_map(|converter| converter.names).collect();
    let len = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), len, "converters");
}

#[test]
fn tables_have_usage_and_unsupported_names() {
    let usage = |name: &str| {
        let fetch = fetch::all().find(|fetch| fetch.names.contains(&name)).expect("a fetch");
        format!("{name}{}: {}", fetch.takes, fetch.kind)
    };
    assert_eq!(usage("path"), "path: string");
    assert_eq!(usage("hdr"), "hdr([string[,integer]]): string");
    assert_eq!(usage("req.payload_lv"), "req.payload_lv(integer,integer[,string]): binary");
    for (text, part) in [
        ("sc_http_req_rate(0)", "stick tables"),
        ("src_conn_rate", "stick tables"),
        ("lua.x", "Lua"),
        ("path,set-var(txn.x)", "http-request set-var"),
        ("path,lowre", "did you mean 'lower'"),
        ("quite_another_thing", "unknown fetch method"),
    ] {
        let fault = parsed(text).expect_err(text);
        assert!(fault.message.contains(part) && fault.unknown, "{text}: {fault:?}");
    }
}

#[test]
fn what_can_be_borrowed_is_not_copied() {
    let given = Given {
        source: Some("10.1.2.3:4567".parse().expect("an address")),
        ..Given::request(
            "GET",
            "/dir/page?id=7&name=x",
            &[("Host", "www.example.com:80"), ("Cookie", "a=1; b=2"), ("X-List", "p, q")],
        )
    };
    for text in [
        "path",
        "query",
        "urlp(name)",
        "urlp_val(id)",
        "hdr(host)",
        "hdr(host),lower",
        "hdr(host),field(1,:)",
        "hdr(host),host_only",
        "hdr(x-list,-2)",
        "cook(b)",
        "path,word(1,/)",
        "path,bytes(1,3)",
        "src,ipmask(8)",
        "src,add(1),mod(7)",
        "path,length",
        "path,regsub(x,y,g)",
        "str(abc),iif(a,b)",
        "path,xxh32",
        "path,crc32(1)",
    ] {
        let expression = parsed(text).expect("an expression");
        assert!(expression.evaluate(&given).is_some(), "{text}");
        let measured = allocation_counter::measure(|| {
            std::hint::black_box(expression.evaluate(&given));
        });
        assert_eq!(measured.count_total, 0, "{text}");
    }
    for text in [
        "if { path_beg /a /dir } { hdr(host) -i WWW.example.com:80 }",
        "if { src 10.0.0.0/8 } { hdr_sub(host) example }",
        "if { path -m dir dir } METH_GET { cook(a) -m found }",
    ] {
        let condition = condition(text).expect("a condition");
        let measured = allocation_counter::measure(|| assert!(condition.holds(&given)));
        assert_eq!(measured.count_total, 0, "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_parser(text in "[a-z0-9_.,()'\"\\\\ {}!|$*+^\\[\\]-]{0,40}") {
        let _ = parsed(&text);
        let _ = condition(&format!("if {{ {text} }}"));
        let _ = words(&text);
    }

    #[test]
    fn no_arguments_break_a_converter(
        which in any::<prop::sample::Index>(),
        arguments in prop::collection::vec("[a-z0-9.%:,_-]{0,6}", 0..4),
        input in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<i64>(),
    ) {
        let all: Vec<_> = convert::all().collect();
        let name = which.get(&all).names[0];
        let given = Given {
            body: input,
            variables: [(Variable::parse("txn.n").expect("a name"), Sample::Int(number))].into(),
            ..Given::request("POST", "/", &[])
        };
        let arguments = arguments.join("','");
        for source in ["req.body", "var(txn.n)", "str(::1)"] {
            for call in [format!("{source},{name}"), format!("{source},{name}('{arguments}')")] {
                if let Ok(expression) = parsed(&call) {
                    let _ = expression.evaluate(&given);
                }
            }
        }
    }

    #[test]
    fn no_message_breaks_a_fetch(
        target in "[a-z/?&;=%:*@.-]{0,30}",
        value in "[a-z0-9 ,;=\":.\\\\-]{0,30}",
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        numbers in (any::<i64>(), any::<i64>()),
    ) {
        let value = value.trim();
        let fields = ["Cookie", "X", "Authorization", "Host"].map(|name| (name, value));
        let mut given = Given::request("GET", &target, &fields);
        given.payload = bytes;
        let Given { response, .. } = Given::response(200, &[("Set-Cookie", value), ("X", value)]);
        given.response = response;
        for fetch in fetch::all() {
            let name = fetch.names[0];
            let (a, b) = numbers;
            let calls = [
                name.to_owned(),
                format!("{name}(x)"),
                format!("{name}({a},{b})"),
                format!("{name}(x,{b})"),
                format!("{name}(0,{})", b & 15),
                format!("{name}(0,2,{a})"),
            ];
            for expression in calls.iter().filter_map(|call| parsed(call).ok()) {
                let _ = expression.evaluate(&given);
            }
        }
    }

    #[test]
    fn no_beginning_of_a_hello_breaks_anything(
        tail in prop::collection::vec(any::<u8>(), 0..200),
        lens in any::<(u8, u8)>(),
    ) {
        let mut bytes = vec![22, 3, 1, lens.0 & 1, lens.1, 1, 0, 0, lens.1.saturating_sub(4), 3, 3];
        bytes.extend(tail);
        let given = Given::payload(&bytes, false);
        for name in ["req.ssl_sni", "req.ssl_alpn", "req.ssl_ver", "req.ssl_st_ext"] {
            let _ = given.value(name);
        }
    }
}
