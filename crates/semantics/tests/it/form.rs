//! Forms: encoding as in browsers, and parsing with every split.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_proto::{FileRange, Segment};
use fulmar_semantics::form::{
    BadBoundary, BadPart, Boundary, EncodedForm, FormEvent, FormLimits, FormPart, Multipart,
    Parser, ParserError, PartHead, urlencoded,
};
use proptest::prelude::*;

const TYPE: &[u8] = b"multipart/form-data; boundary=XX";

fn boundary() -> Boundary {
    Boundary::new("XX").expect("a boundary")
}

/// The body as sent; files are read here instead of by the kernel.
fn wire(form: &EncodedForm) -> Vec<u8> {
    let mut out = Vec::new();
    for segment in &form.segments {
        assert!(!segment.is_empty());
        match segment {
            Segment::Bytes(bytes) => out.extend_from_slice(bytes),
            Segment::File(range) => {
                let mut file = File::from(range.file.try_clone().expect("a descriptor"));
                file.seek(SeekFrom::Start(range.offset)).expect("a file");
                file.take(range.len).read_to_end(&mut out).expect("a file");
            }
            Segment::Pipe(_) => unreachable!("forms have only bytes and files"),
        }
    }
    assert_eq!(out.len() as u64, form.len);
    out
}

#[test]
fn fields_are_urlencoded() {
    assert_eq!(urlencoded([("", ""); 0]), "");
    assert_eq!(urlencoded([("a", ""), ("", "b")]), "a=&=b");
    assert_eq!(urlencoded([("a b", "c&d=e+f%\r\n")]), "a+b=c%26d%3De%2Bf%25%0D%0A");
    assert_eq!(urlencoded([(&b"\xff"[..], "*-._~")]), "%FF=*-._%7E");
}

#[test]
fn a_form_is_encoded_as_in_browsers() {
    let dir = std::env::temp_dir().join(format!("fulmar-form-{}", std::process::id()));
    File::create(&dir).and_then(|mut file| file.write_all(b"0123456789")).expect("a file");
    let file = Arc::new(OwnedFd::from(File::open(&dir).expect("a file")));
    std::fs::remove_file(&dir).expect("a file");

    let mut form = Multipart::new(boundary());
    form.text("a", "1\r\n2");
    form.text("q\"\r\n\0\u{e9}%", "");
    let named = FormPart { filename: Some("x\"y\n.txt"), ..FormPart::new("f") };
    form.part(&named, FileRange { file: Arc::clone(&file), offset: 2, len: 3 }).expect("sound");
    let typed = FormPart { content_type: Some("text/plain; charset=utf-8"), ..FormPart::new("t") };
    form.part(&typed, Bytes::from_static(b"text")).expect("sound");
    form.part(&named, FileRange { file, offset: 9, len: 0 }).expect("sound");
    let bad = FormPart { content_type: Some("a\r\nX: y"), ..FormPart::new("t") };
    assert_eq!(form.part(&bad, &b"x"[..]), Err(BadPart));
    let form = form.finish();

    assert_eq!(form.content_type.as_bytes(), TYPE);
    let files = form.segments.iter().filter(|segment| matches!(segment, Segment::File(_))).count();
    assert_eq!(files, 1, "files are not read");
    let want = "--XX\r\n\
        Content-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n2\r\n--XX\r\n\
        Content-Disposition: form-data; name=\"q%22%0D%0A%00\u{e9}%\"\r\n\r\n\r\n--XX\r\n\
        Content-Disposition: form-data; name=\"f\"; filename=\"x%22y%0A.txt\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n234\r\n--XX\r\n\
        Content-Disposition: form-data; name=\"t\"\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\r\ntext\r\n--XX\r\n\
        Content-Disposition: form-data; name=\"f\"; filename=\"x%22y%0A.txt\"\r\n\
        Content-Type: application/octet-stream\r\n\r\n\r\n--XX--\r\n";
    assert_eq!(String::from_utf8(wire(&form)).as_deref(), Ok(want));
    assert_eq!(wire(&form.clone()), wire(&form), "it can be sent again");
    assert_eq!(wire(&Multipart::new(boundary()).finish()), b"--XX--\r\n");
}

#[test]
fn a_boundary_needs_no_quotes() {
    for bad in ["", "a b", "a\"", "a\r\n", "a;", "\u{e9}", &"x".repeat(71)] {
        assert_eq!(Boundary::new(bad), Err(BadBoundary), "{bad:?}");
    }
    assert!(Boundary::new(&"x".repeat(70)).is_ok());
    let random = Boundary::from_random([0xab; 16]);
    let form = Multipart::new(random.clone()).finish();
    assert!(Parser::new(form.content_type.as_bytes(), FormLimits::default()).is_ok());
    assert_ne!(random, Boundary::from_random([0xac; 16]));
}

/// One part with its complete data.
type Whole = (PartHead, Vec<u8>);

/// Parses a form in pieces of `cut` bytes.
fn parse_with(limits: FormLimits, body: &[u8], cut: usize) -> Result<Vec<Whole>, ParserError> {
    let mut parser = Parser::new(TYPE, limits)?;
    let mut parts: Vec<Whole> = Vec::new();
    let (mut open, mut ended) = (false, false);
    for piece in body.chunks(cut) {
        parser.push(Bytes::copy_from_slice(piece));
        loop {
            let event = match parser.poll_event() {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(parser.poll_event(), Err(error), "the error is permanent");
                    return Err(error);
                }
            };
            assert!(!ended, "nothing follows the end");
            match event {
                FormEvent::Part(head) => {
                    assert!(!std::mem::replace(&mut open, true));
                    parts.push((head, Vec::new()));
                }
                FormEvent::Data(bytes) => {
                    assert!(open && !bytes.is_empty());
                    parts.last_mut().expect("a part").1.extend_from_slice(&bytes);
                }
                FormEvent::PartEnd => assert!(std::mem::replace(&mut open, false)),
                FormEvent::End => {
                    assert!(!open);
                    ended = true;
                }
            }
        }
    }
    parser.finish().map(|()| parts)
}

/// The same result with every split.
fn parse(body: &[u8]) -> Result<Vec<Whole>, ParserError> {
    let whole = parse_with(FormLimits::default(), body, body.len().max(1));
    for cut in 1..body.len().min(300) {
        assert_eq!(parse_with(FormLimits::default(), body, cut), whole, "cut {cut}");
    }
    whole
}

fn head(name: &str) -> PartHead {
    PartHead { name: name.into(), ..PartHead::default() }
}

#[test]
fn a_form_is_parsed_with_every_split() {
    let part = |head: &str, data: &str| format!("--XX\r\n{head}\r\n\r\n{data}\r\n");
    let a = part("Content-Disposition: form-data; name=\"a\"", "1");
    for (body, want) in [
        ("--XX--".to_owned(), vec![]),
        ("--XX--\r\n".to_owned(), vec![]),
        ("\r\n--XX--\r\n".to_owned(), vec![]),
        (format!("{a}--XX--\r\n"), vec![(head("a"), "1")]),
        (format!("\r\n{a}{a}--XX--"), vec![(head("a"), "1"), (head("a"), "1")]),
        (
            part("CONTENT-disposition:form-DATA;Name=a;x=y", "") + "--XX--\r\n",
            vec![(head("a"), "")],
        ),
        (
            part(
                "X: \u{e9}\r\nContent-Disposition: form-data; name=\"a\"",
                "\r\n--X\r\n\r\n--\r\r\n",
            ) + "--XX--\r\n",
            vec![(head("a"), "\r\n--X\r\n\r\n--\r\r\n")],
        ),
        (
            part(
                "Content-Disposition: form-data; filename=\"C:\\a\\\"b\"; name=\"n\"\r\n\
                 Content-Type: text/plain; x",
                "--XX--",
            ) + "--XX--\r\n",
            vec![(
                PartHead {
                    name: b"n".to_vec(),
                    filename: Some(b"C:\\a\"b".to_vec()),
                    content_type: Some(b"text/plain; x".to_vec()),
                },
                "--XX--",
            )],
        ),
    ] {
        let want = want.into_iter().map(|(head, data)| (head, data.as_bytes().to_vec())).collect();
        assert_eq!(parse(body.as_bytes()), Ok(want), "{body:?}");
    }
}

#[test]
fn invalid_forms_are_errors() {
    use ParserError as E;
    let good = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--XX--";
    for len in 0..good.len() {
        assert_eq!(parse(&good.as_bytes()[..len]), Err(E::Truncated), "after {len}");
    }
    assert_eq!(parse(format!("{good}\r").as_bytes()), Err(E::Truncated));
    for (body, want) in [
        ("preamble\r\n--XX--", E::BadDelimiter),
        ("\n--XX--", E::BadDelimiter),
        ("\r\n\r\n--XX--", E::BadDelimiter),
        ("--XY--", E::BadDelimiter),
        ("--XXX", E::BadDelimiter),
        ("--XX \r\n", E::BadDelimiter),
        ("--XX\n", E::BadDelimiter),
        ("--XX-\r\n", E::BadDelimiter),
        ("--XX\rX", E::BadDelimiter),
        ("--XX\r\n\r\n", E::BadHead),
        ("--XX\r\nX: y\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: attachment; name=a\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data;\r\n name=a\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition : form-data; name=a\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data; name=a\nX: y\r\n\r\n", E::BadHead),
        ("--XX\r\nContent-Disposition: form-data; name=a\0\r\n\r\n", E::BadHead),
        (
            "--XX\r\nContent-Disposition: form-data; name=a\r\n\
             Content-Disposition: form-data; name=b\r\n\r\n",
            E::BadHead,
        ),
        ("--XX--x", E::TrailingData),
        ("--XX--\r\n\r\n", E::TrailingData),
        ("--XX--\n", E::TrailingData),
    ] {
        assert_eq!(parse(body.as_bytes()), Err(want), "{body:?}");
    }
    for bad in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=a; boundary=b",
        "multipart/form-data; boundary=\"a ",
        "multipart/form-data; boundary=\"a \"",
        "multipart/form-data; boundary=\"a\u{e9}\"",
        "multipart/mixed; boundary=a",
        "application/x-www-form-urlencoded",
        "",
    ] {
        let got = Parser::new(bad.as_bytes(), FormLimits::default());
        assert_eq!(got.err(), Some(E::BadContentType), "{bad}");
    }
    let quoted = b"Multipart/Form-Data; charset=x; BOUNDARY=\"a b:?=\"";
    assert!(Parser::new(quoted, FormLimits::default()).is_ok());
}

#[test]
fn pending_bytes_do_not_keep_the_input_alive() {
    let begun = "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
    for piece in ["--X", &begun[..30], &format!("{begun}data\r\n--"), &format!("{begun}\r")] {
        let block = Bytes::copy_from_slice(piece.as_bytes());
        let mut parser = Parser::new(TYPE, FormLimits::default()).expect("a form");
        parser.push(block.clone());
        while parser.poll_event().expect("a form").is_some() {}
        assert!(block.is_unique(), "{piece:?}");
    }
}

#[test]
fn limits_are_exact() {
    let head = "Content-Disposition: form-data; name=\"a\"\r\n\r\n";
    let part = format!("--XX\r\n{head}1\r\n");
    let body = format!("{part}{part}{part}--XX--");
    for cut in [1, 7, body.len()] {
        let of = |parts_max, head_size_max| {
            let limits = FormLimits { parts_max, head_size_max };
            parse_with(limits, body.as_bytes(), cut).map(|parts| parts.len())
        };
        assert_eq!(of(3, head.len()), Ok(3));
        assert_eq!(of(2, head.len()), Err(ParserError::TooManyParts));
        assert_eq!(of(3, head.len() - 1), Err(ParserError::HeadTooLarge));
    }
    let flood = format!("--XX\r\nX: {}", "x".repeat(100_000));
    let got = parse_with(FormLimits::default(), flood.as_bytes(), 1_000);
    assert_eq!(got, Err(ParserError::HeadTooLarge), "before the end of the head");
}

proptest! {
    #[test]
    fn forms_round_trip(
        parts in proptest::collection::vec(
            ("[a-z é%]{0,8}", proptest::option::of("[a-z.]{0,8}"), "[\r\n\\-X a]{0,60}"),
            0..5,
        ),
        cut in 1..100_usize,
    ) {
        let mut form = Multipart::new(Boundary::new("XX-0123456789").expect("a boundary"));
        let mut want = Vec::new();
        for (name, filename, data) in &parts {
            let part = FormPart { filename: filename.as_deref(), ..FormPart::new(name) };
            form.part(&part, Bytes::copy_from_slice(data.as_bytes())).expect("sound");
            want.push(data.as_bytes().to_vec());
        }
        let form = form.finish();
        let parser = Parser::new(form.content_type.as_bytes(), FormLimits::default());
        let mut parser = parser.expect("a valid form");
        let mut got: Vec<Vec<u8>> = Vec::new();
        for piece in wire(&form).chunks(cut) {
            parser.push(Bytes::copy_from_slice(piece));
            while let Some(event) = parser.poll_event().expect("ours") {
                match event {
                    FormEvent::Part(head) => {
                        let (name, filename, _) = &parts[got.len()];
                        prop_assert_eq!(head.name, name.as_bytes());
                        let filename = filename.as_ref().map(|name| name.as_bytes().to_vec());
                        prop_assert_eq!(head.filename, filename);
                        got.push(Vec::new());
                    }
                    FormEvent::Data(bytes) => {
                        got.last_mut().expect("a part").extend_from_slice(&bytes);
                    }
                    FormEvent::PartEnd | FormEvent::End => {}
                }
            }
        }
        prop_assert_eq!(parser.finish(), Ok(()));
        prop_assert_eq!(got, want);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        body in proptest::collection::vec(
            prop_oneof![
                Just(b"--XX".to_vec()),
                Just(b"\r\n".to_vec()),
                Just(b"--".to_vec()),
                Just(b"Content-Disposition: form-data; name=\"a\"\r\n\r\n".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..10),
            ],
            0..12,
        ),
        cut in 1..40_usize,
    ) {
        let body = body.concat();
        let whole = parse_with(FormLimits::default(), &body, body.len().max(1));
        prop_assert_eq!(parse_with(FormLimits::default(), &body, cut), whole);
    }
}
