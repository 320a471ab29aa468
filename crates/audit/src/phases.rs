//! To which part of a connection's life a call belongs: what its socket tells.
//!
//! A connection begins with the call that returns its descriptor and ends with the one that closes
//! it. In between, what is sent and received says where it is: whoever asks (the client, whichever
//! side we are) sends a handshake or a request, the other side answers, and the next request ends
//! the answer.
//!
//! ```text
//! Unconnected ─▶ Fresh ─▶ Asked ─▶ Answered ─▶ Closing
//!                  │        ▲  ▲______│
//!                  └▶ Handshake ─▶ Secured ─▶ Asked
//! ```
//!
//! Pure: events go in, in the order in which the calls returned.

use std::collections::HashMap;

use crate::counts::Phase;
use crate::deeds::{Act, Deed, Name};
use crate::event::Event;
use crate::records::{Progress, Records, is_alert, is_handshake};

/// The connections of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    known: HashMap<Name, Connection>,
    /// Connections that there was no room for; their calls are [`Phase::Other`].
    pub(crate) lost: u64,
}

#[derive(Debug)]
struct Connection {
    /// When the call returned that made it.
    since: u64,
    /// The process connected, and so it asks. Otherwise it was connected to.
    asks: bool,
    stage: Stage,
    /// What is sent and received cannot be read.
    is_encrypted: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// A socket that is not connected yet.
    Unconnected,
    /// Nothing was sent or received.
    Fresh,
    /// The side that asks has begun a handshake.
    Handshake(Records),
    /// The handshake is done, and nothing was asked.
    Secured,
    /// A request has begun, and no answer; one that brings a body has a method that does.
    Asked { body: bool },
    /// An answer has begun.
    Answered,
    /// Nothing more will come.
    Closing,
}

impl Connections {
    /// The part of its connection's life that a call or an operation belongs to.
    pub(crate) fn phase(&mut self, event: &Event) -> Phase {
        let Some(deed) = Deed::of(event) else { return Phase::Other };
        match deed {
            Deed::Accept(new) => {
                if let Some(name) = new {
                    self.begin(name, event, false, Stage::Fresh);
                }
                Phase::Accept
            }
            Deed::Stream(new) => {
                self.begin(new, event, true, Stage::Unconnected);
                Phase::Connect
            }
            Deed::Forget(name) => {
                self.known.remove(&name);
                Phase::Other
            }
            Deed::Close(name) => self.close(name, event),
            Deed::CloseAll { process, from, to } => self.close_all(process, from, to),
            Deed::Pour { from, to } => {
                let source = self.known.get_mut(&from).map(|known| known.pour(false, event));
                let sink = self.known.get_mut(&to).map(|known| known.pour(true, event));
                sink.or(source).unwrap_or(Phase::Other)
            }
            Deed::Act(name, act) => {
                self.known.get_mut(&name).map_or(Phase::Other, |known| known.act(act, event))
            }
        }
    }

    fn begin(&mut self, name: Name, event: &Event, asks: bool, stage: Stage) {
        if self.known.len() >= CONNECTIONS_MAX && !self.known.contains_key(&name) {
            self.lost += 1;
            return;
        }
        let connection = Connection { since: event.end, asks, stage, is_encrypted: false };
        self.known.insert(name, connection);
    }

    fn close(&mut self, name: Name, event: &Event) -> Phase {
        let Some(known) = self.known.get(&name) else { return Phase::Other };
        // Another thread may have been given the number while this one was on its way out of the
        // call that set it free.
        if event.start.is_none_or(|start| start >= known.since) {
            self.known.remove(&name);
        }
        Phase::Close
    }

    fn close_all(&mut self, process: u32, from: i32, to: i32) -> Phase {
        let before = self.known.len();
        self.known.retain(|name, _| {
            name.process != process || name.table != 0 || !(from..=to).contains(&name.number)
        });
        if self.known.len() < before { Phase::Close } else { Phase::Other }
    }
}

impl Connection {
    fn act(&mut self, act: Act, event: &Event) -> Phase {
        match act {
            Act::Connect => {
                self.stage = Stage::Fresh;
                Phase::Connect
            }
            Act::Shutdown => self.end(),
            Act::Receive { flags } => self.receive(flags, event),
            Act::Send if self.asks => self.request(event),
            Act::Send => self.answer(event),
            Act::Encrypt => self.leave_to_kernel(),
            Act::Touch => self.touch(),
        }
    }

    fn end(&mut self) -> Phase {
        self.stage = Stage::Closing;
        Phase::Close
    }

    fn receive(&mut self, flags: i32, event: &Event) -> Phase {
        if flags & libc::MSG_ERRQUEUE != 0 {
            return self.touch(); // what became of sends; nothing is received
        }
        if flags & libc::MSG_PEEK != 0 {
            return match self.stage {
                Stage::Fresh if is_handshake(&event.memory) => Phase::Tls,
                _ => self.attempt(!self.asks), // the same bytes are received once more
            };
        }
        match (event.result, event.size()) {
            (0.., 0) => self.end(),
            _ if self.asks => self.answer(event),
            _ => self.request(event),
        }
    }

    /// What goes from who asks to who answers.
    fn request(&mut self, event: &Event) -> Phase {
        let Some(size) = self.moved(event) else { return self.failed(true, event) };
        if let Stage::Unconnected | Stage::Fresh = self.stage
            && is_handshake(&event.memory)
        {
            self.stage = Stage::Handshake(Records::default());
            self.is_encrypted = true;
        }
        match &mut self.stage {
            Stage::Handshake(records) => match records.take(size, &event.memory) {
                Progress::Handshake => Phase::Tls,
                Progress::Done => {
                    self.stage = Stage::Secured;
                    Phase::Tls
                }
                Progress::DoneAndMore => {
                    self.stage = Stage::Asked { body: false };
                    Phase::Tls
                }
                Progress::Data => self.ask(event),
            },
            Stage::Asked { body: true } => Phase::Body,
            Stage::Asked { body: false } => Phase::Head,
            Stage::Closing => Phase::Close,
            Stage::Unconnected | Stage::Fresh | Stage::Secured | Stage::Answered => self.ask(event),
        }
    }

    /// A request begins.
    fn ask(&mut self, event: &Event) -> Phase {
        let body = !self.is_encrypted && WITH_BODY.iter().any(|m| event.memory.starts_with(m));
        self.stage = Stage::Asked { body };
        Phase::Head
    }

    /// What goes from who answers to who asks.
    fn answer(&mut self, event: &Event) -> Phase {
        if self.moved(event).is_none() {
            return self.failed(false, event);
        }
        let begins = !self.is_encrypted && event.memory.starts_with(ANSWER);
        match self.stage {
            Stage::Handshake(_) | Stage::Secured => Phase::Tls,
            Stage::Closing => Phase::Close,
            Stage::Asked { .. } if begins && event.memory.get(ANSWER.len() + 2) == Some(&b'1') => {
                Phase::Head // an interim answer (RFC 9110 §15.2): the true one follows
            }
            Stage::Answered if !begins => Phase::Body,
            Stage::Unconnected | Stage::Fresh | Stage::Asked { .. } | Stage::Answered => {
                self.stage = Stage::Answered;
                Phase::Head
            }
        }
    }

    /// Bytes from a file or a pipe: they are in the middle of what they belong to.
    fn pour(&mut self, sends: bool, event: &Event) -> Phase {
        match self.stage {
            Stage::Closing => Phase::Close,
            Stage::Asked { .. } if sends != self.asks && event.result > 0 => {
                self.stage = Stage::Answered;
                Phase::Body
            }
            _ => Phase::Body,
        }
    }

    /// So many bytes; `None` if there were none, or if they say that no more follow.
    fn moved(&mut self, event: &Event) -> Option<u64> {
        let size = Some(event.size()).filter(|size| *size > 0)?;
        if self.is_encrypted && is_alert(&event.memory) {
            self.stage = Stage::Closing;
        }
        Some(size)
    }

    /// Nothing was there to receive, or no room to send.
    fn failed(&mut self, request: bool, event: &Event) -> Phase {
        match event.result {
            0.. => self.attempt(request),
            negative => match i32::try_from(negative.unsigned_abs()) {
                Ok(libc::EAGAIN | libc::EINTR | FIRST_RESTART..) => self.attempt(request),
                Ok(libc::ECANCELED | libc::ENOBUFS) => self.attempt(request), // of a ring
                _ => self.end(),
            },
        }
    }

    /// It belongs to what would have been received or sent.
    fn attempt(&self, request: bool) -> Phase {
        match (self.stage, request) {
            (Stage::Handshake(_), _) | (Stage::Secured, false) => Phase::Tls,
            (Stage::Asked { body: true }, true) | (Stage::Answered, false) => Phase::Body,
            (Stage::Closing, _) => Phase::Close,
            _ => Phase::Head,
        }
    }

    /// From here on the kernel encrypts, and the program sends and receives plain text.
    fn leave_to_kernel(&mut self) -> Phase {
        self.is_encrypted = false;
        if let Stage::Handshake(_) = self.stage {
            self.stage = Stage::Secured;
        }
        Phase::Tls
    }

    /// What is neither sent nor received belongs to where the connection is.
    fn touch(&self) -> Phase {
        match self.stage {
            Stage::Unconnected => Phase::Connect,
            Stage::Fresh if self.asks => Phase::Connect,
            Stage::Fresh => Phase::Accept,
            Stage::Handshake(_) | Stage::Secured => Phase::Tls,
            Stage::Asked { body: false } => Phase::Head,
            Stage::Asked { body: true } | Stage::Answered => Phase::Body,
            Stage::Closing => Phase::Close,
        }
    }
}

/// What an answer begins with, up to the minor version (RFC 9112 §4).
const ANSWER: &[u8] = b"HTTP/1.";
/// Methods of requests that have a body.
const WITH_BODY: [&[u8]; 3] = [b"POST ", b"PUT ", b"PATCH "];
/// From here on an error says that the call is made again after a signal (linux/errno.h).
const FIRST_RESTART: i32 = 512;
/// As many as the kernel's own table of tasks holds; some megabytes.
const CONNECTIONS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syscalls::Sysno;

    use super::*;

    /// A call of process 1 with these arguments; times pass by themselves.
    fn call(call: Sysno, arguments: &[u64], result: i64, memory: &[u8]) -> Event {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        Event {
            start: None,
            end: 0,
            process: 1,
            thread: 1,
            call: call as u32,
            result,
            arguments: all,
            memory: memory[..memory.len().min(64)].to_vec(),
        }
    }

    fn moves(number: Sysno, bytes: &[u8]) -> Event {
        call(number, &[7], i64::try_from(bytes.len()).unwrap(), bytes)
    }

    fn received(bytes: &[u8]) -> Event {
        moves(Sysno::recvfrom, bytes)
    }

    fn sent(bytes: &[u8]) -> Event {
        moves(Sysno::sendto, bytes)
    }

    fn accepted() -> Event {
        call(Sysno::accept4, &[3], 7, b"")
    }

    fn closed() -> Event {
        call(Sysno::close, &[7], 0, b"")
    }

    fn fails(number: Sysno, errno: i64) -> Event {
        call(number, &[7], -errno, b"")
    }

    fn watched() -> Event {
        call(Sysno::epoll_ctl, &[4, 1, 7], 0, b"")
    }

    /// The phases of these calls, by their names.
    fn phases(events: &[Event]) -> String {
        let mut connections = Connections::default();
        let names: Vec<_> = events.iter().map(|event| connections.phase(event).name()).collect();
        names.join(" ")
    }

    fn record(kind: u8, length: u8) -> Vec<u8> {
        let mut bytes = vec![kind, 3, 3, 0, length];
        bytes.resize(5 + usize::from(length), b'P');
        bytes
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";

    #[test]
    fn a_server_accepts_answers_and_closes() {
        let file = call(Sysno::openat, &[0, 0], 8, b"a.txt");
        let pour = call(Sysno::sendfile, &[7, 8], 4_000, b"");
        let wait = call(Sysno::epoll_wait, &[4], 1, b"");
        let end = call(Sysno::recvfrom, &[7], 0, b"");
        let events = [
            accepted(),
            watched(),
            fails(Sysno::recvfrom, 11),
            wait,
            received(GET),
            file,
            sent(OK),
            pour,
            sent(b"the rest"),
            fails(Sysno::recvfrom, 11),
            received(GET),
            sent(OK),
            end,
            closed(),
            received(GET), // no connection of this name is left
        ];
        assert_eq!(
            phases(&events),
            "accept accept head other head other head body body head head head close close other"
        );
    }

    #[test]
    fn a_client_connects_asks_and_reads() {
        let events = [
            call(Sysno::socket, &[2, 0x801], 7, b""),
            call(Sysno::setsockopt, &[7, 6, 1], 0, b""),
            call(Sysno::connect, &[7], -115, b""),
            watched(),
            sent(b"POST / HTTP/1.1\r\n\r\n"),
            received(b"HTTP/1.1 100 Continue\r\n\r\n"),
            sent(b"a body"),
            fails(Sysno::recvfrom, 11),
            received(OK),
            received(b"more of it"),
            sent(GET),
            fails(Sysno::recvfrom, 104),
            closed(),
        ];
        assert_eq!(
            phases(&events),
            "connect connect connect connect head head body head head body head close close"
        );
    }

    #[test]
    fn several_answers_to_what_came_in_one_piece_have_a_head_each() {
        let events = [accepted(), received(GET), sent(OK), sent(b"body"), sent(OK)];
        assert_eq!(phases(&events), "accept head head body head");
    }

    #[test]
    fn what_is_peeked_at_is_received_once_more() {
        let hello = record(22, 40);
        let peek = |bytes: &[u8]| call(Sysno::recvfrom, &[7, 0, 64, 2], 1, bytes);
        let events = [accepted(), peek(b"\x16"), received(&hello), received(&record(23, 40))];
        assert_eq!(phases(&events), "accept tls tls tls");
        assert_eq!(phases(&[accepted(), peek(b"G"), received(GET)]), "accept head head");
    }

    #[test]
    fn a_handshake_of_tls_1_3() {
        let second = [record(20, 1), record(23, 53)].concat();
        let alone = [
            accepted(),
            received(&record(22, 200)),
            sent(&record(22, 100)),
            received(&second),
            sent(&record(23, 250)), // tickets
            received(&record(23, 90)),
            sent(&record(23, 200)),
            sent(&record(23, 200)),
            received(&record(23, 19)),
            closed(),
        ];
        assert_eq!(phases(&alone), "accept tls tls tls tls head head body close close");
        let together = [second, record(23, 90)].concat();
        let events =
            [accepted(), received(&record(22, 200)), received(&together), sent(&record(23, 200))];
        assert_eq!(phases(&events), "accept tls tls head");
    }

    #[test]
    fn a_handshake_of_tls_1_2() {
        let second = [record(22, 66), record(20, 1), record(22, 40)].concat();
        let events = [
            accepted(),
            received(&record(22, 200)),
            sent(&record(22, 255)),
            received(&second),
            sent(&[record(20, 1), record(22, 40)].concat()),
            received(&record(23, 90)),
            sent(&record(23, 200)),
            sent(&record(21, 26)),
            closed(),
        ];
        assert_eq!(phases(&events), "accept tls tls tls tls head head close close");
    }

    /// As OpenSSL does: first the five bytes that say how long a record is.
    #[test]
    fn a_handshake_in_pieces() {
        let pieces = |record: Vec<u8>| {
            let (header, rest) = record.split_at(5);
            [received(header), received(rest)]
        };
        let mut events = vec![accepted()];
        for record in [record(22, 200), record(20, 1), record(23, 53), record(23, 90)] {
            events.extend(pieces(record));
        }
        assert_eq!(phases(&events), "accept tls tls tls tls tls tls head head");
    }

    #[test]
    fn with_tls_in_the_kernel_text_is_plain_again() {
        let events = [
            accepted(),
            received(&record(22, 200)),
            received(&[record(20, 1), record(23, 53)].concat()),
            call(Sysno::setsockopt, &[7, 282, 1], 0, b""),
            received(b"POST / HTTP/1.1"),
            received(b"body"),
            sent(OK),
        ];
        assert_eq!(phases(&events), "accept tls tls tls head body head");
    }

    #[test]
    fn a_connection_may_be_worked_on_by_a_ring() {
        let done = |opcode: u32, memory: &[u8], result: i64| {
            let event = call(Sysno::read, &[7, 0, 0, 0, 0, 0x9000], result, memory);
            Event { call: 1_024 + opcode, ..event }
        };
        let accept = done(13, b"", 7);
        let (recv, send) = (done(27, GET, 18), done(26, OK, 19));
        let [cancelled, crowded] = [125, 105].map(|errno| done(27, b"", -errno));
        let (more, end, close) = (done(26, b"more", 4), done(27, b"", 0), done(19, b"", 0));
        let events = [accept, recv, send, cancelled, more, crowded, end, close, received(GET)];
        assert_eq!(phases(&events), "accept head head head body head close close other");
        assert_eq!(phases(&[accepted(), done(27, GET, 18), sent(OK)]), "accept head head");
    }

    #[test]
    fn messages_in_arrays_are_messages() {
        let several = |number, memory: &[u8], messages| call(number, &[7], messages, memory);
        let get = several(Sysno::recvmmsg, GET, 2);
        let [ok, body] = [OK, b"and more"].map(|data| several(Sysno::sendmmsg, data, 3));
        let end = several(Sysno::recvmmsg, b"", 1);
        let events = [accepted(), get, ok, body, end, closed()];
        assert_eq!(phases(&events), "accept head head body close close");
    }

    #[test]
    fn what_became_of_sends_is_no_end() {
        let flags = libc::MSG_ERRQUEUE.cast_unsigned().into();
        let told = call(Sysno::recvmsg, &[7, 0, flags], 0, b"");
        let events = [accepted(), received(GET), sent(OK), told, received(GET), sent(OK)];
        assert_eq!(phases(&events), "accept head head body head head");
    }

    #[test]
    fn connections_may_be_closed_together() {
        let all = |from| call(Sysno::close_range, &[from, 9, 0], 0, b"");
        let events = [accepted(), received(GET), all(8), all(3), received(GET)];
        assert_eq!(phases(&events), "accept head other close other");
    }

    #[test]
    fn what_is_no_stream_is_no_connection() {
        let datagram = call(Sysno::socket, &[2, 2], 7, b"");
        let events = [datagram, call(Sysno::connect, &[7], 0, b""), sent(GET), closed()];
        assert_eq!(phases(&events), "other other other other");
        let listens = call(Sysno::listen, &[7, 5], 0, b"");
        let stream = call(Sysno::socket, &[10, 1], 7, b"");
        assert_eq!(phases(&[stream, listens, watched()]), "connect other other");
        let reused = call(Sysno::openat, &[0, 0], 7, b"a");
        assert_eq!(phases(&[accepted(), reused, received(b"text")]), "accept other other");
    }

    #[test]
    fn a_close_that_is_told_late_ends_nobody_else() {
        let accept = Event { end: 100, ..accepted() };
        let late = Event { start: Some(90), end: 110, ..closed() };
        let closed = Event { start: Some(120), end: 130, ..closed() };
        let events = [accept, late, received(GET), closed, received(GET)];
        assert_eq!(phases(&events), "accept close head close other");
    }

    proptest! {
        #[test]
        fn whatever_is_called_belongs_to_some_phase(
            calls in proptest::collection::vec(
                (
                    prop_oneof![0..460_u32, 1_024..1_100_u32, 0x1400..0x1440_u32],
                    proptest::array::uniform6(prop_oneof![0..9_u64, any::<u64>()]),
                    -600..100_i64,
                    any::<[u8; 8]>(),
                ),
                0..60,
            )
        ) {
            let mut connections = Connections::default();
            for (number, arguments, result, memory) in calls {
                let event = call(Sysno::read, &arguments, result, &memory);
                let event = Event { call: number, ..event };
                prop_assert!(Phase::ALL.contains(&connections.phase(&event)));
                prop_assert!(connections.known.len() <= 100);
            }
        }
    }

    #[test]
    fn connections_are_bounded() {
        let mut connections = Connections::default();
        for descriptor in 0..i64::try_from(CONNECTIONS_MAX).unwrap() + 5 {
            connections.phase(&call(Sysno::accept4, &[3], descriptor, b""));
        }
        assert_eq!((connections.known.len(), connections.lost), (CONNECTIONS_MAX, 5));
    }
}
