//! Status lines of other protocols that a client reads as those of HTTP/1.0.

use std::sync::Arc;

/// Beginnings of lines that count as the status line of a response of HTTP/1.0 with status 200
/// (CURLOPT_HTTP200ALIASES(3)). The case of letters does not matter. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatusAliases(Option<Arc<Vec<Vec<u8>>>>);

impl StatusAliases {
    /// With these beginnings.
    pub fn new(lines: Vec<Vec<u8>>) -> Self {
        Self((!lines.is_empty()).then(|| Arc::new(lines)))
    }

    /// True if a line that begins with `seen` may be, or is, one of them.
    pub(crate) fn may_match(&self, seen: &[u8]) -> bool {
        let matches = |alias: &Vec<u8>| {
            let len = alias.len().min(seen.len());
            alias[..len].eq_ignore_ascii_case(&seen[..len])
        };
        self.0.as_ref().is_some_and(|aliases| aliases.iter().any(matches))
    }
}
