//! The same in an application's own loop around `poll(2)`: the reactor says what to wait for, and
//! is told what came of it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::os::fd::RawFd;
use std::time::Instant;

use fulmar::client::Client;
use fulmar::drive::{Change, Changes, Interest, Reactor, Ready};
use fulmar::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use printer::Printer;

mod printer;

/// What the application waits for.
#[derive(Default)]
struct Waits {
    watched: BTreeMap<RawFd, Interest>,
    deadline: Option<Instant>,
}

impl Waits {
    /// Hears what has changed; to be done after everything that the reactor is told.
    fn update(&mut self, reactor: &mut Reactor<Client<Printer>, Changes>) {
        while let Some(change) = reactor.poll_change() {
            match change {
                Change::Watch { fd, interest, .. } => drop(self.watched.insert(fd, interest)),
                Change::Forget { fd, .. } => drop(self.watched.remove(&fd)),
                Change::Timer { deadline } => self.deadline = deadline,
            }
        }
    }

    /// Waits for what is ready: nothing, if the deadline has come.
    fn wait(
        &self,
        reactor: &Reactor<Client<Printer>, Changes>,
    ) -> Result<Vec<(RawFd, Ready)>, Box<dyn Error>> {
        let descriptors = self.watched.iter().filter_map(|(fd, interest)| {
            let open = reactor.descriptor(*fd)?;
            Some((*fd, PollFd::from_borrowed_fd(open, flags(*interest))))
        });
        let (numbers, mut entries): (Vec<_>, Vec<_>) = descriptors.unzip();
        let left = self.deadline.map(|due| due.saturating_duration_since(sys::now()));
        let left = left.map(Timespec::try_from).transpose()?;
        poll(&mut entries, left.as_ref())?;
        let events = numbers.into_iter().zip(&entries).map(|(fd, e)| (fd, ready(e.revents())));
        Ok(events.filter(|(_, ready)| *ready != Ready::default()).collect())
    }
}

fn flags(interest: Interest) -> PollFlags {
    let of = |wanted: bool, flags| if wanted { flags } else { PollFlags::empty() };
    of(interest.read, PollFlags::IN)
        | of(interest.write, PollFlags::OUT)
        | of(interest.hangup, PollFlags::RDHUP)
}

fn ready(flags: PollFlags) -> Ready {
    let failed = flags.intersects(PollFlags::HUP | PollFlags::ERR);
    Ready {
        read: flags.contains(PollFlags::IN),
        write: flags.contains(PollFlags::OUT),
        hangup: failed || flags.contains(PollFlags::RDHUP),
        failed,
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::new(printer::client(), Changes::new());
    let mut waits = Waits::default();
    reactor.with(printer::start)?;
    waits.update(&mut reactor);
    while reactor.engine.running() > 0 {
        let events = waits.wait(&reactor)?;
        if events.is_empty() {
            reactor.timeout_action(sys::now());
            waits.update(&mut reactor);
        }
        for (fd, ready) in events {
            // One of the events before may have ended this connection.
            if waits.watched.contains_key(&fd) {
                reactor.socket_action(sys::now(), fd, ready);
                waits.update(&mut reactor);
            }
        }
    }
    printer::verdict(&reactor.engine)
}
