//! Fetches URLs and prints their bodies, in a loop of our own.
//!
//! `cargo run --example get http://127.0.0.1:8080/a http://127.0.0.1:8080/b`
#![forbid(unsafe_code)]

use std::error::Error;

use fulmar::drive::{Epoll, Reactor};

mod printer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::new(printer::client(), Epoll::new()?);
    reactor.with(printer::start)?;
    while reactor.engine.running() > 0 {
        reactor.turn()?; // waits until something is ready or due, and handles all of it
    }
    printer::verdict(&reactor.engine)
}
