//! The behaviour of libcurl 7.88 on fulmar's client: everything that needs no C pointer.
//!
//! `capi/curl-abi` makes the shared library from it: it checks pointers, calls C, and owns the
//! handles. Here is what the handles mean. The source is libcurl's documentation; where that is
//! silent, the behaviour of the library itself, which the tests compare.

#![forbid(unsafe_code)]

pub mod code;
pub mod compare;
pub mod date;
pub mod environment;
pub mod escape;

mod option;
mod values;

mod easy_options;

pub use easy_options::{Argument, EasyOptions, RequestKind};
pub use option::{OptionId, OptionInfo, OptionKind, names};
pub use values::{CPointer, OptionValue, OptionValues};

pub mod altsvc;
pub mod auth;
pub mod cookies;
pub mod hsts;
pub mod mime;
pub mod netrc;
mod number;
pub mod stamp;
#[cfg(test)]
mod testing;
mod text;
pub mod url;
