//! Panics of handlers in hosts: which requests and threads they end.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use fulmar_host::{Error, Host, Listen, OnPanic, Running};
use fulmar_proto::Request;
use fulmar_server::{Handler, HandlerApp, HandlerResult, OwnedResponse, Responder, Suspended};
use fulmar_tests::http::HttpClient;
use fulmar_tests::loops::requested_options;
use fulmar_tests::process::PATIENCE;

/// Hands requests of `/wait` to the test, and panics at `/boom`.
struct WaitHandler(Sender<Suspended>);

impl Handler for WaitHandler {
    fn handle(&mut self, responder: &mut Responder<'_>, request: &Request<'_>) -> HandlerResult {
        match request.target {
            b"/wait" => self.0.send(responder.suspend()).expect("the test receives them"),
            b"/boom" => {
                let empty: Vec<u8> = Vec::new();
                let _ = empty[request.target.len()];
            }
            _ => responder.text(200, "good\n")?,
        }
        Ok(())
    }
}

fn host(sender: &Sender<Suspended>) -> Host<HandlerApp<WaitHandler>> {
    let sender = sender.clone();
    let any = Listen::tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    Host::of(move |_| Ok(WaitHandler(sender.clone()))).loop_options(requested_options()).listen(any)
}

/// Clients with requests that the test holds.
fn wait(
    running: &Running<()>,
    suspended: &Receiver<Suspended>,
    count: usize,
) -> Vec<(HttpClient, Suspended)> {
    let address = running.addresses()[0].tcp().expect("a TCP address");
    let one = |_| {
        let mut client = HttpClient::connect(address);
        client.send_get("/wait");
        let request = suspended.recv_timeout(PATIENCE).expect("it is suspended");
        (client, request)
    };
    (0..count).map(one).collect()
}

fn client(running: &Running<()>) -> HttpClient {
    HttpClient::connect(running.addresses()[0].tcp().expect("a TCP address"))
}

/// One thread, four requests in flight: the two that panic get 500, the others 200.
#[test]
fn a_panic_of_a_handler_ends_one_request_and_no_thread() {
    let (sender, suspended) = channel();
    let running = host(&sender).start().unwrap();
    let mut waiting = wait(&running, &suspended, 3);
    let mut faulty = client(&running);
    assert_eq!(faulty.get("/boom").status, 500);
    assert_eq!(faulty.get("/").status, 200, "also its connection goes on");
    let (mut unlucky, request) = waiting.pop().unwrap();
    request.resume(|_| panic!("in a closure"));
    assert_eq!(unlucky.read_reply().unwrap().status, 500);
    for (mut client, request) in waiting {
        request.reply(OwnedResponse::text(200, "late"));
        assert_eq!(client.read_reply().unwrap().body, b"late");
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(client(&running).get("/").status, 200);
    running.stop();
    assert_eq!(running.join().unwrap().len(), 1);
}

/// The same, but the server stops gracefully: requests in flight get their responses.
#[test]
fn a_panic_of_a_handler_may_stop_the_server() {
    let (sender, suspended) = channel();
    let running = host(&sender).threads(2).on_panic(OnPanic::StopServer).start().unwrap();
    let waiting = wait(&running, &suspended, 4);
    assert_eq!(client(&running).get("/boom").status, 500);
    for (mut client, request) in waiting {
        request.reply(OwnedResponse::text(200, "late"));
        assert_eq!(client.read_reply().unwrap().body, b"late");
    }
    let error = running.join().unwrap_err(); // without a stop
    let Error::Panic { message, .. } = error else { panic!("{error}") };
    assert_eq!(&*message, "index out of bounds: the len is 0 but the index is 5");
}
