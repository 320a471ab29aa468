//! Assigns each call to a phase of its connection, by the data on the socket.
//!
//! A connection begins with the call that returns its descriptor and ends with the call that closes
//! it. In between, the first bytes of the data determine its stage: the client (this process or the
//! peer) sends a handshake or a request, the server responds, and the next request ends the
//! response.
//!
//! ```text
//! Unconnected ─▶ Fresh ─▶ Requested ─▶ Responding ─▶ Closing
//!                  │          ▲  ▲_________│
//!                  └▶ Handshake ─▶ Secured ─▶ Requested
//! ```
//!
//! Pure: events go in, in the order in which the calls returned.

use std::collections::HashMap;

use crate::connection_actions::{ConnectionAction, SocketKey, SocketUse};
use crate::counts::ConnectionPhase;
use crate::event::CallEvent;
use crate::records::{HandshakeProgress, TlsRecords, is_alert, is_handshake};

/// The connections of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct TrackedConnections {
    known: HashMap<SocketKey, TrackedConnection>,
    /// Connections beyond the limit. Their calls are [`ConnectionPhase::Other`].
    pub(crate) lost: u64,
}

#[derive(Debug)]
struct TrackedConnection {
    /// When the call that created it returned.
    since: u64,
    /// The process opened the connection, so it sends the requests. Otherwise it accepted it.
    is_client: bool,
    stage: ConnectionStage,
    /// The data are encrypted.
    is_encrypted: bool,
}

#[derive(Clone, Copy, Debug)]
enum ConnectionStage {
    /// A socket that is not connected yet.
    Unconnected,
    /// Nothing was sent or received.
    Fresh,
    /// The client has begun a handshake.
    Handshake(TlsRecords),
    /// The handshake is complete; no request yet.
    Secured,
    /// A request has begun, and no response. `body`: its method usually has a body.
    Requested { body: bool },
    /// A response has begun.
    Responding,
    /// The connection is ending.
    Closing,
}

impl TrackedConnections {
    /// The phase of the connection that a call or an operation belongs to.
    pub(crate) fn phase(&mut self, event: &CallEvent) -> ConnectionPhase {
        let Some(deed) = ConnectionAction::of(event) else { return ConnectionPhase::Other };
        match deed {
            ConnectionAction::Accept(new) => {
                if let Some(name) = new {
                    self.begin(name, event, false, ConnectionStage::Fresh);
                }
                ConnectionPhase::Accept
            }
            ConnectionAction::Stream(new) => {
                self.begin(new, event, true, ConnectionStage::Unconnected);
                ConnectionPhase::Connect
            }
            ConnectionAction::Forget(name) => {
                self.known.remove(&name);
                ConnectionPhase::Other
            }
            ConnectionAction::Close(name) => self.close(name, event),
            ConnectionAction::CloseAll { process, from, to } => self.close_all(process, from, to),
            ConnectionAction::Pour { from, to } => {
                let source = self.known.get_mut(&from).map(|known| known.relay(false, event));
                let sink = self.known.get_mut(&to).map(|known| known.relay(true, event));
                sink.or(source).unwrap_or(ConnectionPhase::Other)
            }
            ConnectionAction::Use(name, act) => self
                .known
                .get_mut(&name)
                .map_or(ConnectionPhase::Other, |known| known.act(act, event)),
        }
    }

    fn begin(
        &mut self,
        name: SocketKey,
        event: &CallEvent,
        is_client: bool,
        stage: ConnectionStage,
    ) {
        if self.known.len() >= CONNECTIONS_MAX && !self.known.contains_key(&name) {
            self.lost += 1;
            return;
        }
        let connection =
            TrackedConnection { since: event.end, is_client, stage, is_encrypted: false };
        self.known.insert(name, connection);
    }

    fn close(&mut self, name: SocketKey, event: &CallEvent) -> ConnectionPhase {
        let Some(known) = self.known.get(&name) else { return ConnectionPhase::Other };
        // While this thread was still returning from `close`, another one may have received the
        // same descriptor number.
        if event.start.is_none_or(|start| start >= known.since) {
            self.known.remove(&name);
        }
        ConnectionPhase::Close
    }

    fn close_all(&mut self, process: u32, from: i32, to: i32) -> ConnectionPhase {
        let before = self.known.len();
        self.known.retain(|name, _| {
            name.process != process || name.table != 0 || !(from..=to).contains(&name.number)
        });
        if self.known.len() < before { ConnectionPhase::Close } else { ConnectionPhase::Other }
    }
}

impl TrackedConnection {
    fn act(&mut self, act: SocketUse, event: &CallEvent) -> ConnectionPhase {
        match act {
            SocketUse::Connect => {
                self.stage = ConnectionStage::Fresh;
                ConnectionPhase::Connect
            }
            SocketUse::Shutdown => self.end(),
            SocketUse::Receive { flags } => self.receive(flags, event),
            SocketUse::Send if self.is_client => self.request(event),
            SocketUse::Send => self.response(event),
            SocketUse::Encrypt => self.start_kernel_tls(),
            SocketUse::Touch => self.touch(),
        }
    }

    fn end(&mut self) -> ConnectionPhase {
        self.stage = ConnectionStage::Closing;
        ConnectionPhase::Close
    }

    fn receive(&mut self, flags: i32, event: &CallEvent) -> ConnectionPhase {
        if flags & libc::MSG_ERRQUEUE != 0 {
            return self.touch(); // completion of sends; nothing is received
        }
        if flags & libc::MSG_PEEK != 0 {
            return match self.stage {
                ConnectionStage::Fresh if is_handshake(&event.memory) => ConnectionPhase::Tls,
                _ => self.attempt(!self.is_client), // the same bytes are received again later
            };
        }
        match (event.result, event.size()) {
            (0.., 0) => self.end(),
            _ if self.is_client => self.response(event),
            _ => self.request(event),
        }
    }

    /// Data from the client to the server.
    fn request(&mut self, event: &CallEvent) -> ConnectionPhase {
        let Some(size) = self.moved(event) else { return self.failed(true, event) };
        if let ConnectionStage::Unconnected | ConnectionStage::Fresh = self.stage
            && is_handshake(&event.memory)
        {
            self.stage = ConnectionStage::Handshake(TlsRecords::default());
            self.is_encrypted = true;
        }
        match &mut self.stage {
            ConnectionStage::Handshake(records) => match records.take(size, &event.memory) {
                HandshakeProgress::Handshake => ConnectionPhase::Tls,
                HandshakeProgress::Done => {
                    self.stage = ConnectionStage::Secured;
                    ConnectionPhase::Tls
                }
                HandshakeProgress::DoneAndMore => {
                    self.stage = ConnectionStage::Requested { body: false };
                    ConnectionPhase::Tls
                }
                HandshakeProgress::Data => self.begin_request(event),
            },
            ConnectionStage::Requested { body: true } => ConnectionPhase::Body,
            ConnectionStage::Requested { body: false } => ConnectionPhase::Head,
            ConnectionStage::Closing => ConnectionPhase::Close,
            ConnectionStage::Unconnected
            | ConnectionStage::Fresh
            | ConnectionStage::Secured
            | ConnectionStage::Responding => self.begin_request(event),
        }
    }

    /// A request begins.
    fn begin_request(&mut self, event: &CallEvent) -> ConnectionPhase {
        let body = !self.is_encrypted && WITH_BODY.iter().any(|m| event.memory.starts_with(m));
        self.stage = ConnectionStage::Requested { body };
        ConnectionPhase::Head
    }

    /// Data from the server to the client.
    fn response(&mut self, event: &CallEvent) -> ConnectionPhase {
        if self.moved(event).is_none() {
            return self.failed(false, event);
        }
        let begins_response = !self.is_encrypted && event.memory.starts_with(RESPONSE_START);
        match self.stage {
            ConnectionStage::Handshake(_) | ConnectionStage::Secured => ConnectionPhase::Tls,
            ConnectionStage::Closing => ConnectionPhase::Close,
            ConnectionStage::Requested { .. }
                if begins_response && event.memory.get(RESPONSE_START.len() + 2) == Some(&b'1') =>
            {
                ConnectionPhase::Head // an interim response (RFC 9110 §15.2); the final one follows
            }
            ConnectionStage::Responding if !begins_response => ConnectionPhase::Body,
            ConnectionStage::Unconnected
            | ConnectionStage::Fresh
            | ConnectionStage::Requested { .. }
            | ConnectionStage::Responding => {
                self.stage = ConnectionStage::Responding;
                ConnectionPhase::Head
            }
        }
    }

    /// Bytes from a file or a pipe: part of a body.
    fn relay(&mut self, sends: bool, event: &CallEvent) -> ConnectionPhase {
        match self.stage {
            ConnectionStage::Closing => ConnectionPhase::Close,
            ConnectionStage::Requested { .. } if sends != self.is_client && event.result > 0 => {
                self.stage = ConnectionStage::Responding;
                ConnectionPhase::Body
            }
            _ => ConnectionPhase::Body,
        }
    }

    /// The number of bytes. `None` if none were moved; an alert also ends the connection.
    fn moved(&mut self, event: &CallEvent) -> Option<u64> {
        let size = Some(event.size()).filter(|size| *size > 0)?;
        if self.is_encrypted && is_alert(&event.memory) {
            self.stage = ConnectionStage::Closing;
        }
        Some(size)
    }

    /// A send or receive that moved nothing, or failed.
    fn failed(&mut self, request: bool, event: &CallEvent) -> ConnectionPhase {
        match event.result {
            0.. => self.attempt(request),
            negative => match i32::try_from(negative.unsigned_abs()) {
                Ok(libc::EAGAIN | libc::EINTR | FIRST_RESTART..) => self.attempt(request),
                Ok(libc::ECANCELED | libc::ENOBUFS) => self.attempt(request), // of io_uring
                _ => self.end(),
            },
        }
    }

    /// The phase that a successful send or receive would have had.
    fn attempt(&self, request: bool) -> ConnectionPhase {
        match (self.stage, request) {
            (ConnectionStage::Handshake(_), _) | (ConnectionStage::Secured, false) => {
                ConnectionPhase::Tls
            }
            (ConnectionStage::Requested { body: true }, true)
            | (ConnectionStage::Responding, false) => ConnectionPhase::Body,
            (ConnectionStage::Closing, _) => ConnectionPhase::Close,
            _ => ConnectionPhase::Head,
        }
    }

    /// From here on the kernel encrypts, and the program sends and receives plain text.
    fn start_kernel_tls(&mut self) -> ConnectionPhase {
        self.is_encrypted = false;
        if let ConnectionStage::Handshake(_) = self.stage {
            self.stage = ConnectionStage::Secured;
        }
        ConnectionPhase::Tls
    }

    /// A call without data has the phase of its connection.
    fn touch(&self) -> ConnectionPhase {
        match self.stage {
            ConnectionStage::Unconnected => ConnectionPhase::Connect,
            ConnectionStage::Fresh if self.is_client => ConnectionPhase::Connect,
            ConnectionStage::Fresh => ConnectionPhase::Accept,
            ConnectionStage::Handshake(_) | ConnectionStage::Secured => ConnectionPhase::Tls,
            ConnectionStage::Requested { body: false } => ConnectionPhase::Head,
            ConnectionStage::Requested { body: true } | ConnectionStage::Responding => {
                ConnectionPhase::Body
            }
            ConnectionStage::Closing => ConnectionPhase::Close,
        }
    }
}

/// The first bytes of a response, up to the minor version (RFC 9112 §4).
const RESPONSE_START: &[u8] = b"HTTP/1.";
/// Methods of requests that have a body.
const WITH_BODY: [&[u8]; 3] = [b"POST ", b"PUT ", b"PATCH "];
/// From here on, an error number means that the kernel restarts the call after a signal
/// (linux/errno.h).
const FIRST_RESTART: i32 = 512;
/// The capacity of the kernel's table of tasks; some megabytes.
const CONNECTIONS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use syscalls::Sysno;

    use super::*;

    /// A call of process 1 with these arguments and no times.
    fn call(call: Sysno, arguments: &[u64], result: i64, memory: &[u8]) -> CallEvent {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        CallEvent {
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

    fn moves(number: Sysno, bytes: &[u8]) -> CallEvent {
        call(number, &[7], i64::try_from(bytes.len()).unwrap(), bytes)
    }

    fn received(bytes: &[u8]) -> CallEvent {
        moves(Sysno::recvfrom, bytes)
    }

    fn sent(bytes: &[u8]) -> CallEvent {
        moves(Sysno::sendto, bytes)
    }

    fn accepted() -> CallEvent {
        call(Sysno::accept4, &[3], 7, b"")
    }

    fn closed() -> CallEvent {
        call(Sysno::close, &[7], 0, b"")
    }

    fn fails(number: Sysno, errno: i64) -> CallEvent {
        call(number, &[7], -errno, b"")
    }

    fn watched() -> CallEvent {
        call(Sysno::epoll_ctl, &[4, 1, 7], 0, b"")
    }

    /// The names of the phases of these calls.
    fn phases(events: &[CallEvent]) -> String {
        let mut connections = TrackedConnections::default();
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
    fn a_server_accepts_responds_and_closes() {
        let file = call(Sysno::openat, &[0, 0], 8, b"a.txt");
        let relay = call(Sysno::sendfile, &[7, 8], 4_000, b"");
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
            relay,
            sent(b"the rest"),
            fails(Sysno::recvfrom, 11),
            received(GET),
            sent(OK),
            end,
            closed(),
            received(GET), // this descriptor is no longer a connection
        ];
        assert_eq!(
            phases(&events),
            "accept accept head other head other head body body head head head close close other"
        );
    }

    #[test]
    fn a_client_connects_requests_and_reads() {
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
    fn each_response_to_pipelined_requests_has_a_head() {
        let events = [accepted(), received(GET), sent(OK), sent(b"body"), sent(OK)];
        assert_eq!(phases(&events), "accept head head body head");
    }

    #[test]
    fn peeked_data_are_received_again() {
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

    /// As OpenSSL does: first the five bytes with the length of the record.
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
    fn kernel_tls_shows_plain_text() {
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
    fn io_uring_operations_have_phases() {
        let done = |opcode: u32, memory: &[u8], result: i64| {
            let event = call(Sysno::read, &[7, 0, 0, 0, 0, 0x9000], result, memory);
            CallEvent { call: 1_024 + opcode, ..event }
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
    fn batched_messages_have_phases() {
        let several = |number, memory: &[u8], messages| call(number, &[7], messages, memory);
        let get = several(Sysno::recvmmsg, GET, 2);
        let [ok, body] = [OK, b"and more"].map(|data| several(Sysno::sendmmsg, data, 3));
        let end = several(Sysno::recvmmsg, b"", 1);
        let events = [accepted(), get, ok, body, end, closed()];
        assert_eq!(phases(&events), "accept head head body close close");
    }

    #[test]
    fn reading_the_error_queue_is_no_close() {
        let flags = libc::MSG_ERRQUEUE.cast_unsigned().into();
        let completion = call(Sysno::recvmsg, &[7, 0, flags], 0, b"");
        let events = [accepted(), received(GET), sent(OK), completion, received(GET), sent(OK)];
        assert_eq!(phases(&events), "accept head head body head head");
    }

    #[test]
    fn close_range_closes_connections() {
        let all = |from| call(Sysno::close_range, &[from, 9, 0], 0, b"");
        let events = [accepted(), received(GET), all(8), all(3), received(GET)];
        assert_eq!(phases(&events), "accept head other close other");
    }

    #[test]
    fn only_stream_sockets_become_connections() {
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
    fn a_late_close_event_ends_no_newer_connection() {
        let accept = CallEvent { end: 100, ..accepted() };
        let late = CallEvent { start: Some(90), end: 110, ..closed() };
        let closed = CallEvent { start: Some(120), end: 130, ..closed() };
        let events = [accept, late, received(GET), closed, received(GET)];
        assert_eq!(phases(&events), "accept close head close other");
    }

    proptest! {
        #[test]
        fn every_event_has_a_phase(
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
            let mut connections = TrackedConnections::default();
            for (number, arguments, result, memory) in calls {
                let event = call(Sysno::read, &arguments, result, &memory);
                let event = CallEvent { call: number, ..event };
                prop_assert!(ConnectionPhase::ALL.contains(&connections.phase(&event)));
                prop_assert!(connections.known.len() <= 100);
            }
        }
    }

    #[test]
    fn connections_are_bounded() {
        let mut connections = TrackedConnections::default();
        for descriptor in 0..i64::try_from(CONNECTIONS_MAX).unwrap() + 5 {
            connections.phase(&call(Sysno::accept4, &[3], descriptor, b""));
        }
        assert_eq!((connections.known.len(), connections.lost), (CONNECTIONS_MAX, 5));
    }
}
