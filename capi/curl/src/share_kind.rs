//! The kinds of data that a share may hold.

/// What a share may hold (`curl_lock_data`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum SharedKind {
    /// The share itself: which handles use it.
    Share = 1,
    /// Cookies.
    Cookie = 2,
    /// Resolved names.
    Dns = 3,
    /// TLS sessions.
    SslSession = 4,
    /// Connections.
    Connect = 5,
    /// The list of public suffixes, which is compiled in.
    Psl = 6,
    /// Hosts that need HTTPS.
    Hsts = 7,
}
