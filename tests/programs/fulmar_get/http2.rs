//! `fulmar get` over HTTP/2, as a server chooses it by ALPN.

use std::fs;

use fulmar_tests::certs::{CertOwner, Certs};
use fulmar_tests::get::Download;
use fulmar_tests::load::{Nginx, load};
use fulmar_tests::nghttpd::Nghttpd;
use fulmar_tests::tree::noise;

/// Files of a site, by name.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> =
        (0..40_usize).map(|n| (format!("file{n}"), noise(n * n * n + 1))).collect();
    files.push(("large".to_owned(), noise(3_000_000)));
    files.sort();
    files
}

#[test]
fn get_downloads_from_nghttpd() {
    let (download, certs, site) = (Download::new(), Certs::new(), files());
    let root = download.turn_while("site");
    fs::create_dir(&root).expect("room");
    for (name, content) in &site {
        fs::write(root.join(name), content).expect("room");
    }
    let server = Nghttpd::start(&certs, &root, &[]);
    let ca = certs.ca();
    let trust = ["--cacert", ca.to_str().expect("a path in UTF-8")];
    let urls = |names: &[(String, Vec<u8>)]| {
        let url = |(name, _): &(String, _)| format!("https://{}/{name}\n", server.address);
        names.iter().map(url).collect::<String>()
    };
    let ended = download.run_list(&urls(&site), &trust);
    assert!(ended.status.success(), "{ended:?}");
    assert!(download.files() == site, "{:?}", download.names());
    // nghttpd closes connections that have not negotiated HTTP/2.
    fs::remove_dir_all(download.out()).expect("it was made");
    let without = [&trust[..], &["--http1.1", "--retry", "0"]].concat();
    let ended = download.run_list(&urls(&site[..1]), &without);
    assert!(!ended.status.success() && download.names().is_empty(), "{ended:?}");
}

/// A server that speaks HTTP/2 only, without TLS: the errors name the options.
#[test]
fn a_server_of_http2_only_is_named() {
    let (download, certs) = (Download::new(), Certs::new());
    let root = download.turn_while("site");
    fs::create_dir(&root).expect("room");
    let server = Nghttpd::start(&certs, &root, &["--no-tls"]);
    let url = format!("http://{}/index.html", server.address);
    let ended = download.run(&["--retry", "0", &url]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("use --http2-prior-knowledge"), "{ended:?}");
    let load = load(&["-c", "1", "-n", "1", &url]);
    assert!(load.stdout.contains("use --http2 for servers"), "{load:?}");
}

/// nginx reports the protocol of each request, and its connection.
#[test]
fn get_negotiates_http2_with_nginx() {
    let (download, certs) = (Download::new(), Certs::new());
    let (cert, key) = certs.files(CertOwner::Server);
    let server = Nginx::with(|address, _| {
        format!(
            "server {{ listen {address} ssl http2 reuseport;\n\
             ssl_certificate {}; ssl_certificate_key {};\n\
             location / {{ return 200 \"$server_protocol $connection\"; }} }}",
            cert.display(),
            key.display()
        )
    });
    let ca = certs.ca();
    let trust = ["--cacert", ca.to_str().expect("a path in UTF-8")];
    let urls: String = (0..30).map(|n| format!("https://{}/{n}\n", server.address)).collect();
    let protocols = |arguments: &[&str]| {
        let ended = download.run_list(&urls, &[&trust, arguments].concat());
        assert!(ended.status.success(), "{ended:?}");
        let mut said: Vec<String> = download
            .files()
            .into_iter()
            .map(|(_, content)| String::from_utf8(content).expect("text"))
            .collect();
        assert_eq!(said.len(), 30);
        fs::remove_dir_all(download.out()).expect("it was made");
        said.sort();
        said.dedup();
        said
    };
    let negotiated = protocols(&[]);
    assert!(negotiated.len() == 1 && negotiated[0].starts_with("HTTP/2.0 "), "{negotiated:?}");
    let known = protocols(&["--http2-prior-knowledge"]);
    assert!(known.len() == 1 && known[0].starts_with("HTTP/2.0 "), "{known:?}");
    let excluded = protocols(&["--http1.1"]);
    assert!(excluded.iter().all(|said| said.starts_with("HTTP/1.1 ")), "{excluded:?}");
    let restored = protocols(&["--http1.1", "--http2"]);
    assert!(restored.iter().all(|said| said.starts_with("HTTP/2.0 ")), "{restored:?}");
}
