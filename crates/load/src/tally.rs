//! The counters of a run. Their memory is constant.

use fulmar_proto::PeerError;
use fulmar_proto::h2::ErrorCode;
use fulmar_tls::{Info, Version};

use crate::flights::Flight;
use crate::histogram::Histogram;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The connect was refused: no listener at this address.
    ConnectRefused,
    /// The connect failed otherwise.
    ConnectFailed,
    /// The connection was not established within the timeout.
    ConnectTimeout,
    /// The source addresses have no free port: more are needed (`--bind`).
    AddressUnavailable,
    /// No free descriptor.
    Descriptors,
    /// The connection was established, and the TLS handshake failed.
    Handshake,
    /// The server closed with a request outstanding.
    Closed,
    /// The connection was reset, also while it waited to be accepted, or failed otherwise.
    Reset,
    /// The server violated HTTP.
    Protocol,
    /// HTTP/2: the server reset the stream, or broke its flow control.
    StreamReset,
    /// HTTP/2: the server refused streams again and again, and completed no response; or it
    /// accepted no stream within the timeout.
    StreamRefused,
    /// HTTP/2: the server ended the connection with GOAWAY before the response was complete.
    Goaway,
    /// The response was not complete within the timeout.
    Timeout,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::ConnectRefused,
        Self::ConnectFailed,
        Self::ConnectTimeout,
        Self::AddressUnavailable,
        Self::Descriptors,
        Self::Handshake,
        Self::Closed,
        Self::Reset,
        Self::Protocol,
        Self::StreamReset,
        Self::StreamRefused,
        Self::Goaway,
        Self::Timeout,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connect_refused",
            Self::ConnectFailed => "connect_failed",
            Self::ConnectTimeout => "connect_timeout",
            Self::AddressUnavailable => "address_unavailable",
            Self::Descriptors => "descriptors",
            Self::Handshake => "handshake",
            Self::Closed => "closed",
            Self::Reset => "reset",
            Self::Protocol => "protocol",
            Self::StreamReset => "stream_reset",
            Self::StreamRefused => "stream_refused",
            Self::Goaway => "goaway",
            Self::Timeout => "timeout",
        }
    }
}

/// The counters of one thread, or the sum of several.
#[derive(Clone, Debug)]
pub(crate) struct RunTally {
    /// Complete responses.
    pub(crate) answered: u64,
    /// Requests without a response; each is also counted in `errors`.
    pub(crate) failed: u64,
    /// Requests sent.
    pub(crate) issued: u64,
    /// Bytes received.
    pub(crate) bytes: u64,
    /// Connections established in total.
    pub(crate) opened: u64,
    /// Connections established now.
    pub(crate) established: u32,
    /// The maximum established at one time.
    pub(crate) established_max: u32,
    errors: [u64; ErrorKind::ALL.len()],
    status: Box<[u64; STATUS_LEN]>,
    /// Violations of HTTP, in the order of their first occurrence.
    pub(crate) broken: Vec<(PeerError, u64)>,
    /// Streams that were reset, by the code of the error.
    pub(crate) resets: Vec<(ErrorCode, u64)>,
    /// GOAWAYs that left requests without a response, by the code of the error.
    pub(crate) goaways: Vec<(ErrorCode, u64)>,
    /// Streams that the server refused, whose requests were sent again.
    pub(crate) refused: u64,
    /// The least number of streams that a server accepts at a time, of HTTP/2.
    pub(crate) streams_max: Option<u32>,
    pub(crate) latency: Histogram,
    pub(crate) open: Option<OpenLoop>,
    pub(crate) tls: Option<Handshakes>,
}

/// Counters for `https`.
#[derive(Clone, Debug)]
pub(crate) struct Handshakes {
    /// From the connection to the end of the handshake.
    pub(crate) latency: Histogram,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// Version and cipher suite of the first handshake.
    pub(crate) agreed: Option<(Version, &'static str)>,
    /// Causes of failed handshakes, in the order of their first occurrence.
    pub(crate) causes: Vec<(String, u64)>,
}

impl Handshakes {
    fn new() -> Self {
        let latency = Histogram::new();
        Self { latency, done: 0, failed: 0, agreed: None, causes: Vec::new() }
    }

    fn note_cause(&mut self, cause: &str, n: u64) {
        let room = self.causes.len() < CAUSES_LEN_MAX;
        match self.causes.iter_mut().find(|(known, _)| known == cause) {
            Some((_, m)) => *m += n,
            None if room => self.causes.push((cause.to_owned(), n)),
            None => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.done += other.done;
        self.failed += other.failed;
        self.agreed = self.agreed.or(other.agreed);
        for (cause, n) in &other.causes {
            self.note_cause(cause, *n);
        }
    }
}

/// Counters of an open loop: its requests have planned times.
#[derive(Clone, Debug)]
pub(crate) struct OpenLoop {
    /// From the send, where `latency` begins at the planned time.
    pub(crate) raw: Histogram,
    /// From the planned time to the send.
    pub(crate) lateness: Histogram,
}

impl RunTally {
    pub(crate) fn new(open_loop: bool, tls: bool) -> Self {
        Self {
            answered: 0,
            failed: 0,
            issued: 0,
            bytes: 0,
            opened: 0,
            established: 0,
            established_max: 0,
            errors: [0; ErrorKind::ALL.len()],
            status: Box::new([0; STATUS_LEN]),
            broken: Vec::new(),
            resets: Vec::new(),
            goaways: Vec::new(),
            refused: 0,
            streams_max: None,
            latency: Histogram::new(),
            open: open_loop.then(|| OpenLoop { raw: Histogram::new(), lateness: Histogram::new() }),
            tls: tls.then(Handshakes::new),
        }
    }

    /// A response is complete.
    pub(crate) fn answer(&mut self, now: u64, flight: Flight, status: u16) {
        self.answered += 1;
        self.status[usize::from(status).min(STATUS_LEN - 1)] += 1;
        self.latency.record(now.saturating_sub(flight.planned));
        if let Some(open) = &mut self.open {
            open.raw.record(now.saturating_sub(flight.sent));
        }
    }

    /// A request planned for `planned` was sent at `now`.
    pub(crate) fn leave(&mut self, now: u64, planned: u64) {
        if let Some(open) = &mut self.open {
            open.lateness.record(now.saturating_sub(planned));
        }
    }

    /// An error that is not a failed request.
    pub(crate) fn error(&mut self, kind: ErrorKind) {
        self.errors[kind as usize] += 1;
    }

    /// `n` requests have failed.
    pub(crate) fn fail(&mut self, kind: ErrorKind, n: u64) {
        self.errors[kind as usize] += n;
        self.failed += n;
    }

    /// The server violated HTTP.
    pub(crate) fn note_broken(&mut self, error: PeerError) {
        add_count(&mut self.broken, error, 1);
    }

    /// A stream was reset with this code.
    pub(crate) fn note_stream_reset(&mut self, code: ErrorCode) {
        add_count(&mut self.resets, code, 1);
    }

    /// GOAWAY left requests of a connection without a response.
    pub(crate) fn note_goaway(&mut self, code: ErrorCode) {
        add_count(&mut self.goaways, code, 1);
    }

    /// A server accepts this number of streams at a time.
    pub(crate) fn note_streams_max(&mut self, streams: u32) {
        if self.streams_max.is_none_or(|known| streams < known) {
            self.streams_max = Some(streams);
        }
    }

    /// A handshake took this long.
    pub(crate) fn shake_hands(&mut self, nanos: u64, info: &Info<'_>) {
        if let Some(tls) = &mut self.tls {
            tls.latency.record(nanos);
            tls.done += 1;
            tls.agreed.get_or_insert((info.version, info.cipher));
        }
    }

    /// A handshake failed.
    pub(crate) fn fail_to_shake_hands(&mut self, cause: &str) {
        if let Some(tls) = &mut self.tls {
            tls.failed += 1;
            tls.note_cause(cause, 1);
        }
    }

    pub(crate) fn connected(&mut self) {
        self.opened += 1;
        self.established += 1;
        self.established_max = self.established_max.max(self.established);
    }

    pub(crate) fn count(&self, kind: ErrorKind) -> u64 {
        self.errors[kind as usize]
    }

    /// The total of all kinds.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Received status codes with their counts.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.status.iter().copied()).filter(|(_, n)| *n > 0)
    }

    /// Adds the counters of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.issued += other.issued;
        self.bytes += other.bytes;
        self.opened += other.opened;
        self.established += other.established;
        self.established_max += other.established_max;
        self.errors.iter_mut().zip(other.errors).for_each(|(a, b)| *a += b);
        self.status.iter_mut().zip(other.status.iter()).for_each(|(a, b)| *a += b);
        for (error, n) in &other.broken {
            add_count(&mut self.broken, *error, *n);
        }
        for (code, n) in &other.resets {
            add_count(&mut self.resets, *code, *n);
        }
        for (code, n) in &other.goaways {
            add_count(&mut self.goaways, *code, *n);
        }
        self.refused += other.refused;
        if let Some(streams) = other.streams_max {
            self.note_streams_max(streams);
        }
        self.latency.merge(&other.latency);
        if let (Some(open), Some(other)) = (&mut self.open, &other.open) {
            open.raw.merge(&other.raw);
            open.lateness.merge(&other.lateness);
        }
        if let (Some(tls), Some(other)) = (&mut self.tls, &other.tls) {
            tls.merge(other);
        }
    }
}

/// Counts `n` more of a kind.
fn add_count<K: PartialEq>(counts: &mut Vec<(K, u64)>, kind: K, n: u64) {
    match counts.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, m)) => *m += n,
        None => counts.push((kind, n)),
    }
}

const STATUS_LEN: usize = 1_000;
/// The number of different causes that are kept: a server may choose names in them.
const CAUSES_LEN_MAX: usize = 16;
