//! Actions on the request target.

use super::normalize::{Normalizer, normalized};
use super::target_part::TargetPart;
use super::verdict::InvalidChange;
use crate::rules::eval_context_mut::EvalContextMut;
use crate::rules::format::FormatString;
use crate::rules::regex::Regex;
use crate::rules::target::{authority_of, path_of};

/// Sets a part.
pub(super) fn set(
    part: TargetPart,
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let mut new = Vec::new();
    value.render(exchange, &mut new);
    put(part, &new, exchange)
}

/// Replaces a part that matches.
pub(super) fn replace(
    part: TargetPart,
    pattern: &Regex,
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let target = &exchange.request().ok_or(InvalidChange)?.target;
    let path = path_of(target);
    let old = match part {
        TargetPart::Path => &target[path],
        TargetPart::PathAndQuery => &target[path.start..],
        TargetPart::Query => target.get(path.end + 1..).unwrap_or_default(),
        TargetPart::Whole => target,
    };
    let Some(groups) = pattern.captures(old) else { return Ok(()) };
    let mut new = Vec::new();
    value.render_replacing(exchange, &groups, &mut new);
    put(part, &new, exchange)
}

/// Normalizes a target.
pub(super) fn normalize(
    normalizer: Normalizer,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let target = &exchange.request().ok_or(InvalidChange)?.target;
    let path = path_of(target);
    let (part, old) = normalizer.reads(&target[path.clone()], &target[path.end..]);
    let new = normalized(normalizer, old);
    put(part, &new, exchange)
}

/// Sets the method.
pub(super) fn set_method(
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let mut new = Vec::new();
    value.render(exchange, &mut new);
    // CONNECT cannot be changed to another method, nor another method to CONNECT: one starts a
    // tunnel, the other is a message.
    let is_connect = |method: &[u8]| method == b"CONNECT";
    let request = exchange.request_mut().ok_or(InvalidChange)?;
    let same_kind = is_connect(&new) == is_connect(&request.method);
    if !fulmar_proto::is_token(&new) || !same_kind {
        return Err(InvalidChange);
    }
    request.method = new;
    Ok(())
}

fn put(
    part: TargetPart,
    new: &[u8],
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let request = exchange.request_mut().ok_or(InvalidChange)?;
    let target = with_part(&request.target, part, new);
    if !fulmar_proto::is_request_target(&request.method, &target)
        || target.len() > fulmar_proto::h1::TARGET_SIZE_MAX
    {
        return Err(InvalidChange);
    }
    let host = authority_of(&target).map(|place| target[place].to_vec());
    request.target = target;
    // Keeps the host of an absolute target equal to the Host field: servers may use either (RFC
    // 9112 §3.2.2).
    if part == TargetPart::Whole
        && let Some(host) = host
    {
        request.fields.rewrite("host", |_| Some(host.clone())).map_err(|_| InvalidChange)?;
    }
    Ok(())
}

/// After a change of the Host field, updates the host of an absolute target.
pub(super) fn follow_host(
    name: &str,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    if !name.eq_ignore_ascii_case("host") || exchange.response().is_some() {
        return Ok(());
    }
    let request = exchange.request_mut().ok_or(InvalidChange)?;
    let Some(place) = authority_of(&request.target) else { return Ok(()) };
    let host = request.fields.as_headers().get("host").unwrap_or_default();
    let (before, behind) = (&request.target[..place.start], &request.target[place.end..]);
    let target = [before, host, behind].concat();
    if !fulmar_proto::is_request_target(&request.method, &target) {
        return Err(InvalidChange);
    }
    request.target = target;
    Ok(())
}

fn with_part(target: &[u8], part: TargetPart, new: &[u8]) -> Vec<u8> {
    let path = path_of(target);
    let (before, query) = (&target[..path.start], &target[path.end..]);
    match part {
        TargetPart::Path => [before, new, query].concat(),
        TargetPart::PathAndQuery => [before, new].concat(),
        TargetPart::Query if new.is_empty() && query.is_empty() => target.to_vec(),
        TargetPart::Query => [&target[..path.end], b"?", new].concat(),
        TargetPart::Whole => new.to_vec(),
    }
}
