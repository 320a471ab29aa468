//! What the tests of several crates share.
#![forbid(unsafe_code)]

pub mod app;
pub mod asker;
pub mod curl;
pub mod dns;
pub mod http;
pub mod load;
pub mod loops;
pub mod process;
pub mod tree;
