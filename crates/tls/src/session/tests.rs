//! Cases that take hours between real peers, and malicious peers.

use aws_lc_rs::aead;
use fulmar_proto::LayerStack;
use rustls::client::ClientConnectionData;
use rustls::crypto::{CipherSuiteCommon, CryptoProvider, aws_lc_rs as provided};
use rustls::kernel::KernelConnection;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ConnectionTrafficSecrets, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use super::*;
use crate::options::{Verify, Version};
use crate::roots::Trusted;
use crate::verify::Verifier;

/// Maximum number of records per key. The real limit takes hours to reach.
const LIMIT: u64 = 20;

fn limited(common: &CipherSuiteCommon) -> CipherSuiteCommon {
    let (suite, hash_provider) = (common.suite, common.hash_provider);
    CipherSuiteCommon { suite, hash_provider, confidentiality_limit: LIMIT }
}

fn tls13() -> SupportedCipherSuite {
    let suite = provided::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: limited(&suite.common),
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    })))
}

fn tls12() -> SupportedCipherSuite {
    match provided::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls12(suite) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: limited(&suite.common),
                kx: suite.kx,
                sign: suite.sign,
                prf_provider: suite.prf_provider,
                aead_alg: suite.aead_alg,
            })))
        }
        other => panic!("{other:?}"),
    }
}

/// A client and a server with a finished handshake.
fn pair(suite: SupportedCipherSuite) -> (ClientSession, ServerSession) {
    let (mut client, mut server) = fresh(suite);
    let mut nothing = BytesMut::new();
    for _ in 0..4 {
        carry(&mut client, &mut server, &mut nothing).unwrap();
        carry(&mut server, &mut client, &mut nothing).unwrap();
    }
    (client, server)
}

/// A client and a server before their handshake.
fn fresh(suite: SupportedCipherSuite) -> (ClientSession, ServerSession) {
    let provider = provided::default_provider();
    let provider = Arc::new(CryptoProvider { cipher_suites: vec![suite], ..provider });
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key)
        .unwrap();
    let (chain, pins) = (None, Vec::new());
    let verifier = Verifier {
        chain,
        trusts_none: false,
        trusted: Trusted::default(),
        pins,
        issuer: None,
        provider: provider.clone(),
        verify: Verify::Full,
    };
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[suite.version()])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    client.enable_secret_extraction = true;
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientSession::client(Arc::new(client), name, Vec::new()).unwrap();
    let server = ServerSession::server(Arc::new(server)).unwrap();
    (client, server)
}

fn carry(
    from: &mut impl Layer,
    to: &mut impl Layer,
    above: &mut BytesMut,
) -> Result<(), LayerError> {
    let Some(transmit) = from.poll_transmit() else { return Ok(()) };
    let mut wire = BytesMut::from(transmit.inline);
    from.handle_sent(wire.len() as u64);
    loop {
        match to.open(&mut Input::all(&mut wire, false), above)? {
            Opened::Blocked => return Ok(()),
            _ => continue,
        }
    }
}

#[test]
fn tls13_updates_exhausted_keys() {
    let (mut client, mut server) = pair(tls13());
    let mut above = BytesMut::new();
    for n in 0..10 * LIMIT {
        let transmit = Transmit::new(b"ping", &[]);
        assert!(matches!(client.seal(transmit), Ok(Sealed::Bytes(4))), "{n}");
        carry(&mut client, &mut server, &mut above).unwrap();
        let transmit = Transmit::new(b"pong", &[]);
        assert!(matches!(server.seal(transmit), Ok(Sealed::Bytes(4))), "{n}");
        carry(&mut server, &mut client, &mut above).unwrap();
    }
    assert_eq!(above.len() as u64, 10 * LIMIT * 8);
}

#[test]
fn exhausted_keys_end_a_tls12_connection() {
    let (mut client, mut server) = pair(tls12());
    let mut above = BytesMut::new();
    let mut sealed = 0;
    let error = loop {
        let transmit = Transmit::new(b"ping", &[]);
        match client.seal(transmit) {
            Ok(_) => sealed += 1,
            Err(error) => break error,
        }
        assert!(sealed <= LIMIT);
    };
    assert_eq!(error.downcast_ref(), Some(&TlsError::KeysExhausted));
    carry(&mut client, &mut server, &mut above).unwrap();
    assert_eq!(above.len() as u64, sealed * 4, "all sealed records can be decrypted");
}

/// A client's traffic keys.
struct Keys {
    sealing: aead::LessSafeKey,
    iv: [u8; 12],
    count: u64,
}

impl Keys {
    fn new((count, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let ConnectionTrafficSecrets::Aes128Gcm { key, iv } = secrets else {
            panic!("the only cipher suite offered")
        };
        let key = aead::UnboundKey::new(&aead::AES_128_GCM, key.as_ref()).unwrap();
        let iv = iv.as_ref().try_into().unwrap();
        Self { sealing: aead::LessSafeKey::new(key), iv, count }
    }

    /// A record (RFC 8446 §5.2) with `content` of `kind`.
    fn seal(&mut self, content: &[u8], kind: u8) -> Vec<u8> {
        let mut inner = [content, &[kind]].concat();
        let mut nonce = self.iv;
        for (byte, count) in nonce[4..].iter_mut().zip(self.count.to_be_bytes()) {
            *byte ^= count;
        }
        self.count += 1;
        let len = u16::try_from(inner.len() + 16).unwrap().to_be_bytes();
        let header = [23, 3, 3, len[0], len[1]];
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        self.sealing.seal_in_place_append_tag(nonce, aead::Aad::from(header), &mut inner).unwrap();
        [&header[..], &inner].concat()
    }
}

/// Feeds records to the server, one at a time. Returns its error and the number of bytes consumed.
fn opened(server: &mut ServerSession, records: impl Iterator<Item = Vec<u8>>) -> (TlsError, usize) {
    let mut above = BytesMut::new();
    let mut taken = 0;
    for record in records {
        taken += record.len();
        let mut wire = BytesMut::from(&record[..]);
        match server.open(&mut Input::all(&mut wire, false), &mut above) {
            Ok(Opened::Blocked) => assert!(taken < 1_000_000, "no limit was reached"),
            Ok(opened) => panic!("{opened:?}"),
            Err(error) => {
                assert!(above.is_empty());
                return (*error.downcast().unwrap(), taken);
            }
        }
        let queued = server.outbox.size();
        assert_eq!(queued, 0, "no response to non-data records");
    }
    panic!("the records were all accepted")
}

/// A server with a finished handshake, and the traffic keys of its client.
fn server_and_client_keys() -> (ServerSession, Keys, KernelConnection<ClientConnectionData>) {
    let (client, server) = pair(tls13());
    let (secrets, kernel) = client.tls.dangerous_into_kernel_connection().unwrap();
    (server, Keys::new(secrets.tx), kernel)
}

const DATA: u8 = 23;
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
/// RFC 8446 §4.6.3: update_requested, so the server must reply.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 1];

#[test]
fn empty_records_are_limited() {
    let (mut server, mut keys, _) = server_and_client_keys();
    let endless = std::iter::from_fn(|| Some(keys.seal(b"", DATA)));
    let (error, size) = opened(&mut server, endless);
    assert_eq!(error, TlsError::Flood);
    assert!(size < 1_000, "{size}");
}

#[test]
fn key_updates_are_limited() {
    let (mut server, mut keys, mut kernel) = server_and_client_keys();
    let endless = std::iter::from_fn(|| {
        let record = keys.seal(&KEY_UPDATE, HANDSHAKE);
        keys = Keys::new(kernel.update_tx_secret().unwrap());
        Some(record)
    });
    let (error, size) = opened(&mut server, endless);
    assert_eq!(error, TlsError::Flood);
    assert!(size < 2_000, "{size}");
}

/// Each record type resets the counter that rustls has for the other.
#[test]
fn alternating_key_updates_and_empty_records_are_limited() {
    let (mut server, mut keys, mut kernel) = server_and_client_keys();
    let endless = std::iter::from_fn(|| {
        let update = keys.seal(&KEY_UPDATE, HANDSHAKE);
        keys = Keys::new(kernel.update_tx_secret().unwrap());
        Some([update, keys.seal(b"", DATA)].concat())
    });
    let (error, size) = opened(&mut server, endless);
    assert_eq!(error, TlsError::Flood);
    assert!((NON_DATA_SIZE_MAX..NON_DATA_SIZE_MAX + 100).contains(&size), "{size}");
}

#[test]
fn warning_alerts_are_limited() {
    let (mut server, mut keys, _) = server_and_client_keys();
    let unrecognized_name = [1, 112];
    let endless = std::iter::from_fn(|| Some(keys.seal(&unrecognized_name, ALERT)));
    let (_, size) = opened(&mut server, endless);
    assert!(size < 100, "{size}");
    let (mut server, mut keys, _) = server_and_client_keys();
    let user_canceled = [1, 90];
    let endless = std::iter::from_fn(|| Some(keys.seal(&user_canceled, ALERT)));
    let (error, size) = opened(&mut server, endless);
    assert_eq!(error, TlsError::Flood);
    assert!(size < 200, "{size}");
}

#[test]
fn application_data_resets_the_non_data_count() {
    let (mut server, mut keys, mut kernel) = server_and_client_keys();
    let mut above = BytesMut::new();
    let rounds = 2 * NON_DATA_SIZE_MAX / 50;
    for _ in 0..rounds {
        let update = keys.seal(&KEY_UPDATE, HANDSHAKE);
        keys = Keys::new(kernel.update_tx_secret().unwrap());
        let mut wire = BytesMut::from(&[update, keys.seal(b"x", DATA)].concat()[..]);
        while let Opened::Some = server.open(&mut Input::all(&mut wire, false), &mut above).unwrap()
        {
        }
        let size = server.outbox.size();
        server.handle_sent(size);
    }
    assert_eq!(above.len(), rounds);
}

/// TLS in TLS: both ends have a stack of two sessions. Every split of the bytes gives the same.
#[test]
fn a_session_on_another_one_passes_every_split_on() {
    for suite in [tls12(), tls13()] {
        for piece in [1, 2, 3, 7, 100, usize::MAX] {
            let below = || -> (Box<dyn Layer>, Box<dyn Layer>) {
                let (client, server) = pair(suite);
                (Box::new(client), Box::new(server))
            };
            let (client_below, server_below) = below();
            let (above_client, above_server) = fresh(suite);
            let (client, server) = (Box::new(above_client), Box::new(above_server));
            let mut client = LayerStack::new(client, client_below, BytesMut::new());
            let mut server = LayerStack::new(server, server_below, BytesMut::new());
            let (mut to_client, mut to_server) = (BytesMut::new(), BytesMut::new());
            let mut wires = [BytesMut::new(), BytesMut::new()];
            let mut established = 0;
            for _ in 0..6 {
                let [up, down] = &mut wires;
                established += carry_split(&mut client, &mut server, up, &mut to_server, piece);
                established += carry_split(&mut server, &mut client, down, &mut to_client, piece);
            }
            assert_eq!(established, 2, "both inner handshakes");
            assert_eq!(Info::of(client.info().unwrap()).unwrap().version, suite_version(suite));
            let large = vec![7; 100_000];
            for from_client in [true, false] {
                let (from, to, above) = match from_client {
                    true => (&mut client, &mut server, &mut to_server),
                    false => (&mut server, &mut client, &mut to_client),
                };
                let mut outbox = Outbox::default();
                outbox.push(Segment::Bytes(large.clone().into()));
                while let Some(transmit) = outbox.transmit() {
                    let Ok(Sealed::Bytes(taken)) = from.seal(transmit) else { panic!("refused") };
                    outbox.sent(taken);
                    carry_split(from, to, &mut BytesMut::new(), above, piece.max(100));
                }
                assert_eq!(&above[..], &large[..]);
            }
            client.finish();
            let mut wire = BytesMut::new();
            while let Some(transmit) = client.poll_transmit() {
                let len = flatten_into(&mut wire, transmit);
                client.handle_sent(len);
            }
            to_server.clear();
            let ended = server.open(&mut Input::all(&mut wire, true), &mut to_server);
            assert!(matches!(ended, Ok(Opened::Ended)), "{ended:?}");
        }
    }
}

/// The end of the outer session alone is a truncation for the inner one.
#[test]
fn the_end_of_a_tunnel_is_no_end_of_the_session_in_it() {
    let (client_below, mut server_below) = pair(tls13());
    let (above_client, mut above_server) = fresh(tls13());
    let mut client =
        LayerStack::new(Box::new(above_client), Box::new(client_below), BytesMut::new());
    let (mut middle, mut above) = (BytesMut::new(), BytesMut::new());
    carry(&mut client, &mut server_below, &mut middle).unwrap();
    while !matches!(
        above_server.open(&mut Input::all(&mut middle, false), &mut above).unwrap(),
        Opened::Blocked
    ) {}
    let transmit = above_server.poll_transmit().expect("the flight of the server");
    server_below.seal(transmit).unwrap();
    server_below.finish();
    let mut wire = BytesMut::new();
    flatten_into(&mut wire, server_below.poll_transmit().unwrap());
    let mut input = Input::all(&mut wire, true);
    assert!(matches!(client.open(&mut input, &mut above).unwrap(), Opened::Established));
    let ended = client.open(&mut input, &mut above).unwrap();
    assert!(matches!(ended, Opened::Truncated(_)), "{ended:?}");
    assert!(matches!(client.open(&mut input, &mut above).unwrap(), Opened::Blocked));
}

/// Carries all bytes in pieces; returns how often the receiver was established.
fn carry_split(
    from: &mut LayerStack,
    to: &mut LayerStack,
    wire: &mut BytesMut,
    above: &mut BytesMut,
    piece: usize,
) -> usize {
    let mut bytes = BytesMut::new();
    while let Some(transmit) = from.poll_transmit() {
        let len = flatten_into(&mut bytes, transmit);
        from.handle_sent(len);
    }
    let mut established = 0;
    for part in bytes.chunks(piece.min(bytes.len().max(1))) {
        wire.extend_from_slice(part);
        loop {
            match to.open(&mut Input::all(wire, false), above).unwrap() {
                Opened::Blocked => break,
                Opened::Established => established += 1,
                _ => {}
            }
        }
    }
    established
}

fn flatten_into(wire: &mut BytesMut, transmit: Transmit<'_>) -> u64 {
    let before = wire.len();
    wire.extend_from_slice(transmit.inline);
    for segment in transmit.segments {
        let Segment::Bytes(bytes) = segment else { panic!("sessions queue bytes") };
        wire.extend_from_slice(bytes);
    }
    (wire.len() - before) as u64
}

fn suite_version(suite: SupportedCipherSuite) -> Version {
    Version::from_rustls(suite.version().version).unwrap()
}
