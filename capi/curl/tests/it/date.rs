//! Dates, against the results of libcurl in `cases/dates.txt`.

use fulmar_curl::date::getdate;

#[test]
fn dates_are_those_of_libcurl() {
    let is_case = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let cases: Vec<&str> = include_str!("../cases/dates.txt").lines().filter(is_case).collect();
    assert!(cases.len() > 200, "only {} dates were found", cases.len());
    let mut wrong = Vec::new();
    for case in cases {
        let (expected, date) = case.split_once('\t').expect("seconds and a date");
        let result = getdate(date.as_bytes());
        if result.to_string() != expected {
            wrong.push(format!("{date}: {result} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_text_is_no_date() {
    for text in [&b""[..], b"   ", b"\xff", b"\xff1 Jan 20\xff00"] {
        assert_eq!(getdate(text), -1, "{text:?}");
    }
}

#[test]
fn bytes_that_are_no_letters_separate_items() {
    assert_eq!(getdate(b"\xff1\x80Jan\xa02000\xff"), 946_684_800);
}
