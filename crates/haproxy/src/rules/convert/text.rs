//! Text converters: case, parts, concatenation.

use std::borrow::Cow;
use std::ops::Range;

use subtle::ConstantTimeEq;

use super::{ConvertFn, Converter};
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::number::leading_int;
use crate::rules::regex::{self, Regex};
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    plain(&["lower"], |v, _, _| mapped(v, u8::is_ascii_uppercase, <[u8]>::make_ascii_lowercase)),
    plain(&["upper"], |v, _, _| mapped(v, u8::is_ascii_lowercase, <[u8]>::make_ascii_uppercase)),
    Converter::new(&["length"], Takes::NONE, Type::Text, Type::Int, length),
    with(&["field"], PARTS, field).checked(check_index),
    with(&["word"], PARTS, word).checked(check_index),
    Converter::new(
        &["bytes"],
        Takes::from(1, &[ArgKind::Int, ArgKind::Int]),
        Type::Binary,
        Type::Binary,
        bytes,
    ),
    with(&["ltrim"], Takes::all(&[ArgKind::Text]), trim_left),
    with(&["rtrim"], Takes::all(&[ArgKind::Text]), trim_right),
    plain(&["cut_crlf"], cut_line),
    plain(&["host_only"], host_only),
    Converter::new(&["port_only"], Takes::NONE, Type::Text, Type::Int, port_only),
    Converter::new(
        &["iif"],
        Takes::from(0, &[ArgKind::Text, ArgKind::Text]),
        Type::Bool,
        Type::Text,
        one_of_two,
    ),
    with(&["concat"], Takes::from(0, &[ArgKind::Text, ArgKind::Variable, ArgKind::Text]), concat),
    with(
        &["add_item"],
        Takes::from(1, &[ArgKind::Text, ArgKind::Variable, ArgKind::Text]),
        add_item,
    )
    .checked(check_item),
    Converter::new(&["strcmp"], VARIABLE, Type::Text, Type::Int, compare),
    Converter::new(&["secure_memcmp"], VARIABLE, Type::Binary, Type::Bool, is_same),
    with(&["regsub"], Takes::from(2, &[ArgKind::Text, ArgKind::Text, ArgKind::Text]), substitute)
        .checked(check_substitution),
];

const PARTS: Takes = Takes::from(2, &[ArgKind::Int, ArgKind::Text, ArgKind::Int]);
const VARIABLE: Takes = Takes::all(&[ArgKind::Variable]);

const fn plain(names: &'static [&'static str], run: ConvertFn) -> Converter {
    with(names, Takes::NONE, run)
}

const fn with(names: &'static [&'static str], takes: Takes, run: ConvertFn) -> Converter {
    Converter::new(names, takes, Type::Text, Type::Text, run)
}

/// Changes bytes if necessary.
fn mapped(value: Sample<'_>, needs: fn(&u8) -> bool, change: fn(&mut [u8])) -> Option<Sample<'_>> {
    let text = value.into_text()?;
    if !text.iter().any(needs) {
        return Some(Sample::Text(text));
    }
    let mut text = text.into_owned();
    change(&mut text);
    Some(Sample::Text(text.into()))
}

fn length<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::Int(i64::try_from(value.into_text()?.len()).ok()?))
}

/// A part of bytes; copies only owned ones.
fn cut(bytes: Cow<'_, [u8]>, range: Range<usize>) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[range]),
        Cow::Owned(bytes) => Cow::Owned(bytes[range].to_vec()),
    }
}

fn check_index(args: &mut Args) -> Result<(), String> {
    match (args.int(0), args.int(2)) {
        (Some(0), _) => Err("the index is counted from 1, or from -1 at the end".to_owned()),
        (_, Some(..0)) => Err("the count must not be negative".to_owned()),
        _ => Ok(()),
    }
}

/// A field between delimiters; consecutive delimiters enclose empty fields.
fn field<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    part(value, args, |is_delimiter, len, nth, count| {
        let mut start = 0;
        for _ in 1..nth {
            start = (start..len).find(|at| is_delimiter(*at))? + 1;
        }
        let ends = (start..len).filter(|at| is_delimiter(*at));
        Some((start, nth_end(ends, count, len)))
    })
}

/// A word between delimiters; consecutive delimiters are one.
fn word<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    part(value, args, |is_delimiter, len, nth, count| {
        let is_begin = |at: &usize| !is_delimiter(*at) && (*at == 0 || is_delimiter(*at - 1));
        let start = (0..len).filter(is_begin).nth(nth - 1)?;
        let ends = (start + 1..len).filter(|at| is_delimiter(*at) && !is_delimiter(*at - 1));
        Some((start, nth_end(ends, count, len)))
    })
}

/// The end of `count` parts; 0 means all.
fn nth_end(mut ends: impl Iterator<Item = usize>, count: usize, len: usize) -> usize {
    count.checked_sub(1).and_then(|at| ends.nth(at)).unwrap_or(len)
}

/// Finds a part from the start or, with a negative index, from the end. `find` sees the text in
/// that direction, as positions that it can test for delimiters.
fn part<'a>(
    value: Sample<'a>,
    args: &Args,
    find: impl FnOnce(&dyn Fn(usize) -> bool, usize, usize, usize) -> Option<(usize, usize)>,
) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let (place, len) = (args.int(0)?, text.len());
    let delimiters = args.text(1)?;
    let count = usize::try_from(args.int(2).unwrap_or(1)).ok()?;
    let nth = usize::try_from(place.unsigned_abs()).ok().filter(|nth| *nth > 0)?;
    let is_backward = place < 0;
    let is_delimiter =
        |at: usize| delimiters.contains(&text[if is_backward { len - 1 - at } else { at }]);
    let (start, end) = find(&is_delimiter, len, nth, count)?;
    let range = if is_backward { len - end..len - start } else { start..end };
    Some(Sample::Text(cut(text, range)))
}

fn bytes<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let bytes = value.into_binary()?;
    let start = usize::try_from(args.int(0)?).ok()?.min(bytes.len());
    let left = bytes.len() - start;
    let len = match args.int(1) {
        None => left,
        Some(len) => usize::try_from(len).ok()?.min(left),
    };
    Some(Sample::Binary(cut(bytes, start..start + len)))
}

fn trim_left<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let is_kept = |byte: &u8| !args.text(0).unwrap_or_default().contains(byte);
    let start = text.iter().position(is_kept).unwrap_or(text.len());
    let range = start..text.len();
    Some(Sample::Text(cut(text, range)))
}

fn trim_right<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let is_kept = |byte: &u8| !args.text(0).unwrap_or_default().contains(byte);
    let end = text.iter().rposition(is_kept).map_or(0, |at| at + 1);
    Some(Sample::Text(cut(text, 0..end)))
}

fn cut_line<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let end = text.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(text.len());
    Some(Sample::Text(cut(text, 0..end)))
}

/// The end of the host in `host:80`.
fn host_end(text: &[u8]) -> usize {
    match text.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(at) if text[at] == b':' => at,
        _ => text.len(),
    }
}

fn host_only<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let end = host_end(&text);
    let host = Sample::Text(cut(text, 0..end));
    mapped(host, u8::is_ascii_uppercase, <[u8]>::make_ascii_lowercase)
}

fn port_only<'a>(value: Sample<'a>, _: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = value.into_text()?;
    let port = text.get(host_end(&text) + 1..).unwrap_or_default();
    Some(Sample::Int(leading_int(port)))
}

fn one_of_two<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let text = if value.into_bool()? { args.text(0) } else { args.text(1) };
    Some(Sample::text(text.unwrap_or_default()))
}

fn of_variable<'a>(args: &'a Args, at: usize, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    subject.variable(args.variable(at)?)
}

fn concat<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let mut text = value.into_text()?.into_owned();
    text.extend_from_slice(args.text(0).unwrap_or_default());
    let variable = of_variable(args, 1, subject).and_then(Sample::into_text);
    text.extend_from_slice(&variable.unwrap_or_default());
    text.extend_from_slice(args.text(2).unwrap_or_default());
    Some(Sample::Text(Cow::Owned(text)))
}

fn check_item(args: &mut Args) -> Result<(), String> {
    match (args.variable(1), args.text(2)) {
        (None, None) => Err("requires a variable or a text".to_owned()),
        _ => Ok(()),
    }
}

fn add_item<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let mut text = value.into_text()?.into_owned();
    let variable = of_variable(args, 1, subject).and_then(Sample::into_text).unwrap_or_default();
    let suffix = args.text(2).unwrap_or_default();
    let adds = !variable.is_empty() || !suffix.is_empty();
    if !text.is_empty() && adds {
        text.extend_from_slice(args.text(0).unwrap_or_default());
    }
    text.extend_from_slice(&variable);
    text.extend_from_slice(suffix);
    Some(Sample::Text(Cow::Owned(text)))
}

/// strcmp(3), limited to -1, 0 and 1.
fn compare<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let other = of_variable(args, 0, subject)?.into_text()?;
    Some(Sample::Int(value.into_text()?.cmp(&other) as i64))
}

/// Constant-time comparison.
fn is_same<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let other = of_variable(args, 0, subject)?.into_binary()?;
    Some(Sample::Bool(value.into_binary()?[..].ct_eq(&other[..]).into()))
}

/// Compiles the regex once its flags are known.
fn check_substitution(args: &mut Args) -> Result<(), String> {
    let flags = args.text(2).unwrap_or_default();
    if let Some(flag) = flags.iter().find(|flag| !b"gi".contains(flag)) {
        return Err(format!("unknown flag '{}', expected 'g' or 'i'", char::from(*flag)));
    }
    let text = String::from_utf8_lossy(args.text(0).unwrap_or_default());
    let regex = Regex::new(&text, flags.contains(&b'i'))?;
    args.set(0, Arg::Regex(regex));
    Ok(())
}

fn substitute<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let Arg::Regex(regex) = args.get(0) else { return None };
    let everywhere = args.text(2).is_some_and(|flags| flags.contains(&b'g'));
    let text = value.into_text()?;
    match replaced(&text, regex, args.text(1).unwrap_or_default(), everywhere) {
        Some(replaced) => Some(Sample::Text(replaced.into())),
        None => Some(Sample::Text(text)),
    }
}

/// The text with matches replaced; `None` without a match.
fn replaced(text: &[u8], regex: &Regex, template: &[u8], everywhere: bool) -> Option<Vec<u8>> {
    if !regex.is_match(text) {
        return None; // checked without captures, which need memory
    }
    let mut groups = regex.captures(text)?;
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    loop {
        let found = groups.get(0).expect("the first group is what was found").range();
        out.extend_from_slice(&text[copied..found.start]);
        regex::expand(template, &groups, &mut out);
        copied = found.end;
        let next = if found.is_empty() { found.end + 1 } else { found.end };
        if !everywhere || next > text.len() {
            break;
        }
        match regex.captures_at(text, next) {
            Some(further) => groups = further,
            None => break,
        }
    }
    out.extend_from_slice(&text[copied..]);
    Some(out)
}
