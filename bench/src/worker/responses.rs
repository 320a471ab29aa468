//! A program with an embedded fulmar server: the counterpart of `libmicrohttpd.c`. bench/README.md
//! describes the options and the responses.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use fulmar_drive::{Epoll, ListenOptions, Reactor, listen};
use fulmar_proto::{BodyLen, FileRange, Headers, Request, Response, UsageError};
use fulmar_server::{
    Handler, HandlerApp, HandlerResult, Layers, Limits, Produced, Responder, ServerEngine, Stop,
};
use fulmar_sys::{self as sys, Ledger};
use fulmar_tls::{Identity, ServerTls};
use serde_json::{Map, json};

use super::flags::WorkerFlags;

/// Prints its port, and serves until it is ended.
pub(super) fn run(flags: &WorkerFlags) -> Result<String, Box<dyn Error>> {
    let site: PathBuf = flags.need("--site")?;
    let identity = match (flags.get::<PathBuf>("--cert")?, flags.get::<PathBuf>("--key")?) {
        (Some(cert), Some(key)) => Some(Identity::files(cert, key)),
        (None, None) => None,
        _ => return Err("--cert and --key are only valid together".into()),
    };
    sys::raise_descriptors()?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let defer_accept = flags.get::<String>("--defer-accept")?.as_deref() == Some("on");
    let (listener, address) =
        listen(any, ListenOptions { defer_accept, ..ListenOptions::default() })?;
    let app = HandlerApp::new(Responses::open(&site)?, sys::now(), sys::wall_clock);
    let engine = ServerEngine::new(sys::now(), app, Limits::default(), Stop::new());
    let mut reactor = Reactor::new(engine, Epoll::new()?);
    let listener = reactor.listen(listener)?;
    let tls = identity.map(tls).transpose()?;
    reactor.engine.add_listener(listener, tls);
    writeln!(io::stdout(), "{}", address.port())?;
    loop {
        reactor.turn()?;
    }
}

/// A session for each connection.
fn tls(identity: Identity) -> Result<Layers, Box<dyn Error>> {
    let tls = ServerTls::new(identity.into())?;
    Ok(Layers::new(move |_| Some(Box::new(tls.session().ok()?))))
}

/// Bodies, each made once.
#[derive(Debug)]
struct Responses {
    tiny: Bytes,
    modest: Bytes,
    file_104k: FileRange,
    file_1m: FileRange,
    requests: u64,
}

impl Responses {
    /// Opens the files of `site`.
    fn open(site: &Path) -> io::Result<Self> {
        Ok(Self {
            tiny: vec![b'x'; TINY_SIZE].into(),
            modest: vec![b'x'; MODEST_SIZE].into(),
            file_104k: whole(&site.join("104k"))?,
            file_1m: whole(&site.join("1m"))?,
            requests: 0,
        })
    }
}

impl Handler for Responses {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        self.requests += 1;
        let head = Response::new(200, Headers::EMPTY);
        match request.target {
            b"/tiny" => responder.reply(head, self.tiny.clone()),
            b"/modest" => responder.reply(head, self.modest.clone()),
            b"/104k" => responder.reply(head, self.file_104k.clone()),
            b"/1m" => responder.reply(head, self.file_1m.clone()),
            b"/continuous" => responder.produce(head, BodyLen::Unknown, pieces()),
            b"/.ledger" => responder.reply(head, ledger(self.requests)),
            _ => responder.text(404, "nothing here\n"),
        }
    }
}

/// Produces the chunks, one for each call.
fn pieces() -> impl FnMut(&mut Responder<'_>) -> Result<Produced, UsageError> {
    let mut left = PIECES;
    move |responder| {
        if left == 0 {
            return Ok(Produced::All);
        }
        left -= 1;
        responder.send(PIECE)?;
        Ok(Produced::More)
    }
}

/// The system calls of this thread, as `fulmar serve` reports them.
fn ledger(requests: u64) -> String {
    let calls: Map<_, _> = Ledger::here()
        .iter()
        .map(|(responder, count)| {
            (responder.name().to_owned(), json!({ "calls": count.calls, "eagain": count.eagain }))
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
/// The number of chunks, and each of them.
const PIECES: u32 = 10;
const PIECE: &[u8] = b"x";
