//! HPACK: what our decoder accepts, another one reads in the same way; and a list that is encoded
//! is decoded again.
//!
//! `crates/proto/src/h2/hpack/tests.rs` runs the same functions on mutated cases in every test run.

use super::{HpackDecoder, HpackEncoder};

/// The blocks of a connection: the first byte is the size of the table, in units of 32; each block
/// follows a byte of its length.
pub fn decoder(data: &[u8]) {
    let Some((units, mut data)) = data.split_first() else { return };
    let table_max = u32::from(*units) * 32;
    let mut decoder = HpackDecoder::new(table_max as usize);
    let mut judge = httlib_hpack::Decoder::with_dynamic_size(table_max);
    while let Some((len, rest)) = data.split_first() {
        let (block, later) = rest.split_at(rest.len().min((*len).into()));
        data = later;
        let Some(fields) = decode(&mut decoder, block) else { return };
        assert!(fields == judged(&mut judge, block), "the decoders disagree");
    }
}

/// Lists of a connection as `NAME: VALUE` lines. A line that begins with a byte below 32 first sets
/// the size of the table, one with a byte above 126 empties it, and both begin a block.
pub fn encoder(data: &[u8]) {
    let (mut encoder, mut decoder) = (HpackEncoder::new(), HpackDecoder::new(4096));
    let mut judge = httlib_hpack::Decoder::with_dynamic_size(4096);
    let (mut block, mut fields) = (Vec::new(), Vec::new());
    encoder.begin(&mut block);
    for line in data.split(|byte| *byte == b'\n') {
        if let Some(control @ (..32 | 127..)) = line.first() {
            assert_eq!(decode(&mut decoder, &block).as_ref(), Some(&fields));
            assert_eq!(judged(&mut judge, &block), fields);
            block.clear();
            fields.clear();
            match control {
                127.. => encoder.release_memory(0),
                _ => encoder.set_table_max(u32::from(*control) * 140),
            }
            encoder.begin(&mut block);
        }
        let colon = line.windows(2).skip(1).position(|pair| pair == b": ").map(|at| at + 1);
        let (name, value) = colon.map_or((line, line), |at| (&line[..at], &line[at + 2..]));
        encoder.field(&mut block, name, value);
        fields.push((name.to_ascii_lowercase(), value.to_vec()));
    }
    assert_eq!(decode(&mut decoder, &block).as_ref(), Some(&fields));
    assert_eq!(judged(&mut judge, &block), fields);
}

type FieldList = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(decoder: &mut HpackDecoder, block: &[u8]) -> Option<FieldList> {
    let (mut out, mut fields) = (Vec::new(), Vec::new());
    let result = decoder.decode(block, &mut out, |out, name, value| {
        assert!(name.end == value.start && value.end as usize == out.len());
        let value = out.split_off(value.start as usize);
        fields.push((out.split_off(name.start as usize), value));
    });
    result.ok().map(|()| fields)
}

fn judged(judge: &mut httlib_hpack::Decoder<'_>, block: &[u8]) -> FieldList {
    let mut fields = Vec::new();
    judge.decode(&mut block.to_vec(), &mut fields).expect("our decoder accepts the block");
    fields.into_iter().map(|(name, value, _)| (name, value)).collect()
}
