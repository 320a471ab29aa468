//! fulmar's sides that are not the binary `fulmar`, each as a process of its own.
//!
//! Each takes the options of its peers, and reports as they do: a client prints one JSON object, a
//! server its port.

mod among;
mod delay;
mod flags;
mod idle;
mod in_memory;
mod near;
mod pulse;
mod responses;
mod transfers;
mod under;
mod worker_loop;

use std::error::Error;
use std::time::Duration;

use fulmar_sys::Ledger;
use serde_json::{Map, Value};

use crate::ALLOCATOR;
use flags::WorkerFlags;

/// Runs the worker that the first word names; the result is to be printed.
///
/// # Errors
/// The options are wrong, or the work failed.
pub(crate) fn run(words: &[String]) -> Result<String, Box<dyn Error>> {
    let (name, words) = words.split_first().ok_or("the name of a worker is missing")?;
    if name == "under" {
        return Err(under::run(words));
    }
    let flags = WorkerFlags::parse(words)?;
    let value = match name.as_str() {
        "among" => among::run(&flags)?,
        "delay" => return delay::run(&flags),
        "idle" => idle::run(&flags)?,
        "in-memory" => in_memory::run(&flags)?,
        "pulse" => return pulse::run(&flags),
        "responses" => return responses::run(&flags),
        "transfers" => transfers::run(&flags, allocations)?,
        other => return Err(format!("unknown worker '{other}'").into()),
    };
    Ok(value.to_string() + "\n")
}

/// Calls of the allocator that request memory.
fn allocations() -> usize {
    ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations
}

/// The calls between two states of the ledger, by name, and the number of EAGAIN.
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

/// Connects in progress at a time: less than any listen queue.
const OPENING_MAX: usize = 256;
