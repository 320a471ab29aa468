//! JSON converters: encoding, and queries.

use serde_json::Value;

use super::Converter;
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    Converter::new(&["json"], Takes::from(0, &[CODES]), Type::Text, Type::Text, escape),
    Converter::new(
        &["json_query"],
        Takes::from(1, &[ArgKind::Text, ArgKind::OneOf(&["int"])]),
        Type::Text,
        Type::Any,
        query,
    )
    .checked(check_path),
];

const CODES: ArgKind = ArgKind::OneOf(&["ascii", "utf8", "utf8s", "utf8p", "utf8ps"]);

/// Encodes as ASCII. The argument selects the input encoding and the handling of errors.
fn escape<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let code = args.text(0).unwrap_or(b"ascii");
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"\\/".contains(byte);
    if text.iter().all(is_plain) {
        return Some(Sample::Text(text));
    }
    let permissive = matches!(code, b"utf8p" | b"utf8ps");
    let silent = matches!(code, b"utf8s" | b"utf8ps");
    let mut out = Vec::with_capacity(text.len() + text.len() / 8 + 16);
    let mut rest = &text[..];
    while let Some(first) = rest.first() {
        let (character, len) = match code {
            b"ascii" => (Ok(u32::from(*first)), 1),
            _ => decode(rest, permissive),
        };
        match character {
            Ok(character @ 0..=0xffff) => push_escaped(&mut out, character),
            Ok(_) | Err(BadUtf8) if silent => {}
            Ok(_) | Err(BadUtf8) => return None,
        }
        rest = &rest[len..];
    }
    Some(Sample::Text(out.into()))
}

fn push_escaped(out: &mut Vec<u8>, character: u32) {
    let short = match u8::try_from(character) {
        Ok(byte @ (b'"' | b'\\' | b'/')) => byte,
        Ok(0x08) => b'b',
        Ok(0x0c) => b'f',
        Ok(b'\n') => b'n',
        Ok(b'\r') => b'r',
        Ok(b'\t') => b't',
        Ok(byte @ b' '..=b'~') => return out.push(byte),
        _ => {
            return out.extend_from_slice(format!("\\u{character:04x}").as_bytes());
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

/// Invalid UTF-8.
struct BadUtf8;

/// The first character of non-empty input, and its length. Overlong sequences are errors, unless
/// `permissive`.
fn decode(bytes: &[u8], permissive: bool) -> (Result<u32, BadUtf8>, usize) {
    let (len, first) = match bytes[0] {
        byte @ 0..=0x7f => return (Ok(byte.into()), 1),
        byte @ 0xc0..=0xdf => (2, byte & 0x1f),
        byte @ 0xe0..=0xef => (3, byte & 0x0f),
        byte @ 0xf0..=0xf7 => (4, byte & 0x07),
        _ => return (Err(BadUtf8), 1),
    };
    let tail = &bytes[1..len.min(bytes.len())];
    let fitting = tail.iter().take_while(|byte| *byte & 0xc0 == 0x80).count();
    if fitting < len - 1 {
        return (Err(BadUtf8), 1 + fitting);
    }
    let character = tail
        .iter()
        .fold(u32::from(first), |character, byte| character << 6 | u32::from(byte & 0x3f));
    let least = [0x80, 0x800, 0x1_0000][len - 2];
    match char::from_u32(character) {
        Some(_) if permissive || character >= least => (Ok(character), len),
        _ => (Err(BadUtf8), len),
    }
}

fn check_path(args: &mut Args) -> Result<(), String> {
    let path = args.text(0).unwrap_or_default();
    match path.strip_prefix(b"$") {
        Some([] | [b'.' | b'[', ..]) => Ok(()),
        _ => Err("a path must begin with '$.'".to_owned()),
    }
}

/// The value at a path such as `$.a.b[0]`. A backslash escapes a dot in a name.
fn query<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let document: Value = serde_json::from_slice(&value.into_text()?).ok()?;
    let mut found = &document;
    let mut path = args.text(0)?.strip_prefix(b"$")?;
    while let Some((first, rest)) = path.split_first() {
        path = match first {
            b'.' => {
                let (name, rest) = member(rest);
                found = found.get(str::from_utf8(&name).ok()?)?;
                rest
            }
            b'[' => {
                let end = rest.iter().position(|byte| *byte == b']')?;
                let at: usize = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
                found = found.get(at)?;
                &rest[end + 1..]
            }
            _ => return None,
        };
    }
    let sample = match found {
        Value::Bool(value) => Sample::Bool(*value),
        Value::String(text) => Sample::Text(text.clone().into_bytes().into()),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Sample::Int(number),
            None => Sample::Text(number.to_string().into_bytes().into()),
        },
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    match args.text(1) {
        Some(_) => sample.cast(Type::Int),
        None => Some(sample),
    }
}

/// A name up to the next dot or bracket, and the rest.
fn member(path: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut name = Vec::new();
    let mut rest = path;
    loop {
        match rest {
            [b'\\', byte, tail @ ..] => {
                name.push(*byte);
                rest = tail;
            }
            [] | [b'.' | b'[', ..] => return (name, rest),
            [byte, tail @ ..] => {
                name.push(*byte);
                rest = tail;
            }
        }
    }
}
