//! Arithmetic converters. Results saturate at the limits of 64 bits.

use super::{ConvertFn, Converter};
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::sample::{Sample, Type};

pub(super) const TABLE: &[Converter] = &[
    binary(&["add"], |v, a, s| Some(Sample::Int(int(v)?.saturating_add(operand(a, s)?)))),
    binary(&["sub"], |v, a, s| Some(Sample::Int(int(v)?.saturating_sub(operand(a, s)?)))),
    binary(&["mul"], |v, a, s| Some(Sample::Int(int(v)?.saturating_mul(operand(a, s)?)))),
    binary(&["div"], |v, a, s| Some(Sample::Int(divide(int(v)?, operand(a, s)?)))),
    binary(&["mod"], |v, a, s| Some(Sample::Int(int(v)?.checked_rem(operand(a, s)?).unwrap_or(0)))),
    binary(&["and"], |v, a, s| Some(Sample::Int(int(v)? & operand(a, s)?))),
    binary(&["or"], |v, a, s| Some(Sample::Int(int(v)? | operand(a, s)?))),
    binary(&["xor"], |v, a, s| Some(Sample::Int(int(v)? ^ operand(a, s)?))),
    unary(&["neg"], Type::Int, |v, _, _| Some(Sample::Int(int(v)?.wrapping_neg()))),
    unary(&["cpl"], Type::Int, |v, _, _| Some(Sample::Int(!int(v)?))),
    unary(&["bool"], Type::Bool, |v, _, _| Some(Sample::Bool(int(v)? != 0))),
    unary(&["not"], Type::Bool, |v, _, _| Some(Sample::Bool(int(v)? == 0))),
    unary(&["even"], Type::Bool, |v, _, _| Some(Sample::Bool(int(v)? & 1 == 0))),
    unary(&["odd"], Type::Bool, |v, _, _| Some(Sample::Bool(int(v)? & 1 == 1))),
];

const fn binary(names: &'static [&'static str], run: ConvertFn) -> Converter {
    Converter::new(names, Takes::all(&[ArgKind::Operand]), Type::Int, Type::Int, run)
}

const fn unary(names: &'static [&'static str], output: Type, run: ConvertFn) -> Converter {
    Converter::new(names, Takes::NONE, Type::Int, output, run)
}

fn int(value: Sample<'_>) -> Option<i64> {
    value.into_int()
}

fn operand(args: &Args, subject: &dyn EvalContext) -> Option<i64> {
    match args.get(0) {
        Arg::Int(value) => Some(*value),
        Arg::Variable(variable) => subject.variable(variable)?.into_int(),
        _ => None,
    }
}

/// Division by zero yields the maximum, as in HAProxy.
fn divide(value: i64, by: i64) -> i64 {
    match by {
        0 => i64::MAX,
        by => value.saturating_div(by),
    }
}
