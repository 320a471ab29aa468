//! A scripted name server on loopback (RFC 1035 §4).

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The reply of a server to a query.
#[derive(Clone, Debug)]
pub enum DnsReply {
    /// Nothing at all.
    Nothing,
    /// Only a status.
    Code(u8),
    /// These records, in this order.
    Records(Vec<Record>),
    /// First a reply with a wrong query id, as from an attacker, then the other.
    Forged(Box<Self>, Box<Self>),
    /// The same with a few octets changed by the seed; the query id is right.
    Mangled(Box<Self>, u64),
}

/// A record of the answer section.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its owner name.
    pub owner: String,
    /// Seconds for which it holds.
    pub ttl: u32,
    /// Its data.
    pub data: Data,
}

/// The data of a record.
#[derive(Clone, Debug)]
pub enum Data {
    /// `A` or `AAAA`.
    Address(IpAddr),
    /// `CNAME`.
    Alias(String),
}

/// A query as the server received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The name.
    pub name: String,
    /// [`A`] or [`AAAA`].
    pub kind: u16,
    /// Over TCP.
    pub tcp: bool,
}

/// `A` (RFC 1035 §3.2.2).
pub const A: u16 = 1;
/// `AAAA` (RFC 3596 §2.1).
pub const AAAA: u16 = 28;
/// Status codes (RFC 1035 §4.1.1).
pub const SERVER_FAILURE: u8 = 2;
/// There is no such name.
pub const NAME_ERROR: u8 = 3;
/// It does not want to.
pub const REFUSED: u8 = 5;

/// Addresses of `owner` with a TTL of a minute, in a reply to a query of `kind`.
pub fn addresses(owner: &str, kind: u16, addresses: &[IpAddr]) -> DnsReply {
    let fits = |address: &&IpAddr| address.is_ipv4() == (kind == A);
    let record = |address: &IpAddr| address_of(owner, 60, *address);
    DnsReply::Records(addresses.iter().filter(fits).map(record).collect())
}

/// An address record.
pub fn address_of(owner: &str, ttl: u32, address: IpAddr) -> Record {
    Record { owner: owner.to_owned(), ttl, data: Data::Address(address) }
}

/// An alias.
pub fn alias(owner: &str, to: &str) -> Record {
    Record { owner: owner.to_owned(), ttl: 60, data: Data::Alias(to.to_owned()) }
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Dns {
    /// Where it listens, for datagrams and connections.
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<DnsQuery>>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Dns {
    /// Replies to each query with the result of `script`.
    ///
    /// # Panics
    /// Loopback has no free port.
    pub fn start(script: impl Fn(&DnsQuery) -> DnsReply + Send + Sync + 'static) -> Self {
        let (datagrams, connections) = one_port();
        let address = datagrams.local_addr().expect("it is bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(AtomicBool::new(false));
        let server =
            Arc::new(DnsServer { script, heard: Arc::clone(&heard), ended: Arc::clone(&ended) });
        let also = Arc::clone(&server);
        let threads = vec![
            std::thread::spawn(move || server.serve_datagrams(&datagrams)),
            std::thread::spawn(move || also.serve_connections(&connections)),
        ];
        Self { address, heard, ended, threads }
    }

    /// The queries so far.
    ///
    /// # Panics
    /// The server has panicked.
    pub fn queries(&self) -> Vec<DnsQuery> {
        self.heard.lock().expect("the server works").clone()
    }

    /// The number of queries for `name`.
    pub fn count(&self, name: &str) -> usize {
        self.queries().iter().filter(|heard| heard.name == name).count()
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let waker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        waker.send_to(&[], self.address).expect("loopback takes it");
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            let result = thread.join();
            assert!(result.is_ok() || std::thread::panicking(), "the name server panicked");
        }
    }
}

/// A port that is free for both protocols.
fn one_port() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = datagrams.local_addr().expect("it is bound");
        if let Ok(connections) = TcpListener::bind(address) {
            return (datagrams, connections);
        }
    }
    panic!("no port is free for both protocols");
}

struct DnsServer<F> {
    script: F,
    heard: Arc<Mutex<Vec<DnsQuery>>>,
    ended: Arc<AtomicBool>,
}

impl<F: Fn(&DnsQuery) -> DnsReply> DnsServer<F> {
    fn serve_datagrams(&self, socket: &UdpSocket) {
        let mut buffer = [0; 2048];
        loop {
            let (len, from) = socket.recv_from(&mut buffer).expect("a datagram");
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            for mut reply in self.replies(&buffer[..len], false) {
                if reply.len() > DATAGRAM_SIZE_MAX {
                    reply.truncate(question_end(&reply));
                    reply[2] |= TRUNCATED;
                    reply[6..12].fill(0);
                }
                let _ = socket.send_to(&reply, from); // the client may have closed
            }
        }
    }

    /// One connection at a time: our client opens only one.
    fn serve_connections(&self, listener: &TcpListener) {
        loop {
            let (mut stream, _) = listener.accept().expect("a connection");
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let mut size = [0; 2];
            while stream.read_exact(&mut size).is_ok() {
                let mut query = vec![0; u16::from_be_bytes(size).into()];
                if stream.read_exact(&mut query).is_err() {
                    break;
                }
                for reply in self.replies(&query, true) {
                    let size = u16::try_from(reply.len()).expect("a message").to_be_bytes();
                    let _ = stream.write_all(&[&size[..], &reply[..]].concat());
                }
            }
        }
    }

    fn replies(&self, query: &[u8], tcp: bool) -> Vec<Vec<u8>> {
        let end = question_end(query);
        let kind = u16::from_be_bytes([query[end - 4], query[end - 3]]);
        let heard = DnsQuery { name: name(&query[12..end - 4]), kind, tcp };
        self.heard.lock().expect("the test works").push(heard.clone());
        match (self.script)(&heard) {
            DnsReply::Forged(forged, say) => {
                let mut forged = message(&query[..end], &heard.name, &forged);
                forged.iter_mut().for_each(|message| message[1] ^= 1);
                forged.into_iter().chain(message(&query[..end], &heard.name, &say)).collect()
            }
            say => message(&query[..end], &heard.name, &say).into_iter().collect(),
        }
    }
}

/// The reply as a message.
fn message(question: &[u8], name: &str, say: &DnsReply) -> Option<Vec<u8>> {
    let none = Vec::new();
    let (code, records) = match say {
        DnsReply::Nothing | DnsReply::Forged(..) => return None,
        DnsReply::Code(code) => (*code, &none),
        DnsReply::Records(records) => (0, records),
        DnsReply::Mangled(say, seed) => return Some(mangle(message(question, name, say)?, *seed)),
    };
    let mut reply = question.to_vec();
    reply[2] |= REPLY;
    reply[3] = code;
    let count = u16::try_from(records.len()).expect("few records").to_be_bytes();
    reply[6..12].copy_from_slice(&[count[0], count[1], 0, 0, 0, 0]);
    for record in records {
        write_record(&mut reply, record, name);
    }
    Some(reply)
}

fn mangle(mut message: Vec<u8>, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..random.usize(1..8) {
        let at = random.usize(2..message.len());
        message[at] = random.u8(..);
    }
    if random.bool() {
        message.truncate(random.usize(2..message.len()));
    }
    message
}

/// The end of the only question.
fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += 1 + usize::from(message[at]);
    }
    at + 5
}

fn name(wire: &[u8]) -> String {
    let mut labels = Vec::new();
    let mut at = 0;
    while wire[at] != 0 {
        let end = at + 1 + usize::from(wire[at]);
        labels.push(String::from_utf8_lossy(&wire[at + 1..end]).into_owned());
        at = end;
    }
    labels.join(".")
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    for label in name.split('.') {
        out.push(u8::try_from(label.len()).expect("a label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}

fn write_record(out: &mut Vec<u8>, record: &Record, question: &str) {
    if record.owner == question {
        out.extend_from_slice(&QUESTION_NAME);
    } else {
        write_name(out, &record.owner);
    }
    let mut data = Vec::new();
    let kind = match &record.data {
        Data::Address(IpAddr::V4(v4)) => {
            data.extend_from_slice(&v4.octets());
            A
        }
        Data::Address(IpAddr::V6(v6)) => {
            data.extend_from_slice(&v6.octets());
            AAAA
        }
        Data::Alias(to) => {
            write_name(&mut data, to);
            CNAME
        }
    };
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&1_u16.to_be_bytes()); // the internet
    out.extend_from_slice(&record.ttl.to_be_bytes());
    out.extend_from_slice(&u16::try_from(data.len()).expect("short data").to_be_bytes());
    out.extend_from_slice(&data);
}

const CNAME: u16 = 5;
/// Bits of the third octet of a header.
const REPLY: u8 = 0x80;
const TRUNCATED: u8 = 0x02;
/// A pointer to the question's name (RFC 1035 §4.1.4).
const QUESTION_NAME: [u8; 2] = [0xc0, 12];
/// The size that our client announces (EDNS).
const DATAGRAM_SIZE_MAX: usize = 1232;
