//! Mode tcp: the bytes of one side reach the other completely, or the failure is visible.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use fulmar_tests::load::unused_port;
use fulmar_tests::own_process::own_process;

use crate::faults::peer::SocketPeer;
use crate::faults::world::{World, descriptors};
use fulmar_engine::sim::PeerStep;

/// A session: the steps of each side, and the expected result.
struct TcpFault {
    name: &'static str,
    to: To,
    client: fn(&BothTexts) -> Vec<PeerStep>,
    server: fn(&BothTexts) -> Vec<PeerStep>,
    /// All bytes of the client reach the server, and the other way round; otherwise a prefix.
    up: bool,
    down: bool,
    codes: &'static [&'static str],
}

/// Which server it is brought to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Good,
    Closing,
    Resetting,
    UnusedPort,
}

/// The bytes of both sides.
#[derive(Clone, Debug)]
struct BothTexts {
    up: Vec<u8>,
    down: Vec<u8>,
}

impl BothTexts {
    /// The server waits until it has all.
    fn heard(&self) -> PeerStep {
        let len = self.up.len();
        PeerStep::Until(Box::new(move |got| got.len() >= len))
    }

    fn answered(&self) -> PeerStep {
        let len = self.down.len();
        PeerStep::Until(Box::new(move |got| got.len() >= len))
    }

    fn half_up(&self) -> PeerStep {
        PeerStep::Send(self.up[..self.up.len().div_ceil(2).max(NAME_LEN)].to_vec())
    }

    fn half_down(&self) -> PeerStep {
        PeerStep::Send(self.down[..self.down.len() / 2].to_vec())
    }
}

fn bytes(talk: &BothTexts) -> Vec<PeerStep> {
    vec![PeerStep::Send(talk.up.clone()), PeerStep::never()]
}

fn answers(talk: &BothTexts) -> Vec<PeerStep> {
    vec![talk.heard(), PeerStep::Send(talk.down.clone()), PeerStep::Close]
}

const fn fault(
    name: &'static str,
    up: bool,
    down: bool,
    codes: &'static [&'static str],
) -> TcpFault {
    TcpFault { name, to: To::Good, client: bytes, server: answers, up, down, codes }
}

static FAULTS: &[TcpFault] = &[
    fault("nothing", true, true, &["--"]),
    TcpFault {
        client: |talk| vec![PeerStep::Send(talk.up.clone()), PeerStep::Fin, PeerStep::never()],
        server: |talk| vec![talk.heard(), PeerStep::never()],
        ..fault("the client ends its side, and the server closes then", true, false, &["--"])
    },
    TcpFault {
        client: |talk| vec![PeerStep::Send(talk.up.clone()), PeerStep::Fin, PeerStep::never()],
        ..fault("the client ends its side, and is answered", true, true, &["--"])
    },
    TcpFault {
        client: |talk| vec![talk.half_up(), talk.answered(), rest(talk), PeerStep::Close],
        server: |talk| vec![PeerStep::Send(talk.down.clone()), PeerStep::Fin, PeerStep::never()],
        ..fault("the server ends its side, and is told the rest", true, true, &["--"])
    },
    TcpFault {
        server: |_| vec![PeerStep::Reset],
        ..fault("the server resets at once", false, false, &["SD"])
    },
    TcpFault {
        server: |talk| vec![talk.heard(), talk.half_down(), PeerStep::Reset],
        ..fault("the server resets within its answer", true, false, &["SD"])
    },
    TcpFault {
        server: |talk| vec![talk.heard(), talk.half_down(), PeerStep::Close],
        ..fault("the server closes within its answer", true, false, &["--"])
    },
    TcpFault {
        client: |talk| vec![talk.half_up(), PeerStep::Reset],
        server: |talk| vec![talk.heard(), PeerStep::never()],
        ..fault("the client resets within what it says", false, false, &["CD", "CC", "CQ"])
    },
    TcpFault {
        client: |talk| vec![talk.half_up(), PeerStep::Close],
        server: |talk| vec![talk.heard(), PeerStep::never()],
        ..fault("the client closes within what it says", false, false, &["--"])
    },
    TcpFault {
        server: |talk| vec![talk.heard(), PeerStep::never()],
        ..fault("both sides are silent", true, false, &["cD", "sD"])
    },
    TcpFault {
        client: |talk| vec![PeerStep::Send(talk.up.clone()), PeerStep::Fin, PeerStep::never()],
        server: |talk| vec![talk.heard(), PeerStep::Hold],
        ..fault("the server says nothing to the client's end", true, false, &["sD"])
    },
    TcpFault { to: To::UnusedPort, ..fault("no listener", false, false, &["SC"]) },
    TcpFault {
        to: To::Closing,
        ..fault("the server closes every connection", false, false, ENDED)
    },
    TcpFault {
        to: To::Resetting,
        ..fault("the server resets every connection", false, false, ENDED)
    },
];

/// It depends on whether there was something to be sent to it.
const ENDED: &[&str] = &["--", "SD", "SC", "CD"];

fn rest(talk: &BothTexts) -> PeerStep {
    PeerStep::Send(talk.up[talk.up.len().div_ceil(2).max(NAME_LEN)..].to_vec())
}

/// Servers that go by the name that a client begins with.
struct TcpOrigin {
    listener: TcpListener,
    to: To,
    wires: Vec<(SocketPeer, Option<u32>)>,
}

impl TcpOrigin {
    fn new(to: To) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener, to, wires: Vec::new() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn turn(&mut self, talks: &HashMap<u32, (&'static TcpFault, BothTexts)>) -> bool {
        let mut moved = false;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let mut peer = SocketPeer::new(stream, false);
                    match self.to {
                        To::Closing => peer.steps.push_back(PeerStep::Close),
                        To::Resetting => peer.steps.push_back(PeerStep::Reset),
                        // What is done then is known when the name is; its end may come with it.
                        _ => {
                            let is_named = Box::new(|got: &[u8]| got.len() >= NAME_LEN);
                            peer.steps.extend([PeerStep::Until(is_named), PeerStep::Hold]);
                        }
                    }
                    self.wires.push((peer, None));
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        for (peer, name) in &mut self.wires {
            moved |= peer.turn();
            if name.is_none() && peer.got.len() >= NAME_LEN {
                let number = std::str::from_utf8(&peer.got[..NAME_LEN]).unwrap().parse().unwrap();
                let (fault, talk) = &talks[&number];
                *name = Some(number);
                peer.steps.clear();
                peer.steps.extend((fault.server)(talk));
                moved = true;
            }
        }
        moved
    }
}

fn round(seed: u64, len: u32) -> u32 {
    let before = descriptors();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut origins = [To::Good, To::Closing, To::Resetting].map(TcpOrigin::new);
    let (holder, gone) = unused_port();
    let addresses = [origins[0].address(), origins[1].address(), origins[2].address(), gone];
    let mut worlds: Vec<World> = addresses.iter().map(|to| World::new(&text(*to))).collect();
    let (mut talks, mut clients) = (HashMap::new(), Vec::new());
    for number in 0..len {
        let fault = &FAULTS[random.usize(0..FAULTS.len())];
        let sizes = [20, 500, 20_000, 300_000];
        let (up, down) = (*random.choice(&sizes).unwrap(), *random.choice(&sizes).unwrap());
        let bytes = |len: usize| (0..len).map(|at| (at % 251).to_le_bytes()[0] ^ 0x5a).collect();
        let up: Vec<u8> = bytes(up);
        let talk =
            BothTexts { up: [format!("{number:08}").as_bytes(), &up].concat(), down: bytes(down) };
        let stream = TcpStream::connect(worlds[fault.to as usize].address).unwrap();
        let mut peer = SocketPeer::new(stream, random.u8(0..6) == 0);
        peer.steps.extend((fault.client)(&talk));
        talks.insert(number, (fault, talk));
        clients.push((number, peer.port(), peer));
    }
    loop {
        let mut moved = false;
        for (_, _, peer) in &mut clients {
            moved |= peer.turn();
        }
        for origin in &mut origins {
            moved |= origin.turn(&talks);
        }
        let open = clients.iter().any(|(_, _, peer)| peer.is_open());
        if !open && worlds.iter_mut().all(|world| world.clients() == 0) && !moved {
            break;
        }
        let stuck = clients.iter().any(|(_, _, peer)| peer.is_stuck);
        let goes_on = worlds.iter_mut().map(|world| world.turn(moved, stuck)).collect::<Vec<_>>();
        assert!(goes_on.contains(&true), "seed {seed}: nothing happens any more");
    }
    for (number, port, client) in &clients {
        let (fault, talk) = &talks[number];
        let world = &worlds[fault.to as usize];
        let heard = origins[0].wires.iter().find(|(_, name)| *name == Some(*number));
        let heard = heard.map_or(&[][..], |(peer, _)| &peer.got);
        let lines = world.lines.borrow();
        let line = lines.iter().find_map(|(_, line)| line.strip_prefix(&format!("{port}|")));
        let what = format!(
            "seed {seed}: {}: up {} of {}, down {} of {}; log {line:?}",
            fault.name,
            heard.len(),
            talk.up.len(),
            client.got.len(),
            talk.down.len(),
        );
        assert!(talk.up.starts_with(heard) && talk.down.starts_with(&client.got), "{what}");
        assert!(!fault.up || heard.len() == talk.up.len(), "{what}");
        assert!(!fault.down || client.got.len() == talk.down.len(), "{what}");
        assert!(line.is_some_and(|code| fault.codes.contains(&code)), "{what}");
    }
    worlds.iter().for_each(|world| world.assert_idle(&format!("seed {seed}")));
    drop((clients, origins, worlds, holder));
    assert_eq!(descriptors(), before, "seed {seed}");
    len
}

fn text(to: SocketAddr) -> String {
    format!(
        "defaults\n  mode tcp\n  log stdout format raw local0\n  timeout client 5s\n  \
         timeout server 10s\n  timeout connect 2s\n  retries 1\n\
         frontend fe\n  bind 127.0.0.1:0\n  log-format \"%cp|%ts\"\n  default_backend be\n\
         backend be\n  server s {to} maxconn 30\n"
    )
}

#[test]
fn a_thousand_sessions_of_mode_tcp_end_as_they_should_and_leave_nothing() {
    own_process(|| {
        let count: u32 = (0..10).map(|seed| round(seed, 100)).sum();
        assert_eq!(count, 1_000);
    });
}

/// Digits of the name that a client begins with.
const NAME_LEN: usize = 8;
