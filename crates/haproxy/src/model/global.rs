//! The `global` section.

use std::path::PathBuf;
use std::time::Duration;

use super::bind::BindAddress;
use super::frontend::LogTarget;

/// What concerns the whole process.
#[derive(Clone, Debug, Default)]
pub struct Global {
    /// `daemon`: it goes into the background.
    pub daemon: bool,
    /// `master-worker`: a process that looks after the one that works.
    pub master_worker: bool,
    /// `no-exit-on-failure` behind it: that one may end without the other's end.
    pub outlives_workers: bool,
    /// `nbthread`; as many as there are processors, if it is not said.
    pub threads: Option<usize>,
    /// `maxconn`: connections of clients in this process.
    pub connections_max: Option<usize>,
    /// `maxpipes`: pipes that bodies pass through, at a time.
    pub pipes_max: Option<usize>,
    /// `nosplice`: no bodies pass through pipes.
    pub no_splice: bool,
    /// `ulimit-n`: descriptors that the process is to have at least.
    pub descriptors: Option<u64>,
    /// `no strict-limits`: fewer of them will do.
    pub lenient_limits: bool,
    /// `pidfile`.
    pub pidfile: Option<PathBuf>,
    /// `user`, `uid`: its number.
    pub uid: Option<u32>,
    /// `group`, `gid`: its number.
    pub gid: Option<u32>,
    /// `chroot`.
    pub chroot: Option<PathBuf>,
    /// `log` lines.
    pub logs: Vec<LogTarget>,
    /// `log-tag`; `haproxy` if it is not said, as scripts and filters expect.
    pub log_tag: Option<String>,
    /// `log-send-hostname`: the name that goes into lines for syslog.
    pub log_hostname: Option<String>,
    /// `stats socket` lines.
    pub stats_sockets: Vec<StatsSocket>,
    /// `stats timeout`: of an idle session at a socket; 10 s.
    pub stats_timeout: Option<Duration>,
    /// `server-state-file`: where states of servers are that backends may begin with.
    pub state_file: Option<PathBuf>,
    /// `hard-stop-after`: from a soft stop to the end.
    pub hard_stop_after: Option<Duration>,
    /// `node`, `description`: shown by the statistics.
    pub node: Option<String>,
    /// See above.
    pub description: Option<String>,
    /// `spread-checks`: checks come up to so many percent earlier or later.
    pub spread_checks: u8,
    /// `max-spread-checks`: the first checks of all servers begin within so long.
    pub first_checks_within: Option<Duration>,
    /// `tune.` settings that mean something here.
    pub tune: Tune,
    /// Variables of the process, set at the start (`set-var`, `set-var-fmt`): name and value.
    pub variables: Vec<(String, crate::rules::Sample<'static>)>,
}

/// Settings of `tune.`. Others of HAProxy's are accepted, and mean nothing to this engine.
#[derive(Clone, Debug, Default)]
pub struct Tune {
    /// `tune.maxaccept`.
    pub accept_max: Option<usize>,
    /// `tune.bufsize`: bytes of responses in memory at which no further request of a client is
    /// parsed.
    pub response_buffer_max: Option<u32>,
    /// `tune.http.maxhdr`.
    pub fields_max: Option<usize>,
    /// `tune.idle-pool.shared`, `tune.pool-low-fd-ratio` and their like are not kept.
    pub ssl_session_lifetime: Option<Duration>,
}

/// A socket for the runtime interface.
#[derive(Clone, Debug)]
pub struct StatsSocket {
    /// Where.
    pub address: BindAddress,
    /// What it allows.
    pub level: Level,
    /// `mode`, for a Unix socket.
    pub permissions: Option<u32>,
    /// `user`, `uid`, `group`, `gid`, as numbers.
    pub owner: (Option<u32>, Option<u32>),
    /// `expose-fd listeners`: the next process may take the listeners over.
    pub exposes_listeners: bool,
}

/// What a runtime socket allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// To look at what is no secret.
    User,
    /// To look at everything, and clear some counters.
    #[default]
    Operator,
    /// To change things.
    Admin,
}
