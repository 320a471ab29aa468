//! Rules for our crates: which may import which, as the map in the docs has it.

use std::collections::BTreeMap;

use super::{BTreeSet, Edges, SourceFile, imports, in_crates};

pub(super) fn edges(files: &[SourceFile], allowed: &[Edges]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with("/Cargo.toml")) {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        let name = in_crates(folder).unwrap_or(folder);
        if name == "fuzz" {
            continue; // a workspace of its own: nothing depends on it
        }
        let Some(rule) = allowed.iter().find(|edges| edges.name == name) else {
            complaints.push(format!(
                "{}: a new crate; add it to ALLOWED and to the map in docs/architecture.md",
                file.path
            ));
            continue;
        };
        for (section, may) in [("dependencies", rule.may), ("dev-dependencies", rule.tests_may)] {
            let found = match imports(&file.text, section) {
                Ok(found) => found,
                Err(error) => {
                    complaints.push(format!("{}: {error}", file.path));
                    continue;
                }
            };
            for to in found.iter().filter(|to| !may.contains(&&to[..])) {
                complaints.push(format!(
                    "{}: {section}: a new edge to {to}; is it in the direction of \
                     docs/architecture.md? Then add it there and to ALLOWED",
                    file.path
                ));
            }
            for to in may.iter().filter(|to| !found.contains(**to)) {
                complaints.push(format!(
                    "{}: {section}: the edge to {to} is gone; remove it from ALLOWED",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// The table of crates in docs/architecture.md: a row for each manifest, and in its last column
/// what that manifest imports.
pub(super) fn crates_on_the_map(files: &[SourceFile]) -> Vec<String> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else {
        return vec![format!("{MAP} is missing")];
    };
    let mut rows = rows(&map.text);
    let mut complaints = Vec::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { continue };
        if folder == "fuzz" {
            continue; // a workspace of its own
        }
        let name = in_crates(folder).unwrap_or(folder);
        let Some(imported) = rows.remove(name) else {
            complaints.push(format!("{MAP}: the table of crates has no row for {name}"));
            continue;
        };
        match (imported, imports(&file.text, "dependencies")) {
            (_, Err(error)) => complaints.push(format!("{}: {error}", file.path)),
            (Some(written), Ok(found)) if written != found => complaints.push(format!(
                "{MAP}: the row of {name} has {written:?}, its manifest has {found:?}"
            )),
            _ => {}
        }
    }
    let gone = rows.keys().map(|name| format!("{MAP}: there is no crate {name}"));
    complaints.extend(gone);
    complaints
}

/// Names and imports; no imports where a row allows any.
fn rows(map: &str) -> BTreeMap<String, Option<BTreeSet<String>>> {
    let section = map.split("\n## ").find(|section| section.starts_with("Crates\n"));
    let lines = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let [name, .., imported] = &cells[..] else { return None };
            let any = imported.trim().starts_with("any");
            Some((name.trim().trim_matches('`').to_owned(), (!any).then(|| words(imported))))
        })
        .collect()
}

const MAP: &str = "docs/architecture.md";
