//! curl as a client: its reply is read from the files that it writes.

use std::fs;
use std::io::BufRead;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::http::HttpReply;
use crate::process::{peer, text};

/// One run of curl that fetches one URL.
#[derive(Debug)]
pub struct Curl {
    command: Command,
    dir: TempDir,
    head: bool,
}

/// What curl made of it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The last reply.
    pub reply: HttpReply,
    /// The statuses of all replies: of interim ones and redirects, too.
    pub statuses: Vec<u16>,
}

impl Curl {
    /// Fetches `url` as it is: without normalisation and globbing.
    ///
    /// # Panics
    /// There is no curl, or no room for its files.
    pub fn new(url: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut command = plain();
        command.args(["--path-as-is", "-g"]);
        command.arg("-D").arg(dir.path().join("heads")).arg("-o").arg(dir.path().join("body"));
        command.arg(url);
        Self { command, dir, head: false }
    }

    /// More arguments.
    #[must_use]
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    /// With HEAD.
    #[must_use]
    pub fn head(mut self) -> Self {
        self.command.arg("-I");
        self.head = true;
        self
    }

    /// Runs it.
    ///
    /// # Panics
    /// curl finds fault with the reply.
    pub fn run(self) -> Fetched {
        crate::process::run(&mut { self.command });
        let heads = fs::read(self.dir.path().join("heads")).expect("curl wrote the heads");
        // Without a body curl writes no file.
        let body = fs::read(self.dir.path().join("body")).unwrap_or_default();
        let mut heads = &heads[..];
        let mut reply = HttpReply::default();
        let mut statuses = Vec::new();
        while heads.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
            reply = HttpReply::read_head(&mut heads).expect("curl accepted it");
            statuses.push(reply.status);
        }
        // With -I, what curl writes as the body are the heads once more.
        reply.body = if self.head { Vec::new() } else { body };
        Fetched { reply, statuses }
    }
}

/// Fetches `url` with a GET.
pub fn get(url: &str) -> HttpReply {
    Curl::new(url).run().reply
}

/// curl without a progress meter and proxies, and with a time limit.
///
/// # Panics
/// There is none.
pub fn plain() -> Command {
    let mut command = peer("curl");
    command.args(["-q", "-sS", "--noproxy", "*", "--max-time", "60"]);
    command
}

/// Runs a command that writes what it counted, line by line.
///
/// # Panics
/// It fails, or writes something else.
pub fn numbers(command: &mut Command) -> Vec<u64> {
    let Output { stdout, .. } = crate::process::run(command);
    text(&stdout).lines().map(|line| line.parse().expect("a number a line")).collect()
}
