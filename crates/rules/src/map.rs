//! Maps: files of keys and values, a pair in each line (HAProxy's manual, §7.3.1, `map`), and
//! files of patterns (§7.1, `-f`).

use std::sync::Arc;

use crate::context::Files;
use crate::pattern::{Method, Patterns};
use crate::regex;
use crate::sample::{Sample, Type};

/// Keys, which are patterns, and their values.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    keys: Patterns,
    values: Vec<Sample<'static>>,
}

impl Map {
    /// The value of the first key, or of the most special one, that a value matches.
    pub(crate) fn find(&self, value: Sample<'_>) -> Option<&Sample<'static>> {
        self.values.get(self.keys.find(value)?)
    }

    /// The same, with the groups of the regular expression that is the key put into the value.
    pub(crate) fn find_expanded(&self, value: Sample<'_>) -> Option<Vec<u8>> {
        let text = value.into_text()?;
        let at = self.keys.find(Sample::text(&text))?;
        let groups = self.keys.regex(at)?.captures(&text)?;
        let Sample::Text(template) = self.values.get(at)? else { return None };
        let mut out = Vec::with_capacity(template.len());
        regex::expand(template, &groups, &mut out);
        Some(out)
    }
}

/// Reads a map.
///
/// # Errors
/// The file cannot be read, or a line is wrong; the message says which.
pub(crate) fn load(
    path: &str,
    method: Method,
    to: Type,
    files: &dyn Files,
) -> Result<Arc<Map>, String> {
    let mut map = Map { keys: Patterns::new(method), values: Vec::new() };
    for (number, line) in lines(&read(path, files)?) {
        let wrong = |why: String| format!("{path}:{number}: {why}");
        let (key, value) = pair(line);
        let Some(value) = typed(value, to) else {
            return Err(wrong(format!("the value is no {to}")));
        };
        map.keys.add(key, false).map_err(wrong)?;
        map.values.push(value);
    }
    Ok(Arc::new(map))
}

/// A value that is nothing but what it has to be.
fn typed(value: &[u8], to: Type) -> Option<Sample<'static>> {
    let text = || str::from_utf8(value).ok();
    match to {
        Type::Int => text()?.parse().ok().map(Sample::Int),
        Type::Address => text()?.parse().ok().map(Sample::Address),
        to => Sample::text(value).into_owned().cast(to),
    }
}

/// Adds the patterns of a file, one in each line; of a map, its keys.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_patterns(
    path: &str,
    is_map: bool,
    ignore_case: bool,
    files: &dyn Files,
    patterns: &mut Patterns,
) -> Result<(), String> {
    for (number, line) in lines(&read(path, files)?) {
        let pattern = if is_map { pair(line).0 } else { line };
        patterns.add(pattern, ignore_case).map_err(|why| format!("{path}:{number}: {why}"))?;
    }
    Ok(())
}

fn read(path: &str, files: &dyn Files) -> Result<Vec<u8>, String> {
    files.read(path).map_err(|error| format!("cannot read '{path}': {error}"))
}

/// The lines that say something, without the blanks in front, and their numbers.
fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    lines.filter(|(line, _)| line.first() != Some(&b'#')).filter_map(|(line, number)| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let begin = line.iter().position(|byte| !is_blank(*byte))?;
        Some((number, &line[begin..]))
    })
}

/// The first word, and what stands behind the blanks that follow it.
fn pair(line: &[u8]) -> (&[u8], &[u8]) {
    let end = line.iter().position(|byte| is_blank(*byte)).unwrap_or(line.len());
    (&line[..end], line[end..].trim_ascii())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}
