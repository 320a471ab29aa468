//! The C interface of libcurl 7.88.1 over [`fulmar_curl`]: this crate becomes `libcurl.so.4`.
//!
//! It is the border to C, and the only place of the library with unsafe code. Here pointers are
//! checked as far as C allows, strings are copied, and callbacks are called; what a function means
//! is in [`fulmar_curl`], which borrows nothing while C runs. Every entry that may panic catches
//! it: panics must not unwind into C.

pub mod connection;
pub mod easy;
pub mod form;
pub mod form_list;
pub mod found_header;
pub mod header;
pub mod mime;
pub mod websocket;
pub mod websocket_frame;

pub mod multi;
pub mod share;

pub mod slist;
pub mod text;
pub mod url;
pub mod version;

pub mod later;

pub mod memory;
mod strings;

pub mod handle;
pub mod message;

mod border;
mod certificates;
mod hsts;

mod socket_address;
mod tls_info;
