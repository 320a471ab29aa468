//! Names below a directory, on a real file system, with both methods of lookup.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use fulmar_serve::root::{Lookup, OpenError, Root};
use fulmar_sys::{Call, FileKind, Ledger};

/// `out/secret` is next to `root`, which contains links of all kinds.
fn tree() -> tempfile::TempDir {
    let base = tempfile::tempdir().unwrap();
    let at = |name: &str| base.path().join(name);
    fs::create_dir_all(at("root/dir/deep")).unwrap();
    fs::create_dir(at("out")).unwrap();
    fs::write(at("out/secret"), "secret").unwrap();
    fs::write(at("root/file"), "file").unwrap();
    fs::write(at("root/dir/deep/file"), "deep").unwrap();
    symlink("../out/secret", at("root/out-file")).unwrap();
    symlink("../out", at("root/out-dir")).unwrap();
    symlink(at("out/secret"), at("root/out-absolute")).unwrap();
    symlink("/etc", at("root/etc")).unwrap();
    symlink("dir/deep/file", at("root/in-file")).unwrap();
    symlink("dir", at("root/in-dir")).unwrap();
    symlink("../../file", at("root/dir/deep/in-up")).unwrap();
    symlink(at("root/file"), at("root/in-absolute")).unwrap();
    symlink("loop", at("root/loop")).unwrap();
    symlink("/proc/self/fd/0", at("root/magic")).unwrap();
    base
}

fn read(root: &Root, name: &str) -> Result<String, OpenError> {
    let (fd, info) = root.find(&CString::new(name).unwrap())?;
    assert_eq!(info.kind, FileKind::Regular, "{name}");
    let mut text = String::new();
    fs::File::from(fd).read_to_string(&mut text).unwrap();
    Ok(text)
}

fn both(base: &Path) -> [Root; 2] {
    [Lookup::Probe, Lookup::Walk].map(|lookup| Root::open(&base.join("root"), lookup).unwrap())
}

#[test]
fn nothing_outside_is_found() {
    let base = tree();
    for root in both(base.path()) {
        for name in [
            "out-file",
            "out-dir/secret",
            "out-absolute",
            "etc/passwd",
            "etc",
            "../out/secret",
            "dir/../../out/secret",
            "..",
            "dir/..//../out",
            "in-absolute",
            "loop",
            "magic",
        ] {
            assert_eq!(read(&root, name), Err(OpenError::NotFound), "{name}");
        }
        let absolute = base.path().join("out/secret");
        let absolute = CString::new(absolute.as_os_str().as_bytes()).unwrap();
        assert!(root.find(&absolute).is_err());
    }
}

#[test]
fn names_inside_are_found() {
    let base = tree();
    for root in both(base.path()) {
        assert_eq!(read(&root, "file").unwrap(), "file");
        assert_eq!(read(&root, "dir/deep/file").unwrap(), "deep");
        for name in [c".", c"dir", c"dir/", c"dir/deep"] {
            assert_eq!(root.find(name).unwrap().1.kind, FileKind::Directory, "{name:?}");
        }
        for name in ["nothing", "dir/nothing", "file/nothing", "file/", "x/y/z", &"a".repeat(300)] {
            assert_eq!(read(&root, name), Err(OpenError::NotFound), "{name}");
        }
    }
}

#[test]
fn links_inside_work_where_the_kernel_checks_them() {
    let base = tree();
    let [root, walk] = both(base.path());
    assert!(!walk.follows_links());
    for (name, text) in
        [("in-file", "deep"), ("in-dir/deep/file", "deep"), ("dir/deep/in-up", "file")]
    {
        if root.follows_links() {
            assert_eq!(read(&root, name).unwrap(), text, "{name}");
        }
        assert_eq!(read(&walk, name), Err(OpenError::NotFound), "{name}");
    }
}

#[test]
fn pipes_and_sockets_are_not_found_and_do_not_block() {
    let base = tree();
    let pipe = base.path().join("root/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _listener = std::os::unix::net::UnixListener::bind(base.path().join("root/sock")).unwrap();
    for root in both(base.path()) {
        for name in [c"pipe", c"sock", c"pipe/x"] {
            assert_eq!(root.find(name).map(drop), Err(OpenError::NotFound), "{name:?}");
        }
    }
}

#[test]
fn every_descriptor_of_a_walk_is_closed() {
    let base = tree();
    let root = Root::open(&base.path().join("root"), Lookup::Walk).unwrap();
    let calls = |name: &CStr| {
        let before = Ledger::here();
        if let Ok((fd, _)) = root.find(name) {
            fulmar_sys::close(fd);
        }
        let made = Ledger::here() - before;
        (made.count(Call::openat).calls, made.count(Call::close).calls)
    };
    assert_eq!(calls(c"dir/deep/file"), (3, 3));
    assert_eq!(calls(c"dir/deep/nothing"), (3, 2));
    assert_eq!(calls(c"dir/deep/.."), (2, 2));
}

#[test]
fn a_root_must_be_a_directory() {
    let base = tree();
    assert!(Root::open(&base.path().join("root/file"), Lookup::Probe).is_err());
    assert!(Root::open(&base.path().join("nowhere"), Lookup::Walk).is_err());
}
