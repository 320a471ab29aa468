//! Rules for documents: Rust files that they name exist, and so do the functions of the table of
//! decisions; and the map names every source file.

use std::collections::BTreeMap;

use super::{SourceFile, has_word, in_crates};

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

/// Source files that the tables of the map (file, what it decides) do not name below the heading of
/// their crate, and names there that are no file. A name that ends in `/` stands for a directory.
pub(super) fn unmapped(files: &[SourceFile]) -> Vec<String> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else { return Vec::new() };
    let mut complaints = Vec::new();
    let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut krate = "";
    for line in map.text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            krate = heading;
            named.entry(krate).or_default();
        } else if let Some((cell, _)) = line.strip_prefix("| ").and_then(|row| row.split_once(" |"))
        {
            named.entry(krate).or_default().extend(quoted(cell));
        }
    }
    let path_of = |file: &'_ SourceFile| {
        let (krate, path) = in_crates(&file.path)?.split_once("/src/")?;
        path.ends_with(".rs").then(|| (krate.to_owned(), path.to_owned()))
    };
    let sources: Vec<(String, String)> = files.iter().filter_map(path_of).collect();
    for (krate, path) in &sources {
        let Some(names) = named.get(&krate[..]) else { continue };
        let is_named = |name: &&str| match name.ends_with('/') {
            true => path.starts_with(*name),
            false => path == name,
        };
        if !is_self_explanatory(path) && !names.iter().any(is_named) {
            complaints.push(format!("{MAP}: '{krate}' has no row with `{path}`"));
        }
    }
    for (krate, names) in &named {
        let exists = |name: &str| {
            let is_it =
                |path: &str| path == name || (name.ends_with('/') && path.starts_with(name));
            sources.iter().any(|(of, path)| of == krate && is_it(path))
        };
        let wrong = names.iter().filter(|name| !exists(name));
        complaints.extend(wrong.map(|name| format!("{MAP}: '{krate}' has no file `{name}`")));
    }
    complaints
}

/// Names with one meaning in all crates, which the map gives once.
fn is_self_explanatory(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let usual = ["lib.rs", "mod.rs", "error.rs", "options.rs", "tests.rs", "testing.rs"];
    usual.contains(&name) || path.contains("/tests/")
}

const MAP: &str = "docs/map.md";

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
