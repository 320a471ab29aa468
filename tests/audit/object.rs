//! The program in the kernel is kept as an object: it is what its source makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use fulmar_tests::process::run;

#[test]
fn the_object_that_is_kept_is_made_of_its_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/audit/bpf");
    let made = tempfile::tempdir().expect("a temporary directory");
    let object = made.path().join("audit.bpf.o");
    run(Command::new(folder.join("build")).arg(&object));
    let same = fs::read(&object).unwrap() == fs::read(folder.join("audit.bpf.o")).unwrap();
    assert!(same, "crates/audit/bpf/audit.bpf.o is older than its source; run its `build`");
}
