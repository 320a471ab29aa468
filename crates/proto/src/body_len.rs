//! The length of a body, as its sender gives it (RFC 9110 §8.6, RFC 9112 §6).

/// How long a body is, as far as its sender says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLen {
    /// No body.
    #[default]
    Empty,
    /// As many bytes as this; the answer to a HEAD carries the number and no body.
    Exact(u64),
    /// Its end is marked: by the last chunk, or by the end of the connection.
    Unknown,
}
