use super::*;
use crate::temporary::TemporaryDir;
use fulmar_proto::HeaderBuf;
use fulmar_sys as sys;
use proptest::prelude::*;
use std::fs;
use std::os::fd::AsFd;

const MULTIPART: &str = "multipart/form-data; boundary=B";

/// Two texts, two files, and an empty file input.
const BODY: &str = "--B\r\nContent-Disposition: form-data; name=\"who\"\r\n\r\nZoë\r\n\
    --B\r\nContent-Disposition: form-data; name=f; filename=\"../a.txt\"\r\n\
    Content-Type: text/plain\r\n\r\nfirst\r\n--C-\r\n\r\n\
    --B\r\nContent-Disposition: form-data; name=f; filename=b\r\n\r\nsecond\r\n\
    --B\r\nContent-Disposition: form-data; name=none; filename=\"\"\r\n\r\n\r\n\
    --B\r\nContent-Disposition: form-data; name=what\r\n\r\n\r\n--B--\r\n";

fn large(files: FileStorage) -> Options {
    Options { file_size_max: 100, files, ..Options::default() }
}

fn collector(media: &str, options: &Options) -> Result<Collector, FormError> {
    let mut headers = HeaderBuf::new();
    headers.push("Content-Type", media.as_bytes()).unwrap();
    Collector::new(headers.as_headers(), BodyLen::Unknown, options.clone())
}

/// The form of a body received in pieces of `size` bytes.
fn collect(media: &str, body: &[u8], size: usize, options: &Options) -> Result<Form, FormError> {
    let mut collector = collector(media, options)?;
    for piece in body.chunks(size) {
        collector.push(Bytes::copy_from_slice(piece))?;
    }
    collector.finish()
}

fn status(media: &str, body: &str, options: &Options) -> u16 {
    collect(media, body.as_bytes(), 7, options).map_or_else(|error| error.status(), |_| 200)
}

/// Fields as `name=text` or `name=filename:type:content`.
fn show(form: &Form) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let value = |value: &Value| match value {
        Value::Text(value) => text(value),
        Value::File(file) => {
            let media = file.content_type.as_deref().map_or_else(|| "-".to_owned(), text);
            format!("{}:{media}:{}", text(&file.filename), text(&read(&file.content)))
        }
    };
    form.fields.iter().map(|f| format!("{}={}", text(&f.name), value(&f.value))).collect()
}

fn read(content: &Content) -> Vec<u8> {
    match content {
        Content::Memory(bytes) => bytes.clone(),
        Content::Temporary(file) => {
            let mut bytes = vec![0; 200];
            let size = sys::pread(file.as_fd(), &mut bytes, 0).unwrap();
            assert_eq!(size as u64, content.len());
            bytes.truncate(size);
            bytes
        }
    }
}

#[test]
fn any_split_of_a_body_gives_the_same_form() {
    let folder = tempfile::tempdir().unwrap();
    let place = TemporaryDir::open(folder.path()).unwrap();
    for options in [large(FileStorage::Memory), large(FileStorage::Temporary(place))] {
        for size in 1..BODY.len() {
            let form = collect(MULTIPART, BODY.as_bytes(), size, &options).unwrap();
            let expected = [
                "who=Zoë",
                "f=../a.txt:text/plain:first\r\n--C-\r\n",
                "f=b:-:second",
                "none=:-:",
                "what=",
            ];
            assert_eq!(show(&form), expected, "in pieces of {size}");
        }
    }
    let body = "a=b+c&d=%C3%BC&a=2&empty";
    for size in 1..body.len() {
        let media = "Application/X-WWW-Form-Urlencoded; charset=utf-8";
        let form = collect(media, body.as_bytes(), size, &Options::default()).unwrap();
        assert_eq!(show(&form), ["a=b c", "d=ü", "a=2", "empty="]);
    }
}

#[test]
fn fields_are_found_by_name() {
    let mut form = collect(MULTIPART, BODY.as_bytes(), 9, &large(FileStorage::Memory)).unwrap();
    assert_eq!((form.text("who"), form.text("what")), (Some("Zoë"), Some("")));
    assert_eq!((form.text("f"), form.text("nobody")), (None, None));
    assert!(form.take_file("who").is_none() && form.text("who").is_some());
    assert_eq!(read(&form.take_file("f").unwrap().content), b"first\r\n--C-\r\n");
    assert_eq!(read(&form.take_file("f").unwrap().content), b"second");
    assert!(form.take_file("f").is_none());
    assert!(form.take_file("none").unwrap().content.is_empty());
}

#[test]
fn a_kept_file_has_the_name_given_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let place = TemporaryDir::open(folder.path()).unwrap();
    let options = large(FileStorage::Temporary(place.clone()));
    let mut form = collect(MULTIPART, BODY.as_bytes(), 50, &options).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let Content::Temporary(file) = form.take_file("f").unwrap().content else { panic!() };
    file.keep_new(place.as_fd(), c"kept").unwrap();
    drop(form);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::read(folder.path().join("kept")).unwrap(), b"first\r\n--C-\r\n");
}

#[test]
fn every_limit_is_enforced() {
    let files = large(FileStorage::Memory);
    let size = BODY.len() as u64;
    let held = "whoZoëf../a.txttext/plainfirst\r\n--C-\r\nfbsecondnonewhat".len();
    for (options, expected) in [
        (Options { body_size_max: size, ..files.clone() }, 200),
        (Options { body_size_max: size - 1, ..files.clone() }, 413),
        (Options { fields_max: 5, ..files.clone() }, 200),
        (Options { fields_max: 4, ..files.clone() }, 413),
        (Options { text_size_max: 4, ..files.clone() }, 200),
        (Options { text_size_max: 3, ..files.clone() }, 413),
        (Options { file_size_max: 13, ..files.clone() }, 200),
        (Options { file_size_max: 12, ..files.clone() }, 413),
        (Options { memory_max: held, ..files.clone() }, 200),
        (Options { memory_max: held - 1, ..files.clone() }, 413),
        (Options { files: FileStorage::Refuse, ..files }, 400),
    ] {
        assert_eq!(status(MULTIPART, BODY, &options), expected, "{options:?}");
    }
    let usual = Options::default();
    for (options, expected) in [
        (Options { body_size_max: 9, ..usual.clone() }, 200),
        (Options { body_size_max: 8, ..usual.clone() }, 413),
        (Options { fields_max: 2, ..usual.clone() }, 200),
        (Options { fields_max: 1, ..usual.clone() }, 413),
        (Options { text_size_max: 4, ..usual.clone() }, 200),
        (Options { text_size_max: 3, ..usual.clone() }, 413),
        (Options { memory_max: 9, ..usual.clone() }, 200),
        (Options { memory_max: 8, ..usual }, 413),
    ] {
        assert_eq!(status(URLENCODED, "a=bcde&f=", &options), expected, "{options:?}");
    }
}

#[test]
fn a_form_with_a_too_large_content_length_is_rejected_at_once() {
    let mut headers = HeaderBuf::new();
    headers.push("Content-Type", URLENCODED.as_bytes()).unwrap();
    let of = |len| {
        let options = Options { body_size_max: 10, ..Options::default() };
        Collector::new(headers.as_headers(), BodyLen::Exact(len), options)
    };
    assert!(of(10).is_ok());
    assert_eq!(of(11).unwrap_err().status(), 413);
}

#[test]
fn other_media_types_are_rejected() {
    let options = large(FileStorage::Memory);
    for (media, body, expected) in [
        ("text/plain", "a=b", 415),
        ("", "a=b", 415),
        ("multipart/mixed; boundary=B", BODY, 415),
        ("multipart/form-data", BODY, 400),
        ("multipart/form-data; boundary=\"\"", BODY, 400),
        (MULTIPART, "", 400),
        (MULTIPART, "nonsense", 400),
        (MULTIPART, &BODY[..BODY.len() - 6], 400),
        (MULTIPART, &BODY.replace("name=what", "x=y"), 400),
        (MULTIPART, &format!("{BODY}more"), 400),
        (MULTIPART, &BODY.replace("name=what", &format!("name={}", "x".repeat(9_000))), 413),
        (URLENCODED, "", 200),
        (URLENCODED, "%", 200),
    ] {
        assert_eq!(status(media, body, &options), expected, "{media} {body}");
    }
    let mut headers = HeaderBuf::new();
    headers.push("Content-Type", URLENCODED.as_bytes()).unwrap();
    let of = |headers: &HeaderBuf| {
        Collector::new(headers.as_headers(), BodyLen::Unknown, Options::default())
    };
    headers.push("Content-Encoding", b"identity").unwrap();
    assert!(of(&headers).is_ok());
    headers.push("Content-Encoding", b"gzip").unwrap();
    assert_eq!(of(&headers).unwrap_err().status(), 415);
    headers.push("Content-Type", URLENCODED.as_bytes()).unwrap();
    assert_eq!(of(&headers).unwrap_err().status(), 415);
    let none = HeaderBuf::new();
    assert_eq!(of(&none).unwrap_err().status(), 415);
}

#[test]
fn disk_errors_are_distinguished_and_leave_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let place = TemporaryDir::open(folder.path()).unwrap();
    fs::remove_dir(folder.path()).unwrap();
    let options = large(FileStorage::Temporary(place));
    let error = collect(MULTIPART, BODY.as_bytes(), 50, &options).unwrap_err();
    assert_eq!((error.status(), error.to_string()), (500, "the file could not be stored".into()));
    for (number, expected) in [(27, 413), (28, 507), (122, 507), (5, 500), (24, 500)] {
        let error = FormError::Storage(io::Error::from_raw_os_error(number));
        assert_eq!(error.status(), expected, "{error:?}");
    }
}

proptest! {
    #[test]
    fn random_bytes_are_a_form_or_an_error(body: Vec<u8>, size in 1..50_usize) {
        for media in [MULTIPART, URLENCODED] {
            let outcome = collect(media, &body, size, &large(FileStorage::Memory));
            if let Err(error) = outcome {
                prop_assert!(matches!(error.status(), 400 | 413));
            }
        }
    }
}
