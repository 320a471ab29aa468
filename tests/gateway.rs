//! `fulmar proxy` as a process, and HAProxy beside it.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::origins::free_address;
use crate::process::{ChildProcess, ExitOutput, eventually, fulmar};
use crate::threads::serve_each;

/// A folder for a configuration, a free address for its frontend, and a server.
#[derive(Debug)]
pub struct ProxyFolder {
    dir: TempDir,
    /// The address of the frontend.
    pub address: SocketAddr,
    /// A server that responds with its name.
    pub origin: SocketAddr,
}

impl Default for ProxyFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl ProxyFolder {
    /// With a server in this process.
    ///
    /// # Panics
    /// No folder or port is available.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, address: free_address(), origin: origin("origin") }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes `proxy.cfg`: `global`, `defaults` with long timeouts, a frontend `fe` with `front`,
    /// and a backend `be` with the server.
    ///
    /// # Panics
    /// The disk is full.
    pub fn configure(&self, global: &str, front: &str) -> PathBuf {
        let Self { address, origin, .. } = self;
        let text = format!(
            "global\n nbthread 2\n{global}\ndefaults\n mode http\n timeout client 1m\n \
             timeout server 1m\n timeout connect 10s\n{front}\nfrontend fe\n bind {address}\n \
             default_backend be\nbackend be\n server s1 {origin}\n"
        );
        self.write("proxy.cfg", &text)
    }

    /// Writes a file.
    ///
    /// # Panics
    /// The disk is full.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file");
        path
    }

    /// Starts the proxy, and waits until it serves.
    ///
    /// # Panics
    /// It does not serve.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> ChildProcess {
        let process = ChildProcess::start(command().args(arguments));
        self.wait();
        process
    }

    /// Waits until the frontend responds.
    ///
    /// # Panics
    /// It does not respond.
    pub fn wait(&self) {
        eventually("it serves", || self.send_request().is_ok());
    }

    /// Sends one request on a new connection; returns the response.
    ///
    /// # Errors
    /// The response is incomplete.
    pub fn send_request(&self) -> std::io::Result<String> {
        send_request(self.address)
    }
}

/// Sends one request on a new connection; returns the response.
///
/// # Errors
/// The response is incomplete.
pub fn send_request(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let whole = text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\norigin");
    whole.then_some(()).ok_or_else(|| std::io::Error::other(text.clone()))?;
    Ok(text)
}

/// `fulmar proxy` without a service manager.
pub fn command() -> Command {
    let mut command = Command::new(fulmar());
    command.arg("proxy").env_remove("NOTIFY_SOCKET");
    command
}

/// Runs it until it exits.
///
/// # Panics
/// It does not start.
pub fn run<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> ExitOutput {
    ChildProcess::start(command().args(arguments)).wait()
}

/// Sends a signal, and waits for the exit.
pub fn end(process: ChildProcess, signal: Signal) -> ExitOutput {
    process.signal(signal);
    process.wait()
}

/// The number in a file.
///
/// # Panics
/// There is no number.
pub fn pid_in(path: &Path) -> u32 {
    let text = fs::read_to_string(path).expect("a file");
    text.trim().parse().expect("a number")
}

/// A server that responds with its name, and keeps connections.
///
/// # Panics
/// No port is available.
pub fn origin(name: &'static str) -> SocketAddr {
    serve_each(move |stream| serve(stream, name))
}

fn serve(mut stream: TcpStream, name: &str) -> std::io::Result<()> {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        heard.extend_from_slice(&buffer[..n]);
        while let Some(end) = heard.windows(4).position(|window| window == b"\r\n\r\n") {
            heard.drain(..end + 4);
            let len = name.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n{name}");
            stream.write_all(head.as_bytes())?;
        }
    }
}
