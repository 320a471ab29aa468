//! One connection to a runtime socket: its commands and replies.

use std::time::{Duration, Instant};

use bytes::Bytes;
use fulmar_haproxy::model::SocketLevel;
use fulmar_proto::{Connection, RawConnection, Segment};
use fulmar_proxy::OrderReply;

use super::command_reader::{CommandLine, CommandReader};
use super::commands;
use super::context::{AnswerHandler, CommandReply, ConsoleSettings, Pieces, RuntimeContext};

/// One connection to a runtime socket.
pub(super) struct Console {
    lines: CommandReader,
    console_settings: ConsoleSettings,
    state: ConsoleState,
    input_closed: bool, // the peer has closed its side
    has_replied: bool,  // at least one command was run
}

/// State of the connection.
enum ConsoleState {
    /// Waiting for a command.
    Reading,
    /// Sending a reply in pieces.
    Replying(Pieces),
    /// Waiting for another thread.
    Waiting(AnswerHandler),
    /// Closed.
    Over,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("asker", &self.console_settings).finish_non_exhaustive()
    }
}

impl Console {
    pub(super) fn new(level: SocketLevel, timeout: Duration) -> Self {
        let console_settings = ConsoleSettings { console: 0, level, interactive: false, timeout };
        Self {
            lines: CommandReader::default(),
            console_settings,
            state: ConsoleState::Reading,
            input_closed: false,
            has_replied: false,
        }
    }

    /// Sets the key by which replies of other threads are delivered.
    pub(super) fn set_name(&mut self, name: u64) {
        self.console_settings.console = name;
    }

    pub(super) fn timeout(&self) -> Duration {
        self.console_settings.timeout
    }

    pub(super) fn push_input(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
    }

    pub(super) fn close_input(&mut self) {
        self.input_closed = true;
    }

    /// True if the next command may be read. Otherwise, and while replies are unread, input stays
    /// in the kernel.
    pub(super) fn is_idle(&self, to: &RawConnection) -> bool {
        matches!(self.state, ConsoleState::Reading) && to.room(RawConnection::STREAM) > 0
    }

    /// Runs commands until there are none or the send buffer is full.
    pub(super) fn run_commands(
        &mut self,
        now: Instant,
        context: &RuntimeContext,
        to: &mut RawConnection,
    ) {
        while to.room(RawConnection::STREAM) > 0 {
            match &mut self.state {
                ConsoleState::Reading => match self.lines.next() {
                    Ok(Some(asked)) => self.run(now, context, &asked, to),
                    Ok(None) => return self.pause(to),
                    Err(_) => {
                        send_text(to, format!("{TOO_LONG}\n"));
                        return self.close(to);
                    }
                },
                ConsoleState::Replying(pieces) => {
                    let mut text = String::new();
                    let is_over = !pieces(context, now, &mut text);
                    send_text(to, text);
                    if is_over {
                        self.finish(to);
                    }
                }
                ConsoleState::Waiting(_) => return,
                ConsoleState::Over => return,
            }
        }
    }

    /// Handles the reply of another thread.
    pub(super) fn handle_answer(
        &mut self,
        now: Instant,
        context: &RuntimeContext,
        answer: OrderReply,
        to: &mut RawConnection,
    ) {
        let ConsoleState::Waiting(listener) =
            std::mem::replace(&mut self.state, ConsoleState::Reading)
        else {
            return;
        };
        let mut text = String::new();
        let reply = listener(context, self.console_settings, answer, &mut text);
        send_text(to, text);
        self.reply(reply, to);
        self.run_commands(now, context, to);
    }

    fn run(
        &mut self,
        now: Instant,
        context: &RuntimeContext,
        asked: &CommandLine,
        to: &mut RawConnection,
    ) {
        self.has_replied = true;
        let reply = commands::run(context, &mut self.console_settings, now, asked);
        self.reply(reply, to);
    }

    fn reply(&mut self, reply: CommandReply, to: &mut RawConnection) {
        match reply {
            CommandReply::Text(text) => {
                send_text(to, text);
                self.finish(to);
            }
            CommandReply::Pieces(pieces) => self.state = ConsoleState::Replying(pieces),
            CommandReply::Deferred(listener) => self.state = ConsoleState::Waiting(listener),
            CommandReply::Quit => self.close(to),
        }
    }

    /// Ends a reply.
    fn finish(&mut self, to: &mut RawConnection) {
        send_text(to, if self.console_settings.interactive { "\n> " } else { "\n" });
        self.state = ConsoleState::Reading;
    }

    /// Input is used up. Without a prompt, the connection is closed.
    fn pause(&mut self, to: &mut RawConnection) {
        let is_done =
            self.has_replied && !self.console_settings.interactive && !self.lines.has_more();
        if self.input_closed || is_done {
            self.close(to);
        }
    }

    fn close(&mut self, to: &mut RawConnection) {
        self.state = ConsoleState::Over;
        to.finish();
    }
}

fn send_text(to: &mut RawConnection, text: impl Into<String>) {
    let text = text.into();
    if !text.is_empty() {
        // Fails only if the client has closed the connection.
        let _ = to.send_data(RawConnection::STREAM, Segment::Bytes(Bytes::from(text)));
    }
}

const TOO_LONG: &str = "The command is longer than 16384 bytes.";
