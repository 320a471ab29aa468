//! Client and server back to back in memory: the messages that one sends, the other receives.

use bytes::{Bytes, BytesMut};
use fulmar_proto::h2::H2;
use fulmar_proto::{
    BodyLen, Client, Connection, Event, HeaderBuf, Headers, Input, Request, Response, Scratch,
    Segment, Server, Side, StreamId,
};

/// Bytes from one side to the other.
#[derive(Default)]
struct OneWay {
    sent: BytesMut,
    arrived: BytesMut,
    scratch: Scratch,
}

impl OneWay {
    /// Takes what `from` has to send, and passes at most `piece` bytes of it to `to`. False if
    /// nothing moved.
    fn pass<A: Side, B: Side>(
        &mut self,
        (from, to): (&mut H2<A>, &mut H2<B>),
        piece: usize,
        mut app: impl FnMut(&mut H2<B>, Event<'_, B>),
    ) -> bool {
        let mut moved = false;
        if let Some(transmit) = from.poll_transmit() {
            self.sent.extend_from_slice(transmit.inline);
            for segment in transmit.segments {
                let Segment::Bytes(bytes) = segment else { panic!("no file was queued") };
                self.sent.extend_from_slice(bytes);
            }
            let len = transmit.len();
            from.handle_sent(len);
            moved |= len > 0;
        }
        let mut nothing = BytesMut::new();
        let mut none = Input::all(&mut nothing, false);
        while let Some(event) = from_event(from, &mut none, &mut self.scratch) {
            assert!(matches!(event, Event::Writable { .. }), "{event:?}");
            moved = true;
        }
        let piece = self.sent.split_to(piece.min(self.sent.len()));
        moved |= !piece.is_empty();
        self.arrived.extend_from_slice(&piece);
        let mut input = Input::all(&mut self.arrived, false);
        while let Some(event) = from_event(to, &mut input, &mut self.scratch) {
            app(to, event);
            moved = true;
        }
        moved
    }
}

fn from_event<'a, S: Side>(
    connection: &mut H2<S>,
    input: &mut Input<'_>,
    scratch: &'a mut Scratch,
) -> Option<Event<'a, S>> {
    connection.poll_event(input, scratch).expect("the peer follows the protocol")
}

/// Sends `count` requests with bodies of `size` bytes, whose responses are their bodies with a
/// trailer.
fn echo(count: u32, size: usize, piece: usize) {
    let (mut client, mut server) = (H2::<Client>::default(), H2::<Server>::default());
    let (mut up, mut down) = (OneWay::default(), OneWay::default());
    let body = Bytes::from(vec![b'x'; size]);
    let mut headers = HeaderBuf::new();
    headers.push("Host", b"example.com").expect("a valid call");
    headers.push("X-One", b"1").expect("a valid call");
    for _ in 0..count {
        let stream = client.open().expect("a valid call");
        let added: [(&str, &[u8]); 1] = [("X-Two", b"2")];
        let request =
            Request { added: &added, ..Request::new(b"POST", b"/echo", headers.as_headers()) };
        client.send_head(stream, request, BodyLen::Exact(size as u64)).expect("a valid call");
        client.send_data(stream, body.clone().into()).expect("a valid call");
        client.send_end(stream, Headers::EMPTY).expect("a valid call");
    }
    let (mut heads, mut received, mut ends) = (0, 0, 0);
    let mut trailers = HeaderBuf::new();
    trailers.push("X-Sum", b"7").expect("a valid call");
    loop {
        let mut moved = up.pass((&mut client, &mut server), piece, |server, event| match event {
            Event::Head { stream, head, len } => {
                assert_eq!((head.method, head.target), (&b"POST"[..], &b"/echo"[..]));
                assert_eq!(len, BodyLen::Exact(size as u64));
                assert_eq!(head.headers.get("host"), Some(&b"example.com"[..]));
                assert_eq!(head.headers.get("x-one"), Some(&b"1"[..]));
                assert_eq!(head.headers.get("x-two"), Some(&b"2"[..]));
                heads += 1;
                let response = Response::new(200, Headers::EMPTY);
                server.send_head(stream, response, BodyLen::Unknown).expect("a valid call");
            }
            Event::Data { stream, bytes } => {
                let len = bytes.len();
                server.send_data(stream, bytes.into()).expect("a valid call");
                server.release(stream, len);
            }
            Event::End { stream, .. } => {
                server.send_end(stream, trailers.as_headers()).expect("a valid call")
            }
            Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        });
        moved |= down.pass((&mut server, &mut client), piece, |client, event| match event {
            Event::Head { head, .. } => assert_eq!(head.status, 200),
            Event::Data { stream, bytes } => {
                received += bytes.len();
                client.release(stream, bytes.len());
            }
            Event::End { trailers, .. } => {
                assert_eq!(trailers.get("x-sum"), Some(&b"7"[..]));
                ends += 1;
            }
            Event::Writable { .. } => {}
            other => panic!("{other:?}"),
        });
        if !moved {
            break;
        }
    }
    assert_eq!((heads, ends), (count, count));
    assert_eq!(received, count as usize * size);
    assert_eq!((client.open_streams(), server.open_streams()), (0, 0));
    assert_eq!(client.open(), Some(StreamId(count * 2 + 1)));
}

#[test]
fn a_hundred_streams_carry_their_messages_both_ways() {
    echo(100, 200_000, usize::MAX);
}

#[test]
fn every_split_of_the_bytes_gives_the_same_messages() {
    for piece in [1, 2, 3, 7, 9, 10, 100, 1_000] {
        echo(3, 2_000, piece);
    }
    echo(2, 100_000, 1_000);
}
