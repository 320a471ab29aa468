//! A server inside an application that has a loop of its own: `poll(2)` waits for the server's
//! sockets and for the application's standard input.
//!
//! `cargo run --example embedded 127.0.0.1:8080`; it answers with the line that was typed last.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::error::Error;
use std::io::BufRead;
use std::os::fd::AsFd;
use std::rc::Rc;

use fulmar::drive::{ExternalLoop, ListenOptions, Reactor, listen};
use fulmar::proto::Request;
use fulmar::server::{HandlerApp, HandlerResult, Limits, Responder, ServerEngine, Stop};
use fulmar::sys;

mod waits;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let said = Rc::new(RefCell::new("nothing yet".to_owned()));
    let words = Rc::clone(&said);
    let answer = move |responder: &mut Responder<'_>, _: &Request<'_>| -> HandlerResult {
        responder.text(200, format!("{}\n", words.borrow()))
    };
    let app = HandlerApp::new(answer, sys::now(), sys::wall_clock);
    let engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    let (listener, address) = listen(address.parse()?, ListenOptions::default())?;
    let mut reactor = Reactor::new(engine, ExternalLoop::level_triggered());
    let listener = reactor.listen(listener)?;
    reactor.engine.add_listener(listener, None);
    println!("listening on http://{address}/");

    let mut waits = waits::Waits::default();
    loop {
        if waits.turn(&mut reactor, Some(std::io::stdin().as_fd()))? {
            let mut input = std::io::stdin().lock();
            let typed = String::from_utf8_lossy(input.fill_buf()?).into_owned();
            let Some(line) = typed.lines().last() else {
                return Ok(()); // the end of the input is the end of the program
            };
            *said.borrow_mut() = line.to_owned();
            input.consume(typed.len());
        }
    }
}
