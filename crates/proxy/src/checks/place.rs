//! Where a server is checked, if not where it is: as configured, or as an operator says.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use fulmar_haproxy::model::ServerCheck;

/// Where a server is checked; shared by all threads.
#[derive(Debug, Default)]
pub struct CheckPlace(Mutex<(Option<IpAddr>, Option<u16>)>);

impl CheckPlace {
    /// As configured.
    pub(crate) fn new(check: Option<&ServerCheck>) -> Self {
        Self(Mutex::new(check.map_or((None, None), |check| (check.address, check.port))))
    }

    /// The address and the port, where they are not the server's.
    pub fn get(&self) -> (Option<IpAddr>, Option<u16>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `set server ... check-addr`, `check-port`: the next check goes there. What is `None` stays.
    pub fn set(&self, address: Option<IpAddr>, port: Option<u16>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *place = (address.or(place.0), port.or(place.1));
    }
}
