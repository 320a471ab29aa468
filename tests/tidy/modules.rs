//! Rule for the modules of a crate: they import each other in one direction.
//!
//! Two modules are siblings if they have the same parent. A module imports its sibling if a path
//! in its code, or in the code of one of its submodules, leads to an item that is defined in the
//! sibling, or in one of the sibling's submodules. Re-exports are followed to the definition.
//! Siblings must not import each other in a cycle, directly or through further siblings.
//!
//! Not counted are paths from a module to its ancestors and to its submodules, and tests.

use std::collections::{BTreeMap, BTreeSet};

use super::{SourceFile, in_crates, is_rust, is_test, is_word, split_settings, without_tests};

/// Siblings that may import each other in cycles.
pub(super) struct Cycles {
    /// The crate, and the parent of the siblings: `proxy`, `proxy/http`.
    pub(super) parent: &'static str,
    /// At most so many of them.
    pub(super) modules_max: usize,
    pub(super) reason: &'static str,
}

pub(super) fn import_cycles(files: &[SourceFile], accepted: &[Cycles]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for file in files.iter().filter(|file| is_rust(file) && !is_test(file)) {
        if let Some((krate, path)) = place(&file.path) {
            let module = crates.entry(krate).or_default().entry(path).or_default();
            module.read(&without_tests(&file.text));
        }
    }
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (krate, modules) in &crates {
        let imports = imports(modules);
        for cycle in cycles(&imports) {
            let parent = &cycle[0][..cycle[0].len() - 1];
            let parent = [&[(*krate).to_owned()], parent].concat().join("/");
            if !accepted.iter().any(|row| row.parent == parent) {
                complaints.push(format!(
                    "crates/{krate}: modules of {parent} import each other in a cycle; move what \
                     they share into a module of its own:\n    {}",
                    witnesses(&imports, &cycle).join("\n    ")
                ));
            }
            *found.entry(parent).or_default() += cycle.len();
        }
    }
    for Cycles { parent, modules_max, reason } in accepted {
        match found.get(*parent) {
            None => complaints.push(format!("CYCLES: {parent} has none any more; remove its row")),
            Some(count) if count > modules_max => complaints.push(format!(
                "CYCLES: {count} modules of {parent} import each other in cycles, more than the \
                 {modules_max} that are accepted ({reason})"
            )),
            Some(_) => {}
        }
    }
    complaints
}

/// A module, from the root of its crate, or a path as it is in the code.
type Path = Vec<String>;

type Modules = BTreeMap<Path, Module>;

/// Each module, its imports, and for each import a path that leads there.
type Imports = BTreeMap<Path, BTreeMap<Path, String>>;

#[derive(Default)]
struct Module {
    /// Paths of `use` declarations, and those in other code that begin with `crate` or `super`.
    paths: Vec<Path>,
    /// What `use` declarations bring into this module, by name.
    names: BTreeMap<String, Path>,
}

impl Module {
    fn read(&mut self, code: &str) {
        let mut rest = code;
        while let Some(at) = find_word(rest, "use ") {
            self.read_paths(&rest[..at]);
            let (tree, after) = rest[at + 4..].split_once(';').unwrap_or_default();
            for (path, name) in leaves(tree) {
                self.paths.push(path.clone());
                self.names.insert(name, path);
            }
            rest = after;
        }
        self.read_paths(rest);
    }

    fn read_paths(&mut self, code: &str) {
        for first in ["crate", "super", "self"] {
            let start = format!("{first}::");
            let mut rest = code;
            while let Some(at) = find_word(rest, &start) {
                rest = &rest[at..];
                let len = rest.find(|c: char| !is_word(c) && c != ':').unwrap_or(rest.len());
                self.paths.push(segments(&rest[..len]));
                rest = &rest[len..];
            }
        }
    }
}

/// The crate and the path of the module that a file has.
fn place(path: &str) -> Option<(&str, Path)> {
    let (krate, path) = in_crates(path)?.split_once("/src/")?;
    let mut parts: Path = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bin", ..] => return None,
        ["lib" | "main"] | [.., "mod"] => drop(parts.pop()),
        _ => {}
    }
    Some((krate, parts))
}

/// Where a word begins, not in the middle of another word or path.
fn find_word(code: &str, word: &str) -> Option<usize> {
    let mut found = code.match_indices(word);
    let at = found.find(|(at, _)| !code[..*at].ends_with(|c| is_word(c) || c == ':'));
    at.map(|(at, _)| at)
}

fn segments(path: &str) -> Path {
    path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The paths of a `use` declaration, each with the name that it brings.
fn leaves(tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some((prefix, group)) = tree.split_once('{') {
        let prefix = segments(prefix);
        let parts = split_settings(group.strip_suffix('}').unwrap_or(group));
        let parts = parts.into_iter().filter(|part| !part.is_empty()).flat_map(leaves);
        return parts.map(|(path, name)| ([&prefix[..], &path].concat(), name)).collect();
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(p, a)| (p, Some(a.trim())));
    let path = segments(path);
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
    name.map(|name| (path, name)).into_iter().collect()
}

fn imports(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (from, module) in modules {
        for path in &module.paths {
            let Some(to) = definition(modules, from, path, 0) else { continue };
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if common == from.len() || common == to.len() {
                continue; // one is in the other, or they are the same
            }
            let (sibling, other) = (from[..=common].to_vec(), to[..=common].to_vec());
            let witness = format!("{}: {}", from.join("/"), path.join("::"));
            imports.entry(sibling).or_default().entry(other).or_insert(witness);
        }
    }
    imports
}

/// The module that defines what a path leads to, if it is in this crate.
fn definition(modules: &Modules, from: &Path, path: &[String], depth: u32) -> Option<Path> {
    let mut module = from.clone();
    let mut rest = path;
    match &rest.first()?[..] {
        "crate" => module.clear(),
        "self" | "super" => {}
        first if modules.contains_key(&child(&module, first)) => {}
        _ => return None,
    }
    while let Some(first @ ("crate" | "self" | "super")) = rest.first().map(String::as_str) {
        if first == "super" {
            module.pop()?;
        }
        rest = &rest[1..];
    }
    while let Some(name) = rest.first() {
        let next = child(&module, name);
        if !modules.contains_key(&next) {
            break;
        }
        (module, rest) = (next, &rest[1..]);
    }
    let renamed = rest.first().and_then(|name| modules.get(&module)?.names.get(name));
    match renamed {
        Some(path) if depth < RENAMES_MAX => {
            let path = [&path[..], &rest[1..]].concat();
            definition(modules, &module, &path, depth + 1).or(Some(module))
        }
        _ => Some(module),
    }
}

fn child(module: &Path, name: &str) -> Path {
    module.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}

/// Each set of modules of which all import each other, directly or not.
fn cycles(imports: &Imports) -> BTreeSet<Vec<Path>> {
    let reached: BTreeMap<_, _> = imports.keys().map(|from| (from, reach(imports, from))).collect();
    let of = |module: &Path| {
        let back = |other: &&Path| reached.get(*other).is_some_and(|all| all.contains(module));
        reached[module].iter().filter(back).cloned().collect::<Vec<_>>()
    };
    imports.keys().map(of).filter(|cycle| cycle.len() > 1).collect()
}

fn reach(imports: &Imports, from: &Path) -> BTreeSet<Path> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    reached
}

/// The imports among modules of a cycle, one for each pair.
fn witnesses(imports: &Imports, cycle: &[Path]) -> Vec<String> {
    let from = cycle.iter().flat_map(|module| &imports[module]);
    from.filter(|(to, _)| cycle.contains(to)).map(|(_, witness)| witness.clone()).collect()
}

/// A name that is brought by one `use` after the other leads to its definition in fewer steps.
const RENAMES_MAX: u32 = 8;

/// Remaining cycles.
pub(super) const CYCLES: &[Cycles] = &[
    Cycles {
        parent: "drive",
        modules_max: 15,
        reason: "the reactor and its phases share one struct",
    },
    Cycles {
        parent: "proxy",
        modules_max: 19,
        reason: "the engine lends its state to both kinds of relays",
    },
    Cycles {
        parent: "proxy/http",
        modules_max: 14,
        reason: "an exchange is one state for all its phases",
    },
    Cycles {
        parent: "proxy/tcp",
        modules_max: 4,
        reason: "a session is one state for all its phases",
    },
    Cycles {
        parent: "server",
        modules_max: 8,
        reason: "a handler and its responder refer to each other",
    },
];
