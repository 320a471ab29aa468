//! Actions on header fields.

use fulmar_proto::HeaderBuf;
use regex::bytes::Captures;

use super::target_actions;
use super::verdict::InvalidChange;
use crate::rules::eval_context_mut::EvalContextMut;
use crate::rules::format::FormatString;
use crate::rules::regex::Regex;

/// Selection of field names (`del-header -m`).
#[derive(Clone, Debug)]
pub enum NameMatch {
    /// This name.
    Exact(String),
    /// Names with this prefix.
    Begins(String),
    /// Names with this suffix.
    Ends(String),
    /// Names that contain this.
    Contains(String),
    /// Names that match in lower case.
    Pattern(Regex),
}

impl NameMatch {
    fn is_meant(&self, name: &[u8]) -> bool {
        let same = |part: Option<&[u8]>, text: &String| {
            part.is_some_and(|part| part.eq_ignore_ascii_case(text.as_bytes()))
        };
        match self {
            Self::Exact(text) => same(Some(name), text),
            Self::Begins(text) => same(name.get(..text.len()), text),
            Self::Ends(text) => {
                let start = name.len().checked_sub(text.len());
                same(start.map(|start| &name[start..]), text)
            }
            Self::Contains(text) => {
                name.windows(text.len().max(1)).any(|part| same(Some(part), text))
            }
            Self::Pattern(pattern) => pattern.is_match(&name.to_ascii_lowercase()),
        }
    }
}

/// The fields that rules change: the response's once there is one.
fn fields(exchange: &mut dyn EvalContextMut) -> Result<&mut HeaderBuf, InvalidChange> {
    if exchange.response().is_some() {
        return exchange.response_mut().map(|head| &mut head.fields).ok_or(InvalidChange);
    }
    exchange.request_mut().map(|head| &mut head.fields).ok_or(InvalidChange)
}

/// The value of a field from a format, without surrounding blanks.
pub(super) fn value_of(format: &FormatString, exchange: &dyn EvalContextMut) -> Vec<u8> {
    let mut value = Vec::new();
    format.render(exchange, &mut value);
    trim(&mut value);
    value
}

fn trim(value: &mut Vec<u8>) {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
    value.truncate(end);
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(0);
    value.drain(..start);
}

pub(super) fn add(
    name: &str,
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let value = value_of(value, exchange);
    fields(exchange)?.push(name, &value).map_err(|_| InvalidChange)?;
    target_actions::follow_host(name, exchange)
}

pub(super) fn set(
    name: &str,
    value: &FormatString,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let value = value_of(value, exchange);
    fields(exchange)?.replace(name, &value).map_err(|_| InvalidChange)?;
    target_actions::follow_host(name, exchange)
}

pub(super) fn remove(
    names: &NameMatch,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let fields = fields(exchange)?;
    match names {
        NameMatch::Exact(name) => fields.remove(name),
        others => fields.retain(|name, _| !others.is_meant(name)),
    }
    Ok(())
}

/// Replaces each matching value.
pub(super) fn replace(
    name: &str,
    pattern: &Regex,
    value: &FormatString,
    each: bool,
    exchange: &mut dyn EvalContextMut,
) -> Result<(), InvalidChange> {
    let head = exchange.response().map(|head| &head.fields);
    let Some(old) = head.or_else(|| exchange.request().map(|head| &head.fields)) else {
        return Err(InvalidChange);
    };
    let new_value = |old: &[u8]| {
        let write = |groups: &Captures<'_>, out: &mut Vec<u8>| {
            value.render_replacing(exchange, groups, out);
        };
        match each {
            false => {
                let groups = pattern.captures(old)?;
                let mut new = Vec::new();
                write(&groups, &mut new);
                trim(&mut new);
                Some(new)
            }
            true => replace_each(pattern, old, write),
        }
    };
    let new: Vec<_> = old.as_headers().get_all(name).map(new_value).collect();
    if new.iter().all(Option::is_none) {
        return Ok(());
    }
    let mut new = new.into_iter();
    fields(exchange)?.rewrite(name, |_| new.next().flatten()).map_err(|_| InvalidChange)?;
    target_actions::follow_host(name, exchange)
}

/// Replaces each matching member of a list; `None` without a match. Quoted commas do not separate
/// (RFC 9110 §5.6.1).
fn replace_each(
    pattern: &Regex,
    list: &[u8],
    write: impl Fn(&Captures<'_>, &mut Vec<u8>),
) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(list.len());
    let mut changed = false;
    for member in members(list) {
        let text = member.trim_ascii();
        match pattern.captures(text) {
            None => out.extend_from_slice(member),
            Some(groups) => {
                write(&groups, &mut out);
                out.extend_from_slice(&member[member.trim_ascii_end().len()..]);
                changed = true;
            }
        }
        out.push(b',');
    }
    out.pop();
    trim(&mut out);
    changed.then_some(out)
}

fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    list.split(move |byte| {
        let was_escaped = escaped;
        escaped = quoted && !was_escaped && *byte == b'\\';
        quoted ^= *byte == b'"' && !was_escaped;
        *byte == b',' && !quoted
    })
}
