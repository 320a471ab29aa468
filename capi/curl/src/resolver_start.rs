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
        let is_proxied = easy.with_state(|state| {
            state.transfer.as_ref().is_some_and(|transfer| transfer.is_proxied())
        });
        let Some(name) = name_of(easy) else { return Ok(()) };
        if has_idle || self.is_cached(easy, &name) {
            return Ok(());
        }
        let user = easy.pointer(Id::RESOLVER_START_DATA);
        if self.call(|| border.start_resolver(function, user)) == 0 {
            self.cache_name(name);
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

    /// True if the addresses of the current server or proxy are known.
    pub(crate) fn is_resolved(&self, easy: &Easy) -> bool {
        let Some(name) = name_of(easy) else { return false };
        let is_given = self.hosts.borrow().find(&name.0, name.1, sys::now()).is_some();
        is_given || self.is_cached(easy, &name)
    }

    /// The current server or proxy has addresses. Returns its name.
    pub(crate) fn note_resolved(&self, easy: &Easy) -> Option<String> {
        let name = name_of(easy)?;
        let host = name.0.clone();
        if !self.is_cached(easy, &name) {
            self.cache_name(name);
        }
        Some(host)
    }

    fn is_cached(&self, easy: &Easy, name: &(String, u16)) -> bool {
        let max = easy.with_state(|state| state.options.values.number(Id::DNS_CACHE_TIMEOUT));
        let max = u64::try_from(max).ok().map(Duration::from_secs);
        self.resolved
            .borrow()
            .get(name)
            .is_some_and(|at| max.is_none_or(|max| sys::now().saturating_duration_since(*at) < max))
    }

    fn cache_name(&self, name: (String, u16)) {
        let mut resolved = self.resolved.borrow_mut();
        if resolved.len() == NAMES_MAX {
            resolved.clear();
        }
        resolved.insert(name, sys::now());
    }

    /// The name of the current server or proxy has no address: it is resolved again.
    pub(crate) fn forget_name(&self, easy: &Easy) {
        let mut resolved = self.resolved.borrow_mut();
        if resolved.is_empty() {
            return;
        }
        if let Some(name) = name_of(easy) {
            resolved.remove(&name);
        }
    }
}

/// The host and port that the current request connects to first.
fn name_of(easy: &Easy) -> Option<(String, u16)> {
    easy.with_state(|state| {
        let (host, port) = state.transfer.as_ref()?.peer();
        Some((host.to_ascii_lowercase(), port))
    })
}

/// Names in the cache, as it is kept here.
const NAMES_MAX: usize = 1000;
