//! Queries to the name servers and lookups in the hosts file, through c-ares.
//!
//! c-ares receives readiness and time. Its callbacks only append to [`CallbackQueue`].

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c_ares::{
    AddrInfoFlags, AddrInfoHints, AddressFamily, Channel, DnsCls, DnsFlags, DnsOpcode, DnsRcode,
    DnsRecord, DnsRecordType, DnsRrKey, DnsSection, FdEventFlags, FdEvents, Flags, ProcessFlags,
};
use fulmar_drive::{Interest, Ready};
use fulmar_engine::ResolveError;

use crate::options::{Family, Options};
use crate::question::AddressKind;
use crate::reply::{self, Reply};

/// Results of c-ares callbacks that were not processed yet.
#[derive(Debug, Default)]
pub(crate) struct CallbackEvents {
    /// The interest in a socket; no interest precedes its close.
    pub(crate) sockets: Vec<(RawFd, Interest)>,
    /// Replies: the question, the record type, and the result.
    pub(crate) replies: Vec<(u64, AddressKind, Reply)>,
}

/// Queue that the callbacks write to. It has one thread, which locks it only for each access.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallbackQueue(Arc<Mutex<CallbackEvents>>);

impl CallbackQueue {
    pub(crate) fn take(&self) -> CallbackEvents {
        self.with(std::mem::take)
    }

    fn with<R>(&self, act: impl FnOnce(&mut CallbackEvents) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The name servers and files of one version of `resolv.conf`.
#[derive(Debug)]
pub(crate) struct Servers {
    channel: Channel,
    hosts: Channel, // never opens a socket
    callbacks: CallbackQueue,
}

impl Servers {
    /// Reads `resolv.conf`. No query is sent yet.
    pub(crate) fn open(options: &Options, callbacks: &CallbackQueue) -> Result<Self, ResolveError> {
        let open = || -> c_ares::Result<Self> {
            let hosts = Channel::with_options(settings(options, "f")?)?;
            let mut settings = settings(options, "b")?;
            let sockets = callbacks.clone();
            settings.set_socket_state_callback(move |socket, read, write| {
                sockets.with(|events| {
                    events.sockets.push((socket, Interest { read, write, hangup: false }))
                });
            });
            let mut channel = Channel::with_options(settings)?;
            if !options.servers.is_empty() {
                channel.set_servers(options.servers.iter().map(ToString::to_string))?;
            }
            Ok(Self { channel, hosts, callbacks: callbacks.clone() })
        };
        open().map_err(|error| reply::meaning(error).unwrap_or(ResolveError::ServerFailed))
    }

    /// Looks up `name` in the hosts file.
    pub(crate) fn hosts(&mut self, name: &str, family: Family) -> Vec<IpAddr> {
        let family = match family {
            Family::Any => AddressFamily::UNSPEC,
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        let flags = AddrInfoFlags::NOSORT; // sorting needs a system call for each address
        let hints = AddrInfoHints { flags, family: Some(family), ..AddrInfoHints::default() };
        let found = Arc::new(Mutex::new(Vec::new()));
        let write = Arc::clone(&found);
        let name = name.strip_suffix('.').unwrap_or(name);
        self.hosts.get_addrinfo(name, None, &hints, move |result| {
            if let Ok(result) = result {
                let mut found = write.lock().unwrap_or_else(PoisonError::into_inner);
                found.extend(result.nodes().filter_map(|node| node.ip_addr()));
            }
        });
        std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a query for one record type. The reply may be queued at once.
    pub(crate) fn start_query(&mut self, question: u64, kind: AddressKind, name: &str) {
        let callbacks = self.callbacks.clone();
        let note =
            move |reply| callbacks.with(|events| events.replies.push((question, kind, reply)));
        let query = match query(name, kind) {
            Ok(query) => query,
            Err(error) => {
                return note(Err(reply::meaning(error).unwrap_or(ResolveError::ServerFailed)));
            }
        };
        // The callback receives the same result.
        let _ = self.channel.search_dnsrec(&query, move |result| match result.map(reply::read) {
            Ok(reply) => note(reply),
            Err(error) => {
                if let Some(error) = reply::meaning(error) {
                    note(Err(error));
                }
            }
        });
    }

    pub(crate) fn handle_ready(&mut self, socket: RawFd, ready: Ready) {
        let mut events = FdEventFlags::empty();
        events.set(FdEventFlags::READ, ready.read || ready.hangup || ready.failed);
        events.set(FdEventFlags::WRITE, ready.write);
        // Fails only without memory; the deadline of the lookup still applies.
        let _ = self.channel.process_fds(&[FdEvents::new(socket, events)], ProcessFlags::empty());
    }

    pub(crate) fn handle_timeout(&mut self) {
        let _ = self.channel.process_fds(&[], ProcessFlags::empty()); // as above
    }

    /// The time until [`Servers::handle_timeout`] must be called.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.channel.timeout(None)
    }

    /// Cancels all queries; c-ares closes its sockets.
    pub(crate) fn cancel(&mut self) {
        if self.channel.queue_active_queries() > 0 {
            self.channel.cancel();
        }
    }

    /// True if one more question may be sent now.
    pub(crate) fn has_room(&self) -> bool {
        self.channel.queue_active_queries() + 2 <= QUERIES_MAX
    }
}

fn settings(options: &Options, lookups: &str) -> c_ares::Result<c_ares::Options> {
    let path =
        |path: &std::path::Path| path.to_str().map(str::to_owned).ok_or(c_ares::Error::EBADSTR);
    let mut settings = c_ares::Options::new();
    settings
        .set_flags(Flags::EDNS | Flags::NOALIASES)
        .set_timeout(options.try_timeout)
        .set_tries(options.tries)
        .set_udp_max_queries(Some(PORT_QUERIES_MAX))
        .set_query_cache_max_ttl(0) // `Cache` uses the time of the event loop
        .set_resolvconf_path(&path(&options.resolv_conf)?)?
        .set_hosts_path(&path(&options.hosts)?)?
        .set_lookups(lookups)?;
    Ok(settings)
}

fn query(name: &str, kind: AddressKind) -> c_ares::Result<DnsRecord> {
    let kind = match kind {
        AddressKind::A => DnsRecordType::A,
        AddressKind::Aaaa => DnsRecordType::AAAA,
    };
    let mut query = DnsRecord::new(0, DnsFlags::RD, DnsOpcode::Query, DnsRcode::NoError)?;
    query.query_add(name, kind, DnsCls::IN)?;
    query
        .rr_add(DnsSection::Additional, "", DnsRecordType::OPT, DnsCls::IN, 0)?
        .set_u16(DnsRrKey::OPT_UDP_SIZE, DATAGRAM_SIZE_MAX)?;
    Ok(query)
}

/// Maximum number of concurrent queries: servers drop most of a larger burst.
const QUERIES_MAX: usize = 512;
/// Maximum number of queries from one local port; a random port makes forged replies harder.
const PORT_QUERIES_MAX: u32 = 100;
/// Maximum size of a reply that is not fragmented on the way (RFC 9715 §3.1).
const DATAGRAM_SIZE_MAX: u16 = 1232;
