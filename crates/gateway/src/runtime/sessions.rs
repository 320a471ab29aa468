//! Commands about sessions. They belong to other threads, which are asked.

use std::fmt::Write;

use fulmar_engine::SocketId;
use fulmar_haproxy::Mode;
use fulmar_proxy::{Answer, Order, PORTION, SessionView};

use super::call::Call;
use super::world::{Asker, Reply, World};

pub(super) fn show(call: &mut Call<'_>) -> Reply {
    let name = call.word(0).filter(|word| *word != "all");
    match name {
        None => ask(call.world, *call.asker, 0, None),
        Some(name) => match parse(name, call.world) {
            None => "Session not found.\n".into(),
            Some((thread, socket)) => show_one(call, thread, socket),
        },
    }
}

/// All of them: thread by thread, portion by portion, as the reader takes them.
fn ask(world: &World, asker: Asker, thread: usize, from: Option<u64>) -> Reply {
    if thread >= world.live.threads {
        return Reply::done();
    }
    world.ask(thread, asker.console, |to| Order::Tell { from, to });
    Reply::News(Box::new(move |world, asker, answer, out| {
        let Answer::Sessions(sessions) = answer else { return Reply::done() };
        for session in &sessions {
            write_line(world, thread, session, out);
        }
        match sessions.last() {
            Some(last) if sessions.len() >= PORTION => {
                ask(world, asker, thread, Some(last.place()))
            }
            _ => ask(world, asker, thread + 1, None),
        }
    }))
}

fn show_one(call: &Call<'_>, thread: usize, socket: SocketId) -> Reply {
    let from = u64::from(socket.index).checked_sub(1);
    call.world.ask(thread, call.asker.console, |to| Order::Tell { from, to });
    Reply::News(Box::new(move |world, _, answer, out| {
        let Answer::Sessions(sessions) = answer else { return Reply::done() };
        match sessions.iter().find(|session| session.socket == socket) {
            None => "Session not found.\n".into(),
            Some(session) => {
                write_line(world, thread, session, out);
                Reply::done()
            }
        }
    }))
}

pub(super) fn shutdown(call: &mut Call<'_>) -> Reply {
    let Some(name) = call.word(0) else {
        return "Session pointer expected (use 'show sess').\n".into();
    };
    let Some((thread, socket)) = parse(name, call.world) else { return NO_SESSION.into() };
    call.world.ask(thread, call.asker.console, |to| Order::Cut { socket, to });
    Reply::News(Box::new(|_, _, answer, _| match answer {
        Answer::Cut(true) => Reply::done(),
        _ => NO_SESSION.into(),
    }))
}

/// A session by its name: the number of its thread, from 1, and its client's socket, in
/// hexadecimal.
fn parse(name: &str, world: &World) -> Option<(usize, SocketId)> {
    let digits = name.strip_prefix("0x")?;
    let split = digits.len().checked_sub(16).filter(|len| *len > 0 && digits.is_ascii())?;
    let (thread, socket) = digits.split_at(split);
    let thread = usize::from_str_radix(thread, 16).ok()?.checked_sub(1)?;
    let socket = SocketId::from_bits(u64::from_str_radix(socket, 16).ok()?);
    (thread < world.live.threads).then_some((thread, socket))
}

fn write_line(world: &World, thread: usize, session: &SessionView, out: &mut String) {
    let frontend = &world.live.frontends[session.bind.frontend];
    let backend = session.backend.map(|at| &world.live.backends[at]);
    let server = backend.zip(session.server).map(|(it, at)| &*it.servers[at].config.name);
    let source = match session.source {
        Some(source) if source.port() > 0 => source.to_string(),
        _ => "unix:1".to_owned(),
    };
    let proto = match session.source {
        Some(source) if source.port() > 0 && source.is_ipv6() => "tcpv6",
        Some(source) if source.port() > 0 => "tcpv4",
        _ => "unix_stream",
    };
    let mode = if frontend.config.mode == Mode::Http { "http" } else { "tcp" };
    writeln!(
        out,
        "0x{:x}{:016x}: proto={proto} src={source} fe={} be={} srv={} mode={mode} age={}s \
         calls={} in={} out={}",
        thread + 1,
        session.socket.to_bits(),
        frontend.config.name,
        backend.map_or("<NONE>", |it| &*it.config.name),
        server.unwrap_or("<none>"),
        session.age.as_secs(),
        session.requests,
        session.received,
        session.sent
    )
    .expect("a String takes everything");
}

const NO_SESSION: &str = "No such session (use 'show sess').\n";
