//! Options of name resolution.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::overrides::Overrides;

/// Options of name resolution. The default uses the system's configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name servers, in order of preference. Empty: those in `resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// The file with the name servers and the search list. It is read again when it changes.
    pub resolv_conf: PathBuf,
    /// The file of static addresses (hosts(5)).
    pub hosts: PathBuf,
    /// Timeout of the first try of a server; later tries have longer timeouts. This and `tries`
    /// replace the values in `resolv.conf`.
    pub try_timeout: Duration,
    /// Number of tries for each server.
    pub tries: u32,
    /// Maximum time of a lookup; at most one hour.
    pub deadline: Duration,
    /// How long a lookup with IPv4 addresses waits for IPv6 addresses (RFC 8305 §3). With only IPv6
    /// addresses it waits until the deadline, because IPv6 alone often has no route.
    pub resolution_delay: Duration,
    /// The address families to resolve.
    pub family: Family,
    /// Drop addresses that are not public, so that a foreign name cannot resolve to this machine or
    /// its network (DNS rebinding). Overrides are exempt.
    pub public_only: bool,
    /// Addresses that replace the results of the name servers.
    pub overrides: Overrides,
    /// Maximum number of names in the cache.
    pub cache_len_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            resolv_conf: "/etc/resolv.conf".into(),
            hosts: "/etc/hosts".into(),
            try_timeout: Duration::from_secs(2),
            tries: 3,
            deadline: Duration::from_secs(10),
            resolution_delay: Duration::from_millis(50),
            family: Family::default(),
            public_only: false,
            overrides: Overrides::default(),
            cache_len_max: 10_000,
        }
    }
}

/// The address families to resolve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Both, alternating, IPv6 first.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}
