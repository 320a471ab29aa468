//! Numbers and ranges of numbers.

/// Ranges in the order of their addition, with inclusive bounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(i64, i64)>);

impl Ranges {
    pub(super) fn add(&mut self, range: (i64, i64)) {
        self.0.push(range);
    }

    pub(super) fn find(&self, value: i64) -> Option<usize> {
        self.0.iter().position(|(from, to)| (*from..=*to).contains(&value))
    }
}

/// `5`, `1:5`, `:5` or `5:`.
pub(super) fn number(text: &str) -> Result<(i64, i64), String> {
    range(text, |part| part.parse().ok(), |part| part.parse().ok())
        .ok_or_else(|| format!("'{text}' is neither a number nor a range such as 1:5"))
}

/// `3.1`, `3.0:3.3` or `3`, which is every version of 3.
pub(super) fn version(text: &str) -> Result<(i64, i64), String> {
    let part = |part: &str, otherwise: i64| {
        let (major, minor) = match part.split_once('.') {
            Some((major, minor)) => (major, minor.parse::<u16>().ok()?.into()),
            None => (part, otherwise),
        };
        Some(i64::from(major.parse::<u16>().ok()?) << 16 | minor)
    };
    range(text, |from| part(from, 0), |to| part(to, i64::from(u16::MAX)))
        .ok_or_else(|| format!("'{text}' is neither a version nor a range such as 3.0:3.3"))
}

fn range(
    text: &str,
    from: impl Fn(&str) -> Option<i64>,
    to: impl Fn(&str) -> Option<i64>,
) -> Option<(i64, i64)> {
    match text.split_once(':') {
        None => Some((from(text)?, to(text)?)),
        Some(("", "")) => None,
        Some(("", end)) => Some((i64::MIN, to(end)?)),
        Some((begin, "")) => Some((from(begin)?, i64::MAX)),
        Some((begin, end)) => Some((from(begin)?, to(end)?)),
    }
}

/// The numbers for which a comparison holds.
pub(super) fn compare(operator: &str, (from, to): (i64, i64)) -> Result<(i64, i64), String> {
    let range = match operator {
        "eq" => return Ok((from, to)),
        "ge" => (from, i64::MAX),
        "le" => (i64::MIN, to),
        "gt" => (to.saturating_add(1), i64::MAX),
        "lt" => (i64::MIN, from.saturating_sub(1)),
        _ => return Err(format!("'{operator}' is not one of eq, ge, gt, le, lt")),
    };
    Ok(range)
}

/// Formats a range.
pub(super) fn number_text((from, to): (i64, i64)) -> String {
    text((from, to), |number| number.to_string())
}

/// Formats a range of versions.
pub(super) fn version_text((from, to): (i64, i64)) -> String {
    text((from, to), |version| format!("{}.{}", version >> 16, version & 0xffff))
}

fn text((from, to): (i64, i64), show: impl Fn(i64) -> String) -> String {
    match (from, to) {
        (i64::MIN, to) => format!(":{}", show(to)),
        (from, i64::MAX) => format!("{}:", show(from)),
        (from, to) if from == to => show(from),
        (from, to) => format!("{}:{}", show(from), show(to)),
    }
}
