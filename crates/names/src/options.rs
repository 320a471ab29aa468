//! How names are resolved.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::overrides::Overrides;

/// How names are resolved; the default is what the machine is set up for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who is asked, in this order; none: those of `resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Where the machine's servers and search list stand; looked at again when it changes.
    pub resolv_conf: PathBuf,
    /// Where addresses stand that need no server (hosts(5)).
    pub hosts: PathBuf,
    /// How long a server has for its first try; later ones get longer. This and `tries` take the
    /// place of what `resolv.conf` says.
    pub try_timeout: Duration,
    /// How often each server is asked.
    pub tries: u32,
    /// How long a lookup takes at most, whatever the servers do; an hour is the longest.
    pub deadline: Duration,
    /// How long IPv4 addresses wait for IPv6 ones (RFC 8305 §3). The other way round they wait
    /// until the deadline, since IPv6 alone often leads nowhere.
    pub resolution_delay: Duration,
    /// Which addresses are wanted.
    pub family: Family,
    /// Leave out addresses that are not of the public internet, so that a name of somebody else's
    /// cannot lead to this machine or its neighbours (DNS rebinding). Overrides are exempt.
    pub public_only: bool,
    /// What is known better than the servers know it.
    pub overrides: Overrides,
    /// Names whose answers are kept.
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

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// Both, IPv6 first and by turns.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}
