//! The examples of the library work as documented: each fetches from a server of the test.

use std::process::{Command, Output, Stdio};

use fulmar_tests::origins::free_address;
use fulmar_tests::process::{example, text};
use fulmar_tests::threads::{ThreadedServer, answer};
use fulmar_tests::tree::noise;

/// Runs every example, and checks its output.
fn each(urls: &[String], check: impl Fn(&str, Output)) {
    for name in ["get", "poll", "tokio", "callbacks"] {
        let path = example(name);
        let output = Command::new(path).args(urls).stdin(Stdio::null()).output().expect("it runs");
        check(&path.display().to_string(), output);
    }
}

#[test]
fn they_print_bodies() {
    let body = noise(1_000_000);
    let sent = body.clone();
    let server = ThreadedServer::start(move |asked| match &*asked.target {
        "/large" => answer(200, "", &sent),
        "/close" => answer(200, "Connection: close\r\n", "closed"),
        _ => answer(200, "", "small"),
    });
    for (path, expected) in [("/large", &body[..]), ("/small", b"small"), ("/close", b"closed")] {
        each(&[server.url(path)], |name, output| {
            assert!(output.status.success(), "{name}: {}", text(&output.stderr));
            assert!(output.stdout == expected, "{name} {path}");
        });
    }
    let urls: Vec<_> = (0..50).map(|n| server.url(&format!("/{n}"))).collect();
    each(&urls, |name, output| {
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "small".repeat(50), "{name}");
    });
}

#[test]
fn they_report_failures() {
    let server = ThreadedServer::start(|_| answer(200, "", "fetched"));
    let nobody = free_address();
    each(&[format!("http://{nobody}/x"), server.url("/")], |name, output| {
        assert!(!output.status.success(), "{name}");
        assert_eq!(text(&output.stdout), "fetched", "{name}");
        let error = text(&output.stderr);
        assert!(error.contains(&format!("http://{nobody}/x: cannot connect")), "{name}: {error}");
    });
    each(&["nonsense".to_owned()], |name, output| {
        assert!(!output.status.success(), "{name}");
        assert!(text(&output.stderr).contains("NoScheme"), "{name}: {}", text(&output.stderr));
    });
}
