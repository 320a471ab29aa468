//! Heads of libmicrohttpd 0.9.75, each for nine requests.

use std::ffi::CString;

use super::*;

/// `= STATUS FLAGS LENGTH|NAME: VALUE|...`, then a line for each request: its number, the state of
/// the connection afterwards, whether something follows the head, and the lines of the head.
const RECORDED: &str = include_str!("recorded.txt");

#[test]
fn heads_and_persistence_are_those_of_the_original() {
    let mut setup = "";
    let mut compared = 0;
    for text in RECORDED.lines() {
        if let Some(next) = text.strip_prefix("= ") {
            setup = next;
            continue;
        }
        let (number, expected) = text.split_once(' ').expect("a number and a result");
        let number: usize = number.parse().expect("a number of a request");
        assert_eq!(
            result_of(setup, number),
            expected_of(expected, setup, number),
            "{setup}: {number}"
        );
        compared += 1;
    }
    assert_eq!(compared, 9 * RECORDED.lines().filter(|line| line.starts_with('=')).count());
}

/// The requests that were sent.
fn request(number: usize) -> RequestTraits {
    use PersistenceWish::{Close, KeepAlive, Unspecified};
    let (is_http_1_1, wish) = match number {
        0 | 5 => (true, Unspecified),
        1 | 7 => (true, Close),
        2 => (true, KeepAlive),
        3 => (false, Unspecified),
        _ => (false, KeepAlive),
    };
    let method = if matches!(number, 5 | 6) { MethodKind::Head } else { MethodKind::Other };
    RequestTraits { is_http_1_1, method, wish, is_complete: true }
}

fn result_of(setup: &str, number: usize) -> String {
    let mut parts = setup.split('|');
    let numbers: Vec<&str> = parts.next().expect("numbers").split(' ').collect();
    let status: u32 = numbers[0].parse().expect("a status");
    let flags = ReplyFlags(numbers[1].parse().expect("flags"));
    let body_len = numbers[2].parse().ok();
    let mut fields = ReplyFields::default();
    for part in parts {
        let (name, value) = part.split_once(": ").expect("a field");
        let text = |text: &str| CString::new(text).expect("no NUL");
        fields.add_header(&text(name), &text(value), flags).expect(part);
    }
    let context = ReplyContext {
        request: request(number),
        fields: &fields,
        flags,
        body_len,
        date: None,
        upgrade_allowed: false,
    };
    let Ok(plan) = ReplyPlan::new(status, context) else { return "refused".to_owned() };
    let mut head = Vec::new();
    plan.write(&mut head);
    let head = String::from_utf8(head).expect("text");
    let head = head.strip_suffix("\r\n").expect("an empty line").replace("\r\n", "|");
    let state = if plan.persists() { "open" } else { "closed" };
    let has_body = plan.sends_body() && body_len != Some(0);
    format!("{state} {} {head}", if has_body { "body" } else { "empty" })
}

/// The recorded result, without the chunks after HEAD and 304.
fn expected_of(recorded: &str, setup: &str, number: usize) -> String {
    let has_no_body = matches!(number, 5 | 6) || setup.starts_with("304 ");
    if has_no_body { recorded.replacen(" body ", " empty ", 1) } else { recorded.to_owned() }
}

fn plan_of(fields: &ReplyFields, status: u32) -> Result<ReplyPlan<'_>, ReplyRefusal> {
    plan_for(fields, status, request(0))
}

fn plan_for(
    fields: &ReplyFields,
    status: u32,
    request: RequestTraits,
) -> Result<ReplyPlan<'_>, ReplyRefusal> {
    let date = Some(*b"Sun, 06 Nov 1994 08:49:37 GMT");
    let flags = ReplyFlags::default();
    let context =
        ReplyContext { request, fields, flags, body_len: Some(3), date, upgrade_allowed: true };
    ReplyPlan::new(status, context)
}

fn text_of(plan: &ReplyPlan<'_>) -> String {
    let mut head = Vec::new();
    plan.write(&mut head);
    String::from_utf8(head).expect("text")
}

#[test]
fn date_follows_the_status_line() {
    let mut fields = ReplyFields::default();
    fields.add_header(c"A", c"1", ReplyFlags::default()).unwrap();
    let early = RequestTraits { is_complete: false, ..request(0) };
    let head = text_of(&plan_for(&fields, 200, early).unwrap());
    let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: close\r\n\
                    A: 1\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(head, expected);
}

#[test]
fn date_of_the_program_replaces_the_own_one() {
    let mut fields = ReplyFields::default();
    fields.add_header(c"date", c"D", ReplyFlags::default()).unwrap();
    let head = text_of(&plan_of(&fields, 200).unwrap());
    assert_eq!(head, "HTTP/1.1 200 OK\r\ndate: D\r\nContent-Length: 3\r\n\r\n");
}

#[test]
fn early_response_closes_the_connection() {
    let fields = ReplyFields::default();
    let early = RequestTraits { is_complete: false, ..request(2) };
    assert!(!plan_for(&fields, 200, early).unwrap().persists());
    assert!(plan_of(&fields, 200).unwrap().persists());
}

#[test]
fn tunnel_has_no_length_and_no_body() {
    let fields = ReplyFields::default();
    let connect = RequestTraits { method: MethodKind::Connect, ..request(0) };
    let plan = plan_for(&fields, 200, connect).unwrap();
    assert_eq!((plan.framing(), plan.sends_body()), (ReplyFraming::Absent, false));
    assert_eq!(plan_for(&fields, 403, connect).unwrap().framing(), ReplyFraming::Length(3));
}

#[test]
fn footers_follow_the_last_chunk() {
    let mut fields = ReplyFields::default();
    fields.add_header(c"Transfer-Encoding", c"chunked", ReplyFlags::default()).unwrap();
    fields.add_footer(c"F", c"1").unwrap();
    let plan = plan_of(&fields, 200).unwrap();
    assert!(!text_of(&plan).contains("F: 1"));
    let mut end = Vec::new();
    plan.write_chunks_end(&mut end);
    assert_eq!(end, b"0\r\nF: 1\r\n\r\n");
}

#[test]
fn upgrade_needs_status_101_and_http_1_1() {
    let mut fields = ReplyFields::for_upgrade();
    let plan = plan_of(&fields, 101).unwrap();
    let head = text_of(&plan).replace("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "");
    assert_eq!(head, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\r\n");
    assert_eq!(plan_of(&fields, 200).unwrap_err(), ReplyRefusal::UpgradeStatus);
    let old = plan_for(&fields, 101, request(4));
    assert_eq!(old.unwrap_err(), ReplyRefusal::InterimForHttp10);
    fields.add_header(c"Connection", c"y", ReplyFlags::default()).unwrap();
    let mut context = plan_of(&fields, 101).unwrap().context;
    context.upgrade_allowed = false;
    assert_eq!(ReplyPlan::new(101, context).unwrap_err(), ReplyRefusal::UpgradeNotAllowed);
}
