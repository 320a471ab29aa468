//! Origin servers of other projects, for tests behind a proxy. Each logs the requests that it
//! received.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use tempfile::TempDir;

use crate::http::HttpClient;
use crate::load::{Nginx, bound};
use crate::process::{ChildProcess, eventually, peer};

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// nginx.
    Nginx,
    /// Apache httpd.
    Apache,
    /// The HTTP server of Node.
    Node,
    /// gunicorn.
    Python,
    /// HAProxy, which responds itself.
    HaProxy,
}

impl OriginKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Nginx, Self::Apache, Self::Node, Self::Python, Self::HaProxy];

    /// True if it logs the lengths of bodies, and only complete requests.
    pub fn logs_complete_requests(self) -> bool {
        matches!(self, Self::Node | Self::Python)
    }
}

/// A running server.
#[derive(Debug)]
pub struct OriginServer {
    /// Which one.
    pub kind: OriginKind,
    /// Where it listens.
    pub address: SocketAddr,
    log: PathBuf,
    _process: Option<ChildProcess>,
    _nginx: Option<Nginx>,
    _dir: TempDir,
}

impl OriginServer {
    /// Starts it.
    ///
    /// # Panics
    /// It is not installed, or does not listen.
    pub fn start(kind: OriginKind) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let log = dir.path().join("access.log");
        if kind == OriginKind::Nginx {
            let nginx = Nginx::with(|address, _| nginx_servers(address, &log));
            let address = nginx.address;
            return Self { kind, address, log, _process: None, _nginx: Some(nginx), _dir: dir };
        }
        let address = free_address();
        let mut command = match kind {
            OriginKind::Nginx => unreachable!("started above"),
            OriginKind::Apache => apache(address, dir.path(), &log),
            OriginKind::Node => node(address, &log),
            OriginKind::Python => gunicorn(address, dir.path(), &log),
            OriginKind::HaProxy => haproxy(address, dir.path(), &log),
        };
        let process = ChildProcess::start(&mut command);
        eventually("the origin listens", || TcpStream::connect(address).is_ok());
        Self { kind, address, log, _process: Some(process), _nginx: None, _dir: dir }
    }

    /// The requests since its start: `METHOD target`, followed by the length of the body if
    /// [`OriginKind::logs_complete_requests`]. All earlier requests are included.
    ///
    /// # Panics
    /// It does not respond.
    pub fn requests(&self) -> Vec<String> {
        let before = self.lines().iter().filter(|line| line.contains(MARK)).count();
        let reply = HttpClient::connect(self.address).get(MARK);
        assert!(reply.status < 300, "{reply:?}");
        let marks = |lines: &[String]| lines.iter().filter(|line| line.contains(MARK)).count();
        eventually("the origin logs the requests", || marks(&self.lines()) > before);
        self.lines().into_iter().filter(|line| !line.contains(MARK)).collect()
    }

    /// The same without the first `before`, once `enough` holds or a limit of time has passed: some
    /// servers log an exchange shortly after its end.
    pub fn requests_after(&self, before: usize, enough: impl Fn(&[String]) -> bool) -> Vec<String> {
        let start = fulmar_sys::now();
        loop {
            let heard = self.requests().split_off(before);
            if enough(&heard) || start.elapsed() > LATEST {
                return heard;
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

fn nginx_servers(address: SocketAddr, log: &Path) -> String {
    let log = log.display();
    format!(
        "log_format heard '$request_method $request_uri';\n\
         server {{ listen {address} reuseport; access_log {log} heard; large_client_header_buffers \
         4 64k;\n\
         return 200 'heard\\n'; }}"
    )
}

fn apache(address: SocketAddr, dir: &Path, log: &Path) -> Command {
    let (path, log) = (dir.display(), log.display());
    let modules = "/usr/lib/apache2/modules";
    let conf = format!(
        "ServerRoot {path}\nServerName localhost\nListen {address}\nPidFile {path}/pid\n\
         DefaultRuntimeDir {path}\nMutex pthread\nUser nobody\nGroup nogroup\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule alias_module {modules}/mod_alias.so\n\
         ErrorLog /dev/stderr\nMaxKeepAliveRequests 0\n\
         LogFormat \"%m %U%q\" heard\nCustomLog {log} heard\n\
         LimitRequestLine 65536\nLimitRequestFieldSize 65536\n\
         RedirectMatch 204 .*\n"
    );
    let file = dir.join("apache.conf");
    fs::write(&file, conf).expect("a file");
    let mut command = peer("apache2");
    command.arg("-X").arg("-f").arg(file);
    command
}

fn node(address: SocketAddr, log: &Path) -> Command {
    let mut command = peer("node");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/origin.js");
    command.arg(script).arg(address.port().to_string()).arg(log);
    command
}

fn gunicorn(address: SocketAddr, dir: &Path, log: &Path) -> Command {
    let mut command = peer("gunicorn");
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    command.arg("--chdir").arg(scripts).args(["-b", &address.to_string(), "-k", "gthread"]);
    command.arg("--worker-tmp-dir").arg(dir).args(["--threads", "8", "--log-level", "error"]);
    command.args(["--limit-request-line", "8190", "origin:app"]).env("ORIGIN_LOG", log);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn haproxy(address: SocketAddr, dir: &Path, log: &Path) -> Command {
    let conf = "global\n log stdout format raw local0\n\
        defaults\n mode http\n option dontlognull\n timeout client 20s\n timeout server 20s\n \
        timeout connect 5s\n\
        frontend f\n log global\n log-format \"%HM %HU\"\n";
    let conf = format!("{conf} bind {address}\n http-request return status 200\n");
    let file = dir.join("haproxy.cfg");
    fs::write(&file, conf).expect("a file");
    let mut command = peer("sh");
    let haproxy = peer("haproxy").get_program().to_owned();
    command.args(["-c", "exec \"$0\" -db -f \"$1\" > \"$2\""]).arg(haproxy).arg(file).arg(log);
    command
}

/// An address without a listener, for a server to be started there: it is reserved for as long as
/// the tests run.
///
/// # Panics
/// There is none.
pub fn free_address() -> SocketAddr {
    static HELD: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
    let (socket, address) = bound();
    HELD.lock().expect("nobody panics with it").push(socket);
    address
}

/// The longest delay of a log line.
const LATEST: Duration = Duration::from_secs(20);
/// The request that flushes an origin's log: every earlier request is logged when its response
/// arrives.
const MARK: &str = "/-mark-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_origin_logs_its_requests() {
        for kind in OriginKind::ALL {
            let origin = OriginServer::start(kind);
            let mut client = HttpClient::connect(origin.address);
            let request = "POST /echo?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
            client.send(request);
            assert!(client.read_reply().expect("an answer").status < 300, "{kind:?}");
            let line =
                if kind.logs_complete_requests() { "POST /echo?a=b 5" } else { "POST /echo?a=b" };
            assert_eq!(origin.requests_after(0, |all| !all.is_empty()), [line], "{kind:?}");
        }
    }
}
