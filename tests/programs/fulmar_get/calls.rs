//! The costs of `fulmar get`: system calls and memory.

use std::fmt::Write;
use std::fs;

use fulmar_tests::get::Download;
use fulmar_tests::process::{BY_CALLS, ExitOutput, Serve, peer};
use fulmar_tests::tree::{Tree, noise};

/// A list of `count` URLs with `sizes` in rotation.
fn list(serve: &Serve, count: usize, sizes: &[usize]) -> String {
    let mut list = String::new();
    for number in 0..count {
        let size = sizes[number % sizes.len()];
        writeln!(list, "{} {number}", serve.url(&format!("/{size}"))).unwrap();
    }
    list
}

fn serve(tree: &Tree, sizes: &[usize]) -> Serve {
    for size in sizes {
        tree.file(size.to_string(), noise(*size));
    }
    Serve::start(&tree.root(), &[])
}

/// A row of the table of `--ledger`.
fn calls(ended: &ExitOutput, name: &str) -> u64 {
    let line = ended.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_small_file_costs_six_calls_and_a_wait() {
    let (tree, sizes) = (Tree::new(), [0, 1, 1_000, 20_000, 50_000]);
    let serve = serve(&tree, &sizes);
    for sizes in [&sizes[..3], &sizes[3..]] {
        let download = Download::new();
        let list = list(&serve, 1_500, sizes);
        let ended = download.run_list(&list, &[&["-j", "16", "--ledger"], BY_CALLS].concat());
        assert!(ended.status.success(), "{ended:?}");
        let of = |name| calls(&ended, name);
        assert_eq!((of("send"), of("renameat2")), (1_500, 1_500), "{ended:?}");
        assert!(of("openat") < 1_520 && of("close") < 1_540 && of("fstat") < 5, "{ended:?}");
        assert_eq!(of("newfstatat"), 0, "{ended:?}");
        // A response in one packet arrives at once. A longer one arrives in as many pieces as the
        // server is slower than the client: each is received, written, and perhaps waited for.
        let in_pieces = of("recv") + of("pwrite64") + of("epoll_wait") + of("epoll_wait_empty");
        let all = of("all");
        assert!(all - in_pieces <= 4 * 1_500 + 200, "{all} calls for 1500 files: {ended:?}");
        assert!(in_pieces <= 3 * 1_500 + 200 || sizes[0] > 1_000, "{ended:?}");
    }
}

#[test]
fn the_ledger_counts_what_the_kernel_sees() {
    let probe = peer("strace").args(["-o", "/dev/null", "true"]).output().unwrap();
    if !probe.status.success() {
        let said = String::from_utf8_lossy(&probe.stderr).to_lowercase();
        assert!(said.contains("ptrace") && said.contains("not permitted"), "{said}");
        return;
    }
    let (tree, sizes) = (Tree::new(), [1_000]);
    let serve = serve(&tree, &sizes);
    let download = Download::new();
    fs::write(download.turn_while("list"), list(&serve, 200, &sizes)).unwrap();
    let get = download.command(&["-i", "list", "-j", "4", "--ledger"]);
    let mut command = peer("strace");
    command.args(["-f", "-o", "trace"]).arg(get.get_program()).args(get.get_args());
    let ended =
        fulmar_tests::process::ChildProcess::start(command.current_dir(download.turn_while("")))
            .wait();
    assert!(ended.status.success(), "{ended:?}");
    let trace = fs::read_to_string(download.turn_while("trace")).unwrap();
    for (name, kernel) in [
        ("send", "sendto("),
        ("recv", "recvfrom("),
        ("renameat2", "renameat2("),
        ("pwrite64", "pwrite64("),
        ("epoll_wait", "epoll_wait("),
        ("connect", "connect("),
        ("io_uring_enter", "io_uring_enter("),
    ] {
        let thread = trace.lines().find(|line| line.contains("renameat2(")).unwrap();
        let thread = format!("{} ", thread.split(' ').next().unwrap());
        let lines = trace.lines().filter(|line| line.starts_with(&thread));
        let seen = lines.filter(|line| line.contains(kernel)).count() as u64;
        // Calls that failed with `EAGAIN` have a separate row.
        let empty = calls(&ended, &format!("{name}_empty"));
        assert_eq!(calls(&ended, name) + empty, seen, "{name}");
    }
}

/// The memory in the summary, in tenths of a MB.
fn memory(ended: &ExitOutput) -> u64 {
    let (before, _) = ended.stdout.split_once(" MB memory").expect("a summary");
    let figure = before.rsplit(' ').next().unwrap().replace('.', "");
    figure.parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_the_list() {
    let (tree, sizes) = (Tree::new(), [10]);
    let serve = serve(&tree, &sizes);
    let run = |count| {
        let download = Download::new();
        // A list in memory would take 21 MB more; 1,024 of its URLs are always in memory. The URLs
        // are long and few, because each file is synced. The resident part of the program's own
        // file differs by some MB between runs, with the page cache.
        let list =
            list(&serve, count, &sizes).replace("/10 ", &format!("/10?{} ", "a".repeat(7_000)));
        let ended = download.run_list(&list, &[]);
        assert!(ended.status.success(), "{ended:?}");
        memory(&ended)
    };
    let (few, many) = (run(1_500), run(4_500));
    assert!(many < few + 80, "{few} tenths of a MB for 1,500 URLs, {many} for 4,500");
}
