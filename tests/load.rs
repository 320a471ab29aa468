//! `fulmar load` as a process, and the servers for it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::Value;
use tempfile::TempDir;

use crate::certs::{CertOwner, Certs};
use crate::http::HttpClient;
use crate::process::{ChildProcess, ExitOutput, eventually, fulmar, peer, text};
use crate::threads::serve_each;

/// `fulmar load` with these arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(fulmar());
    command.arg("load").args(arguments);
    command
}

/// Runs `fulmar load` to its end, with any status.
///
/// # Panics
/// It does not end.
pub fn load(arguments: &[&str]) -> ExitOutput {
    ChildProcess::start(&mut command(arguments)).wait()
}

/// The report of a successful run without complaints.
///
/// # Panics
/// It did not.
pub fn report(arguments: &[&str]) -> LoadReport {
    let ended = load(&[arguments, &["--json"]].concat());
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stderr, "", "{arguments:?}");
    LoadReport::of(&ended)
}

/// What `--json` printed.
#[derive(Clone, Debug)]
pub struct LoadReport(pub Value);

impl LoadReport {
    /// Reads it.
    ///
    /// # Panics
    /// It is not one line of JSON.
    pub fn of(ended: &ExitOutput) -> Self {
        assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
        Self(serde_json::from_str(&ended.stdout).unwrap_or_else(|e| panic!("{e}: {ended:?}")))
    }

    /// A count, by its path as `/connections/opened`; 0 if the path is missing.
    pub fn count(&self, place: &str) -> u64 {
        self.0.pointer(place).map_or(0, |value| value.as_u64().expect("a count"))
    }

    /// The number of calls of this name.
    pub fn calls(&self, name: &str) -> u64 {
        self.count(&format!("/syscalls/{name}/calls"))
    }

    /// The number of calls without an effect.
    ///
    /// # Panics
    /// It is no report.
    pub fn eagain(&self) -> u64 {
        let calls = self.0["syscalls"].as_object().expect("an object");
        calls.values().map(|call| call["eagain"].as_u64().expect("a count")).sum()
    }

    /// Requests answered.
    pub fn requests(&self) -> u64 {
        self.count("/requests")
    }

    /// The failures, with their counts.
    ///
    /// # Panics
    /// It is no report.
    pub fn errors(&self) -> Vec<(&str, u64)> {
        let errors = self.0["errors"].as_object().expect("an object");
        errors.iter().map(|(kind, n)| (kind.as_str(), n.as_u64().expect("a count"))).collect()
    }
}

/// A running nginx, which responds with 128 bytes to every request.
#[derive(Debug)]
pub struct Nginx {
    /// The only process.
    pub process: ChildProcess,
    /// Where it listens.
    pub address: SocketAddr,
    _holder: OwnedFd,
    _dir: TempDir,
}

impl Nginx {
    /// Starts it with a response of 128 bytes to every request.
    ///
    /// # Panics
    /// It is not installed, or does not respond.
    pub fn start() -> Self {
        let body = "n".repeat(128);
        let this = Self::with(|address, _| {
            format!("server {{ listen {address} reuseport; location / {{ return 200 {body}; }} }}")
        });
        let reply = HttpClient::connect(this.address).get("/");
        assert_eq!((reply.status, reply.body.len()), (200, 128));
        this
    }

    /// The same over TLS, with a server's certificate.
    ///
    /// # Panics
    /// As [`Nginx::start`].
    pub fn start_tls(certs: &Certs) -> Self {
        let (cert, key) = certs.files(CertOwner::Server);
        let (cert, key) = (cert.display().to_string(), key.display().to_string());
        let body = "n".repeat(128);
        Self::with(|address, _| {
            format!(
                "server {{ listen {address} reuseport ssl; ssl_certificate {cert}; \
                 ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3; \
                 location / {{ return 200 {body}; }} }}"
            )
        })
    }

    /// Starts it with these server blocks, which are built from its address and a directory. A
    /// socket that never listens holds the port, which can be any free one.
    ///
    /// # Panics
    /// It is not installed, or does not listen.
    pub fn with(servers: impl FnOnce(SocketAddr, &Path) -> String) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (holder, address) = bound();
        let path = dir.path().display();
        let servers = servers(address, dir.path());
        let conf = format!(
            "daemon off; master_process off; pid {path}/pid; error_log stderr error;\n\
             events {{ worker_connections 1024; }}\n\
             http {{ access_log off; keepalive_requests 1000000000;\n\
             client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;\n\
             fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi;\n\
             scgi_temp_path {path}/scgi;\n\
             {servers} }}\n"
        );
        fs::write(dir.path().join("nginx.conf"), conf).expect("a file");
        let mut command = peer("nginx");
        command.arg("-p").arg(dir.path()).args(["-e", "stderr", "-c", "nginx.conf"]);
        let process = ChildProcess::start(&mut command);
        eventually("nginx listens", || TcpStream::connect(address).is_ok());
        Self { process, address, _holder: holder, _dir: dir }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// A server that runs `script` on each connection; it lives as long as the test.
///
/// # Panics
/// There is no port.
pub fn scripted<F>(serve: F) -> String
where
    F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    format!("http://{}/", serve_each(serve)) // an error is the client's end
}

/// A request as received: its head with the empty line, and its body.
///
/// # Errors
/// The client has gone.
pub fn read_request(from: &mut BufReader<impl Read>) -> io::Result<(String, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if from.read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = text(&head);
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |n| n.parse().expect("a length"))];
    from.read_exact(&mut body)?;
    Ok((head, body))
}

/// A URL without a listener, as long as the socket lives.
///
/// # Panics
/// There is no port.
pub fn refusing() -> (OwnedFd, String) {
    let (socket, address) = unused_port();
    (socket, format!("http://{address}/"))
}

/// An address without a listener, as long as the socket lives; no other socket shares it.
///
/// # Panics
/// There is no port.
pub fn unused_port() -> (OwnedFd, SocketAddr) {
    bind(socket())
}

/// A socket that holds a free port and does not listen. Only sockets that share it, or that set
/// `SO_REUSEADDR` as servers do, can bind to the port (`SO_REUSEADDR` and `SO_REUSEPORT` in
/// socket(7)).
///
/// # Panics
/// There is none.
pub fn bound() -> (OwnedFd, SocketAddr) {
    let socket = socket();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).expect("a socket");
    rustix::net::sockopt::set_socket_reuseport(&socket, true).expect("since Linux 3.9");
    bind(socket)
}

/// Programs that a test starts do not inherit it.
fn socket() -> OwnedFd {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket")
}

fn bind(socket: OwnedFd) -> (OwnedFd, SocketAddr) {
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
    let address = rustix::net::getsockname(&socket).expect("it is bound");
    (socket, SocketAddr::try_from(address).expect("an address of IPv4"))
}
