//! The servers that are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Scenario;
use crate::Error;
use crate::lab::{Child, Lab, Peer, find, free_ports, nginx, nginx_first};
use crate::report::{Column, Outcome};

/// Who may take part; programs that are not here are `None`.
#[derive(Debug)]
pub(super) enum Side {
    Fulmar,
    Libmicrohttpd(Option<PathBuf>),
    /// With or without its option `tcp_nopush`.
    Nginx(Option<PathBuf>, Joined),
}

/// Whether nginx puts the head and the begin of a file in one packet: two calls more, and not what it
/// does by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joined {
    No,
    Yes,
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
    let plain = Side::Nginx(nginx.clone(), Joined::No);
    Ok(vec![Side::Libmicrohttpd(library), plain, Side::Nginx(nginx, Joined::Yes), Side::Fulmar])
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
            Self::Nginx(_, Joined::No) => "nginx",
            Self::Nginx(_, Joined::Yes) => "nginx, tcp_nopush",
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
        !matches!(self, Self::Nginx(..)) || scenario.target != "/continuous"
    }

    /// Why there is no figure.
    pub(super) fn absent(&self, scenario: &Scenario) -> &'static str {
        match self {
            Self::Libmicrohttpd(None) | Self::Nginx(None, _) => "not installed",
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
            Side::Nginx(Some(program), joined) => {
                return Self::nginx(lab, program, *joined).map(Some);
            }
            Side::Libmicrohttpd(None) | Side::Nginx(None, _) => return Ok(None),
        };
        command.arg("--site").arg(site);
        let line = lab.line(&command);
        let mut child = lab.server(command)?;
        let port = child.printed(|text| text.split_once('\n')?.0.parse().ok())?;
        let pid = child.id();
        Ok(Some(Self { child, line, port, pid }))
    }

    fn nginx(lab: &Lab, program: &Path, joined: Joined) -> Result<Self, Error> {
        let ([port], _held) = free_ports()?;
        let home = lab.path().join(format!("nginx-{joined:?}"));
        let site = lab.path().join("site");
        let path = home.join("nginx.conf");
        fs::create_dir_all(&home)
            .and_then(|()| fs::write(&path, nginx_conf(port, &home, &site, joined)))
            .map_err(Error::io("nginx's configuration"))?;
        let command = nginx(program, &home, &path);
        let line = lab.line(&command);
        let mut child = lab.server(command)?;
        child.accepting(port)?;
        let pid = child.worker()?;
        Ok(Self { child, line, port, pid })
    }
}

/// Nothing logged, connections kept, files open.
fn nginx_conf(port: u16, home: &Path, site: &Path, joined: Joined) -> String {
    let (body, (first, paths)) = ("x".repeat(128), nginx_first(home));
    let nopush = if joined == Joined::Yes { "on" } else { "off" };
    let site = site.display();
    format!(
        "{first}http {{\n    access_log off;\n    \
         keepalive_requests 1000000000;\n    sendfile on;\n    tcp_nopush {nopush};\n    \
         open_file_cache max=1000 inactive=1h;\n    open_file_cache_valid 1h;\n{paths}    server {{\n        \
         listen 127.0.0.1:{port} backlog=4096;\n        root {site};\n        \
         location = /tiny {{ return 200 \"{body}\"; }}\n    }}\n}}\n"
    )
}
