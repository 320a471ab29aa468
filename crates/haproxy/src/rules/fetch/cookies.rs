//! Fetches of cookies: `name=value` pairs of `Cookie`, and the first pairs of `Set-Cookie` (RFC
//! 6265 §4).

use std::ops::ControlFlow;

use super::{Each, FetchMethod, SingleValue, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::number::leading_int;
use crate::rules::parts::parts;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    cookies(&["req.cook", "cook"], Type::Text, SamplePhase::Request, |a, s, show| {
        of_request(a, s, &mut |value| show(Some(Sample::text(value))))
    }),
    cookies(&["req.cook_val", "cook_val"], Type::Int, SamplePhase::Request, |a, s, show| {
        of_request(a, s, &mut |value| show(Some(Sample::Int(leading_int(value)))))
    }),
    cookies(&["cookie"], Type::Text, SamplePhase::Exchange, |a, s, show| match s.response() {
        Some(_) => of_response(a, s, &mut |value| show(Some(Sample::text(value)))),
        None => of_request(a, s, &mut |value| show(Some(Sample::text(value)))),
    }),
    count(&["req.cook_cnt", "cook_cnt"], SamplePhase::Request, |a, s| {
        counted(|show| of_request(a, s, show))
    }),
    cookies(
        &["res.cook", "scook", "set-cookie"],
        Type::Text,
        SamplePhase::Response,
        |a, s, show| of_response(a, s, &mut |value| show(Some(Sample::text(value)))),
    ),
    cookies(&["res.cook_val", "scook_val"], Type::Int, SamplePhase::Response, |a, s, show| {
        of_response(a, s, &mut |value| show(Some(Sample::Int(leading_int(value)))))
    }),
    count(&["res.cook_cnt", "scook_cnt"], SamplePhase::Response, |a, s| {
        counted(|show| of_response(a, s, show))
    }),
];

const fn cookies(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    each: Each,
) -> FetchMethod {
    let takes = Takes::from(0, &[ArgKind::Text]);
    FetchMethod::new(names, takes, kind, phase, Take::Each(each, SingleValue::LastNamed))
}

const fn count(
    names: &'static [&'static str],
    phase: SamplePhase,
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::from(0, &[ArgKind::Text]), Type::Int, phase, Take::One(take))
}

type ShowFn<'s, 'a> = &'s mut dyn FnMut(&'a [u8]) -> ControlFlow<()>;

fn of_request<'a>(
    args: &Args,
    subject: &'a dyn EvalContext,
    show: ShowFn<'_, 'a>,
) -> ControlFlow<()> {
    let Some(head) = subject.request() else { return ControlFlow::Continue(()) };
    for line in head.fields.as_headers().get_all("cookie") {
        for pair in parts(line, b";,") {
            show_if_named(pair, args.text(0), show)?;
        }
    }
    ControlFlow::Continue(())
}

fn of_response<'a>(
    args: &Args,
    subject: &'a dyn EvalContext,
    show: ShowFn<'_, 'a>,
) -> ControlFlow<()> {
    let Some(head) = subject.response() else { return ControlFlow::Continue(()) };
    for line in head.fields.as_headers().get_all("set-cookie") {
        let pair = parts(line, b";").next().unwrap_or(line);
        show_if_named(pair, args.text(0), show)?;
    }
    ControlFlow::Continue(())
}

fn show_if_named<'a>(pair: &'a [u8], name: Option<&[u8]>, show: ShowFn<'_, 'a>) -> ControlFlow<()> {
    let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
        return ControlFlow::Continue(());
    };
    match name.is_none_or(|name| name == pair[..equals].trim_ascii()) {
        true => show(pair[equals + 1..].trim_ascii()),
        false => ControlFlow::Continue(()),
    }
}

fn counted<'a>(
    each: impl FnOnce(&mut dyn FnMut(&'a [u8]) -> ControlFlow<()>) -> ControlFlow<()>,
) -> Option<Sample<'a>> {
    let mut count = 0;
    let _ = each(&mut |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    Some(Sample::Int(count))
}
