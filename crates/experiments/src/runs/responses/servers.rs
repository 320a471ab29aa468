//! The servers that are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Scenario;
use crate::Error;
use crate::lab::{Child, Lab, Peer, find, free_port, nginx, nginx_temporary};
use crate::report::{Column, Outcome};

/// Who may take part; programs that are not here are `None`.
#[derive(Debug)]
pub(super) enum Side {
    Fulmar,
    Libmicrohttpd(Option<PathBuf>),
    Nginx(Option<PathBuf>),
}

/// All of them; says what is missing.
pub(super) fn sides(lab: &Lab, outcome: &mut Outcome) -> Result<Vec<Side>, Error> {
    let library = match Peer::LIBMICROHTTPD.program(lab)? {
        Ok(program) => Some(program),
        Err(why) => {
            outcome.missing.push(why);
            None
        }
    };
    let nginx = find("nginx");
    if nginx.is_none() {
        outcome.missing.push("nginx is not installed: install nginx-light".to_owned());
    }
    Ok(vec![Side::Libmicrohttpd(library), Side::Nginx(nginx), Side::Fulmar])
}

/// The files that all of them serve.
pub(super) fn make_site(lab: &Lab) -> Result<(), Error> {
    let site = lab.path().join("site");
    let make = || {
        fs::create_dir_all(&site)?;
        for (name, size) in [("modest", 64), ("104k", 104), ("1m", 1024)] {
            fs::write(site.join(name), vec![b'x'; size * 1024])?;
        }
        Ok(())
    };
    make().map_err(Error::io("the files that are served"))
}

impl Side {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar",
            Self::Libmicrohttpd(_) => "libmicrohttpd",
            Self::Nginx(_) => "nginx",
        }
    }

    pub(super) fn column(&self) -> Column {
        match self {
            Self::Fulmar => Column::fulmar(self.name()),
            _ => Column::peer(self.name()),
        }
    }

    /// nginx has no producer of pieces.
    pub(super) fn can(&self, scenario: &Scenario) -> bool {
        !matches!(self, Self::Nginx(_)) || scenario.target != "/continuous"
    }

    /// Why there is no figure.
    pub(super) fn absent(&self, scenario: &Scenario) -> &'static str {
        match self {
            Self::Libmicrohttpd(None) | Self::Nginx(None) => "not installed",
            _ if !self.can(scenario) => "",
            _ => "not measured",
        }
    }
}

/// One that runs, on the servers' core.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) line: String,
    pub(super) port: u16,
    /// The process that answers.
    pub(super) pid: u32,
}

impl Server {
    /// `None` if it is not installed.
    pub(super) fn start(lab: &Lab, side: &Side) -> Result<Option<Self>, Error> {
        let site = lab.path().join("site");
        let mut command = match side {
            Side::Fulmar => lab.worker("answers"),
            Side::Libmicrohttpd(Some(program)) => Command::new(program),
            Side::Nginx(Some(program)) => return Self::nginx(lab, program).map(Some),
            Side::Libmicrohttpd(None) | Side::Nginx(None) => return Ok(None),
        };
        command.arg("--site").arg(site);
        let line = lab.line(&command);
        let mut child = lab.server(command)?;
        let port = child.printed(|text| text.split_once('\n')?.0.parse().ok())?;
        let pid = child.id();
        Ok(Some(Self { child, line, port, pid }))
    }

    fn nginx(lab: &Lab, program: &Path) -> Result<Self, Error> {
        let (port, home) = (free_port()?, lab.path());
        let path = home.join("nginx-responses.conf");
        fs::write(&path, nginx_conf(port, home)).map_err(Error::io("nginx's configuration"))?;
        let command = nginx(program, home, &path);
        let line = lab.line(&command);
        let mut child = lab.server(command)?;
        child.accepting(port)?;
        let pid = child.worker()?;
        Ok(Self { child, line, port, pid })
    }
}

/// What makes it fastest: nothing logged, connections kept, files open, head and body joined.
fn nginx_conf(port: u16, home: &Path) -> String {
    let (body, paths, home) = ("x".repeat(128), nginx_temporary(home), home.display());
    format!(
        "daemon off;\nworker_processes 1;\nerror_log {home}/nginx.log crit;\npid {home}/nginx.pid;\n\
         events {{ worker_connections 4000; }}\nhttp {{\n    access_log off;\n    \
         keepalive_requests 1000000000;\n    sendfile on;\n    tcp_nopush on;\n    \
         open_file_cache max=1000 inactive=1h;\n    open_file_cache_valid 1h;\n{paths}    server {{\n        \
         listen 127.0.0.1:{port} backlog=4096;\n        root {home}/site;\n        \
         location = /tiny {{ return 200 \"{body}\"; }}\n    }}\n}}\n"
    )
}
