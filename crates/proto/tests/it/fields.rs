//! Header fields that are copied and changed.

use bytes::BytesMut;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{Connection, Event, HeaderBuf, Input, Scratch, UsageError};
use proptest::prelude::*;

fn lines(buf: &HeaderBuf) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    buf.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect()
}

fn buf(fields: &[(&str, &str)]) -> HeaderBuf {
    let mut buf = HeaderBuf::new();
    for (name, value) in fields {
        buf.push(name, value.as_bytes()).expect("a sound field");
    }
    buf
}

const FIELDS: [(&str, &str); 5] =
    [("Host", "h"), ("X-A", "1"), ("TE", "trailers"), ("x-a", ""), ("X-Aa", "3")];

/// What concerns one hop stays behind, and what is left is as if it had been pushed.
#[test]
fn the_fields_of_a_message_are_copied() {
    let request = "POST / HTTP/1.1\r\nHost:h\r\nConnection: X-Hop\r\nx-hop: 1\r\nX-A:  a b \r\n\
                   Content-Length: 1\r\nTE: trailers\r\nx-a:\r\n\r\n";
    let mut block = BytesMut::from(request);
    let mut input = Input::all(&mut block, false);
    let mut server = H1Server::default();
    let mut scratch = Scratch::default();
    let mut copied = buf(&[("first", "1")]);
    match server.poll_event(&mut input, &mut scratch) {
        Ok(Some(Event::Head { head, .. })) => copied.extend(head.headers).unwrap(),
        other => panic!("{other:?}"),
    }
    let expected = buf(&[("first", "1"), ("Host", "h"), ("X-A", "a b"), ("x-a", "")]);
    assert_eq!(format!("{copied:?}"), format!("{expected:?}"));
}

#[test]
fn fields_are_removed_by_name() {
    for (name, left) in [
        ("x-A", &["Host: h", "TE: trailers", "X-Aa: 3"][..]),
        ("host", &["X-A: 1", "TE: trailers", "x-a: ", "X-Aa: 3"]),
        ("x-aa", &["Host: h", "X-A: 1", "TE: trailers", "x-a: "]),
        ("x", &["Host: h", "X-A: 1", "TE: trailers", "x-a: ", "X-Aa: 3"]),
    ] {
        let mut buf = buf(&FIELDS);
        buf.remove(name);
        assert_eq!(lines(&buf), left, "{name}");
        assert_eq!((buf.len(), buf.is_empty()), (left.len(), false));
        buf.push("end", b"e").unwrap();
        assert_eq!(buf.as_headers().get("END"), Some(&b"e"[..]));
    }
}

#[test]
fn fields_are_replaced_behind_the_others() {
    let mut buf = buf(&FIELDS);
    buf.replace("X-a", b"new").unwrap();
    assert_eq!(lines(&buf), ["Host: h", "TE: trailers", "X-Aa: 3", "X-a: new"]);
    let before = lines(&buf);
    assert_eq!(buf.replace("X-a", b"a\r\nb: c"), Err(UsageError::BadHead));
    assert_eq!(buf.replace("X a", b"b"), Err(UsageError::BadHead));
    assert_eq!(lines(&buf), before);
}

#[test]
fn values_are_rewritten_in_place() {
    let mut buf = buf(&FIELDS);
    let mut asked = Vec::new();
    let change = |old: &[u8]| {
        asked.push(old.to_vec());
        old.is_empty().then(|| b"two".to_vec())
    };
    buf.rewrite("X-A", change).unwrap();
    assert_eq!(asked, [b"1".to_vec(), b"".to_vec()]);
    let expected = ["Host: h", "X-A: 1", "TE: trailers", "x-a: two", "X-Aa: 3"];
    assert_eq!(lines(&buf), expected);
    assert_eq!(buf.rewrite("X-A", |_| Some(b"a\n".to_vec())), Err(UsageError::BadHead));
    assert_eq!(lines(&buf), expected);
}

/// Blocks with hop-by-hop fields cannot be sent unchanged; after their removal they can.
#[test]
fn retain_calls_its_function_once_for_each_field() {
    let mut buf = buf(&FIELDS);
    let mut asked = 0;
    buf.retain(|name, value| {
        asked += 1;
        name != b"TE" && value != b"h"
    });
    assert_eq!(asked, FIELDS.len());
    assert_eq!(lines(&buf), ["X-A: 1", "x-a: ", "X-Aa: 3"]);
    buf.clear();
    assert!(buf.is_empty());
}

proptest! {
    /// Whatever is done, it is as if the fields had been added one by one.
    #[test]
    fn changes_are_as_if_built_anew(
        fields in proptest::collection::vec(("[a-c]{1,2}|te|host", "[a-c]{0,3}"), 0..12),
        changes in proptest::collection::vec((0..4u8, "[a-c]{1,2}|te", "[a-c]{0,2}"), 0..6),
    ) {
        let mut model: Vec<(String, String)> = fields;
        let mut changed = HeaderBuf::new();
        for (name, value) in &model {
            changed.push(name, value.as_bytes()).unwrap();
        }
        for (what, name, value) in &changes {
            match what {
                0 => {
                    changed.remove(name);
                    model.retain(|(known, _)| known != name);
                }
                1 => {
                    changed.replace(name, value.as_bytes()).unwrap();
                    model.retain(|(known, _)| known != name);
                    model.push((name.clone(), value.clone()));
                }
                2 => {
                    changed.rewrite(name, |old| {
                        old.starts_with(b"a").then(|| value.clone().into_bytes())
                    }).unwrap();
                    for (known, old) in &mut model {
                        if known == name && old.starts_with('a') {
                            old.clone_from(value);
                        }
                    }
                }
                _ => {
                    changed.retain(|_, old| old != value.as_bytes());
                    model.retain(|(_, old)| old != value);
                }
            }
        }
        let mut built = HeaderBuf::new();
        for (name, value) in &model {
            built.push(name, value.as_bytes()).unwrap();
        }
        // All that they are: the block, the places in it, and whether a hop's is among them.
        prop_assert_eq!(format!("{changed:?}"), format!("{built:?}"));
    }
}
