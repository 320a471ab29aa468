//! Compares everyday configurations with HAProxy: which are valid, and the line of the first error.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use fulmar_haproxy::{
    ConfigSource, Diagnostics, Environment, Loaded, Options, Severity, ThisMachine, load,
};

#[test]
fn configurations_valid_in_haproxy_are_valid() {
    for path in configurations("valid") {
        let theirs = HaProxyCheck::of(&path);
        assert!(theirs.is_valid, "{}: HAProxy refuses it:\n{}", path.display(), theirs.text);
        if let Err(found) = ours(&path) {
            panic!("{}: we refuse it:\n{found}", path.display());
        }
    }
}

#[test]
fn configurations_invalid_in_haproxy_are_invalid_on_the_same_line() {
    for path in configurations("invalid") {
        let theirs = HaProxyCheck::of(&path);
        assert!(!theirs.is_valid, "{}: HAProxy takes it:\n{}", path.display(), theirs.text);
        let Err(found) = ours(&path) else {
            panic!("{}: valid here, but HAProxy reports:\n{}", path.display(), theirs.text);
        };
        let alert = found.0.iter().find(|found| found.severity == Severity::Alert);
        let place = alert.and_then(|alert| alert.place.as_ref());
        let line = place.unwrap_or_else(|| panic!("{}: no line:\n{found}", path.display())).line;
        if let Some((_, expected)) = BETTER.iter().find(|(name, _)| path.ends_with(name)) {
            assert_eq!(line, *expected, "{}", path.display());
            continue;
        }
        // Some of HAProxy's messages have no line.
        assert!(
            theirs.lines.is_empty() || theirs.lines.contains(&line),
            "{}: our error is in line {line}:\n{found}\nHAProxy reports:\n{}",
            path.display(),
            theirs.text
        );
    }
}

/// Cases in which our error is at the line of the cause, and HAProxy's is not.
const BETTER: &[(&str, u32)] =
    &[("http-to-tcp.cfg", 8), ("track-circle.cfg", 8), ("unclosed-block.cfg", 1)];

/// The configuration of Debian's package lacks only frontends and backends.
#[test]
fn the_debian_configuration_with_proxies_is_valid() {
    let own = std::fs::read_to_string("/etc/haproxy/haproxy.cfg");
    let own = own.expect("Debian's package has it: scripts/setup-peers installs it");
    let rest = "\nfrontend web\n\tbind 127.0.0.1:8000\n\tdefault_backend app\n\
                \nbackend app\n\tserver one 127.0.0.1:8001 check\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("haproxy.cfg");
    std::fs::write(&path, own + rest).expect("the file is written");
    assert!(HaProxyCheck::of(&path).is_valid);
    let config = ours(&path).unwrap_or_else(|found| panic!("{found}")).config;
    assert!(config.global.daemon && config.global.chroot.is_some() && config.global.uid.is_some());
    assert_eq!(config.global.stats_sockets.len(), 1);
    assert_eq!(config.frontends[0].logs.len(), 2);
    assert_eq!(config.frontends[0].errors.pages.len(), 7);
}

/// TLS needs certificates, which are generated here.
#[test]
fn tls_is_accepted_and_rejected_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a key");
    let pem = certified.cert.pem() + &certified.signing_key.serialize_pem();
    let certs = folder.path().join("certs");
    std::fs::create_dir(&certs).expect("a folder");
    for name in ["a.pem", "b.pem"] {
        std::fs::write(certs.join(name), &pem).expect("a certificate");
    }
    std::fs::write(folder.path().join("list"), "a.pem\nb.pem\n").expect("a list");
    for (bind, is_valid) in [
        ("ssl crt CERTS/a.pem", true),
        ("ssl crt CERTS", true),
        ("ssl crt a.pem crt b.pem strict-sni alpn http/1.1", true),
        ("ssl crt-list LIST no-tls-tickets ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.3", true),
        ("ssl crt a.pem verify required ca-file CERTS/a.pem", true),
        ("ssl crt a.pem ciphers ECDHE-RSA-AES128-GCM-SHA256 curves X25519", true),
        ("ssl crt a.pem ciphersuites TLS_AES_128_GCM_SHA256 force-tlsv13", true),
        ("ssl crt c.pem", false),
        ("ssl crt a.pem verify required", false),
        ("ssl crt a.pem verify required ca-file CERTS/c.pem", false),
        ("ssl crt a.pem ssl-min-ver TLSv9", false),
        ("ssl", false),
    ] {
        let bind = bind.replace("CERTS", &certs.to_string_lossy());
        let bind = bind.replace("LIST", &folder.path().join("list").to_string_lossy());
        let text = format!(
            "global\n crt-base {}\ndefaults\n mode http\n timeout client 1s\nfrontend web\n \
             bind 127.0.0.1:8443 {bind}\n",
            certs.display()
        );
        let path = folder.path().join("tls.cfg");
        std::fs::write(&path, text).expect("the file is written");
        let theirs = HaProxyCheck::of(&path);
        assert_eq!(theirs.is_valid, is_valid, "{bind}\n{}", theirs.text);
        assert_eq!(ours(&path).is_ok(), is_valid, "{bind}\n{:?}", ours(&path).err());
    }
}

fn configurations(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("haproxy").join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 25, "{}: {} files", folder.display(), paths.len());
    paths
}

fn ours(path: &Path) -> Result<Loaded, Diagnostics> {
    let sources = [ConfigSource::Path(path.to_owned())];
    load(&sources, &Environment::of_process(), &ThisMachine, &Options::default())
}

/// The output of `haproxy -c`.
struct HaProxyCheck {
    is_valid: bool,
    /// Lines of its alerts.
    lines: BTreeSet<u32>,
    text: String,
}

impl HaProxyCheck {
    fn of(path: &Path) -> Self {
        let run = Command::new("haproxy").args(["-c", "-f"]).arg(path).output();
        let output = run.expect("haproxy is there: scripts/setup-peers installs it");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let alerts = || text.lines().filter(|line| line.starts_with("[ALERT]"));
        let file = format!("{}:", path.display());
        let number = |rest: &str| {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            rest[..end].parse().ok()
        };
        let lines = alerts().flat_map(|line| line.split(&file).skip(1).filter_map(number));
        let lines = lines.collect();
        // Status 2: valid, but without a listener.
        let is_valid = matches!(output.status.code(), Some(0 | 2)) && alerts().next().is_none();
        Self { is_valid, lines, text }
    }
}
