//! The same in an application's own loop around `poll(2)`.
//!
//! `cargo run --example poll http://127.0.0.1:8080/a http://127.0.0.1:8080/b`
#![forbid(unsafe_code)]

use std::error::Error;

use fulmar::drive::{ExternalLoop, Reactor};

mod printer;
mod waits;

fn main() -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::new(printer::client(), ExternalLoop::level_triggered());
    let mut waits = waits::Waits::default();
    reactor.with(printer::start)?;
    while reactor.engine.running() > 0 {
        waits.turn(&mut reactor, None)?;
    }
    printer::verdict(&reactor.engine)
}
