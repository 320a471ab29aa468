//! Decodes bodies of independent encoders with every split, and rejects invalid ones.

use std::io::Write;

use fulmar_semantics::coding::{
    CODINGS_LEN_MAX, CodingError, CodingLimits, ContentCoding, ContentDecoder, HELD_SIZE_MAX,
    RATIO_SIZE_MIN,
};
use proptest::prelude::*;

const UNLIMITED: CodingLimits = CodingLimits { output_max: None, ratio_max: None };
/// All codings, and both forms of deflate.
const FORMS: [&str; 6] = ["gzip", "x-gzip", "deflate", "raw", "br", "zstd"];

/// Encodes `body`; `raw` is deflate without the zlib header.
fn encode(form: &str, body: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::default();
    let mut out = Vec::new();
    match form {
        "gzip" | "x-gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(out, level);
            encoder.write_all(body).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "deflate" => {
            let mut encoder = flate2::write::ZlibEncoder::new(out, level);
            encoder.write_all(body).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "raw" => {
            let mut encoder = flate2::write::DeflateEncoder::new(out, level);
            encoder.write_all(body).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        "br" => {
            let params = brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
            brotli::BrotliCompress(&mut &*body, &mut out, &params).expect("memory takes it");
            out
        }
        "zstd" => zstd::stream::encode_all(body, 3).expect("memory takes it"),
        _ => panic!("{form} is not a coding"),
    }
}

fn name(form: &str) -> &str {
    if form == "raw" { "deflate" } else { form }
}

fn decoder(names: &str, limits: CodingLimits) -> ContentDecoder {
    ContentDecoder::new([names.as_bytes()], limits).expect("known codings").expect("a coding")
}

/// Decodes `wire` in pieces of `cut` bytes, with an output buffer of `room` bytes.
fn decode(
    mut decoder: ContentDecoder,
    wire: &[u8],
    cut: usize,
    room: usize,
) -> Result<Vec<u8>, CodingError> {
    let (mut body, mut piece) = (Vec::new(), vec![0; room]);
    for mut input in wire.chunks(cut) {
        loop {
            let step = decoder.decode(input, &mut piece)?;
            assert!(step.produced <= room && (step.pending == (step.produced == room)));
            input = &input[step.consumed..];
            body.extend_from_slice(&piece[..step.produced]);
            if !step.pending {
                break;
            }
        }
        assert!(input.is_empty(), "all input is consumed before more is requested");
    }
    decoder.finish().map(|()| body)
}

fn text(len: usize) -> Vec<u8> {
    let words = [&b"fulmar "[..], b"petrel ", b"albatross ", b"skua "];
    (0..).flat_map(|n: usize| words[(n * n + n / 3) % 4].iter().copied()).take(len).collect()
}

#[test]
fn every_coding_is_decoded_with_every_split() {
    let body = text(3_000);
    for form in FORMS {
        let wire = encode(form, &body);
        for cut in (1..40).chain([wire.len()]) {
            for room in [1, 7, 64 * 1024] {
                let got = decode(decoder(name(form), UNLIMITED), &wire, cut, room);
                assert_eq!(got.as_deref(), Ok(&body[..]), "{form} {cut} {room}");
            }
        }
        for at in 0..wire.len() {
            let mut decoder = decoder(name(form), UNLIMITED);
            let mut out = vec![0; 4_096];
            let first = decoder.decode(&wire[..at], &mut out).unwrap();
            let second = decoder.decode(&wire[at..], &mut out[first.produced..]).unwrap();
            assert_eq!(&out[..first.produced + second.produced], body, "{form} cut at {at}");
            assert_eq!(decoder.finish(), Ok(()));
        }
    }
}

#[test]
fn a_stack_is_decoded_from_the_outside() {
    let body = text(5 * HELD_SIZE_MAX);
    let wire = FORMS[..CODINGS_LEN_MAX].iter().fold(body.clone(), |wire, form| encode(form, &wire));
    let names: Vec<_> = FORMS[..CODINGS_LEN_MAX].iter().map(|form| name(form)).collect();
    for (cut, room) in [(1, 64 * 1024), (13, 1_000), (wire.len(), 3)] {
        let got = decode(decoder(&names.join(" ,\t"), UNLIMITED), &wire, cut, room);
        assert!(got.as_ref() == Ok(&body), "{cut} {room}");
    }
    // Several fields are one list (RFC 9110 §5.3).
    let values = names.iter().map(|name| name.as_bytes());
    let decoder = ContentDecoder::new(values, UNLIMITED).unwrap().unwrap();
    assert!(decode(decoder, &wire, 100, 100).as_ref() == Ok(&body));
}

#[test]
fn fields_are_parsed() {
    let new = |value: &str| ContentDecoder::new([value.as_bytes()], UNLIMITED).map(|d| d.is_some());
    assert_eq!(new(""), Ok(false));
    assert_eq!(new(" , "), Ok(false));
    assert_eq!(new("Identity"), Ok(false));
    assert_eq!(new("identity, GZip"), Ok(true));
    assert_eq!(new("gzip, compress"), Err(CodingError::Unknown("compress".into())));
    assert_eq!(new("gzip;q=1"), Err(CodingError::Unknown("gzip;q=1".into())));
    assert_eq!(new("br, br, br, br, br"), Ok(true));
    assert_eq!(new("br, br, br, identity, br, br, br"), Err(CodingError::TooMany));
    let long = "x".repeat(10_000);
    assert_eq!(new(&long), Err(CodingError::Unknown(long[..64].into())));
    let names = fulmar_semantics::coding::ACCEPT_ENCODING.split(", ");
    assert!(
        names.clone().all(|name| ContentCoding::from_name(name.as_bytes()).unwrap().name() == name)
    );
    assert_eq!(names.count(), 4);
}

#[test]
fn a_truncated_body_is_never_complete() {
    let body = text(500);
    for form in FORMS {
        let wire = encode(form, &body);
        for len in 1..wire.len() {
            let got = decode(decoder(name(form), UNLIMITED), &wire[..len], 7, 100);
            let coding = ContentCoding::from_name(name(form).as_bytes()).unwrap();
            assert_eq!(got, Err(CodingError::Truncated(coding)), "{form} after {len}");
        }
    }
    // The inner coding is complete, the outer one is not.
    let wire = encode("gzip", &encode("br", &body));
    let got = decode(decoder("br, gzip", UNLIMITED), &wire[..wire.len() - 1], 5, 100);
    assert_eq!(got, Err(CodingError::Truncated(ContentCoding::Gzip)));
    let wire = encode("gzip", &encode("br", &body)[..20]);
    let got = decode(decoder("br, gzip", UNLIMITED), &wire, 5, 100);
    assert_eq!(got, Err(CodingError::Truncated(ContentCoding::Brotli)));
}

#[test]
fn an_empty_body_is_complete() {
    for form in FORMS {
        assert_eq!(decode(decoder(name(form), UNLIMITED), b"", 1, 1), Ok(Vec::new()), "{form}");
        assert_eq!(decode(decoder(name(form), UNLIMITED), &encode(form, b""), 1, 1), Ok(vec![]));
    }
}

#[test]
fn trailing_bytes_are_an_error() {
    let body = text(500);
    for form in FORMS {
        let coding = ContentCoding::from_name(name(form).as_bytes()).unwrap();
        for junk in [&b"\0"[..], b"x", b"</html>"] {
            let wire = [&encode(form, &body)[..], junk].concat();
            for cut in [1, 3, wire.len()] {
                for room in [1, body.len(), 4_096] {
                    let got = decode(decoder(name(form), UNLIMITED), &wire, cut, room);
                    assert_eq!(got, Err(CodingError::TrailingData(coding)), "{form} {cut} {room}");
                }
            }
        }
        let inner = [&encode(form, &body)[..], b"junk"].concat();
        let wire = encode("gzip", &inner);
        let got = decode(decoder(&format!("{}, gzip", name(form)), UNLIMITED), &wire, 9, 100);
        assert_eq!(got, Err(CodingError::TrailingData(coding)), "{form} inside");
    }
}

#[test]
fn consecutive_members_and_frames_are_one_body() {
    let body = text(500);
    let skippable = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
    for (form, between) in [("gzip", &b""[..]), ("zstd", b""), ("zstd", skippable)] {
        let wire = [&encode(form, &body)[..], between, &encode(form, b"more")].concat();
        let whole = [&body[..], b"more"].concat();
        for cut in 1..=wire.len() {
            let got = decode(decoder(form, UNLIMITED), &wire, cut, 10);
            assert_eq!(got.as_deref(), Ok(&whole[..]), "{form} {cut}");
        }
        let got = decode(decoder(form, UNLIMITED), &wire[..wire.len() - 1], 9, 10);
        assert!(matches!(got, Err(CodingError::Truncated(_))), "{form}");
    }
    let wire = [&encode("gzip", &body)[..], b"\x1fjunk"].concat();
    let got = decode(decoder("gzip", UNLIMITED), &wire, 1, 10);
    assert_eq!(got, Err(CodingError::Corrupt(ContentCoding::Gzip)));
}

#[test]
fn a_wrong_checksum_is_an_error() {
    for form in ["gzip", "deflate"] {
        let mut wire = encode(form, &text(500));
        let last = wire.len() - 1;
        wire[last] ^= 1;
        let got = decode(decoder(form, UNLIMITED), &wire, 11, 100);
        assert!(matches!(got, Err(CodingError::Corrupt(_))), "{form}: {got:?}");
    }
}

#[test]
fn windows_beyond_the_rfcs_are_rejected() {
    // "Large window Brotli" begins with 0x11; zstd with a window of 2^24 (RFC 9659).
    let got = decode(decoder("br", UNLIMITED), &[0x11, 0x1e, 0, 0], 1, 100);
    assert_eq!(got, Err(CodingError::Corrupt(ContentCoding::Brotli)));
    for (exponent, ok) in [(13, true), (14, false)] {
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1, 0, 0];
        let got = decode(decoder("zstd", UNLIMITED), &frame, 1, 100);
        assert_eq!(got.is_ok(), ok, "{got:?}");
    }
}

#[test]
fn the_output_limit_is_exact() {
    let body = text(5_000);
    for form in FORMS {
        let wire = encode(form, &body);
        for (max, ok) in [(5_000, true), (4_999, false), (0, false)] {
            let limits = CodingLimits { output_max: Some(max), ..UNLIMITED };
            let got = decode(decoder(name(form), limits), &wire, 100, 64);
            let want = if ok { Ok(body.clone()) } else { Err(CodingError::OutputTooLong { max }) };
            assert_eq!(got, want, "{form}");
        }
    }
}

#[test]
fn a_bomb_waits_for_output_space_and_is_stopped_by_its_ratio() {
    let body = vec![0; 64 << 20];
    for names in ["br", "zstd", "gzip, gzip"] {
        let wire = names.split(", ").fold(body.clone(), |wire, form| encode(form, &wire));
        let mut decoder = decoder(names, CodingLimits::default());
        let mut piece = [0; 4_096];
        let (mut input, mut produced) = (&wire[..], 0);
        let error = loop {
            match decoder.decode(input, &mut piece) {
                Ok(step) => {
                    assert!(step.pending, "{names}: the bomb has more");
                    (input, produced) = (&input[step.consumed..], produced + step.produced as u64);
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error, CodingError::RatioTooHigh { max: 1_100 }, "{names}");
        assert!(produced <= RATIO_SIZE_MIN.max(wire.len() as u64 * 1_100), "{names}: {produced}");
        assert_eq!(
            decoder.decode(b"", &mut piece),
            Err(error.clone()),
            "{names}: the error is permanent"
        );
        assert_eq!(decoder.finish(), Err(error));
    }
    // The maximum of one gzip is permitted; only its size is limited.
    let wire = encode("gzip", &body);
    let got = decode(decoder("gzip", CodingLimits::default()), &wire, 1 << 16, 1 << 16);
    assert_eq!(got.map(|body| body.len()), Ok(body.len()));
}

#[test]
fn repeated_empty_calls_are_harmless() {
    for form in FORMS {
        let wire = encode(form, b"body");
        let mut decoder = decoder(name(form), UNLIMITED);
        let mut piece = [0; 100];
        decoder.decode(&wire[..1], &mut piece).unwrap();
        for _ in 0..100 {
            let step = decoder.decode(b"", &mut piece).unwrap();
            assert_eq!((step.consumed, step.produced, step.pending), (0, 0, false), "{form}");
            let step = decoder.decode(&wire[1..], &mut []).unwrap();
            assert_eq!((step.consumed, step.produced, step.pending), (0, 0, true), "{form}");
        }
        let step = decoder.decode(&wire[1..], &mut piece).unwrap();
        assert_eq!(&piece[..step.produced], b"body", "{form}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encoded_bodies_round_trip(
        body in proptest::collection::vec(any::<u8>(), 0..20_000),
        forms in proptest::collection::vec(0..FORMS.len(), 1..=CODINGS_LEN_MAX),
        cut in 1..5_000_usize,
        room in 1..5_000_usize,
    ) {
        let wire = forms.iter().fold(body.clone(), |wire, form| encode(FORMS[*form], &wire));
        let names: Vec<_> = forms.iter().map(|form| name(FORMS[*form])).collect();
        let got = decode(decoder(&names.join(","), UNLIMITED), &wire, cut, room);
        prop_assert_eq!(got, Ok(body));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        body in proptest::collection::vec(any::<u8>(), 0..2_000),
        form in 0..FORMS.len(),
        valid in any::<bool>(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in 1..500_usize,
    ) {
        let mut wire = if valid { encode(FORMS[form], &body) } else { body };
        for (at, byte) in flips {
            if !wire.is_empty() {
                let at = at.index(wire.len());
                wire[at] ^= byte;
            }
        }
        let limits = CodingLimits { output_max: Some(1 << 20), ..UNLIMITED };
        let one = decode(decoder(name(FORMS[form]), limits), &wire, cut, 1_000);
        let other = decode(decoder(name(FORMS[form]), limits), &wire, wire.len().max(1), 64 * 1024);
        prop_assert_eq!(one.is_ok(), other.is_ok());
        if let Ok(body) = one {
            prop_assert_eq!(Ok(body), other);
        }
    }
}
