//! The smallest server: one function, one listener.
//!
//! `cargo run --example smallest 127.0.0.1:8080`
#![forbid(unsafe_code)]

use std::error::Error;

use fulmar::host::{Host, Listen};
use fulmar::proto::Request;
use fulmar::server::{HandlerResult, Responder};

fn hello(responder: &mut Responder<'_>, _: &Request<'_>) -> HandlerResult {
    responder.text(200, "hello\n")
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let running =
        Host::of(|_| Ok(hello)).listen(Listen::tcp(address.parse()?)).threads(2).start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}
