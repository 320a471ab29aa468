//! Slow work in threads of its own: requests wait for it, and cost nothing meanwhile.
//!
//! `cargo run --example workers 127.0.0.1:8080`, then `curl 127.0.0.1:8080/fibonacci/30`
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use fulmar::host::{Host, Listen};
use fulmar::proto::Request;
use fulmar::server::{Handler, HandlerResult, OwnedResponse, Responder, Suspended};

/// A number to compute, and the exchange that waits for it.
struct FibonacciJob {
    n: u32,
    waits: Suspended,
}

/// Hands numbers to the workers.
struct FibonacciHandler {
    jobs: mpsc::SyncSender<FibonacciJob>,
}

impl Handler for FibonacciHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let target = str::from_utf8(request.target).unwrap_or_default();
        let n = target.strip_prefix("/fibonacci/").and_then(|n| n.parse().ok());
        let Some(n) = n.filter(|n| *n <= 40) else {
            return responder.text(404, "request /fibonacci/0 to /fibonacci/40\n");
        };
        match self.jobs.try_send(FibonacciJob { n, waits: responder.suspend() }) {
            Ok(()) => Ok(()),
            // The queue is full: the client gets its 503 at once.
            Err(mpsc::TrySendError::Full(job) | mpsc::TrySendError::Disconnected(job)) => {
                job.waits.reply(OwnedResponse::text(503, "too busy\n").with("Retry-After", "1")?);
                Ok(())
            }
        }
    }
}

fn work(jobs: &Mutex<mpsc::Receiver<FibonacciJob>>) {
    loop {
        let job = jobs.lock().expect("no panic poisons it").recv();
        let Ok(job) = job else { return };
        if !job.waits.is_gone() {
            job.waits.reply(OwnedResponse::text(200, format!("{}\n", fibonacci(job.n))));
        }
    }
}

/// The slow way.
fn fibonacci(n: u32) -> u64 {
    if n < 2 { n.into() } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let (jobs, queue) = mpsc::sync_channel(QUEUE_LEN_MAX);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..2 {
        let queue = Arc::clone(&queue);
        thread::spawn(move || work(&queue));
    }
    let running = Host::of(move |_| Ok(FibonacciHandler { jobs: jobs.clone() }))
        .listen(Listen::tcp(address.parse()?))
        .start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const QUEUE_LEN_MAX: usize = 100;
