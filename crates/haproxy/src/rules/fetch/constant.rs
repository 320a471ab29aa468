//! Constant fetches.

use std::borrow::Cow;

use super::{FetchMethod, Take};
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::hex::unhex;
use crate::rules::lists::ConfigFiles;
use crate::rules::sample::{Sample, Type};
use crate::rules::sample_phase::SamplePhase;

pub(super) const TABLE: &[FetchMethod] = &[
    constant(&["str"], Takes::from(0, &[ArgKind::Text]), Type::Text, text),
    constant(&["meth"], Takes::all(&[ArgKind::Text]), Type::Text, text),
    constant(&["int"], Takes::all(&[ArgKind::Int]), Type::Int, int),
    constant(&["bool"], Takes::all(&[BOOLEANS]), Type::Bool, bool),
    constant(&["bin"], Takes::all(&[ArgKind::Text]), Type::Binary, binary),
    constant(&["ipv4"], Takes::all(&[ArgKind::Address4]), Type::Address, address),
    constant(&["ipv6"], Takes::all(&[ArgKind::Address6]), Type::Address, address),
    constant(&["env"], Takes::all(&[ArgKind::Text]), Type::Text, environment),
    constant(&["always_true"], Takes::NONE, Type::Bool, |_, _| Ok(Some(Sample::Bool(true)))),
    constant(&["always_false"], Takes::NONE, Type::Bool, |_, _| Ok(Some(Sample::Bool(false)))),
    constant(&["nbproc", "proc"], Takes::NONE, Type::Int, |_, _| Ok(Some(Sample::Int(1)))),
];

type ConstantFn = fn(&Args, &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String>;

const fn constant(
    names: &'static [&'static str],
    takes: Takes,
    kind: Type,
    make: ConstantFn,
) -> FetchMethod {
    FetchMethod::new(names, takes, kind, SamplePhase::Always, Take::Constant(make))
}

fn text(args: &Args, _: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    Ok(Some(Sample::Text(Cow::Owned(args.text(0).unwrap_or_default().to_vec()))))
}

fn int(args: &Args, _: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    Ok(args.int(0).map(Sample::Int))
}

fn bool(args: &Args, _: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    Ok(Some(Sample::Bool(matches!(args.text(0), Some(b"true" | b"1")))))
}

fn binary(args: &Args, _: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    Ok(Some(Sample::Binary(unhex(args.text(0).unwrap_or_default())?.into())))
}

fn address(args: &Args, _: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    Ok(match args.get(0) {
        Arg::Address4(address) => Some(Sample::Address((*address).into())),
        Arg::Address6(address) => Some(Sample::Address((*address).into())),
        _ => None,
    })
}

fn environment(args: &Args, files: &dyn ConfigFiles) -> Result<Option<Sample<'static>>, String> {
    let value = files.environment(&args.name(0).unwrap_or_default());
    Ok(value.map(|value| Sample::Text(Cow::Owned(value.into_bytes()))))
}

const BOOLEANS: ArgKind = ArgKind::OneOf(&["true", "false", "1", "0"]);
