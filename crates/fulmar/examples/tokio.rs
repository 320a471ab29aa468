//! The same as a task of tokio: the whole reactor is one descriptor and one deadline there,
//! however many connections it has.
#![forbid(unsafe_code)]

use std::error::Error;
use std::future::pending;
use std::os::fd::AsFd;
use std::time::Instant;

use fulmar::drive::{Epoll, Reactor};
use tokio::io::unix::AsyncFd;
use tokio::time::sleep_until;

mod printer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::new(printer::client(), Epoll::new()?);
    // tokio wants a descriptor of its own; it leads to the same epoll.
    #[expect(deprecated, reason = "the new one is unsafe, for types that may close it: not this")]
    let descriptor = AsyncFd::new(reactor.as_fd().try_clone_to_owned()?)?;
    reactor.with(printer::start)?;
    while reactor.engine.running() > 0 {
        tokio::select! {
            guard = descriptor.readable() => {
                let mut guard = guard?;
                let empty = reactor.stats().empty;
                reactor.try_turn()?;
                // Only when there is nothing left: tokio reports changes, not states.
                if reactor.stats().empty > empty {
                    guard.clear_ready();
                }
            }
            () = until(reactor.deadline()) => reactor.try_turn()?,
        }
    }
    printer::verdict(&reactor.engine)
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline.into()).await,
        None => pending().await,
    }
}
