//! Codes: their numbers and texts.

use fulmar_curl::code::{CurlCode, HeaderCode, MultiCode, ShareCode, UrlCode};

#[test]
fn texts_are_those_of_libcurl() {
    let mut rows = 0;
    for line in include_str!("../cases/texts.txt").lines().filter(|line| !line.starts_with('#')) {
        let [function, first, last, text] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line:?} has not four columns");
        };
        let text_of = match function {
            "easy" => CurlCode::text_of,
            "multi" => MultiCode::text_of,
            "share" => ShareCode::text_of,
            "url" => UrlCode::text_of,
            _ => panic!("unknown function in {line:?}"),
        };
        for number in first.parse::<i32>().unwrap()..=last.parse().unwrap() {
            assert_eq!(text_of(number), text, "{function} {number}");
            rows += 1;
        }
    }
    assert_eq!(rows, 4 * 136);
}

#[test]
fn numbers_and_codes_agree() {
    assert_eq!(CurlCode::ALL.len(), 87);
    assert!(CurlCode::ALL.iter().all(|code| CurlCode::from_number(code.number()) == Some(*code)));
    assert_eq!(CurlCode::from_number(20), None, "a number that is not in use any more");
    assert_eq!(MultiCode::from_number(-1), Some(MultiCode::CallMultiPerform));
    assert_eq!(ShareCode::NotBuiltIn.number(), 5);
    assert_eq!(
        UrlCode::ALL.iter().map(|code| code.number()).collect::<Vec<_>>(),
        (0..31).collect::<Vec<_>>()
    );
    assert_eq!(HeaderCode::from_number(6), Some(HeaderCode::BadArgument));
    assert_eq!(HeaderCode::from_number(8), None);
}

#[test]
fn results_have_numbers() {
    assert_eq!(UrlCode::number_of(Ok(())), 0);
    assert_eq!(UrlCode::number_of(Err(UrlCode::BadPath)), 25);
    assert_eq!(CurlCode::OperationTimedOut.to_string(), "Timeout was reached");
}
