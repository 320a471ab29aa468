//! nghttpd: a server of HTTP/2 over TLS and of nothing else.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::certs::{CertOwner, Certs};
use crate::load::bound;
use crate::process::{ChildProcess, eventually, peer};

/// A running nghttpd.
#[derive(Debug)]
pub struct Nghttpd {
    /// Where it listens.
    pub address: SocketAddr,
    _process: ChildProcess,
    _holder: OwnedFd,
}

impl Nghttpd {
    /// Starts it with the files of `site` and a server's certificate. It chooses `h2` by ALPN and
    /// accepts no other protocol. A POST responds with its body.
    ///
    /// # Panics
    /// It is not installed, or does not listen.
    pub fn start(certs: &Certs, site: &Path, options: &[&str]) -> Self {
        let (cert, key) = certs.files(CertOwner::Server);
        let (holder, address) = bound();
        let mut command = peer("nghttpd");
        command.args(["-a", "127.0.0.1", "--echo-upload", "-d"]).arg(site).args(options);
        command.arg(address.port().to_string()).args([key, cert]);
        let process = ChildProcess::start(&mut command);
        eventually("nghttpd listens", || TcpStream::connect(address).is_ok());
        Self { address, _process: process, _holder: holder }
    }
}
