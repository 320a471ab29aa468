//! Converters of dates: seconds since 1970 as text.

use std::io::Write;

use fulmar_semantics::date::{DATE_LEN, format_date};
use jiff::Timestamp;
use jiff::Zoned;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use super::Converter;
use crate::rules::args::{Arg, ArgKind, Args, Takes};
use crate::rules::eval_context::EvalContext;
use crate::rules::sample::{Sample, Type};
use crate::rules::time_format::TimeFormat;

pub(super) const TABLE: &[Converter] = &[
    Converter::new(
        &["http_date"],
        Takes::from(0, &[ArgKind::Int, ArgKind::OneOf(&["s", "ms", "us"])]),
        Type::Int,
        Type::Text,
        http_date,
    ),
    Converter::new(&["utime"], FORMAT, Type::Int, Type::Text, formatted)
        .checked(|args| set_zone(args, TimeZone::UTC)),
    Converter::new(&["ltime"], FORMAT, Type::Int, Type::Text, formatted)
        .checked(|args| set_zone(args, TimeZone::system())),
];

const FORMAT: Takes = Takes::from(1, &[ArgKind::Text, ArgKind::Int]);

/// HTTP date format, with the fraction of a second that the unit has.
fn http_date<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let (unit, digits) = match args.text(1) {
        Some(b"ms") => (1_000, 3),
        Some(b"us") => (1_000_000, 6),
        _ => (1, 0),
    };
    let time = value.into_int()?.saturating_add(args.int(0).unwrap_or(0));
    let date = format_date(time.div_euclid(unit));
    if digits == 0 {
        return Some(Sample::Text(date.to_vec().into()));
    }
    let (day, zone) = date.split_at(DATE_LEN - 4);
    let mut text = day.to_vec();
    write!(text, ".{:0digits$}", time.rem_euclid(unit)).expect("memory takes what is written");
    text.extend_from_slice(zone);
    Some(Sample::Text(text.into()))
}

/// Resolves the time zone during parsing.
fn set_zone(args: &mut Args, zone: TimeZone) -> Result<(), String> {
    let format = args.text(0).unwrap_or_default().into();
    args.set(0, Arg::Time(Box::new(TimeFormat { format, zone })));
    Ok(())
}

fn formatted<'a>(value: Sample<'a>, args: &'a Args, _: &'a dyn EvalContext) -> Option<Sample<'a>> {
    let Arg::Time(format) = args.get(0) else { return None };
    let seconds = value.into_int()?.saturating_add(args.int(1).unwrap_or(0));
    let time = Timestamp::from_second(seconds).ok()?.to_zoned(format.zone.clone());
    let mut text = Vec::with_capacity(format.format.len() + 32);
    strftime(&mut text, &format.format, &time);
    Some(Sample::Text(text.into()))
}

/// strftime(3) in the C locale; unknown conversions are copied.
fn strftime(out: &mut Vec<u8>, format: &[u8], time: &Zoned) {
    let mut rest = format;
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match (first, tail.split_first()) {
            (b'%', Some((letter, tail))) => {
                rest = tail;
                field(out, *letter, time);
            }
            _ => out.push(*first),
        }
    }
}

/// Writes one conversion.
fn field(out: &mut Vec<u8>, letter: u8, time: &Zoned) {
    if let Some((_, longer)) = COMPOSED.iter().find(|(known, _)| *known == letter) {
        return strftime(out, longer, time);
    }
    let (year, month, day) = (time.year(), time.month(), time.day());
    let hour12 = (time.hour() + 11).rem_euclid(12) + 1;
    let weekday = time.weekday();
    let week = time.date().iso_week_date();
    let written = match letter {
        b'a' => write!(out, "{}", &day_name(weekday)[..3]),
        b'A' => write!(out, "{}", day_name(weekday)),
        b'b' | b'h' => write!(out, "{}", &month_name(month)[..3]),
        b'B' => write!(out, "{}", month_name(month)),
        b'C' => write!(out, "{:02}", year.div_euclid(100)),
        b'd' => write!(out, "{day:02}"),
        b'e' => write!(out, "{day:2}"),
        b'g' => write!(out, "{:02}", week.year().rem_euclid(100)),
        b'G' => write!(out, "{}", week.year()),
        b'H' => write!(out, "{:02}", time.hour()),
        b'I' => write!(out, "{hour12:02}"),
        b'j' => write!(out, "{:03}", time.day_of_year()),
        b'k' => write!(out, "{:2}", time.hour()),
        b'l' => write!(out, "{hour12:2}"),
        b'm' => write!(out, "{month:02}"),
        b'M' => write!(out, "{:02}", time.minute()),
        b'n' => writeln!(out),
        b'p' => write!(out, "{}", if time.hour() < 12 { "AM" } else { "PM" }),
        b'P' => write!(out, "{}", if time.hour() < 12 { "am" } else { "pm" }),
        b's' => write!(out, "{}", time.timestamp().as_second()),
        b'S' => write!(out, "{:02}", time.second()),
        b't' => write!(out, "\t"),
        b'u' => write!(out, "{}", weekday.to_monday_one_offset()),
        b'U' => write!(out, "{:02}", week_of_year(time, weekday.to_sunday_zero_offset())),
        b'V' => write!(out, "{:02}", week.week()),
        b'w' => write!(out, "{}", weekday.to_sunday_zero_offset()),
        b'W' => write!(out, "{:02}", week_of_year(time, weekday.to_monday_zero_offset())),
        b'y' => write!(out, "{:02}", year.rem_euclid(100)),
        b'Y' => write!(out, "{year}"),
        b'z' => write!(out, "{}", offset(time)),
        b'Z' => write!(out, "{}", zone_name(time)),
        b'%' => write!(out, "%"),
        other => out.write_all(&[b'%', other]),
    };
    written.expect("memory takes what is written");
}

/// The week of the year; `day` is the day of the week, counted from the first day of a week.
fn week_of_year(time: &Zoned, day: i8) -> i16 {
    (time.day_of_year() + 6 - i16::from(day)) / 7
}

fn offset(time: &Zoned) -> String {
    let minutes = time.offset().seconds() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

fn zone_name(time: &Zoned) -> String {
    let info = time.time_zone().to_offset_info(time.timestamp());
    match info.abbreviation() {
        "UTC" => "GMT".to_owned(), // what gmtime(3) calls it
        name => name.to_owned(),
    }
}

fn day_name(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

fn month_name(month: i8) -> &'static str {
    let at = usize::try_from(month - 1).expect("months are counted from 1");
    MONTHS[at]
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Conversions that expand to several others.
const COMPOSED: &[(u8, &[u8])] = &[
    (b'c', b"%a %b %e %H:%M:%S %Y"),
    (b'D', b"%m/%d/%y"),
    (b'F', b"%Y-%m-%d"),
    (b'r', b"%I:%M:%S %p"),
    (b'R', b"%H:%M"),
    (b'T', b"%H:%M:%S"),
    (b'x', b"%m/%d/%y"),
    (b'X', b"%H:%M:%S"),
];
