//! The options of a site.

use std::time::Duration;

use crate::precompressed::OutdatedHook;
use crate::root::Lookup;
use crate::upload::UploadOptions;

/// The options of a site. The defaults are safe on the open internet.
#[derive(Clone, Debug)]
pub struct Options {
    /// Serve and list names that begin with a dot. Otherwise they do not exist.
    pub hidden: bool,
    /// List directories that have no index file. Otherwise they are forbidden.
    pub list: bool,
    /// Send `NAME.br`, `NAME.zst` or `NAME.gz` for `NAME` to clients that accept it, if it is
    /// smaller. The lookup costs up to three system calls for each file, once in
    /// [`Options::revalidate_after`].
    pub precompressed: bool,
    /// Reports compressed files that are sent although they are older than their originals.
    pub on_outdated: Option<OutdatedHook>,
    /// Accept uploads (PUT) into existing directories. Authentication is separate: see
    /// `fulmar_web::auth`. The thread that received a file sends it at once, others within
    /// [`Options::revalidate_after`].
    pub upload: Option<UploadOptions>,
    /// Send the root's index file for unknown names without an extension: for single-page
    /// applications.
    pub single_page: bool,
    /// How names are confined to the root.
    pub lookup: Lookup,
    /// The maximum number of cached files and directories.
    pub entries_max: usize,
    /// The maximum number of bytes of small files and listings in memory.
    pub contents_size_max: u64,
    /// How long a cached name is used without a check.
    pub revalidate_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hidden: false,
            list: false,
            precompressed: false,
            on_outdated: None,
            upload: None,
            single_page: false,
            lookup: Lookup::Probe,
            entries_max: 1024,
            contents_size_max: 64 << 20,
            revalidate_after: Duration::from_secs(1),
        }
    }
}
