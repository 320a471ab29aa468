//! `serve-guessing`: the latency of a known user of `fulmar serve --auth` while other clients guess
//! passwords.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use fulmar_sys as sys;

use super::BenchScenario;
use crate::BenchError;
use crate::http::BenchConnection;
use crate::lab::{Lab, wait};
use crate::report::{BarLimit, FULMAR, Metric, Sheet, lower, neutral};
use crate::servers::{BenchServer, Wrapper, write};

pub(super) const SCENARIOS: &[BenchScenario] =
    &[BenchScenario::new("serve-guessing", "serve: latency while others guess passwords", run)];

fn run(lab: &Lab, sheet: &mut Sheet) -> Result<(), BenchError> {
    let users = lab.path().join("users");
    write(&users, &format!("ann:{HASH}\n"))?;
    let row = format!("{GUESSERS} guessing connections");
    sheet.limit(&MEDIAN, &row, BarLimit::at_most(10.0));
    for _ in 0..lab.options.rounds {
        let words = ["--auth", &users.display().to_string()];
        let cpus = &lab.cores.server;
        let server = BenchServer::serve(lab, &words, &["127.0.0.1"], cpus, Wrapper::No)?.0;
        sheet.report.command(&server.line);
        let guessers = Guessers::default();
        let latencies = thread::scope(|scope| {
            for number in 0..GUESSERS {
                let (guessers, server) = (&guessers, &server);
                scope.spawn(move || guessers.guess(server.address(), number));
            }
            let latencies = known(lab, &server, &guessers);
            guessers.is_over.store(true, Ordering::Relaxed);
            latencies
        });
        let mut latencies = latencies.map_err(BenchError::io("a known user"))?;
        guessers.check(&server.line)?;
        latencies.sort_by(f64::total_cmp);
        sheet.add(&MEDIAN, &row, FULMAR, latencies[latencies.len() / 2]);
        sheet.add(&P99, &row, FULMAR, latencies[latencies.len() * 99 / 100]);
        let guesses = f64::from(guessers.count.load(Ordering::Relaxed));
        sheet.add(&GUESSES, &row, FULMAR, guesses / lab.seconds());
        server.stop()?;
    }
    Ok(())
}

/// The latencies of a client with the right password, in milliseconds.
fn known(lab: &Lab, server: &BenchServer, guessers: &Guessers) -> std::io::Result<Vec<f64>> {
    let mut known = BenchConnection::open(server.address(), None)?;
    let request = |known: &mut BenchConnection| match known.get("/tiny", RIGHT)?.status {
        200 => Ok(()),
        status => Err(std::io::Error::other(format!("status {status} for the right password"))),
    };
    request(&mut known)?;
    while guessers.count.load(Ordering::Relaxed) == 0 && !guessers.has_failed() {
        wait(PAUSE);
    }
    guessers.count.store(0, Ordering::Relaxed);
    let (end, mut latencies) = (sys::now() + lab.options.interval, Vec::new());
    while sys::now() < end || latencies.is_empty() {
        let start = sys::now();
        request(&mut known)?;
        latencies.push((sys::now() - start).as_secs_f64() * 1e3);
        wait(PAUSE);
    }
    Ok(latencies)
}

/// Connections that try one password after the other, each from an address of its own, and from
/// another one when its guesses are used up.
#[derive(Debug, Default)]
struct Guessers {
    is_over: AtomicBool,
    count: AtomicU32,
    /// What is not a response 401.
    failure: Mutex<Option<String>>,
}

impl Guessers {
    fn guess(&self, server: SocketAddr, number: u32) {
        for round in 0_u16.. {
            let host = u8::try_from(number + 1).unwrap_or(u8::MAX);
            let [high, low] = (256 + round).to_be_bytes();
            let address = Ipv4Addr::new(127, high, low, host);
            let result = self.guess_from(server, IpAddr::V4(address));
            if let Err(why) = result {
                self.failure.lock().expect("no guesser panics").get_or_insert(why);
            }
            if self.is_over.load(Ordering::Relaxed) || self.has_failed() {
                return;
            }
        }
    }

    fn guess_from(&self, server: SocketAddr, address: IpAddr) -> Result<(), String> {
        let open = BenchConnection::from(address, server);
        let mut connection = open.map_err(|error| error.to_string())?;
        for _ in 0..GUESSES_EACH {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let guess = format!("Authorization: Basic {}\r\n", base64(&format!("ann:{count:05}")));
            match connection.get("/tiny", &guess).map(|response| response.status) {
                Ok(401) => {}
                other => return Err(format!("a guess: {other:?} instead of 401")),
            }
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().expect("no guesser panics").is_some()
    }

    fn check(&self, line: &str) -> Result<(), BenchError> {
        match self.failure.lock().expect("no guesser panics").take() {
            None => Ok(()),
            Some(why) => Err(BenchError::process(line, why)),
        }
    }
}

/// The length of the text is a multiple of three.
fn base64(text: &str) -> String {
    let triples = text.as_bytes().chunks_exact(3);
    let group =
        |bytes: &[u8]| bytes.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    let letters =
        |bytes| [18, 12, 6, 0].map(|shift| char::from(ALPHABET[group(bytes) >> shift & 63]));
    triples.flat_map(letters).collect()
}

const MEDIAN: Metric = lower("Median latency of other requests", "ms");
const P99: Metric = lower("p99 latency of other requests", "ms");
const GUESSES: Metric = neutral("Guesses hashed per second", "");
const GUESSERS: u32 = 30;
/// The server's limit for an address and a minute; more are answered with 429.
const GUESSES_EACH: u32 = 10;
const PAUSE: Duration = Duration::from_millis(5);
/// `htpasswd -nbB -C 10 ann secret`.
const HASH: &str = "$2y$10$kEo9gKC6R/s82zKcxXT/b.BJuWDCYO4AntBruvURM.PuTh/0nsGJW";
/// ann:secret
const RIGHT: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
