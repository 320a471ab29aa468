//! A program with a server inside, as `bench/peers/libmicrohttpd.c` is one with libmicrohttpd.
//!
//! Takes and answers what `bench/README.md` says of every server.
#![forbid(unsafe_code)]

mod answers;
mod options;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use fulmar::drive::{Epoll, ListenOptions, Reactor, listen};
use fulmar::server::{Calls, Layers, Limits, ServerEngine, Stop};
use fulmar::sys;
use fulmar::tls::{Identity, ServerTls};

use crate::answers::Answers;
use crate::options::Options;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fulmar-bench-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until a signal ends the process.
fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    sys::raise_descriptors()?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let defer_accept = options.defer_accept;
    let (listener, address) =
        listen(any, ListenOptions { defer_accept, ..ListenOptions::default() })?;
    let calls = Calls::new(Answers::open(&options.site)?, sys::now(), sys::wall_clock);
    let engine = ServerEngine::new(sys::now(), calls, Limits::default(), Stop::new());
    let mut reactor = Reactor::new(engine, Epoll::new()?);
    let listener = reactor.listen(listener)?;
    let tls = options.identity.as_ref().map(tls).transpose()?;
    reactor.engine.add_listener(listener, tls);
    println!("{}", address.port());
    loop {
        reactor.turn()?;
    }
}

/// A session for each connection.
fn tls(identity: &Identity) -> Result<Layers, Box<dyn Error>> {
    let tls = ServerTls::new(identity.clone().into())?;
    Ok(Layers::new(move |_| Some(Box::new(tls.session().ok()?))))
}
