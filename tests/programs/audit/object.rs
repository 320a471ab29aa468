//! The stored eBPF objects match their source.

use std::fs;
use std::path::Path;
use std::process::Command;

use fulmar_tests::process::run;

#[test]
fn the_stored_objects_match_their_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/audit/bpf");
    let made = tempfile::tempdir().expect("a temporary directory");
    run(Command::new(folder.join("build")).arg(made.path()));
    for object in ["audit.bpf.o", "each.bpf.o"] {
        let same = [made.path(), &folder].map(|folder| fs::read(folder.join(object)).unwrap());
        let same = same[0] == same[1];
        assert!(same, "crates/audit/bpf/{object} is older than its source; run its `build`");
    }
}
