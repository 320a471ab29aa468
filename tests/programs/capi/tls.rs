//! TLS options: cipher suites, curves, client certificates, the required issuer, the texts of
//! certificates.

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::process::{ChildProcess, peer, run};

use super::both;

/// What a server with OpenSSL negotiates, and the errors of lists and of files.
#[test]
fn tls_options_have_the_results_of_libcurl() {
    let (certs, _server, url) = openssl_server();
    prepare_client(&certs);
    let [original, ours] = both("tls", &[url, certs.path().display().to_string()]);
    assert!(original.contains(": 0 '' TLSv1.2 ECDHE-RSA-AES128-GCM-SHA256 client"), "{original}");
    assert!(original.contains("\nX509v3 Subject Alternative Name:DNS:localhost\n"), "{original}");
    assert!(original.contains("\nRSA Public Key:2048\n"), "{original}");
    assert!(original.contains("client.old3.key - - secret : 0 '' TLSv1.3"), "{original}");
    assert_eq!(ours, original);
}

#[test]
fn key_log_has_the_secrets_of_libcurl() {
    let (certs, _server, url) = openssl_server();
    let [folder, file] = ["", "keys"].map(|name| certs.path().join(name).display().to_string());
    let sorted = |text: String| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let [original, ours] = both("tls", &[url, folder, file]).map(sorted);
    assert!(original.iter().any(|line| line.starts_with("CLIENT_RANDOM ")), "{original:?}");
    assert_eq!(ours, original);
}

/// Certificates, a server with OpenSSL, and its URL.
fn openssl_server() -> (Certs, ChildProcess, String) {
    let certs = Certs::new();
    certs.issue_rsa("rsa", &["localhost"]);
    certs.issue("ec", &["localhost"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/capi/tls.py");
    let mut command = peer("python3");
    let command = command.args(["-I", script]).arg(certs.path()).args(["rsa", "ec"]);
    let mut server = ChildProcess::start(command);
    let port = server.wait_stdout("port").replace("port ", "");
    let url = format!("https://localhost:{}/", port.trim());
    (certs, server, url)
}

/// The certificate and the key of a client in all forms, with the password `secret`.
fn prepare_client(certs: &Certs) {
    let (cert, key) = certs.files(CertOwner::Client);
    let at = |name: &str| certs.path().join(name).display().to_string();
    for (source, name) in [(cert, "client.pem"), (key, "client.key")] {
        std::fs::copy(source, at(name)).expect("a file");
    }
    let openssl = |arguments: &[&str], source: &str, target: &str| {
        let mut command = peer("openssl");
        run(command.args(arguments).args(["-in", &at(source), "-out", &at(target)]));
    };
    let password = ["-passout", "pass:secret"];
    openssl(&["x509", "-outform", "DER"], "client.pem", "client.der");
    openssl(&["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], "client.key", "client.key.der");
    openssl(&["ec", "-outform", "DER"], "client.key", "client.old.der");
    for (options, target) in [
        (&["pkcs8", "-topk8", "-v2", "aes-256-cbc"][..], "client.aes.key"),
        (&["pkcs8", "-topk8", "-v2", "des3"], "client.des3.key"),
        (&["pkcs8", "-topk8", "-scrypt"], "client.scrypt.key"),
        (&["ec", "-aes256"], "client.old.key"),
        (&["ec", "-des3"], "client.old3.key"),
    ] {
        openssl(&[options, &password].concat(), "client.key", target);
    }
    let both =
        ["client.pem", "client.aes.key"].map(|name| std::fs::read(at(name)).expect("a file"));
    std::fs::write(at("both.pem"), both.concat()).expect("a file");
    let leaves = ["rsa.pem", "ec.pem"].map(|name| std::fs::read(at(name)).expect("a file"));
    std::fs::write(at("leaves.pem"), leaves.concat()).expect("a file");
}
