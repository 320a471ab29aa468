//! HPACK as a whole: the examples of RFC 7541, blocks with errors, and other implementations as
//! judges.

use proptest::prelude::*;

use super::{HpackDecoder, HpackEncoder, HpackError};

#[path = "../../../../../fuzz/src/h2/hpack.rs"]
#[allow(unreachable_pub, missing_docs, reason = "a crate of its own elsewhere")]
mod fuzz;

#[path = "../../../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "as above")]
mod mutate;

type DecodedFields = Vec<(Vec<u8>, Vec<u8>)>;

/// A section of RFC 7541, appendix C: blocks of one connection, each with its fields and the
/// dynamic table after it.
struct AppendixSection {
    name: String,
    table_max: usize,
    blocks: Vec<SampleBlock>,
}

#[derive(Default)]
struct SampleBlock {
    bytes: Vec<u8>,
    fields: DecodedFields,
    table_size: Option<usize>,
    table: DecodedFields,
}

fn appendix() -> Vec<AppendixSection> {
    include_str!("appendix_c.txt").split("\n\n").map(section).collect()
}

fn section(text: &str) -> AppendixSection {
    let mut lines = text.lines();
    let title = lines.next().and_then(|line| line.strip_prefix("# ")).expect("a title");
    let (name, table_max) = title.split_once(" table_max ").unwrap_or((title, "4096"));
    let mut blocks: Vec<SampleBlock> = Vec::new();
    for line in lines {
        if let Some(bytes) = line.strip_prefix("> ") {
            if blocks.last().is_none_or(|block| block.table_size.is_some()) {
                blocks.push(SampleBlock::default());
            }
            blocks.last_mut().expect("a block").bytes.extend(from_hex(bytes));
            continue;
        }
        let block = blocks.last_mut().expect("a block");
        if let Some(size) = line.strip_prefix("table ") {
            block.table_size = Some(size.parse().expect("a size"));
            continue;
        }
        let colon = 1 + line[1..].find(": ").expect("a field");
        let field = (line[..colon].into(), line[colon + 2..].into());
        match block.table_size {
            None => block.fields.push(field),
            Some(_) => block.table.push(field),
        }
    }
    AppendixSection { name: name.into(), table_max: table_max.parse().expect("a size"), blocks }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(|pair| octet(pair).expect("two digits")).collect()
}

#[test]
fn examples_of_the_appendix_are_decoded() {
    for section in appendix() {
        let mut decoder = HpackDecoder::new(section.table_max);
        for block in &section.blocks {
            let name = &section.name;
            assert_eq!(decode(&mut decoder, &block.bytes).as_ref(), Ok(&block.fields), "{name}");
            assert_eq!(Some(decoder.table().size()), block.table_size, "{name}");
            let entry = |at| decoder.table().get(at).map(|(text, len)| text.split_at(len));
            let table = (0..).map_while(entry).map(|(n, v)| (n.to_vec(), v.to_vec()));
            assert_eq!(table.collect::<DecodedFields>(), block.table, "{name}");
        }
    }
}

#[test]
fn requests_of_the_appendix_are_encoded() {
    let sections = appendix();
    let section = sections.iter().find(|section| section.name == "C.4").expect("C.4");
    let mut encoder = HpackEncoder::new();
    for block in &section.blocks {
        assert_eq!(encode(&mut encoder, &block.fields), block.bytes);
    }
}

/// Blocks of one connection, of all representations, with every kind of index.
fn sound_blocks() -> Vec<(usize, Vec<Vec<u8>>)> {
    let sections = appendix().into_iter();
    let mut found: Vec<(usize, Vec<Vec<u8>>)> = sections
        .map(|s| (s.table_max, s.blocks.into_iter().map(|block| block.bytes).collect()))
        .collect();
    let mut encoder = HpackEncoder::new();
    let mut blocks = Vec::new();
    for round in 0..4u8 {
        encoder.set_table_max(u32::from(round % 3) * 150);
        let value = vec![b'v' + round; 140 * usize::from(round)];
        let fields: [(&[u8], &[u8]); 7] = [
            (b":status", b"418"),
            (b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
            (b"x-name", b"value"),
            (b"x-name", b"other value"),
            (b"authorization", b"Basic x"),
            (b"x-long", &value),
            (b"x-bytes", b"\x00\xff\n\x80"),
        ];
        blocks.push(encode(&mut encoder, &fields.map(|(n, v)| (n.to_vec(), v.to_vec()))));
    }
    found.push((4096, blocks));
    found
}

#[test]
fn every_prefix_and_every_changed_byte_leaves_a_sound_table() {
    for (table_max, blocks) in sound_blocks() {
        let mut ready = HpackDecoder::new(table_max);
        for block in &blocks {
            let probe = |bytes: &[u8]| {
                let mut decoder = ready.clone();
                let result = decode(&mut decoder, bytes);
                decoder.table().assert_sound();
                result.map(|fields| fields.len())
            };
            let whole = probe(block).expect("a sound block");
            for end in 0..block.len() {
                match probe(&block[..end]) {
                    Ok(fields) => assert!(fields < whole || end == block.len()),
                    Err(error) => assert!(
                        matches!(error, HpackError::Truncated | HpackError::BadPadding),
                        "{error:?}"
                    ),
                }
            }
            for at in 0..block.len() {
                for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                    let mut bytes = block.clone();
                    bytes[at] ^= flip;
                    let _ = probe(&bytes);
                }
            }
            decode(&mut ready, block).expect("a sound block");
        }
    }
}

#[test]
fn unsound_blocks_are_refused() {
    for (block, error) in [
        ("80", HpackError::UnknownIndex),
        ("be", HpackError::UnknownIndex),
        ("7e 0161", HpackError::UnknownIndex),
        ("0f2f 0161", HpackError::UnknownIndex),
        ("ff80 8080 8000", HpackError::IntegerTooLong),
        ("4085", HpackError::Truncated),
        ("400161", HpackError::Truncated),
        ("407f", HpackError::Truncated),
        ("ff", HpackError::Truncated),
        ("3fe21f", HpackError::SizeUpdateTooLarge), // 4,097
        ("8220", HpackError::MisplacedSizeUpdate),
        ("3f", HpackError::Truncated),
        ("0081 ff00", HpackError::BadPadding), // eight bits
        ("0081 fe00", HpackError::BadPadding), // a zero in it
        ("0084 ffff ffff 00", HpackError::EndOfString),
    ] {
        let result = decode(&mut HpackDecoder::new(4096), &from_hex(block));
        assert_eq!(result, Err(error), "{block}");
    }
}

#[test]
fn size_updates_begin_a_block() {
    let mut decoder = HpackDecoder::new(4096);
    let name = |block: &[u8], decoder: &mut HpackDecoder| decode(decoder, block).map(|f| f.len());
    assert_eq!(name(&from_hex("3fe11f 4001610162 be"), &mut decoder), Ok(2));
    assert_eq!(name(&from_hex("20 3fe11f 82"), &mut decoder), Ok(1));
    assert_eq!(name(&from_hex("be"), &mut decoder), Err(HpackError::UnknownIndex));
    assert_eq!(name(&from_hex("20"), &mut decoder), Ok(0));
    assert_eq!(decoder.table().size_max(), 0);
}

#[test]
fn a_name_outlives_its_entry() {
    let mut decoder = HpackDecoder::new(100);
    let block = [&from_hex("4004")[..], b"name", &[50], &[b'v'; 50]].concat();
    decode(&mut decoder, &block).expect("an entry of 86");
    let again = [&[0x7e, 60][..], &[b'w'; 60]].concat();
    let fields = decode(&mut decoder, &again).expect("an entry of 96");
    assert_eq!(fields, [(b"name".to_vec(), vec![b'w'; 60])]);
    assert_eq!(decoder.table().get(0), Some((&[&b"name"[..], &[b'w'; 60]].concat()[..], 4)));
    let large = [&[0x7e, 70][..], &[b'x'; 70]].concat();
    let fields = decode(&mut decoder, &large).expect("a field larger than the table");
    assert_eq!(fields, [(b"name".to_vec(), vec![b'x'; 70])]);
    assert_eq!(decoder.table().len(), 0);
}

#[test]
fn a_truncated_list_keeps_the_table() {
    let mut decoder = HpackDecoder::new(4096);
    let (mut out, mut calls) = (b"kept".to_vec(), 0);
    let block = from_hex("4001610162 be 82");
    let result = decoder.decode(&block, &mut out, |out, name, value| {
        assert_eq!((name.start, value.start, value.end as usize), (4, name.end, out.len()));
        out.truncate(name.start as usize);
        calls += 1;
    });
    assert_eq!((result, &out[..], calls), (Ok(()), &b"kept"[..], 3));
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(vec![(b"a".to_vec(), b"b".to_vec())]));
}

/// The same blocks, decoded by the other implementations and by ours.
struct Judges {
    ours: HpackDecoder,
    httlib: httlib_hpack::Decoder<'static>,
    fluke: fluke_hpack::Decoder<'static>,
}

impl Judges {
    fn new() -> Self {
        let httlib = httlib_hpack::Decoder::with_dynamic_size(4096);
        Self { ours: HpackDecoder::new(4096), httlib, fluke: fluke_hpack::Decoder::new() }
    }

    fn assert_fields(&mut self, block: &[u8], fields: &DecodedFields) {
        assert_eq!(decode(&mut self.ours, block).as_ref(), Ok(fields));
        assert_eq!(self.fluke.decode(block).as_ref().ok(), Some(fields));
        let mut found = Vec::new();
        self.httlib.decode(&mut block.to_vec(), &mut found).expect("a sound block");
        let found: DecodedFields =
            found.into_iter().map(|(name, value, _)| (name, value)).collect();
        assert_eq!(&found, fields);
        self.ours.table().assert_sound();
    }
}

/// What happens to an encoder.
#[derive(Clone, Debug)]
enum EncoderStep {
    Block(DecodedFields),
    TableMax(u32),
    Release,
}

fn step() -> impl Strategy<Value = EncoderStep> {
    let sizes = prop_oneof![0..300u32, Just(4096), Just(65_536), Just(0)];
    prop_oneof![
        6 => prop::collection::vec(field(), 1..8).prop_map(EncoderStep::Block),
        1 => sizes.prop_map(EncoderStep::TableMax),
        1 => Just(EncoderStep::Release),
    ]
}

fn field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let name = prop_oneof![
        8 => prop::sample::select(NAMES).prop_map(String::from),
        1 => "[!#-'*+.^-z|~A-Z]{1,80}",
    ];
    let value = prop_oneof![
        6 => prop::sample::select(VALUES).prop_map(Vec::from),
        2 => "[ -~]{0,60}".prop_map(Vec::from),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (0..5000usize).prop_map(|len| vec![b'v'; len]),
    ];
    (name.prop_map(Vec::from), value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn other_decoders_read_our_blocks(steps in prop::collection::vec(step(), 1..12)) {
        let (mut encoder, mut judges) = (HpackEncoder::new(), Judges::new());
        for step in steps {
            match step {
                EncoderStep::TableMax(size) => encoder.set_table_max(size),
                EncoderStep::Release => encoder.release_memory(0),
                EncoderStep::Block(fields) => {
                    judges.assert_fields(&encode(&mut encoder, &fields), &lower(fields));
                    prop_assert!(judges.ours.table().is_same(encoder.table()));
                }
            }
        }
    }

    #[test]
    fn blocks_of_other_encoders_are_decoded(steps in prop::collection::vec(step(), 1..12)) {
        let mut httlib = httlib_hpack::Encoder::with_dynamic_size(4096);
        let mut fluke = fluke_hpack::Encoder::new();
        let (mut of_httlib, mut of_fluke) = (Judges::new(), Judges::new());
        let mut block = Vec::new();
        for step in steps {
            match step {
                EncoderStep::Release => {}
                EncoderStep::TableMax(size) => {
                    let size = size.min(4096);
                    httlib.update_max_dynamic_size(size, &mut block).expect("a sound size");
                }
                EncoderStep::Block(fields) => {
                    let fields = lower(fields);
                    of_fluke.assert_fields(&fluke.encode(refs(&fields)), &fields);
                    for (at, (name, value)) in fields.iter().enumerate() {
                        // Every second one with the Huffman code, and every third one indexed.
                        let flags = [0x10, 0x13, 0x14, 0x03, 0x10, 0x17][at % 6];
                        let field = (name.clone(), value.clone(), flags);
                        httlib.encode(field, &mut block).expect("a sound field");
                    }
                    of_httlib.assert_fields(&block, &fields);
                    block.clear();
                }
            }
        }
    }
}

#[test]
fn mutated_blocks_are_decoded_as_by_another_decoder() {
    let corpus: Vec<Vec<u8>> = sound_blocks().into_iter().map(fuzz_case).collect();
    smoke(&corpus, 60_000, fuzz::decoder);
}

#[test]
fn mutated_lists_survive_a_round_trip() {
    let lists = [&b"\x03:status: 404\ndate: now\nDate: now\n\xffx-a: b\nX-A: b\nx-a: \n"[..]];
    let mut corpus: Vec<Vec<u8>> = lists.map(Vec::from).into();
    corpus.extend(sound_blocks().into_iter().map(fuzz_case));
    smoke(&corpus, 20_000, fuzz::encoder);
}

/// The blocks as the input of a fuzz target.
fn fuzz_case((table_max, blocks): (usize, Vec<Vec<u8>>)) -> Vec<u8> {
    let mut case = vec![u8::try_from(table_max / 32).unwrap_or(u8::MAX)];
    for block in blocks {
        case.push(u8::try_from(block.len()).unwrap_or(u8::MAX));
        case.extend(block);
    }
    case
}

fn smoke(corpus: &[Vec<u8>], rounds: usize, target: fn(&[u8])) {
    corpus.iter().for_each(|case| target(case));
    let mut random = mutate::Random(SEED);
    for round in 0..rounds {
        let mut data = corpus[random.below(corpus.len())].clone();
        (0..=random.below(4)).for_each(|_| mutate::mutate(&mut data, corpus, &mut random));
        let result = std::panic::catch_unwind(|| target(&data));
        assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
    }
}

fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Result<DecodedFields, HpackError> {
    let (mut out, mut found) = (Vec::new(), Vec::new());
    decoder.decode(block, &mut out, |out, name, value| {
        let part = |range: std::ops::Range<u32>| &out[range.start as usize..range.end as usize];
        found.push((part(name).to_vec(), part(value).to_vec()));
    })?;
    Ok(found)
}

fn encode(encoder: &mut HpackEncoder, fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    fields.iter().for_each(|(name, value)| encoder.field(&mut out, name, value));
    out
}

fn lower(mut fields: DecodedFields) -> DecodedFields {
    fields.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    fields
}

fn refs(fields: &DecodedFields) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.iter().map(|(name, value)| (&name[..], &value[..]))
}

const NAMES: &[&str] = &[
    ":method",
    ":path",
    ":status",
    ":authority",
    "accept-encoding",
    "Authorization",
    "Cookie",
    "Content-Length",
    "Content-Type",
    "Date",
    "ETag",
    "Set-Cookie",
    "Strict-Transport-Security",
    "x-a",
    "X-A",
    "X-Request-Id",
    "X-Some-Long-Name-That-No-Table-Has",
];
const VALUES: &[&str] =
    &["", "GET", "/", "200", "404", "gzip, deflate", "text/html", "a", "b", "{}~`|"];

const SEED: u64 = 0x5eed_00f0_1a2c;
