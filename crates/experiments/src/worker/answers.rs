//! A server of four kinds of answers: the counterpart of `libmicrohttpd.c`.

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fulmar_drive::{Epoll, ListenOptions, Reactor, listen};
use fulmar_proto::{BodyLen, FileRange, Headers, Misuse, Request, Response};
use fulmar_server::{Call, Calls, Handler, Limits, Outcome, Produced, ServerEngine, Stop};
use fulmar_sys as sys;

/// Serves the files of a directory and what is in memory, until it is ended: `--site DIR`. Prints its
/// port.
pub(crate) fn run(words: &[String]) -> Result<String, Box<dyn Error>> {
    let [flag, site] = words else { return Err("--site DIR is missing".into()) };
    if flag != "--site" {
        return Err(format!("unknown option {flag}").into());
    }
    sys::raise_descriptors()?;
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let (listener, address) = listen(any, ListenOptions::default())?;
    let answers = Answers::open(Path::new(site))?;
    let calls = Calls::new(answers, sys::now(), sys::wall_clock);
    let engine = ServerEngine::new(sys::now(), calls, Limits::default(), Stop::new());
    let mut reactor = Reactor::new(engine, Epoll::new()?);
    let listener = reactor.listen(listener)?;
    reactor.engine.add_listener(listener, None);
    writeln!(io::stdout(), "{}", address.port())?;
    loop {
        reactor.turn()?;
    }
}

/// Bodies, each made once.
#[derive(Debug)]
struct Answers {
    tiny: Bytes,
    modest: Bytes,
    file: FileRange,
}

impl Answers {
    fn open(site: &Path) -> io::Result<Self> {
        let file = File::open(site.join("104k"))?;
        let len = file.metadata()?.len();
        Ok(Self {
            tiny: vec![b'x'; TINY_SIZE].into(),
            modest: vec![b'x'; MODEST_SIZE].into(),
            file: FileRange { file: Arc::new(OwnedFd::from(file)), offset: 0, len },
        })
    }
}

impl Handler for Answers {
    fn handle(&mut self, call: &mut Call<'_>, request: &Request<'_>) -> Outcome {
        let head = Response::new(200, Headers::EMPTY);
        match request.target {
            b"/tiny" => call.reply(head, self.tiny.clone()),
            b"/modest" => call.reply(head, self.modest.clone()),
            b"/104k" => call.reply(head, self.file.clone()),
            b"/continuous" => call.produce(head, BodyLen::Unknown, pieces()),
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
        call.send(b"x".as_slice())?;
        Ok(Produced::More)
    }
}

const TINY_SIZE: usize = 128;
const MODEST_SIZE: usize = 64 * 1024;
/// How many pieces come one after the other.
const PIECES: u32 = 10;
