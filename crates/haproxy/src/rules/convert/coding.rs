//! Converters of encodings: hexadecimal, base64, URL encoding.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{ConvertFn, Converter};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::hex::hex_digit;
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    encoder(&["hex"], Takes::NONE, hex),
    Converter::new(&["hex2i"], Takes::NONE, Type::Text, Type::Int, hex_number),
    encoder(&["be2hex"], Takes::from(0, CHUNKS), chunks_as_hex).checked(check_chunks),
    encoder(&["be2dec"], Takes::from(2, CHUNKS), chunks_as_numbers).checked(check_numbers),
    encoder(&["base64"], Takes::NONE, |v, _, _| {
        Some(Sample::Text(STANDARD.encode(v.into_binary()?).into_bytes().into()))
    }),
    encoder(&["ub64enc"], Takes::NONE, |v, _, _| {
        Some(Sample::Text(URL_SAFE_NO_PAD.encode(v.into_binary()?).into_bytes().into()))
    }),
    decoder(&["b64dec"], |v, _, _| {
        Some(Sample::Binary(STANDARD_LENIENT.decode(v.into_text()?).ok()?.into()))
    }),
    decoder(&["ub64dec"], |v, _, _| {
        Some(Sample::Binary(URL_SAFE_LENIENT.decode(v.into_text()?).ok()?.into()))
    }),
    Converter::new(
        &["url_dec"],
        Takes::from(0, &[ArgKind::Int]),
        Type::Text,
        Type::Text,
        url_decode,
    ),
    Converter::new(
        &["url_enc"],
        Takes::from(0, &[ArgKind::OneOf(&["query"])]),
        Type::Text,
        Type::Text,
        url_encode,
    ),
    Converter::new(&["htonl"], Takes::NONE, Type::Int, Type::Binary, network_order),
];

const CHUNKS: &[ArgKind] = &[ArgKind::Text, ArgKind::Int, ArgKind::Int];

const fn encoder(names: &'static [&'static str], takes: Takes, run: ConvertFn) -> Converter {
    Converter::new(names, takes, Type::Binary, Type::Text, run)
}

const fn decoder(names: &'static [&'static str], run: ConvertFn) -> Converter {
    Converter::new(names, Takes::NONE, Type::Text, Type::Binary, run)
}

fn push_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn hex<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let bytes = value.into_binary()?;
    let mut text = Vec::with_capacity(2 * bytes.len());
    push_hex(&mut text, &bytes);
    Some(Sample::Text(text.into()))
}

/// The lower 64 bits of the number.
fn hex_number<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let digits = value.into_text()?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number << 4 | u64::from(hex_digit(*digit)));
    Some(Sample::Int(number.cast_signed()))
}

fn check_chunks(args: &mut Args) -> Result<(), String> {
    match args.int(1) {
        Some(..=0) => Err("the chunk size must be positive".to_owned()),
        None if args.text(0).is_some() => Err("a separator requires a chunk size".to_owned()),
        _ => Ok(()),
    }
}

fn check_numbers(args: &mut Args) -> Result<(), String> {
    match args.int(1) {
        Some(1..=8) => Ok(()),
        _ => Err("the chunk size must be from 1 to 8".to_owned()),
    }
}

/// Writes chunks with separators; a short last chunk is optional.
fn chunks(value: Sample<'_>, args: &Args, write: fn(&mut Vec<u8>, &[u8])) -> Option<Vec<u8>> {
    let bytes = value.into_binary()?;
    let size = usize::try_from(args.int(1).unwrap_or(1)).ok()?.max(1);
    let only_whole = args.int(2).is_some_and(|flag| flag != 0);
    let mut text = Vec::with_capacity(3 * bytes.len());
    for (at, chunk) in bytes.chunks(size).enumerate() {
        if only_whole && chunk.len() < size {
            break;
        }
        if at > 0 {
            text.extend_from_slice(args.text(0).unwrap_or_default());
        }
        write(&mut text, chunk);
    }
    Some(text)
}

fn chunks_as_hex<'a>(
    value: Sample<'a>,
    args: &'a Args,
    _: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    chunks(value, args, push_hex).map(|text| Sample::Text(text.into()))
}

fn chunks_as_numbers<'a>(
    value: Sample<'a>,
    args: &'a Args,
    _: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let write = |text: &mut Vec<u8>, chunk: &[u8]| {
        let number = chunk.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        text.extend_from_slice(number.to_string().as_bytes());
    };
    chunks(value, args, write).map(|text| Sample::Text(text.into()))
}

/// `+` is a blank in a form and in a query. An incomplete `%` escape fails.
fn url_decode<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let is_form = args.int(0).is_some_and(|flag| flag != 0);
    let changes = |byte: &u8| matches!(byte, b'%' | b'+');
    if !text.iter().any(changes) {
        return Some(Sample::Text(text));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut plus = if is_form { b' ' } else { b'+' };
    let mut rest = &text[..];
    loop {
        match rest {
            [] => return Some(Sample::Text(decoded.into())),
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                decoded.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = &rest[2..];
            }
            [b'%', ..] => return None,
            [b'+', ..] => decoded.push(plus),
            [byte, ..] => {
                if *byte == b'?' {
                    plus = b' ';
                }
                decoded.push(*byte);
            }
        }
        rest = &rest[1..];
    }
}

/// Encodes all but letters, digits and `-._~`.
fn url_encode<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    if text.iter().all(is_plain) {
        return Some(Sample::Text(text));
    }
    let mut encoded = Vec::with_capacity(2 * text.len());
    for byte in text.iter() {
        match is_plain(byte) {
            true => encoded.push(*byte),
            false => {
                encoded.push(b'%');
                push_hex(&mut encoded, &[*byte]);
            }
        }
    }
    Some(Sample::Text(encoded.into()))
}

fn network_order<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    #[expect(clippy::cast_possible_truncation, reason = "the lower bits are meant")]
    let bits = value.into_int()? as u32;
    Some(Sample::Binary(bits.to_be_bytes().to_vec().into()))
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// Padding is required; unused bits may have any value.
const STANDARD_LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Padding is optional.
const URL_SAFE_LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
