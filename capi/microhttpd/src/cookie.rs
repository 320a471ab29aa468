//! The first `Cookie` field of a request as values of `MHD_COOKIE_KIND`.
//!
//! The rules are the same at each level of `MHD_OPTION_STRICT_FOR_CLIENT`.

/// Names and values in their order, borrowed from the field.
///
/// A name ends at `=`, `,` or `;`, a value at `,` or `;` outside of quotes. A value that begins and
/// ends with a quote loses both. Separators at the end begin another pair, which is empty.
#[must_use]
pub fn cookies_of(field: &[u8]) -> Vec<(&[u8], &[u8])> {
    let mut found = Vec::new();
    // An empty pair comes from a separator, or from a field of blanks.
    let mut rest = (!field.is_empty()).then_some(field);
    while let Some(pair) = rest {
        let pair = skip_blanks(pair);
        let end = pair.iter().position(|byte| matches!(byte, b'=' | b',' | b';'));
        let name = strip_blanks(&pair[..end.unwrap_or(pair.len())]);
        let (value, after) = match end {
            Some(at) if pair[at] == b'=' => value_of(&pair[at + 1..]),
            Some(at) => (&[][..], Some(&pair[at + 1..])),
            None => (&[][..], None),
        };
        if let Some(value) = unquoted(value) {
            found.push((name, value));
        }
        rest = after;
    }
    found
}

/// The value up to its separator, and the text behind that.
fn value_of(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut is_quoted = false;
    let end = text.iter().position(|byte| {
        is_quoted ^= *byte == b'"';
        !is_quoted && matches!(byte, b',' | b';')
    });
    end.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
}

/// `None` for a lone quote, which is both the first and the last byte: the original drops the pair.
fn unquoted(value: &[u8]) -> Option<&[u8]> {
    match value {
        [b'"'] => None,
        [b'"', inner @ .., b'"'] => Some(inner),
        _ => Some(value),
    }
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let from = text.iter().position(|byte| *byte != b' ').unwrap_or(text.len());
    &text[from..]
}

/// Without blanks at the end.
fn strip_blanks(text: &[u8]) -> &[u8] {
    let last = text.iter().rposition(|byte| *byte != b' ');
    &text[..last.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_as_by_the_original() {
        let recorded: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("a=b", &[("a", "b")]),
            ("a=b; c=d", &[("a", "b"), ("c", "d")]),
            ("a=b;c=d", &[("a", "b"), ("c", "d")]),
            ("a=b;  c=d", &[("a", "b"), ("c", "d")]),
            ("a = b", &[("a", " b")]),
            ("a  =b", &[("a", "b")]),
            ("a=\"b\"", &[("a", "b")]),
            ("a=\"b\"; c=\"d\"", &[("a", "b"), ("c", "d")]),
            ("a=\"b;c\"; d=e", &[("a", "b;c"), ("d", "e")]),
            ("a=\"b c\"", &[("a", "b c")]),
            ("a", &[("a", "")]),
            ("a;b=c", &[("a", ""), ("b", "c")]),
            ("a=b; c  ; d=e", &[("a", "b"), ("c", ""), ("d", "e")]),
            ("a=", &[("a", "")]),
            ("=b", &[("", "b")]),
            ("a=b;", &[("a", "b"), ("", "")]),
            ("a=b; ", &[("a", "b"), ("", "")]),
            (";", &[("", ""), ("", "")]),
            (",", &[("", ""), ("", "")]),
            ("   ", &[("", "")]),
            ("a=b;;c=d", &[("a", "b"), ("", ""), ("c", "d")]),
            ("a=b;   ;c=d", &[("a", "b"), ("", ""), ("c", "d")]),
            ("a=b; , c=d", &[("a", "b"), ("", ""), ("c", "d")]),
            ("a=b,c=d", &[("a", "b"), ("c", "d")]),
            ("a=b,,c=d", &[("a", "b"), ("", ""), ("c", "d")]),
            ("a,b=c", &[("a", ""), ("b", "c")]),
            ("a=b c=d", &[("a", "b c=d")]),
            ("a=b\tc", &[("a", "b\tc")]),
            ("a=b;\tc=d", &[("a", "b"), ("\tc", "d")]),
            ("a=\"b", &[("a", "\"b")]),
            ("a=\"b;c; d=e", &[("a", "\"b;c; d=e")]),
            ("a=b\"c", &[("a", "b\"c")]),
            ("a=b\"c;d\"; e=f", &[("a", "b\"c;d\""), ("e", "f")]),
            ("a=\"b\"c", &[("a", "\"b\"c")]),
            ("a=\"b\" ;c=d", &[("a", "\"b\" "), ("c", "d")]),
            ("a=\"\"", &[("a", "")]),
            ("a=\"\"\"", &[("a", "\"")]),
            ("a=\"", &[]),
            ("\"a;b\"=c", &[("\"a", ""), ("b\"", "c")]),
            ("a\"b=c", &[("a\"b", "c")]),
            ("a=b=c", &[("a", "b=c")]),
            (";a=b", &[("", ""), ("a", "b")]),
            ("$Version=1; a=b; $Path=/", &[("$Version", "1"), ("a", "b"), ("$Path", "/")]),
            ("a=b; a=c", &[("a", "b"), ("a", "c")]),
            ("a=b ;c=d", &[("a", "b "), ("c", "d")]),
            ("a=%20+", &[("a", "%20+")]),
            ("a=b; c d=e; f=g", &[("a", "b"), ("c d", "e"), ("f", "g")]),
            ("a=b; =c; d=e", &[("a", "b"), ("", "c"), ("d", "e")]),
            ("a=\\b", &[("a", "\\b")]),
            ("a=\"a\\\"b\"", &[("a", "a\\\"b")]),
        ];
        for (field, expected) in recorded {
            let expected: Vec<_> =
                expected.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            assert_eq!(cookies_of(field.as_bytes()), expected, "{field}");
        }
    }
}
