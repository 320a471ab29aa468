//! `bind ... ssl` tested with openssl and curl, and errors reported at the start.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::gateway::{command, end, origin, run};
use fulmar_tests::origins::free_address;
use fulmar_tests::process::{ChildProcess, eventually, peer, text};
use rustix::process::Signal;

/// A folder with certificates, and a proxy that uses them.
struct TlsProxy {
    certs: Certs,
    address: SocketAddr,
    origin: SocketAddr,
}

impl TlsProxy {
    fn new() -> Self {
        Self { certs: Certs::new(), address: free_address(), origin: origin("origin") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.certs.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).display().to_string()
    }

    /// A certificate with key for these names, in one file.
    fn pair(&self, name: &str, names: &[&str]) -> String {
        self.certs.issue("part", names);
        let (cert, key) = (self.read("part.pem"), self.read("part.key"));
        fs::remove_file(self.path("part.key")).unwrap();
        fs::remove_file(self.path("part.pem")).unwrap();
        self.write(name, &(cert + &key))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The configuration with these parameters and rules.
    fn configure(&self, words: &str, rules: &str) -> String {
        let Self { address, origin, .. } = self;
        self.write(
            "proxy.cfg",
            &format!(
                "global\n nbthread 1\ndefaults\n mode http\n timeout client 5s\n timeout server \
                 5s\n \
                 timeout connect 1s\nfrontend fe\n bind {address} ssl {words}\n{rules}\n \
                 default_backend be\nbackend be\n server s1 {origin}\n"
            ),
        )
    }

    fn start(&self, words: &str, rules: &str) -> ChildProcess {
        let path = self.configure(words, rules);
        let process = ChildProcess::start(command().args(["-db", "-f", &path]));
        eventually("it listens", || std::net::TcpStream::connect(self.address).is_ok());
        process
    }

    /// The output of `openssl s_client` after a handshake.
    fn shake(&self, arguments: &[&str]) -> String {
        let ca = self.certs.ca();
        let mut client = peer("openssl");
        client.args(["s_client", "-connect", &self.address.to_string(), "-CAfile"]).arg(ca);
        client.args(arguments).stdin(Stdio::null());
        let output = client.output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    }

    /// The certificate for this server name.
    fn shown(&self, name: &str) -> String {
        let output = match name {
            "" => self.shake(&["-noservername"]),
            name => self.shake(&["-servername", name]),
        };
        let names = peer("openssl")
            .args(["x509", "-noout", "-ext", "subjectAltName"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut names = names.unwrap();
        names.stdin.take().unwrap().write_all(output.as_bytes()).unwrap();
        let out = text(&names.wait_with_output().unwrap().stdout);
        out.lines().filter_map(|line| line.trim().strip_prefix("DNS:")).collect()
    }

    /// The output of curl, or its exit code.
    fn curl(&self, name: &str, arguments: &[&str]) -> Result<String, i32> {
        let mut curl = peer("curl");
        curl.args(["-sS", "--max-time", "60", "--cacert"]).arg(self.certs.ca());
        let place = format!("{name}:{}:127.0.0.1", self.address.port());
        curl.args(["--resolve", &place]).args(arguments);
        let url = format!("https://{name}:{}/", self.address.port());
        let output = curl.arg(url).output().unwrap();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(output.status.code().unwrap()),
        }
    }
}

/// The output of `-c` of both programs, without their own terms.
fn checked(path: &str) -> (Option<i32>, String, Option<i32>) {
    let ours = run(["-c", "-f", path]);
    let theirs = ChildProcess::start(peer("haproxy").args(["-c", "-f", path])).wait();
    (ours.status.code(), ours.stderr, theirs.status.code())
}

#[test]
fn the_server_name_selects_the_certificate() {
    let site = TlsProxy::new();
    fs::create_dir(site.path("more")).unwrap();
    let first = site.pair("first.pem", &["first.example"]);
    site.pair("more/b.pem", &["b.example"]);
    site.pair("more/wild.pem", &["*.wild.example"]);
    site.certs.issue("apart", &["apart.example"]); // its key is in a separate file
    let apart = site.path("apart.pem").display().to_string();
    let more = site.path("more").display().to_string();
    let process = site.start(&format!("crt {first} crt {more} crt {apart}"), "");
    for (server_name, shown) in [
        ("first.example", "first.example"),
        ("B.example", "b.example"),
        ("any.wild.example", "*.wild.example"),
        ("not.any.wild.example", "first.example"),
        ("apart.example", "apart.example"),
        ("nobody.example", "first.example"),
        ("", "first.example"),
    ] {
        assert_eq!(site.shown(server_name), shown, "{server_name}");
    }
    assert_eq!(site.curl("apart.example", &[]), Ok("origin".into()));
    assert_eq!(site.curl("nobody.example", &[]), Err(60));
    end(process, Signal::TERM);
    let process = site.start(&format!("crt {first} crt {more} strict-sni"), "");
    assert_eq!(site.shown("b.example"), "b.example");
    for server_name in ["", "nobody.example"] {
        assert_eq!(site.shown(server_name), "", "{server_name}");
    }
    end(process, Signal::TERM);
}

#[test]
fn a_list_assigns_server_names_to_certificates() {
    let site = TlsProxy::new();
    let (a, b) = (site.pair("a.pem", &["a.example"]), site.pair("b.pem", &["b.example"]));
    let list = site.write(
        "list",
        &format!("# certificates\n{a}\n{b} Other.example *.all.example !not.all.example\n"),
    );
    let words = format!("crt-list {list}");
    let table = [
        ("a.example", "a.example"),
        ("other.example", "b.example"),
        ("one.all.example", "b.example"),
        ("not.all.example", "a.example"),
        ("b.example", "a.example"),
    ];
    let process = site.start(&words, "");
    let ours: Vec<String> = table.iter().map(|(server_name, _)| site.shown(server_name)).collect();
    end(process, Signal::TERM);
    let path = site.path("proxy.cfg");
    let process = ChildProcess::start(peer("haproxy").args(["-db", "-f"]).arg(path));
    eventually("it listens", || std::net::TcpStream::connect(site.address).is_ok());
    for ((server_name, shown), ours) in table.iter().zip(ours) {
        assert_eq!((&*ours, &*site.shown(server_name)), (*shown, *shown), "{server_name}");
    }
    drop(process);
    let alpn = site.write("list", &format!("{a} [alpn h2] a.example\n"));
    let (status, output, _) = checked(&site.configure(&format!("crt-list {alpn}"), ""));
    assert_eq!(status, Some(1));
    assert!(output.contains("list:1: '[alpn h2]' is not supported"), "{output}");
}

#[test]
fn one_certificate_for_each_kind_of_key() {
    let site = TlsProxy::new();
    site.certs.issue("part", &["both.example"]);
    site.write("site.pem.ecdsa", &(site.read("part.pem") + &site.read("part.key")));
    site.certs.issue_rsa("part", &["both.example"]);
    site.write("site.pem.rsa", &(site.read("part.pem") + &site.read("part.key")));
    let process = site.start(&format!("crt {}", site.path("site.pem").display()), "");
    for (signatures, kind) in
        [("ECDSA+SHA256", "id-ecPublicKey"), ("RSA-PSS+SHA256", "rsaEncryption")]
    {
        let output =
            site.shake(&["-servername", "both.example", "-sigalgs", signatures, "-showcerts"]);
        assert!(output.contains(kind) || output.contains(&signatures[..3]), "{kind}: {output}");
        assert!(output.contains("Verify return code: 0"), "{kind}: {output}");
    }
    end(process, Signal::TERM);
}

#[test]
fn versions_suites_and_protocols_are_those_that_are_allowed() {
    let site = TlsProxy::new();
    let crt = site.pair("a.pem", &["a.example"]);
    let shakes = |arguments: &[&str]| {
        let output = site.shake(arguments);
        output.contains("Cipher is ") && !output.contains("Cipher is (NONE)")
    };
    let process = site.start(&format!("crt {crt} ssl-min-ver TLSv1.3 alpn h2,http/1.1"), "");
    assert!(shakes(&["-tls1_3"]) && !shakes(&["-tls1_2"]));
    let output = site.shake(&["-alpn", "h2,http/1.1"]);
    assert!(output.contains("ALPN protocol: http/1.1"), "{output}");
    end(process, Signal::TERM);
    let ciphers = "ciphers ECDHE-ECDSA-AES128-GCM-SHA256";
    let process = site.start(&format!("crt {crt} ssl-max-ver TLSv1.2 {ciphers}"), "");
    assert!(shakes(&["-tls1_2"]) && !shakes(&["-tls1_3"]));
    assert!(!shakes(&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"]));
    end(process, Signal::TERM);
    let suites = "ciphersuites TLS_CHACHA20_POLY1305_SHA256";
    let process = site.start(&format!("crt {crt} {suites}"), "");
    let output = site.shake(&["-tls1_3"]);
    assert!(output.contains("TLS_CHACHA20_POLY1305_SHA256"), "{output}");
    assert!(!shakes(&["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"]));
    end(process, Signal::TERM);
}

#[test]
fn clients_show_certificates() {
    let site = TlsProxy::new();
    let crt = site.pair("a.pem", &["a.example"]);
    let ca = site.certs.ca().display().to_string();
    let files = |who| {
        let (cert, key) = site.certs.files(who);
        [cert.display().to_string(), key.display().to_string()]
    };
    let rules = " http-response set-header seen \
                 \"%[ssl_c_used] %[ssl_c_verify] %[ssl_c_s_dn(cn)] %[ssl_c_serial,hex] \
                 %[ssl_c_sha1,hex] %[ssl_fc_has_crt]\"";
    let seen = |who: Option<CertOwner>| {
        let [cert, key] = who.map(files).unwrap_or_default();
        let mut arguments = vec!["-D-", "-o", "/dev/null"];
        if who.is_some() {
            arguments.extend(["--cert", &cert, "--key", &key]);
        }
        let head = site.curl("a.example", &arguments)?;
        Ok(head.lines().find_map(|line| line.strip_prefix("seen: ")).unwrap_or("").to_owned())
    };
    let everybody = [
        None,
        Some(CertOwner::Client),
        Some(CertOwner::StrangerClient),
        Some(CertOwner::RevokedClient),
    ];
    for verify in ["optional", "required"] {
        let process = site.start(&format!("crt {crt} ca-file {ca} verify {verify}"), rules);
        let ours: Vec<Result<String, i32>> = everybody.map(&seen).into();
        end(process, Signal::TERM);
        let path = site.path("proxy.cfg");
        let process = ChildProcess::start(peer("haproxy").args(["-db", "-f"]).arg(path));
        eventually("it listens", || std::net::TcpStream::connect(site.address).is_ok());
        let theirs: Vec<Result<String, i32>> = everybody.map(&seen).into();
        drop(process);
        let kinds =
            |all: &[Result<String, i32>]| all.iter().map(|it| it.clone().ok()).collect::<Vec<_>>();
        assert_eq!(kinds(&ours), kinds(&theirs), "{verify}");
        assert_eq!(ours[0].is_ok(), verify == "optional");
        assert!(ours[1].as_ref().unwrap().contains("1 0 Client "), "{ours:?}");
        assert!(ours[2].is_err() && ours[3].is_ok(), "{ours:?}");
    }
    let revoked = site.certs.revoked().display().to_string();
    let words = format!("crt {crt} ca-file {ca} verify required crl-file {revoked}");
    let process = site.start(&words, rules);
    assert!(seen(Some(CertOwner::Client)).is_ok() && seen(Some(CertOwner::RevokedClient)).is_err());
    end(process, Signal::TERM);
}

#[test]
fn unusable_certificates_are_reported_with_their_file() {
    let site = TlsProxy::new();
    let good = site.pair("good.pem", &["a.example"]);
    let other = site.pair("other.pem", &["b.example"]);
    let half = |path: &str, of: &str, to: &str| {
        let text = fs::read_to_string(path).unwrap();
        let at = text.find("-----BEGIN PRIVATE").unwrap();
        site.write(to, if of == "cert" { &text[..at] } else { &text[at..] })
    };
    let no_key = half(&good, "cert", "no-key.pem");
    let no_cert = half(&good, "key", "no-cert.pem");
    let mixed = fs::read_to_string(&no_key).unwrap()
        + &fs::read_to_string(half(&other, "key", "other-key.pem")).unwrap();
    let mixed = site.write("mixed.pem", &mixed);
    let junk = site.write("junk.pem", "no certificate at all\n");
    let missing = site.path("missing.pem").display().to_string();
    fs::create_dir(site.path("empty")).unwrap();
    let empty = site.path("empty").display().to_string();
    for file in [&no_key, &no_cert, &mixed, &junk, &missing, &empty] {
        let (ours, output, theirs) = checked(&site.configure(&format!("crt {file}"), ""));
        assert_eq!((ours, theirs), (Some(1), Some(1)), "{file}: {output}");
        assert!(output.contains(file.as_str()) && output.contains("[ALERT]"), "{file}: {output}");
    }
    for words in [format!("crt {good} verify required ca-file {junk}"), "verify none".to_owned()] {
        let (ours, output, theirs) = checked(&site.configure(&words, ""));
        assert_eq!((ours, theirs), (Some(1), Some(1)), "{words}: {output}");
    }
    // Expired certificates are accepted: clients reject them.
    let (cert, key) = site.certs.files(CertOwner::Expired);
    let over = fs::read_to_string(cert).unwrap() + &fs::read_to_string(key).unwrap();
    let over = site.write("over.pem", &over);
    let (ours, output, theirs) = checked(&site.configure(&format!("crt {over}"), ""));
    assert_eq!((ours, theirs), (Some(0), Some(0)), "{output}");
    let staple = site.write("good.pem.ocsp", "junk");
    let (ours, output, _) = checked(&site.configure(&format!("crt {good}"), ""));
    assert_eq!(ours, Some(0));
    assert!(output.contains("[WARNING]") && output.contains(&staple), "{output}");
    let text = site.read("proxy.cfg").replace("server s1", "server s2 ssl verify none crt JUNK #");
    let text =
        text.replace("ssl verify none crt JUNK #", &format!("127.0.0.1:1 ssl ca-file {junk} #"));
    let path = site.write("server.cfg", &text);
    let (ours, output, theirs) = checked(&path);
    assert_eq!((ours, theirs), (Some(1), Some(1)), "{output}");
    assert!(output.contains("be/s2") && output.contains(&junk), "{output}");
}

#[test]
fn a_certificate_is_replaced_while_it_is_shown() {
    let site = TlsProxy::new();
    let crt = site.pair("a.pem", &["a.example"]);
    let renewed = fs::read_to_string(site.pair("b.pem", &["renewed.example"])).unwrap();
    let other = fs::read_to_string(site.pair("c.pem", &["c.example"])).unwrap();
    let at = renewed.find("-----BEGIN PRIVATE").unwrap();
    let mixed = renewed[..at].to_owned() + &other[other.find("-----BEGIN PRIVATE").unwrap()..];
    let socket = site.path("s.sock");
    let path = site.configure(&format!("crt {crt}"), "");
    let text = site.read("proxy.cfg");
    let line = format!(" nbthread 1\n stats socket {} level admin\n", socket.display());
    fs::write(&path, text.replace(" nbthread 1\n", &line)).unwrap();
    let dialogue = [
        ("show ssl cert\n".to_owned(), true),
        (format!("set ssl cert {crt} <<\n{renewed}\n"), true),
        ("show ssl cert\n".to_owned(), true),
        (format!("abort ssl cert {crt}\n"), true),
        (format!("commit ssl cert {crt}\n"), true),
        (format!("set ssl cert /nowhere <<\n{renewed}\n"), true),
        (format!("set ssl cert {crt} <<\njunk\n\n"), false),
        (format!("set ssl cert {crt}\n"), true),
        ("show ssl cert /nowhere\n".to_owned(), true),
        (format!("set ssl cert {crt} <<\n{renewed}\n"), true),
        (format!("set ssl cert {crt} <<\n{renewed}\n"), true),
        (format!("commit ssl cert {crt}\n"), true),
        (format!("set ssl cert {crt} <<\n{mixed}\n"), false),
    ];
    let answers = |process: ChildProcess| {
        eventually("it listens", || std::net::TcpStream::connect(site.address).is_ok());
        assert_eq!(site.shown("a.example"), "a.example");
        let answers: Vec<String> =
            dialogue.iter().map(|(text, _)| runtime_command(&socket, text)).collect();
        assert_eq!(site.shown("a.example"), "renewed.example");
        end(process, Signal::TERM);
        answers
    };
    let ours = answers(ChildProcess::start(command().args(["-db", "-f", &path])));
    let theirs = answers(ChildProcess::start(peer("haproxy").args(["-db", "-f", &path])));
    for (((server_name, is_same), ours), theirs) in dialogue.iter().zip(&ours).zip(&theirs) {
        match is_same {
            true => assert_eq!(ours, theirs, "{server_name}"),
            false => assert!(ours.contains("Can't update "), "{server_name}: {ours}"),
        }
    }
}

#[test]
fn a_certificate_is_replaced_where_no_other_file_can_be_read_any_more() {
    let site = TlsProxy::new();
    let crt = site.pair("a.pem", &["a.example"]);
    site.certs.issue("apart", &["apart.example"]); // its key is in a separate file
    let apart = site.path("apart.pem").display().to_string();
    let renewed = fs::read_to_string(site.pair("b.pem", &["renewed.example"])).unwrap();
    let authorities = site.write("authorities.pem", &site.read("ca.pem"));
    let lists = site.write("lists.pem", &fs::read_to_string(site.certs.revoked()).unwrap());
    let words =
        format!("crt {crt} crt {apart} ca-file {authorities} crl-file {lists} verify optional");
    let socket = site.path("s.sock");
    let path = site.configure(&words, "");
    let line = format!(" nbthread 1\n stats socket {} level admin\n", socket.display());
    fs::write(&path, site.read("proxy.cfg").replace(" nbthread 1\n", &line)).unwrap();
    let process = ChildProcess::start(command().args(["-db", "-f", &path]));
    eventually("it listens", || std::net::TcpStream::connect(site.address).is_ok());
    eventually("there too", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    for name in ["a.pem", "apart.pem", "apart.key", "lists.pem"] {
        fs::remove_file(site.path(name)).unwrap(); // as after a `chroot`
    }
    fs::write(&authorities, "half a file").unwrap();
    let answer = runtime_command(&socket, &format!("set ssl cert {crt} <<\n{renewed}\n"));
    assert_eq!(answer, format!("Transaction created for certificate {crt}!\n\n"));
    let answer = runtime_command(&socket, &format!("commit ssl cert {crt}\n"));
    assert_eq!(answer, format!("Committing {crt}.\nSuccess!\n\n"));
    assert_eq!(site.shown("renewed.example"), "renewed.example");
    assert_eq!(site.shown("apart.example"), "apart.example");
    end(process, Signal::TERM);
}

fn runtime_command(socket: &Path, command: &str) -> String {
    let mut to = std::os::unix::net::UnixStream::connect(socket).unwrap();
    to.write_all(command.as_bytes()).unwrap();
    let mut answer = String::new();
    to.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_reload_reads_certificates_anew() {
    let site = TlsProxy::new();
    let crt = site.pair("a.pem", &["a.example"]);
    let path = site.configure(&format!("crt {crt}"), "");
    let mut master = ChildProcess::start(command().args(["-W", "-db", "-f", &path]));
    master.wait_stderr("Loading success.");
    assert_eq!(site.shown("a.example"), "a.example");
    site.pair("a.pem", &["renewed.example"]);
    master.signal(Signal::USR2);
    master.wait_stderr("Loading success.");
    eventually("the new one is shown", || site.shown("a.example") == "renewed.example");
    fs::write(Path::new(&crt), "junk").unwrap();
    master.signal(Signal::USR2);
    master.wait_stderr("Loading failure!");
    assert_eq!(site.shown("a.example"), "renewed.example");
    end(master, Signal::TERM);
}
