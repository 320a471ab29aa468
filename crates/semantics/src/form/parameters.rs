//! `type; name=value; name="quoted value"`: fields with parameters (RFC 9110 §5.6.6).

use crate::token::is_tchar;

/// A name and an unquoted value.
pub(super) type Parameter<'a> = (&'a [u8], Vec<u8>);

/// The text before the first `;`, and the parameters; `None` if they are malformed.
pub(super) fn parse(value: &[u8]) -> Option<(&[u8], Vec<Parameter<'_>>)> {
    let end = value.iter().position(|b| *b == b';').unwrap_or(value.len());
    let (what, mut rest) = value.split_at(end);
    let mut parameters = Vec::new();
    while let [b';', tail @ ..] = rest {
        let tail = tail.trim_ascii_start();
        if tail.is_empty() || tail[0] == b';' {
            rest = tail; // empty parameters are allowed
            continue;
        }
        let equals = tail.iter().position(|b| *b == b'=')?;
        let (name, tail) = (&tail[..equals], &tail[equals + 1..]);
        let (value, tail) = match tail {
            [b'"', quoted @ ..] => unquote(quoted)?,
            _ => {
                let end = tail.iter().position(|b| !is_tchar(*b)).unwrap_or(tail.len());
                (tail[..end].to_vec(), &tail[end..])
            }
        };
        if name.is_empty() || !name.iter().all(|b| is_tchar(*b)) {
            return None;
        }
        parameters.push((name, value));
        rest = tail.trim_ascii_start();
    }
    rest.is_empty().then(|| (what.trim_ascii(), parameters))
}

/// The text up to the closing quote, and the rest. A backslash before a quote or another backslash
/// is an escape, as in the RFC and in old versions of curl. Before other characters it is literal,
/// as in the file names of browsers, which do not escape it.
fn unquote(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    loop {
        rest = match rest {
            [] => return None,
            [b'"', tail @ ..] => return Some((out, tail)),
            [b'\\', byte @ (b'"' | b'\\'), tail @ ..] | [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(value: &str) -> Option<String> {
        let (what, parameters) = parse(value.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let parameters = parameters.iter().map(|(n, v)| format!(" {}={}", text(n), text(v)));
        Some(text(what) + &parameters.collect::<String>())
    }

    #[test]
    fn parameters_are_tokens_or_quoted() {
        for (value, want) in [
            ("a", "a"),
            ("a/b ; c=d", "a/b c=d"),
            ("a;c=d;;e=\"f;=g\" ; h=i;", "a c=d e=f;=g h=i"),
            ("a; c=\"\\\"x\\\\\"", "a c=\"x\\"),
            ("a; c=\"C:\\dir\\file\"", "a c=C:\\dir\\file"),
            ("a; c=", "a c="),
        ] {
            assert_eq!(show(value).as_deref(), Some(want), "{value}");
        }
        for bad in
            ["a; c", "a; =d", "a; c d=e", "a; c=\"d", "a; c=\"d\"e", "a; c=d e", "a; c=\"\\\""]
        {
            assert_eq!(show(bad), None, "{bad}");
        }
    }
}
