//! The processors of clients and servers.

use std::fs;
use std::io;

use fulmar_sys as sys;

/// One processor for clients, and another one for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) client: Vec<usize>,
    pub(crate) server: Vec<usize>,
    /// The two are threads of one core.
    are_threads: bool,
}

impl Cores {
    /// The first processor that this process may run on, and the next that is no thread of the same
    /// core, if there is one. A single processor is used by both sides.
    pub(crate) fn find() -> io::Result<Self> {
        let threads = |cpu: usize| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            list(&fs::read_to_string(path).unwrap_or_default())
        };
        Ok(Self::of(&sys::allowed_cpus()?, threads))
    }

    fn of(allowed: &[usize], threads: impl Fn(usize) -> Vec<usize>) -> Self {
        let [client, others @ ..] = allowed else {
            return Self { client: Vec::new(), server: Vec::new(), are_threads: false };
        };
        let threads = threads(*client);
        let apart = others.iter().find(|cpu| !threads.contains(cpu));
        let server = apart.or_else(|| others.first()).unwrap_or(client);
        let are_threads = apart.is_none() && server != client;
        Self { client: vec![*client], server: vec![*server], are_threads }
    }

    /// Both processors.
    pub(crate) fn both(&self) -> Vec<usize> {
        let mut both = [&self.client[..], &self.server].concat();
        both.dedup();
        both
    }

    /// The processors of a client with one thread, or with more.
    pub(crate) fn of_threads(&self, threads: u32) -> Vec<usize> {
        if threads == 1 { self.client.clone() } else { self.both() }
    }

    /// For the report.
    pub(crate) fn describe(&self) -> String {
        let name =
            |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let text = format!("client {}, server {}", name(&self.client), name(&self.server));
        match self.client == self.server {
            true => format!("{}, shared by both sides", name(&self.client)),
            false if self.are_threads => format!("{text}: threads of one core"),
            false => text,
        }
    }
}

/// Numbers and ranges, as the kernel lists processors: `0-1,4`.
fn list(text: &str) -> Vec<usize> {
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(number(first)?..=number(last)?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_has_another_core_if_there_is_one() {
        let two_threads = |cpu: usize| vec![cpu & !1, cpu | 1];
        let text = |allowed: &[usize]| Cores::of(allowed, two_threads).describe();
        assert_eq!(text(&[0, 1, 2, 3]), "client 0, server 2");
        assert_eq!(text(&[1, 5]), "client 1, server 5");
        assert_eq!(text(&[4, 5]), "client 4, server 5: threads of one core");
        assert_eq!(text(&[3]), "3, shared by both sides");
        assert_eq!(Cores::of(&[0, 1], |_| Vec::new()).describe(), "client 0, server 1");
        assert_eq!(list("0-1,4\n"), [0, 1, 4]);
        assert_eq!(list(""), Vec::<usize>::new());
    }
}
