//! Checks the files that a configuration names: certificates, keys, lists.

use fulmar_haproxy::Config;
use fulmar_proxy::Live;

use crate::bind::{BindLayers, binds};
use crate::error::Error;

/// Reads all files, and returns the errors (`-c`).
pub fn check(config: &Config) -> Vec<Error> {
    let bind_errors =
        binds(config).filter_map(|(id, frontend, bind)| BindLayers::new(id, frontend, bind).err());
    let mut wrong: Vec<Error> = bind_errors.collect();
    wrong.extend(servers(&Live::new(config.clone(), 1)));
    wrong
}

/// Errors in the TLS settings of servers.
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
