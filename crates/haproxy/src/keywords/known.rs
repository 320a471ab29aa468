//! Keywords of HAProxy's without a row: those that are accepted and change nothing here, and those
//! that are not supported.

use crate::rules::{Fault, Word, Words};

use self::Follows::{Anything, AtLeast, Nothing, Time, Word as One};
use crate::table::{self, Unsupported};
use crate::values::{Unit, duration};

/// A keyword that is accepted, and what has to follow it.
pub(crate) type Accepted = (&'static str, Follows);

/// What follows a keyword that is accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Follows {
    Nothing,
    /// One word.
    Word,
    /// One word, which is a time.
    Time,
    /// So many words, or more.
    AtLeast(usize),
    /// Whatever there is.
    Anything,
}

/// Keywords of a section that are accepted.
pub(crate) fn accepted(section: &str) -> impl Iterator<Item = &'static str> + Clone {
    rows(section).iter().map(|(name, _)| *name)
}

fn rows(section: &str) -> &'static [Accepted] {
    match section {
        "global" => ACCEPTED_GLOBAL,
        "defaults" | "frontend" | "backend" | "listen" => ACCEPTED_PROXY,
        _ => &[],
    }
}

/// Reads a line with one of them, which is so long; `None`: it has none.
pub(crate) fn read_accepted(section: &str, words: &[Word], end: u32) -> Option<Result<(), Fault>> {
    let (name, len) = table::find_name(accepted(section), words)?;
    let (_, follows) = rows(section).iter().find(|(other, _)| *other == name)?;
    Some(follows.read(&mut Words::new(&words[len..], end)))
}

impl Follows {
    /// Looks at the words behind a keyword.
    fn read(self, words: &mut Words<'_>) -> Result<(), Fault> {
        match self {
            Self::Nothing => {}
            Self::Word => _ = words.expect("a word")?,
            Self::Time => _ = duration(words.expect("a time")?, "it", Unit::Millis)?,
            Self::AtLeast(count) => {
                for _ in 0..count {
                    words.expect("a word")?;
                }
                _ = words.rest();
            }
            Self::Anything => _ = words.rest(),
        }
        words.end()
    }
}

/// In `global`: what they tune is not there, or tunes itself.
const ACCEPTED_GLOBAL: &[Accepted] = &[
    ("busy-polling", Nothing),
    ("close-spread-time", Time),
    ("cpu-map", AtLeast(2)),
    ("debug", Nothing),
    ("expose-experimental-directives", Anything),
    ("external-check", Nothing),
    ("grace", Time),
    ("h1-accept-payload-with-any-method", Nothing),
    ("insecure-fork-wanted", Nothing),
    ("insecure-setuid-wanted", Nothing),
    ("issuers-chain-path", One),
    ("maxsslconn", One),
    ("mworker-max-reloads", Anything),
    ("no-memory-trimming", Nothing),
    ("noepoll", Nothing),
    ("nogetaddrinfo", Nothing),
    ("nopoll", Nothing),
    ("noreuseport", Nothing),
    ("numa-cpu-mapping", Anything),
    ("pp2-never-send-local", Nothing),
    ("profiling.memory", Anything),
    ("profiling.tasks", One),
    ("quiet", Nothing),
    ("set-dumpable", Nothing),
    ("ssl-load-extra-del-ext", Anything),
    ("ssl-load-extra-files", AtLeast(1)),
    ("ssl-mode-async", Anything),
    ("ssl-skip-self-issued-ca", Anything),
    ("thread-group", One),
    ("thread-groups", One),
    ("tune.buffers.limit", One),
    ("tune.buffers.reserve", One),
    ("tune.chksize", Anything),
    ("tune.comp.maxlevel", One),
    ("tune.fail-alloc", Anything),
    ("tune.fd.edge-triggered", One),
    ("tune.h2.header-table-size", One),
    ("tune.h2.initial-window-size", Anything),
    ("tune.h2.max-concurrent-streams", Anything),
    ("tune.h2.max-frame-size", One),
    ("tune.http.cookielen", One),
    ("tune.http.logurilen", One),
    ("tune.idle-pool.shared", One),
    ("tune.idletimer", One),
    ("tune.listener.multi-queue", One),
    ("tune.lua.forced-yield", Anything),
    ("tune.lua.maxmem", AtLeast(1)),
    ("tune.lua.service-timeout", AtLeast(1)),
    ("tune.lua.session-timeout", AtLeast(1)),
    ("tune.lua.task-timeout", AtLeast(1)),
    ("tune.maxpollevents", One),
    ("tune.maxrewrite", One),
    ("tune.pattern.cache-size", AtLeast(1)),
    ("tune.peers.max-updates-at-once", One),
    ("tune.pipesize", One),
    ("tune.pool-high-fd-ratio", One),
    ("tune.pool-low-fd-ratio", One),
    ("tune.rcvbuf.client", One),
    ("tune.rcvbuf.server", One),
    ("tune.recv_enough", One),
    ("tune.runqueue-depth", One),
    ("tune.sched.low-latency", One),
    ("tune.sndbuf.client", One),
    ("tune.sndbuf.server", One),
    ("tune.ssl.cachesize", One),
    ("tune.ssl.capture-buffer-size", One),
    ("tune.ssl.capture-cipherlist-size", One),
    ("tune.ssl.default-dh-param", One),
    ("tune.ssl.force-private-cache", Nothing),
    ("tune.ssl.hard-maxrecord", One),
    ("tune.ssl.keylog", One),
    ("tune.ssl.maxrecord", One),
    ("tune.ssl.ssl-ctx-cache-size", One),
    ("tune.vars.check-max-size", Anything),
    ("tune.vars.global-max-size", Anything),
    ("tune.vars.proc-max-size", Anything),
    ("tune.vars.reqres-max-size", Anything),
    ("tune.vars.sess-max-size", Anything),
    ("tune.vars.txn-max-size", Anything),
    ("tune.zlib.memlevel", One),
    ("tune.zlib.windowsize", One),
    ("zero-warning", Nothing),
];

/// In proxies: what they ask for is always so here, or means nothing.
const ACCEPTED_PROXY: &[Accepted] = &[
    ("bind-process", Anything),
    ("option disable-h2-upgrade", Nothing),
    ("option h1-case-adjust-bogus-client", Nothing),
    ("option h1-case-adjust-bogus-server", Nothing),
    ("option http-no-delay", Nothing),
    ("option http-pretend-keepalive", Nothing),
    ("option http-use-htx", Nothing),
    ("option idle-close-on-response", Nothing),
    ("option nolinger", Nothing),
    ("option tcp-smart-accept", Nothing),
    ("option tcp-smart-connect", Nothing),
];

/// In `global`.
pub(crate) const UNSUPPORTED_GLOBAL: &[Unsupported] = &[
    ("51degrees-data-file", "devices are not detected"),
    ("cluster-secret", "QUIC is not spoken"),
    ("deviceatlas-json-file", "devices are not detected"),
    ("h1-case-adjust", "names of fields keep the case that they came with"),
    ("h1-case-adjust-file", "names of fields keep the case that they came with"),
    ("httpclient.resolvers.id", "there is no client for rules"),
    ("httpclient.ssl.verify", "there is no client for rules"),
    ("lua-load", "there is no Lua"),
    ("lua-load-per-thread", "there is no Lua"),
    ("lua-prepend-path", "there is no Lua"),
    ("maxcomprate", "nothing is compressed"),
    ("maxconnrate", "'rate-limit sessions' of a frontend is"),
    ("maxsessrate", "'rate-limit sessions' of a frontend is"),
    ("maxsslrate", "'rate-limit sessions' of a frontend is"),
    ("ssl-propquery", "TLS is spoken by rustls"),
    ("ssl-provider", "TLS is spoken by rustls"),
    ("stats bind-process", "there is one process"),
    ("unix-bind", "permissions stand in 'bind' lines"),
    ("wurfl-data-file", "devices are not detected"),
];

/// In proxies.
pub(crate) const UNSUPPORTED_PROXY: &[Unsupported] = &[
    ("block", "it is history: 'http-request deny' does it"),
    ("contimeout", "it is history: 'timeout connect'"),
    ("clitimeout", "it is history: 'timeout client'"),
    ("srvtimeout", "it is history: 'timeout server'"),
    ("dispatch", "a 'server' line does it"),
    ("email-alert", "no mail is sent"),
    ("external-check", "no programs are started to check servers"),
    ("http-send-name-header", "requests are finished before a server is chosen"),
    ("log-format-sd", "structured data of syslog is not written"),
    ("option checkcache", "caches look after themselves"),
    ("option external-check", "no programs are started to check servers"),
    ("option forceclose", "it is history: 'option httpclose'"),
    ("option http-restrict-req-hdr-names", "what RFC 9110 forbids is refused in any case"),
    ("option http-use-proxy-header", "RFC 9110 has no such field"),
    ("option http_proxy", "names of requests are not resolved"),
    ("option spop-check", "SPOE is not spoken"),
    ("option transparent", "a 'server' line with 0.0.0.0 is near"),
    ("persist rdp-cookie", "RDP is not looked into"),
    ("reqadd", "it is history: 'http-request add-header' does it"),
    ("reqrep", "it is history: 'http-request replace-header' and its like do it"),
    ("rspadd", "it is history: 'http-response add-header' does it"),
    ("rsprep", "it is history: 'http-response replace-header' does it"),
    ("stats http-request", "'stats auth' and 'stats admin' are"),
    ("stick", "there are no stick tables: 'cookie' or 'balance source' may do"),
    ("stick-table", "there are no stick tables"),
    ("transparent", "a 'server' line with 0.0.0.0 is near"),
    ("use-fcgi-app", "FastCGI is not spoken"),
];
