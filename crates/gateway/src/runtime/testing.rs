//! Properties of the runtime socket that hold for any bytes: the body of its fuzz target.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::BytesMut;
use fulmar_engine::{Accepted, Engine, ListenerId, SocketEvent, SocketId, Stop};
use fulmar_haproxy::model::SocketLevel;
use fulmar_haproxy::{Config, ConfigSource, Environment, Machine, Options, load};
use fulmar_proto::{Input, Segment};
use fulmar_proxy::Live;

use super::certificate_store::CertificateStore;
use super::context::RuntimeContext;
use super::engine::Runtime;
use crate::statistics::Process;

/// Commands on one connection: responses are finite. The first byte selects the client's level, the
/// second the size of pieces.
///
/// # Panics
/// The property does not hold.
pub fn commands(data: &[u8]) {
    let (plan, text) = data.split_at(data.len().min(PLAN_LEN));
    let [level, size] = [0, 1].map(|at| plan.get(at).copied().unwrap_or_default());
    let now = fulmar_sys::now();
    let live = Arc::new(Live::new(config().clone(), 1));
    let process = Arc::new(Process::new("node".to_owned(), 100, 100));
    let context = RuntimeContext::new(live, process, Arc::new(CertificateStore::new(Vec::new())));
    let mut runtime = Runtime::new(now, context, Stop::new());
    let listener = ListenerId(u32::from(level));
    runtime.add_listener(
        listener,
        [SocketLevel::Admin, SocketLevel::Operator, SocketLevel::User][usize::from(level % 3)],
    );
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let socket =
        runtime.accept(now, Accepted { listener, peer, local: None }).expect("it is the first");
    let mut block = BytesMut::new();
    for piece in text.chunks(usize::from(size) + 1) {
        block.extend_from_slice(piece);
        runtime.handle(now, SocketEvent::Input(Input::all(&mut block, false)).of(socket));
        send(&mut runtime, now, socket);
    }
    runtime.handle(now, SocketEvent::Input(Input::all(&mut block, true)).of(socket));
    send(&mut runtime, now, socket);
}

/// Sends all pending output.
fn send(runtime: &mut Runtime, now: Instant, socket: SocketId) {
    for sent in 0.. {
        assert!(sent < SENDS_MAX, "a response has no end");
        while runtime.poll_action().is_some() {}
        let size = runtime.poll_transmit(socket).map_or(0, |transmit| {
            let segments: u64 = transmit.segments.iter().map(Segment::len).sum();
            transmit.inline.len() as u64 + segments
        });
        if size == 0 {
            return;
        }
        runtime.handle(now, SocketEvent::Sent(size).of(socket));
    }
}

fn config() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let source = ConfigSource::text("proxy.cfg", PROXY);
        let loaded = load(&[source], &Environment::default(), &PairFiles, &Options::default());
        loaded.unwrap_or_else(|found| panic!("{found}")).config
    })
}

/// Every file has a few pairs of words; no name has an address.
#[derive(Debug)]
struct PairFiles;

impl Machine for PairFiles {
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(b"a b\nc d\n".to_vec())
    }

    fn list(&self, _path: &Path) -> io::Result<Option<Vec<PathBuf>>> {
        Ok(None)
    }

    fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

const PLAN_LEN: usize = 2;
/// Far more than the longest response to the commands of a case.
const SENDS_MAX: usize = 1_000_000;
const PROXY: &str = "\
global
  stats socket /nowhere level admin
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend www
  bind 127.0.0.1:0
  http-request deny if { path -f /list }
  http-request set-header x %[path,map(/map)]
  default_backend shop
backend shop
  server s1 127.0.0.1:1 check weight 10
  server s2 127.0.0.1:2 disabled backup
";

#[cfg(test)]
#[path = "../../../../fuzz/src/mutate.rs"]
#[allow(unreachable_pub, reason = "a crate of its own elsewhere")]
mod mutate;

#[cfg(test)]
mod tests {
    use super::*;

    use super::mutate::{Random, mutate};

    #[test]
    fn responses_to_mutated_commands_are_finite() {
        let corpus: Vec<_> =
            CASES.iter().map(|case| [b"\0\xff", case.as_bytes()].concat()).collect();
        corpus.iter().for_each(|case| commands(case));
        let mut random = Random(SEED);
        for round in 0..ROUNDS {
            let mut data = corpus[random.below(corpus.len())].clone();
            (0..=random.below(6)).for_each(|_| mutate(&mut data, &corpus, &mut random));
            let result = std::panic::catch_unwind(|| commands(&data));
            assert!(result.is_ok(), "round {round}: {}", data.escape_ascii());
        }
    }

    const CASES: &[&str] = &[
        "help\n",
        "show info;show stat;show stat json\n",
        "show stat -1 4 -1\nshow info typed\n",
        "set server shop/s1 state maint;enable server shop/s1;set weight shop/s1 50%\n",
        "set server shop/s2 addr 127.0.0.1 port 81;get weight shop/s2\n",
        "show servers state;show servers conn;show backend\n",
        "show map;show map /map;add map /map x y;set map /map a z;del map /map c\n",
        "add acl /list q;show acl #0;clear acl /list;get map /map a\n",
        "add map /map <<\nk v\nl w\n\nshow map /map\n",
        "prompt\nset timeout cli 5\nshow cli level;operator;user;show sess\n",
        "set maxconn frontend www 5;disable frontend www;enable frontend www\n",
        "shutdown sessions server shop/s1;shutdown session 0x1;clear counters all\n",
        "set ssl cert /a <<\n-----BEGIN CERTIFICATE-----\n\ncommit ssl cert /a\nshow ssl cert\n",
        "show errors;show activity;show cli sockets;show pools;quit\n",
    ];
    const SEED: u64 = 0x1234_5678_9abc_def1;
    const ROUNDS: usize = 3_000;
}
