//! The URL API, against the results of libcurl in `cases/urls.txt`.

use fulmar_curl::code::UrlCode;
use fulmar_curl::url::{CurlUrl, PART_LEN_MAX, UrlFlags, UrlPart};

#[test]
fn urls_are_those_of_libcurl() {
    let mut url = CurlUrl::new();
    let mut steps = 0;
    let mut wrong = Vec::new();
    let lines: Vec<&str> = include_str!("../cases/urls.txt").lines().collect();
    for (at, pair) in lines.windows(2).enumerate() {
        let [line, next] = pair else { unreachable!("windows of two lines") };
        if line.is_empty() {
            url = CurlUrl::new();
        }
        if line.is_empty() || line.starts_with(['#', '=']) {
            continue;
        }
        let expected = next.strip_prefix("= ").expect("a result follows each step");
        let result = run(&mut url, line);
        steps += 1;
        if result != expected {
            wrong.push(format!("line {}: {line}\n  {expected}\n  {result}", at + 1));
        }
    }
    assert!(wrong.is_empty(), "{} of {steps} steps:\n{}", wrong.len(), wrong.join("\n"));
    assert!(steps > 500, "only {steps} steps were found");
}

/// One step; its verb is described in the file.
fn run(url: &mut CurlUrl, line: &str) -> String {
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    match words[..] {
        ["get", part, flags] => get(url, part_of(part), flags_of(flags)),
        ["clear", part] => {
            url.clear(part_of(part));
            "[0]".to_owned()
        }
        ["parse", flags, text] => {
            let (set, shown) = flags.split_once('/').expect("two sets of flags");
            *url = CurlUrl::new();
            if let Err(code) = url.set(UrlPart::Url, &bytes_of(text), flags_of(set)) {
                return format!("[{}]", code.number());
            }
            let parts = UrlPart::ALL.iter().cycle().skip(1).take(UrlPart::ALL.len());
            let texts = parts.map(|part| get(url, *part, flags_of(shown)));
            texts.collect::<Vec<_>>().join(" | ")
        }
        [part, flags, text] => {
            let result = url.set(part_of(part), &bytes_of(text), flags_of(flags));
            format!("[{}]", UrlCode::number_of(result))
        }
        _ => panic!("{line:?} is no step"),
    }
}

fn get(url: &CurlUrl, part: UrlPart, flags: UrlFlags) -> String {
    match url.get(part, flags) {
        Ok(text) if text.is_empty() => "\"\"".to_owned(),
        Ok(text) => {
            let shown = |byte: u8| match byte {
                b' '..=b'~' if byte != b'\\' => char::from(byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            text.into_iter().map(shown).collect()
        }
        Err(code) => format!("[{}]", code.number()),
    }
}

fn part_of(name: &str) -> UrlPart {
    let part = UrlPart::ALL.into_iter().find(|part| format!("{part:?}").to_lowercase() == name);
    part.unwrap_or_else(|| panic!("{name:?} is no part"))
}

fn flags_of(names: &str) -> UrlFlags {
    let names = names.split('+').filter(|name| *name != "-");
    names.fold(UrlFlags::default(), |flags, name| {
        let flag = FLAGS.iter().find(|(of, _)| *of == name);
        flags | flag.unwrap_or_else(|| panic!("{name:?} is no flag")).1
    })
}

fn bytes_of(text: &str) -> Vec<u8> {
    let text = if text == "\"\"" { "" } else { text };
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend(&part.as_bytes()[2..]);
    }
    bytes
}

#[test]
fn copies_are_independent() {
    let mut url = CurlUrl::new();
    url.set(UrlPart::Url, b"http://me:pw@[fe80::1%25lo]:81/p?q#f", UrlFlags::default()).unwrap();
    let copy = url.clone();
    url.set(UrlPart::Host, b"other.test", UrlFlags::default()).unwrap();
    let text = |url: &CurlUrl| get(url, UrlPart::Url, UrlFlags::default());
    assert_eq!(text(&copy), "http://me:pw@[fe80::1%25lo]:81/p?q#f");
    assert_eq!(text(&url), "http://me:pw@other.test:81/p?q#f");
}

#[test]
fn clearing_the_url_clears_every_part() {
    let parts = [
        (UrlPart::Scheme, "http", Err(UrlCode::NoScheme)),
        (UrlPart::User, "user", Err(UrlCode::NoUser)),
        (UrlPart::Password, "pass", Err(UrlCode::NoPassword)),
        (UrlPart::Options, "opt", Err(UrlCode::NoOptions)),
        (UrlPart::Host, "site.test", Err(UrlCode::NoHost)),
        (UrlPart::Port, "81", Err(UrlCode::NoPort)),
        (UrlPart::Path, "/path", Ok(b"/".to_vec())),
        (UrlPart::Query, "a=b", Err(UrlCode::NoQuery)),
        (UrlPart::Fragment, "top", Err(UrlCode::NoFragment)),
        (UrlPart::ZoneId, "lo", Err(UrlCode::NoZoneId)),
    ];
    for (part, text, cleared) in parts {
        let mut url = CurlUrl::new();
        url.set(part, text.as_bytes(), UrlFlags::default()).unwrap();
        assert_eq!(url.get(part, UrlFlags::default()), Ok(text.into()), "{part:?}");
        url.clear(UrlPart::Url);
        assert_eq!(url.get(part, UrlFlags::default()), cleared, "{part:?}");
        assert_eq!(url, CurlUrl::new());
    }
}

#[test]
fn long_texts_are_refused() {
    let mut url = CurlUrl::new();
    let long = vec![b'a'; PART_LEN_MAX + 1];
    for part in UrlPart::ALL {
        let result = url.set(part, &long, UrlFlags::default());
        let is_scheme = part == UrlPart::Scheme;
        let code = if is_scheme { UrlCode::BadScheme } else { UrlCode::MalformedInput };
        assert_eq!(result, Err(code), "{part:?}");
    }
    let longest = url.set(UrlPart::Query, &long[1..], UrlFlags::default());
    assert_eq!(longest, Ok(()));
}

#[test]
fn parts_have_numbers() {
    assert_eq!(UrlPart::from_number(0), Ok(UrlPart::Url));
    assert_eq!(UrlPart::from_number(10), Ok(UrlPart::ZoneId));
    assert_eq!(UrlPart::from_number(11), Err(UrlCode::UnknownPart));
    assert_eq!(UrlPart::from_number(-1), Err(UrlCode::UnknownPart));
}

#[test]
fn random_bytes_never_panic() {
    let bytes = b"ht:/@?#%25[]..;41a\xc3\xa4 \x01-0x";
    let mut state: u32 = 0x2545_f491;
    let mut next = |max: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % max
    };
    let mut set = 0;
    for round in 0..20_000_u32 {
        let mut url = CurlUrl::new();
        for _ in 0..3 {
            let text: Vec<u8> = (0..next(14)).map(|_| bytes[next(bytes.len())]).collect();
            let part = UrlPart::ALL[next(22).saturating_sub(11)];
            let flags = UrlFlags(round % 4096);
            set += u32::from(url.set(part, &text, flags).is_ok());
        }
        for part in UrlPart::ALL {
            let _ = url.get(part, UrlFlags(round % 8192));
        }
    }
    assert!(set > 1_000, "only {set} texts were valid");
}

const FLAGS: [(&str, UrlFlags); 13] = [
    ("DEFAULT_PORT", UrlFlags::DEFAULT_PORT),
    ("NO_DEFAULT_PORT", UrlFlags::NO_DEFAULT_PORT),
    ("DEFAULT_SCHEME", UrlFlags::DEFAULT_SCHEME),
    ("NON_SUPPORT_SCHEME", UrlFlags::NON_SUPPORT_SCHEME),
    ("PATH_AS_IS", UrlFlags::PATH_AS_IS),
    ("DISALLOW_USER", UrlFlags::DISALLOW_USER),
    ("URLDECODE", UrlFlags::URLDECODE),
    ("URLENCODE", UrlFlags::URLENCODE),
    ("APPENDQUERY", UrlFlags::APPENDQUERY),
    ("GUESS_SCHEME", UrlFlags::GUESS_SCHEME),
    ("NO_AUTHORITY", UrlFlags::NO_AUTHORITY),
    ("ALLOW_SPACE", UrlFlags::ALLOW_SPACE),
    ("PUNYCODE", UrlFlags::PUNYCODE),
];
