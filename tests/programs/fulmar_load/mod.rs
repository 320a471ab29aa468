//! `fulmar load` as a process.

mod cli;
mod faults;
mod http2;
mod peers;

use fulmar_tests::http::HttpClient;
use fulmar_tests::process::eventually;

/// Waits until a server has received `requests` requests from clients other than `client`, which
/// reads the counts. If the load starts slowly, these reads alone are many.
fn loaded(client: &mut HttpClient, requests: u64) {
    let before = client.ledger().of("recv");
    let mut own = 0;
    eventually("requests", || {
        own += 1;
        client.ledger().of("recv") >= before + own + requests
    });
}
