//! Whatever an application puts into fields, nothing is queued, or one head that another parser
//! reads as those fields and no others (RFC 9110 §5.5).

use bytes::BytesMut;
use fulmar_proto::h1::H1Server;
use fulmar_proto::{
    BodyLen, Connection, HeaderBuf, Headers, Input, Response, Scratch, Segment, StreamId,
    UsageError,
};
use proptest::prelude::*;

type AddedField = (String, Vec<u8>);

/// A server with a request.
fn server_with_request() -> (H1Server, StreamId) {
    let mut server = H1Server::default();
    let mut block = BytesMut::from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut input, mut scratch) = (Input::all(&mut block, false), Scratch::default());
    let mut stream = None;
    while let Some(event) = server.poll_event(&mut input, &mut scratch).expect("a sound head") {
        stream = Some(event.stream());
    }
    (server, stream.expect("a request"))
}

fn queued(server: &mut H1Server) -> Vec<u8> {
    let Some(transmit) = server.poll_transmit() else { return Vec::new() };
    let mut bytes = transmit.inline.to_vec();
    for segment in transmit.segments {
        let Segment::Bytes(run) = segment else { panic!("no files here") };
        bytes.extend_from_slice(run);
    }
    bytes
}

/// The fields of the only head in `bytes`, without those that are the connection's own.
fn fields(bytes: &[u8]) -> Vec<AddedField> {
    let mut index = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut index);
    let parsed = head.parse(bytes).expect("a sound head");
    assert_eq!(parsed, httparse::Status::Complete(bytes.len()), "one head and nothing else");
    let is_own = |name: &str| name.eq_ignore_ascii_case("content-length") || is_hop(name);
    let all = head.headers.iter().filter(|field| !is_own(field.name));
    all.map(|field| (field.name.to_owned(), field.value.to_vec())).collect()
}

fn is_hop(name: &str) -> bool {
    name.eq_ignore_ascii_case("connection")
}

/// Names and values of pieces that matter to a parser of heads.
fn text() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"a",
        b"b",
        b"c",
        b"d",
        b"X-Name",
        b"value",
        b" ",
        b"\t",
        b":",
        b": ",
        b"\r\n",
        b"\r",
        b"\n",
        b"\0",
        b"\x0b",
        b"\x7f",
        b"\x85",
        b"\xff",
        b",",
        b";",
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK",
        b"Connection",
    ];
    let piece = prop::sample::select(PIECES);
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn field() -> impl Strategy<Value = AddedField> {
    (text(), text()).prop_map(|(name, value)| (String::from_utf8_lossy(&name).into(), value))
}

proptest! {
    #[test]
    fn what_is_added_is_refused_or_read_as_it_was(
        added in prop::collection::vec(field(), 0..4), status in 200_u16..600,
    ) {
        let (mut server, stream) = server_with_request();
        let borrowed: Vec<_> = added.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let head = Response { added: &borrowed, ..Response::new(status, Headers::EMPTY) };
        match server.send_head(stream, head, BodyLen::Empty) {
            Err(error) => {
                prop_assert_eq!(error, UsageError::BadHead);
                prop_assert!(queued(&mut server).is_empty());
                let plain = Response::new(500, Headers::EMPTY);
                prop_assert_eq!(server.send_head(stream, plain, BodyLen::Empty), Ok(()));
            }
            Ok(()) => {
                let expected = added.into_iter().filter(|(name, _)| !is_hop(name));
                prop_assert_eq!(fields(&queued(&mut server)), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_is_built_is_refused_or_read_as_it_was(
        built in prop::collection::vec(field(), 0..4),
    ) {
        let mut headers = HeaderBuf::new();
        let taken = built.into_iter().filter(|(name, value)| headers.push(name, value).is_ok());
        let taken: Vec<_> = taken.collect();
        let (mut server, stream) = server_with_request();
        let head = Response::new(200, headers.as_headers());
        prop_assert_eq!(server.send_head(stream, head, BodyLen::Unknown), Ok(()));
        let wire = queued(&mut server);
        let expected = taken.iter().filter(|(name, _)| !is_hop(name)).cloned();
        let framing = ("Transfer-Encoding".to_owned(), b"chunked".to_vec());
        prop_assert_eq!(fields(&wire), expected.chain([framing]).collect::<Vec<_>>());
        // As trailers they are the same lines, after the last chunk.
        prop_assert_eq!(server.send_end(stream, headers.as_headers()), Ok(()));
        let all = queued(&mut server);
        let lines = taken.iter().filter(|(name, _)| !is_hop(name)).flat_map(|(name, value)| {
            [name.as_bytes(), b": ", value, b"\r\n"].concat()
        });
        let expected: Vec<u8> = b"0\r\n".iter().copied().chain(lines).chain(*b"\r\n").collect();
        prop_assert_eq!(&all[wire.len()..], &expected[..]);
    }
}
