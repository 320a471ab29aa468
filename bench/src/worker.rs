//! fulmar's side of an experiment, as a process of its own.
//!
//! Each takes the words of a command line, does its work, and answers as the peers do: a client with
//! one JSON object, a server with its port, and until it is ended.

mod among;
mod answers;
mod idle;
mod near;
mod transfers;
mod under;

use std::error::Error;
use std::time::Duration;

use fulmar_sys::Ledger;
use serde_json::{Map, Value};

use crate::ALLOCATOR;

/// Does what `words` say: the name of a worker, and its options. What it returns is to be printed.
///
/// # Errors
/// The words are wrong, or the work could not be done.
pub(crate) fn run(words: &[String]) -> Result<String, Box<dyn Error>> {
    let (name, words) = words.split_first().ok_or("a worker's name is missing")?;
    let value = match name.as_str() {
        "among" => among::run(&among::Options::parse(words)?)?,
        "transfers" => transfers::run(words, Some(allocations))?,
        "idle" => idle::run(words)?,
        "answers" => return answers::run(words),
        "under" => return Err(under::run(words)),
        other => return Err(format!("no worker is called {other}").into()),
    };
    Ok(value.to_string() + "\n")
}

fn allocations() -> usize {
    ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations
}

/// What was called between two looks at the ledger, by name, and how often in vain.
fn calls_since(before: &Ledger, after: &Ledger) -> (Map<String, Value>, u64) {
    let (mut calls, mut eagain) = (Map::new(), 0);
    for (call, count) in after.iter() {
        let earlier = before.count(call);
        eagain += count.eagain - earlier.eagain;
        if count.calls > earlier.calls {
            calls.insert(call.name().to_owned(), (count.calls - earlier.calls).into());
        }
    }
    (calls, eagain)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Transfers on their way to a connection: less than any listen queue.
const OPENING_MAX: usize = 256;
