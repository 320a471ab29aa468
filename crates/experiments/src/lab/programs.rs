//! Servers that take part in several experiments.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use super::{Child, Lab};
use crate::Error;

/// `fulmar serve` with its test endpoints: it answers as it is asked to, or never.
#[derive(Debug)]
pub(crate) struct Serve {
    pub(crate) child: Child,
    /// Where it listens, in the order of those asked for.
    pub(crate) addresses: Vec<String>,
}

impl Serve {
    /// On a free port of each of these addresses, on these processors.
    pub(crate) fn start(lab: &Lab, addresses: &[&str], cpus: &[usize]) -> Result<Self, Error> {
        let mut command = Command::new(&lab.options.program);
        command.args(["serve", "--test-endpoints", "--drain-timeout", "1s"]);
        for address in addresses {
            command.args(["--listen", &format!("{address}:0")]);
        }
        command.arg(lab.path());
        let mut child = lab.start(command, cpus)?;
        let addresses = child.printed(|text| greeted(text, addresses.len()))?;
        Ok(Self { child, addresses })
    }
}

/// The addresses in the lines that a server greets with, once there are as many.
fn greeted(text: &str, count: usize) -> Option<Vec<String>> {
    let (lines, _) = text.rsplit_once('\n')?;
    let found = lines.split("http://").skip(1).filter_map(|rest| rest.split(['/', '\n']).next());
    let found: Vec<_> = found.map(str::to_owned).collect();
    (found.len() >= count).then_some(found)
}

/// nginx with this configuration; what it writes is in `home`.
pub(crate) fn nginx(program: &Path, home: &Path, conf: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-e").arg(home.join("nginx.log"));
    command.arg("-p").arg(home).arg("-c").arg(conf);
    command
}

/// How a configuration of nginx begins, and what its `http` block begins with: one worker, nothing is
/// written to directories of the system. The worker is who we are, if that is root (others have no
/// choice): nobody may not read what we write, and does not exist in a user namespace.
pub(crate) fn nginx_first(home: &Path) -> (String, String) {
    let home = home.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter();
    let first = format!(
        "daemon off;\nuser root;\nworker_processes 1;\nerror_log {home}/nginx.log crit;\n\
         pid {home}/nginx.pid;\nevents {{ worker_connections 8000; }}\n"
    );
    (first, kinds.map(|kind| format!("    {kind}_temp_path {home}/{kind};\n")).collect())
}

/// Ports of loopback that nobody listens on now, for programs that cannot choose one.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N], Error> {
    // All at a time: one that is free again may be given out again.
    let listeners = (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listeners: Vec<_> = listeners.collect::<Result<_, _>>().map_err(Error::io("free ports"))?;
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr().map_err(Error::io("free ports"))?.port();
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_differ() {
        let mut ports = free_ports::<64>().expect("there are some").to_vec();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 64);
    }

    #[test]
    fn a_greeting_tells_where_it_listens() {
        let text = "serving /t on http://127.0.0.1:81/\nserving /t on http://127.0.0.2:82/\nserv";
        let both = vec!["127.0.0.1:81".to_owned(), "127.0.0.2:82".to_owned()];
        assert_eq!(greeted(text, 2), Some(both));
        assert_eq!(greeted(text, 3), None);
        assert_eq!(greeted("", 1), None);
    }
}
