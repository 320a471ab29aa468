//! TLS sessions with a hostile peer, or a hostile wire between two honest ends.
//!
//! Opened bytes are the bytes that the other end sealed, in their order, or there is one error.

use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use fulmar_proto::{Input, Layer, Opened, Segment, Transmit};
use fulmar_tls::{ClientOptions, ClientTls, Identity, Pem, ServerOptions, ServerTls, Verify};

/// Any bytes instead of the peer's, to both roles; the first byte is the size of pieces, less one.
pub fn records(data: &[u8]) {
    let (size, bytes) = data.split_first().map_or((1, data), |(size, rest)| (*size, rest));
    for mut end in [FuzzEnd::server(), FuzzEnd::client()] {
        for piece in bytes.chunks(usize::from(size) + 1) {
            end.open(piece, false);
        }
        end.open(b"", true);
        assert!(!end.established && end.above.is_empty(), "there is no key");
    }
}

/// A handshake and some data, while the wire changes bytes. Three bytes of `data` are a change: two
/// for the position (both directions together, in their order), one for the mask.
pub fn wire(data: &[u8]) {
    let (mut client, mut server) = (FuzzEnd::client(), FuzzEnd::server());
    let mut changes: Vec<_> = data.chunks_exact(3).map(change).collect();
    changes.sort_unstable();
    let mut passed = 0;
    let mut sent = [false; 2];
    for _ in 0..ROUNDS_MAX {
        let mut moved = false;
        for is_client in [true, false] {
            let (from, to) = match is_client {
                true => (&mut client, &mut server),
                false => (&mut server, &mut client),
            };
            if from.established && !from.failed && !sent[usize::from(is_client)] {
                sent[usize::from(is_client)] = from.seal(WORDS);
            }
            let mut bytes = from.take();
            for (at, mask) in &changes {
                if let Some(byte) = at.checked_sub(passed).and_then(|at| bytes.get_mut(at)) {
                    *byte ^= mask;
                }
            }
            passed += bytes.len();
            moved |= !bytes.is_empty();
            if !bytes.is_empty() {
                to.open(&bytes, false);
            }
        }
        if !moved && sent.iter().all(|sent| *sent) || client.failed && server.failed {
            break;
        }
    }
    for end in [&client, &server] {
        assert!(WORDS.starts_with(&end.above), "nothing is made up");
        let is_changed = changes.iter().any(|(at, mask)| *at < passed && *mask != 0);
        assert!(is_changed || end.above.len() == WORDS.len(), "nothing was changed");
    }
}

fn change(of: &[u8]) -> (usize, u8) {
    (usize::from(of[0]) << 8 | usize::from(of[1]), of[2])
}

/// One end of a connection.
struct FuzzEnd {
    layer: Box<dyn Layer>,
    wire: BytesMut,
    above: BytesMut,
    established: bool,
    failed: bool,
}

impl FuzzEnd {
    fn client() -> Self {
        static TLS: OnceLock<ClientTls> = OnceLock::new();
        let options = || ClientOptions { verify: Verify::Nothing, ..ClientOptions::default() };
        let tls = TLS.get_or_init(|| ClientTls::new(options()).expect("sound options"));
        Self::of(tls.session("localhost").expect("a name"))
    }

    fn server() -> Self {
        static TLS: OnceLock<ServerTls> = OnceLock::new();
        let tls = TLS.get_or_init(|| {
            let (cert, key) = (Bytes::from_static(CERT), Bytes::from_static(KEY));
            let identities = vec![Identity::new(Pem::Bytes(cert), Pem::Bytes(key))];
            ServerTls::new(ServerOptions { identities, ..ServerOptions::default() })
                .expect("sound options")
        });
        Self::of(tls.session().expect("memory"))
    }

    fn of(layer: impl Layer + 'static) -> Self {
        Self {
            layer: Box::new(layer),
            wire: BytesMut::new(),
            above: BytesMut::new(),
            established: false,
            failed: false,
        }
    }

    fn open(&mut self, bytes: &[u8], eof: bool) {
        if self.failed {
            return;
        }
        self.wire.extend_from_slice(bytes);
        let most = self.wire.len() + 10;
        for opened in 0.. {
            assert!(opened <= most, "each takes something");
            let mut input = Input::all(&mut self.wire, eof);
            match self.layer.open(&mut input, &mut self.above) {
                Ok(Opened::Some | Opened::Ended) => {}
                Ok(Opened::Established) => {
                    assert!(!self.established, "reported once");
                    self.established = true;
                }
                Ok(Opened::Blocked) => return,
                Ok(Opened::Truncated(_)) | Err(_) => {
                    self.failed = true;
                    return;
                }
                Ok(Opened::Replaced(_)) => panic!("TLS stays"),
            }
        }
    }

    fn seal(&mut self, bytes: &[u8]) -> bool {
        self.layer.seal(Transmit::new(bytes, &[])).is_ok()
    }

    fn take(&mut self) -> Vec<u8> {
        let Some(transmit) = self.layer.poll_transmit() else { return Vec::new() };
        let mut bytes = transmit.inline.to_vec();
        for segment in transmit.segments {
            let Segment::Bytes(run) = segment else { panic!("records are in memory") };
            bytes.extend_from_slice(run);
        }
        self.layer.handle_sent(bytes.len() as u64);
        bytes
    }
}

const CERT: &[u8] = include_bytes!("../data/cert.pem");
const KEY: &[u8] = include_bytes!("../data/key.pem");
const WORDS: &[u8] = b"bytes that must arrive unchanged";
/// A handshake takes three.
const ROUNDS_MAX: usize = 12;
