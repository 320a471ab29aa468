//! Fetches of credentials (`Authorization`, RFC 7617 and RFC 6750).

use std::borrow::Cow;
use std::ops::ControlFlow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{FetchMethod, SingleValue, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::head::RequestHead;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    FetchMethod::new(
        &["http_auth"],
        Takes::all(&[ArgKind::Text]),
        Type::Bool,
        SamplePhase::Request,
        Take::Fact(|args| Fact::Authenticated(args.name(0).unwrap_or_default())),
    ),
    FetchMethod::new(
        &["http_auth_group"],
        Takes::all(&[ArgKind::Text]),
        Type::Text,
        SamplePhase::Request,
        Take::Each(groups, SingleValue::First),
    )
    .about(|args| Fact::AuthenticatedGroups(args.name(0).unwrap_or_default())),
    FetchMethod::new(
        &["http_auth_bearer"],
        Takes::from(0, &[ArgKind::Text]),
        Type::Text,
        SamplePhase::Request,
        Take::One(bearer),
    ),
    FetchMethod::new(
        &["http_auth_type"],
        Takes::NONE,
        Type::Text,
        SamplePhase::Request,
        Take::One(scheme),
    ),
    FetchMethod::new(
        &["http_auth_user"],
        Takes::NONE,
        Type::Text,
        SamplePhase::Request,
        Take::One(user),
    ),
    FetchMethod::new(
        &["http_auth_pass"],
        Takes::NONE,
        Type::Text,
        SamplePhase::Request,
        Take::One(password),
    ),
];

/// User and password of basic authentication.
pub(crate) fn basic(head: &RequestHead) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, credentials) = authorization(head, "authorization")?;
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let decoded = STANDARD.decode(credentials).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some((decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

fn authorization<'a>(head: &'a RequestHead, field: &str) -> Option<(&'a [u8], &'a [u8])> {
    let value = head.fields.as_headers().get(field)?;
    let space = value.iter().position(|byte| *byte == b' ')?;
    Some((&value[..space], value[space..].trim_ascii()))
}

fn scheme<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let (scheme, _) = authorization(subject.request()?, "authorization")?;
    Some(Sample::text(scheme))
}

fn user<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    basic(subject.request()?).map(|(user, _)| Sample::Text(Cow::Owned(user)))
}

fn password<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    basic(subject.request()?).map(|(_, password)| Sample::Text(Cow::Owned(password)))
}

fn bearer<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let field = args.text(0).map_or(Ok("authorization"), str::from_utf8).ok()?;
    let (scheme, token) = authorization(subject.request()?, field)?;
    scheme.eq_ignore_ascii_case(b"bearer").then(|| Sample::text(token))
}

/// The groups of the authenticated user.
fn groups<'a>(
    args: &'a Args,
    subject: &'a dyn EvalContext,
    show: &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let list = args.name(0).unwrap_or_default();
    match subject.fact(&Fact::AuthenticatedGroups(list)) {
        Some(Sample::Text(Cow::Borrowed(groups))) => {
            groups.split(|byte| *byte == b',').try_for_each(|group| show(Some(Sample::text(group))))
        }
        Some(Sample::Text(Cow::Owned(groups))) => groups
            .split(|byte| *byte == b',')
            .try_for_each(|group| show(Some(Sample::Text(group.to_vec().into())))),
        _ => ControlFlow::Continue(()),
    }
}
