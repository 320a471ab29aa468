//! Fetches of header fields: comma-separated values (`hdr`), or whole lines (`fhdr`).

use std::net::{IpAddr, SocketAddrV4};
use std::ops::ControlFlow;

use fulmar_proto::Headers;

use super::{Each, FetchMethod, SingleValue, Take};
use crate::rules::args::{ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::number::leading_int;
use crate::rules::parts::parts;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    values_of(&["req.hdr"], Type::Text, SamplePhase::Request, |a, s, show| {
        MessageFields::of_request(s).each(a, list_items, as_text, show)
    }),
    values_of(&["hdr"], Type::Text, SamplePhase::Exchange, |a, s, show| {
        MessageFields::at_hand(s).each(a, list_items, as_text, show)
    }),
    values_of(&["req.fhdr"], Type::Text, SamplePhase::Request, |a, s, show| {
        MessageFields::of_request(s).each(a, whole, as_text, show)
    }),
    values_of(&["req.hdr_val", "hdr_val"], Type::Int, SamplePhase::Request, |a, s, show| {
        MessageFields::of_request(s).each(a, list_items, as_int, show)
    }),
    values_of(&["req.hdr_ip", "hdr_ip"], Type::Address, SamplePhase::Request, |a, s, show| {
        MessageFields::of_request(s).each(a, list_items, as_address, show)
    }),
    single(&["req.hdr_cnt", "hdr_cnt"], Type::Int, SamplePhase::Request, |a, s| {
        MessageFields::of_request(s).count(a, list_items)
    }),
    single(&["req.fhdr_cnt"], Type::Int, SamplePhase::Request, |a, s| {
        MessageFields::of_request(s).count(a, whole)
    }),
    single(&["req.hdr_names"], Type::Text, SamplePhase::Request, |a, s| {
        s.request().map(|_| MessageFields::of_request(s).names(a))
    }),
    single(&["req.hdrs"], Type::Binary, SamplePhase::Request, |_, s| {
        s.request().map(|_| MessageFields::of_request(s).lines())
    }),
    values_of(&["res.hdr", "shdr"], Type::Text, SamplePhase::Response, |a, s, show| {
        MessageFields::of_response(s).each(a, list_items, as_text, show)
    }),
    values_of(&["res.fhdr"], Type::Text, SamplePhase::Response, |a, s, show| {
        MessageFields::of_response(s).each(a, whole, as_text, show)
    }),
    values_of(&["res.hdr_val", "shdr_val"], Type::Int, SamplePhase::Response, |a, s, show| {
        MessageFields::of_response(s).each(a, list_items, as_int, show)
    }),
    values_of(&["res.hdr_ip", "shdr_ip"], Type::Address, SamplePhase::Response, |a, s, show| {
        MessageFields::of_response(s).each(a, list_items, as_address, show)
    }),
    single(&["res.hdr_cnt", "shdr_cnt"], Type::Int, SamplePhase::Response, |a, s| {
        MessageFields::of_response(s).count(a, list_items)
    }),
    single(&["res.fhdr_cnt"], Type::Int, SamplePhase::Response, |a, s| {
        MessageFields::of_response(s).count(a, whole)
    }),
    single(&["res.hdr_names"], Type::Text, SamplePhase::Response, |a, s| {
        s.response().map(|_| MessageFields::of_response(s).names(a))
    }),
    single(&["res.hdrs"], Type::Binary, SamplePhase::Response, |_, s| {
        s.response().map(|_| MessageFields::of_response(s).lines())
    }),
];

const fn values_of(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    each: Each,
) -> FetchMethod {
    let takes = Takes::from(0, &[ArgKind::Text, ArgKind::Int]);
    FetchMethod::new(names, takes, kind, phase, Take::Each(each, SingleValue::Last))
}

const fn single(
    names: &'static [&'static str],
    kind: Type,
    phase: SamplePhase,
    take: for<'a> fn(&'a Args, &'a dyn EvalContext) -> Option<Sample<'a>>,
) -> FetchMethod {
    FetchMethod::new(names, Takes::from(0, &[ArgKind::Text]), kind, phase, Take::One(take))
}

/// The fields of a message: end-to-end fields, and hop-by-hop fields of its connection.
struct MessageFields<'a> {
    end_to_end: Headers<'a>,
    hop: Headers<'a>,
}

/// Iterates over the values in a field line.
type SplitFn = for<'a> fn(&'a [u8], &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>) -> ControlFlow<()>;

impl<'a> MessageFields<'a> {
    fn of_request(subject: &'a dyn EvalContext) -> Self {
        Self {
            end_to_end: subject.request().map_or(Headers::EMPTY, |it| it.fields.as_headers()),
            hop: subject.request_hop_fields(),
        }
    }

    fn of_response(subject: &'a dyn EvalContext) -> Self {
        Self {
            end_to_end: subject.response().map_or(Headers::EMPTY, |it| it.fields.as_headers()),
            hop: subject.response_hop_fields(),
        }
    }

    /// Those of the response if there is one, otherwise those of the request.
    fn at_hand(subject: &'a dyn EvalContext) -> Self {
        match subject.response() {
            Some(_) => Self::of_response(subject),
            None => Self::of_request(subject),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.end_to_end.iter().chain(self.hop.iter())
    }

    /// All values of the fields with this name, or of all fields.
    fn values(
        &self,
        name: Option<&[u8]>,
        split: SplitFn,
        show: &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (field, line) in self.iter() {
            if name.is_none_or(|name| name.eq_ignore_ascii_case(field)) {
                split(line, show)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn total(&self, name: Option<&[u8]>, split: SplitFn) -> i64 {
        let mut count = 0;
        let _ = self.values(name, split, &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        count
    }

    fn count(&self, args: &Args, split: SplitFn) -> Option<Sample<'a>> {
        Some(Sample::Int(self.total(args.text(0), split)))
    }

    /// Passes the selected values to `show`: all, or the one at an index, from the first (1) or the
    /// last (-1).
    fn each(
        &self,
        args: &Args,
        split: SplitFn,
        read: fn(&'a [u8]) -> Option<Sample<'a>>,
        show: &mut dyn FnMut(Option<Sample<'a>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let name = args.text(0);
        let wanted = match args.int(1) {
            None | Some(0) => None,
            Some(place @ 1..) => Some(place),
            Some(place) => Some(self.total(name, split).saturating_add(place).saturating_add(1)),
        };
        let mut at = 0;
        self.values(name, split, &mut |value| {
            at += 1;
            if wanted.is_none_or(|wanted| wanted == at) {
                return show(read(value));
            }
            ControlFlow::Continue(())
        })
    }

    /// All names in lower case, separated by the first byte of the argument.
    fn names(&self, args: &Args) -> Sample<'a> {
        let delimiter = args.text(0).and_then(|text| text.first().copied()).unwrap_or(b',');
        let mut text = Vec::new();
        for (name, _) in self.iter() {
            if !text.is_empty() {
                text.push(delimiter);
            }
            text.extend(name.iter().map(u8::to_ascii_lowercase));
        }
        Sample::Text(text.into())
    }

    /// All lines, including the empty one at the end.
    fn lines(&self) -> Sample<'a> {
        let mut text = Vec::new();
        for (name, value) in self.iter() {
            text.extend(name.iter().map(u8::to_ascii_lowercase));
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        Sample::Binary(text.into())
    }
}

fn list_items<'a>(
    line: &'a [u8],
    show: &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    parts(line, b",").try_for_each(show)
}

fn whole<'a>(line: &'a [u8], show: &mut dyn FnMut(&'a [u8]) -> ControlFlow<()>) -> ControlFlow<()> {
    show(line)
}

fn as_text(value: &[u8]) -> Option<Sample<'_>> {
    Some(Sample::text(value))
}

fn as_int(value: &[u8]) -> Option<Sample<'_>> {
    Some(Sample::Int(leading_int(value)))
}

/// An address; after IPv4, a port may follow.
fn as_address(value: &[u8]) -> Option<Sample<'_>> {
    let text = str::from_utf8(value).ok()?;
    let with_port = || text.parse::<SocketAddrV4>().ok().map(|address| (*address.ip()).into());
    text.parse::<IpAddr>().ok().or_else(with_port).map(Sample::Address)
}
