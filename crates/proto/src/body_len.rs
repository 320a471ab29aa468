//! The length of a body, as its sender gives it (RFC 9110 §8.6, RFC 9112 §6).

/// The length of a body, as declared by its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLen {
    /// No body.
    #[default]
    Empty,
    /// The number of bytes. The response to a HEAD contains the number and no body.
    Exact(u64),
    /// Its end is marked: by the last chunk, or by the end of the connection.
    Unknown,
}
