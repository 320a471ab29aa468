//! Dates in free form, as `curl_getdate` reads them.
//!
//! A date has up to six items in any order, with anything but letters and digits between them: a
//! weekday, which means nothing, a month, a day, a year, a time, and a zone. `YYYYMMDD` is three of
//! them. What follows the sixth item is ignored.

/// The seconds since 1970 (UTC), or -1 for a text that is no date.
///
/// The last second of 1969, which would be -1, is 0.
#[must_use]
pub fn getdate(text: &[u8]) -> i64 {
    match DateItems::parse(text).and_then(|items| items.seconds()) {
        Some(-1) => 0,
        Some(seconds) => seconds,
        None => -1,
    }
}

/// The items of a date that were found so far.
#[derive(Debug, Default)]
struct DateItems {
    has_weekday: bool,
    /// From 0.
    month: Option<i64>,
    day: Option<i64>,
    year: Option<i64>,
    /// Hours, minutes and seconds.
    time: Option<[i64; 3]>,
    /// Seconds that are added for UTC.
    zone: Option<i64>,
    /// The first number that may be a day has been seen.
    expects_year: bool,
}

impl DateItems {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut items = Self::default();
        let mut at = 0;
        for _ in 0..ITEMS_MAX {
            at += count(&text[at..], |byte| !byte.is_ascii_alphanumeric());
            let rest = &text[at..];
            at += match rest.first() {
                None => break,
                Some(first) if first.is_ascii_digit() => {
                    let sign = at.checked_sub(1).map(|before| text[before]);
                    items.add_number(rest, sign)?
                }
                Some(_) => items.add_name(rest)?,
            };
        }
        Some(items)
    }

    /// Adds a weekday, a month or a zone, and returns its length.
    fn add_name(&mut self, text: &[u8]) -> Option<usize> {
        let len = count(text, |byte| byte.is_ascii_alphabetic());
        let name = std::str::from_utf8(&text[..len]).ok()?;
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        if !self.has_weekday && WEEKDAYS.iter().any(|day| is(day) || is(&day[..3])) {
            self.has_weekday = true;
            return Some(len);
        }
        if self.month.is_none() {
            self.month = (0..).zip(MONTHS).find(|(_, month)| is(month)).map(|(month, _)| month);
            if self.month.is_some() {
                return Some(len);
            }
        }
        if self.zone.is_some() {
            return None;
        }
        let row = ZONES.iter().find(|(_, names)| names.split(' ').any(is));
        self.zone = row.map(|(minutes, _)| minutes * 60);
        self.zone.map(|_| len)
    }

    /// Adds a time, a zone, a date, a day or a year, and returns its length. `sign` is the
    /// character before it.
    fn add_number(&mut self, text: &[u8], sign: Option<u8>) -> Option<usize> {
        if self.time.is_none()
            && let Some((time, len)) = time_of_day(text)
        {
            self.time = Some(time).filter(|[.., seconds]| *seconds != -1);
            return Some(len);
        }
        let len = count(text, |byte| byte.is_ascii_digit());
        let digits = std::str::from_utf8(&text[..len]).ok()?;
        let number = i64::from(digits.parse::<i32>().ok()?);
        if len == 4 && number <= 1400 && self.zone.is_none() && matches!(sign, Some(b'+' | b'-')) {
            let seconds = (number / 100 * 60 + number % 100) * 60;
            self.zone = Some(if sign == Some(b'+') { -seconds } else { seconds });
            return Some(len);
        }
        let has_date = self.year.is_some() || self.month.is_some() || self.day.is_some();
        if len == 8 && !has_date {
            self.year = Some(number / 10_000);
            self.month = (number / 100 % 100).checked_sub(1).filter(|month| *month >= 0);
            self.day = Some(number % 100);
            return Some(len);
        }
        if !self.expects_year && self.day.is_none() {
            self.expects_year = true;
            if (1..=31).contains(&number) {
                self.day = Some(number);
                return Some(len);
            }
        }
        if !self.expects_year || self.year.is_some() {
            return None;
        }
        self.year = Some(match number {
            0..=70 => number + 2000,
            71..=99 => number + 1900,
            _ => number,
        });
        self.expects_year = self.day.is_some();
        Some(len)
    }

    /// Days that a month does not have are in the next month.
    fn seconds(&self) -> Option<i64> {
        let (year, month, day) = (self.year?, self.month?, self.day?);
        let [hours, minutes, seconds] = self.time.unwrap_or_default();
        let is_time = hours < 24 && minutes < 60 && seconds <= 60;
        if year < GREGORIAN_YEAR_MIN || month > 11 || day > 31 || !is_time {
            return None;
        }
        let before_march = i64::from(month < 2);
        let leap_days = |year: i64| year / 4 - year / 100 + year / 400;
        let leap_days = leap_days(year - before_march) - leap_days(1969);
        let days_before = DAYS_BEFORE[usize::try_from(month).ok()?];
        let days = (year - 1970) * 365 + leap_days + days_before + day - 1;
        let minutes = (days * 24 + hours) * 60 + minutes;
        Some(minutes * 60 + seconds + self.zone.unwrap_or(0))
    }
}

/// `H:M` or `H:M:S`, and its length. The numbers may be out of range, which makes the date invalid.
fn time_of_day(text: &[u8]) -> Option<([i64; 3], usize)> {
    let (hours, mut at) = short_number(text)?;
    let (minutes, len) = short_number(text[at..].strip_prefix(b":")?)?;
    at += 1 + len;
    let seconds = text[at..].strip_prefix(b":").and_then(short_number);
    let (seconds, len) = seconds.map_or((0, 0), |(seconds, len)| (seconds, 1 + len));
    Some(([hours, minutes, seconds], at + len))
}

/// Two characters at most, of which one may be a sign, and their length: `%2d` of `scanf(3)`, which
/// also skips white space before them.
fn short_number(text: &[u8]) -> Option<(i64, usize)> {
    let spaces = count(text, |byte| matches!(byte, b' ' | b'\t'..=b'\r'));
    let text = &text[spaces..];
    let has_sign = usize::from(matches!(text, [b'+' | b'-', ..]));
    let digits = count(&text[has_sign..], |byte| byte.is_ascii_digit()).min(2 - has_sign);
    let len = has_sign + digits;
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((number, spaces + len))
}

/// How many bytes at the beginning are of a kind.
fn count(text: &[u8], is: impl Fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is(byte)).count()
}

const ITEMS_MAX: usize = 6;

/// The calendar did not exist before.
const GREGORIAN_YEAR_MIN: i64 = 1583;

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// In a year of 365 days.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Minutes west of Greenwich. Single letters are those of RFC 822 §5.1, whose signs are reversed.
const ZONES: &[(i64, &str)] = &[
    (0, "GMT UTC UT WET Z"),
    (-780, "NZDT"),
    (-720, "NZT NZST IDLE Y"),
    (-660, "EADT X"),
    (-600, "EAST GST W"),
    (-540, "JST V"),
    (-480, "CCT WADT U"),
    (-420, "WAST T"),
    (-360, "S"),
    (-300, "R"),
    (-240, "Q"),
    (-180, "P"),
    (-120, "EET CEST MEST MESZ FST O"),
    (-60, "CET BST MET MEWT FWT N"),
    (60, "WAT A"),
    (120, "B"),
    (180, "ADT C"),
    (240, "AST EDT D"),
    (300, "EST CDT E"),
    (360, "CST MDT F"),
    (420, "MST PDT G"),
    (480, "PST YDT H"),
    (540, "YST HDT I"),
    (600, "HST CAT AHST K"),
    (660, "NT L"),
    (720, "IDLW M"),
];
