//! A loop around `poll(2)`: what a reactor wants to wait for, and what the application does.

use std::collections::BTreeMap;
use std::error::Error;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Instant;

use fulmar::drive::{Change, ExternalLoop, Interest, Reactor, Ready};
use fulmar::engine::Engine;
use fulmar::sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is waited for.
#[derive(Default)]
pub(crate) struct Waits {
    watched: BTreeMap<RawFd, Interest>,
    deadline: Option<Instant>,
}

impl Waits {
    /// Hears what has changed.
    pub(crate) fn update<E: Engine>(&mut self, reactor: &mut Reactor<E, ExternalLoop>) {
        while let Some(change) = reactor.poll_change() {
            match change {
                Change::Watch { fd, interest, .. } => drop(self.watched.insert(fd, interest)),
                Change::Forget { fd, .. } => drop(self.watched.remove(&fd)),
                Change::Timer { deadline } => self.deadline = deadline,
            }
        }
    }

    /// Waits for the reactor's descriptors, for its deadline, and for whether one of the
    /// application's own can be read, and has the reactor do its part; true if that one can.
    pub(crate) fn turn<E: Engine>(
        &mut self,
        reactor: &mut Reactor<E, ExternalLoop>,
        own: Option<BorrowedFd<'_>>,
    ) -> Result<bool, Box<dyn Error>> {
        self.update(reactor);
        let (events, own) = self.wait(reactor, own)?;
        for (fd, ready) in events {
            // One of the events before may have ended this connection.
            if self.watched.contains_key(&fd) {
                reactor.socket_action(sys::now(), fd, ready);
                self.update(reactor);
            }
        }
        if self.deadline.is_some_and(|deadline| deadline <= sys::now()) {
            reactor.timeout_action(sys::now());
            self.update(reactor);
        }
        Ok(own)
    }

    fn wait<E: Engine>(
        &self,
        reactor: &Reactor<E, ExternalLoop>,
        own: Option<BorrowedFd<'_>>,
    ) -> Result<(Events, bool), Box<dyn Error>> {
        let descriptors = self.watched.iter().filter_map(|(fd, interest)| {
            let open = reactor.descriptor(*fd)?;
            Some((*fd, PollFd::from_borrowed_fd(open, flags(*interest))))
        });
        let (numbers, mut entries): (Vec<_>, Vec<_>) = descriptors.unzip();
        entries.extend(own.map(|own| PollFd::from_borrowed_fd(own, PollFlags::IN)));
        let left = self.deadline.map(|due| due.saturating_duration_since(sys::now()));
        let left = left.map(Timespec::try_from).transpose()?;
        poll(&mut entries, left.as_ref())?;
        let own = entries.get(numbers.len()).is_some_and(|own| !own.revents().is_empty());
        let events = numbers.into_iter().zip(&entries).map(|(fd, e)| (fd, ready(e.revents())));
        Ok((events.filter(|(_, ready)| *ready != Ready::default()).collect(), own))
    }
}

/// What is ready.
type Events = Vec<(RawFd, Ready)>;

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
