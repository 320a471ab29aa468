//! The certificates that are trusted unless others are set.

/// The certificates of Debian and others, in one file.
pub(crate) const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Their folder.
pub(crate) const SYSTEM_ROOTS_FOLDER: &str = "/etc/ssl/certs";
