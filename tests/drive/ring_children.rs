//! Rings while other threads start programs. In a process of its own: until a child executes, it
//! has copies of all descriptors, including those that other tests close.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fulmar_sys::Ring;
use fulmar_tests::own_process::own_process;

/// The check of a ring closes a socket. Its result must not depend on copies of the descriptor.
#[test]
fn children_of_other_threads_do_not_disable_a_ring() {
    own_process(|| {
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
    });
}
