//! Servers that take part in several experiments.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use fulmar_sys as sys;

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
        let mut command = Command::new(&lab.options.fulmar);
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

/// What keeps ports from being given to others: sockets that are bound to them and do not listen. Who
/// asks for this very port and sets `SO_REUSEADDR`, as servers do, has it (socket(7)).
pub(crate) type Held = Vec<OwnedFd>;

/// Ports of loopback that nobody listens on, for programs that cannot choose one; to be held until
/// they listen.
pub(crate) fn free_ports<const N: usize>() -> Result<([u16; N], Held), Error> {
    let (mut ports, mut held) = ([0; N], Held::new());
    for place in &mut ports {
        let (port, socket) = hold_port().map_err(Error::io("free ports"))?;
        *place = port;
        held.push(socket);
    }
    Ok((ports, held))
}

fn hold_port() -> io::Result<(u16, OwnedFd)> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let socket = sys::tcp_socket(any)?;
    sys::set_reuse_address(socket.as_fd())?;
    sys::set_reuse_port(socket.as_fd())?;
    sys::bind(socket.as_fd(), any)?;
    Ok((sys::local_address(socket.as_fd())?.port(), socket))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn free_ports_differ_and_are_there_for_who_asks_for_them() {
        let (ports, _held) = free_ports::<64>().expect("there are some");
        let mut sorted = ports.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 64);
        // Each is looked at once: listeners live on, for a moment, in children that other tests start.
        for port in ports {
            let address = (Ipv4Addr::LOCALHOST, port);
            assert!(TcpStream::connect(address).is_err(), "nobody listens");
            assert!(TcpListener::bind(address).is_ok(), "who asks for it has it");
        }
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
