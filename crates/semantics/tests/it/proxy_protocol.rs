//! PROXY headers of both versions, encoding and decoding, split at every byte.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use bytes::BytesMut;
use fulmar_proto::{Input, Layer, Opened};
use fulmar_semantics::proxy_protocol::{
    Addresses, Extras, HeaderError, HeaderMisuse, ProxyProtocol, ProxyProtocolHeader,
    ProxyTransport, SIZE_MAX, Tls, TrustedSources, decode, encode_v1, encode_v2,
};
use proptest::prelude::*;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A header of version 2 with these bytes after a correct length.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let size = u16::try_from(rest.len()).expect("short").to_be_bytes();
    [SIGNATURE, &[command, family], &size, rest].concat()
}

/// 192.0.2.1:4711 to 198.51.100.2:443.
const INET: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 2, 0x12, 0x67, 0x01, 0xbb];

fn inet() -> Addresses {
    Addresses::V4 {
        source: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 4711),
        destination: SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 2), 443),
    }
}

fn inet6() -> Addresses {
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last);
    Addresses::V6 {
        source: SocketAddrV6::new(address(1), 4711, 0, 0),
        destination: SocketAddrV6::new(address(2), 443, 0, 0),
    }
}

/// `PROXY TCP4` with extra fields.
fn with(extras: &[u8]) -> Vec<u8> {
    v2(0x21, 0x11, &[INET, extras].concat())
}

/// Decodes a header. Also asserts that a prefix is incomplete, that following bytes are ignored,
/// and that an error is found at the same byte at the latest.
fn read(bytes: &[u8]) -> Result<(ProxyProtocolHeader, usize), HeaderError> {
    let result = decode(bytes);
    for end in 0..bytes.len() {
        match (decode(&bytes[..end]), &result) {
            (Ok(None), _) => {}
            (Ok(Some(early)), Ok(Some(whole))) => assert!(early == *whole && end >= whole.1),
            (Err(early), Err(late)) => assert_eq!(early, *late, "{end}"),
            (early, late) => panic!("{end}: {early:?}, then {late:?}"),
        }
    }
    match result {
        Ok(Some((header, size))) => {
            let followed = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
            assert_eq!(decode(&followed), Ok(Some((header.clone(), size))));
            Ok((header, size))
        }
        Ok(None) => Err(HeaderError::UnexpectedEof),
        Err(error) => Err(error),
    }
}

fn read_all(bytes: &[u8]) -> ProxyProtocolHeader {
    let (header, size) = read(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:?}"));
    assert_eq!(size, bytes.len());
    header
}

#[test]
fn lines_of_version_1() {
    for (line, addresses) in [
        ("PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\n", Some(inet())),
        ("PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n", Some(inet6())),
        ("PROXY TCP6 2001:0db8:0:0:0:0:0:1 2001:DB8::2 4711 443\r\n", Some(inet6())),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 whatever 65536 -1\r\n", None),
    ] {
        let header = ProxyProtocolHeader { addresses, ..ProxyProtocolHeader::default() };
        assert_eq!(read_all(line.as_bytes()), header, "{line:?}");
    }
    // The longest line in the document.
    let address = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let longest = format!("PROXY UNKNOWN {address} {address} 65535 65535\r\n");
    assert_eq!(longest.len(), 107);
    assert_eq!(read_all(longest.as_bytes()).addresses, None);
}

#[test]
fn invalid_lines_are_rejected() {
    for line in [
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443 \r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443 1\r\n",
        "PROXY TCP4  192.0.2.1 198.51.100.2 4711 443\r\n",
        "PROXY TCP4\t192.0.2.1 198.51.100.2 4711 443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 65536\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 -1\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 +443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 0443\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 \r\n",
        "PROXY TCP4 192.0.2.256 198.51.100.2 4711 443\r\n",
        "PROXY TCP4 192.0.2 198.51.100.2 4711 443\r\n",
        "PROXY TCP4 192.0.2.01 198.51.100.2 4711 443\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 4711 443\r\n",
        "PROXY TCP6 192.0.2.1 198.51.100.2 4711 443\r\n",
        "PROXY TCP6 2001:db8::1%eth0 2001:db8::2 4711 443\r\n",
        "PROXY TCP6 [2001:db8::1] 2001:db8::2 4711 443\r\n",
        "PROXY tcp4 192.0.2.1 198.51.100.2 4711 443\r\n",
        "PROXY UDP4 192.0.2.1 198.51.100.2 4711 443\r\n",
        "PROXY UNKNOWNS\r\n",
        "PROXY UNKNOWN a\rb\r\n",
        "PROXY UNKNOWN\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\0\r\n",
        "PROXY TCP4 192.0.2.1 198.51.100.2 4711 443\r\r\n",
    ] {
        assert_eq!(read(line.as_bytes()), Err(HeaderError::BadLine), "{line:?}");
    }
    for other in ["GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\n", "PROXYTCP4 1", "proxy TCP4", "\0"] {
        assert_eq!(read(other.as_bytes()), Err(HeaderError::Absent), "{other:?}");
    }
    let endless = format!("PROXY UNKNOWN {}", "x".repeat(5_000));
    assert_eq!(read(endless.as_bytes()), Err(HeaderError::TooLong));
    assert_eq!(
        decode(&endless.as_bytes()[..107]),
        Err(HeaderError::TooLong),
        "found without more bytes"
    );
}

#[test]
fn headers_of_version_2() {
    let stream = |addresses| ProxyProtocolHeader {
        addresses: Some(addresses),
        ..ProxyProtocolHeader::default()
    };
    assert_eq!(read_all(&v2(0x21, 0x11, INET)), stream(inet()));
    let datagram = ProxyProtocolHeader { transport: ProxyTransport::Datagram, ..stream(inet()) };
    assert_eq!(read_all(&v2(0x21, 0x12, INET)), datagram);
    let names = [&b"\0abstract"[..], &[0; 99], b"/run/s", &[0; 102]].concat();
    let unix = Addresses::Unix { source: b"\0abstract".to_vec(), destination: b"/run/s".to_vec() };
    assert_eq!(read_all(&v2(0x21, 0x31, &names)), stream(unix));
    // LOCAL: the rest is ignored, including the family.
    for (family, rest) in [(0, &b""[..]), (0x11, INET), (0xff, b"anything"), (0x21, b"short")] {
        assert_eq!(
            read_all(&v2(0x20, family, rest)),
            ProxyProtocolHeader::default(),
            "{family:#x}"
        );
    }
    for family in [0x00, 0x01, 0x10] {
        assert_eq!(
            read_all(&v2(0x21, family, b"whatever")),
            ProxyProtocolHeader::default(),
            "{family:#x}"
        );
    }
}

#[test]
fn invalid_headers_of_version_2_are_rejected() {
    for (bytes, error) in [
        (v2(0x11, 0x11, INET), HeaderError::BadVersion(0x11)),
        (v2(0x22, 0x11, INET), HeaderError::BadVersion(0x22)),
        (v2(0x01, 0x11, INET), HeaderError::BadVersion(0x01)),
        (v2(0x21, 0x41, INET), HeaderError::BadFamily(0x41)),
        (v2(0x21, 0x13, INET), HeaderError::BadFamily(0x13)),
        (v2(0x21, 0x11, &INET[..11]), HeaderError::ShortAddresses),
        (v2(0x21, 0x11, b""), HeaderError::ShortAddresses),
        (v2(0x21, 0x21, INET), HeaderError::ShortAddresses),
        (v2(0x21, 0x31, &[0; 215]), HeaderError::ShortAddresses),
        (v2(0x21, 0x11, &INET[..1])[..16].to_vec(), HeaderError::UnexpectedEof),
        (v2(0x21, 0x11, &vec![0; SIZE_MAX]), HeaderError::TooLong),
        (b"\r\n\r\n\0\r\nQUIT\r\n".to_vec(), HeaderError::Absent),
        (b"\r\n\r\nGET / HTTP/1.1\r\n".to_vec(), HeaderError::Absent),
    ] {
        assert_eq!(read(&bytes), Err(error), "{bytes:?}");
    }
    let endless = [SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat();
    assert_eq!(decode(&endless), Err(HeaderError::TooLong), "found before 64 KiB arrive");
}

#[test]
fn extras_are_read() {
    let tls = [
        &[0x20, 0, 23, 0x03, 0, 0, 0, 0, 0x21, 0, 7][..],
        b"TLSv1.3",
        &[0x22, 0, 2],
        b"me",
        &[0x99, 0, 0],
    ]
    .concat();
    let list = [
        &[0x01, 0, 2][..],
        b"h2",
        &[0x02, 0, 4],
        b"host",
        &[0x04, 0, 3, 1, 2, 3],
        &[0x04, 0, 0],
        &[0x05, 0, 2, 0, 255],
        &tls,
        &[0x30, 0, 2],
        b"ns",
        &[0xea, 0, 1, 7],
        &[0xea, 0, 1, 8],
    ]
    .concat();
    let expected = Extras {
        alpn: Some(b"h2".to_vec()),
        authority: Some("host".into()),
        unique_id: Some(vec![0, 255]),
        tls: Some(Tls {
            client: 3,
            verify: 0,
            version: Some("TLSv1.3".into()),
            common_name: Some("me".into()),
            others: vec![(0x99, vec![])],
            ..Tls::default()
        }),
        namespace: Some("ns".into()),
        others: vec![(0xea, vec![7]), (0xea, vec![8])],
    };
    assert_eq!(read_all(&with(&list)).extras, expected);
}

#[test]
fn invalid_extras_are_rejected() {
    let long_id = [&[0x05, 0, 129][..], &[0; 129]].concat();
    for (list, kind) in [
        (&[0x02][..], 0x02),
        (&[0x02, 0], 0x02),
        (&[0x02, 0, 1], 0x02),
        (&[0x02, 0xff, 0xff, b'h'], 0x02),
        (&[0x02, 0, 0], 0x02),
        (&[0x01, 0, 0], 0x01),
        (&[0x02, 0, 1, b'a', 0x02, 0, 1, b'b'], 0x02),
        (&[0x02, 0, 1, 0xff], 0x02),
        (&[0x02, 0, 2, b'a', b'\n'], 0x02),
        (&[0x02, 0, 1, 0], 0x02),
        (&[0x03, 0, 3, 0, 0, 0], 0x03),
        (&[0x03, 0, 5, 0, 0, 0, 0, 0], 0x03),
        (&[0x20, 0, 4, 1, 0, 0, 0], 0x20),
        (&[0x20, 0, 6, 1, 0, 0, 0, 0, 0x21], 0x21),
        (&[0x20, 0, 8, 1, 0, 0, 0, 0, 0x21, 0, 1], 0x21),
        (&[0x20, 0, 5, 1, 0, 0, 0, 0, 0x20, 0, 5, 1, 0, 0, 0, 0], 0x20),
        (&[0xea, 0, 9, 1], 0xea),
        (&long_id, 0x05),
    ] {
        assert_eq!(read(&with(list)), Err(HeaderError::BadExtra(kind)), "{list:?}");
    }
}

/// Verified with `crc32c("123456789") = 0xe3069283`; here over a header with zeros in its place.
#[test]
fn checksums_are_verified() {
    let header = ProxyProtocolHeader { addresses: Some(inet()), ..ProxyProtocolHeader::default() };
    let mut wire = Vec::new();
    encode_v2(&header, &mut wire).expect("it fits");
    assert_eq!(read_all(&wire), header);
    let kind_at = wire.len() - 7; // changing the type makes it another field
    for at in (SIGNATURE.len() + 4..wire.len()).filter(|at| *at != kind_at) {
        let mut broken = wire.clone();
        broken[at] ^= 0x40;
        assert!(read(&broken).is_err(), "byte {at} is not covered");
    }
    let mut zeroed = wire.clone();
    let at = wire.len() - 4;
    zeroed[at..].fill(0);
    let sum = crc32c(&zeroed);
    assert_eq!(wire[at..], sum.to_be_bytes());
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    let twice = [INET, &[0x03, 0, 4, 0, 0, 0, 0, 0x03, 0, 4, 0, 0, 0, 0]].concat();
    assert_eq!(read(&v2(0x21, 0x11, &twice)), Err(HeaderError::BadChecksum));
}

/// Bitwise, as in its definition (RFC 4960 appendix B).
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    })
}

#[test]
fn headers_that_cannot_be_encoded_write_nothing() {
    let mut out = b"before".to_vec();
    let extras = Extras { authority: Some("host".into()), ..Extras::default() };
    let rich =
        ProxyProtocolHeader { addresses: Some(inet()), extras, ..ProxyProtocolHeader::default() };
    let unix = Addresses::Unix { source: Vec::new(), destination: b"/s".to_vec() };
    let unix = ProxyProtocolHeader { addresses: Some(unix), ..ProxyProtocolHeader::default() };
    let datagram = ProxyProtocolHeader {
        transport: ProxyTransport::Datagram,
        ..ProxyProtocolHeader::default()
    };
    for header in [&rich, &unix, &datagram] {
        assert_eq!(encode_v1(header, &mut out), Err(HeaderMisuse::NeedsVersion2));
    }
    let long = Addresses::Unix { source: vec![b'x'; 109], destination: Vec::new() };
    let long = ProxyProtocolHeader { addresses: Some(long), ..ProxyProtocolHeader::default() };
    assert_eq!(encode_v2(&long, &mut out), Err(HeaderMisuse::NameTooLong));
    let homeless = ProxyProtocolHeader { addresses: None, ..rich.clone() };
    assert_eq!(encode_v2(&homeless, &mut out), Err(HeaderMisuse::NeedsAddresses));
    let with = |extras| ProxyProtocolHeader {
        addresses: Some(inet()),
        extras,
        ..ProxyProtocolHeader::default()
    };
    for (extras, error) in [
        (Extras { alpn: Some(vec![]), ..Extras::default() }, HeaderMisuse::BadExtra(1)),
        (Extras { authority: Some("a\r".into()), ..Extras::default() }, HeaderMisuse::BadExtra(2)),
        (Extras { unique_id: Some(vec![0; 129]), ..Extras::default() }, HeaderMisuse::BadExtra(5)),
        (Extras { others: vec![(3, vec![])], ..Extras::default() }, HeaderMisuse::BadExtra(3)),
        (
            Extras { others: vec![(9, vec![0; 70_000])], ..Extras::default() },
            HeaderMisuse::BadExtra(9),
        ),
        (
            Extras { others: vec![(9, vec![0; SIZE_MAX])], ..Extras::default() },
            HeaderMisuse::TooLong,
        ),
    ] {
        assert_eq!(encode_v2(&with(extras), &mut out), Err(error));
    }
    assert_eq!(out, b"before");
}

fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = || any::<([u8; 4], u16)>().prop_map(|(a, port)| SocketAddrV4::new(a.into(), port));
    let v6 =
        || any::<([u8; 16], u16)>().prop_map(|(a, port)| SocketAddrV6::new(a.into(), port, 0, 0));
    let name = || {
        let bytes = prop::collection::vec(any::<u8>(), 0..=108);
        bytes.prop_filter("names have no trailing NUL", |bytes| bytes.last() != Some(&0))
    };
    prop_oneof![
        (v4(), v4()).prop_map(|(source, destination)| Addresses::V4 { source, destination }),
        (v6(), v6()).prop_map(|(source, destination)| Addresses::V6 { source, destination }),
        (name(), name()).prop_map(|(source, destination)| Addresses::Unix { source, destination }),
    ]
}

fn extras() -> impl Strategy<Value = Extras> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..60);
    let text = || prop::option::of("[ -~äöü]{1,40}");
    let others = || prop::collection::vec((0x40..=u8::MAX, bytes()), 0..4);
    let tls = (any::<u8>(), any::<u32>(), text(), text(), text(), text(), text(), others());
    let tls = tls.prop_map(|(client, verify, version, name, cipher, signature, key, others)| Tls {
        client,
        verify,
        version,
        common_name: name,
        cipher,
        signature_algorithm: signature,
        key_algorithm: key,
        others,
    });
    let parts = (
        prop::option::of(bytes()),
        text(),
        prop::option::of(prop::collection::vec(any::<u8>(), 0..=128)),
        prop::option::of(tls),
        text(),
        others(),
    );
    parts.prop_map(|(alpn, authority, unique_id, tls, namespace, others)| Extras {
        alpn,
        authority,
        unique_id,
        tls,
        namespace,
        others,
    })
}

fn header() -> impl Strategy<Value = ProxyProtocolHeader> {
    let transport = prop_oneof![Just(ProxyTransport::Stream), Just(ProxyTransport::Datagram)];
    let known = (addresses(), transport, extras()).prop_map(|(addresses, transport, extras)| {
        ProxyProtocolHeader { addresses: Some(addresses), transport, extras }
    });
    prop_oneof![9 => known, 1 => Just(ProxyProtocolHeader::default())]
}

proptest! {
    #[test]
    fn version_2_round_trips(header in header()) {
        let mut wire = Vec::new();
        encode_v2(&header, &mut wire).expect("it fits");
        prop_assert_eq!(decode(&wire), Ok(Some((header, wire.len()))));
    }

    #[test]
    fn version_1_round_trips(addresses in prop::option::of(addresses())) {
        let header = ProxyProtocolHeader { addresses, ..ProxyProtocolHeader::default() };
        let mut wire = Vec::new();
        match encode_v1(&header, &mut wire) {
            Ok(()) => prop_assert_eq!(decode(&wire), Ok(Some((header, wire.len())))),
            Err(_) => {
                let has_name = matches!(header.addresses, Some(Addresses::Unix { .. }));
                prop_assert!(has_name);
            }
        }
    }

    #[test]
    fn modified_headers_are_rejected_or_differ(
        header in header(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut wire = Vec::new();
        encode_v2(&header, &mut wire).expect("it fits");
        let at = at.index(wire.len());
        let before = std::mem::replace(&mut wire[at], byte);
        // The checksum covers everything that is not ignored.
        if before != byte && header.addresses.is_some() {
            prop_assert!(decode(&wire) != Ok(Some((header, wire.len()))));
        }
    }
}

#[test]
fn the_layer_consumes_only_the_header() {
    let follower = b"GET / HTTP/1.1\r\n";
    let wire = [&with(&[0x02, 0, 1, b'a'])[..], follower].concat();
    for cut in 0..wire.len() {
        let mut layer = ProxyProtocol::new(None);
        assert!(layer.info().is_none());
        let mut block = BytesMut::from(&wire[..cut]);
        let mut above = BytesMut::new();
        let first = layer.open(&mut Input::all(&mut block, false), &mut above).expect("a header");
        if let Opened::Blocked = first {
            block.extend_from_slice(&wire[cut..]);
            let opened = layer.open(&mut Input::all(&mut block, false), &mut above);
            assert!(matches!(opened, Ok(Opened::Replaced(None))), "{cut}: {opened:?}");
            assert_eq!(block, follower[..]);
        } else {
            assert!(cut >= wire.len() - follower.len(), "{cut}: {first:?}");
        }
        assert!(above.is_empty() && layer.poll_transmit().is_none());
        let header = layer
            .info()
            .and_then(|info| info.downcast_ref::<ProxyProtocolHeader>())
            .expect("a header");
        assert_eq!(header.source(), Some("192.0.2.1:4711".parse().expect("an address")));
        assert_eq!(header.destination(), Some("198.51.100.2:443".parse().expect("an address")));
    }
    for end in 0..wire.len() - follower.len() {
        let mut block = BytesMut::from(&wire[..end]);
        let ended =
            ProxyProtocol::new(None).open(&mut Input::all(&mut block, true), &mut BytesMut::new());
        let error = ended.expect_err("it is not complete");
        let expected = if end == 0 { HeaderError::Nothing } else { HeaderError::UnexpectedEof };
        assert_eq!(error.downcast_ref(), Some(&expected), "{end}");
    }
}

#[test]
fn sources_are_trusted_by_network() {
    let trusted: TrustedSources = "10.0.0.0/8,192.0.2.7 , 2001:db8::/32".parse().expect("three");
    for (address, allowed) in [
        ("10.255.0.1", true),
        ("::ffff:10.0.0.1", true),
        ("11.0.0.1", false),
        ("192.0.2.7", true),
        ("192.0.2.8", false),
        ("2001:db8:1::1", true),
        ("2001:db9::1", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(trusted.allows(address.parse().expect("one")), allowed, "{address}");
    }
    assert!(!TrustedSources::default().allows("127.0.0.1".parse().expect("one")));
    for bad in ["", "10.0.0.0/33", "localhost", "10.0.0.0/8,", "10.0.0.1:80"] {
        assert!(bad.parse::<TrustedSources>().is_err(), "{bad:?}");
    }
}
