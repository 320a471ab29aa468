//! The address of checks, if it differs from the server's: from the configuration or an operator.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use fulmar_haproxy::model::ServerCheck;

/// The address of checks of a server; shared by all threads.
#[derive(Debug, Default)]
pub struct CheckAddress(Mutex<(Option<IpAddr>, Option<u16>)>);

impl CheckAddress {
    /// The configured address.
    pub(crate) fn new(check: Option<&ServerCheck>) -> Self {
        Self(Mutex::new(check.map_or((None, None), |check| (check.address, check.port))))
    }

    /// The address and the port, as far as they differ from the server's.
    pub fn get(&self) -> (Option<IpAddr>, Option<u16>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `set server ... check-addr`, `check-port`: the address of the next check. `None` changes
    /// nothing.
    pub fn set(&self, address: Option<IpAddr>, port: Option<u16>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = (address.or(place.0), port.or(place.1));
    }
}
