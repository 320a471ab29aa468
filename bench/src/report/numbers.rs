//! Figures with their significant digits, and commas between thousands.

/// A figure with two or three significant digits; whole above a hundred.
pub(crate) fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 | 99.95.. => 0,
        1.995.. => 1,
        0.0995.. => 2,
        _ => 3,
    };
    group(&format!("{value:.digits$}"))
}

/// A count: without a fraction if it has none.
pub(crate) fn count(value: f64) -> String {
    if is_whole(value) { group(&format!("{value:.0}")) } else { figure(value) }
}

/// A whole number with commas between thousands.
pub(crate) fn grouped(number: u32) -> String {
    count(f64::from(number))
}

fn is_whole(value: f64) -> bool {
    value.fract() == 0.0
}

/// `12345.6` as `12,345.6`.
fn group(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    let mut out = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.25, "0.25"),
            (1.26, "1.26"),
            (2.04, "2.0"),
            (9.99, "10.0"),
            (17.25, "17.2"),
            (123.4, "123"),
            (40_177.0, "40,177"),
            (1_234_567.8, "1,234,568"),
        ] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn whole_counts_have_no_fraction() {
        assert_eq!(count(20_000.0), "20,000");
        assert_eq!(count(3.0), "3");
        assert_eq!(count(-1_000.0), "-1,000");
        assert_eq!(count(2.25), "2.2");
    }
}
