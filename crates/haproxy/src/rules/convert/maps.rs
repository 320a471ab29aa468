//! Map converters: one for each match method and type of value.

use super::{ConvertFn, Converter};
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::pattern::MatchMethod;
use crate::rules::sample::{Sample, Type};

/// A row: names, match method, and type of values.
macro_rules! map {
    ($names:expr, $method:expr, $to:expr, $default:expr, $run:expr) => {
        row($names, Takes::from(1, &[ArgKind::Map($method, $to), $default]), $method, $to, $run)
    };
}

macro_rules! texts {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Text, ArgKind::Text, find)
    };
}

macro_rules! numbers {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Int, ArgKind::Int, find)
    };
}

macro_rules! addresses {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Address, ArgKind::Text, find_address)
    };
}

pub(super) const TABLE: &[Converter] = &[
    texts!(&["map_str", "map"], MatchMethod::Str),
    numbers!(&["map_str_int"], MatchMethod::Str),
    addresses!(&["map_str_ip"], MatchMethod::Str),
    texts!(&["map_beg"], MatchMethod::Beg),
    numbers!(&["map_beg_int"], MatchMethod::Beg),
    addresses!(&["map_beg_ip"], MatchMethod::Beg),
    texts!(&["map_sub"], MatchMethod::Sub),
    numbers!(&["map_sub_int"], MatchMethod::Sub),
    addresses!(&["map_sub_ip"], MatchMethod::Sub),
    texts!(&["map_dir"], MatchMethod::Dir),
    numbers!(&["map_dir_int"], MatchMethod::Dir),
    addresses!(&["map_dir_ip"], MatchMethod::Dir),
    texts!(&["map_dom"], MatchMethod::Dom),
    numbers!(&["map_dom_int"], MatchMethod::Dom),
    addresses!(&["map_dom_ip"], MatchMethod::Dom),
    texts!(&["map_end"], MatchMethod::End),
    numbers!(&["map_end_int"], MatchMethod::End),
    addresses!(&["map_end_ip"], MatchMethod::End),
    texts!(&["map_reg"], MatchMethod::Reg),
    numbers!(&["map_reg_int"], MatchMethod::Reg),
    addresses!(&["map_reg_ip"], MatchMethod::Reg),
    map!(&["map_regm"], MatchMethod::Reg, Type::Text, ArgKind::Text, find_expanded),
    texts!(&["map_int"], MatchMethod::Int),
    numbers!(&["map_int_int"], MatchMethod::Int),
    addresses!(&["map_int_ip"], MatchMethod::Int),
    texts!(&["map_ip"], MatchMethod::Ip),
    numbers!(&["map_ip_int"], MatchMethod::Ip),
    addresses!(&["map_ip_ip"], MatchMethod::Ip),
];

const fn row(
    names: &'static [&'static str],
    takes: Takes,
    method: MatchMethod,
    output: Type,
    run: ConvertFn,
) -> Converter {
    Converter::new(names, takes, method.compares(), output, run)
}

fn find<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let Arg::Map(map) = args.get(0) else { return None };
    map.find(value).or_else(|| otherwise(args))
}

fn find_address<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    find(value, args, subject)?.cast(Type::Address)
}

fn find_expanded<'a>(
    value: Sample<'a>,
    args: &'a Args,
    _: &'a dyn EvalContext,
) -> Option<Sample<'a>> {
    let Arg::Map(map) = args.get(0) else { return None };
    match map.find_expanded(value) {
        Some(text) => Some(Sample::Text(text.into())),
        None => otherwise(args),
    }
}

/// The default for missing keys.
fn otherwise(args: &Args) -> Option<Sample<'_>> {
    match args.get(1) {
        Arg::Int(value) => Some(Sample::Int(*value)),
        Arg::Text(text) => Some(Sample::text(text)),
        _ => None,
    }
}
