//! Each rule of the tidy test, held against something bad and something good.

use super::lexer::comments_of;
use super::modules::Cycles;
use super::names::{long_subjects, repeated, too_wide};
use super::packages::{
    compiled_in_c, linked, other_default, too_many, too_many_links, undocumented_features,
};
use super::prose::persons;
use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.into(), text: text.into() }
}

fn rust(text: &str) -> SourceFile {
    file("crates/proto/src/a.rs", text)
}

#[test]
fn comments_and_strings_are_no_code() {
    let text = "let a = \"unsafe \\\" x\"; // unsafe\n/* unsafe */ b'\"' r#\"unsafe\"# 'a' <'a>";
    let code = code_of(text);
    assert_eq!(code.len(), text.len());
    assert!(!code.contains("unsafe") && code.contains("let a =") && code.contains("<'a>"));
}

#[test]
fn long_files() {
    assert_eq!(too_long(&rust(&"\n".repeat(800))).len(), 1);
    assert!(too_long(&rust(&"\n".repeat(799))).is_empty());
}

#[test]
fn unsafe_code() {
    assert_eq!(unsafe_outside_sys(&rust("a\nunsafe { b }")).len(), 1);
    assert!(unsafe_outside_sys(&rust("#![forbid(unsafe_code)] // unsafe")).is_empty());
    assert!(unsafe_outside_sys(&file("crates/sys/src/a.rs", "unsafe {}")).is_empty());
    assert!(unsafe_outside_sys(&file("capi/x-abi/src/a.rs", "unsafe {}")).is_empty());
    assert!(!unsafe_outside_sys(&file("capi/x/src/a.rs", "unsafe {}")).is_empty());
    let root = |text| unforbidden(&file("crates/proto/src/lib.rs", text)).len();
    assert_eq!((root("mod a;"), root("//! Nothing yet.")), (1, 0));
    assert_eq!((root("#![forbid(unsafe_code)]\nmod a;"), root("// #![forbid]\nmod a;")), (0, 1));
}

#[test]
fn missing_paths() {
    let source = ("crates/a/src/b.rs", "pub fn pick() {}");
    let complaints =
        |text| paths::missing(&[file("docs/a.md", text), file(source.0, source.1)]).len();
    assert_eq!(complaints("`crates/a/src/b.rs`, `src/b.rs`, `b.rs`, `Some.rs of`"), 0);
    assert_eq!(complaints("`crates/a/src/c.rs` and `c.rs`"), 2);
    assert_eq!(complaints("| A choice | `crates/a/src/b.rs` | `Group::pick` |"), 0);
    assert_eq!(complaints("| A choice | `crates/a/src/b.rs` | `picks` |"), 1);
    assert!(paths::missing(&[file("CHANGELOG.md", "`c.rs`")]).is_empty());
}

#[test]
fn source_file_that_the_map_does_not_name_is_reported() {
    let map = "## c\n\n| file | decides |\n|---|---|\n| `a.rs`, `b/` | all |\n";
    let complaints = |paths: &[&str]| {
        let sources = paths.iter().map(|path| file(path, ""));
        let files: Vec<_> = sources.chain([file("docs/map.md", map)]).collect();
        paths::unmapped(&files)
    };
    let mapped = ["crates/c/src/a.rs", "crates/c/src/b/x.rs", "crates/c/src/lib.rs"];
    assert_eq!(complaints(&mapped), [""; 0]);
    assert_eq!(complaints(&mapped[..2]), [""; 0]);
    let added = [&mapped[..], &["crates/c/src/d.rs", "crates/other/src/e.rs"]].concat();
    assert_eq!(complaints(&added), ["docs/map.md: 'c' has no row with `d.rs`"]);
    assert_eq!(complaints(&mapped[1..]), ["docs/map.md: 'c' has no file `a.rs`"]);
}

#[test]
fn clock_reads() {
    assert_eq!(clock_outside_sys(&rust("let now = std::time::Instant::now();")).len(), 1);
    assert_eq!(clock_outside_sys(&rust("SystemTime::now()")).len(), 1);
    let tests = "#[cfg(test)]\nmod tests { Instant::now() }";
    assert!(clock_outside_sys(&rust(tests)).is_empty());
    assert!(clock_outside_sys(&file("crates/sys/src/clock.rs", "Instant::now()")).is_empty());
}

#[test]
fn systems() {
    let text = "#[cfg(target_os = \"linux\")] fn a() {}";
    assert_eq!(systems_outside_sys(&rust(text)).len(), 1);
    assert!(systems_outside_sys(&rust("// target_os")).is_empty());
    for path in ["crates/sys/src/bsd/mod.rs", "crates/proto/src/plan.rs"] {
        assert!(systems_outside_sys(&file(path, text)).is_empty());
    }
}

#[test]
fn unfinished_work() {
    for text in ["thread::sleep(a)", "#[ignore]", "#[ignore = \"a\"]", "todo!()", "dbg!(a)"] {
        assert_eq!(unfinished(&rust(text)).len(), 1, "{text}");
    }
    assert_eq!(unfinished(&rust("unimplemented!()")).len(), 1);
    assert!(unfinished(&rust("// todo! later")).is_empty());
}

#[test]
fn calls_past_the_ledger() {
    let check = |text: &str| uncounted(&[file("crates/sys/src/a.rs", text)], &[]).len();
    let good = "pub fn send() { syscall!(send, libc::send(1)) } pub fn more() { send() }";
    assert_eq!(check(good), 0);
    assert_eq!(check("pub fn send() { libc::send(1) }"), 2);
    assert_eq!(check(&format!("{good} pub fn other() {{ libc::send(1) }}")), 2);
    assert_eq!(check(&format!("{good} pub fn other() {{ self.send() }}")), 1);
    assert_eq!(check("pub fn len() { 1 }"), 1);
    assert_eq!(check("pub fn other() { Err(unsupported(1)) }"), 0);
    assert_eq!(check("fn len() { libc::sysconf(1) }"), 0);
    assert_eq!(uncounted(&[], &[("a", "gone", "")]).len(), 1);
}

#[test]
fn new_edges() {
    let rule = [Edges { name: "engine", may: &["proto"], tests_may: &["sim"] }];
    let check = |text: &str| edges(&[file("crates/engine/Cargo.toml", text)], &rule).len();
    let good = "[dependencies]\nfulmar-proto.workspace = true\nbytes = \"1\"\n\
                [dev-dependencies]\nfulmar-sim.workspace = true";
    assert_eq!(check(good), 0);
    assert_eq!(check(&good.replace("fulmar-sim", "fulmar-sys")), 2);
    assert_eq!(check(&good.replace("bytes", "fulmar-drive")), 1);
    assert_eq!(check("[dependencies]\n[dev-dependencies]"), 2);
    assert_eq!(check("[dependencies"), 2);
    assert_eq!(edges(&[file("crates/x/Cargo.toml", "")], &rule).len(), 1);
}

#[test]
fn modules_that_import_each_other() {
    let check = |a: &str, b: &str, accepted: &[Cycles]| {
        let files = [
            file("crates/proto/src/lib.rs", "mod a;\nmod b;\npub use b::B;"),
            file("crates/proto/src/a.rs", a),
            file("crates/proto/src/a/below.rs", "use crate::b::C;"),
            file("crates/proto/src/b/mod.rs", b),
        ];
        import_cycles(&files, accepted).len()
    };
    assert_eq!(check("mod below;", "struct B;", &[]), 0);
    assert_eq!(check("use crate::B;", "fn b() { crate::c::d() }", &[]), 0);
    assert_eq!(check("mod below;", "use super::a::A;", &[]), 1, "through a submodule");
    assert_eq!(check("", "use crate::{B, a::{A, D as E}};", &[]), 1, "in a tree of imports");
    assert_eq!(check("use crate::B;", "fn b() { super::a::c() }", &[]), 1, "in an expression");
    assert_eq!(check("", "#[cfg(test)]\nmod tests { use crate::a::A; }", &[]), 0, "in tests");
    assert_eq!(check("", "// crate::a::A\n\"crate::a::A\"", &[]), 0, "not in code");
    let row = |modules_max| [Cycles { parent: "proto", modules_max, reason: "" }];
    assert_eq!(check("", "use super::a::A;", &row(2)), 0);
    assert_eq!(check("", "use super::a::A;", &row(1)), 1, "more modules than accepted");
    assert_eq!(check("", "", &row(2)), 1, "a row without cycles");
}

#[test]
fn a_map_that_differs_from_the_manifests() {
    let manifest = "[dependencies]\nfulmar-proto.workspace = true\nbytes = \"1\"";
    let check = |rows: &str| {
        let map =
            format!("# A\n\n## Crates\n\n| crate | what | may import |\n{rows}\n## B\n| `c` |");
        let files = [
            file("docs/architecture.md", &map),
            file("crates/engine/Cargo.toml", manifest),
            file("tests/Cargo.toml", manifest),
            file("fuzz/Cargo.toml", manifest),
        ];
        crates_on_the_map(&files).len()
    };
    let engine = "| `engine` | slots of `proto` | `proto` |\n";
    let tests = "| `tests` | rules | any, for tests |\n";
    assert_eq!(check(&format!("{engine}{tests}")), 0);
    assert_eq!(check(engine), 1, "a row is missing");
    assert_eq!(check(&format!("{engine}{tests}| `gone` | x | nothing of ours |\n")), 1);
    assert_eq!(check(&format!("{}{tests}", engine.replace("| `proto` |", "| nothing |"))), 1);
    assert_eq!(check(&format!("{}{tests}", engine.replace("`proto` |", "`proto`, `sys` |"))), 1);
    assert_eq!(crates_on_the_map(&[]).len(), 1);
}

#[test]
fn packages_of_the_library() {
    let packages = ["a v1.0.0", "cc-like v1.0.0"].map(str::to_owned).into_iter().collect();
    assert_eq!(too_many("x", &packages, 1).len(), 1);
    assert_eq!(too_many("x", &BTreeSet::new(), 1).len(), 1, "nothing was counted");
    assert!(too_many("x", &packages, 2).is_empty());
    assert!(compiled_in_c("x", &packages).is_empty());
    let with_cc = ["a v1.0.0", "cc v1.2.0"].map(str::to_owned).into_iter().collect();
    assert_eq!(compiled_in_c("x", &with_cc).len(), 1);
}

#[test]
fn programs_of_a_test_run() {
    let target =
        |kind: &str, test: bool| serde_json::json!({ "kind": [kind], "name": "n", "test": test });
    let count = |targets: &[serde_json::Value]| {
        linked(&serde_json::json!({ "packages": [{ "name": "p", "targets": targets }] })).len()
    };
    assert_eq!(count(&[target("lib", true), target("test", true)]), 2);
    assert_eq!(count(&[target("lib", false), target("custom-build", false)]), 0);
    assert_eq!(count(&[target("bin", true), target("bin", false)]), 3, "a program and its tests");
    assert_eq!(count(&[target("example", false), target("example", true)]), 2);
    assert!(too_many_links(&vec!["p:n (test)".to_owned(); 60]).is_empty());
    assert_eq!(too_many_links(&vec!["p:n (test)".to_owned(); 61]).len(), 1);
    assert_eq!(too_many_links(&[]).len(), 1, "nothing was counted");
}

#[test]
fn features_of_the_library() {
    let manifest = |text: &str| file("crates/fulmar/Cargo.toml", text);
    let good = "[features]\ndefault = [\"server\"]\nserver = []\n";
    assert!(other_default(&[manifest(good)]).is_empty());
    assert_eq!(other_default(&[manifest(&good.replace("[\"server\"]", "[]"))]).len(), 1);
    assert_eq!(other_default(&[]).len(), 1);
    let row = "| `server` | a |";
    let check = |library: &str, page: &str| {
        let files = [
            manifest(good),
            file("crates/fulmar/src/lib.rs", library),
            file("docs/server.md", page),
        ];
        undocumented_features(&files).len()
    };
    assert_eq!(check(row, row), 0);
    assert_eq!(check(row, "server"), 1);
    assert_eq!(check("", ""), 2);
    assert_eq!(undocumented_features(&[manifest("[features")]).len(), 1);
}

#[test]
fn machines_and_registries() {
    for (what, _) in FOREIGN {
        assert_eq!(foreign(&file("docs/a.md", &format!("see {what}x"))).len(), 1, "{what}");
        assert!(foreign(&file("Cargo.lock", what)).is_empty());
    }
}

#[test]
fn pages_and_links() {
    let readme = file("README.md", "[a](docs/a.md) [w](https://w/)\n```\n[x](y)\n```\n");
    let page = |name: &str, text: &str| file(&format!("docs/{name}.md"), text);
    let good = [readme, page("a", "[r](../README.md#x) [own](#here)")];
    assert!(links(&good).is_empty());
    let [readme, first] = good;
    assert_eq!(links(&[readme, first, page("b", "[gone](c.md)")]).len(), 2);
    assert_eq!(links(&[]).len(), 1);
}

#[test]
fn flags_without_a_page_and_the_other_way_round() {
    let source = "struct A {\n/// What\n#[arg(short = 'c', long, value_name = \"N\", \
                  value_parser = range(1, 2))]\nconnections: u32,\n#[arg(long = \"no-tls\")]\n\
                  #[serde(skip)]\npub(crate) tls: bool,\n#[arg(default_value = \"--x\")]\n\
                  dir: A,\n#[arg(short, long)]\nverbose: bool }";
    let expected = ["--connections", "--no-tls", "--verbose", "-c", "-v"];
    assert!(declared_flags(source).iter().eq(expected), "{:?}", declared_flags(source));
    let page = "`-c N`, `--connections N` `--no-tls` `-v` `--verbose=A` `--help` `-`\n\
                ```console\n$ curl `--data`\n```\n";
    let check = |source: &str, page: &str| {
        let files = [file("crates/cli/src/serve.rs", source), file("docs/serve.md", page)];
        flags(&files).len()
    };
    assert_eq!(check(source, page), 0);
    assert_eq!(check(source, &page.replace("`-v`", "`--list`")), 2);
    assert_eq!(check(source, ""), 5);
    assert_eq!(check("", page), 0);
}

#[test]
fn changelogs() {
    assert_eq!(unreleased(&file("CHANGELOG.md", "# Changelog\n")).len(), 1);
    assert!(unreleased(&file("CHANGELOG.md", "## [Unreleased]\n")).is_empty());
}

#[test]
fn the_walk_without_git_finds_the_same_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |paths: Vec<PathBuf>| -> BTreeSet<String> {
        let rust = paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
        rust.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let listed = listed(root).map_or_else(BTreeSet::new, names);
    let walked = names(walked(root));
    assert!(listed.iter().all(|name| walked.contains(name)));
}

#[test]
fn types_of_the_same_name() {
    let check = |a: &str, b: &str, shared: &[(&str, &str)]| {
        let files = [file("crates/a/src/lib.rs", a), file("tests/b.rs", b)];
        (repeated(&files, shared, 0).len(), repeated(&files, shared, 1).len())
    };
    let good = "pub struct A;\nimpl T for A {\n    type Item = u8;\n}\n// struct B;\n\"struct B;\"";
    assert_eq!(check(good, "enum B {}\nimpl T for B {\n    type Item = u8;\n}", &[]), (0, 0));
    for text in ["pub(crate) enum A {}", "mod m {\n    pub struct A<T>(T);\n}", "pub type A = u8;"]
    {
        assert_eq!(check(good, text, &[]), (1, 0), "{text}");
        assert_eq!(check(good, text, &[("A", "a reason")]), (0, 0), "{text}");
    }
    assert_eq!(check(good, "", &[("A", "a reason")]), (1, 1), "it is unique");
}

#[test]
fn wide_lines() {
    let line = |columns: usize| format!("// {}\n", "ä".repeat(columns - 3));
    assert!(too_wide(&rust(&line(100))).is_empty());
    assert_eq!(too_wide(&rust(&line(101))).len(), 1);
    assert!(too_wide(&file("docs/a.md", &line(101))).is_empty());
}

#[test]
fn subjects_of_commits() {
    let subject = |columns: usize| format!("0123abc {}\n1234abc Fix a leak\n", "x".repeat(columns));
    assert!(long_subjects(&subject(72)).is_empty());
    assert_eq!(long_subjects(&subject(73)).len(), 1);
}

#[test]
fn components_as_persons() {
    let check = |path: &str, text: &str| persons(&[file(path, text)], 0.0, 0.0).len();
    assert_eq!(check("a.rs", "// It connects.\nlet who = \"nobody // says\"; // `who_is`"), 0);
    assert_eq!(check("a.rs", "// Whoever connects"), 1);
    assert_eq!(check("a.rs", "//! It says no.\nfn a() {} // He does"), 2);
    assert_eq!(check("docs/a.md", "A server that stands"), 1);
    assert_eq!(check("scripts/a", "#!/bin/sh\nwho # asks"), 1);
    assert_eq!(check("a.txt", "Nobody says"), 0);
    let text = "word ".repeat(999) + "somebody";
    assert!(persons(&[file("a.md", &text)], 1.0, 0.0).is_empty());
    assert_eq!(persons(&[file("a.md", &text)], 0.9, 0.0).len(), 1);
    assert_eq!(comments_of("a();\n\n  // b\n\"//\"; /// c"), [(3, "// b"), (4, "/// c")]);
}
