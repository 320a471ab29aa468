//! HAProxy's keywords without a row: accepted and ignored ones, and unsupported ones.

use crate::rules::{Word, WordCursor, WordError};

use self::ArgumentKind::{Anything, AtLeast, Nothing, Time, Word as One};
use crate::keyword_table::{self, Unsupported};
use crate::values::{TimeUnit, duration};

/// An ignored keyword, and its arguments.
pub(crate) type AcceptedKeyword = (&'static str, ArgumentKind);

/// The arguments of an ignored keyword.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArgumentKind {
    Nothing,
    /// One word.
    Word,
    /// A time.
    Time,
    /// At least this many words.
    AtLeast(usize),
    /// Anything.
    Anything,
}

/// The ignored keywords of a section.
pub(crate) fn accepted(section: &str) -> impl Iterator<Item = &'static str> + Clone {
    rows(section).iter().map(|(name, _)| *name)
}

fn rows(section: &str) -> &'static [AcceptedKeyword] {
    match section {
        "global" => ACCEPTED_GLOBAL,
        "defaults" | "frontend" | "backend" | "listen" => ACCEPTED_PROXY,
        _ => &[],
    }
}

/// Parses the arguments of an ignored keyword; `end` is the length of the line. `None` if the line
/// has no such keyword.
pub(crate) fn read_accepted(
    section: &str,
    words: &[Word],
    end: u32,
) -> Option<Result<(), WordError>> {
    let (name, len) = keyword_table::find_name(accepted(section), words)?;
    let (_, follows) = rows(section).iter().find(|(other, _)| *other == name)?;
    Some(follows.read(&mut WordCursor::new(&words[len..], end)))
}

impl ArgumentKind {
    /// Checks the arguments.
    fn read(self, words: &mut WordCursor<'_>) -> Result<(), WordError> {
        match self {
            Self::Nothing => {}
            Self::Word => _ = words.expect("a word")?,
            Self::Time => _ = duration(words.expect("a time")?, TimeUnit::Millis)?,
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

/// In `global`: settings of features that do not exist here, or that need no tuning.
const ACCEPTED_GLOBAL: &[AcceptedKeyword] = &[
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

/// In proxies: always on, or without effect here.
const ACCEPTED_PROXY: &[AcceptedKeyword] = &[
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
    ("51degrees-data-file", "device detection is not supported"),
    ("cluster-secret", "QUIC is not supported"),
    ("deviceatlas-json-file", "device detection is not supported"),
    ("h1-case-adjust", "the case of header names is preserved"),
    ("h1-case-adjust-file", "the case of header names is preserved"),
    ("httpclient.resolvers.id", "the internal HTTP client is not supported"),
    ("httpclient.ssl.verify", "the internal HTTP client is not supported"),
    ("lua-load", "Lua is not supported"),
    ("lua-load-per-thread", "Lua is not supported"),
    ("lua-prepend-path", "Lua is not supported"),
    ("maxcomprate", "compression is not supported"),
    ("maxconnrate", "use 'rate-limit sessions' in frontends"),
    ("maxsessrate", "use 'rate-limit sessions' in frontends"),
    ("maxsslrate", "use 'rate-limit sessions' in frontends"),
    ("ssl-propquery", "OpenSSL is not used (TLS by rustls)"),
    ("ssl-provider", "OpenSSL is not used (TLS by rustls)"),
    ("stats bind-process", "there is only one process"),
    ("unix-bind", "set permissions in 'bind' lines"),
    ("wurfl-data-file", "device detection is not supported"),
];

/// In proxies.
pub(crate) const UNSUPPORTED_PROXY: &[Unsupported] = &[
    ("block", "obsolete: use 'http-request deny'"),
    ("contimeout", "obsolete: use 'timeout connect'"),
    ("clitimeout", "obsolete: use 'timeout client'"),
    ("srvtimeout", "obsolete: use 'timeout server'"),
    ("dispatch", "use a 'server' line"),
    ("email-alert", "email alerts are not supported"),
    ("external-check", "external checks are not supported"),
    ("http-send-name-header", "the server is not known when the request is built"),
    ("log-format-sd", "syslog structured data is not supported"),
    ("option checkcache", "caches must follow Cache-Control"),
    ("option external-check", "external checks are not supported"),
    ("option forceclose", "obsolete: use 'option httpclose'"),
    ("option http-restrict-req-hdr-names", "field names that RFC 9110 forbids are always rejected"),
    ("option http-use-proxy-header", "RFC 9110 does not define this field"),
    ("option http_proxy", "host names of requests are not resolved"),
    ("option spop-check", "SPOE is not supported"),
    ("option transparent", "use a 'server' line with address 0.0.0.0"),
    ("persist rdp-cookie", "RDP is not parsed"),
    ("reqadd", "obsolete: use 'http-request add-header'"),
    ("reqrep", "obsolete: use 'http-request replace-header' or 'replace-path'"),
    ("rspadd", "obsolete: use 'http-response add-header'"),
    ("rsprep", "obsolete: use 'http-response replace-header'"),
    ("stats http-request", "use 'stats auth' and 'stats admin'"),
    ("stick", "stick tables are not supported: use 'cookie' or 'balance source'"),
    ("stick-table", "stick tables are not supported"),
    ("transparent", "use a 'server' line with address 0.0.0.0"),
    ("use-fcgi-app", "FastCGI is not supported"),
];
