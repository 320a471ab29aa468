//! Routing with a crate of your choice: here `matchit` finds the route, and an enum names it.
//!
//! `cargo run --example router 127.0.0.1:8080`, then
//! `curl -d 'buy milk' 127.0.0.1:8080/notes` and `curl 127.0.0.1:8080/notes/0`
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::error::Error;
use std::rc::Rc;

use fulmar::host::{Host, Listen};
use fulmar::proto::{Headers, Request, Response};
use fulmar::server::{Handler, HandlerResult, Responder};

/// Notes by number; a thread of their own answers, so nothing has to be locked.
struct Notes {
    routes: matchit::Router<AppRoute>,
    notes: Rc<RefCell<Vec<String>>>,
}

#[derive(Clone, Copy)]
enum AppRoute {
    All,
    One,
}

impl Notes {
    fn new() -> Result<Self, matchit::InsertError> {
        let mut routes = matchit::Router::new();
        routes.insert("/notes", AppRoute::All)?;
        routes.insert("/notes/{number}", AppRoute::One)?;
        Ok(Self { routes, notes: Rc::default() })
    }

    fn list(&self, responder: &mut Responder<'_>) -> HandlerResult {
        let notes = self.notes.borrow();
        let lines = notes.iter().enumerate().map(|(number, note)| format!("{number} {note}\n"));
        responder.text(200, lines.collect::<String>())
    }

    fn add(&self, responder: &mut Responder<'_>) -> HandlerResult {
        let notes = Rc::clone(&self.notes);
        responder.collect(NOTE_SIZE_MAX, move |responder, body| {
            let Ok(note) = String::from_utf8(body.to_vec()) else {
                return responder.text(400, "a note is UTF-8\n");
            };
            let mut notes = notes.borrow_mut();
            notes.push(note);
            let location = format!("/notes/{}", notes.len() - 1);
            let added = [("Location", location.as_bytes())];
            responder.reply(Response { added: &added, ..Response::new(201, Headers::EMPTY) }, "")
        })
    }

    fn show(&self, responder: &mut Responder<'_>, number: &str) -> HandlerResult {
        let notes = self.notes.borrow();
        match number.parse().ok().and_then(|number: usize| notes.get(number)) {
            Some(note) => responder.text(200, format!("{note}\n")),
            None => responder.text(404, "no such note\n"),
        }
    }
}

impl Handler for Notes {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        let path = str::from_utf8(request.target).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default();
        let Ok(found) = self.routes.at(path) else {
            return responder.text(404, "nothing here\n");
        };
        match (*found.value, request.method) {
            (AppRoute::All, b"GET" | b"HEAD") => self.list(responder),
            (AppRoute::All, b"POST") => self.add(responder),
            (AppRoute::One, b"GET" | b"HEAD") => {
                self.show(responder, found.params.get("number").unwrap_or_default())
            }
            (route, _) => {
                let allow: &[u8] = match route {
                    AppRoute::All => b"GET, HEAD, POST",
                    AppRoute::One => b"GET, HEAD",
                };
                let head = Response::new(405, Headers::EMPTY);
                responder.reply(Response { added: &[("Allow", allow)], ..head }, "")
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let make = |_: &_| Notes::new().map_err(std::io::Error::other);
    let running = Host::of(make).listen(Listen::tcp(address.parse()?)).start()?;
    println!("listening on http://{}/", running.addresses()[0]);
    running.join()?;
    Ok(())
}

const NOTE_SIZE_MAX: usize = 64 * 1024;
