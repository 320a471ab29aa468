//! Whole numbers on the command line.

use std::fmt::Display;
use std::num::IntErrorKind;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Parses any value of the type.
pub(crate) fn parse<N: Number>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error: std::num::ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => format!("must be at most {}", N::MAX),
        _ => "must be a whole number".to_owned(),
    })
}

/// Parses a number within a range.
pub(crate) fn within<N: Number>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let (least, most) = (*range.start(), *range.end());
        match text.parse::<N>() {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(_) if most == N::MAX => Err(format!("must be at least {least}")),
            Err(error) if *error.kind() != IntErrorKind::PosOverflow || most == N::MAX => {
                parse(text)
            }
            Ok(_) | Err(_) => Err(format!("must be {least} to {most}")),
        }
    }
}

/// A type of number on the command line.
pub(crate) trait Number:
    Copy + Display + PartialOrd + FromStr<Err = std::num::ParseIntError>
{
    const MAX: Self;
}

impl Number for u16 {
    const MAX: Self = Self::MAX;
}

impl Number for u32 {
    const MAX: Self = Self::MAX;
}

impl Number for u64 {
    const MAX: Self = Self::MAX;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_are_accepted() {
        assert_eq!((parse("0"), parse("4294967295")), (Ok(0_u32), Ok(u32::MAX)));
        for text in ["", "10k", "-1", "1.5", "1 ", "x"] {
            assert_eq!(parse::<u64>(text), Err("must be a whole number".to_owned()), "{text}");
        }
        assert_eq!(parse::<u32>("4294967296"), Err("must be at most 4294967295".to_owned()));
    }

    #[test]
    fn messages_contain_the_range() {
        let few = within(1..=1_000_u32);
        assert_eq!((few("1"), few("1000")), (Ok(1), Ok(1_000)));
        for text in ["0", "1001", "4294967296"] {
            assert_eq!(few(text), Err("must be 1 to 1000".to_owned()), "{text}");
        }
        assert_eq!(within(1..=u64::MAX)("0"), Err("must be at least 1".to_owned()));
        assert_eq!(few("ten"), Err("must be a whole number".to_owned()));
    }
}
