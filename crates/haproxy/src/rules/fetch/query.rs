//! Fetches of query and form parameters, without decoding.

use std::ops::ControlFlow;

use super::{Each, FetchMethod, SingleValue, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::number::leading_int;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    parameter(&["urlp", "url_param"], Type::Text, texts),
    parameter(&["urlp_val"], Type::Int, numbers),
    FetchMethod::new(
        &["req.body_param"],
        Takes::from(0, &[ArgKind::Text]),
        Type::Binary,
        SamplePhase::Request,
        Take::Each(of_body, SingleValue::First),
    ),
];

const fn parameter(names: &'static [&'static str], kind: Type, each: Each) -> FetchMethod {
    let takes = Takes::from(0, &[ArgKind::Text, ArgKind::Text]);
    FetchMethod::new(names, takes, kind, SamplePhase::Request, Take::Each(each, SingleValue::First))
}

fn texts<'a>(
    args: &'a Args,
    subject: &'a dyn EvalContext,
    show: &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    of_target(args, subject, &mut |value| show(Some(Sample::text(value))))
}

fn numbers<'a>(
    args: &'a Args,
    subject: &'a dyn EvalContext,
    show: &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    of_target(args, subject, &mut |value| show(Some(Sample::Int(leading_int(value)))))
}

fn of_target<'a>(
    args: &'a Args,
    subject: &'a dyn EvalContext,
    show: &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(head) = subject.request() else { return ControlFlow::Continue(()) };
    let delimiter = args.text(1).and_then(|text| text.first().copied());
    let begin = delimiter.unwrap_or(b'?');
    match head.target.iter().position(|byte| *byte == begin) {
        Some(at) => parameters(&head.target[at + 1..], args.text(0), delimiter, show),
        None => ControlFlow::Continue(()),
    }
}

fn of_body<'a>(
    args: &'a Args,
    subject: &'a dyn EvalContext,
    show: &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let show = &mut |value: &'a [u8]| show(Some(Sample::Binary(value.into())));
    parameters(subject.body().bytes, args.text(0), None, show)
}

/// The values of all parameters with this name, or of all.
fn parameters<'a>(
    text: &'a [u8],
    name: Option<&[u8]>,
    delimiter: Option<u8>,
    show: &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let ends = |byte: &u8| matches!(byte, b'&' | b';') || Some(*byte) == delimiter;
    for parameter in text.split(ends) {
        let Some(equals) = parameter.iter().position(|byte| *byte == b'=') else { continue };
        if name.is_none_or(|name| name == &parameter[..equals]) {
            show(&parameter[equals + 1..])?;
        }
    }
    ControlFlow::Continue(())
}
