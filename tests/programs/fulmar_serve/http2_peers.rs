//! Clients of HTTP/2 against `fulmar serve`, in clear text and over TLS.

use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::process::{Serve, peer, run, text};
use fulmar_tests::tree::{Tree, noise};

/// The files of a server, and its certificate.
struct PeerSite {
    tree: Tree,
    certs: Certs,
}

impl PeerSite {
    fn new() -> Self {
        let tree = Tree::new();
        tree.file("hello.txt", "hello, world\n");
        tree.file("large.bin", noise(3_000_000));
        Self { tree, certs: Certs::new() }
    }

    fn file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.tree.root().join(name)
    }

    /// Starts a server without and one with TLS; calls `check` with the base URL of each.
    fn for_each_server(&self, check: impl Fn(&str)) {
        let clear = Serve::start(&self.tree.root(), &["--test-endpoints"]);
        check(&clear.url(""));
        self.with_tls(check);
    }

    fn with_tls(&self, check: impl Fn(&str)) {
        let (cert, key) = self.certs.files(CertOwner::Server);
        let [cert, key] = [&cert, &key].map(|path| path.to_str().unwrap());
        let tls = ["--test-endpoints", "--tls-cert", cert, "--tls-key", key];
        let tls = Serve::start(&self.tree.root(), &tls);
        check(&format!("https://localhost:{}", tls.address.port()));
    }

    /// curl that uses HTTP/2 and trusts the server.
    fn curl(&self, base: &str) -> Command {
        let mut curl = peer("curl");
        curl.args(["-sS", "--max-time", "60", "--cacert"]).arg(self.certs.ca());
        curl.arg(if base.starts_with("https") { "--http2" } else { "--http2-prior-knowledge" });
        curl
    }
}

#[test]
fn curl_exchanges_bodies_both_ways() {
    let site = PeerSite::new();
    let large = site.file("large.bin");
    site.for_each_server(|base| {
        let out = run(site.curl(base).arg(format!("{base}/large.bin")));
        assert!(out.stdout == large, "{base}: {} bytes", out.stdout.len());
        let upload = format!("@{}", site.path("large.bin").display());
        let out = run(site.curl(base).args(["--data-binary", &upload, &format!("{base}/echo")]));
        assert!(out.stdout == large, "{base}: {} echoed", out.stdout.len());
        let format = "%{http_version} %{http_code}";
        let target = format!("{base}/none");
        let out = run(site.curl(base).args(["-o", "/dev/null", "-w", format, &target]));
        assert_eq!(text(&out.stdout), "2 404", "{base}");
        let out = run(site.curl(base).args(["-r", "7-11", &format!("{base}/hello.txt")]));
        assert_eq!(text(&out.stdout), "world", "{base}");
        let out = run(site.curl(base).args(["--head", &format!("{base}/hello.txt")]));
        let head = text(&out.stdout);
        assert!(head.starts_with("HTTP/2 200") && head.contains("content-length: 13"), "{head}");
    });
}

/// curl reports a reset that arrives with the response instead of the status.
#[test]
fn curl_receives_the_status_of_a_refused_upload() {
    let site = PeerSite::new();
    let upload = site.path("large.bin").display().to_string();
    site.for_each_server(|base| {
        let mut curl = site.curl(base);
        curl.args(["-o", "/dev/null", "-w", "%{http_code}", "-T", &upload]);
        let out = run(curl.arg(format!("{base}/upload")));
        assert_eq!(text(&out.stdout), "405", "{base}");
    });
}

/// Over TLS only: with prior knowledge curl 7.88 fails all transfers that wait for the first one,
/// whatever the server.
#[test]
fn curl_multiplexes_transfers() {
    let site = PeerSite::new();
    site.with_tls(|base| {
        let mut curl = site.curl(base);
        curl.args([
            "--parallel",
            "--parallel-max",
            "50",
            "-w",
            "%{num_connects} %{http_version}\n",
        ]);
        curl.args(["-o", "/dev/null"]).arg(format!("{base}/bytes/100"));
        for size in 1..50 {
            curl.args(["-o", "/dev/null"]).arg(format!("{base}/bytes/{size}"));
        }
        let report = text(&run(&mut curl).stdout);
        assert_eq!(report.lines().count(), 50, "{report}");
        assert!(report.lines().all(|line| line.ends_with(" 2")), "{report}");
        let connects = report.lines().filter(|line| line.starts_with('1')).count();
        assert_eq!(connects, 1, "{report}");
    });
}

/// The same port serves clients that do not know HTTP/2.
#[test]
fn curl_may_choose_http1() {
    let site = PeerSite::new();
    site.for_each_server(|base| {
        let target = format!("{base}/hello.txt");
        let mut curl = peer("curl");
        curl.args(["-sS", "--max-time", "60", "--http1.1", "-w", "%{http_version}", "--cacert"]);
        let out = run(curl.arg(site.certs.ca()).arg(target));
        assert_eq!(text(&out.stdout), "hello, world\n1.1", "{base}");
    });
}

#[test]
fn nghttp_receives_files() {
    let site = PeerSite::new();
    let large = site.file("large.bin");
    site.for_each_server(|base| {
        let out = run(peer("nghttp").args(["--timeout=60"]).arg(format!("{base}/large.bin")));
        assert!(out.stdout == large, "{base}: {} bytes", out.stdout.len());
        // Padded frames, with small windows, for ten requests of each file.
        let mut nghttp = peer("nghttp");
        nghttp.args(["--timeout=60", "--null-out", "--stat", "-m10", "-b100", "-w10", "-W12"]);
        let targets = ["hello.txt", "large.bin"].map(|name| format!("{base}/{name}"));
        let report = text(&run(nghttp.args(targets)).stdout);
        let served = report.lines().filter(|line| line.contains(" 200 ")).count();
        assert_eq!(served, 20, "{base}: {report}");
    });
}

#[test]
fn h2load_reports_no_error() {
    let site = PeerSite::new();
    site.for_each_server(|base| {
        for (target, count) in [("hello.txt", "3000"), ("bytes/20000", "1000"), ("large.bin", "20")]
        {
            let mut h2load = peer("h2load");
            h2load.args(["-n", count, "-c", "3", "-m", "30"]).arg(format!("{base}/{target}"));
            let report = text(&run(&mut h2load).stdout);
            let expected = format!("{count} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(report.contains(&expected), "{base}/{target}: {report}");
            assert!(report.contains(&format!("status codes: {count} 2xx")), "{report}");
        }
    });
}

#[test]
fn node_agrees() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/http2_client.js");
    let site = PeerSite::new();
    site.for_each_server(|base| {
        let out = run(peer("node").arg(&script).arg(base).arg(site.certs.ca()));
        assert_eq!(text(&out.stdout), "agreed\n", "{base}");
    });
}
