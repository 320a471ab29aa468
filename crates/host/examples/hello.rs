//! A server that says hello: on the sockets that it was started with, or else on a free port of
//! loopback; the next one takes its listeners over at the path in `HAND_OVER`, if that is set.
//! When it listens, it runs the command that its arguments are, such as one that tells somebody.
//! It stops when its standard input ends.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::{env, io, thread};

use fulmar_host::{Activation, Host, Listen};
use fulmar_proto::{BodyLen, Connection, Event, Headers, Response, Server, ServerConnection};
use fulmar_server::{ExchangeContext, ServerApp};

struct Hello;

impl ServerApp for Hello {
    type Data = ();
    type Message = Infallible;

    fn handle(
        &mut self,
        _: &mut ExchangeContext,
        reply: &mut ServerConnection,
        (): &mut (),
        event: Event<'_, Server>,
    ) {
        if let Event::End { stream, .. } = event {
            let head = Response::new(200, Headers::EMPTY);
            reply.send_head(stream, head, BodyLen::Exact(6)).expect("the first answer");
            reply.send_data(stream, b"hello\n"[..].into()).expect("six bytes");
            reply.send_end(stream, Headers::EMPTY).expect("they were all");
        }
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    // First of all: the environment can be changed while there is one thread.
    let mut activation = Activation::from_environment()?;
    let mut host = Host::new(|_| Ok(Hello)).threads(2);
    if activation.names().next().is_none() {
        host = host.listen(Listen::tcp("127.0.0.1:0".parse()?));
    }
    while let Some((name, listen)) = activation.take_next() {
        println!("given {name}");
        host = host.listen(listen);
    }
    if let Some(path) = env::var_os("HAND_OVER") {
        host = host.hand_over(path);
    }
    let running = host.start()?;
    for address in running.addresses() {
        println!("listening on {address}");
    }
    let mut arguments = env::args_os().skip(1);
    if let Some(program) = arguments.next() {
        Command::new(program).args(arguments).status()?;
    }
    let stopper = running.stopper();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink()); // its end, in whatever way
        stopper.stop();
    });
    let connections: u64 = running.join()?.iter().map(|outcome| outcome.usage.stats.accepted).sum();
    println!("{connections} connections");
    Ok(())
}
