//! What a configuration names and a start would read: certificates, keys, lists.

use fulmar_haproxy::Config;
use fulmar_proxy::Live;

use crate::doors::{Door, binds};
use crate::error::Error;

/// Reads them, and keeps nothing: all that is wrong (`-c`).
pub fn check(config: &Config) -> Vec<Error> {
    let doors =
        binds(config).filter_map(|(id, frontend, bind)| Door::new(id, frontend, bind).err());
    let mut wrong: Vec<Error> = doors.collect();
    wrong.extend(servers(&Live::new(config.clone(), 1)));
    wrong
}

/// What is wrong with the TLS of servers.
pub(crate) fn servers(live: &Live) -> impl Iterator<Item = Error> {
    let all = live.backends.iter().flat_map(|backend| {
        backend.servers.iter().map(move |server| (&backend.config.name, server))
    });
    all.filter_map(|(backend, server)| {
        let error = server.tls.as_ref()?.as_ref().err()?;
        Some(Error::ServerTls {
            place: server.config.place.clone(),
            server: (backend.clone(), server.config.name.clone()),
            reason: error.to_string(),
        })
    })
}
