//! Events of the client, kept until nothing is borrowed: only then the application is called.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_client::{
    Application, ConnectedFacts, Context, Done, ExchangeFacts, TransferEvent, TransferId,
};
use fulmar_drive::SocketId;
use fulmar_proto::{Headers, Response, Version};

use crate::response_field::{ResponseField, ResponseFields};

/// An event of a request.
#[derive(Debug)]
pub(crate) enum HopEvent {
    /// An interim response, or the head of the response.
    Head(ReceivedHead),
    /// The first bytes of a malformed head, and how many of them are sound lines.
    MalformedHead(Vec<u8>, usize),
    Data(Bytes),
    /// The lines behind a body.
    Trailers(Vec<u8>),
    /// There is room for more of the request's body.
    Writable,
    /// The request has begun on a connection, with verbose output.
    Connected(Box<ConnectedFacts>),
    /// The transfer has a connection.
    Assigned(SocketId, Option<SocketAddr>),
    /// The certificates of the connection that was opened for it.
    Certificates(Arc<[Vec<u8>]>),
    /// The connection is the application's.
    Upgraded(Box<ExchangeFacts>),
    Done(Box<Done>),
}

/// A received head.
#[derive(Debug)]
pub(crate) struct ReceivedHead {
    /// The lines as they are delivered, with the empty one.
    pub(crate) bytes: Vec<u8>,
    /// 0 for the body of HTTP/0.9.
    pub(crate) status: u16,
    pub(crate) version: Version,
    pub(crate) is_interim: bool,
    /// The length of the body, if it is known.
    pub(crate) len: Option<u64>,
    fields: ResponseFields,
}

/// The application of the client: a queue.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: VecDeque<(TransferId, HopEvent)>,
}

impl EventQueue {
    /// Exchanges the memory of queues without events: it is needed during an action only.
    pub(crate) fn swap_memory(&mut self, other: &mut Self) {
        if self.is_empty() && other.is_empty() {
            std::mem::swap(&mut self.events, &mut other.events);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(TransferId, HopEvent)> {
        self.events.pop_front()
    }

    /// The end of a transfer, if it has not been delivered.
    pub(crate) fn done(&self, id: TransferId) -> Option<&Done> {
        self.events.iter().find_map(|(of, event)| match event {
            HopEvent::Done(done) if *of == id => Some(&**done),
            _ => None,
        })
    }

    /// Takes the events of one transfer.
    pub(crate) fn take(&mut self, id: TransferId) -> Vec<HopEvent> {
        let all = std::mem::take(&mut self.events);
        let (own, others): (Vec<_>, _) = all.into_iter().partition(|(of, _)| *of == id);
        self.events = VecDeque::from_iter::<Vec<_>>(others);
        own.into_iter().map(|(_, event)| event).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

impl Application for EventQueue {
    fn handle(&mut self, context: &mut Context<'_>, id: TransferId, event: TransferEvent<'_>) {
        let begins = matches!(
            event,
            TransferEvent::Informational(_)
                | TransferEvent::Head { .. }
                | TransferEvent::MalformedHead { .. }
                | TransferEvent::Upgraded
        );
        let assigned = if begins { context.exchange(id) } else { None };
        if let Some(ExchangeFacts { connection: Some(connection), peer, .. }) = assigned {
            self.events.push_back((id, HopEvent::Assigned(connection, peer)));
            if let Some(certificates) = context.certificates(id) {
                self.events.push_back((id, HopEvent::Certificates(Arc::clone(certificates))));
            }
        }
        let event = match event {
            TransferEvent::Connected(facts) => HopEvent::Connected(Box::new(facts)),
            TransferEvent::Informational(response) => {
                HopEvent::Head(ReceivedHead::new(response, None, true))
            }
            TransferEvent::Head { response, len } => {
                HopEvent::Head(ReceivedHead::new(response, len, false))
            }
            TransferEvent::Redirect { .. } => unreachable!("redirects are followed here"),
            TransferEvent::MalformedHead { received, judged, .. } => {
                let shown = received.len().min(judged.max(STATUS_LINE_SHOWN));
                HopEvent::MalformedHead(received[..shown].to_vec(), judged)
            }
            TransferEvent::Trailers(fields) => HopEvent::Trailers(section(fields, String::new)),
            TransferEvent::Data(bytes) => HopEvent::Data(bytes),
            TransferEvent::Writable => HopEvent::Writable,
            TransferEvent::Upgraded => {
                HopEvent::Upgraded(Box::new(assigned.expect("a tunnel has a connection")))
            }
            TransferEvent::Done(done) => HopEvent::Done(Box::new(done)),
        };
        self.events.push_back((id, event));
    }
}

impl ReceivedHead {
    fn new(response: Response<'_>, len: Option<u64>, is_interim: bool) -> Self {
        let Response { status, version, headers, .. } = response;
        let bytes = section(headers, || match version {
            Version::Http2 => format!("HTTP/2 {status} \r\n"),
            Version::Http10 => format!("HTTP/1.0 {status}\r\n"),
            Version::Http09 | Version::Http11 => format!("HTTP/1.1 {status}\r\n"),
        });
        let status = if version == Version::Http09 { 0 } else { status };
        let fields = ResponseFields::of(&bytes);
        Self { bytes, status, version, is_interim, len, fields }
    }

    /// The lines, each with its end, and those of known fields with their values.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&[u8], Option<(ResponseField, &[u8])>)> {
        self.fields.lines(&self.bytes)
    }

    /// The fields with a meaning, and their values.
    pub(crate) fn fields(&self) -> impl DoubleEndedIterator<Item = (ResponseField, &[u8])> {
        self.fields.iter(&self.bytes)
    }

    /// The values of all fields of a name.
    pub(crate) fn values(&self, of: ResponseField) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.fields().filter(move |(field, _)| *field == of).map(|(_, value)| value.trim_ascii())
    }
}

/// The lines of a section as they were received; in HTTP/2, in the form of HTTP/1.
fn section(fields: Headers<'_>, start_line: impl FnOnce() -> String) -> Vec<u8> {
    if let Some(received) = fields.received() {
        return received.to_vec();
    }
    let mut bytes = start_line().into_bytes();
    for (name, value) in fields.iter() {
        for piece in [name, b": ", value, b"\r\n"] {
            bytes.extend_from_slice(piece);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// The bytes of a status line that the text of an error needs.
const STATUS_LINE_SHOWN: usize = 64;
