//! The servers and proxies that are measured, each started in its fastest configuration.

mod nginx;
mod ports;
mod proxies;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::BenchError;
use crate::http::{BenchConnection, HttpResponse};
use crate::lab::{CPeer, CallFigures, Child, Lab, count, cpu_us, json, last, memory, wrapped};
use crate::loads::callgrind;

pub(crate) use nginx::NginxServer;
pub(crate) use ports::free_ports;
pub(crate) use proxies::{ProxyFrontend, ProxyProcess, TCP_IS_MISSING};

/// A server on loopback.
#[derive(Debug)]
pub(crate) struct BenchServer {
    pub(crate) child: Child,
    pub(crate) line: String,
    pub(crate) port: u16,
    /// The process that serves.
    pub(crate) pid: u32,
    /// The certificate, if it speaks TLS.
    pub(crate) certificate: Option<PathBuf>,
    /// Where it reports its own system calls.
    pub(crate) ledger: OwnLedger,
}

/// Where a server reports its own system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnLedger {
    /// It does not: the kernel counts them.
    No,
    /// `/.ledger`, as JSON.
    Json,
    /// `/metrics` at this port.
    Metrics(u16),
}

/// What a process is started under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper<'a> {
    No,
    /// With the lowest priority: clients of the same core go first.
    Nice,
    /// After everything else on its core.
    Last,
    /// Under callgrind, which writes to this file.
    Callgrind(&'a Path),
}

impl Wrapper<'_> {
    pub(crate) fn apply(self, command: Command) -> Command {
        match self {
            Self::No => command,
            Self::Nice => wrapped("nice", &["-n", "19"], &command),
            Self::Last => last(&command),
            Self::Callgrind(out) => callgrind(&command, out, &[]),
        }
    }
}

impl BenchServer {
    /// A started command that prints its port in its first line.
    pub(crate) fn printing_port(
        lab: &Lab,
        command: Command,
        cpus: &[usize],
    ) -> Result<Self, BenchError> {
        let line = lab.line(&command);
        let mut child = lab.start(command, cpus)?;
        let port = child.printed(|text| text.split_once('\n')?.0.parse().ok())?;
        let pid = child.id();
        Ok(Self { child, line, port, pid, certificate: None, ledger: OwnLedger::No })
    }

    /// A started command that accepts connections at `port`.
    pub(crate) fn at(
        lab: &Lab,
        command: Command,
        cpus: &[usize],
        port: u16,
    ) -> Result<Self, BenchError> {
        let line = lab.line(&command);
        let mut child = lab.start(command, cpus)?;
        child.accepting(port)?;
        let pid = child.id();
        Ok(Self { child, line, port, pid, certificate: None, ledger: OwnLedger::No })
    }

    /// `fulmar serve` with its test endpoints, on one or more addresses.
    pub(crate) fn serve(
        lab: &Lab,
        words: &[&str],
        addresses: &[&str],
        cpus: &[usize],
        wrapper: Wrapper<'_>,
    ) -> Result<(Self, Vec<String>), BenchError> {
        let mut command = lab.fulmar(&["serve", "--test-endpoints", "--ledger"]);
        command.args(["--drain-timeout", "1s"]).args(words);
        for address in addresses {
            command.args(["--listen", &format!("{address}:0")]);
        }
        command.arg(make_site(lab)?);
        let command = wrapper.apply(command);
        let line = lab.line(&command);
        let mut child = lab.start(command, cpus)?;
        let addresses = child.printed(|text| greeted(text, addresses.len()))?;
        let (port, pid) = (port_of(&addresses[0]), child.id());
        let server = Self { child, line, port, pid, certificate: None, ledger: OwnLedger::Json };
        Ok((server, addresses))
    }

    /// One of the servers of `server-*`: a program with an embedded library, nginx or h2o.
    pub(crate) fn embedded(
        lab: &Lab,
        name: &str,
        key: Option<&Path>,
        deferred: bool,
        wrapper: Wrapper<'_>,
    ) -> Result<Self, BenchError> {
        let site = make_site(lab)?;
        let (mut command, ledger) = match name {
            "nginx" => {
                return NginxServer { key, deferred, wrapper, ..NginxServer::default() }.start(lab);
            }
            "h2o" => return h2o(lab, &site, key, wrapper),
            "libmicrohttpd" => (Command::new(CPeer::LIBMICROHTTPD.program(lab)?), OwnLedger::No),
            _ => {
                let mut command = lab.worker("responses");
                command.args(["--defer-accept", if deferred { "on" } else { "off" }]);
                (command, OwnLedger::Json)
            }
        };
        command.arg("--site").arg(&site);
        if let Some(key) = key {
            command.arg("--cert").arg(key.with_extension("crt")).arg("--key").arg(key);
        }
        let server = Self::printing_port(lab, wrapper.apply(command), &lab.cores.server)?;
        Ok(Self { certificate: key.map(|key| key.with_extension("crt")), ledger, ..server })
    }

    /// One of the servers of `server-http2-*`. In clear text nginx and nghttpd speak nothing else.
    pub(crate) fn http2(
        lab: &Lab,
        name: &str,
        key: Option<&Path>,
        wrapper: Wrapper<'_>,
    ) -> Result<Self, BenchError> {
        match name {
            "nginx" => {
                NginxServer { key, wrapper, http2: true, ..NginxServer::default() }.start(lab)
            }
            "nghttpd" => nghttpd(lab, key, wrapper),
            _ => Self::embedded(lab, name, key, false, wrapper),
        }
    }

    /// The server of `bench/peers/server.c`, which sends each response in one call, and holds the
    /// first ones until `hold` connections have sent a request.
    pub(crate) fn one_call(
        lab: &Lab,
        hold: usize,
        workers: u32,
        cpus: &[usize],
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(CPeer::SERVER.program(lab)?);
        command.args(["--hold", &hold.to_string(), "--workers", &workers.to_string()]);
        Self::printing_port(lab, command, cpus)
    }

    /// Stops [`BenchServer::one_call`]; an error if a response did not fit in one call.
    pub(crate) fn stop_whole(self) -> Result<(), BenchError> {
        let line = self.line.clone();
        let text = self.child.stop()?;
        let sent = json(text.lines().nth(1).unwrap_or_default(), &line)?;
        match sent["partial"].as_u64() {
            Some(0) => Ok(()),
            partial => {
                let why = format!("{partial:?} responses did not fit in one call");
                Err(BenchError::process(&line, why))
            }
        }
    }

    pub(crate) fn stop(self) -> Result<(), BenchError> {
        self.child.stop().map(drop)
    }

    pub(crate) fn url(&self, target: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{target}", self.port)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub(crate) fn connect(&self) -> Result<BenchConnection, BenchError> {
        let opened = BenchConnection::open(self.address(), self.certificate.as_deref());
        opened.map_err(BenchError::io(format!("connecting to {}", self.line)))
    }

    /// A single request.
    pub(crate) fn get(&self, target: &str) -> Result<HttpResponse, BenchError> {
        let response = self.connect()?.get(target, "Connection: close\r\n");
        response.map_err(BenchError::io(format!("GET {target} from {}", self.line)))
    }

    /// A connection that has had one response and is idle.
    pub(crate) fn idle_connection(&self, target: &str) -> Result<BenchConnection, BenchError> {
        let mut connection = self.connect()?;
        let response = connection.get(target, "");
        response.map_err(BenchError::io(format!("GET {target} from {}", self.line)))?;
        Ok(connection)
    }

    /// Fails unless `target` has this many bytes.
    pub(crate) fn check(&self, target: &str, len: usize) -> Result<(), BenchError> {
        let response = self.get(target)?;
        let found = (response.status, response.body.len());
        match found == (200, len) {
            true => Ok(()),
            false => {
                let why = format!("{target} should be 200 with {len} bytes, not {found:?}");
                Err(BenchError::process(&self.line, why))
            }
        }
    }

    /// The system calls of `work`: from the ledger where there is one, else counted in the kernel.
    pub(crate) fn calls_of(
        &self,
        work: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<CallFigures, BenchError> {
        if self.ledger == OwnLedger::No {
            let found = count(self.pid, work)?;
            return found.map(|it| it.counts).map_err(|why| BenchError::process(&self.line, why));
        }
        let before = self.ledger_now()?;
        work()?;
        Ok(self.ledger_now()?.since(&before))
    }

    fn ledger_now(&self) -> Result<CallFigures, BenchError> {
        let OwnLedger::Metrics(port) = self.ledger else {
            return Ok(CallFigures::from_ledger(&self.counters()?["syscalls"]));
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let response = BenchConnection::open(address, None)
            .and_then(|mut it| it.get("/metrics", "Connection: close\r\n"));
        let response = response.map_err(BenchError::io("the metrics of fulmar proxy"))?;
        Ok(CallFigures::from_metrics(&String::from_utf8_lossy(&response.body)))
    }

    /// `/.ledger`: requests and system calls so far.
    pub(crate) fn counters(&self) -> Result<Value, BenchError> {
        json(&String::from_utf8_lossy(&self.get("/.ledger")?.body), &self.line)
    }

    /// Processor time of `work` in microseconds, and its result.
    pub(crate) fn cpu_of<T>(
        &self,
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(f64, T), BenchError> {
        let before = cpu_us(self.pid)?;
        let result = work()?;
        Ok((cpu_us(self.pid)? - before, result))
    }

    /// Resident memory in bytes.
    pub(crate) fn rss(&self) -> Result<f64, BenchError> {
        memory(self.pid, "VmRSS")
    }
}

/// h2o: one thread, files. A small file takes less time than a handler in mruby.
fn h2o(
    lab: &Lab,
    site: &Path,
    key: Option<&Path>,
    wrapper: Wrapper<'_>,
) -> Result<BenchServer, BenchError> {
    let ([port], _held) = free_ports()?;
    let config = lab.path().join(format!("h2o-{port}.conf"));
    let tls = key.map_or_else(String::new, |key| {
        format!(
            "\n  ssl:\n    certificate-file: {}\n    key-file: {}\n    \
             minimum-version: TLSv1.3\n    neverbleed: OFF\n    ocsp-update-interval: 0",
            key.with_extension("crt").display(),
            key.display()
        )
    });
    let text = format!(
        "user: root\nnum-threads: 1\nnum-name-resolution-threads: 1\nmax-connections: 20000\n\
         http1-request-timeout: 600\nlisten:\n  host: 127.0.0.1\n  port: {port}{tls}\n\
         hosts:\n  default:\n    paths:\n      /:\n        file.dir: {}\n",
        site.display()
    );
    write(&config, &text)?;
    let mut command = lab.installed("h2o")?;
    command.args(["-m", "worker", "-c"]).arg(&config);
    let server = BenchServer::at(lab, wrapper.apply(command), &lab.cores.server, port)?;
    Ok(BenchServer { certificate: key.map(|key| key.with_extension("crt")), ..server })
}

/// nghttpd: one thread, files that it keeps open.
fn nghttpd(lab: &Lab, key: Option<&Path>, wrapper: Wrapper<'_>) -> Result<BenchServer, BenchError> {
    let ([port], _held) = free_ports()?;
    let mut command = lab.installed("nghttpd")?;
    command.args(["-a", "127.0.0.1", "-d"]).arg(make_site(lab)?);
    let certificate = key.map(|key| key.with_extension("crt"));
    match (key, &certificate) {
        (Some(key), Some(certificate)) => {
            command.arg(port.to_string()).arg(key).arg(certificate);
        }
        _ => {
            command.args(["--no-tls", &port.to_string()]);
        }
    }
    let server = BenchServer::at(lab, wrapper.apply(command), &lab.cores.server, port)?;
    Ok(BenchServer { certificate, ..server })
}

/// The files that all servers serve, made once in a run.
pub(crate) fn make_site(lab: &Lab) -> Result<PathBuf, BenchError> {
    let site = lab.path().join("site");
    let make = || {
        fs::create_dir_all(&site)?;
        for (target, size) in FILES {
            let path = site.join(target.trim_start_matches('/'));
            if !path.exists() {
                fs::write(path, vec![b'x'; size])?;
            }
        }
        Ok(())
    };
    make().map_err(BenchError::io("the served files")).map(|()| site)
}

/// A key of `kind` (`P-256`, `RSA-2048`) for 127.0.0.1; its certificate is next to it (`.crt`).
pub(crate) fn make_key(lab: &Lab, kind: &str) -> Result<PathBuf, BenchError> {
    let key = lab.path().join(format!("{kind}.key"));
    if key.is_file() {
        return Ok(key);
    }
    let mut command = lab.installed("openssl")?;
    command.args(["req", "-x509", "-newkey"]);
    match kind {
        "P-256" => command.args(["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]),
        _ => command.arg("rsa:2048"),
    };
    command.args(["-nodes", "-days", "30", "-subj", "/CN=bench"]);
    command.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.arg("-keyout").arg(&key).arg("-out").arg(key.with_extension("crt"));
    lab.run(command).map(|_| key)
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(BenchError::io(path.display().to_string()))
}

/// The addresses in the first lines of `fulmar serve`, once all are printed.
fn greeted(text: &str, count: usize) -> Option<Vec<String>> {
    let (lines, _) = text.rsplit_once('\n')?;
    let found = lines.split("http://").skip(1).filter_map(|rest| rest.split(['/', '\n']).next());
    let found: Vec<_> = found.map(str::to_owned).collect();
    (found.len() >= count).then_some(found)
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
}

/// Targets and sizes of the served files; `/continuous` is ten chunks of one byte, from programs.
pub(crate) const FILES: [(&str, usize); 5] = [
    ("/tiny", 128),
    ("/128", 128),
    ("/modest", 64 * 1024),
    ("/104k", 104 * 1024),
    ("/1m", 1024 * 1024),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_from_complete_lines() {
        let text = "serving /t on http://127.0.0.1:81/\nserving /t on http://127.0.0.2:82/\nserv";
        let both = vec!["127.0.0.1:81".to_owned(), "127.0.0.2:82".to_owned()];
        assert_eq!(greeted(text, 2), Some(both));
        assert_eq!(greeted(text, 3), None);
        assert_eq!(greeted("", 1), None);
        assert_eq!(port_of("127.0.0.1:81"), 81);
    }
}
