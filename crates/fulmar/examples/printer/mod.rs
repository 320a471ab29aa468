//! What the examples do with answers, whatever drives them: bodies go to standard output, each in
//! one piece, and errors to standard error.

use std::collections::HashMap;
use std::error::Error;
use std::io::{Write, stdout};
use std::time::Instant;

use fulmar::client::{
    Application, BuildError, Client, Config, Context, Request, TransferEvent, TransferId,
};
use fulmar::sys;

/// Keeps what has come until it is whole.
#[derive(Debug, Default)]
pub(crate) struct Printer {
    bodies: HashMap<TransferId, Vec<u8>>,
    failed: usize,
}

impl Application for Printer {
    fn handle(&mut self, _: &mut Context<'_>, transfer: TransferId, event: TransferEvent<'_>) {
        match event {
            TransferEvent::Data(bytes) => self.bodies.entry(transfer).or_default().extend(bytes),
            TransferEvent::Done(done) => {
                let body = self.bodies.remove(&transfer).unwrap_or_default();
                let printed = match done.result {
                    Ok(()) => stdout().write_all(&body).map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(error) = printed {
                    eprintln!("{}: {error}", done.request.url());
                    self.failed += 1;
                }
            }
            _ => {}
        }
    }
}

/// A client that prints.
pub(crate) fn client() -> Client<Printer> {
    Client::new(sys::now(), sys::wall_clock(), Printer::default(), Config::default())
}

/// Starts a transfer for each URL of the command line.
pub(crate) fn start(client: &mut Client<Printer>, now: Instant) -> Result<(), BuildError> {
    for url in std::env::args().skip(1) {
        client.start(now, &Request::get(&url).build()?);
    }
    Ok(())
}

/// An error if a transfer failed; its cause was printed.
pub(crate) fn verdict(client: &Client<Printer>) -> Result<(), Box<dyn Error>> {
    match client.application().failed {
        0 => Ok(()),
        failed => Err(format!("{failed} failed").into()),
    }
}
