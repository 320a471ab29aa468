//! The same in a loop that calls back, as those of libevent, libuv and GLib do; here it is
//! calloop's, which Wayland clients use. It knows the descriptors by sources, so each of them is
//! kept as the word that is attached to its descriptor.
#![forbid(unsafe_code)]

use std::error::Error;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Instant;

use calloop::generic::Generic;
use calloop::timer::{TimeoutAction, Timer};
use calloop::{EventLoop, LoopHandle, Mode, PostAction, Readiness, RegistrationToken};
use fulmar::client::Client;
use fulmar::drive::{Change, Changes, Interest, Reactor, Ready};
use fulmar::sys;

use printer::Printer;

mod printer;

type Outcome = Result<(), Box<dyn Error>>;

/// What every callback is given.
struct State {
    reactor: Reactor<Client<Printer>, Changes>,
    handle: LoopHandle<'static, Self>,
    sources: Vec<Option<RegistrationToken>>, // by the word attached
    timer: Option<RegistrationToken>,
}

impl State {
    /// Passes on what has changed; to be done after everything that the reactor is told.
    fn update(&mut self) -> Outcome {
        while let Some(change) = self.reactor.poll_change() {
            match change {
                Change::Watch { fd, interest, user } => self.watch(fd, interest, user)?,
                Change::Forget { user, .. } => self.remove(user),
                Change::Timer { deadline } => self.set_timer(deadline)?,
            }
        }
        Ok(())
    }

    fn watch(&mut self, fd: RawFd, interest: Interest, user: Option<u64>) -> Outcome {
        self.remove(user);
        let open = self.reactor.descriptor(fd).ok_or("what is watched is open")?;
        let interest = calloop::Interest {
            readable: interest.read || interest.hangup,
            writable: interest.write,
        };
        // A safe source owns its descriptor: a duplicate, which is closed with the source.
        let source = Generic::new(open.try_clone_to_owned()?, interest, Mode::Level);
        let called = move |ready, _: &mut _, state: &mut Self| state.called(fd, ready);
        let token = self.handle.insert_source::<Generic<OwnedFd>, _>(source, called)?;
        self.sources.push(Some(token));
        self.reactor.assign(fd, self.sources.len() as u64 - 1);
        Ok(())
    }

    fn called(&mut self, fd: RawFd, ready: Readiness) -> std::io::Result<PostAction> {
        // Ends are not told apart here: reading finds them.
        let (read, write) = (ready.readable || ready.error, ready.writable || ready.error);
        let ready = Ready { read, write, hangup: read, failed: false };
        self.reactor.socket_action(sys::now(), fd, ready);
        self.update().map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(PostAction::Continue)
    }

    fn set_timer(&mut self, deadline: Option<Instant>) -> Outcome {
        if let Some(timer) = self.timer.take() {
            self.handle.remove(timer);
        }
        if let Some(deadline) = deadline {
            let timer = Timer::from_deadline(deadline);
            let token = self.handle.insert_source(timer, |_, (), state| {
                state.reactor.timeout_action(sys::now());
                state.update().map_or(TimeoutAction::Drop, |()| TimeoutAction::Drop)
            });
            self.timer = Some(token.map_err(|error| error.error)?);
        }
        Ok(())
    }

    fn remove(&mut self, user: Option<u64>) {
        let at = user.and_then(|user| usize::try_from(user).ok());
        if let Some(token) = at.and_then(|at| self.sources.get_mut(at)?.take()) {
            self.handle.remove(token);
        }
    }
}

fn main() -> Outcome {
    let mut events: EventLoop<'static, State> = EventLoop::try_new()?;
    let reactor = Reactor::new(printer::client(), Changes::new());
    let mut state = State { reactor, handle: events.handle(), sources: Vec::new(), timer: None };
    state.reactor.with(printer::start)?;
    state.update()?;
    while state.reactor.engine.running() > 0 {
        events.dispatch(None, &mut state)?;
    }
    printer::verdict(&state.reactor.engine)
}
