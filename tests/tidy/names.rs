//! Names and widths: types with a name of their own, lines of 100 columns, subjects of 72.

use std::collections::BTreeMap;
use std::process::Command;

use super::lexer::code_of;
use super::{SourceFile, assert_none, is_rust, is_word, tree};

#[test]
fn type_names_are_unique() {
    assert_none(repeated(&tree(), SHARED, REPEATED_MAX));
}

#[test]
fn lines_are_short() {
    assert_none(tree().iter().flat_map(too_wide).collect());
}

#[test]
fn commit_subjects_are_short() {
    let range = format!("{SUBJECTS_SINCE}..HEAD");
    let log = Command::new("git").args(["log", "--format=%h %s", &range]).output();
    match log {
        Ok(log) if log.status.success() => {
            assert_none(long_subjects(&String::from_utf8_lossy(&log.stdout)));
        }
        _ => println!("there is no history back to {SUBJECTS_SINCE}: subjects are not tested"),
    }
}

/// Names that several types have and `shared` does not list, if there are more than `max`; and
/// names in that list that are unique.
pub(super) fn repeated(files: &[SourceFile], shared: &[(&str, &str)], max: usize) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|f| is_rust(f) && !f.path.starts_with("fuzz/")) {
        for (line, at) in code_of(&file.text).lines().zip(1..) {
            if let Some(name) = defined(line) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{at}", file.path));
            }
        }
    }
    places.retain(|_, places| places.len() > 1);
    let is_shared = |name: &String| shared.iter().any(|(listed, _)| listed == name);
    let new: Vec<_> = places.iter().filter(|(name, _)| !is_shared(name)).collect();
    let new = new.iter().filter(|_| new.len() > max).map(|(name, places)| {
        let places = places.join(", ");
        format!("{name} is defined in {places}; name each for what it holds")
    });
    let gone = shared.iter().filter(|(name, _)| !places.contains_key(*name));
    let gone = gone.map(|(name, _)| format!("SHARED lists {name}, which is unique; remove it"));
    new.chain(gone).collect()
}

/// The type that a line defines; associated types do not count.
fn defined(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => code,
    };
    let (keyword, rest) = code.strip_prefix("unsafe ").unwrap_or(code).split_once(' ')?;
    let is_type = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => line.starts_with(code) || line.starts_with("pub"),
        _ => false,
    };
    let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

pub(super) fn too_wide(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().zip(1..).filter(|(line, _)| line.chars().count() > COLUMNS_MAX);
    let wide = lines.filter(|_| is_rust(file)).map(|(line, at)| {
        let columns = line.chars().count();
        format!("{}:{at}: {columns} columns; wrap the line at {COLUMNS_MAX}", file.path)
    });
    wide.collect()
}

/// Lines of `git log --format='%h %s'` whose subject is too long.
pub(super) fn long_subjects(log: &str) -> Vec<String> {
    let subjects = log.lines().filter_map(|line| line.split_once(' '));
    let long = subjects.filter(|(_, subject)| subject.chars().count() > SUBJECT_MAX);
    long.map(|(hash, subject)| {
        format!("{hash}: {subject:?} is longer than {SUBJECT_MAX} columns; move words to the body")
    })
    .collect()
}

const COLUMNS_MAX: usize = 100;
const SUBJECT_MAX: usize = 72;

/// Older commits have longer subjects.
const SUBJECTS_SINCE: &str = "acf2a23";

/// Names that several types have, with the reason.
const SHARED: &[(&str, &str)] = &[
    ("Config", "at the root of its crate: of a client, and of HAProxy's language"),
    ("EpollEvent", "one for each system"),
    ("Error", "at the root of its crate"),
    ("Options", "at the root of its crate"),
    ("Request", "at the root of its crate: to be sent, and as it was received"),
    ("Ring", "one for each system"),
    ("Stats", "at the root of its crate: of a client, and of a reactor"),
    ("Wakeup", "one for each system"),
];

/// Further names; lower it when one becomes unique.
const REPEATED_MAX: usize = 19;
