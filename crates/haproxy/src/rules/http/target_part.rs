//! A part of a target.

/// A part of a target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPart {
    /// The path, without the query.
    Path,
    /// The path and the query.
    PathAndQuery,
    /// The query, without the question mark.
    Query,
    /// All of it.
    Whole,
}
