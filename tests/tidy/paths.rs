//! Rule for documents: Rust files that they name exist, and so do the functions of the table of
//! decisions in the map.

use std::collections::BTreeMap;

use super::{SourceFile, has_word};

/// A name with a `/` is a path from the root, or a path below the sources of some crate; a name
/// without is that of any file.
pub(super) fn missing(files: &[SourceFile]) -> Vec<String> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let known: BTreeMap<&str, &str> = sources.map(|f| (&f.path[..], &f.text[..])).collect();
    let exists = |name: &str| {
        let tail = format!("/{name}");
        known.contains_key(name) || known.keys().any(|path| path.ends_with(&tail))
    };
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| is_reference(&file.path)) {
        for (line, at) in file.text.lines().zip(1..) {
            for name in quoted(line).filter(|name| is_source(name) && !exists(name)) {
                complaints.push(format!("{}:{at}: there is no file {name}", file.path));
            }
            for name in undefined(line, &known) {
                complaints.push(format!("{}:{at}: no function {name} in these files", file.path));
            }
        }
    }
    complaints
}

/// The functions of a row of the table (decision, files, functions) that its files do not define.
fn undefined<'a>(line: &'a str, known: &BTreeMap<&str, &str>) -> Vec<&'a str> {
    let cells: Vec<&str> = line.split('|').collect();
    let [_, _, paths, functions, _] = cells[..] else { return Vec::new() };
    let texts: Vec<&str> = quoted(paths).filter_map(|path| known.get(path).copied()).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let is_defined = |name: &str| {
        let last = name.rsplit("::").next().unwrap_or(name);
        let definition = format!("fn {last}");
        texts.iter().any(|text| has_word(text, &definition))
    };
    quoted(functions).filter(|name| !is_defined(name)).collect()
}

/// The changelog and what is not ours name files of other times and places.
fn is_reference(path: &str) -> bool {
    path.ends_with(".md") && path != "CHANGELOG.md"
}

fn is_source(name: &str) -> bool {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
    name.len() > 3 && name.ends_with(".rs") && name.chars().all(is_path)
}

/// What stands between backticks.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
