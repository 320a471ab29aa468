//! The proxies: fulmar and HAProxy with one and the same configuration file, and nginx with its
//! own.

use std::path::{Path, PathBuf};

use super::{BenchServer, OwnLedger, Wrapper, free_ports, nginx, write};
use crate::BenchError;
use crate::lab::Lab;

/// Where a proxy listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyFrontend {
    /// Connections to servers are kept and shared.
    Http,
    /// As `Http`; bodies are copied.
    Copy,
    /// One connection on each side for every request.
    Close,
    /// As `Http`; bodies are spliced.
    Splice,
    /// TCP.
    Tcp,
}

/// A proxy on the servers' core.
#[derive(Debug)]
pub(crate) struct ProxyProcess {
    /// Its port is that of [`ProxyFrontend::Http`].
    pub(crate) server: BenchServer,
    ports: [u16; 5],
    /// False for nginx without its module for TCP.
    has_tcp: bool,
}

impl ProxyProcess {
    /// `fulmar`, `haproxy` or `nginx`, before the server at this port of loopback.
    pub(crate) fn start(
        lab: &Lab,
        name: &str,
        origin: u16,
        wrapper: Wrapper<'_>,
    ) -> Result<Self, BenchError> {
        let ([http, copy, close, splice, tcp, metrics], _held) = free_ports()?;
        let ports = [http, copy, close, splice, tcp];
        let cpus = &lab.cores.server;
        if name == "nginx" {
            let module = stream_module();
            let (top, conf) = nginx_conf(ports, origin, module.as_deref());
            let server = nginx::start(lab, cpus, 1, wrapper, http, &top, &conf)?;
            return Ok(Self { server, ports, has_tcp: module.is_some() });
        }
        let path = lab.path().join(format!("{name}-{http}.cfg"));
        write(&path, &haproxy_cfg(ports, metrics, origin))?;
        let mut command = match name {
            "haproxy" => lab.installed("haproxy")?,
            _ => lab.fulmar(&["proxy"]),
        };
        command.args(["-db", "-f"]).arg(&path);
        let mut server = BenchServer::at(lab, wrapper.apply(command), cpus, http)?;
        if name == "fulmar" {
            server.ledger = OwnLedger::Metrics(metrics);
        }
        Ok(Self { server, ports, has_tcp: true })
    }

    /// The proxy with the port of this frontend.
    pub(crate) fn at(mut self, frontend: ProxyFrontend) -> Self {
        self.server.port = self.port(frontend);
        self
    }

    pub(crate) fn port(&self, frontend: ProxyFrontend) -> u16 {
        self.ports[frontend as usize]
    }

    pub(crate) fn can(&self, frontend: ProxyFrontend) -> bool {
        frontend != ProxyFrontend::Tcp || self.has_tcp
    }
}

fn stream_module() -> Option<PathBuf> {
    STREAM_MODULES.iter().map(PathBuf::from).find(|path| path.is_file())
}

fn haproxy_cfg([http, copy, close, splice, tcp]: [u16; 5], metrics: u16, origin: u16) -> String {
    let mut text = "global\n    nbthread 1\n    maxconn 9000\n    maxpipes 64\n\n\
        defaults\n    mode http\n    timeout connect 5s\n    timeout client 600s\n\
        timeout server 600s\n    http-reuse always\n\n"
        .to_owned();
    let copies =
        "    no option splice-auto\n    no option splice-request\n    no option splice-response\n";
    let splices = "    option splice-auto\n    option splice-response\n";
    for (name, port, options) in [
        ("http", http, ""),
        ("copy", copy, copies),
        ("close", close, "    option httpclose\n"),
        ("splice", splice, splices),
        ("tcp", tcp, "    mode tcp\n"),
    ] {
        text += &format!(
            "listen {name}\n{options}    bind 127.0.0.1:{port} backlog 16384\n\
             server one 127.0.0.1:{origin}\n\n"
        );
    }
    text + &format!(
        "frontend metrics\n    bind 127.0.0.1:{metrics}\n\
         http-request use-service prometheus-exporter if {{ path /metrics }}\n\
         http-request return status 404\n"
    )
}

/// What precedes the `http` block of nginx, and its contents. nginx cannot splice.
fn nginx_conf(
    [http, copy, close, splice, tcp]: [u16; 5],
    origin: u16,
    module: Option<&Path>,
) -> (String, String) {
    let top = module.map_or_else(String::new, |path| {
        format!(
            "load_module {};\nstream {{ server {{ listen 127.0.0.1:{tcp} backlog=16384; \
             proxy_pass 127.0.0.1:{origin}; }} }}\n",
            path.display()
        )
    });
    let listen = [http, copy, splice]
        .map(|port| format!("        listen 127.0.0.1:{port} backlog=16384;\n"))
        .concat();
    let keeps = "keepalive_requests 1000000000; keepalive_timeout 600s;";
    let conf = format!(
        "    keepalive_timeout 600s;\n    upstream web {{\n        server 127.0.0.1:{origin};\n\
         keepalive 2000; {keeps}\n    }}\n    server {{\n{listen}        location / {{\n\
         proxy_pass http://web;\n            proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n        }}\n    }}\n    server {{\n\
         listen 127.0.0.1:{close} backlog=16384;\n        keepalive_timeout 0;\n\
         location / {{ proxy_pass http://127.0.0.1:{origin}; }}\n    }}\n"
    );
    (top, conf)
}

/// Where distributions install it; a module that is built in is not found this way.
const STREAM_MODULES: &[&str] = &[
    "/usr/lib/nginx/modules/ngx_stream_module.so",
    "/usr/lib64/nginx/modules/ngx_stream_module.so",
];
pub(crate) const TCP_IS_MISSING: &str =
    "nginx in TCP mode: its module is not installed: install libnginx-mod-stream";
