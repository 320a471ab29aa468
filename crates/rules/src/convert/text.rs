//! Texts: their case, their parts, and what is put together of them.

use std::borrow::Cow;

use super::{Converter, Run};
use crate::args::{Args, Kind, Takes};
use crate::sample::{Sample, Type};
use crate::subject::Subject;

pub(super) const TABLE: &[Converter] = &[
    plain(&["lower"], |v, _, _| {
        mapped(v, |byte| byte.is_ascii_uppercase(), <[u8]>::make_ascii_lowercase)
    }),
    plain(&["upper"], |v, _, _| {
        mapped(v, |byte| byte.is_ascii_lowercase(), <[u8]>::make_ascii_uppercase)
    }),
    Converter::new(&["length"], Takes::NONE, Type::Text, Type::Int, |v, _, _| {
        Some(Sample::Int(i64::try_from(v.into_text()?.len()).ok()?))
    }),
    Converter::new(
        &["concat"],
        Takes::from(0, &[Kind::Text, Kind::Variable, Kind::Text]),
        Type::Text,
        Type::Text,
        concat,
    ),
];

const fn plain(names: &'static [&'static str], run: Run) -> Converter {
    Converter::new(names, Takes::NONE, Type::Text, Type::Text, run)
}

/// Changes bytes, if there are any to be changed.
fn mapped(value: Sample<'_>, needs: fn(&u8) -> bool, change: fn(&mut [u8])) -> Option<Sample<'_>> {
    let text = value.into_text()?;
    if !text.iter().any(needs) {
        return Some(Sample::Text(text));
    }
    let mut text = text.into_owned();
    change(&mut text);
    Some(Sample::Text(text.into()))
}

fn concat<'a>(value: Sample<'a>, args: &'a Args, subject: &'a dyn Subject) -> Option<Sample<'a>> {
    let mut text = value.into_text()?.into_owned();
    text.extend_from_slice(args.text(0).unwrap_or_default());
    let variable = args.variable(1).and_then(|variable| subject.variable(variable)?.into_text());
    text.extend_from_slice(&variable.unwrap_or_default());
    text.extend_from_slice(args.text(2).unwrap_or_default());
    Some(Sample::Text(Cow::Owned(text)))
}
