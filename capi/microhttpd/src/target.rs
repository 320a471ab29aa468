//! The target of a request: the path that the access handler receives, and its arguments
//! (`MHD_GET_ARGUMENT_KIND`).

use std::borrow::Cow;

/// A name and a value from the query of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryValue {
    /// Decoded; may be empty, and may contain NUL.
    pub name: Vec<u8>,
    /// Decoded; `None` without `=`.
    pub value: Option<Vec<u8>>,
}

/// Decodes bytes in place: [`unescape`](crate::percent::unescape), or the program's function
/// (`MHD_OPTION_UNESCAPE_CALLBACK`).
pub type Unescape<'a> = dyn FnMut(&mut Vec<u8>) + 'a;

/// The decoded path, which ends at the first `?`. A fragment is part of it.
pub fn path_of(target: &[u8], unescape: &mut Unescape<'_>) -> Vec<u8> {
    let (path, _) = split(target);
    let mut path = path.to_vec();
    unescape(&mut path);
    path
}

/// The arguments in their order. An empty one between two `&` counts, one behind the last `&` does
/// not. A plus sign is a blank.
pub fn query_of(target: &[u8], unescape: &mut Unescape<'_>) -> Vec<QueryValue> {
    let Some(mut rest) = split(target).1 else { return Vec::new() };
    let mut values = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'&');
        let argument = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[], |end| &rest[end + 1..]);
        let equals = argument.iter().position(|byte| *byte == b'=');
        let mut decode = |text: &[u8]| {
            let mut text = blanks(text).into_owned();
            unescape(&mut text);
            text
        };
        let name = decode(&argument[..equals.unwrap_or(argument.len())]);
        let value = equals.map(|at| decode(&argument[at + 1..]));
        values.push(QueryValue { name, value });
    }
    values
}

/// The path and the query.
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Plus signs replaced by blanks.
fn blanks(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return text.into();
    }
    text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent;

    #[test]
    fn targets_are_split_as_by_the_original() {
        type Case =
            (&'static str, &'static [u8], &'static [(&'static [u8], Option<&'static [u8]>)]);
        let recorded: &[Case] = &[
            ("/", b"/", &[]),
            ("/a%20b+c", b"/a b+c", &[]),
            ("/a?", b"/a", &[]),
            ("/a?b", b"/a", &[(b"b", None)]),
            ("/a?b=", b"/a", &[(b"b", Some(b""))]),
            ("/a?=c", b"/a", &[(b"", Some(b"c"))]),
            ("/a?b=c&d=e", b"/a", &[(b"b", Some(b"c")), (b"d", Some(b"e"))]),
            ("/a?b=c&&d", b"/a", &[(b"b", Some(b"c")), (b"", None), (b"d", None)]),
            ("/a?&b", b"/a", &[(b"", None), (b"b", None)]),
            ("/a?b&", b"/a", &[(b"b", None)]),
            ("/a?b=c=d", b"/a", &[(b"b", Some(b"c=d"))]),
            ("/a?b+c=d+e", b"/a", &[(b"b c", Some(b"d e"))]),
            ("/a?b%20c=d%2Be", b"/a", &[(b"b c", Some(b"d+e"))]),
            ("/a?a=%3D%26&b=1", b"/a", &[(b"a", Some(b"=&")), (b"b", Some(b"1"))]),
            ("/%zz?%zz=%4", b"/%zz", &[(b"%zz", Some(b"%4"))]),
            ("/a%3Fb=c", b"/a?b=c", &[]),
            ("/a?b?c=d", b"/a", &[(b"b?c", Some(b"d"))]),
            ("/a?%00=x%00y", b"/a", &[(b"\0", Some(b"x\0y"))]),
            ("*", b"*", &[]),
            ("/a#f?x", b"/a#f", &[(b"x", None)]),
            ("/?a=1&a=2", b"/", &[(b"a", Some(b"1")), (b"a", Some(b"2"))]),
            ("/a;b=c?d;e=f", b"/a;b=c", &[(b"d;e", Some(b"f"))]),
        ];
        let mut unescape = |text: &mut Vec<u8>| {
            percent::unescape(text);
        };
        for (target, path, arguments) in recorded {
            assert_eq!(path_of(target.as_bytes(), &mut unescape), *path, "{target}");
            let found = query_of(target.as_bytes(), &mut unescape);
            let found: Vec<_> = found.iter().map(|v| (&v.name[..], v.value.as_deref())).collect();
            assert_eq!(found, *arguments, "{target}");
        }
    }

    #[test]
    fn the_function_of_the_program_decodes_path_names_and_values() {
        let mut seen = Vec::new();
        let mut upper = |text: &mut Vec<u8>| {
            seen.push(text.clone());
            text.make_ascii_uppercase();
        };
        assert_eq!(path_of(b"/a%20?b", &mut upper), b"/A%20");
        let values = query_of(b"/?b+c=d&e", &mut upper);
        assert_eq!(values[0], QueryValue { name: b"B C".into(), value: Some(b"D".into()) });
        assert_eq!(values[1], QueryValue { name: b"E".into(), value: None });
        let expected: [&[u8]; 4] = [b"/a%20", b"b c", b"d", b"e"];
        assert_eq!(seen, expected);
    }
}
