//! Which processor is whose.

use std::io;

use fulmar_sys as sys;

/// One processor for what asks, one for what answers: neither waits for the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) client: Vec<usize>,
    pub(crate) server: Vec<usize>,
}

impl Cores {
    /// The first two that this process may run on; if there is but one, it is everybody's.
    pub(crate) fn find() -> io::Result<Self> {
        let allowed = sys::allowed_cpus()?;
        Ok(match allowed[..] {
            [client, server, ..] => Self { client: vec![client], server: vec![server] },
            _ => Self { client: allowed.clone(), server: allowed },
        })
    }

    /// For people.
    pub(crate) fn describe(&self) -> String {
        let name =
            |cpus: &[usize]| cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self.client == self.server {
            true => format!("{}, shared by both sides", name(&self.client)),
            false => format!("client {}, server {}", name(&self.client), name(&self.server)),
        }
    }
}
