//! Fetches of the buffered request body (`option http-buffer-request`).

use super::{FetchMethod, Take};
use crate::rules::args::{Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::number::leading_int;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    of_body(&["req.body"], Type::Binary, bytes),
    of_body(&["req.body_len"], Type::Int, len),
    of_body(&["req.body_size"], Type::Int, size),
];

const fn of_body(
    names: &'static [&'static str],
    kind: Type,
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, SamplePhase::Request, Take::One(take))
}

fn bytes<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    subject.request()?;
    Some(Sample::Binary(subject.body().bytes.into()))
}

fn len<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    subject.request()?;
    Some(Sample::Int(i64::try_from(subject.body().bytes.len()).unwrap_or(i64::MAX)))
}

/// The announced length; the received length if none is announced.
fn size<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    match subject.request_hop_fields().get("content-length") {
        Some(announced) => Some(Sample::Int(leading_int(announced))),
        None => len(args, subject),
    }
}
