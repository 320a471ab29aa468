//! Fetches of start lines: method, target, version, status.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use fulmar_proto::Version;

use super::{FetchMethod, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Fact};
use crate::rules::hash;
use crate::rules::head::RequestHead;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;
use crate::rules::target::{authority_of, path_and_query_of};

pub(super) const TABLE: &[FetchMethod] = &[
    request(&["method"], Type::Text, SamplePhase::Exchange, method),
    request(&["url"], Type::Text, SamplePhase::Request, url),
    request(&["path"], Type::Text, SamplePhase::Request, path),
    request(&["pathq"], Type::Text, SamplePhase::Request, path_and_query),
    request(&["query"], Type::Text, SamplePhase::Request, query),
    request(&["base"], Type::Text, SamplePhase::Request, base),
    request(&["baseq"], Type::Text, SamplePhase::Request, base_and_query),
    request(&["base32"], Type::Int, SamplePhase::Request, base32),
    request(&["base32+src"], Type::Binary, SamplePhase::Request, base32_and_source),
    request(&["url32"], Type::Int, SamplePhase::Request, url32),
    request(&["url32+src"], Type::Binary, SamplePhase::Request, url32_and_source),
    request(&["url_ip"], Type::Address, SamplePhase::Request, url_ip),
    request(&["url_port"], Type::Int, SamplePhase::Request, url_port),
    request(&["req.ver", "req_ver"], Type::Text, SamplePhase::Request, version),
    request(&["http_first_req"], Type::Bool, SamplePhase::Exchange, first_request),
    request(&["capture.req.method"], Type::Text, SamplePhase::Exchange, method),
    request(&["capture.req.uri"], Type::Text, SamplePhase::Exchange, path_and_query),
    request(&["capture.req.ver"], Type::Text, SamplePhase::Exchange, long_version),
    request(&["capture.res.ver"], Type::Text, SamplePhase::Exchange, long_response_version),
    request(&["status"], Type::Int, SamplePhase::Response, status),
    request(&["res.ver", "resp_ver"], Type::Text, SamplePhase::Response, response_version),
    FetchMethod::new(
        &["capture.req.hdr"],
        Takes::all(&[ArgKind::Int]),
        Type::Text,
        SamplePhase::Exchange,
        Take::Fact(|args| Fact::CapturedRequest(slot(args))),
    ),
    FetchMethod::new(
        &["capture.res.hdr"],
        Takes::all(&[ArgKind::Int]),
        Type::Text,
        SamplePhase::Response,
        Take::Fact(|args| Fact::CapturedResponse(slot(args))),
    ),
];

const fn request(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::NONE, kind, phase, Take::One(take))
}

fn slot(args: &Args) -> usize {
    args.int(0).and_then(|slot| usize::try_from(slot).ok()).unwrap_or(usize::MAX)
}

fn head(subject: &dyn EvalContext) -> Option<&RequestHead> {
    subject.request()
}

fn method<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(&head(subject)?.method))
}

fn url<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(&head(subject)?.target))
}

fn path<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    path_and_query_of(&head(subject)?.target).map(|path| Sample::text(before_query(path)))
}

fn path_and_query<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    path_and_query_of(&head(subject)?.target).map(Sample::text)
}

fn query<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let target = &head(subject)?.target;
    let mark = target.iter().position(|byte| *byte == b'?')?;
    Some(Sample::text(&target[mark + 1..]))
}

fn before_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?').next().unwrap_or(path)
}

fn base<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    base_of(head(subject)?, before_query).map(Sample::Text)
}

fn base_and_query<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    base_of(head(subject)?, |path| path).map(Sample::Text)
}

/// `Host` and the path; only the path without a host.
fn base_of(head: &RequestHead, part: fn(&[u8]) -> &[u8]) -> Option<Cow<'_, [u8]>> {
    let path = path_and_query_of(&head.target).map(part);
    match head.fields.as_headers().get("host") {
        None | Some([]) => path.map(Cow::Borrowed),
        Some(host) => Some(Cow::Owned([host, path.unwrap_or_default()].concat())),
    }
}

fn base32_of(head: &RequestHead) -> Option<u32> {
    base_of(head, before_query).map(|base| hash::avalanche(hash::sdbm(&base)))
}

fn base32<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    base32_of(head(subject)?).map(|hash| Sample::Int(hash.into()))
}

fn base32_and_source<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    with_source(base32_of(head(subject)?)?, subject)
}

fn url32_of(head: &RequestHead) -> u32 {
    let host = head.fields.as_headers().get("host").unwrap_or_default();
    let path = path_and_query_of(&head.target).unwrap_or_default();
    hash::avalanche(hash::sdbm(&[host, path].concat()))
}

fn url32<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::Int(url32_of(head(subject)?).into()))
}

fn url32_and_source<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    with_source(url32_of(head(subject)?), subject)
}

fn with_source<'a>(hash: u32, subject: &dyn EvalContext) -> Option<Sample<'a>> {
    let mut bytes = hash.to_be_bytes().to_vec();
    match subject.source()?.ip() {
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
    Some(Sample::Binary(bytes.into()))
}

/// Address and port of an absolute target with an IPv4 host.
fn url_address(subject: &dyn EvalContext) -> Option<(Ipv4Addr, u16)> {
    let target = &head(subject)?.target;
    let authority = str::from_utf8(&target[authority_of(target)?]).ok()?;
    match authority.split_once(':') {
        Some((host, port)) => Some((host.parse().ok()?, port.parse().ok()?)),
        None => Some((authority.parse().ok()?, 80)),
    }
}

fn url_ip<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    url_address(subject).map(|(address, _)| Sample::Address(address.into()))
}

fn url_port<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    url_address(subject).map(|(_, port)| Sample::Int(port.into()))
}

fn version<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(short(head(subject)?.version)))
}

fn long_version<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(long(head(subject)?.version)))
}

fn response_version<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(short(subject.response()?.version)))
}

fn long_response_version<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::text(long(subject.response()?.version)))
}

fn short(version: Version) -> &'static [u8] {
    match version {
        Version::Http09 => b"0.9",
        Version::Http10 => b"1.0",
        Version::Http11 => b"1.1",
        Version::Http2 => b"2.0",
    }
}

fn long(version: Version) -> &'static [u8] {
    match version {
        Version::Http09 => b"HTTP/0.9",
        Version::Http10 => b"HTTP/1.0",
        Version::Http11 => b"HTTP/1.1",
        Version::Http2 => b"HTTP/2.0",
    }
}

fn status<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    Some(Sample::Int(subject.response()?.status.into()))
}

fn first_request<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Option<Sample<'a>> {
    subject.fact(&Fact::FirstRequest)
}
