//! Parses lists of challenges, and lists of parameters without a scheme (RFC 9110 §11.2, §11.6.1).
//!
//! Commas separate challenges as well as the parameters of one challenge. The text after a comma
//! decides: a token with `=` is a parameter, any other token a scheme. A malformed challenge is
//! ignored with all its parameters: a part of it could be weaker than the whole.

use std::borrow::Cow;

use crate::token::is_tchar;

/// One challenge of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// Compared without case.
    pub scheme: &'a [u8],
    /// Used by some schemes instead of parameters.
    pub token68: Option<&'a [u8]>,
    params: Params<'a>,
}

type Params<'a> = Vec<(&'a [u8], Cow<'a, [u8]>)>;

impl Challenge<'_> {
    /// The value of a parameter, without quotes; names are compared without case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        get(&self.params, name)
    }

    /// True if this is the challenge's scheme.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme.as_bytes())
    }
}

/// The challenges of all `WWW-Authenticate` fields of a response, in order; at most the first 16.
pub fn challenges<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Vec<Challenge<'a>> {
    let mut found = Vec::new();
    for field in fields {
        read(field, &mut found);
    }
    found.truncate(CHALLENGES_MAX);
    found
}

/// The value of a parameter in a list without a scheme, such as `Authentication-Info`.
pub(super) fn info<'a>(field: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    let mut cursor = ChallengeCursor { rest: field };
    while cursor.skip_separators() {
        match cursor.item() {
            Some(ChallengeItem::Param(found, value))
                if found.eq_ignore_ascii_case(name.as_bytes()) =>
            {
                return Some(value);
            }
            Some(_) => {}
            None => cursor.skip_item(),
        }
    }
    None
}

fn read<'a>(field: &'a [u8], found: &mut Vec<Challenge<'a>>) {
    let mut cursor = ChallengeCursor { rest: field };
    // Also `None` while the parameters of a malformed challenge are skipped.
    let mut current: Option<Challenge<'a>> = None;
    while found.len() < CHALLENGES_MAX && cursor.skip_separators() {
        match cursor.item() {
            Some(ChallengeItem::Scheme(scheme, token68)) => {
                let next = Challenge { scheme, token68, params: Vec::new() };
                found.extend(current.replace(next));
            }
            Some(ChallengeItem::Param(name, value)) => {
                current = current.filter(|challenge| challenge.may_have(name));
                if let Some(challenge) = &mut current {
                    challenge.params.push((name, value));
                }
            }
            None => {
                current = None;
                cursor.skip_item();
            }
        }
    }
    found.extend(current);
}

impl Challenge<'_> {
    /// True if the parameter is the first of its name, and there is no `token68`.
    fn may_have(&self, name: &[u8]) -> bool {
        let is_new = self.params.iter().all(|(known, _)| !known.eq_ignore_ascii_case(name));
        is_new && self.token68.is_none() && self.params.len() < PARAMS_MAX
    }
}

fn get<'p>(params: &'p Params<'_>, name: &str) -> Option<&'p [u8]> {
    let mut params = params.iter();
    params.find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| &**value)
}

/// An element between two commas.
enum ChallengeItem<'a> {
    /// A scheme; its first parameter may follow without a comma.
    Scheme(&'a [u8], Option<&'a [u8]>),
    Param(&'a [u8], Cow<'a, [u8]>),
}

/// The rest of a field.
struct ChallengeCursor<'a> {
    rest: &'a [u8],
}

impl<'a> ChallengeCursor<'a> {
    /// Skips empty list elements (§5.6.1.2). Returns false at the end.
    fn skip_separators(&mut self) -> bool {
        self.take(|byte| matches!(byte, b' ' | b'\t' | b','));
        !self.rest.is_empty()
    }

    /// `None` if the element is neither; then the cursor is before the next comma.
    fn item(&mut self) -> Option<ChallengeItem<'a>> {
        let name = self.take(is_tchar);
        if name.is_empty() {
            return None;
        }
        let has_blank = !self.take(is_blank).is_empty();
        if let Some(rest) = self.rest.strip_prefix(b"=") {
            self.rest = rest;
            self.take(is_blank);
            let value = self.value()?;
            return self.is_at_end().then_some(ChallengeItem::Param(name, value));
        }
        let token68 = self.token68().filter(|_| has_blank);
        let is_scheme = token68.is_some() || has_blank || self.is_at_end();
        is_scheme.then_some(ChallengeItem::Scheme(name, token68))
    }

    /// A token or quoted string.
    fn value(&mut self) -> Option<Cow<'a, [u8]>> {
        match self.rest.strip_prefix(b"\"") {
            Some(quoted) => self.quoted(quoted),
            None => Some(Cow::Borrowed(self.take(is_tchar))).filter(|token| !token.is_empty()),
        }
    }

    /// The part after the first quote, without escapes (§5.6.4).
    fn quoted(&mut self, text: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let mut escapes = 0_usize;
        let mut at = 0;
        loop {
            match *text.get(at)? {
                b'"' => break,
                b'\\' if is_text(*text.get(at + 1)?) => (escapes, at) = (escapes + 1, at + 2),
                b'\\' => return None,
                byte if is_text(byte) => at += 1,
                _ => return None,
            }
        }
        self.rest = &text[at + 1..];
        let text = &text[..at];
        if escapes == 0 {
            return Some(Cow::Borrowed(text));
        }
        let mut value = Vec::with_capacity(text.len() - escapes);
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            value.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
        }
        Some(Cow::Owned(value))
    }

    /// Only if nothing else follows before the next comma; otherwise nothing is consumed.
    fn token68(&mut self) -> Option<&'a [u8]> {
        let start = self.rest;
        let marks = |byte| matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/');
        let digits = self.take(|byte| byte.is_ascii_alphanumeric() || marks(byte));
        let padding = self.take(|byte| byte == b'=');
        let token = &start[..digits.len() + padding.len()];
        if !digits.is_empty() && self.is_at_end() {
            return Some(token);
        }
        self.rest = start;
        None
    }

    /// True before a comma, or at the end.
    fn is_at_end(&mut self) -> bool {
        self.take(is_blank);
        matches!(self.rest, [] | [b',', ..])
    }

    /// Skips to the next comma outside of quotes.
    fn skip_item(&mut self) {
        while let [first, rest @ ..] = self.rest {
            match first {
                b',' => break,
                b'"' => match self.quoted(rest) {
                    Some(_) => {}
                    None => self.rest = &[],
                },
                _ => self.rest = rest,
            }
        }
    }

    fn take(&mut self, is_wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !is_wanted(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// True for bytes allowed in a quoted string: HTAB, SP, VCHAR or obs-text.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

/// Maximum number of challenges; servers send two or three.
const CHALLENGES_MAX: usize = 16;

/// Maximum number of parameters; Digest has the most with nine.
const PARAMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shows challenges as `scheme[token68]{name:value|...}`.
    fn shown(fields: &[&str]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let one = |challenge: &Challenge<'_>| {
            let param =
                |(name, value): &(&[u8], Cow<'_, [u8]>)| format!("{}:{}", text(name), text(value));
            let params: Vec<_> = challenge.params.iter().map(param).collect();
            let token = challenge.token68.map_or_else(String::new, |t| format!("[{}]", text(t)));
            format!("{}{token}{{{}}}", text(challenge.scheme), params.join("|"))
        };
        challenges(fields.iter().map(|field| field.as_bytes())).iter().map(one).collect()
    }

    #[test]
    fn lists_of_challenges() {
        for (field, expected) in [
            (r#"Basic realm="x""#, &["Basic{realm:x}"][..]),
            // RFC 9110 §11.6.1.
            (
                r#"Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\"""#,
                &["Basic{realm:simple}", r#"Newauth{realm:apps|type:1|title:Login to "apps"}"#],
            ),
            ("Negotiate", &["Negotiate{}"]),
            ("Negotiate, NTLM", &["Negotiate{}", "NTLM{}"]),
            ("Negotiate YWJj==, Basic realm=x", &["Negotiate[YWJj==]{}", "Basic{realm:x}"]),
            ("A ab, B a=b, c=d", &["A[ab]{}", "B{a:b|c:d}"]),
            ("A a = b ,, c\t=\t\"d,e\" , B", &["A{a:b|c:d,e}", "B{}"]),
            (", ,A a=b,", &["A{a:b}"]),
            ("A\t \ta=\"\"", &["A{a:}"]),
            ("", &[]),
            (" , ", &[]),
        ] {
            assert_eq!(shown(&[field]), expected, "{field}");
        }
        assert_eq!(shown(&["A a=b", "c=d, B", "C"]), ["A{a:b}", "B{}", "C{}"]);
        let field: &[u8] = b"DIGEST Realm=\"x\"";
        let found = challenges([field]);
        assert!(found[0].is("Digest") && found[0].get("realm") == Some(b"x"));
        assert_eq!(found[0].get("nonce"), None);
    }

    #[test]
    fn malformed_challenges_are_ignored() {
        for (field, expected) in [
            (r#"A a="b, B c=d"#, &[][..]),
            (r#"A a="b\"#, &[]),
            ("A a=b, c=, B c=d", &["B{c:d}"]),
            ("A a=b c=d, e=f, B g=h", &["B{g:h}"]),
            ("A a=b, a=c, B", &["B{}"]),
            ("A a=b, A=c, B", &["B{}"]),
            ("A ab, c=d, B", &["B{}"]),
            ("A a=\"b\"x, c=\"d,e\", B", &["B{}"]),
            ("A a=b, =x, c=d, B", &["B{}"]),
            ("A a=b, (x \"y, z\"), B", &["B{}"]),
            ("A a=\"b\u{7f}\", B", &[]),
            ("A a=\"b\n\", B", &[]),
            ("A@ a=b, B", &["B{}"]),
            ("a=b", &[]),
        ] {
            assert_eq!(shown(&[field]), expected, "{field}");
        }
    }

    #[test]
    fn long_lists_are_truncated() {
        let many = "A, ".repeat(CHALLENGES_MAX + 1);
        assert_eq!(shown(&[&many, "B"]).len(), CHALLENGES_MAX);
        let params = |count| (0..count).map(|n| format!("p{n}=v,")).collect::<String>();
        assert_eq!(shown(&[&format!("A {}", params(PARAMS_MAX))]).len(), 1);
        assert_eq!(shown(&[&format!("A {}", params(PARAMS_MAX + 1))]).len(), 0);
    }

    #[test]
    fn parameters_without_a_scheme() {
        let field = b"qop=auth, x y=z, NextNonce=\"a\\\"b\", nextnonce=c";
        assert_eq!(info(field, "nextnonce").as_deref(), Some(&b"a\"b"[..]));
        assert_eq!(info(field, "rspauth"), None);
        assert_eq!(info(b"\"nextnonce=a", "nextnonce"), None);
    }

    proptest! {
        #[test]
        fn random_bytes_are_parsed(
            fields in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..4),
        ) {
            challenges(fields.iter().map(|field| &field[..]));
            for field in &fields {
                info(field, "nextnonce");
            }
        }

        #[test]
        fn random_words_are_parsed(field in "([ABab]{1,2}|[ ,=\"\\\\\t]|[xé]){0,24}") {
            challenges([field.as_bytes()]);
            info(field.as_bytes(), "a");
        }

        #[test]
        fn quoted_values_round_trip(value in "[ -~é]{0,16}") {
            let mut field = b"A a=".to_vec();
            crate::auth::digest::quote(value.as_bytes(), &mut field);
            let found = challenges([&field[..]]);
            prop_assert_eq!(found[0].get("a"), Some(value.as_bytes()));
        }
    }
}
