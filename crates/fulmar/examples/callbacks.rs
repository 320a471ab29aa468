//! The same in a loop that calls back, as those of libevent, libuv and GLib do; here it is
//! calloop's, which Wayland clients use. It knows the descriptors by sources: each descriptor has
//! one, for as long as it is watched, and the word that is attached to the descriptor names it.
//!
//! `cargo run --example callbacks http://127.0.0.1:8080/a http://127.0.0.1:8080/b`
#![forbid(unsafe_code)]

use std::error::Error;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Instant;

use calloop::generic::Generic;
use calloop::timer::{TimeoutAction, Timer};
use calloop::{Dispatcher, EventLoop, LoopHandle, Mode, PostAction, Readiness, RegistrationToken};
use fulmar::client::Client;
use fulmar::drive::{Change, ExternalLoop, Interest, Reactor, Ready};
use fulmar::sys;

use printer::Printer;

mod printer;

type Outcome = Result<(), Box<dyn Error>>;

/// What every callback is given.
struct State {
    reactor: Reactor<Client<Printer>, ExternalLoop>,
    handle: LoopHandle<'static, Self>,
    sources: Vec<Option<WatchedSource>>, // by the word attached
    timer: Option<RegistrationToken>,
}

/// The loop's source of one descriptor.
struct WatchedSource {
    token: RegistrationToken,
    dispatcher: Dispatcher<'static, Generic<OwnedFd>, State>,
}

impl State {
    fn new(handle: LoopHandle<'static, Self>) -> Self {
        let reactor = Reactor::new(printer::client(), ExternalLoop::level_triggered());
        Self { reactor, handle, sources: Vec::new(), timer: None }
    }

    /// One wait, and what follows. A source cannot change while it calls back, so callbacks only
    /// pass events on, and all changes are made afterwards.
    fn dispatch(&mut self, events: &mut EventLoop<'static, Self>) -> Outcome {
        events.dispatch(None, self)?;
        self.update()
    }

    /// Passes changes on to the loop.
    fn update(&mut self) -> Outcome {
        while let Some(change) = self.reactor.poll_change() {
            match change {
                Change::Watch { fd, interest, user, .. } => self.watch(fd, interest, user)?,
                Change::Forget { user, .. } => self.remove(user),
                Change::Timer { deadline } => self.set_timer(deadline)?,
            }
        }
        Ok(())
    }

    fn watch(&mut self, fd: RawFd, interest: Interest, user: Option<u64>) -> Outcome {
        let interest = calloop::Interest {
            readable: interest.read || interest.hangup,
            writable: interest.write,
        };
        let Some(source) = self.source(user) else { return self.insert(fd, interest) };
        source.dispatcher.as_source_mut().interest = interest;
        let token = source.token;
        Ok(self.handle.update(&token)?)
    }

    /// A descriptor is new.
    fn insert(&mut self, fd: RawFd, interest: calloop::Interest) -> Outcome {
        let open = self.reactor.descriptor(fd).ok_or("a watched descriptor is open")?;
        // A safe source owns its descriptor: one duplicate, which is closed with the source.
        let source = Generic::new(open.try_clone_to_owned()?, interest, Mode::Level);
        let called = move |ready, _: &mut _, state: &mut Self| Ok(state.called(fd, ready));
        let dispatcher = Dispatcher::new(source, called);
        let token = self.handle.register_dispatcher(dispatcher.clone())?;
        let free = self.sources.iter().position(Option::is_none);
        let at = free.unwrap_or(self.sources.len());
        if free.is_none() {
            self.sources.push(None);
        }
        self.sources[at] = Some(WatchedSource { token, dispatcher });
        self.reactor.assign(fd, at as u64);
        Ok(())
    }

    fn source(&mut self, user: Option<u64>) -> Option<&mut WatchedSource> {
        self.sources.get_mut(usize::try_from(user?).ok()?)?.as_mut()
    }

    fn called(&mut self, fd: RawFd, ready: Readiness) -> PostAction {
        // Ends are not told apart here: reading finds them.
        let (read, write) = (ready.readable || ready.error, ready.writable || ready.error);
        let ready = Ready { read, write, hangup: read, failed: false };
        self.reactor.socket_action(sys::now(), fd, ready);
        PostAction::Continue
    }

    fn set_timer(&mut self, deadline: Option<Instant>) -> Outcome {
        if let Some(timer) = self.timer.take() {
            self.handle.remove(timer);
        }
        if let Some(deadline) = deadline {
            let timer = Timer::from_deadline(deadline);
            let token = self.handle.insert_source(timer, |_, (), state| {
                state.timer = None;
                state.reactor.timeout_action(sys::now());
                TimeoutAction::Drop
            });
            self.timer = Some(token.map_err(|error| error.error)?);
        }
        Ok(())
    }

    fn remove(&mut self, user: Option<u64>) {
        let at = user.and_then(|user| usize::try_from(user).ok());
        if let Some(source) = at.and_then(|at| self.sources.get_mut(at)?.take()) {
            self.handle.remove(source.token);
        }
    }
}

fn main() -> Outcome {
    let mut events = EventLoop::try_new()?;
    let mut state = State::new(events.handle());
    state.reactor.with(printer::start)?;
    state.update()?;
    while state.reactor.engine.running() > 0 {
        state.dispatch(&mut events)?;
    }
    printer::verdict(&state.reactor.engine)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use fulmar::client::Request;

    use super::*;

    fn descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").expect("there is a /proc").count()
    }

    /// Both checks in one test: they count the descriptors of the process.
    #[test]
    fn a_descriptor_has_one_source_until_it_is_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
        let request = Request::get(&url).build().expect("a URL");
        let mut events = EventLoop::try_new().expect("descriptors");
        let mut state = State::new(events.handle());
        let mut first = None;
        for _ in 0..200 {
            state.reactor.with(|client, now| client.start(now, &request));
            state.update().expect("it is watched");
            let (mut peer, _) = listener.accept().expect("it connects");
            let token = state.sources[0].as_ref().expect("it has a source").token;
            let open = descriptors();
            change_often(&mut state, token);
            assert_eq!(descriptors(), open, "a change of interest opens nothing");
            state.dispatch(&mut events).expect("the connection is open");
            while state.reactor.deadline().is_some_and(|deadline| deadline <= sys::now()) {
                state.dispatch(&mut events).expect("the request leaves");
            }
            assert!(peer.read(&mut [0; 512]).expect("a request") > 0);
            peer.write_all(b"HTTP/1.1 204 \r\nConnection: close\r\n\r\n").expect("room");
            drop(peer);
            while state.reactor.engine.running() > 0 {
                state.dispatch(&mut events).expect("an event");
            }
            state.update().expect("it is forgotten");
            assert_eq!(state.sources.len(), 1, "its place is used again");
            assert_eq!(*first.get_or_insert_with(descriptors), descriptors(), "one is left open");
        }
    }

    /// Changes the interest in the only descriptor often, and restores it.
    fn change_often(state: &mut State, token: RegistrationToken) {
        let fd = -1; // used by the first `Watch` only
        let source = state.sources[0].as_ref().expect("it has a source");
        let before = source.dispatcher.as_source_ref().interest;
        for at in 0..50 {
            let interest = Interest { read: at % 2 == 0, write: at % 3 == 0, hangup: false };
            state.watch(fd, interest, Some(0)).expect("it is watched");
            let source = state.sources[0].as_ref().expect("it has a source");
            assert_eq!(source.token, token, "it keeps its source");
        }
        let interest =
            Interest { read: before.readable, write: before.writable, hangup: before.readable };
        state.watch(fd, interest, Some(0)).expect("it is watched");
    }
}
