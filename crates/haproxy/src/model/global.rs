//! The `global` section.

use std::path::PathBuf;
use std::time::Duration;

use super::bind::BindAddress;
use super::frontend::LogTarget;

/// Process-wide settings.
#[derive(Clone, Debug, Default)]
pub struct Global {
    /// `daemon`: run in the background.
    pub daemon: bool,
    /// `master-worker`: a master process controls the worker.
    pub master_worker: bool,
    /// `master-worker no-exit-on-failure`: the master keeps running when its worker fails.
    pub outlives_workers: bool,
    /// `nbthread`; default: the number of processors.
    pub threads: Option<usize>,
    /// `maxconn`: maximum number of client connections per process.
    pub connections_max: Option<usize>,
    /// `maxpipes`: maximum number of pipes for splicing.
    pub pipes_max: Option<usize>,
    /// `nosplice`: no splicing.
    pub no_splice: bool,
    /// `ulimit-n`: required number of descriptors.
    pub descriptors: Option<u64>,
    /// `no strict-limits`: start with fewer descriptors, with a warning.
    pub lenient_limits: bool,
    /// `pidfile`.
    pub pidfile: Option<PathBuf>,
    /// `user`, `uid`: the user number.
    pub uid: Option<u32>,
    /// `group`, `gid`: the group number.
    pub gid: Option<u32>,
    /// `chroot`.
    pub chroot: Option<PathBuf>,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `log-tag`; default: `haproxy`, as scripts and filters expect.
    pub log_tag: Option<String>,
    /// `log-send-hostname`: the host name in syslog lines.
    pub log_hostname: Option<String>,
    /// `stats socket` lines.
    pub stats_sockets: Vec<StatsSocket>,
    /// `stats timeout`: idle timeout of runtime connections; default: 10 s.
    pub stats_timeout: Option<Duration>,
    /// `server-state-file`: server states to load at the start.
    pub state_file: Option<PathBuf>,
    /// `hard-stop-after`: maximum time of a soft stop.
    pub hard_stop_after: Option<Duration>,
    /// `node`: shown in statistics.
    pub node: Option<String>,
    /// `description`: shown in statistics.
    pub description: Option<String>,
    /// `spread-checks`: random deviation of check intervals, in percent.
    pub spread_checks: u8,
    /// `max-spread-checks`: the first checks of all servers start within this time.
    pub first_checks_within: Option<Duration>,
    /// Supported `tune.` settings.
    pub tune: Tune,
    /// Process variables set at the start (`set-var`, `set-var-fmt`): name and value.
    pub variables: Vec<(String, crate::rules::Sample<'static>)>,
}

/// `tune.` settings. Other settings of HAProxy are accepted and ignored.
#[derive(Clone, Debug, Default)]
pub struct Tune {
    /// `tune.maxaccept`.
    pub accept_max: Option<usize>,
    /// `tune.bufsize`: the number of buffered response bytes at which parsing of further requests
    /// of a client pauses.
    pub response_buffer_max: Option<u32>,
    /// `tune.http.maxhdr`.
    pub fields_max: Option<usize>,
    /// `tune.ssl.lifetime`. `tune.idle-pool.shared`, `tune.pool-low-fd-ratio` and so on are
    /// ignored.
    pub ssl_session_lifetime: Option<Duration>,
}

/// A runtime socket.
#[derive(Clone, Debug)]
pub struct StatsSocket {
    /// The address.
    pub address: BindAddress,
    /// The level of its connections.
    pub level: SocketLevel,
    /// `mode` of a Unix socket.
    pub permissions: Option<u32>,
    /// `user`, `uid`, `group`, `gid`, as numbers.
    pub owner: (Option<u32>, Option<u32>),
    /// `expose-fd listeners`: the next process may take the listeners over.
    pub exposes_listeners: bool,
}

/// Permission level of a runtime connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SocketLevel {
    /// Read-only access to non-sensitive data.
    User,
    /// Read access to all data, and clearing of some counters.
    #[default]
    Operator,
    /// All commands.
    Admin,
}
