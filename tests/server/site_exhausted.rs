//! Files without a free descriptor. In a process of its own, because it changes the limit.

use std::cell::Cell;
use std::fs;
use std::process::Command;
use std::time::Duration;

use fulmar_proto::{Headers, Request};
use fulmar_serve::{Options, Site};
use fulmar_tests::own_process::own_process;

const OPEN_MAX: u64 = 200;

#[test]
fn cached_files_are_released_before_a_request_is_refused() {
    own_process(|| {
        let dir = tempfile::tempdir().unwrap();
        for at in 0..4 {
            fs::write(dir.path().join(at.to_string()), vec![b'x'; 20_000]).unwrap();
        }
        fs::write(dir.path().join("small"), "small").unwrap();
        let now = Cell::new(fulmar_sys::now());
        let mut site = Site::open(dir.path(), Options::default()).unwrap();
        let mut status = |target: &str| {
            let request = Request::new(b"GET", target.as_bytes(), Headers::EMPTY);
            site.answer(now.get(), 1_000_000_000, &request).status
        };
        assert_eq!([status("/small"), status("/0"), status("/1")], [200; 3]);

        let pid = std::process::id().to_string();
        let limit = format!("--nofile={OPEN_MAX}:");
        let lowered = Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap();
        assert!(lowered.success());
        let mut others: Vec<_> = std::iter::from_fn(|| fs::File::open("/dev/null").ok()).collect();

        // The cache releases two descriptors for one file.
        assert_eq!(status("/2"), 200);
        others.extend(fs::File::open("/dev/null"));
        // It releases one for another; then no transfer uses a cached file.
        assert_eq!(status("/3"), 200);
        assert_eq!(status("/3"), 200);
        let before = fulmar_sys::Ledger::here();
        assert_eq!(status("/missing"), 404);
        others.extend(std::iter::from_fn(|| fs::File::open("/dev/null").ok()));
        assert_eq!(status("/0"), 503);
        assert!((fulmar_sys::Ledger::here() - before).total() < 20, "it does not spin");
        // A file in memory is sent, although it cannot be checked.
        now.set(now.get() + Duration::from_secs(2));
        assert_eq!(status("/small"), 200);
        fs::remove_file(dir.path().join("small")).unwrap();
        assert_eq!(status("/small"), 200);
        others.truncate(others.len() - 1);
        assert_eq!(status("/0"), 200);
        assert_eq!(status("/small"), 404);
    });
}
