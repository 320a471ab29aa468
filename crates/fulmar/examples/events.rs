//! Server-sent events: each posted message is sent to all listening clients, on any thread.
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

/// The listening clients.
#[derive(Clone, Default)]
struct EventChannel(Arc<Mutex<Vec<EventClient>>>);

/// A listening client: its unsent messages, and the handle that wakes it.
struct EventClient {
    unsent: Arc<Mutex<VecDeque<Bytes>>>,
    resumer: Resumer,
}

impl EventChannel {
    fn say(&self, words: &str) -> usize {
        let data = words.lines().map(|line| format!("data: {line}\n")).collect::<String>();
        let event = Bytes::from(data + "\n");
        let mut clients = self.0.lock().expect("no panic poisons it");
        clients.retain(|client| !client.resumer.is_gone());
        for client in &*clients {
            let mut unsent = client.unsent.lock().expect("no panic poisons it");
            unsent.push_back(event.clone());
            if unsent.len() > UNSENT_LEN_MAX {
                unsent.pop_front(); // a slow client misses the oldest
            }
            client.resumer.resume();
        }
        clients.len()
    }

    fn listen(&self, responder: &mut Responder<'_>) -> HandlerResult {
        let unsent = Arc::<Mutex<VecDeque<Bytes>>>::default();
        let client = EventClient { unsent: Arc::clone(&unsent), resumer: responder.resumer() };
        self.0.lock().expect("no panic poisons it").push(client);
        let added = [("Content-Type", &b"text/event-stream"[..]), ("Cache-Control", b"no-store")];
        let head = Response { added: &added, ..Response::new(200, Headers::EMPTY) };
        responder.produce(head, BodyLen::Unknown, move |responder| {
            let event = unsent.lock().expect("no panic poisons it").pop_front();
            match event {
                Some(event) => responder.send(event).map(|()| Produced::More),
                None => Ok(Produced::Nothing), // until the resumer wakes it
            }
        })
    }
}

impl Handler for EventChannel {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match (request.method, request.target) {
            (b"GET", b"/events") => self.listen(responder),
            (b"POST", b"/say") => {
                let channel = self.clone();
                responder.collect(WORDS_SIZE_MAX, move |responder, body| {
                    let reached = channel.say(&String::from_utf8_lossy(&body));
                    responder.text(200, format!("{reached} clients\n"))
                })
            }
            _ => responder.text(404, "there are /events and /say\n"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let channel = EventChannel::default();
    let running = Host::of(move |_| Ok(channel.clone()))
        .listen(Listen::tcp(address.parse()?))
        .threads(2)
        .start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const UNSENT_LEN_MAX: usize = 1000;
const WORDS_SIZE_MAX: usize = 4096;
