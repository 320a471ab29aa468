//! A static file server: a handler of `fulmar-server`.
//!
//! A [`Site`] is a directory with a cache of its files. [`Site::answer`] turns a request head into
//! an [`SiteResponse`]: status, fields, and a body in memory or in an open file. [`Files`] is the
//! handler that sends it.
#![forbid(unsafe_code)]

pub mod options;
pub mod path;
pub mod root;

pub mod mime;

pub mod listing;
pub mod pages;

pub mod cache;
pub mod file;
pub mod precompressed;
pub mod respond;
pub mod site;
pub mod upload;

pub mod endpoints;
pub mod ledger;

pub mod files;

pub use files::{Files, FilesOptions};
pub use options::Options;
pub use precompressed::OutdatedHook;
pub use respond::{SiteBody, SiteResponse};
pub use site::Site;
pub use upload::UploadOptions;
