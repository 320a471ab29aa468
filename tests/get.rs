//! `fulmar get` as a process, and servers with responses written by a test.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tempfile::TempDir;

use crate::load::scripted;
use crate::process::{ChildProcess, ExitOutput, fulmar};

/// A place for one download: `out` is its output directory.
#[derive(Debug)]
pub struct Download {
    dir: TempDir,
}

impl Download {
    /// Nothing is there yet.
    ///
    /// # Panics
    /// The disk is full.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    /// The output directory; a run makes it.
    pub fn out(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    /// A place beside it.
    pub fn turn_while(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `fulmar get -o out` with these arguments, beside it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(fulmar());
        command.arg("get").arg("-o").arg(self.out()).args(arguments);
        command.current_dir(self.dir.path());
        for variable in ["http_proxy", "all_proxy", "ALL_PROXY"] {
            command.env_remove(variable);
        }
        command
    }

    /// Starts it.
    pub fn start(&self, arguments: &[&str]) -> ChildProcess {
        ChildProcess::start(&mut self.command(arguments))
    }

    /// Runs it to its end, with any status.
    pub fn run(&self, arguments: &[&str]) -> ExitOutput {
        self.start(arguments).wait()
    }

    /// As [`Download::run`] with a list in a file.
    ///
    /// # Panics
    /// The disk is full.
    pub fn run_list(&self, list: &str, arguments: &[&str]) -> ExitOutput {
        fs::write(self.turn_while("list"), list).expect("a file");
        self.run(&[&["-i", "list"], arguments].concat())
    }

    /// The records of a run with `--jsonl records`, in the order of the URLs.
    ///
    /// # Panics
    /// There are none, or they are not JSON.
    pub fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.turn_while("records")).expect("records");
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let mut records: Vec<Value> = text.lines().map(parse).collect();
        records.sort_by_key(|record| (record["line"].as_u64(), record["url"].to_string()));
        records
    }

    /// Every file below the output directory, by its name.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        walk(&self.out(), "", &mut found);
        found.sort();
        found
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.files().into_iter().map(|(name, _)| name).collect()
    }
}

impl Default for Download {
    fn default() -> Self {
        Self::new()
    }
}

fn walk(dir: &Path, prefix: &str, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        match entry.file_type().expect("it is there") {
            kind if kind.is_dir() => walk(&entry.path(), &format!("{name}/"), found),
            kind if kind.is_symlink() => {}
            _ => found.push((name, fs::read(entry.path()).expect("a file"))),
        }
    }
}

/// A request as the server received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRequest {
    /// Path and query.
    pub target: String,
    /// The fields, in lower case, as they came.
    pub head: String,
    /// Earlier requests of this target.
    pub before: usize,
}

impl SiteRequest {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// What a server does.
#[derive(Clone, Debug)]
pub enum SiteReply {
    /// These bytes; the connection stays in use.
    Send(Vec<u8>),
    /// These bytes and the end of the connection.
    Close(Vec<u8>),
    /// These bytes and nothing more; the connection stays open.
    Hang(Vec<u8>),
}

impl SiteReply {
    /// A whole answer.
    pub fn whole(status: u16, fields: &str, body: impl AsRef<[u8]>) -> Self {
        Self::Send(message(status, fields, body.as_ref()))
    }

    /// 200 and this body.
    pub fn ok(body: impl AsRef<[u8]>) -> Self {
        Self::whole(200, "", body)
    }
}

/// The bytes of a response; each of `fields` ends with a line end.
pub fn message(status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {len}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A server with responses written by a test; it lives as long as the test.
#[derive(Clone, Debug)]
pub struct ScriptedSite {
    address: String,
    asked: Arc<Mutex<Vec<SiteRequest>>>,
}

impl ScriptedSite {
    /// Starts it.
    pub fn start(answer: impl Fn(&SiteRequest) -> SiteReply + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&asked), Arc::new(answer));
        let address = scripted(move |stream| serve(stream, &log, &*answer));
        Self { address, asked }
    }

    /// The URL of a target.
    pub fn url(&self, target: &str) -> String {
        format!("{}{target}", self.address.trim_end_matches('/'))
    }

    /// The requests so far.
    ///
    /// # Panics
    /// An answer did.
    pub fn requests(&self) -> Vec<SiteRequest> {
        self.asked.lock().expect("no answer panics").clone()
    }

    /// The number of requests of a target.
    pub fn count(&self, target: &str) -> usize {
        self.requests().iter().filter(|asked| asked.target == target).count()
    }
}

fn serve(
    stream: TcpStream,
    log: &Mutex<Vec<SiteRequest>>,
    answer: &dyn Fn(&SiteRequest) -> SiteReply,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let asked = {
            let mut log = log.lock().expect("no answer panics");
            let before = log.iter().filter(|asked: &&SiteRequest| asked.target == target).count();
            let asked = SiteRequest { target, head: head.to_ascii_lowercase(), before };
            log.push(asked.clone());
            asked
        };
        match answer(&asked) {
            SiteReply::Send(bytes) => writer.write_all(&bytes)?,
            SiteReply::Close(bytes) => {
                writer.write_all(&bytes)?;
                return writer.shutdown(Shutdown::Both);
            }
            SiteReply::Hang(bytes) => {
                writer.write_all(&bytes)?;
                reader.read_line(&mut head)?; // until the client closes
                return Ok(());
            }
        }
    }
}
