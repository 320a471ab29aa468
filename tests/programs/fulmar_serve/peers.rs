//! Other clients and load generators against `fulmar serve`.

use std::path::{Path, PathBuf};

use fulmar_tests::http::HttpClient;
use fulmar_tests::process::{BY_CALLS, Serve, peer, run, text};
use fulmar_tests::tree::{Tree, noise};

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(name)
}

#[test]
fn python_agrees() {
    let tree = Tree::new();
    tree.file("hello.txt", "hello, world\n");
    tree.file("large.bin", "L".repeat(5_000_000));
    tree.file("dir/index.html", "<p>index");
    tree.file("a b/ü#?.txt", "named");
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let output = run(peer("python3").arg(script("http_client.py")).arg(serve.url("")));
    assert_eq!(text(&output.stdout), "agreed\n");
}

/// wrk prints errors only if there are any.
fn wrk(arguments: &[&str], url: &str) -> String {
    let mut command = peer("wrk");
    command.args(["-t1", "-c32", "-d1s", "--timeout", "60s"]).args(arguments).arg(url);
    let report = text(&run(&mut command).stdout);
    assert!(!report.contains("Socket errors") && !report.contains("Non-2xx"), "{report}");
    assert!(report.contains("Requests/sec") && !report.contains(" 0 requests in"), "{report}");
    report
}

/// The counts of both sides agree, except for requests in progress at the end.
fn requests(client: &mut HttpClient) -> u64 {
    let reply = client.get("/.ledger");
    let json: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    json["requests"].as_u64().unwrap()
}

fn reported(report: &str) -> u64 {
    let line = report.lines().find(|line| line.contains(" requests in ")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn wrk_reports_no_error() {
    let tree = Tree::new();
    tree.file("small", noise(128));
    tree.file("large", noise(104 * 1024));
    let serve = Serve::start(&tree.root(), &["--test-endpoints"]);
    let mut client = HttpClient::connect(serve.address);
    for target in ["/small", "/large"] {
        let before = requests(&mut client);
        let report = wrk(&[], &serve.url(target));
        let served = requests(&mut client) - before - 1;
        let taken = reported(&report);
        assert!((taken..=taken + 32).contains(&served), "{served} served; {report}");
    }
}

#[test]
fn wrk_pipelines() {
    let tree = Tree::new();
    let serve = Serve::start(&tree.root(), &[&["--test-endpoints"], BY_CALLS].concat());
    let mut client = HttpClient::connect(serve.address);
    let before = (requests(&mut client), client.ledger());
    let lua = script("pipeline.lua");
    wrk(&["-s", lua.to_str().unwrap()], &serve.url("/"));
    let calls = client.ledger().since(&before.1).total();
    let served = requests(&mut client) - before.0;
    // A busy machine may let wrk send few requests, in addition to the calls for its connections.
    let connections = 32 * 8;
    assert!(calls * 5 <= served + 5 * connections, "{calls} calls for {served} requests");
}

#[test]
fn h2load_reports_no_error() {
    let tree = Tree::new();
    tree.file("small", noise(128));
    tree.file("large", noise(104 * 1024));
    let serve = Serve::start(&tree.root(), &["--threads", "2"]);
    for target in ["/small", "/large"] {
        let mut command = peer("h2load");
        command.args(["--h1", "-n2000", "-c20"]).arg(serve.url(target));
        let report = text(&run(&mut command).stdout);
        assert!(report.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "{report}");
        assert!(report.contains("status codes: 2000 2xx"), "{report}");
    }
}
