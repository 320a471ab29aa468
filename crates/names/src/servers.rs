//! The name servers and the hosts file, as c-ares asks them.
//!
//! c-ares is told what is ready and what time it is; what it says comes by callbacks, which only
//! write it down.

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
use crate::question::Kind;
use crate::reply::{self, Reply};

/// What c-ares has said and nobody has read yet.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Of a socket: what to wait for, or nothing, just before it is closed.
    pub(crate) sockets: Vec<(RawFd, Interest)>,
    /// To a question, of one kind.
    pub(crate) replies: Vec<(u64, Kind, Reply)>,
}

/// Where callbacks write. It is only locked for as long as that takes, and by one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes(Arc<Mutex<Said>>);

impl Notes {
    pub(crate) fn take(&self) -> Said {
        self.with(std::mem::take)
    }

    fn with<R>(&self, act: impl FnOnce(&mut Said) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The servers and files that one state of `resolv.conf` names.
#[derive(Debug)]
pub(crate) struct Servers {
    channel: Channel,
    hosts: Channel, // never opens a socket
    notes: Notes,
}

impl Servers {
    /// Reads `resolv.conf`; nothing is asked yet.
    pub(crate) fn open(options: &Options, notes: &Notes) -> Result<Self, ResolveError> {
        let open = || -> c_ares::Result<Self> {
            let hosts = Channel::with_options(settings(options, "f")?)?;
            let mut settings = settings(options, "b")?;
            let sockets = notes.clone();
            settings.set_socket_state_callback(move |socket, read, write| {
                sockets.with(|said| {
                    said.sockets.push((socket, Interest { read, write, hangup: false }))
                });
            });
            let mut channel = Channel::with_options(settings)?;
            if !options.servers.is_empty() {
                channel.set_servers(options.servers.iter().map(ToString::to_string))?;
            }
            Ok(Self { channel, hosts, notes: notes.clone() })
        };
        open().map_err(|error| reply::meaning(error).unwrap_or(ResolveError::ServerFailed))
    }

    /// The addresses in the hosts file.
    pub(crate) fn hosts(&mut self, name: &str, family: Family) -> Vec<IpAddr> {
        let family = match family {
            Family::Any => AddressFamily::UNSPEC,
            Family::V4 => AddressFamily::INET,
            Family::V6 => AddressFamily::INET6,
        };
        let flags = AddrInfoFlags::NOSORT; // sorting asks the kernel for each address
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

    /// Asks for one kind of address; the reply is noted, perhaps at once.
    pub(crate) fn ask(&mut self, question: u64, kind: Kind, name: &str) {
        let notes = self.notes.clone();
        let note = move |reply| notes.with(|said| said.replies.push((question, kind, reply)));
        let query = match query(name, kind) {
            Ok(query) => query,
            Err(error) => {
                return note(Err(reply::meaning(error).unwrap_or(ResolveError::ServerFailed)));
            }
        };
        // What is returned has been told to the callback, too.
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
        // Fails only for want of memory; the deadline of the lookup holds all the same.
        let _ = self.channel.process_fds(&[FdEvents::new(socket, events)], ProcessFlags::empty());
    }

    pub(crate) fn handle_timeout(&mut self) {
        let _ = self.channel.process_fds(&[], ProcessFlags::empty()); // as above
    }

    /// In how long [`Servers::handle_timeout`] is due.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.channel.timeout(None)
    }

    /// Gives up everything that was asked; its sockets are closed.
    pub(crate) fn cancel(&mut self) {
        if self.channel.queue_active_queries() > 0 {
            self.channel.cancel();
        }
    }

    /// True if one more question may be asked now.
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
        .set_query_cache_max_ttl(0) // ours knows the time that the loop knows
        .set_resolvconf_path(&path(&options.resolv_conf)?)?
        .set_hosts_path(&path(&options.hosts)?)?
        .set_lookups(lookups)?;
    Ok(settings)
}

fn query(name: &str, kind: Kind) -> c_ares::Result<DnsRecord> {
    let kind = match kind {
        Kind::A => DnsRecordType::A,
        Kind::Aaaa => DnsRecordType::AAAA,
    };
    let mut query = DnsRecord::new(0, DnsFlags::RD, DnsOpcode::Query, DnsRcode::NoError)?;
    query.query_add(name, kind, DnsCls::IN)?;
    query
        .rr_add(DnsSection::Additional, "", DnsRecordType::OPT, DnsCls::IN, 0)?
        .set_u16(DnsRrKey::OPT_UDP_SIZE, DATAGRAM_SIZE_MAX)?;
    Ok(query)
}

/// Queries under way at once: a server that gets a thousand at a stroke drops most.
const QUERIES_MAX: usize = 512;
/// Queries from one port of ours, until another is taken: whoever forges replies has to find it.
const PORT_QUERIES_MAX: u32 = 100;
/// Replies that are not fragmented on the way (RFC 9715 §3.1).
const DATAGRAM_SIZE_MAX: u16 = 1232;
