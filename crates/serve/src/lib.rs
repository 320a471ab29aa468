//! A static file server: a handler of `fulmar-server`.
//!
//! A [`Site`] is a directory and what is known of its files; [`Site::answer`] turns a request
//! head into an [`Answer`]: status, fields, and a body that lies in memory or in an open file.
//! [`Files`] is the handler that sends it.
//!
//! The modules stand in reading order: from the request target to the file, from the file to
//! the answer, and what is written about it afterwards.
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
pub use respond::{Answer, Body};
pub use site::Site;
pub use upload::UploadOptions;
