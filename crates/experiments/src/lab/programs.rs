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

/// Lines of an `http` block: nothing is written to directories of the system.
pub(crate) fn nginx_temporary(home: &Path) -> String {
    let home = home.display();
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter();
    kinds.map(|kind| format!("    {kind}_temp_path {home}/{kind};\n")).collect()
}

/// A port of loopback that nobody listens on now, for programs that cannot choose one.
pub(crate) fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(Error::io("a free port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_tells_where_it_listens() {
        let text = "serving /t on http://127.0.0.1:81/\nserving /t on http://127.0.0.2:82/\nserv";
        let both = vec!["127.0.0.1:81".to_owned(), "127.0.0.2:82".to_owned()];
        assert_eq!(greeted(text, 2), Some(both));
        assert_eq!(greeted(text, 3), None);
        assert_eq!(greeted("", 1), None);
    }
}
