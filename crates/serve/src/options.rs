//! What the owner of a site decides.

use std::time::Duration;

use crate::precompressed::OutdatedHook;
use crate::root::Lookup;
use crate::upload::UploadOptions;

/// How a directory is served. The defaults are safe on the open internet.
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
    /// Reports compressed files that are sent though they are older than their originals.
    pub on_outdated: Option<OutdatedHook>,
    /// Clients may put files into directories that are there; without it, they may not. Whoever is
    /// admitted may: see `fulmar_web::auth`. The thread that took a file sends it from then on,
    /// others within [`Options::revalidate_after`].
    pub upload: Option<UploadOptions>,
    /// Answer with the root's index file where there is nothing by the name that was asked for and
    /// the name has no extension: for applications of a single page that make names up.
    pub single_page: bool,
    /// How names are kept below the root.
    pub lookup: Lookup,
    /// Files and directories remembered at a time.
    pub entries_max: usize,
    /// Bytes of small files and listings held in memory.
    pub contents_size_max: u64,
    /// How long what is remembered of a name is believed without looking.
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
