//! What the tests of several crates share.
#![forbid(unsafe_code)]

pub mod app;
pub mod curl;
pub mod fetch;
pub mod http;
pub mod load;
pub mod loops;
pub mod process;
pub mod tree;
