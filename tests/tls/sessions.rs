//! TLS without sockets: two sessions back to back, with any cut of their bytes, and the error of
//! each wrong certificate.

use fulmar_proto::{Sealed, Segment, Transmit};
use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::https::{http1_tls, server_tls, trusting_over_http1};
use fulmar_tests::tls_end::{carry, established_pair, pair};
use fulmar_tls::{
    ClientAuth, ClientOptions, ClientTls, KeyLogFile, Roots, ServerOptions, ServerTls, TlsError,
    Verify, Version,
};

fn versions(certs: &Certs) -> [(Version, ClientTls, ServerTls); 2] {
    let mut old = ServerOptions::from(certs.identity(CertOwner::Server));
    old.version_max = Version::Tls12;
    let old = ServerTls::new(old).expect("a certificate");
    [
        (Version::Tls13, http1_tls(certs), server_tls(certs, CertOwner::Server)),
        (Version::Tls12, http1_tls(certs), old),
    ]
}

#[test]
fn bytes_arrive_whatever_the_cut() {
    let certs = Certs::new();
    for (version, client, server) in versions(&certs) {
        for seed in 0..40 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut client, mut server) = pair(&client, &server, "localhost");
            let piece = 1 << (seed % 12);
            let mut cut = |n: usize| random.usize(1..=piece).min(n);
            carry(&mut client, &mut server, &mut cut).unwrap_or_else(|e| panic!("{seed}: {e}"));
            assert!(client.established && server.established, "seed {seed}");
            assert_eq!((client.info().version, server.info().version), (version, version));
            let text: Vec<u8> = (0..50_000_u32).map(|n| (n % 251) as u8).collect();
            client.send(&text[..10]);
            server.send(&text);
            client.send(&text[10..30_000]);
            client.layer.finish();
            carry(&mut client, &mut server, &mut cut).unwrap_or_else(|e| panic!("{seed}: {e}"));
            assert_eq!(&server.above[..], &text[..30_000], "seed {seed}");
            assert_eq!(&client.above[..], &text[..], "seed {seed}");
            assert!(server.ended && !client.ended, "seed {seed}");
        }
    }
}

#[test]
fn every_split_of_an_exchange_gives_the_same() {
    let certs = Certs::new();
    for (_, client, server) in versions(&certs) {
        let (mut client, mut server) = established_pair(&client, &server);
        for at in 0..60 {
            client.send(b"the same every time");
            let bytes = client.take();
            server.wire.extend_from_slice(&bytes[..at.min(bytes.len())]);
            server.open().expect("a part of a record");
            server.wire.extend_from_slice(&bytes[at.min(bytes.len())..]);
            server.open().expect("the record");
            assert_eq!(&server.above.split()[..], b"the same every time", "split at {at}");
            assert!(server.wire.is_empty());
        }
    }
}

#[test]
fn a_head_and_a_small_body_are_one_record() {
    let certs = Certs::new();
    let (mut client, _server) =
        established_pair(&http1_tls(&certs), &server_tls(&certs, CertOwner::Server));
    let segments = [Segment::from(&b"body"[..]), Segment::from(&b" and more"[..])];
    let transmit = Transmit::new(b"head", &segments);
    assert!(matches!(client.layer.seal(transmit), Ok(Sealed::Bytes(17))));
    let bytes = client.take();
    assert_eq!(bytes[0], 23, "application data");
    assert_eq!(bytes.len(), 5 + usize::from(u16::from_be_bytes([bytes[3], bytes[4]])));
}

#[test]
fn no_more_than_128_kb_is_sealed_ahead() {
    let certs = Certs::new();
    let (mut client, mut server) =
        established_pair(&http1_tls(&certs), &server_tls(&certs, CertOwner::Server));
    let segments = [Segment::Bytes(vec![7; 1_000_000].into())];
    let mut left = Transmit::new(&[], &segments);
    let mut rest;
    let mut taken = 0;
    while let Sealed::Bytes(n @ 1..) = client.layer.seal(left).expect("it stands") {
        taken += n;
        let Segment::Bytes(bytes) = &segments[0] else { unreachable!("made above") };
        rest = [Segment::Bytes(bytes.slice(usize::try_from(taken).unwrap()..))];
        left = Transmit::new(&[], &rest);
    }
    assert!((112 * 1024..=128 * 1024).contains(&taken), "{taken}");
    carry(&mut client, &mut server, |n| n).expect("it arrives");
    assert_eq!(server.above.len() as u64, taken);
    assert!(matches!(client.layer.seal(left), Ok(Sealed::Bytes(1..))), "there is room again");
}

#[test]
fn the_agreed_parameters_are_available() {
    let certs = Certs::new();
    let (client_config, server_config) = (http1_tls(&certs), server_tls(&certs, CertOwner::Server));
    for resumed in [false, true] {
        let (client, server) = established_pair(&client_config, &server_config);
        let info = client.info();
        assert_eq!((info.version, info.version.as_str()), (Version::Tls13, "TLS 1.3"));
        assert!(info.cipher.starts_with("TLS_"), "{}", info.cipher);
        assert_eq!(info.alpn, Some(&b"http/1.1"[..]));
        assert_eq!((info.resumed, server.info().resumed), (resumed, resumed));
        assert_eq!((info.certificates().len(), server.info().certificates().len()), (1, 0));
    }
    let never = ClientOptions { resumption_len: 0, ..trusting_over_http1(&certs) };
    let never = ClientTls::new(never).expect("an authority");
    for _ in 0..2 {
        assert!(!established_pair(&never, &server_config).0.info().resumed);
    }
}

/// Also in a resumed session, which has the certificate of the first handshake.
#[test]
fn the_names_of_a_certificate_are_checked_as_in_a_handshake() {
    let certs = Certs::new();
    for (_, client_config, server_config) in versions(&certs) {
        for _ in 0..2 {
            let (client, server) = established_pair(&client_config, &server_config);
            let info = client.info();
            for host in ["localhost", "TEST.example", "test.example.", "a.wild.example", "[::1]"] {
                assert!(info.is_valid_for(host), "{host}");
            }
            for host in
                ["wild.example", "a.b.wild.example", "other.example", "127.0.0.2", "", "a b"]
            {
                assert!(!info.is_valid_for(host), "{host}");
            }
            assert!(!server.info().is_valid_for("localhost"), "a client without a certificate");
        }
    }
}

#[test]
fn names_count_only_after_full_verification_of_the_host() {
    let full = ClientOptions::default();
    assert!(full.verifies_host());
    for verify in [Verify::Chain, Verify::Name, Verify::Nothing] {
        let pins = vec![fulmar_tls::Pin([7; 32])];
        assert!(!ClientOptions { verify, pins, ..full.clone() }.verifies_host(), "{verify:?}");
    }
    let renamed = ClientOptions { server_name: Some("a.example".into()), ..full };
    assert!(!renamed.verifies_host());
}

/// What the client makes of a server's certificate.
fn verdict(options: ClientOptions, server: &ServerTls, host: &str) -> Result<(), TlsError> {
    let client = ClientTls::new(options).expect("files that can be used");
    let (mut client, mut server) = pair(&client, server, host);
    match carry(&mut client, &mut server, |n| n) {
        Ok(()) => Ok(()),
        Err(error) => Err(*error.downcast::<TlsError>().expect("an error of TLS")),
    }
}

#[test]
fn every_wrong_certificate_has_its_own_error() {
    let certs = Certs::new();
    let judge = |who, host| verdict(trusting_over_http1(&certs), &server_tls(&certs, who), host);
    for host in ["localhost", "localhost.", "LOCALHOST", "a.wild.example", "127.0.0.1", "::1"] {
        assert_eq!(judge(CertOwner::Server, host), Ok(()), "{host}");
    }
    assert_eq!(judge(CertOwner::Expired, "localhost"), Err(TlsError::Expired));
    assert_eq!(judge(CertOwner::NotYetValid, "localhost"), Err(TlsError::NotYetValid));
    assert_eq!(judge(CertOwner::SelfSigned, "localhost"), Err(TlsError::UnknownIssuer));
    assert_eq!(judge(CertOwner::OwnAuthority, "localhost"), Err(TlsError::AuthorityAsServer));
    assert_eq!(judge(CertOwner::Stranger, "localhost"), Err(TlsError::UnknownIssuer));
    assert_eq!(judge(CertOwner::OutOfBounds, "localhost"), Err(TlsError::NameConstraint));
    assert_eq!(judge(CertOwner::Client, "client.example"), Err(TlsError::WrongPurpose));
    for (who, host) in [
        (CertOwner::OtherHost, "localhost"),
        (CertOwner::OtherHost, "127.0.0.1"),
        (CertOwner::Server, "wild.example"), // a wildcard matches one label,
        (CertOwner::Server, "a.b.wild.example"), // and not for two
        (CertOwner::Server, "127.0.0.2"),
        (CertOwner::Server, "nottest.example"),
    ] {
        match judge(who, host) {
            Err(TlsError::WrongHost { expected, presented }) => {
                assert_eq!(expected, host);
                assert!(!presented.is_empty());
            }
            other => panic!("{host}: {other:?}"),
        }
    }
}

#[test]
fn a_revoked_certificate_is_refused_with_its_list() {
    let certs = Certs::new();
    let listed = || ClientOptions { revoked: vec![certs.revoked()], ..trusting_over_http1(&certs) };
    let revoked = server_tls(&certs, CertOwner::Revoked);
    assert_eq!(verdict(listed(), &revoked, "localhost"), Err(TlsError::Revoked));
    assert_eq!(
        verdict(trusting_over_http1(&certs), &revoked, "localhost"),
        Ok(()),
        "nobody is asked"
    );
    assert_eq!(verdict(listed(), &server_tls(&certs, CertOwner::Server), "localhost"), Ok(()));
}

#[test]
fn without_verification_only_pins_count() {
    let certs = Certs::new();
    let insecure = || ClientOptions { verify: Verify::Nothing, ..trusting_over_http1(&certs) };
    let stranger = server_tls(&certs, CertOwner::Stranger);
    assert_eq!(verdict(insecure(), &stranger, "whoever.example"), Ok(()));
    let wrong = "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".parse().unwrap();
    for options in [insecure(), trusting_over_http1(&certs)] {
        let server = server_tls(&certs, CertOwner::Server);
        let pinned = ClientOptions { pins: vec![wrong], ..options };
        assert_eq!(verdict(pinned, &server, "localhost"), Err(TlsError::PinMismatch));
    }
}

#[test]
fn a_server_may_request_a_client_certificate() {
    let certs = Certs::new();
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.client_auth = ClientAuth::Required(vec![certs.ca().into()].into());
    let server = ServerTls::new(options).expect("files");
    let known = ClientOptions {
        identity: Some(certs.identity(CertOwner::Client)),
        ..trusting_over_http1(&certs)
    };
    let known = ClientTls::new(known).expect("files");
    let (_, end) = established_pair(&known, &server);
    assert_eq!(end.info().certificates().len(), 1);
    let (mut client, mut end) = pair(&http1_tls(&certs), &server, "localhost");
    let error = carry(&mut client, &mut end, |n| n).expect_err("nobody");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCertificate));
    // The client gets an alert.
    client.wire.extend_from_slice(&end.take());
    let error = client.open().expect_err("an alert");
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
}

#[test]
fn the_missing_common_parameter_is_named() {
    let certs = Certs::new();
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.version_max = Version::Tls12;
    let old = ServerTls::new(options).expect("files");
    let modern = ClientOptions { version_min: Version::Tls13, ..trusting_over_http1(&certs) };
    let client = ClientTls::new(modern).expect("files");
    let (mut client, mut server) = pair(&client, &old, "localhost");
    let error = carry(&mut client, &mut server, |n| n).expect_err("no version");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonVersion), "the server says");
    client.wire.extend_from_slice(&server.take());
    let error = client.open().expect_err("an alert");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonVersion), "the client hears");

    let other = ClientOptions { alpn: vec![b"other".to_vec()], ..trusting_over_http1(&certs) };
    let client = ClientTls::new(other).expect("files");
    let (mut client, mut server) =
        pair(&client, &server_tls(&certs, CertOwner::Server), "localhost");
    let error = carry(&mut client, &mut server, |n| n).expect_err("no protocol");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonProtocol));
    client.wire.extend_from_slice(&server.take());
    let error = client.open().expect_err("an alert");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NoCommonProtocol));
}

#[test]
fn an_end_without_close_notify_is_a_truncation() {
    let certs = Certs::new();
    let (tls, server_config) = (http1_tls(&certs), server_tls(&certs, CertOwner::Server));
    let (mut client, mut server) = pair(&tls, &server_config, "localhost");
    client.eof = true;
    let error = client.open().expect_err("too early");
    assert_eq!(error.downcast_ref(), Some(&TlsError::HandshakeEof));
    server.eof = true;
    assert_eq!(
        server.open().expect_err("too early").to_string(),
        TlsError::HandshakeEof.to_string()
    );

    let (mut client, mut server) = established_pair(&tls, &server_config);
    server.send(b"half of it");
    client.wire.extend_from_slice(&server.take());
    client.eof = true;
    client.open().expect("not for the layer to judge");
    assert!(client.truncated && !client.ended);
    assert_eq!(&client.above[..], b"half of it");

    let (mut client, mut server) = established_pair(&tls, &server_config);
    server.send(b"all of it");
    server.layer.finish();
    client.wire.extend_from_slice(&server.take());
    client.eof = true;
    client.open().expect("an orderly end");
    assert!(client.ended && !client.truncated);
}

#[test]
fn garbage_is_answered_with_an_alert_and_no_panic() {
    let certs = Certs::new();
    let (tls, server_config) = (http1_tls(&certs), server_tls(&certs, CertOwner::Server));
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut client, mut server) = match seed % 2 {
            0 => pair(&tls, &server_config, "localhost"),
            _ => established_pair(&tls, &server_config),
        };
        if client.established {
            client.send(b"something");
        }
        let mut bytes = client.take();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..bytes.len());
            bytes[at] ^= random.u8(1..);
        }
        server.wire.extend_from_slice(&bytes);
        server.eof = true;
        if server.open().is_err() {
            assert!(server.open().is_ok(), "seed {seed}: an error is told once");
            assert!(server.wire.is_empty(), "seed {seed}: nothing is kept");
        }
    }
    let (mut client, _) = pair(&tls, &server_config, "localhost");
    client.wire.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let error = client.open().expect_err("no TLS");
    assert_eq!(error.downcast_ref(), Some(&TlsError::NotTls));
    assert!(client.layer.poll_transmit().is_some(), "an alert is owed");
}

#[test]
fn half_a_ticket_stops_sealing_and_nothing_else() {
    let certs = Certs::new();
    let mut options = ServerOptions::from(certs.identity(CertOwner::Server));
    options.record_size_max = Some(64);
    let server = ServerTls::new(options).expect("files");
    let (mut client, mut server) = pair(&http1_tls(&certs), &server, "localhost");
    // Until the client's handshake is complete; the tickets that follow are cut into many records.
    let mut tickets = Vec::new();
    while !server.established {
        let bytes = client.take();
        server.wire.extend_from_slice(&bytes);
        server.open().expect("a handshake");
        if server.established {
            tickets = server.take();
        } else {
            client.wire.extend_from_slice(&server.take());
            client.open().expect("a handshake");
        }
    }
    assert!(client.established && tickets.len() > 150, "{}", tickets.len());
    for at in 0..tickets.len() {
        client.wire.extend_from_slice(&tickets[at..=at]);
        client.open().expect("a part of a ticket");
        let transmit = Transmit::new(b"x", &[]);
        let _taken_or_not = client.layer.seal(transmit).expect("no panic, no error");
    }
    client.take();
    client.send(b"on with it");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let certs = Certs::new();
    let complaint = |options| ClientTls::new(options).expect_err("it cannot be used").to_string();
    let nowhere = certs.path().join("nowhere.pem");
    let text = complaint(ClientOptions {
        roots: Roots::empty().file(nowhere),
        ..trusting_over_http1(&certs)
    });
    assert!(text.contains("nowhere.pem: No such file"), "{text}");
    let (_, key) = certs.files(CertOwner::Client);
    let text =
        complaint(ClientOptions { roots: Roots::empty().file(key), ..trusting_over_http1(&certs) });
    assert!(text.contains("Client.key: no certificate in PEM"), "{text}");
    let mut identity = certs.identity(CertOwner::Client);
    identity.key = certs.ca().into();
    let text = complaint(ClientOptions { identity: Some(identity), ..trusting_over_http1(&certs) });
    assert!(text.contains("ca.pem: no private key in PEM"), "{text}");
    let mut identity = certs.identity(CertOwner::Client);
    identity.key = certs.identity(CertOwner::Server).key;
    let text = complaint(ClientOptions { identity: Some(identity), ..trusting_over_http1(&certs) });
    assert!(text.contains("Server.key: "), "{text}");
}

#[test]
fn keys_are_logged_if_enabled() {
    let certs = Certs::new();
    let path = certs.path().join("keys");
    let key_log = Some(KeyLogFile::open(&path).expect("a new file"));
    let options = ClientOptions { key_log, ..trusting_over_http1(&certs) };
    let client = ClientTls::new(options).expect("files");
    established_pair(&client, &server_tls(&certs, CertOwner::Server));
    let text = std::fs::read_to_string(path).expect("keys");
    assert!(text.lines().any(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")), "{text}");
    assert!(text.lines().all(|line| line.split(' ').count() == 3));
}

#[test]
fn clones_share_an_identity_and_nothing_else_does() {
    let certs = Certs::new();
    let (a, b) = (http1_tls(&certs), http1_tls(&certs));
    assert_eq!(a.options(), b.options());
    assert!(a == a.clone() && a != b);
}
