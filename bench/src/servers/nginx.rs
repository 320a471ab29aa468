//! nginx with a configuration of ours: as a file server, a TLS front, or a proxy.

use std::fs;
use std::path::Path;

use super::{BenchServer, Wrapper, free_ports, make_site, write};
use crate::BenchError;
use crate::lab::Lab;

/// A file server with one worker on the servers' core, unless a field is set otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NginxServer<'a> {
    pub(crate) workers: u32,
    /// `None`: the servers' core.
    pub(crate) cpus: Option<&'a [usize]>,
    pub(crate) address: &'a str,
    /// `None`: the files of [`make_site`].
    pub(crate) root: Option<&'a Path>,
    pub(crate) key: Option<&'a Path>,
    /// With `TCP_DEFER_ACCEPT`.
    pub(crate) deferred: bool,
    /// With `tcp_nopush`, which joins head and file in packets, for two more calls.
    pub(crate) nopush: bool,
    /// With HTTP/2; in clear text it then speaks nothing else.
    pub(crate) http2: bool,
    pub(crate) wrapper: Wrapper<'a>,
    /// The port of a server on loopback that all requests go to, each over a new connection.
    pub(crate) upstream: Option<u16>,
}

impl Default for NginxServer<'_> {
    fn default() -> Self {
        Self {
            workers: 1,
            cpus: None,
            address: "127.0.0.1",
            root: None,
            key: None,
            deferred: false,
            nopush: true,
            http2: false,
            wrapper: Wrapper::No,
            upstream: None,
        }
    }
}

impl NginxServer<'_> {
    pub(crate) fn start(&self, lab: &Lab) -> Result<BenchServer, BenchError> {
        let ([port], _held) = free_ports()?;
        let site = make_site(lab)?;
        let (root, body) = (self.root.unwrap_or(&site).display(), "x".repeat(128));
        let (nopush, address) = (if self.nopush { "on" } else { "off" }, self.address);
        let mut listen = format!("listen {address}:{port} backlog=16384");
        if self.deferred {
            listen += " deferred";
        }
        if self.http2 {
            listen += " http2";
        }
        listen += &self.key.map_or_else(
            || ";".to_owned(),
            |key| {
                let (certificate, key) = (key.with_extension("crt"), key.display());
                format!(
                    " ssl;\n        ssl_certificate {};\n        ssl_certificate_key {key};\n\
                     ssl_protocols TLSv1.3;",
                    certificate.display()
                )
            },
        );
        let rest = match self.upstream {
            Some(port) => format!(
                "location / {{ proxy_pass http://127.0.0.1:{port}; proxy_read_timeout 600s; }}"
            ),
            None => format!(
                "root {root};\n        location = /tiny {{ return 200 \"{body}\"; }}\n\
                 location = /status {{ stub_status; }}"
            ),
        };
        let http = format!(
            "    keepalive_timeout 600s;\n    sendfile on;\n    tcp_nopush {nopush};\n\
             open_file_cache max=1000 inactive=1h;\n    open_file_cache_valid 1h;\n\
             server {{\n        {listen}\n        {rest}\n    }}\n"
        );
        let cpus = self.cpus.unwrap_or(&lab.cores.server);
        let server = start(lab, cpus, self.workers, self.wrapper, port, "", &http)?;
        Ok(BenchServer { certificate: self.key.map(|key| key.with_extension("crt")), ..server })
    }
}

/// nginx with this `http` block; modules and their blocks are in `top`. It writes to a directory of
/// the run, logs nothing, and keeps connections.
///
/// The worker runs as root if this process does: another user cannot read the files of the run,
/// and may not exist in a user namespace.
pub(crate) fn start(
    lab: &Lab,
    cpus: &[usize],
    workers: u32,
    wrapper: Wrapper<'_>,
    port: u16,
    top: &str,
    http: &str,
) -> Result<BenchServer, BenchError> {
    let home = lab.path().join(format!("nginx-{port}"));
    fs::create_dir_all(&home).map_err(BenchError::io("a directory for nginx"))?;
    let path = home.join("nginx.conf");
    let place = home.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter();
    let paths: String =
        kinds.map(|kind| format!("    {kind}_temp_path {place}/{kind};\n")).collect();
    write(
        &path,
        &format!(
            "{top}daemon off;\nuser root;\nworker_processes {workers};\n\
             worker_rlimit_nofile 20000;\n\
             error_log {place}/error.log crit;\npid {place}/pid;\n\
             events {{ worker_connections 20000; multi_accept on; }}\nhttp {{\n\
             access_log off;\n    keepalive_requests 1000000000;\n{paths}{http}}}\n"
        ),
    )?;
    let mut command = lab.installed("nginx")?;
    command.arg("-e").arg(home.join("error.log")).arg("-p").arg(&home).arg("-c").arg(&path);
    let mut server = BenchServer::at(lab, wrapper.apply(command), cpus, port)?;
    server.pid = server.child.worker()?;
    Ok(server)
}

impl BenchServer {
    /// Open connections and requests so far, of nginx.
    pub(crate) fn status(&self) -> Result<(f64, f64), BenchError> {
        let text = String::from_utf8_lossy(&self.get("/status")?.body).into_owned();
        let words = text.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [active, _, _, requests, ..] => Ok((active - 1.0, requests)),
            _ => Err(BenchError::process(&self.line, format!("no status: {text}"))),
        }
    }
}
