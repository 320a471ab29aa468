//! The command line.

use std::error::Error;
use std::net::SocketAddr;
use std::str::FromStr;

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Idle connections.
    pub(super) idle: usize,
    /// Events of the active stream.
    pub(super) events: u64,
    /// Bytes that an event of it should carry; others are told as uneven.
    pub(super) event_size: usize,
    /// Servers that never answer `/idle`; the connections are spread over them.
    pub(super) idle_peers: Vec<SocketAddr>,
    /// The server of the active stream.
    pub(super) active: SocketAddr,
    /// Connections have deadlines, as a client's have.
    pub(super) deadlines: bool,
}

impl Options {
    /// `--idle N --events E --event-size B --idle-peers ADDR,ADDR --active ADDR [--no-deadlines]`.
    pub(super) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut active = None;
        let mut options = Self {
            idle: 0,
            events: 0,
            event_size: 100,
            idle_peers: Vec::new(),
            active: SocketAddr::from(([127, 0, 0, 1], 0)),
            deadlines: true,
        };
        while let Some(flag) = words.next() {
            if flag == "--no-deadlines" {
                options.deadlines = false;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--idle" => options.idle = number(&flag, &value)?,
                "--events" => options.events = number(&flag, &value)?,
                "--event-size" => options.event_size = number(&flag, &value)?,
                "--active" => active = Some(number(&flag, &value)?),
                "--idle-peers" => {
                    let peers = value.split(',').map(|peer| number(&flag, peer));
                    options.idle_peers = peers.collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("unknown option {flag}").into()),
            }
        }
        options.active = active.ok_or("--active is missing")?;
        if options.idle_peers.is_empty() {
            return Err("--idle-peers is missing".into());
        }
        Ok(options)
    }
}

fn number<T: FromStr>(flag: &str, text: &str) -> Result<T, Box<dyn Error>> {
    text.parse().map_err(|_| format!("{flag}: {text:?} is not what it takes").into())
}
