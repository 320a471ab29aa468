//! One connection to a runtime socket: what it has asked, and what it is being told.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_haproxy::model::Level;
use fulmar_proto::{Connection, RawConnection, Segment};
use fulmar_proxy::Answer;

use super::commands;
use super::lines::{Asked, Lines};
use super::world::{Asker, Listener, Pieces, Reply, World};

/// One connection to a runtime socket.
pub(super) struct Console {
    lines: Lines,
    asker: Asker,
    state: State,
    ended: bool,    // by the peer: nothing more is asked
    answered: bool, // at least one command
}

/// What it is doing.
enum State {
    /// Waiting for a command.
    Listening,
    /// Telling, piece by piece.
    Telling(Pieces),
    /// Waiting for another thread.
    Waiting(Listener),
    /// It is over.
    Over,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("asker", &self.asker).finish_non_exhaustive()
    }
}

impl Console {
    pub(super) fn new(level: Level, timeout: Duration) -> Self {
        let asker = Asker { console: 0, level, interactive: false, timeout };
        Self {
            lines: Lines::default(),
            asker,
            state: State::Listening,
            ended: false,
            answered: false,
        }
    }

    /// The name by which answers find it.
    pub(super) fn set_name(&mut self, name: u64) {
        self.asker.console = name;
    }

    pub(super) fn timeout(&self) -> Duration {
        self.asker.timeout
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// True if it takes more commands: otherwise, and as long as its answers are not read, what
    /// arrives waits in the kernel.
    pub(super) fn is_idle(&self, to: &RawConnection) -> bool {
        matches!(self.state, State::Listening) && to.room(RawConnection::STREAM) > 0
    }

    /// Does what can be done now: until commands, or the reader's room, are used up.
    pub(super) fn work(&mut self, now: Instant, world: &World, to: &mut RawConnection) {
        while to.room(RawConnection::STREAM) > 0 {
            match &mut self.state {
                State::Listening => match self.lines.next() {
                    Ok(Some(asked)) => self.run(now, world, &asked, to),
                    Ok(None) => return self.pause(to),
                    Err(_) => {
                        say(to, format!("{TOO_LONG}\n"));
                        return self.close(to);
                    }
                },
                State::Telling(pieces) => {
                    let mut text = String::new();
                    let is_over = !pieces(world, now, &mut text);
                    say(to, text);
                    if is_over {
                        self.finish(to);
                    }
                }
                State::Waiting(_) => return,
                State::Over => return,
            }
        }
    }

    /// Another thread has answered.
    pub(super) fn hear_news(
        &mut self,
        now: Instant,
        world: &World,
        answer: Answer,
        to: &mut RawConnection,
    ) {
        let State::Waiting(listener) = std::mem::replace(&mut self.state, State::Listening) else {
            return;
        };
        let mut text = String::new();
        let reply = listener(world, self.asker, answer, &mut text);
        say(to, text);
        self.reply(reply, to);
        self.work(now, world, to);
    }

    fn run(&mut self, now: Instant, world: &World, asked: &Asked, to: &mut RawConnection) {
        self.answered = true;
        let reply = commands::run(world, &mut self.asker, now, asked);
        self.reply(reply, to);
    }

    fn reply(&mut self, reply: Reply, to: &mut RawConnection) {
        match reply {
            Reply::Text(text) => {
                say(to, text);
                self.finish(to);
            }
            Reply::Pieces(pieces) => self.state = State::Telling(pieces),
            Reply::News(listener) => self.state = State::Waiting(listener),
            Reply::Quit => self.close(to),
        }
    }

    /// An answer is over.
    fn finish(&mut self, to: &mut RawConnection) {
        say(to, if self.asker.interactive { "\n> " } else { "\n" });
        self.state = State::Listening;
    }

    /// Nothing more has been asked: who sees no prompt wants no more.
    fn pause(&mut self, to: &mut RawConnection) {
        let is_done = self.answered && !self.asker.interactive && !self.lines.has_more();
        if self.ended || is_done {
            self.close(to);
        }
    }

    fn close(&mut self, to: &mut RawConnection) {
        self.state = State::Over;
        to.finish();
    }
}

fn say(to: &mut RawConnection, text: impl Into<String>) {
    let text = text.into();
    if !text.is_empty() {
        // Whoever has gone hears nothing.
        let _ = to.send_data(RawConnection::STREAM, Segment::Bytes(Bytes::from(text)));
    }
}

const TOO_LONG: &str = "A command has no end within 16384 bytes.";
