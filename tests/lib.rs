//! What the tests of several crates share.
#![forbid(unsafe_code)]

pub mod alone;
pub mod app;
pub mod asker;
pub mod beside;
pub mod budget;
pub mod buffers;
pub mod byhand;
pub mod cases;
pub mod certs;
pub mod crowd;
pub mod curl;
pub mod dns;
pub mod every_loop;
pub mod fetch;
pub mod gateway;
pub mod get;
pub mod heard;
pub mod http;
pub mod https;
pub mod load;
pub mod loops;
pub mod origins;
pub mod own_process;
pub mod process;
pub mod proxied;
pub mod relay;
pub mod resolving;
pub mod scripted;
pub mod server_hand;
pub mod statistics;
pub mod threads;
pub mod tls_end;
pub mod transfers;
pub mod tree;
