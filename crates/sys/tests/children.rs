//! What children of the program have to do with a ring: alone in its program, since they have copies
//! of every descriptor until they execute, also of those that other tests close.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fulmar_sys::Ring;

/// A ring is tried with a socket that is closed; whether it was does not depend on who has a copy.
#[test]
fn children_that_another_thread_starts_make_no_ring_unfit() {
    let is_over = AtomicBool::new(false);
    let all: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                Command::new("true").status().unwrap();
            }
        });
        let all = (0..500).map(|_| Ring::new().map(drop)).collect();
        is_over.store(true, Ordering::Relaxed);
        all
    });
    assert!(all.iter().all(Result::is_ok), "{all:?}");
}
