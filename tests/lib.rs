//! Shared code of the tests of several crates.
#![forbid(unsafe_code)]

pub mod app;
pub mod budget;
pub mod buffers;
pub mod byhand;
pub mod cases;
pub mod certs;
pub mod client_in_loop;
pub mod client_threads;
pub mod curl;
pub mod dns;
pub mod every_loop;
pub mod fetch;
pub mod gateway;
pub mod get;
pub mod http;
pub mod http2;
pub mod https;
pub mod load;
pub mod lookups;
pub mod loops;
pub mod origins;
pub mod own_process;
pub mod process;
pub mod recording_app;
pub mod recording_client;
pub mod running_haproxy;
pub mod scripted;
pub mod server_hand;
pub mod statistics;
pub mod tcp_proxy;
pub mod test_proxy;
pub mod threads;
pub mod tls_end;
pub mod transfers;
pub mod tree;
