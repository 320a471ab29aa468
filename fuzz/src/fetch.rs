//! The lists and the journal of the downloader.

/// A list of URLs.
pub fn list(data: &[u8]) {
    fulmar_fetch::testing::list(data);
}

/// A journal that an interrupted run has left.
pub fn journal(data: &[u8]) {
    fulmar_fetch::testing::journal(data);
}
