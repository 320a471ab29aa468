//! HAProxy in a process of its own, with the same configuration as our proxy: its behaviour is the
//! expected one.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::load::bound;
use crate::process::{PATIENCE, eventually};
use crate::scripted::Scripted;
use crate::test_proxy::is_whole;

/// HAProxy, which logs to its standard output.
#[derive(Debug)]
pub struct RunningHaProxy {
    process: Child,
    lines: BufReader<ChildStdout>,
    address: SocketAddr,
    _holder: OwnedFd,
    _folder: tempfile::TempDir,
}

impl RunningHaProxy {
    /// Starts it with this configuration. `127.0.0.1:0` is replaced by its address, `ORIGIN0` and
    /// so on by those of the origins.
    ///
    /// # Panics
    /// If it does not start.
    pub fn new(text: &str, origins: &[Scripted]) -> Self {
        let (holder, address) = bound();
        let mut text = text.replace("127.0.0.1:0\n", &format!("{address}\n"));
        for (at, origin) in origins.iter().enumerate() {
            text = text.replace(&format!("ORIGIN{at}"), &origin.address().to_string());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("haproxy.cfg");
        std::fs::write(&path, text).expect("the file is written");
        let mut process = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("haproxy is there: scripts/setup-peers installs it");
        let lines = BufReader::new(process.stdout.take().expect("it is piped"));
        Self { process, lines, address, _holder: holder, _folder: folder }
    }

    /// Sends a request and returns the response; meanwhile the origins are turned.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn send_request(&mut self, request: &str, origins: &mut [Scripted]) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("room");
        stream.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
        let mut got = Vec::new();
        let start = fulmar_sys::now();
        while fulmar_sys::now() - start < PATIENCE {
            origins.iter_mut().for_each(Scripted::turn);
            let mut bytes = [0; 64 * 1024];
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => got.extend_from_slice(&bytes[..n]),
                // A stop and a continue are enough if there is a timeout (signal(7)).
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => panic!("{error}"),
            }
            if is_whole(&got) {
                break;
            }
        }
        String::from_utf8(got).expect("text")
    }

    /// The next line of its log.
    ///
    /// # Panics
    /// If it ends before that.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).expect("a pipe") > 0, "HAProxy has ended");
        line.trim_end().to_owned()
    }

    /// A connection to it; its start takes a while.
    fn connect(&mut self) -> TcpStream {
        let Self { process, address, .. } = self;
        let mut stream = None;
        eventually("HAProxy listens", || {
            let ended = process.try_wait().expect("a process");
            assert!(ended.is_none(), "HAProxy does not take the configuration");
            stream = TcpStream::connect(*address).ok();
            stream.is_some()
        });
        stream.expect("it was just made")
    }
}

impl Drop for RunningHaProxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
