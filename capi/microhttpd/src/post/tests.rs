//! Forms and what libmicrohttpd 0.9.75 makes of them, with a buffer of 256 bytes.

use super::*;

/// The values of a form that arrives in pieces of `split` bytes, pieces joined; then whether the
/// original accepted everything.
fn parsed(content_type: &str, body: &[u8], split: usize) -> (Vec<String>, bool) {
    let mut post = PostProcessor::new(Some(content_type.as_bytes()), 256).expect(content_type);
    let mut values: Vec<(PostPiece, Arc<PostHead>)> = Vec::new();
    let mut add = |piece: PostPiece| match values.last_mut() {
        Some((value, head)) if piece.offset > 0 => {
            assert!(Arc::ptr_eq(head, &piece.head));
            assert_eq!(value.data.len() as u64, piece.offset);
            assert!(!piece.data.is_empty() && piece.data.len() <= PostProcessor::PIECE_MAX);
            value.data.extend(piece.data);
        }
        _ => values.push((piece.clone(), piece.head)),
    };
    let mut is_good = true;
    for bytes in body.chunks(split) {
        post.push(bytes);
        loop {
            match post.poll_piece() {
                Ok(Some(piece)) => add(piece),
                Ok(None) => break,
                Err(PostFailure) => {
                    is_good = false;
                    break;
                }
            }
        }
    }
    let (piece, result) = post.finish();
    piece.into_iter().for_each(add);
    let shown = values.iter().map(|(value, _)| shown(value)).collect();
    (shown, is_good && result.is_ok())
}

/// `KEY FILENAME TYPE ENCODING=VALUE`, without absent names.
fn shown(piece: &PostPiece) -> String {
    let PostHead { key, filename, content_type, transfer_encoding } = &*piece.head;
    let names = [filename, content_type, transfer_encoding];
    let names = names.iter().map(|name| match name {
        Some(name) => format!(" {}", name.to_str().unwrap()),
        None => String::new(),
    });
    let key = key.as_ref().map_or("-", |key| key.to_str().unwrap());
    let value = String::from_utf8_lossy(&piece.data);
    format!("{key}{}={value}", names.collect::<String>())
}

fn assert_parsed(content_type: &str, body: &str, values: &[&str], is_good: bool) {
    for split in [body.len().max(1), 1, 3, 7] {
        let (found, result) = parsed(content_type, body.as_bytes(), split);
        assert_eq!(found, values, "{body:?} by {split}");
        assert_eq!(result, is_good, "{body:?} by {split}");
    }
}

#[test]
fn urlencoded_values_are_those_of_the_original() {
    let recorded: &[(&str, &[&str], bool)] = &[
        ("a=b", &["a=b"], true),
        ("a=b&c=d", &["a=b", "c=d"], true),
        ("a", &[], false),
        ("a&b", &["a="], false),
        ("a=", &["a="], true),
        ("=b", &[], false),
        ("a=b&", &["a=b"], true),
        ("&a=b", &["a=b"], true),
        ("a=b&&c=d", &["a=b", "c=d"], true),
        ("&", &[], true),
        ("", &[], true),
        ("=", &[], false),
        ("a+b=c+d", &["a b=c d"], true),
        ("a%20b=%2B", &["a b=+"], true),
        ("a=%", &["a="], false),
        ("a=%4", &["a="], false),
        ("a=%zz", &["a=%zz"], true),
        ("a=b\r\n", &["a=b"], true),
        ("a=b\n", &["a=b"], true),
        ("a=b&c", &["a=b"], false),
        ("a=b\r\nc=d", &["a=b"], false),
        ("a=\r\n", &["a="], true),
        ("a\r\n", &["a="], true),
        ("&a", &[], false),
        ("a&", &["a="], true),
        ("a&b=c", &["a=", "b=c"], true),
        ("%4=x", &["%4=x"], true),
        ("a=b%2", &["a=b"], false),
        ("\n", &[], true),
        ("\r\na=b", &[], false),
        ("a=b\r\n\r\n", &["a=b"], true),
        ("a=b\r", &["a=b"], true),
        ("a=b\nc", &["a=b"], false),
    ];
    for (body, values, is_good) in recorded {
        assert_parsed("application/x-www-form-urlencoded", body, values, *is_good);
    }
}

/// The original reports `b=L`, from the two halves of different values.
#[test]
fn incomplete_encoding_ends_with_its_value() {
    assert_parsed("application/x-www-form-urlencoded", "a=%4&b=c", &["a=", "b=c"], true);
}

/// The original reports the value before the failure if it arrived earlier.
#[test]
fn second_equals_sign_fails() {
    let (values, is_good) = parsed("application/x-www-form-urlencoded", b"a=b=c", 5);
    assert_eq!((values.len(), is_good), (0, false));
    let (values, is_good) = parsed("application/x-www-form-urlencoded", b"a=b=c", 1);
    assert_eq!((values, is_good), (vec!["a=b".to_owned()], false));
}

#[test]
fn urlencoded_key_is_at_most_three_bytes_longer_than_the_buffer() {
    let body = |size: usize| ["k".repeat(size), "=v".to_owned()].concat();
    let (values, is_good) = parsed("application/x-www-form-urlencoded", body(259).as_bytes(), 1);
    assert_eq!((values.len(), is_good), (1, true));
    let (values, is_good) = parsed("application/x-www-form-urlencoded", body(260).as_bytes(), 1);
    assert_eq!((values.len(), is_good), (0, false));
}

#[test]
fn long_values_arrive_in_pieces_with_offsets() {
    let body = ["a=", &"x".repeat(5000), "&b=c"].concat();
    let values = [["a=", &"x".repeat(5000)].concat(), "b=c".to_owned()];
    let values: Vec<&str> = values.iter().map(|value| &value[..]).collect();
    assert_parsed("application/x-www-form-urlencoded", &body, &values, true);
    let part = "--BB\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    let body = [part, &"\r\n--B".repeat(1000), "\r\n--BB--"].concat();
    let value = ["a=", &"\r\n--B".repeat(1000)].concat();
    assert_parsed("multipart/form-data; boundary=BB", &body, &[&value], true);
}

#[test]
fn multipart_values_are_those_of_the_original() {
    let recorded: &[(&str, &[&str], bool)] = &[
        (
            "--BB\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--BB--\r\n",
            &["a=v"],
            true,
        ),
        (
            "--BB\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f.txt\"\r\n\
             Content-Type: text/plain\r\nContent-Transfer-Encoding: binary\r\n\r\nfile\r\ndata\r\n\
             --BB\r\nContent-Disposition: form-data; name=b\r\n\r\n\r\n--BB--",
            &["a f.txt text/plain binary=file\r\ndata", "-="],
            true,
        ),
        (
            "pre\r\n--BB\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--BB--\r\nafter",
            &["a=v"],
            false,
        ),
        ("--BB\r\nX: y\r\n\r\nv\r\n--BB--\r\n", &["-=v"], true),
        ("--BB--\r\n", &[], true),
        ("--C\r\n\r\n", &[], true),
        (
            "\r\n--BB\r\ncontent-disposition: FORM-DATA; filename=\"x\"; name=\"q\"\r\n\r\nv--BB\
             \r\n--BBx\r\n-\r\n--BB--\r\n",
            &["q x=v--BB"],
            false,
        ),
        (
            "--BB\r\nContent-Disposition: form-data; name=\"o\"\r\n\
             Content-Type: multipart/mixed; boundary=II\r\n\r\n--II\r\n\
             Content-Disposition: file; filename=\"1\"\r\n\r\none\r\n--II\r\n\
             Content-Disposition: file; filename=\"2\"\r\nContent-Type: x/y\r\n\r\ntwo\r\n--II--\
             \r\n--BB--\r\n",
            &["o 1=one", "o 2 x/y=two"],
            true,
        ),
        (
            "--BB\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type:text/x\r\n\r\nv\
             \r\n--BB\r\n\r\nw\r\n--BB--\r\n",
            &["a=v", "-=w"],
            true,
        ),
    ];
    for (body, values, is_good) in recorded {
        assert_parsed("multipart/form-data; boundary=BB", body, values, *is_good);
    }
}

/// The original keeps bytes back that could be no delimiter.
#[test]
fn incomplete_multipart_fails() {
    let head = "--BB\nContent-Disposition: form-data; name=\"a\"\n\n";
    let value = "a=v\n--BB--\n";
    assert_parsed(
        "multipart/form-data; boundary=BB",
        &[head, &value[2..]].concat(),
        &[value],
        false,
    );
    assert_parsed("multipart/form-data; boundary=BB", "--BB\r\nContent-Disp", &[], false);
}

#[test]
fn long_lines_of_a_part_fail() {
    let part = |size: usize| format!("--BB\r\nX: {}\r\n\r\nv\r\n--BB--", "x".repeat(size));
    assert_parsed("multipart/form-data; boundary=BB", &part(255), &["-=v"], true);
    assert_parsed("multipart/form-data; boundary=BB", &part(260), &[], false);
}

#[test]
fn content_types_are_those_of_the_original() {
    let recorded: &[(Option<&str>, bool)] = &[
        (None, false),
        (Some("text/plain"), false),
        (Some("multipart/mixed; boundary=BB"), false),
        (Some("multipart/form-data"), false),
        (Some("multipart/form-data; boundary="), false),
        (Some("multipart/form-data; boundary=B"), false),
        (Some("multipart/form-data; boundary=BB"), true),
        (Some("multipart/form-data; boundary=\"BB\""), true),
        (Some("multipart/form-data;boundary=BB"), true),
        (Some("multipart/form-data; xboundary=BB"), true),
        (Some("multipart/form-data-x; boundary=BB"), true),
        (Some("MULTIPART/FORM-DATA; BOUNDARY=BB"), false),
        (Some("application/x-www-form-urlencoded; charset=utf-8"), true),
        (Some("Application/X-WWW-FORM-URLENCODED"), true),
        (Some("application/x-www-form-urlencodedx"), true),
    ];
    for (content_type, is_form) in recorded {
        let post = PostProcessor::new(content_type.map(str::as_bytes), 256);
        assert_eq!(post.is_ok(), *is_form, "{content_type:?}");
    }
    for (size, is_usable) in [(127, true), (128, false)] {
        let content_type = ["multipart/form-data; boundary=", &"z".repeat(size)].concat();
        let post = PostProcessor::new(Some(content_type.as_bytes()), 256);
        assert_eq!(post.is_ok(), is_usable, "{size}");
    }
    let small = PostProcessor::new(Some(b"application/x-www-form-urlencoded"), 255);
    assert_eq!(small.unwrap_err(), PostRefusal::BufferTooSmall);
}

/// The original takes everything behind `boundary=`, and finds no part.
#[test]
fn boundary_ends_at_the_next_parameter() {
    for rest in ["boundary=BB; charset=x", "boundary=\"BB\"; x", "charset=x; boundary=BB"] {
        let content_type = format!("multipart/form-data; {rest}");
        assert_parsed(&content_type, "--BB\r\n\r\nv\r\n--BB--", &["-=v"], true);
    }
}

#[test]
fn aborted_processor_reports_nothing_more() {
    let mut post = PostProcessor::new(Some(b"application/x-www-form-urlencoded"), 256).unwrap();
    post.push(b"a=b&c=d&");
    assert!(post.poll_piece().unwrap().is_some());
    post.abort();
    assert_eq!(post.poll_piece(), Err(PostFailure));
    assert_eq!(post.finish(), (None, Err(PostFailure)));
}

#[test]
fn encoded_nul_ends_a_key_and_not_a_value() {
    let mut post = PostProcessor::new(Some(b"application/x-www-form-urlencoded"), 256).unwrap();
    post.push(b"a%00b=c%00d");
    let piece = post.poll_piece().unwrap().unwrap();
    assert_eq!(piece.head.key.as_deref(), Some(c"a"));
    assert_eq!(piece.data, b"c\0d");
}
