//! Calls and their results, recorded from libmicrohttpd 0.9.75.

use std::ffi::CString;

use super::*;

/// Adds and deletes: `+NAME: VALUE`, `-NAME: VALUE`, `^NAME: VALUE` for a footer, with `!` in front
/// if the call fails; `=` compares all fields, separated by `|`.
fn run(mut fields: ReplyFields, flags: ReplyFlags, script: &[&str]) {
    for step in script {
        let (fails, call) = step.strip_prefix('!').map_or((false, *step), |call| (true, call));
        let (kind, rest) = call.split_at(1);
        if kind == "=" {
            assert_eq!(shown(&fields), rest);
            continue;
        }
        let (name, value) = rest.split_once(": ").expect("a field");
        let text = |text: &str| CString::new(text).expect("no NUL");
        let (name, value) = (text(name), text(value));
        let succeeds = match kind {
            "+" => fields.add_header(&name, &value, flags).is_ok(),
            "^" => fields.add_footer(&name, &value).is_ok(),
            "-" => fields.delete(&name, &value),
            other => panic!("unknown step {other}"),
        };
        assert_eq!(succeeds, !fails, "{step}");
    }
}

fn shown(fields: &ReplyFields) -> String {
    let lines = fields.all().iter().map(|field| {
        let kind = if field.place == FieldPlace::Footer { "^" } else { "" };
        format!("{kind}{}: {}", field.name.to_str().unwrap(), field.value.to_str().unwrap())
    });
    lines.collect::<Vec<_>>().join("|")
}

fn record(script: &[&str]) {
    run(ReplyFields::default(), ReplyFlags::default(), script);
}

#[test]
fn fields_may_repeat_and_are_deleted_by_exact_name_and_value() {
    record(&[
        "+X: 1",
        "+X: 2",
        "+x: 3",
        "=X: 1|X: 2|x: 3",
        "!-X: 3",
        "!-x: 1",
        "-X: 1",
        "=X: 2|x: 3",
    ]);
}

#[test]
fn bad_names_and_values_are_refused() {
    record(&[
        "!+: v",
        "!+N: ",
        "+N: \tv",
        "+N:  v",
        "+N: v ",
        "+N: a\tb",
        "!+N: a\rb",
        "!+N: a\nb",
        "!+N b: v",
        "!+N\tb: v",
        "+N:: v",
        "!+N\r: v",
        "!+N\n: v",
        "+N(: v",
        "+\u{1}: v",
        "+N: \u{1}",
    ]);
}

#[test]
fn connection_is_one_field_of_tokens() {
    record(&[
        "+Connection: close",
        "=Connection: close",
        "+Connection: close",
        "=Connection: close",
        "+connection: X-A",
        "=Connection: close, X-A",
        "!+Connection: keep-alive",
        "+Connection: upgrade, Close",
        "=Connection: close, X-A, upgrade",
        "-Connection: X-A",
        "=Connection: close, upgrade",
        "-Connection: close",
        "=Connection: upgrade",
        "-Connection: upgrade",
        "=",
    ]);
}

#[test]
fn connection_tokens_are_cleaned() {
    record(&[
        "!+Connection: keep-alive",
        "=",
        "+Connection: X",
        "+Connection: X, close",
        "=Connection: close, X, X",
        "+Connection: a,,b ,  c",
        "=Connection: close, X, X, a, b, c",
        "-Connection: a, c",
        "=Connection: close, X, X, b",
        "-connection: close, X, x, b",
        "=",
        "!+Connection: ,",
        "!+Connection:  ",
        "!+Connection: , ,",
        "+Connection: a b",
        "+Connection: a  b",
        "=Connection: a b, a b",
        "!-Connection: zz",
        "-Connection: a b",
        "=",
        "+connection: keep-alive, close",
        "=Connection: close",
    ]);
}

#[test]
fn connection_is_the_first_field() {
    record(&[
        "+X: 1",
        "+Connection: b",
        "+Y: 2",
        "+Connection: close",
        "=Connection: close, b|X: 1|Y: 2",
        "-Connection: close",
        "=Connection: b|X: 1|Y: 2",
        "-Connection: b",
        "=X: 1|Y: 2",
    ]);
}

#[test]
fn tokens_are_compared_whole_and_without_case() {
    record(&[
        "+Connection: closed",
        "+Connection: b, close, c",
        "=Connection: close, closed, b, c",
        "-Connection: Close",
        "=Connection: closed, b, c",
        "+Connection: keep-alive, d",
        "+Connection: d,D",
        "=Connection: closed, b, c, d, d, D",
    ]);
}

#[test]
fn connection_cannot_split_a_head() {
    record(&["!+Connection: a\r\nX: 1", "!+Connection: a\nb", "="]);
}

#[test]
fn transfer_encoding_is_chunked_once() {
    record(&[
        "+Transfer-Encoding: chunked",
        "+Transfer-Encoding: chunked",
        "+transfer-encoding: CHUNKED",
        "!+Transfer-Encoding: gzip",
        "!+Transfer-Encoding: identity",
        "=Transfer-Encoding: chunked",
        "!-transfer-encoding: chunked",
        "!-Transfer-Encoding: CHUNKED",
        "-Transfer-Encoding: chunked",
        "+transfer-encoding: CHUNKED",
        "=transfer-encoding: CHUNKED",
    ]);
}

#[test]
fn date_replaces_the_earlier_one() {
    record(&[
        "+X: 1",
        "+Date: a",
        "=X: 1|Date: a",
        "+date: b",
        "=X: 1|date: b",
        "!-Date: a",
        "+Y: 2",
        "+Date: c",
        "=X: 1|Y: 2|Date: c",
    ]);
}

/// The original removes the old date first, and crashes at the next one.
#[test]
fn refused_date_keeps_the_earlier_one() {
    record(&["+Date: a", "!+Date: ", "=Date: a", "+Date: b", "=Date: b"]);
}

#[test]
fn content_length_needs_its_flag() {
    record(&["!+Content-Length: 3", "!+content-length: 4", "="]);
    let flags = ReplyFlags::CONTENT_LENGTH_ALLOWED;
    let script =
        ["+Content-Length: 3", "+Content-Length: 4", "=Content-Length: 3|Content-Length: 4"];
    run(ReplyFields::default(), flags, &script);
}

#[test]
fn footers_have_no_special_names() {
    record(&[
        "^X: 1",
        "^Content-Length: 3",
        "^Transfer-Encoding: gzip",
        "^Connection: close",
        "^Date: x",
        "!^: x",
        "!^A: ",
        "!^A b: c",
        "-X: 1",
        "=^Content-Length: 3|^Transfer-Encoding: gzip|^Connection: close|^Date: x",
        "-Content-Length: 3",
        "-Transfer-Encoding: gzip",
        "-Connection: close",
        "=^Date: x",
    ]);
}

#[test]
fn connection_footer_is_deleted_after_the_header_only() {
    record(&[
        "+Connection: x",
        "^Connection: y",
        "!-Connection: y",
        "-Connection: x",
        "-Connection: y",
    ]);
}

#[test]
fn upgrade_refuses_close() {
    let script = [
        "=Connection: Upgrade",
        "!+Connection: close",
        "!+Connection: x, close",
        "+Connection: x",
        "=Connection: Upgrade, x",
        "-Connection: upgrade",
        "=Connection: x",
        "-Connection: x",
        "!+Connection: close",
        "=",
    ];
    run(ReplyFields::for_upgrade(), ReplyFlags::default(), &script);
}

#[test]
fn value_is_the_first_with_the_name() {
    let mut fields = ReplyFields::default();
    fields.add_footer(c"X", c"1").unwrap();
    assert_eq!(fields.value(c"x"), Some(c"1"));
    fields.add_header(c"X", c"2", ReplyFlags::default()).unwrap();
    assert_eq!(fields.value(c"X"), Some(c"1"));
    assert_eq!(fields.value(c"Y"), None);
}
