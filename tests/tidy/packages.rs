//! Rules for packages: how many a program on the library builds, and how many programs a test run
//! links.

use std::collections::BTreeSet;
use std::process::Command;

use super::{SourceFile, assert_none, tree};

#[test]
fn a_server_on_the_library_builds_few_packages() {
    for (features, packages_max) in [("server", SERVER_MAX), ("server,tls", TLS_MAX)] {
        assert_none(too_many(features, &packages("normal", features), packages_max));
    }
}

#[test]
fn a_server_without_tls_and_names_needs_no_c_compiler() {
    for features in ["server", "server,web,serve,http,cookies,proxy-protocol,url"] {
        assert_none(compiled_in_c(features, &packages("normal,build", features)));
    }
}

#[test]
fn the_counted_features_are_the_default() {
    assert_none(other_default(&tree()));
}

#[test]
fn every_feature_of_the_library_is_documented() {
    assert_none(undocumented_features(&tree()));
}

#[test]
fn a_test_run_links_few_programs() {
    assert_none(too_many_links(&linked(&metadata())));
}

/// The programs that `cargo test --workspace` and the build of the programs under test link, as
/// PACKAGE:NAME (KIND).
pub(super) fn linked(metadata: &serde_json::Value) -> Vec<String> {
    let items = |value: &serde_json::Value, key: &str| value[key].as_array().cloned();
    let mut found = Vec::new();
    for package in items(metadata, "packages").into_iter().flatten() {
        for target in items(&package, "targets").into_iter().flatten() {
            let kind = target["kind"][0].as_str().unwrap_or_default();
            let name = format!("{}:{}", package["name"], target["name"]).replace('"', "");
            let is_tested = target["test"] == true;
            if is_tested && kind != "example" {
                found.push(format!("{name} (tests of {kind})"));
            }
            if matches!(kind, "bin" | "example") {
                found.push(format!("{name} ({kind})"));
            }
        }
    }
    found
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version", "1"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo is started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata fails:\n{errors}");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

pub(super) fn too_many_links(linked: &[String]) -> Vec<String> {
    if (1..=LINKS_MAX).contains(&linked.len()) {
        return Vec::new();
    }
    vec![format!(
        "a test run links {} programs, {LINKS_MAX} are allowed; make a new test a module of an \
         existing binary (tests/it in a crate, CONTRIBUTING.md): {}",
        linked.len(),
        linked.join(", ")
    )]
}

/// The packages, ours included, that `fulmar` with these features depends on.
fn packages(edges: &str, features: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--locked", "-p", "fulmar", "--prefix", "none"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--format", "{p}", "--edges", edges, "--no-default-features"])
        .args(["--features", features])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .expect("cargo is started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree fails:\n{errors}");
    let text = String::from_utf8(output.stdout).expect("package names are UTF-8");
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)"));
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

pub(super) fn too_many(features: &str, packages: &BTreeSet<String>, max: usize) -> Vec<String> {
    let count = packages.len();
    if (1..=max).contains(&count) {
        return Vec::new();
    }
    let names: Vec<_> = packages.iter().map(String::as_str).collect();
    vec![format!(
        "fulmar with the features {features} builds {count} packages, {max} are allowed; put new \
         dependencies behind a feature: {}",
        names.join(", ")
    )]
}

pub(super) fn compiled_in_c(features: &str, packages: &BTreeSet<String>) -> Vec<String> {
    let name = |package: &String| package.split(' ').next().unwrap_or_default().to_owned();
    let builders = packages.iter().map(name).filter(|name| C_BUILDERS.contains(&&name[..]));
    let complain = |name| {
        format!("fulmar with the features {features} depends on {name}, which compiles C code")
    };
    builders.map(complain).collect()
}

pub(super) fn other_default(files: &[SourceFile]) -> Vec<String> {
    let Some(manifest) = files.iter().find(|file| file.path == MANIFEST) else {
        return vec![format!("{MANIFEST} is missing")];
    };
    if manifest.text.lines().any(|line| line == "default = [\"server\"]") {
        return Vec::new();
    }
    vec![format!("{MANIFEST}: the default is not [\"server\"]; count its packages in packages.rs")]
}

/// Each feature has a row in the tables of the crate's documentation and of the server's page.
pub(super) fn undocumented_features(files: &[SourceFile]) -> Vec<String> {
    let manifest = files.iter().find(|file| file.path == MANIFEST);
    let manifest = manifest.map_or("", |file| &file.text[..]);
    let table: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{MANIFEST}: {error}")],
    };
    let features = table.get("features").and_then(toml::Value::as_table).into_iter().flatten();
    let names: Vec<_> = features.map(|(name, _)| name).filter(|name| *name != "default").collect();
    let mut complaints = Vec::new();
    for path in FEATURE_TABLES {
        let text = files.iter().find(|file| file.path == *path).map_or("", |file| &file.text[..]);
        for name in names.iter().filter(|name| !text.contains(&format!("| `{name}`"))) {
            complaints.push(format!("{path}: add a row for the feature {name} of fulmar"));
        }
    }
    complaints
}

const MANIFEST: &str = "crates/fulmar/Cargo.toml";
const FEATURE_TABLES: &[&str] = &["crates/fulmar/src/lib.rs", "docs/server.md"];

/// Packages of a server on the library, ours included.
const SERVER_MAX: usize = 25;
/// The same with TLS.
const TLS_MAX: usize = 38;
/// Programs linked by a test run.
const LINKS_MAX: usize = 60;
/// Build dependencies that start a C compiler or cmake.
const C_BUILDERS: &[&str] = &["bindgen", "cc", "cmake"];
