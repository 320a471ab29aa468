//! One end of a connection, which runs a script.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use fulmar_engine::sim::{PeerEnd, PeerStep};
use rustix::net::sockopt::set_socket_linger;

#[derive(Debug)]
pub(crate) struct SocketPeer {
    stream: Option<TcpStream>,
    /// All that came.
    pub(crate) got: Vec<u8>,
    pub(crate) end: Option<PeerEnd>,
    /// It has ended its own side, and can respond to nothing more.
    pub(crate) has_ended: bool,
    pub(crate) steps: VecDeque<PeerStep>,
    pub(crate) is_deaf: bool,
    /// Wants to send, and cannot.
    pub(crate) is_stuck: bool,
    /// Sends piece by piece.
    dribbles: bool,
}

impl SocketPeer {
    pub(crate) fn new(stream: TcpStream, dribbles: bool) -> Self {
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: Some(stream),
            got: Vec::new(),
            end: None,
            has_ended: false,
            steps: VecDeque::new(),
            is_deaf: false,
            is_stuck: false,
            dribbles,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Closes it, whatever its next steps.
    pub(crate) fn close(&mut self) {
        self.stream = None;
    }

    /// The port of its own side.
    pub(crate) fn port(&self) -> u16 {
        self.stream.as_ref().unwrap().local_addr().unwrap().port()
    }

    /// Takes the possible steps; false if there is none.
    pub(crate) fn turn(&mut self) -> bool {
        let mut moved = self.read();
        self.is_stuck = false;
        while let Some(step) = self.steps.pop_front() {
            if self.stream.is_none() {
                self.steps.clear();
                return moved;
            }
            match self.perform(step) {
                Ok(()) => moved = true,
                Err((waits, some)) => {
                    moved |= some;
                    match self.end {
                        // The awaited bytes cannot arrive any more.
                        Some(_) if matches!(waits, PeerStep::Until(_)) => self.close(),
                        _ => self.steps.push_front(waits),
                    }
                    break;
                }
            }
        }
        if self.steps.is_empty() && self.end.is_some() && self.is_open() {
            self.close();
            moved = true;
        }
        moved
    }

    fn read(&mut self) -> bool {
        let before = (self.got.len(), self.end);
        let mut bytes = [0; 64 * 1024];
        while !self.is_deaf
            && self.end.is_none()
            && let Some(stream) = &mut self.stream
        {
            match stream.read(&mut bytes) {
                Ok(0) => self.end = Some(PeerEnd::Fin),
                Ok(n) => self.got.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.end = Some(PeerEnd::Reset),
            }
        }
        before != (self.got.len(), self.end)
    }

    /// The step again if it is not done yet, and whether some of it is.
    fn perform(&mut self, step: PeerStep) -> Result<(), (PeerStep, bool)> {
        let stream = self.stream.as_mut().expect("it is open");
        match step {
            PeerStep::Send(mut bytes) => {
                let some = match self.dribbles {
                    true => bytes.len().min(500.max(bytes.len() / 10)),
                    false => bytes.len(),
                };
                match stream.write(&bytes[..some]) {
                    Ok(n) if n == bytes.len() => return Ok(()),
                    Ok(n) => {
                        bytes.drain(..n);
                        return Err((PeerStep::Send(bytes), n > 0));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.is_stuck = true;
                        return Err((PeerStep::Send(bytes), false));
                    }
                    // What came before that can still be read.
                    Err(_) => {
                        self.steps.clear();
                        self.read();
                        self.end = Some(PeerEnd::Reset);
                    }
                }
            }
            PeerStep::Until(done) if done(&self.got) => {}
            PeerStep::Until(_) | PeerStep::Hold => return Err((step, false)),
            PeerStep::Then(next) => {
                for step in next(&self.got).into_iter().rev() {
                    self.steps.push_front(step);
                }
            }
            PeerStep::Fin => {
                stream.shutdown(Shutdown::Write).unwrap_or_default(); // it may be gone
                self.has_ended = true;
            }
            PeerStep::At(_) => unreachable!("no step waits for a time"),
            PeerStep::Close => self.close(),
            PeerStep::Reset => {
                set_socket_linger(&*stream, Some(Duration::ZERO)).unwrap();
                self.close();
            }
            PeerStep::StopReading => self.is_deaf = true,
        }
        Ok(())
    }
}
