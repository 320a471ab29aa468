//! Map converters: one for each match method and type of value.

use super::{Converter, Run};
use crate::rules::args::{Arg, Args, Kind, Takes};
use crate::rules::pattern::Method;
use crate::rules::sample::{Sample, Type};
use crate::rules::subject::Subject;

/// A row: names, match method, and type of values.
macro_rules! map {
    ($names:expr, $method:expr, $to:expr, $default:expr, $run:expr) => {
        row($names, Takes::from(1, &[Kind::Map($method, $to), $default]), $method, $to, $run)
    };
}

macro_rules! texts {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Text, Kind::Text, find)
    };
}

macro_rules! numbers {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Int, Kind::Int, find)
    };
}

macro_rules! addresses {
    ($names:expr, $method:expr) => {
        map!($names, $method, Type::Address, Kind::Text, find_address)
    };
}

pub(super) const TABLE: &[Converter] = &[
    texts!(&["map_str", "map"], Method::Str),
    numbers!(&["map_str_int"], Method::Str),
    addresses!(&["map_str_ip"], Method::Str),
    texts!(&["map_beg"], Method::Beg),
    numbers!(&["map_beg_int"], Method::Beg),
    addresses!(&["map_beg_ip"], Method::Beg),
    texts!(&["map_sub"], Method::Sub),
    numbers!(&["map_sub_int"], Method::Sub),
    addresses!(&["map_sub_ip"], Method::Sub),
    texts!(&["map_dir"], Method::Dir),
    numbers!(&["map_dir_int"], Method::Dir),
    addresses!(&["map_dir_ip"], Method::Dir),
    texts!(&["map_dom"], Method::Dom),
    numbers!(&["map_dom_int"], Method::Dom),
    addresses!(&["map_dom_ip"], Method::Dom),
    texts!(&["map_end"], Method::End),
    numbers!(&["map_end_int"], Method::End),
    addresses!(&["map_end_ip"], Method::End),
    texts!(&["map_reg"], Method::Reg),
    numbers!(&["map_reg_int"], Method::Reg),
    addresses!(&["map_reg_ip"], Method::Reg),
    map!(&["map_regm"], Method::Reg, Type::Text, Kind::Text, find_expanded),
    texts!(&["map_int"], Method::Int),
    numbers!(&["map_int_int"], Method::Int),
    addresses!(&["map_int_ip"], Method::Int),
    texts!(&["map_ip"], Method::Ip),
    numbers!(&["map_ip_int"], Method::Ip),
    addresses!(&["map_ip_ip"], Method::Ip),
];

const fn row(
    names: &'static [&'static str],
    takes: Takes,
    method: Method,
    output: Type,
    run: Run,
) -> Converter {
    Converter::new(names, takes, method.compares(), output, run)
}

fn find<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn Subject) -> Option<Sample<'a>> {
    let Arg::Map(map) = args.get(0) else { return None };
    map.find(value).or_else(|| otherwise(args))
}

fn find_address<'a>(
    value: Sample<'a>,
    args: &'a Args,
    subject: &'a dyn Subject,
) -> Option<Sample<'a>> {
    find(value, args, subject)?.cast(Type::Address)
}

fn find_expanded<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn Subject) -> Option<Sample<'a>> {
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
