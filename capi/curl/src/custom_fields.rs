//! The lines of `CURLOPT_HTTPHEADER`: they replace, remove or add fields
//! (CURLOPT_HTTPHEADER(3)).

use crate::text;

/// Lines such as `Name: value`, `Name:` to remove a field, and `Name;` for an empty value.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomFields {
    lines: Vec<Vec<u8>>,
}

impl CustomFields {
    pub(crate) fn new(lines: Vec<Vec<u8>>) -> Self {
        Self { lines }
    }

    /// The first line for a field, whatever it does with it. libcurl adds no such field then.
    pub(crate) fn find(&self, name: &str) -> Option<&[u8]> {
        let is_of = |line: &&Vec<u8>| names(line, name);
        self.lines.iter().find(is_of).map(|line| &line[..])
    }

    /// True if the value of a field has this token in its list.
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        let value = self.find(name).map(|line| &line[name.len() + 1..]).unwrap_or_default();
        text::has_token(value, token)
    }

    /// All lines, as the application has set them.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().map(|line| &line[..])
    }

    /// The lines to send, in their order: those with a value, and those that want an empty one.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Vec<u8>> {
        self.lines.iter().filter_map(|line| sent_form(line))
    }
}

/// True if a line is of this field.
pub(crate) fn names(line: &[u8], name: &str) -> bool {
    line.len() > name.len()
        && line[..name.len()].eq_ignore_ascii_case(name.as_bytes())
        && matches!(line[name.len()], b':' | b';')
}

/// A line as it is sent; `None` if it only removes a field.
fn sent_form(line: &[u8]) -> Option<Vec<u8>> {
    let has_more = |at: usize| !line[at + 1..].trim_ascii_start().is_empty();
    match memchr::memchr(b':', line) {
        Some(colon) => (colon > 0 && has_more(colon)).then(|| line.to_vec()),
        None => {
            let semicolon = memchr::memchr(b';', line)?;
            let is_empty_value = semicolon > 0 && line.len() == semicolon + 1;
            is_empty_value.then(|| [&line[..semicolon], b":"].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&str]) -> CustomFields {
        CustomFields::new(lines.iter().map(|line| line.as_bytes().to_vec()).collect())
    }

    #[test]
    fn lines_replace_remove_or_add_fields() {
        let rows = [
            ("X-A: 1", Some("X-A: 1")),
            ("X-A:1", Some("X-A:1")),
            ("Accept:", None),
            ("Accept: ", None),
            ("X-Empty;", Some("X-Empty:")),
            ("X-Empty; more", None),
            ("no colon", None),
            (": no name", None),
            (";", None),
        ];
        for (line, sent) in rows {
            let found: Vec<_> = fields(&[line]).sent().collect();
            let expected: Vec<_> = sent.map(|line| line.as_bytes().to_vec()).into_iter().collect();
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn first_line_of_a_field_is_found_in_any_case() {
        let fields = fields(&["accept:", "Accept: a", "EXPECT;", "Expected: x"]);
        assert_eq!(fields.find("Accept"), Some(&b"accept:"[..]));
        assert_eq!(fields.find("Expect"), Some(&b"EXPECT;"[..]));
        assert_eq!(fields.find("Exp"), None);
    }

    #[test]
    fn tokens_are_those_of_the_list() {
        let fields = fields(&["Transfer-Encoding: gzip, Chunked", "Expect: 100-continued"]);
        assert!(fields.has_token("Transfer-Encoding", "chunked"));
        assert!(!fields.has_token("Expect", "100-continue"));
        assert!(!fields.has_token("Connection", "close"));
    }
}
