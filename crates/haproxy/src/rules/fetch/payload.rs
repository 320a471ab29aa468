//! Fetches of the first bytes of a connection, before any parsing.

use super::{FetchMethod, Peeked, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::{EvalContext, Payload};
use crate::rules::hello::{self, ClientHello, HelloResult};
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    request(&["req.len", "req_len"], Takes::NONE, Type::Int, |_, s| len(s.payload())),
    request(&["req.payload"], RANGE, Type::Binary, |a, s| range(a, s.payload())),
    request(&["req.payload_lv"], SIZED, Type::Binary, |a, s| sized(a, s.payload())),
    FetchMethod::new(
        &["payload"],
        RANGE,
        Type::Binary,
        SamplePhase::Exchange,
        Take::Peek(|a, s| range(a, at_hand(s))),
    ),
    FetchMethod::new(
        &["payload_lv"],
        SIZED,
        Type::Binary,
        SamplePhase::Exchange,
        Take::Peek(|a, s| sized(a, at_hand(s))),
    ),
    request(&["req.proto_http", "req_proto_http"], Takes::NONE, Type::Bool, |_, s| is_http(s)),
    request(&["req.rdp_cookie", "rdp_cookie", "req_rdp_cookie"], NAME, Type::Text, rdp_cookie),
    request(
        &["req.rdp_cookie_cnt", "rdp_cookie_cnt", "req_rdp_cookie_cnt"],
        NAME,
        Type::Int,
        rdp_cookie_count,
    ),
    request(&["req.ssl_sni", "req_ssl_sni"], Takes::NONE, Type::Text, |_, s| {
        of_hello(s, |hello| hello.server_name().map(Sample::text))
    }),
    request(&["req.ssl_alpn"], Takes::NONE, Type::Text, |_, s| {
        of_hello(s, |hello| hello.protocols().map(|names| Sample::Text(names.into())))
    }),
    request(&["req.ssl_ver", "req_ssl_ver"], Takes::NONE, Type::Int, |_, s| {
        of_hello(s, |hello| Some(Sample::Int(decimal_version(hello.version))))
    }),
    request(&["req.ssl_hello_type", "req_ssl_hello_type"], Takes::NONE, Type::Int, |_, s| {
        of_hello(s, |_| Some(Sample::Int(hello::CLIENT_HELLO.into())))
    }),
    request(&["req.ssl_st_ext"], Takes::NONE, Type::Int, |_, s| {
        of_hello(s, |hello| {
            Some(Sample::Int(match hello.extension(hello::SESSION_TICKET) {
                None => 0,
                Some([]) => 1,
                Some(_) => 2,
            }))
        })
    }),
    request(&["req.ssl_ec_ext"], Takes::NONE, Type::Bool, |_, s| {
        of_hello(s, |hello| hello.extension(hello::SUPPORTED_GROUPS).map(|_| Sample::Bool(true)))
    }),
    request(&["wait_end"], Takes::NONE, Type::Bool, wait_end),
    response(&["res.len"], Takes::NONE, Type::Int, |_, s| len(s.response_payload())),
    response(&["res.payload"], RANGE, Type::Binary, |a, s| range(a, s.response_payload())),
    response(&["res.payload_lv"], SIZED, Type::Binary, |a, s| sized(a, s.response_payload())),
];

const NAME: Takes = Takes::from(0, &[ArgKind::Text]);
const RANGE: Takes = Takes::all(&[ArgKind::Int, ArgKind::Int]);
const SIZED: Takes = Takes::from(2, &[ArgKind::Int, ArgKind::Int, ArgKind::Text]);

type Peek = for<'a> fn(&'a Args, &'a dyn EvalContext) -> Peeked<'a>;

const fn request(
    names: &'static [&'static str],
    takes: Takes,
    kind: Type,
    peek: Peek,
) -> FetchMethod {
    FetchMethod::new(names, takes, kind, SamplePhase::Request, Take::Peek(peek))
}

const fn response(
    names: &'static [&'static str],
    takes: Takes,
    kind: Type,
    peek: Peek,
) -> FetchMethod {
    FetchMethod::new(names, takes, kind, SamplePhase::Response, Take::Peek(peek))
}

impl<'a> Peeked<'a> {
    /// A final value.
    fn now(value: Option<Sample<'a>>) -> Self {
        Self { value, may_change: false }
    }

    /// A value that may change when more bytes arrive.
    fn so_far(value: Option<Sample<'a>>, payload: Payload<'_>) -> Self {
        Self { value, may_change: !payload.complete }
    }
}

fn at_hand(subject: &dyn EvalContext) -> Payload<'_> {
    match subject.response_payload().bytes {
        [] => subject.payload(),
        _ => subject.response_payload(),
    }
}

fn len(payload: Payload<'_>) -> Peeked<'_> {
    let len = i64::try_from(payload.bytes.len()).unwrap_or(i64::MAX);
    Peeked::so_far(Some(Sample::Int(len)), payload)
}

fn index(value: Option<i64>) -> Option<usize> {
    usize::try_from(value?).ok()
}

/// `(offset,length)`; length 0 means all.
fn range<'a>(args: &Args, payload: Payload<'a>) -> Peeked<'a> {
    let (Some(offset), Some(len)) = (index(args.int(0)), index(args.int(1))) else {
        return Peeked::now(None);
    };
    cut(payload, offset, len)
}

fn cut(payload: Payload<'_>, offset: usize, len: usize) -> Peeked<'_> {
    let Some(rest) = payload.bytes.get(offset..) else { return Peeked::so_far(None, payload) };
    match (len, rest.get(..len)) {
        (0, _) => Peeked::so_far(Some(Sample::Binary(rest.into())), payload),
        (_, None) => Peeked::so_far(None, payload),
        (_, Some(bytes)) => Peeked::now(Some(Sample::Binary(bytes.into()))),
    }
}

/// `(offset,length[,offset2])`: the number of bytes is a number of `length` bytes at `offset`. The
/// bytes follow it, or begin at `offset2`, which is relative to its end if it has a sign.
fn sized<'a>(args: &Args, payload: Payload<'a>) -> Peeked<'a> {
    let (Some(offset), Some(width @ 1..=8)) = (index(args.int(0)), index(args.int(1))) else {
        return Peeked::now(None);
    };
    let Some(end) = offset.checked_add(width) else { return Peeked::now(None) };
    let Some(digits) = payload.bytes.get(offset..end) else {
        return Peeked::so_far(None, payload);
    };
    let len = digits.iter().fold(0u64, |len, byte| len << 8 | u64::from(*byte));
    let begin = match args.text(2) {
        None => Some(end),
        Some(text) => str::from_utf8(text).ok().and_then(|text| {
            let by = text.parse::<isize>().ok()?;
            let is_relative = text.starts_with(['+', '-']);
            if is_relative { end.checked_add_signed(by) } else { by.try_into().ok() }
        }),
    };
    match (begin, usize::try_from(len)) {
        (Some(_), Ok(0)) | (None, _) | (_, Err(_)) => Peeked::now(None),
        (Some(begin), Ok(len)) => cut(payload, begin, len),
    }
}

/// True for a complete request head; undecided before.
fn is_http<'a>(subject: &'a dyn EvalContext) -> Peeked<'a> {
    if subject.request().is_some() {
        return Peeked::now(Some(Sample::Bool(true)));
    }
    let payload = subject.payload();
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    match httparse::Request::new(&mut fields).parse(payload.bytes) {
        Ok(httparse::Status::Complete(_)) => Peeked::now(Some(Sample::Bool(true))),
        Ok(httparse::Status::Partial) => Peeked::so_far(None, payload),
        Err(_) => Peeked::now(Some(Sample::Bool(false))),
    }
}

fn of_hello<'a>(
    subject: &'a dyn EvalContext,
    take: impl FnOnce(ClientHello<'a>) -> Option<Sample<'a>>,
) -> Peeked<'a> {
    let payload = subject.payload();
    match hello::see(payload.bytes) {
        HelloResult::Hello(hello) => Peeked::now(take(hello)),
        HelloResult::Partial => Peeked::so_far(None, payload),
        HelloResult::SomethingElse => Peeked::now(None),
    }
}

/// TLS 1.0 is 3.1: the major version is multiplied by 65536.
fn decimal_version([major, minor]: [u8; 2]) -> i64 {
    i64::from(major) << 16 | i64::from(minor)
}

fn wait_end<'a>(_: &'a Args, subject: &'a dyn EvalContext) -> Peeked<'a> {
    let payload = subject.payload();
    let value = payload.complete.then_some(Sample::Bool(true));
    Peeked::so_far(value, payload)
}

/// The value of `Cookie: name=` in an RDP connection request (MS-RDPBCGR §2.2.1.1, after the TPKT
/// and X.224 headers).
fn rdp_value<'a>(payload: Payload<'a>, name: Option<&[u8]>) -> (Option<&'a [u8]>, bool) {
    let bytes = payload.bytes;
    let is_tpkt = bytes.iter().zip(b"\x03\x00").all(|(a, b)| a == b);
    if !is_tpkt {
        return (None, false);
    }
    let Some(text) = bytes.get(RDP_HEADERS_LEN..) else { return (None, !payload.complete) };
    if bytes[5] & 0xf0 != 0xe0 {
        return (None, false);
    }
    let Some(end) = text.windows(2).position(|pair| pair == b"\r\n") else {
        return (None, !payload.complete);
    };
    let pair = text[..end].strip_prefix(b"Cookie:").map(<[u8]>::trim_ascii);
    let equals = pair.and_then(|pair| pair.iter().position(|byte| *byte == b'='));
    let (Some(pair), Some(equals)) = (pair, equals) else { return (None, false) };
    let is_named = name.is_none_or(|name| name.eq_ignore_ascii_case(&pair[..equals]));
    (is_named.then(|| &pair[equals + 1..]), false)
}

fn rdp_cookie<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Peeked<'a> {
    let (value, may_change) = rdp_value(subject.payload(), args.text(0));
    Peeked { value: value.map(Sample::text), may_change }
}

fn rdp_cookie_count<'a>(args: &'a Args, subject: &'a dyn EvalContext) -> Peeked<'a> {
    let (value, may_change) = rdp_value(subject.payload(), args.text(0));
    Peeked { value: Some(Sample::Int(value.is_some().into())), may_change }
}

/// The TPKT header has 4 bytes, the X.224 connection request header 7.
const RDP_HEADERS_LEN: usize = 11;

/// Limit of header fields: HAProxy's default (`tune.http.maxhdr`).
const FIELDS_MAX: usize = 101;
