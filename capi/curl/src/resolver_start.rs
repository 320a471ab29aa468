//! `CURLOPT_RESOLVER_START_FUNCTION`: called before a name is resolved that is not in the cache.
//!
//! Addresses count as names, as in libcurl. The cache here has times only: the client has another
//! one, whose entries live as long as they are valid.

use std::time::Duration;

use fulmar_client::Options;
use fulmar_sys as sys;

use crate::border::CBorder;
use crate::code::CurlCode;
use crate::failure::Failure;
use crate::handles::{Easy, Multi};
use crate::option::OptionId as Id;

impl Multi {
    /// A request to `origin` is about to be started.
    ///
    /// # Errors
    /// The application refuses to resolve its name.
    pub(crate) fn start_resolver(
        &self,
        easy: &Easy,
        origin: &str,
        options: &Options,
        border: &dyn CBorder,
    ) -> Result<(), Failure> {
        let function = easy.pointer(Id::RESOLVER_START_FUNCTION);
        let has_address = options.addresses.is_some() || options.unix_socket.is_some();
        if function.is_null() || has_address {
            return Ok(());
        }
        let has_idle = !options.fresh_connection && {
            let mut reactor = self.reactor.borrow_mut();
            reactor.check_unwatched(sys::now());
            reactor.engine.has_idle(origin, options)
        };
        let (name, is_proxied, max) = easy.with_state(|state| {
            let transfer = state.transfer.as_ref().expect("its request is being started");
            let (host, port) = transfer.peer();
            let max = u64::try_from(state.options.values.number(Id::DNS_CACHE_TIMEOUT)).ok();
            ((host.to_ascii_lowercase(), port), transfer.is_proxied(), max)
        });
        let now = sys::now();
        let is_known = self.resolved.borrow().get(&name).is_some_and(|at| {
            max.is_none_or(|max| now.saturating_duration_since(*at) < Duration::from_secs(max))
        });
        if has_idle || is_known {
            return Ok(());
        }
        let user = easy.pointer(Id::RESOLVER_START_DATA);
        if self.call(|| border.start_resolver(function, user)) == 0 {
            let mut resolved = self.resolved.borrow_mut();
            if resolved.len() == NAMES_MAX {
                resolved.clear();
            }
            resolved.insert(name, now);
            return Ok(());
        }
        let host = &name.0;
        Err(match is_proxied {
            true => Failure::new(
                CurlCode::CouldntResolveProxy,
                format!("Couldn't resolve proxy '{host}'"),
            ),
            false => Failure::new(
                CurlCode::CouldntResolveHost,
                format!("Could not resolve host: {host}"),
            ),
        })
    }

    /// The name of the current server or proxy has no address: it is resolved again.
    pub(crate) fn forget_name(&self, easy: &Easy) {
        let mut resolved = self.resolved.borrow_mut();
        if resolved.is_empty() {
            return;
        }
        let name = easy.with_state(|state| {
            let (host, port) = state.transfer.as_ref()?.peer();
            Some((host.to_ascii_lowercase(), port))
        });
        if let Some(name) = name {
            resolved.remove(&name);
        }
    }
}

/// Names in the cache, as it is kept here.
const NAMES_MAX: usize = 1000;
