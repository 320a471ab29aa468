//! The commands in the documentation work as documented.
//!
//! Every fenced block of `console` in `README.md` and `docs/*.md` is run: its lines that begin with
//! `$ ` go to a shell, in a directory with a small `site`. A command succeeds, unless its line ends
//! with `# exit N`; one that ends with `&` runs until the block ends at the latest. In a block of
//! `console,no-run` only the options of `fulmar` are looked at.
//!
//! Blocks of `rust` are doc tests of the crate `fulmar`; that none is left out is tested here.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_tests::process::{ChildProcess, fulmar, peer, run, text};
use fulmar_tests::tree::noise;

/// Consecutive commands.
#[derive(Debug, PartialEq, Eq)]
struct CodeBlock {
    line: usize,
    runs: bool,
    commands: Vec<String>,
}

fn blocks(markdown: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<Option<CodeBlock>> = None; // inside a fence, and perhaps one of ours
    let mut lines = markdown.lines().zip(1..);
    while let Some((text, line)) = lines.next() {
        let text = text.trim_start();
        if let Some(language) = text.strip_prefix("```") {
            open = match open {
                Some(block) => {
                    blocks.extend(block);
                    None
                }
                None => {
                    let block = |runs| CodeBlock { line, runs, commands: Vec::new() };
                    Some(match language.trim() {
                        "console" => Some(block(true)),
                        "console,no-run" => Some(block(false)),
                        _ => None,
                    })
                }
            };
        } else if let (Some(Some(block)), Some(command)) = (&mut open, text.strip_prefix("$ ")) {
            let mut command = command.trim_end().to_owned();
            while command.ends_with('\\') {
                command.pop();
                let (next, _) = lines.next().expect("a line goes on");
                command.push_str(next.trim_start().trim_start_matches("> ").trim_end());
            }
            block.commands.push(command);
        }
    }
    assert!(open.is_none(), "a fence is not closed");
    blocks
}

/// The command itself, and the status that it ends with.
fn expected(command: &str) -> (&str, i32) {
    let exit = command.rsplit_once("# exit ").and_then(|(c, n)| Some((c, n.parse().ok()?)));
    exit.map_or((command, 0), |(command, status)| (command.trim_end(), status))
}

/// Where a block is run: nothing of it remains.
#[derive(Debug)]
struct BlockFolder {
    dir: tempfile::TempDir,
    network: Option<ChildProcess>,
}

impl BlockFolder {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let site = dir.path().join("site");
        fs::create_dir(&site).expect("a directory");
        fs::write(site.join("index.html"), "<!doctype html><title>site</title>\n").expect("a file");
        fs::write(site.join("notes.txt"), "a note\n".repeat(293)).expect("a file");
        fs::write(site.join("big.bin"), noise(300_000)).expect("a file");
        Self { dir, network: network() }
    }

    fn shell(&self, line: &str) -> ChildProcess {
        let mut command = match &self.network {
            None => Command::new("sh"),
            Some(network) => {
                let mut command = Command::new("nsenter");
                command.args(["--preserve-credentials", "-U", "-n", "-t"]);
                command.arg(network.id().to_string()).arg("sh");
                command
            }
        };
        command.arg("-c").arg(line).current_dir(self.dir.path()).env("PATH", path());
        ChildProcess::start(command.process_group(0))
    }
}

/// A network where every port is free, if one may be had.
fn network() -> Option<ChildProcess> {
    let allowed = |program: &mut Command| program.output().is_ok_and(|o| o.status.success());
    if !allowed(Command::new("unshare").args(["-rn", "ip", "link", "set", "lo", "up"])) {
        return None;
    }
    let mut command = Command::new("unshare");
    let line = "ip link set lo up && echo up && exec tail -f /dev/null";
    let mut process = ChildProcess::start(command.args(["-rn", "sh", "-c", line]));
    process.wait_stdout("up");
    Some(process)
}

fn path() -> OsString {
    let binary = fulmar().parent().expect("it lies in a directory").to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(binary).chain(std::env::split_paths(&path)))
        .expect("no colons")
}

/// A block as one script, so that `$!` and the like refer to the right process.
fn script(block: &CodeBlock) -> String {
    let mut script = "pids=; trap 'kill $pids 2>/dev/null; wait' EXIT\n".to_owned();
    for (number, line) in block.commands.iter().enumerate() {
        let (command, status) = expected(line);
        script += command;
        script += &match command.ends_with('&') && !command.ends_with("&&") {
            true => "\npids=\"$pids $!\"\n".to_owned(),
            false => format!(
                "\nstatus=$?; if [ $status != {status} ]; then \
                 echo \"command {number}: status $status\" >&2; exit 1; fi\n"
            ),
        };
    }
    script
}

fn run_block(block: &CodeBlock) -> Result<(), String> {
    let ended = BlockFolder::new().shell(&script(block)).wait();
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!("{:?}\n{}{}", block.commands, ended.stdout, ended.stderr)),
    }
}

/// Options that `fulmar` does not have.
fn unknown_options(command: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for part in command.split(['|', ';', '&', '>', '<', '#']) {
        let mut words = part.split_whitespace();
        if !words.any(|word| word.rsplit('/').next() == Some("fulmar")) {
            continue;
        }
        let words: Vec<_> = words.collect();
        let tool = words.first().filter(|word| !word.starts_with('-'));
        let output = run(Command::new(fulmar()).args(tool).arg("--help"));
        let help = text(&output.stdout);
        let known: Vec<_> = help.split([' ', ',', '\n', '=', '[']).collect();
        for word in words {
            let option = match word.strip_prefix("--") {
                Some("") => break,
                Some(_) => word.split('=').next().unwrap_or(word),
                None if word.starts_with('-') && word.len() > 1 => &word[..2],
                None => continue,
            };
            if !known.contains(&option) {
                unknown.push(option.to_owned());
            }
        }
    }
    unknown
}

fn check(block: &CodeBlock) -> Result<(), String> {
    if block.runs {
        return run_block(block);
    }
    let unknown: Vec<_> = block.commands.iter().flat_map(|c| unknown_options(c)).collect();
    if unknown.is_empty() { Ok(()) } else { Err(format!("no such options: {unknown:?}")) }
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: Vec<_> = fs::read_dir(root.join("docs"))
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.push(root.join("README.md"));
    found.retain(|path| path.is_file());
    found.sort();
    found
}

#[test]
fn what_the_documents_say_works() {
    peer("curl");
    let mut failures = Vec::new();
    for document in documents() {
        let markdown = fs::read_to_string(&document).expect("it is there");
        for block in blocks(&markdown) {
            if let Err(why) = check(&block) {
                let name = document.file_name().expect("a file").display();
                failures.push(format!("{name}:{}: {why}", block.line));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Why the Rust of a page is not compiled; `doc_tests` is the source that includes pages.
fn uncompiled(name: &str, markdown: &str, doc_tests: &str) -> Vec<String> {
    let is_rust = |language: &&str| language.split([',', ' ']).any(|word| word == "rust");
    let languages = markdown.lines().filter_map(|line| line.trim_start().strip_prefix("```"));
    let rust: Vec<_> = languages.filter(is_rust).collect();
    let mut complaints = Vec::new();
    if rust.iter().any(|language| language.contains("ignore")) {
        complaints
            .push(format!("{name}: a block is `ignore`; use `no_run`, or hide lines with `#`"));
    }
    let included = format!("include_str!(\"../../../{name}\")");
    if !rust.is_empty() && !doc_tests.contains(&included) {
        complaints.push(format!("{name}: add {included} to crates/fulmar/src/lib.rs"));
    }
    complaints
}

#[test]
fn rust_in_the_documents_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &Path| fs::read_to_string(path).expect("it is there");
    let doc_tests = read(&root.join("crates/fulmar/src/lib.rs"));
    let complaints = documents().into_iter().flat_map(|document| {
        let name = document.strip_prefix(&root).expect("a page of ours").to_owned();
        uncompiled(name.to_str().expect("a plain name"), &read(&document), &doc_tests)
    });
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0]);
    let page = "```rust\nfn main() {}\n```\n";
    let included = "#[doc = include_str!(\"../../../docs/a.md\")]";
    assert_eq!(uncompiled("docs/a.md", page, included), [""; 0]);
    assert_eq!(uncompiled("docs/b.md", page, included).len(), 1);
    assert_eq!(uncompiled("docs/b.md", "```console\n$ rust\n```\n", included), [""; 0]);
    assert_eq!(uncompiled("docs/a.md", "```rust,ignore\n```\n", included).len(), 1);
}

#[test]
fn blocks_are_found_and_run() {
    let markdown = "\
text\n\
```console\n\
$ fulmar serve site &\n\
serving site\n\
$ curl -sf --retry 9 --retry-connrefused http://127.0.0.1:8080/notes.txt | cmp - \\\n\
> site/notes.txt\n\
$ fulmar load -c 0   # exit 2\n\
```\n\
```sh\n\
$ not ours\n\
```\n\
```console,no-run\n\
$ sudo ./fulmar load -c64 --json --rate=5 http://h/ | head -1\n\
```\n";
    let found = blocks(markdown);
    assert_eq!((found.len(), found[0].line, found[1].runs), (2, 2, false));
    assert_eq!(found[0].commands.len(), 3);
    if network().is_some() {
        assert_eq!(check(&found[0]), Ok(())); // its port is a fixed one
    }
    assert_eq!(check(&found[1]), Ok(()));
    let block = |runs, line: &str| CodeBlock { line: 1, runs, commands: vec![line.to_owned()] };
    assert!(check(&block(true, "false")).is_err());
    assert!(check(&block(true, "sh -c 'exit 3' # exit 4")).is_err());
    assert_eq!(check(&block(true, "test -s site/big.bin && sh -c 'exit 3' # exit 3")), Ok(()));
    assert!(check(&block(false, "fulmar load --nonsense -Z")).is_err());
}
