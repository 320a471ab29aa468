//! The machine and the versions of the programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fulmar_sys as sys;

use crate::lab::{Cores, find};
use crate::report::{MachineFact, MachineFacts};

/// This machine, and the versions of fulmar and its peers.
pub(crate) fn describe(cores: &Cores, fulmar: &Path) -> MachineFacts {
    let (number, commit) = version_and_commit(&first_line_of(fulmar, &["--version"]));
    let facts = [
        ("date", date()),
        ("kernel", first_line("/proc/sys/kernel/osrelease")),
        ("processor", processor()),
        ("cores", cores.describe()),
        ("memory", memory()),
        ("load before the run", load()),
        ("descriptors", descriptors()),
        ("fulmar", number),
        ("commit", commit),
        ("nginx", version("nginx", &["-v"])),
        ("HAProxy", version("haproxy", &["-v"])),
        ("h2o", version("h2o", &["-v"])),
        ("nghttp2", version("h2load", &["--version"])),
        ("wrk", version("wrk", &["-v"])),
        ("libcurl", version("curl-config", &["--version"])),
        ("libmicrohttpd", version("pkg-config", &["--modversion", "libmicrohttpd"])),
        ("valgrind", version("valgrind", &["--version"])),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    MachineFacts {
        facts: facts.map(|(name, value)| MachineFact { name: name.to_owned(), value }).collect(),
    }
}

/// Days since 1970 as a date of the Gregorian calendar, in UTC.
fn date() -> String {
    let since = sys::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let (days, minutes) = (since.as_secs() / 86_400, since.as_secs() / 60 % 1_440);
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Howard Hinnant's `civil_from_days`, for days after 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468; // from the first of March of the year 0
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153; // months since March
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_year - (153 * march + 2) / 5 + 1)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(": ")).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

fn memory() -> String {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    kilobytes.map_or_else(String::new, |kb| format!("{} GB", (kb + 524_288) / 1_048_576))
}

fn load() -> String {
    first_line("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

fn descriptors() -> String {
    sys::raise_descriptors().map_or_else(|_| String::new(), |limit| limit.now.to_string())
}

fn first_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The first line that a command prints on either stream; empty if it cannot be run.
fn version(program: &str, arguments: &[&str]) -> String {
    let Some(program) = find(program) else { return String::new() };
    bare(&first_line_of(&program, arguments)).to_owned()
}

fn first_line_of(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let Ok(output) = output else { return String::new() };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
}

/// Of `fulmar --version`: `fulmar 0.1.0 (725b808fe30a)`; the commit is empty if it is not known.
fn version_and_commit(line: &str) -> (String, String) {
    let line = line.strip_prefix("fulmar ").unwrap_or(line);
    let (number, commit) = line.split_once(" (").unwrap_or((line, ""));
    (number.to_owned(), commit.trim_end_matches(')').to_owned())
}

/// Without the program's name before it, and its address, method or copyright behind it.
fn bare(line: &str) -> &str {
    let line = NAMES.iter().find_map(|name| line.strip_prefix(name)).unwrap_or(line);
    let end = [" - ", " ["].iter().filter_map(|mark| line.find(mark)).min();
    line[..end.unwrap_or(line.len())].trim()
}

const NAMES: &[&str] = &[
    "nginx version: nginx/",
    "HAProxy version ",
    "h2o version ",
    "h2load nghttp2/",
    "wrk ",
    "libcurl ",
    "valgrind-",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_is_read_from_the_version() {
        let read = |line| version_and_commit(line);
        let known = ("0.1.0".to_owned(), "725b808fe30a-dirty".to_owned());
        assert_eq!(read("fulmar 0.1.0 (725b808fe30a-dirty)"), known);
        assert_eq!(read("fulmar 0.1.0"), ("0.1.0".to_owned(), String::new()));
    }

    #[test]
    fn versions_stand_alone() {
        for (line, told) in [
            ("nginx version: nginx/1.22.1", "1.22.1"),
            ("nginx version: openresty/1.21.4", "nginx version: openresty/1.21.4"),
            ("HAProxy version 2.6.12-1 2026/10/17 - https://haproxy.org/", "2.6.12-1 2026/10/17"),
            ("h2o version 2.2.5", "2.2.5"),
            ("h2load nghttp2/1.52.0", "1.52.0"),
            ("wrk debian/4.1.0-3 [epoll] Copyright (C) 2012 Will Glozer", "debian/4.1.0-3"),
            ("wrk 4.2.0 [epoll] Copyright (C) 2012 Will Glozer", "4.2.0"),
            ("libcurl 7.88.1", "7.88.1"),
            ("valgrind-3.19.0", "3.19.0"),
            ("0.9.75", "0.9.75"),
        ] {
            assert_eq!(bare(line), told);
        }
    }

    #[test]
    fn days_are_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (10_956, (1999, 12, 31)),
            (11_016, (2000, 2, 29)),
            (20_779, (2026, 11, 22)),
        ] {
            assert_eq!(civil(days), date);
        }
    }
}
