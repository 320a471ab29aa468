//! The installed libcurl 7.88.1 wrote the expectations in `data/forms.txt` (see its head).

use std::collections::BTreeMap;

use super::*;
use crate::testing::unescape;

/// Files and callbacks in memory, which return at most so many bytes at once.
struct MemorySources {
    contents: BTreeMap<SourceId, (Vec<u8>, usize)>,
    len_max: usize,
}

impl MimeSources for MemorySources {
    fn read(&mut self, source: SourceId, into: &mut [u8]) -> MimeRead {
        let (content, at) = self.contents.get_mut(&source).unwrap();
        let len = into.len().min(self.len_max).min(content.len() - *at);
        into[..len].copy_from_slice(&content[*at..*at + len]);
        *at += len;
        MimeRead::Data(len)
    }
}

/// A case of the data file.
struct FormCase {
    sources: MemorySources,
    boundaries: u32,
}

impl FormCase {
    fn mime<'a>(&mut self, lines: &mut impl Iterator<Item = &'a str>) -> (Mime, &'a str) {
        let digits = format!("{:016}", self.boundaries);
        self.boundaries += 1;
        let mut mime = Mime::new(digits.into_bytes().try_into().unwrap());
        loop {
            let line = lines.next().unwrap();
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let text = unescape(rest);
            if word == "part" {
                mime.parts.push(MimePart::default());
                continue;
            }
            let Some(part) = mime.parts.last_mut() else { return (mime, rest) };
            match word {
                "name" => part.name = Some(text),
                "filename" => part.filename = Some(text),
                "type" => part.mime_type = Some(text),
                "header" => part.headers.push(text),
                "encoder" => part.encoder = MimeEncoder::parse(&text),
                "data" => part.content = MimeContent::Data(text.into()),
                "cb" | "cbn" => {
                    let size = (word == "cb").then_some(text.len() as u64);
                    part.content = MimeContent::Callback { source: self.source(text), size };
                }
                "file" => {
                    let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                    let (path, content) = (path.as_bytes().to_vec(), unescape(content));
                    part.filename = Some(path.clone());
                    let size = Some(content.len() as u64);
                    let source = self.source(content);
                    part.content = MimeContent::File { path, source, size };
                }
                "sub" => part.content = MimeContent::Multipart(self.mime(lines).0),
                "end" | "result" => return (mime, rest),
                _ => panic!("unknown line {line}"),
            }
        }
    }

    fn source(&mut self, content: Vec<u8>) -> SourceId {
        let source = SourceId(self.sources.contents.len() as u64);
        self.sources.contents.insert(source, (content, 0));
        source
    }
}

#[test]
fn forms_are_sent_as_by_libcurl() {
    let mut cases = 0;
    for case in include_str!("data/forms.txt").split("\ncase\n").skip(1) {
        for len_max in [1, 7, 5000] {
            check(case, len_max);
        }
        cases += 1;
    }
    assert!(cases > 50, "{cases} cases");
}

fn check(case: &str, len_max: usize) {
    let mut lines = case.lines().peekable();
    let has_escape = lines.next_if_eq(&"escape").is_some();
    let content_type = lines.next_if(|line| line.starts_with("ctype ")).map(|line| &line[6..]);
    let sources = MemorySources { contents: BTreeMap::new(), len_max };
    let mut form = FormCase { sources, boundaries: 0 };
    let (mime, result) = form.mime(&mut lines);
    let escape = if has_escape { FormEscape::Backslash } else { FormEscape::Percent };
    let mut body = MimeBody::new(mime, content_type.map(str::as_bytes), escape);
    let mut expected = Vec::new();
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "type" => assert_eq!(body.content_type(), unescape(rest), "{case}"),
            "size" => assert_eq!(body.size(), rest.parse().ok(), "{case}"),
            "body" => expected.extend(unescape(rest)),
            _ => panic!("unknown line {line}"),
        }
    }
    let mut read = Vec::new();
    let mut buffer = vec![0; len_max];
    let end = loop {
        match body.read(&mut form.sources, &mut buffer) {
            MimeRead::Data(0) => break "0",
            MimeRead::Data(len) => read.extend_from_slice(&buffer[..len]),
            MimeRead::Failed => break "26",
            MimeRead::Pause | MimeRead::Abort => unreachable!("no source returns it"),
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(end, result, "{case}");
    match end {
        "0" => assert_eq!(text(&read), text(&expected), "{case}"),
        // What libcurl had sent before the error depends on its buffer.
        _ => assert!(read.starts_with(&expected) || expected.starts_with(&read), "{case}"),
    }
}

#[test]
fn pauses_are_returned_behind_the_bytes_before_them() {
    struct Pausing(Vec<MimeRead>);
    impl MimeSources for Pausing {
        fn read(&mut self, _: SourceId, into: &mut [u8]) -> MimeRead {
            into[0] = b'x';
            self.0.remove(0)
        }
    }
    let mut form = Mime::new([b'0'; 16]);
    let content = MimeContent::Callback { source: SourceId(0), size: None };
    form.parts.push(MimePart { content, ..MimePart::default() });
    let mut body = MimeBody::new(form, None, FormEscape::Percent);
    let stops = vec![MimeRead::Pause, MimeRead::Data(1), MimeRead::Abort];
    let mut sources = Pausing(stops);
    let mut buffer = [0; 100];
    let head = "--".len() + 40 + "\r\n\r\n".len();
    let mut read = || body.read(&mut sources, &mut buffer);
    // A part without a name still has the disposition of the form.
    assert_eq!(read(), MimeRead::Data(head + "Content-Disposition: form-data\r\n".len()));
    assert_eq!([read(), read(), read()], [MimeRead::Pause, MimeRead::Data(1), MimeRead::Abort]);
}

/// As `curl_formadd` of libcurl 7.88.1 builds them.
#[test]
fn formadd_sections_are_parts() {
    let file = |path: &str, content_type: Option<&str>| FormFile {
        path: path.into(),
        source: SourceId(0),
        size: Some(0),
        content_type: content_type.map(Into::into),
        filename: None,
        headers: vec![b"X-H: 1".to_vec()],
    };
    let section =
        |value| FormPost { name: b"n".to_vec(), headers: vec![], content_type: None, value };
    let named = |file: FormFile| FormFile { filename: Some(b"shown".to_vec()), ..file };
    let files = ["b", "c.txt", "d"].map(|path| named(file(path, None)));
    let files = [vec![file("dir/a", Some("x/y"))], files.to_vec()].concat();
    let form = FormPost::into_mime(
        vec![
            section(FormValue::Contents(b"v".to_vec().into())),
            section(FormValue::FileContent(file("a.html", None))),
            section(FormValue::Files(vec![named(file("a", None))])),
            section(FormValue::Files(files)),
            section(FormValue::Buffer(b"b.gif".to_vec(), Bytes::new())),
        ],
        || [b'0'; 16],
    );
    let text = |value: &Option<Vec<u8>>| {
        let text = value.as_deref().map(String::from_utf8_lossy);
        text.map_or_else(|| "-".to_owned(), |text| text.into_owned())
    };
    let describe = |part: &MimePart| format!("{} {}", text(&part.filename), text(&part.mime_type));
    let parts: Vec<_> = form.parts.iter().map(describe).collect();
    assert_eq!(parts, ["- -", "- -", "shown application/octet-stream", "- -", "b.gif image/gif"]);
    let MimeContent::Multipart(files) = &form.parts[3].content else { panic!("no parts") };
    assert!(files.parts.iter().all(|part| part.headers.len() == 1));
    let files: Vec<_> = files.parts.iter().map(describe).collect();
    assert_eq!(files, ["a x/y", "b x/y", "c.txt text/plain", "d text/plain"]);
}

/// As libcurl does: a chunk ends where a second callback would have to be called. A content of
/// known size has no read at its end.
#[test]
fn each_read_calls_one_source_once() {
    let lens = |size, encoder| {
        let mut form = Mime::new([b'0'; 16]);
        let content = MimeContent::Callback { source: SourceId(0), size };
        form.parts.push(MimePart { content, encoder, ..MimePart::default() });
        let mut body = MimeBody::new(form, None, FormEscape::Percent);
        let contents = BTreeMap::from([(SourceId(0), (b"abcdef".to_vec(), 0))]);
        let mut sources = MemorySources { contents, len_max: 3 };
        let mut buffer = [0; 500];
        let mut lens = Vec::new();
        while let MimeRead::Data(len @ 1..) = body.read(&mut sources, &mut buffer) {
            lens.push(len);
        }
        lens
    };
    let head = "--".len() + 40 + "\r\nContent-Disposition: form-data\r\n\r\n".len();
    let end = "\r\n--".len() + 40 + "--\r\n".len();
    assert_eq!(lens(None, None), [head + 3, 3, end]);
    assert_eq!(lens(Some(6), None), [head + 3, 3 + end]);
    let encoded = head + "Content-Transfer-Encoding: base64\r\n".len();
    assert_eq!(lens(Some(6), Some(MimeEncoder::Base64)), [encoded + 4, 4 + end]);
}
