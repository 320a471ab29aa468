//! Rules of this repository that no lint checks. Each complaint contains the remedy.
//!
//! A rule is a function from a file to complaints, so that it is tested on bad examples in
//! `rules_can_fail`; here, each is held against the whole tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crates::{crates_on_the_map, edges};
use lexer::code_of;
use modules::{CYCLES, import_cycles};

/// A file of the repository.
struct SourceFile {
    /// From the root, with slashes.
    path: String,
    text: String,
}

#[test]
fn files_are_short() {
    hold(too_long);
}

#[test]
fn unsafe_code_is_in_sys_only() {
    hold(unsafe_outside_sys);
}

#[test]
fn every_crate_forbids_unsafe_code() {
    hold(unforbidden);
}

#[test]
fn the_clock_is_read_in_sys_only() {
    hold(clock_outside_sys);
}

#[test]
fn systems_are_distinguished_in_sys_only() {
    hold(systems_outside_sys);
}

#[test]
fn nothing_sleeps_is_ignored_or_is_left_to_be_done() {
    hold(unfinished);
}

#[test]
fn every_system_call_is_entered_in_the_ledger() {
    let sys = tree().into_iter().filter(|file| is_source_of(file, "sys")).collect::<Vec<_>>();
    assert_none(uncounted(&sys, PURE));
}

#[test]
fn crates_import_allowed_crates_only() {
    assert_none(edges(&tree(), ALLOWED));
}

#[test]
fn modules_import_their_siblings_in_one_direction() {
    assert_none(import_cycles(&tree(), CYCLES));
}

#[test]
fn the_map_of_crates_agrees_with_the_manifests() {
    assert_none(crates_on_the_map(&tree()));
}

#[test]
fn nothing_names_a_machine_or_a_registry() {
    hold(foreign);
}

#[test]
fn every_page_is_linked_and_every_link_leads_somewhere() {
    assert_none(links(&tree()));
}

#[test]
fn files_and_functions_that_documents_name_exist() {
    assert_none(paths::missing(&tree()));
}

#[test]
fn the_map_names_every_source_file() {
    assert_none(paths::unmapped(&tree()));
}

#[test]
fn flags_and_pages_agree() {
    assert_none(flags(&tree()));
}

#[test]
fn the_changelog_has_an_unreleased_section() {
    hold(unreleased);
}

// The rules.

fn too_long(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().count();
    complain(is_rust(file) && lines >= LINES_MAX, || {
        format!("{}: {lines} lines; split it into modules below {LINES_MAX}", file.path)
    })
}

fn unsafe_outside_sys(file: &SourceFile) -> Vec<String> {
    let allowed = ["crates/sys/", "fuzz/"].iter().any(|dir| file.path.starts_with(dir));
    if !is_rust(file) || allowed || is_c_border(&file.path) {
        return Vec::new();
    }
    let code = code_of(&file.text);
    let lines = code.lines().zip(1..).filter(|(line, _)| has_word(line, "unsafe"));
    let advice = "put it behind a safe function of crates/sys";
    lines.map(|(_, at)| format!("{}:{at}: unsafe; {advice}", file.path)).collect()
}

fn unforbidden(file: &SourceFile) -> Vec<String> {
    let parts: Vec<_> = file.path.split('/').collect();
    let is_root = match parts[..] {
        ["crates" | "capi", krate, "src", "lib.rs" | "main.rs"] => krate != "sys",
        _ => false,
    };
    let code = code_of(&file.text);
    let is_root = is_root && !is_c_border(&file.path);
    let silent = is_root && !code.trim().is_empty() && !code.contains("#![forbid(unsafe_code)]");
    complain(silent, || format!("{}: add #![forbid(unsafe_code)] below the header", file.path))
}

/// Tests may start their virtual time at the current time; measured and awaited times may not.
fn clock_outside_sys(file: &SourceFile) -> Vec<String> {
    if !is_rust(file) || is_test(file) || is_source_of(file, "sys") {
        return Vec::new();
    }
    let code = without_tests(&file.text);
    let reads = |line: &str| line.contains("Instant::now") || line.contains("SystemTime::now");
    let lines = code.lines().zip(1..).filter(|(line, _)| reads(line));
    let advice = "take the time as an argument, or read it with fulmar_sys::now, which counts";
    lines.map(|(_, at)| format!("{}:{at}: reads the clock; {advice}", file.path)).collect()
}

/// Elsewhere, the abilities of a system are data: `fulmar_proto::Abilities`, which is selected in
/// one place.
fn systems_outside_sys(file: &SourceFile) -> Vec<String> {
    let chooses = file.path == "crates/proto/src/plan.rs";
    if !is_rust(file) || is_source_of(file, "sys") || chooses {
        return Vec::new();
    }
    let code = code_of(&file.text);
    let lines = code.lines().zip(1..).filter(|(line, _)| has_word(line, "target_os"));
    let advice = "put the difference behind a function of crates/sys, or into Abilities";
    lines.map(|(_, at)| format!("{}:{at}: target_os; {advice}", file.path)).collect()
}

fn unfinished(file: &SourceFile) -> Vec<String> {
    if !is_rust(file) {
        return Vec::new();
    }
    let code = code_of(&file.text);
    let mut complaints = Vec::new();
    for (line, at) in code.lines().zip(1..) {
        for (what, advice) in UNFINISHED {
            if line.contains(what) {
                complaints.push(format!("{}:{at}: {what}; {advice}", file.path));
            }
        }
    }
    complaints
}

/// Every public function of `sys` counts its call, and every call of the C library is made through
/// `syscall!`.
fn uncounted(files: &[SourceFile], pure: &[(&str, &str, &str)]) -> Vec<String> {
    let functions: Vec<_> = files.iter().flat_map(functions).collect();
    let mut counted: BTreeSet<&str> = BTreeSet::new();
    loop {
        let enters = |f: &&SourceFunction| {
            f.body.contains("syscall!(")
                || f.body.contains("unsupported(") // no system call there
                || f.body.contains("enter_clock_read()")
                || counted.iter().any(|name| calls(&f.body, name))
        };
        let next: BTreeSet<_> = functions.iter().filter(enters).map(|f| &f.name[..]).collect();
        if next == counted {
            break;
        }
        counted = next;
    }
    let mut complaints = Vec::new();
    let listed =
        |f: &SourceFunction| pure.iter().any(|(m, name, _)| *m == f.module && *name == f.name);
    for f in functions.iter().filter(|f| f.public && !counted.contains(&f.name[..]) && !listed(f)) {
        complaints.push(format!(
            "crates/sys: {}::{} enters nothing in the ledger; make its call with syscall!, or \
             list it in PURE with the reason",
            f.module, f.name
        ));
    }
    for f in functions.iter().filter(|f| calls_libc(&f.body) && !f.body.contains("syscall!(")) {
        complaints.push(format!(
            "crates/sys: {}::{} calls the C library past the ledger; use syscall!",
            f.module, f.name
        ));
    }
    for (module, name, _) in pure {
        if !functions.iter().any(|f| f.module == *module && f.name == *name) {
            complaints.push(format!("PURE lists {module}::{name}, which is gone; remove it"));
        }
    }
    complaints
}

fn foreign(file: &SourceFile) -> Vec<String> {
    if file.path.ends_with("Cargo.lock") {
        return Vec::new(); // generated by cargo, with the sources of packages
    }
    let mut complaints = Vec::new();
    for (line, at) in file.text.lines().zip(1..) {
        for (what, advice) in FOREIGN {
            if line.contains(what) {
                complaints.push(format!("{}:{at}: {what}; {advice}", file.path));
            }
        }
    }
    complaints
}

fn links(files: &[SourceFile]) -> Vec<String> {
    let known: BTreeSet<&str> = files.iter().map(|file| &file.path[..]).collect();
    let Some(readme) = files.iter().find(|file| file.path == "README.md") else {
        return vec!["README.md is missing; it is where everybody begins".into()];
    };
    let linked: BTreeSet<_> = targets(readme).into_iter().collect();
    let pages = files.iter().filter(|f| f.path.starts_with("docs/") && f.path.ends_with(".md"));
    let mut complaints: Vec<_> = pages
        .filter(|page| !linked.contains(&page.path))
        .map(|page| format!("{}: nobody finds it; link it from README.md", page.path))
        .collect();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for target in targets(file).into_iter().filter(|target| !known.contains(&target[..])) {
            complaints.push(format!("{}: a link to {target}, which is not there", file.path));
        }
    }
    complaints
}

fn flags(files: &[SourceFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for tool in TOOLS {
        let (module, folder) =
            (format!("crates/cli/src/{tool}.rs"), format!("crates/cli/src/{tool}/"));
        let of_tool = |file: &&SourceFile| {
            let is_bench = tool == &"bench" && file.path == "bench/src/arguments.rs";
            file.path == module || file.path.starts_with(&folder) || is_bench
        };
        let shares = |name: &str| {
            let text = format!(": {name}::");
            files.iter().filter(of_tool).any(|file| file.text.contains(&text))
        };
        let shared = SHARED_FLAGS.iter().filter(|name| shares(name));
        let shared: Vec<_> = shared.map(|name| format!("crates/cli/src/{name}.rs")).collect();
        let sources = files.iter().filter(|file| of_tool(file) || shared.contains(&file.path));
        let declared: BTreeSet<_> = sources.flat_map(|file| declared_flags(&file.text)).collect();
        let page = format!("docs/{tool}.md");
        let text = files.iter().find(|file| file.path == page).map_or("", |file| &file.text[..]);
        let described = described_flags(text);
        if declared.is_empty() {
            continue; // the tool has no arguments yet
        }
        for flag in declared.difference(&described) {
            complaints.push(format!("{page}: {flag} is missing; describe it, in backquotes"));
        }
        for flag in described.difference(&declared) {
            complaints.push(format!("{page}: fulmar {tool} has no {flag}; remove it"));
        }
    }
    complaints
}

fn unreleased(file: &SourceFile) -> Vec<String> {
    let lacks = !file.text.lines().any(|line| line == "## [Unreleased]");
    complain(file.path == "CHANGELOG.md" && lacks, || {
        format!("{}: add a section `## [Unreleased]` at the top", file.path)
    })
}

// What the rules are made of.

struct SourceFunction {
    module: String,
    name: String,
    public: bool,
    body: String,
}

/// The functions of a file, without those of its tests. A body ends with its brace.
fn functions(file: &SourceFile) -> Vec<SourceFunction> {
    let code = without_tests(&file.text);
    let module = Path::new(&file.path)
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if code[..at].chars().next_back().is_some_and(is_word) {
            continue;
        }
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        let Some(start) = rest.find(['{', ';']).filter(|i| rest[*i..].starts_with('{')) else {
            continue;
        };
        let line = code[..at].rsplit('\n').next().unwrap_or_default();
        found.push(SourceFunction {
            module: module.clone(),
            public: line.trim_start().starts_with("pub ") && !name.is_empty(),
            name,
            body: enclosed(&rest[start..], '{', '}').to_owned(),
        });
    }
    found.retain(|function| !function.name.is_empty());
    found
}

/// From the first character, which opens, to its closing one.
fn enclosed(text: &str, open: char, close: char) -> &str {
    let mut depth = 0_u32;
    for (at, c) in text.char_indices() {
        depth += u32::from(c == open);
        if c == close {
            depth -= 1;
            if depth == 0 {
                return &text[..=at];
            }
        }
    }
    text
}

/// True if `body` calls our function of this name: no method, and not the C library's.
fn calls(body: &str, name: &str) -> bool {
    body.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = &body[..at];
        !before.ends_with(is_word) && !before.ends_with('.') && !before.ends_with("libc::")
    })
}

/// Some functions make no system call, as `sysconf(3)`.
fn calls_libc(body: &str) -> bool {
    body.split("libc::").skip(1).any(|rest| {
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        !CALL_FREE.contains(&&name[..]) && rest[name.len()..].starts_with('(')
    })
}

/// Our crates in a section of a manifest, without the prefix.
fn imports(manifest: &str, section: &str) -> Result<BTreeSet<String>, toml::de::Error> {
    let manifest: toml::Table = manifest.parse()?;
    let names = manifest.get(section).and_then(toml::Value::as_table).into_iter().flatten();
    Ok(names.filter_map(|(name, _)| Some(name.strip_prefix("fulmar-")?.to_owned())).collect())
}

/// The targets of the relative links of a page, from the root of the repository.
fn targets(page: &SourceFile) -> Vec<String> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let prose = prose_of(&page.text);
    let links = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let local = links.filter(|link| !link.contains(':') && !link.starts_with('#'));
    local.map(|link| resolve(folder, link.split('#').next().unwrap_or(link))).collect()
}

fn resolve(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A page without its fenced blocks.
fn prose_of(page: &str) -> String {
    let outside = page.split("\n```").step_by(2);
    outside.collect::<Vec<_>>().join("\n")
}

/// Flags that clap declares: `#[arg(short, long)]` and the field that follows. A tool that parses
/// its flags itself has a table of them: `Flag("-f", ..)`.
fn declared_flags(source: &str) -> BTreeSet<String> {
    let code = code_of(source);
    let table = source.split("Flag(").skip(1).filter_map(|rest| {
        let name = rest.trim_start().strip_prefix("\"-")?.split('"').next()?;
        Some(format!("-{name}"))
    });
    let mut found: BTreeSet<_> = table.collect();
    found.retain(|flag| !matches!(&flag[..], "--" | "-h"));
    for (at, _) in code.match_indices("#[arg(") {
        let start = at + "#[arg".len();
        let end = start + enclosed(&code[start..], '(', ')').len();
        let field = field_after(&code[end..]);
        for setting in split_settings(&source[start + 1..end - 1]) {
            let (key, value) = setting.split_once('=').map_or((setting, None), |(key, value)| {
                (key.trim(), Some(value.trim().trim_matches(['"', '\'']).to_owned()))
            });
            match key.trim() {
                "long" => found.insert(format!(
                    "--{}",
                    value.unwrap_or_else(|| field.trim_start_matches("r#").replace('_', "-"))
                )),
                "short" => {
                    found.insert(format!("-{}", value.unwrap_or_else(|| field[..1].to_owned())))
                }
                _ => false,
            };
        }
    }
    found
}

/// The settings between the parentheses, split at commas outside of parentheses and strings.
fn split_settings(text: &str) -> Vec<&str> {
    let code = code_of(text);
    let (mut depth, mut start, mut found) = (0_i32, 0, Vec::new());
    for (at, c) in code.char_indices() {
        depth += i32::from(matches!(c, '(' | '[' | '{')) - i32::from(matches!(c, ')' | ']' | '}'));
        if c == ',' && depth == 0 {
            found.push(text[start..at].trim());
            start = at + 1;
        }
    }
    found.push(text[start..].trim());
    found
}

/// The name of the field that an attribute belongs to.
fn field_after(code: &str) -> &str {
    let line = code.lines().skip(1).map(str::trim);
    let mut fields = line.filter(|line| !line.is_empty() && !line.starts_with("#["));
    let field = fields.next().unwrap_or_default();
    let field = field.split(':').next().unwrap_or_default();
    field.rsplit(' ').next().unwrap_or_default()
}

/// Flags that a page names in backquotes, outside its examples. Every tool has `--help`.
fn described_flags(page: &str) -> BTreeSet<String> {
    let prose = prose_of(page);
    let spans = prose.split('`').skip(1).step_by(2);
    let flags = spans.filter(|span| span.starts_with('-') && span.len() > 1);
    let words = flags.map(|span| span.split([' ', '=', '[']).next().unwrap_or(span).to_owned());
    words.filter(|flag| !matches!(&flag[..], "--help" | "-h" | "--version" | "--")).collect()
}

/// The code of a file before its tests, which are last.
fn without_tests(text: &str) -> String {
    let code = code_of(text);
    let end = code.find("#[cfg(test)]\nmod tests").unwrap_or(code.len());
    code[..end].to_owned()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_word) && !line[at + word.len()..].starts_with(is_word)
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_rust(file: &SourceFile) -> bool {
    file.path.ends_with(".rs")
}

fn is_test(file: &SourceFile) -> bool {
    file.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

/// The part of a path below the folder of the crates, or of the libraries for C.
fn in_crates(path: &str) -> Option<&str> {
    path.strip_prefix("crates/").or_else(|| path.strip_prefix("capi/"))
}

/// The border to C, where pointers are checked.
fn is_c_border(path: &str) -> bool {
    let krate = path.strip_prefix("capi/").and_then(|path| path.split('/').next());
    krate.is_some_and(|name| name.ends_with("-abi"))
}

fn is_source_of(file: &SourceFile, name: &str) -> bool {
    is_rust(file) && file.path.starts_with(&format!("crates/{name}/src/"))
}

fn complain(wrong: bool, message: impl FnOnce() -> String) -> Vec<String> {
    if wrong { vec![message()] } else { Vec::new() }
}

fn hold(rule: impl Fn(&SourceFile) -> Vec<String>) {
    assert_none(tree().iter().flat_map(rule).collect());
}

fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Every text file that git tracks or would track.
fn tree() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is below the root");
    let mut files = Vec::new();
    for path in listed(root).unwrap_or_else(|| walked(root)) {
        let relative = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        if let Ok(text) = fs::read_to_string(&path) {
            files.push(SourceFile { path: relative, text });
        }
    }
    assert!(files.len() > 50, "the repository was not found at {}", root.display());
    files
}

fn listed(root: &Path) -> Option<Vec<PathBuf>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let names = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(names.split_terminator('\0').map(|name| root.join(name)).collect())
}

/// Without git, as in an unpacked archive.
fn walked(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.file_name();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => {
                found.extend(walked(&entry.path()));
            }
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found
}

/// The crates that a crate may import, by their names without the prefix.
struct Edges {
    name: &'static str,
    may: &'static [&'static str],
    tests_may: &'static [&'static str],
}

const fn crate_(name: &'static str, may: &'static [&'static str]) -> Edges {
    Edges { name, may, tests_may: &[] }
}

/// The arrows of docs/architecture.md.
const ALLOWED: &[Edges] = &[
    crate_("sys", &[]),
    crate_("proto", &[]),
    crate_("engine", &["proto"]),
    crate_("drive", &["engine", "proto", "sys"]),
    crate_("semantics", &["proto"]),
    crate_("tls", &["proto"]),
    crate_("names", &["drive", "engine"]),
    crate_("client", &["engine", "proto", "semantics", "tls"]),
    crate_("curl", &["client", "drive", "names", "proto", "sys", "tls"]),
    crate_("curl-abi", &["curl", "sys"]),
    crate_("microhttpd", &["semantics"]),
    crate_("fetch", &["client", "drive", "names", "proto", "semantics", "sys", "tls"]),
    crate_("server", &["engine", "proto", "semantics"]),
    Edges { name: "host", may: &["drive", "engine", "server", "sys"], tests_may: &["proto"] },
    crate_("web", &["proto", "semantics", "server", "sys"]),
    crate_("observe", &["engine", "proto", "semantics", "server", "sys"]),
    crate_("serve", &["proto", "semantics", "server", "sys", "web"]),
    crate_("load", &["client", "drive", "engine", "proto", "sys", "tls"]),
    crate_("haproxy", &["proto", "semantics"]),
    crate_("audit", &["sys"]),
    crate_("proxy", &["engine", "haproxy", "proto", "semantics", "tls"]),
    crate_(
        "gateway",
        &[
            "drive",
            "engine",
            "haproxy",
            "host",
            "observe",
            "proto",
            "proxy",
            "semantics",
            "sys",
            "tls",
        ],
    ),
    crate_(
        "cli",
        &[
            "audit",
            "client",
            "fetch",
            "gateway",
            "haproxy",
            "host",
            "load",
            "observe",
            "proto",
            "semantics",
            "serve",
            "server",
            "sys",
            "tls",
            "web",
        ],
    ),
    crate_(
        "fulmar",
        &[
            "client",
            "drive",
            "engine",
            "host",
            "names",
            "observe",
            "proto",
            "semantics",
            "serve",
            "server",
            "sys",
            "tls",
            "web",
        ],
    ),
    crate_(
        "bench",
        &["audit", "client", "drive", "engine", "load", "proto", "server", "sys", "tls"],
    ),
    crate_(
        "tests",
        &[
            "audit",
            "client",
            "drive",
            "engine",
            "gateway",
            "haproxy",
            "host",
            "load",
            "names",
            "observe",
            "proto",
            "proxy",
            "semantics",
            "serve",
            "server",
            "sys",
            "tls",
            "web",
        ],
    ),
];

/// Public functions of `sys` without a system call: module, name, reason.
const PURE: &[(&str, &str, &str)] = &[
    ("daemon", "process", "a number"),
    ("daemon", "group", "a number"),
    ("events", "is_empty", "looks at bits"),
    ("events", "is_readable", "looks at bits"),
    ("events", "is_writable", "looks at bits"),
    ("events", "is_hangup", "looks at bits"),
    ("events", "is_ended", "looks at bits"),
    ("events", "is_urgent", "looks at bits"),
    ("events", "is_dead", "looks at bits"),
    ("epoll", "tag", "a field"),
    ("epoll", "events", "a field"),
    ("environment", "has_variable", "the environment is this process's memory"),
    ("inherit", "forget_environment", "the environment is this process's memory"),
    ("ledger", "operation", "a field"),
    ("ledger", "operations", "fields"),
    ("ledger", "operations_total", "fields"),
    ("ring", "fault", "a field"),
    ("ring", "into_fault", "a field"),
    ("ring", "set_lists_max", "a field"),
    ("ring", "set_accepts_unknown", "a field"),
    ("poll", "new", "fields"),
    ("poll", "reading", "fields"),
    ("poll", "events", "a field"),
    ("poll", "len", "a field"),
    ("poll", "is_empty", "a field"),
    ("poll", "push", "a field"),
    ("poll", "set", "a field"),
    ("poll", "mute", "a field"),
    ("poll", "swap_remove", "a field"),
    ("poll", "descriptor", "a field"),
    ("process", "total", "a sum"),
    ("ledger", "name", "a constant"),
    ("ledger", "here", "the ledger itself, in this thread's memory"),
    ("ledger", "read", "a ledger, in this process's memory"),
    ("ledger", "count", "a field"),
    ("ledger", "iter", "fields"),
    ("ledger", "total", "a sum"),
    ("ledger", "eagain", "a sum"),
    ("ledger", "clock_reads", "a field"),
];

const UNFINISHED: &[(&str, &str)] = &[
    ("thread::sleep", "wait for what you wait for: a deadline, a message, a line of output"),
    ("#[ignore", "a test that does not run is none; repair it or remove it"),
    ("todo!", "finish it, or return an error that says so"),
    ("unimplemented!", "finish it, or return an error that says so"),
    ("dbg!", "remove it"),
];

/// Written in two pieces, so that this file keeps its own rule.
const FOREIGN: &[(&str, &str)] = &[
    (concat!("/ho", "me/"), "a path of somebody's machine; use one that everybody has"),
    (concat!("/ro", "ot/"), "a path of somebody's machine; use one that everybody has"),
    (concat!("crates", ".io"), "cargo knows where crates come from; leave the host out"),
    (concat!("registry.", "npmjs"), "leave the host of the registry out"),
    (concat!("py", "pi.org"), "leave the host of the registry out"),
    (concat!("proxy.", "golang"), "leave the host of the registry out"),
];

/// Functions of the C library that are no system calls.
const CALL_FREE: &[&str] = &["sysconf", "dl_iterate_phdr", "sigaddset", "sigemptyset"];

/// Modules with flags that several tools have.
const SHARED_FLAGS: &[&str] = &["loops"];

/// Subcommands, each with a page.
const TOOLS: &[&str] = &["get", "serve", "load", "proxy", "audit", "bench"];

const LINES_MAX: usize = 800;

#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/packages.rs"]
mod packages;
#[path = "tidy/paths.rs"]
mod paths;
#[path = "tidy/prose.rs"]
mod prose;
#[path = "tidy/rules_can_fail.rs"]
mod rules_can_fail;
