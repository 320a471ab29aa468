//! The proxies that are compared: fulmar and HAProxy with one and the same configuration file, and
//! nginx with one that says the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{DOCUMENT_HTTP, DOCUMENT_TCP, Document};
use crate::Error;
use crate::lab::{Child, Lab, find, free_ports, nginx, nginx_first};
use crate::report::{Column, Outcome};

/// What is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Bytes.
    Tcp,
    /// Requests and answers.
    Http,
}

impl Mode {
    pub(super) const BOTH: [Self; 2] = [Self::Tcp, Self::Http];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Http => "HTTP",
        }
    }

    pub(super) fn document(self) -> Document {
        match self {
            Self::Tcp => DOCUMENT_TCP,
            Self::Http => DOCUMENT_HTTP,
        }
    }
}

/// Who may take part.
#[derive(Debug)]
pub(super) enum Side {
    Fulmar,
    /// Its program, if it is installed.
    Haproxy(Option<PathBuf>),
    /// Likewise; and its module for TCP.
    Nginx(Option<PathBuf>, Option<PathBuf>),
}

/// All of them; says what is missing.
pub(super) fn sides(outcome: &mut Outcome) -> Vec<Side> {
    let (haproxy, nginx) = (find("haproxy"), find("nginx"));
    let module = STREAM_MODULES.iter().map(PathBuf::from).find(|path| path.is_file());
    if haproxy.is_none() {
        outcome.missing.push("HAProxy is not installed: install haproxy".to_owned());
    }
    match (&nginx, &module) {
        (None, _) => outcome.missing.push("nginx is not installed: install nginx-light".to_owned()),
        (Some(_), None) => outcome.missing.push(
            "nginx in TCP mode: its module is not installed: install libnginx-mod-stream"
                .to_owned(),
        ),
        _ => {}
    }
    vec![Side::Haproxy(haproxy), Side::Nginx(nginx, module), Side::Fulmar]
}

impl Side {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar",
            Self::Haproxy(_) => "HAProxy",
            Self::Nginx(..) => "nginx",
        }
    }

    pub(super) fn column(&self) -> Column {
        match self {
            Self::Fulmar => Column::fulmar(self.name()),
            _ => Column::peer(self.name()),
        }
    }

    /// Why there is no figure.
    pub(super) fn absent(&self, mode: Mode) -> &'static str {
        match (self, mode) {
            (Self::Haproxy(None) | Self::Nginx(None, _), _) => "not installed",
            (Self::Nginx(_, None), Mode::Tcp) => "no module",
            _ => "not measured",
        }
    }
}

/// One that runs, on the servers' core.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) child: Child,
    pub(super) line: String,
    /// The process that forwards.
    pub(super) pid: u32,
    tcp: Option<u16>,
    http: u16,
}

impl Proxy {
    /// In front of `origin`; `None` if it is not installed.
    pub(super) fn start(lab: &Lab, side: &Side, origin: &str) -> Result<Option<Self>, Error> {
        let ([tcp, http], _held) = free_ports()?;
        let path = lab.path().join(format!("{}.cfg", side.name()));
        let write = |text: String| fs::write(&path, text).map_err(Error::io("a configuration"));
        let mut with_tcp = true;
        let command = match side {
            Side::Fulmar => {
                write(haproxy_cfg(tcp, http, origin))?;
                let mut command = Command::new(&lab.options.fulmar);
                command.args(["proxy", "-db", "-f"]).arg(&path);
                command
            }
            Side::Haproxy(Some(program)) => {
                write(haproxy_cfg(tcp, http, origin))?;
                let mut command = Command::new(program);
                command.args(["-db", "-f"]).arg(&path);
                command
            }
            Side::Nginx(Some(program), module) => {
                with_tcp = module.is_some();
                write(nginx_conf(tcp, http, origin, lab.path(), module.as_deref()))?;
                nginx(program, lab.path(), &path)
            }
            Side::Haproxy(None) | Side::Nginx(None, _) => return Ok(None),
        };
        let line = lab.line(&command);
        let mut child = lab.server(command)?;
        child.accepting(http)?;
        let pid = match side {
            Side::Nginx(..) => child.worker()?,
            _ => child.id(),
        };
        Ok(Some(Self { child, line, pid, tcp: with_tcp.then_some(tcp), http }))
    }

    pub(super) fn can(&self, mode: Mode) -> bool {
        mode == Mode::Http || self.tcp.is_some()
    }

    pub(super) fn port(&self, mode: Mode) -> u16 {
        match mode {
            Mode::Tcp => self.tcp.unwrap_or(self.http),
            Mode::Http => self.http,
        }
    }
}

/// One connection on each side for every request, and one thread.
fn haproxy_cfg(tcp: u16, http: u16, origin: &str) -> String {
    format!(
        "global\n    nbthread 1\n    maxconn 4000\n\n\
         defaults\n    timeout connect 5s\n    timeout client 60s\n    timeout server 60s\n\n\
         listen tcp\n    mode tcp\n    bind 127.0.0.1:{tcp} backlog 4096\n    server one {origin}\n\n\
         listen http\n    mode http\n    option httpclose\n    bind 127.0.0.1:{http} backlog 4096\n    \
         server one {origin}\n"
    )
}

/// The same in nginx's words; directories that it would make elsewhere are in `home`.
fn nginx_conf(tcp: u16, http: u16, origin: &str, home: &Path, stream: Option<&Path>) -> String {
    let (first, paths) = nginx_first(home);
    let load = stream.map_or_else(String::new, |path| format!("load_module {};\n", path.display()));
    let stream = stream.map_or_else(String::new, |_| {
        format!(
            "stream {{ server {{ listen 127.0.0.1:{tcp} backlog=4096; proxy_pass {origin}; }} }}\n"
        )
    });
    format!(
        "{load}{first}{stream}\
         http {{\n    access_log off;\n    keepalive_requests 1000000000;\n{paths}    server {{\n        \
         listen 127.0.0.1:{http} backlog=4096;\n        keepalive_timeout 0;\n        \
         location / {{ proxy_pass http://{origin}; }}\n    }}\n}}\n"
    )
}

/// Where distributions put it; one that is built in needs none and is not found this way.
const STREAM_MODULES: &[&str] = &[
    "/usr/lib/nginx/modules/ngx_stream_module.so",
    "/usr/lib64/nginx/modules/ngx_stream_module.so",
];
