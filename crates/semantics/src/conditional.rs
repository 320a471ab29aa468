//! Conditional requests (RFC 9110 §13).
//!
//! Pure functions of fields and validators. They apply only if the response would otherwise be a
//! success (§13.2.1): [`Conditions::select`] for GET and HEAD, including ranges, and
//! [`Conditions::evaluate_change`] for methods that change the resource.

use fulmar_proto::Headers;

use crate::date::parse_date;
use crate::range::{Selection, select};

/// Validators of a representation (§8.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// An entity tag with its quotes, with the prefix `W/` if it is weak.
    pub etag: Option<String>,
    /// Seconds since 1970, if HTTP can represent the time ([`crate::date::is_http_time`]) and it is
    /// not in the future.
    pub modified: Option<i64>,
}

/// The result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Respond as without preconditions.
    Proceed,
    /// The client has this representation: 304.
    NotModified,
    /// A precondition is false: 412.
    Failed,
}

/// The response to a GET or HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// 412.
    Failed,
    /// 304.
    NotModified,
    /// 200, 206 or 416, depending on the selection.
    Content(Selection),
}

/// The conditional fields and ranges of a request, found in one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions<'a> {
    /// For lists, which may span several fields.
    headers: Option<Headers<'a>>,
    if_match: bool,
    if_none_match: bool,
    if_modified_since: Single<'a>,
    if_unmodified_since: Single<'a>,
    if_range: Single<'a>,
    range: Single<'a>,
}

impl<'a> Conditions<'a> {
    /// Finds the fields.
    pub fn of(headers: Headers<'a>) -> Self {
        let mut found = Self::default();
        for (name, value) in headers.iter() {
            let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
            match name.len() {
                5 if is("range") => found.range.set(value),
                8 if is("if-match") => found.if_match = true,
                8 if is("if-range") => found.if_range.set(value),
                13 if is("if-none-match") => found.if_none_match = true,
                17 if is("if-modified-since") => found.if_modified_since.set(value),
                19 if is("if-unmodified-since") => found.if_unmodified_since.set(value),
                _ => continue,
            }
            found.headers = Some(headers);
        }
        found
    }

    /// True if the request has no conditions and no range: the common case.
    pub fn is_empty(&self) -> bool {
        self.headers.is_none()
    }

    /// Evaluates the preconditions of a GET or HEAD in the order of §13.2.2, without `If-Range`.
    pub fn evaluate(&self, current: &Validators) -> Verdict {
        if !self.is_as_expected(Some(current)) {
            return Verdict::Failed;
        }
        if self.if_none_match {
            if self.list_has("if-none-match", current, TagComparison::Weak) {
                return Verdict::NotModified;
            }
        } else if let Some(since) = self.if_modified_since.date()
            && current.modified.is_some_and(|modified| modified <= since)
        {
            return Verdict::NotModified;
        }
        Verdict::Proceed
    }

    /// Selects the response to a GET or HEAD from `len` bytes. Ranges apply only to GET (§14.2).
    pub fn select(&self, is_get: bool, current: &Validators, len: u64, unix_now: i64) -> Selected {
        if self.is_empty() {
            return Selected::Content(Selection::Whole);
        }
        match self.evaluate(current) {
            Verdict::Failed => Selected::Failed,
            Verdict::NotModified => Selected::NotModified,
            Verdict::Proceed => {
                let range = self.range(current, unix_now).filter(|_| is_get);
                Selected::Content(range.map_or(Selection::Whole, |range| select(range, len)))
            }
        }
    }

    /// Evaluates the preconditions of a method that changes the resource, such as PUT and DELETE,
    /// in the order of §13.2.2. `current` is `None` if the resource does not exist. Never returns
    /// [`Verdict::NotModified`].
    pub fn evaluate_change(&self, current: Option<&Validators>) -> Verdict {
        let is_there = |current| self.list_has("if-none-match", current, TagComparison::Weak);
        if !self.is_as_expected(current) || self.if_none_match && current.is_some_and(is_there) {
            return Verdict::Failed;
        }
        Verdict::Proceed
    }

    /// Evaluates `If-Match`, or without it `If-Unmodified-Since`, which is ignored if the resource
    /// has no date (§13.1.4).
    fn is_as_expected(&self, current: Option<&Validators>) -> bool {
        if self.if_match {
            return current
                .is_some_and(|now| self.list_has("if-match", now, TagComparison::Strong));
        }
        let Some(since) = self.if_unmodified_since.date() else { return true };
        current.and_then(|current| current.modified).is_none_or(|modified| modified <= since)
    }

    /// The `Range` to apply, unless `If-Range` excludes it (§13.1.5, §14.2).
    ///
    /// A date must be equal to that of the file, and at least a second old: within the same second
    /// the file may have changed twice (§8.8.2.2).
    pub fn range(&self, current: &Validators, unix_now: i64) -> Option<&'a [u8]> {
        let range = self.range.one()?;
        let holds = match self.if_range {
            Single::Absent => true,
            Single::Repeated => false,
            Single::One(tag) if is_entity_tag(tag) => {
                !tag.starts_with(b"W/") && current.etag.as_deref().map(str::as_bytes) == Some(tag)
            }
            Single::One(date) => current
                .modified
                .is_some_and(|modified| parse_date(date) == Some(modified) && modified < unix_now),
        };
        holds.then_some(range)
    }

    fn list_has(&self, field: &str, current: &Validators, how: TagComparison) -> bool {
        let headers = self.headers.expect("set together with the flag");
        let ours = current.etag.as_ref().and_then(|etag| split_entity_tag(etag.as_bytes()));
        headers.get_all(field).any(|list| match (list, ours) {
            (b"*", _) => true,
            (list, Some((ours, _))) => entity_tags(list).any(|tag| tag.matches(ours, how)),
            (_, None) => false,
        })
    }
}

/// A field that may occur once; repeated, it is ignored.
#[derive(Clone, Copy, Debug, Default)]
enum Single<'a> {
    #[default]
    Absent,
    One(&'a [u8]),
    Repeated,
}

impl<'a> Single<'a> {
    fn set(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Repeated => Self::Repeated,
        };
    }

    fn one(self) -> Option<&'a [u8]> {
        match self {
            Self::One(value) => Some(value),
            Self::Absent | Self::Repeated => None,
        }
    }

    /// Invalid dates are ignored (§13.1.3, §13.1.4).
    fn date(self) -> Option<i64> {
        self.one().and_then(parse_date)
    }
}

/// The comparison of entity tags (§8.8.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TagComparison {
    Strong,
    Weak,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntityTag<'a> {
    weak: bool,
    /// With its quotes.
    opaque: &'a [u8],
}

impl EntityTag<'_> {
    fn matches(self, ours: EntityTag<'_>, how: TagComparison) -> bool {
        let is_strong = !self.weak && !ours.weak;
        self.opaque == ours.opaque && (how == TagComparison::Weak || is_strong)
    }
}

/// The tags of a list (§8.8.3, §5.6.1), up to the first invalid one.
fn entity_tags(list: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', later @ ..] = rest {
            rest = later;
        }
        let (tag, later) = split_entity_tag(rest)?;
        let later = later.trim_ascii_start();
        rest = if matches!(later, [] | [b',', ..]) { later } else { &[] };
        Some(tag)
    })
}

fn split_entity_tag(bytes: &[u8]) -> Option<(EntityTag<'_>, &[u8])> {
    let (weak, quoted) = match bytes.strip_prefix(b"W/") {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let inner = quoted.strip_prefix(b"\"")?;
    let end = inner.iter().position(|b| *b == b'"')?;
    let is_etagc = |b: &u8| matches!(b, 0x21 | 0x23..=0x7e | 0x80..);
    if !inner[..end].iter().all(is_etagc) {
        return None;
    }
    let (opaque, rest) = quoted.split_at(end + 2);
    Some((EntityTag { weak, opaque }, rest))
}

fn is_entity_tag(value: &[u8]) -> bool {
    value.starts_with(b"\"") || value.starts_with(b"W/\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::Span;
    use fulmar_proto::HeaderBuf;

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const THEN_UNIX: i64 = 784_111_777;

    fn fields(lines: &[(&str, &str)]) -> HeaderBuf {
        let mut headers = HeaderBuf::new();
        for (name, value) in lines {
            headers.push(name, value.as_bytes()).unwrap();
        }
        headers
    }

    fn current() -> Validators {
        Validators { etag: Some("\"a\"".to_owned()), modified: Some(THEN_UNIX) }
    }

    #[test]
    fn preconditions_are_evaluated_in_order() {
        use Verdict::{Failed, NotModified, Proceed};
        let table: &[(&[(&str, &str)], Verdict)] = &[
            (&[], Proceed),
            (&[("Accept", "*/*")], Proceed),
            // If-Match: strong, lists, `*`.
            (&[("If-Match", "\"a\"")], Proceed),
            (&[("If-Match", "\"b\"")], Failed),
            (&[("If-Match", "*")], Proceed),
            (&[("If-Match", "W/\"a\"")], Failed),
            (&[("If-Match", "\"b\", \"a\"")], Proceed),
            (&[("If-Match", "\"b\""), ("If-Match", "\"a\"")], Proceed),
            (&[("If-Match", "a")], Failed),
            (&[("If-Match", "")], Failed),
            // If-Unmodified-Since; If-Match has precedence.
            (&[("If-Unmodified-Since", THEN)], Proceed),
            (&[("If-Unmodified-Since", AFTER)], Proceed),
            (&[("If-Unmodified-Since", BEFORE)], Failed),
            (&[("If-Unmodified-Since", "never")], Proceed),
            (&[("If-Match", "\"a\""), ("If-Unmodified-Since", BEFORE)], Proceed),
            (&[("If-Match", "\"b\""), ("If-Unmodified-Since", AFTER)], Failed),
            // If-None-Match: weak, lists, `*`.
            (&[("If-None-Match", "\"a\"")], NotModified),
            (&[("if-none-match", "W/\"a\"")], NotModified),
            (&[("If-None-Match", "\"b\"")], Proceed),
            (&[("If-None-Match", "*")], NotModified),
            (&[("If-None-Match", "\"b\" ,W/\"c\",, \"a\"")], NotModified),
            (&[("If-None-Match", "\"b,\"a\"")], Proceed),
            (&[("If-None-Match", "\"a,b\", \"a\"")], NotModified),
            (&[("If-None-Match", "w/\"a\"")], Proceed),
            (&[("If-None-Match", "\"b\" \"a\"")], Proceed),
            (&[("If-None-Match", "\"a")], Proceed),
            (&[("If-None-Match", "\"A\"")], Proceed),
            (&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], NotModified),
            // If-Modified-Since; If-None-Match has precedence.
            (&[("If-Modified-Since", THEN)], NotModified),
            (&[("If-Modified-Since", AFTER)], NotModified),
            (&[("If-Modified-Since", BEFORE)], Proceed),
            (&[("If-Modified-Since", "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
            (&[("If-Modified-Since", "1994")], Proceed),
            (&[("If-Modified-Since", THEN), ("If-Modified-Since", THEN)], Proceed),
            (&[("If-None-Match", "\"b\""), ("If-Modified-Since", AFTER)], Proceed),
            (&[("If-None-Match", "\"a\""), ("If-Modified-Since", BEFORE)], NotModified),
            // Both kinds of fields.
            (&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified),
            (&[("If-Match", "\"b\""), ("If-None-Match", "\"a\"")], Failed),
            (&[("If-Unmodified-Since", THEN), ("If-Modified-Since", THEN)], NotModified),
        ];
        for (lines, verdict) in table {
            let headers = fields(lines);
            let conditions = Conditions::of(headers.as_headers());
            assert_eq!(conditions.evaluate(&current()), *verdict, "{lines:?}");
        }
    }

    #[test]
    fn without_a_date_only_tags_count() {
        let nameless = Validators { modified: None, ..current() };
        for name in ["If-Modified-Since", "If-Unmodified-Since"] {
            let headers = fields(&[(name, AFTER)]);
            let conditions = Conditions::of(headers.as_headers());
            assert_eq!(conditions.evaluate(&nameless), Verdict::Proceed, "{name}");
        }
    }

    #[test]
    fn without_a_tag_only_the_asterisk_and_dates_count() {
        let untagged = Validators { etag: None, ..current() };
        for (name, value, verdict) in [
            ("If-Match", "*", Verdict::Proceed),
            ("If-Match", "\"a\"", Verdict::Failed),
            ("If-None-Match", "*", Verdict::NotModified),
            ("If-None-Match", "\"a\"", Verdict::Proceed),
            ("If-Modified-Since", THEN, Verdict::NotModified),
        ] {
            let headers = fields(&[(name, value)]);
            let conditions = Conditions::of(headers.as_headers());
            assert_eq!(conditions.evaluate(&untagged), verdict, "{name}: {value}");
        }
    }

    #[test]
    fn a_weak_tag_matches_weakly() {
        let weak = Validators { etag: Some("W/\"a\"".to_owned()), ..current() };
        for (name, value, verdict) in [
            ("If-Match", "\"a\"", Verdict::Failed),
            ("If-Match", "W/\"a\"", Verdict::Failed),
            ("If-None-Match", "\"a\"", Verdict::NotModified),
            ("If-None-Match", "W/\"a\"", Verdict::NotModified),
        ] {
            let headers = fields(&[(name, value)]);
            let conditions = Conditions::of(headers.as_headers());
            assert_eq!(conditions.evaluate(&weak), verdict, "{name}: {value}");
        }
        let headers = fields(&[("Range", "bytes=0-0"), ("If-Range", "W/\"a\"")]);
        assert_eq!(Conditions::of(headers.as_headers()).range(&weak, THEN_UNIX + 1), None);
    }

    #[test]
    fn changes_require_their_preconditions() {
        use Verdict::{Failed, Proceed};
        type Row<'a> = (&'a [(&'a str, &'a str)], Verdict, Verdict);
        let table: &[Row<'_>] = &[
            // The fields, the result if the resource exists, and the result if it does not.
            (&[], Proceed, Proceed),
            (&[("If-Match", "*")], Proceed, Failed),
            (&[("If-Match", "\"a\"")], Proceed, Failed),
            (&[("If-Match", "\"b\"")], Failed, Failed),
            (&[("If-None-Match", "*")], Failed, Proceed),
            (&[("If-None-Match", "\"a\"")], Failed, Proceed),
            (&[("If-None-Match", "W/\"a\"")], Failed, Proceed),
            (&[("If-None-Match", "\"b\"")], Proceed, Proceed),
            (&[("If-Unmodified-Since", THEN)], Proceed, Proceed),
            (&[("If-Unmodified-Since", BEFORE)], Failed, Proceed),
            (&[("If-Modified-Since", AFTER)], Proceed, Proceed),
            (&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], Failed, Failed),
        ];
        for (lines, something, nothing) in table {
            let headers = fields(lines);
            let conditions = Conditions::of(headers.as_headers());
            assert_eq!(conditions.evaluate_change(Some(&current())), *something, "{lines:?}");
            assert_eq!(conditions.evaluate_change(None), *nothing, "{lines:?}");
        }
    }

    #[test]
    fn if_range_must_match_exactly() {
        for (lines, holds) in [
            (&[][..], true),
            (&[("If-Range", "\"a\"")], true),
            (&[("If-Range", "\"b\"")], false),
            (&[("If-Range", "W/\"a\"")], false),
            (&[("If-Range", THEN)], true),
            (&[("If-Range", AFTER)], false),
            (&[("If-Range", BEFORE)], false),
            (&[("If-Range", "a")], false),
            (&[("If-Range", "\"a\""), ("If-Range", "\"a\"")], false),
        ] {
            let mut headers = fields(lines);
            headers.push("Range", b"bytes=0-0").unwrap();
            let conditions = Conditions::of(headers.as_headers());
            let expected = holds.then_some(&b"bytes=0-0"[..]);
            assert_eq!(conditions.range(&current(), THEN_UNIX + 1), expected, "{lines:?}");
        }
        let headers = fields(&[("Range", "bytes=0-0"), ("If-Range", THEN)]);
        assert_eq!(Conditions::of(headers.as_headers()).range(&current(), THEN_UNIX), None);
        let headers = fields(&[("Range", "bytes=0-0"), ("Range", "bytes=1-1")]);
        assert_eq!(Conditions::of(headers.as_headers()).range(&current(), THEN_UNIX), None);
    }

    #[test]
    fn conditions_are_evaluated_before_ranges() {
        let one = Selected::Content(Selection::One(Span { start: 2, len: 8 }));
        let whole = Selected::Content(Selection::Whole);
        for (lines, is_get, selected) in [
            (&[][..], true, whole.clone()),
            (&[("Range", "bytes=2-")], true, one.clone()),
            (&[("Range", "bytes=2-")], false, whole.clone()),
            (&[("Range", "bytes=2-"), ("If-Range", "\"b\"")], true, whole),
            (&[("Range", "bytes=2-"), ("If-Match", "\"a\"")], true, one),
            (&[("Range", "bytes=2-"), ("If-None-Match", "*")], true, Selected::NotModified),
            (&[("Range", "bytes=2-"), ("If-Match", "\"b\"")], true, Selected::Failed),
            (&[("Range", "bytes=10-")], true, Selected::Content(Selection::Unsatisfiable)),
        ] {
            let headers = fields(lines);
            let conditions = Conditions::of(headers.as_headers());
            let got = conditions.select(is_get, &current(), 10, THEN_UNIX + 1);
            assert_eq!(got, selected, "{lines:?}");
        }
    }

    #[test]
    fn most_requests_have_no_conditions() {
        let headers = fields(&[("Host", "a"), ("Accept", "*/*"), ("Origin", "b")]);
        assert!(Conditions::of(headers.as_headers()).is_empty());
        let headers = fields(&[("RANGE", "bytes=0-0")]);
        assert!(!Conditions::of(headers.as_headers()).is_empty());
    }
}
