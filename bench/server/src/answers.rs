//! What is answered.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fulmar::proto::{BodyLen, FileRange, Headers, Misuse, Request, Response};
use fulmar::server::{Call, Handler, Outcome, Produced};
use fulmar::sys::Ledger;
use serde_json::{Map, json};

/// Bodies, each made once.
#[derive(Debug)]
pub(crate) struct Answers {
    tiny: Bytes,
    modest: Bytes,
    file_104k: FileRange,
    file_1m: FileRange,
    requests: u64,
}

impl Answers {
    /// Opens the files of `site`.
    pub(crate) fn open(site: &Path) -> io::Result<Self> {
        Ok(Self {
            tiny: vec![b'x'; TINY_SIZE].into(),
            modest: vec![b'x'; MODEST_SIZE].into(),
            file_104k: whole(&site.join("104k"))?,
            file_1m: whole(&site.join("1m"))?,
            requests: 0,
        })
    }
}

impl Handler for Answers {
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        self.requests += 1;
        let head = Response::new(200, Headers::EMPTY);
        match request.target {
            b"/tiny" => call.reply(head, self.tiny.clone()),
            b"/modest" => call.reply(head, self.modest.clone()),
            b"/104k" => call.reply(head, self.file_104k.clone()),
            b"/1m" => call.reply(head, self.file_1m.clone()),
            b"/continuous" => call.produce(head, BodyLen::Unknown, pieces()),
            b"/.ledger" => call.reply(head, ledger(self.requests)),
            _ => call.text(404, "nothing here\n"),
        }
    }
}

/// One piece whenever it is asked, until there were enough.
fn pieces() -> impl FnMut(&mut Call<'_>) -> Result<Produced, Misuse> {
    let mut left = PIECES;
    move |call| {
        if left == 0 {
            return Ok(Produced::All);
        }
        left -= 1;
        call.send(PIECE)?;
        Ok(Produced::More)
    }
}

/// The system calls of this thread, as `fulmar serve` tells them.
fn ledger(requests: u64) -> String {
    let calls: Map<_, _> = Ledger::here()
        .iter()
        .map(|(call, count)| {
            (call.name().to_owned(), json!({ "calls": count.calls, "eagain": count.eagain }))
        })
        .collect();
    json!({ "requests": requests, "syscalls": calls }).to_string()
}

fn whole(path: &Path) -> io::Result<FileRange> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok(FileRange { file: Arc::new(OwnedFd::from(file)), offset: 0, len })
}

const TINY_SIZE: usize = 128;
const MODEST_SIZE: usize = 64 * 1024;
/// How many pieces come one after the other, and each of them.
const PIECES: u32 = 10;
const PIECE: &[u8] = b"x";
