//! Server-sent events: what somebody says is heard by everybody, on whatever thread.
//!
//! `cargo run --example events 127.0.0.1:8080`, then `curl -N 127.0.0.1:8080/events` and
//! `curl -d hello 127.0.0.1:8080/say`
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fulmar::host::{Host, Listen};
use fulmar::proto::{BodyLen, Headers, Request, Response};
use fulmar::server::{Handler, HandlerResult, Produced, Responder, Resumer};

/// Everybody who listens.
#[derive(Clone, Default)]
struct Room(Arc<Mutex<Vec<Seat>>>);

/// One of them: what it has not heard yet, and how to tell it that there is something.
struct Seat {
    unheard: Arc<Mutex<VecDeque<Bytes>>>,
    resumer: Resumer,
}

impl Room {
    fn say(&self, words: &str) -> usize {
        let data = words.lines().map(|line| format!("data: {line}\n")).collect::<String>();
        let event = Bytes::from(data + "\n");
        let mut seats = self.0.lock().expect("nobody panics here");
        seats.retain(|seat| !seat.resumer.is_gone());
        for seat in &*seats {
            let mut unheard = seat.unheard.lock().expect("nobody panics here");
            unheard.push_back(event.clone());
            if unheard.len() > UNHEARD_LEN_MAX {
                unheard.pop_front(); // who cannot follow misses the oldest
            }
            seat.resumer.resume();
        }
        seats.len()
    }

    fn listen(&self, responder: &mut Responder<'_>) -> HandlerResult {
        let unheard = Arc::<Mutex<VecDeque<Bytes>>>::default();
        let seat = Seat { unheard: Arc::clone(&unheard), resumer: responder.resumer() };
        self.0.lock().expect("nobody panics here").push(seat);
        let added = [("Content-Type", &b"text/event-stream"[..]), ("Cache-Control", b"no-store")];
        let head = Response { added: &added, ..Response::new(200, Headers::EMPTY) };
        responder.produce(head, BodyLen::Unknown, move |responder| {
            let event = unheard.lock().expect("nobody panics here").pop_front();
            match event {
                Some(event) => responder.send(event).map(|()| Produced::More),
                None => Ok(Produced::Nothing), // until the resumer says so
            }
        })
    }
}

impl Handler for Room {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match (request.method, request.target) {
            (b"GET", b"/events") => self.listen(responder),
            (b"POST", b"/say") => {
                let room = self.clone();
                responder.collect(WORDS_SIZE_MAX, move |responder, body| {
                    let heard = room.say(&String::from_utf8_lossy(&body));
                    responder.text(200, format!("{heard} heard it\n"))
                })
            }
            _ => responder.text(404, "there are /events and /say\n"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let room = Room::default();
    let running = Host::of(move |_| Ok(room.clone()))
        .listen(Listen::tcp(address.parse()?))
        .threads(2)
        .start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const UNHEARD_LEN_MAX: usize = 1000;
const WORDS_SIZE_MAX: usize = 4096;
