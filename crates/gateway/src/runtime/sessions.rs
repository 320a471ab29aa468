//! Commands about sessions. Sessions belong to other threads; commands send these threads requests.

use std::fmt::Write;

use fulmar_engine::SocketId;
use fulmar_haproxy::Mode;
use fulmar_proxy::{Order, OrderReply, PORTION, SessionView};

use super::call::CommandCall;
use super::context::{CommandReply, ConsoleSettings, RuntimeContext};

pub(super) fn show(call: &mut CommandCall<'_>) -> CommandReply {
    let name = call.word(0).filter(|word| *word != "all");
    match name {
        None => send_request(call.context, *call.console_settings, 0, None),
        Some(name) => match parse(name, call.context) {
            None => "Session not found.\n".into(),
            Some((thread, socket)) => show_one(call, thread, socket),
        },
    }
}

/// All sessions: by thread, in pieces, as the reader takes them.
fn send_request(
    context: &RuntimeContext,
    console_settings: ConsoleSettings,
    thread: usize,
    from: Option<u64>,
) -> CommandReply {
    if thread >= context.live.threads {
        return CommandReply::done();
    }
    context.send_request(thread, console_settings.console, |to| Order::ListSessions { from, to });
    CommandReply::Deferred(Box::new(move |context, console_settings, answer, out| {
        let OrderReply::Sessions(sessions) = answer else { return CommandReply::done() };
        for session in &sessions {
            write_line(context, thread, session, out);
        }
        match sessions.last() {
            Some(last) if sessions.len() >= PORTION => {
                send_request(context, console_settings, thread, Some(last.place()))
            }
            _ => send_request(context, console_settings, thread + 1, None),
        }
    }))
}

fn show_one(call: &CommandCall<'_>, thread: usize, socket: SocketId) -> CommandReply {
    let from = u64::from(socket.index).checked_sub(1);
    call.context
        .send_request(thread, call.console_settings.console, |to| Order::ListSessions { from, to });
    CommandReply::Deferred(Box::new(move |context, _, answer, out| {
        let OrderReply::Sessions(sessions) = answer else { return CommandReply::done() };
        match sessions.iter().find(|session| session.socket == socket) {
            None => "Session not found.\n".into(),
            Some(session) => {
                write_line(context, thread, session, out);
                CommandReply::done()
            }
        }
    }))
}

pub(super) fn shutdown(call: &mut CommandCall<'_>) -> CommandReply {
    let Some(name) = call.word(0) else {
        return "Session pointer expected (use 'show sess').\n".into();
    };
    let Some((thread, socket)) = parse(name, call.context) else { return NO_SESSION.into() };
    call.context.send_request(thread, call.console_settings.console, |to| Order::CloseSession {
        socket,
        to,
    });
    CommandReply::Deferred(Box::new(|_, _, answer, _| match answer {
        OrderReply::Closed(true) => CommandReply::done(),
        _ => NO_SESSION.into(),
    }))
}

/// Parses a session's name: its thread, from 1, and its client's socket, in hexadecimal.
fn parse(name: &str, context: &RuntimeContext) -> Option<(usize, SocketId)> {
    let digits = name.strip_prefix("0x")?;
    let split = digits.len().checked_sub(16).filter(|len| *len > 0 && digits.is_ascii())?;
    let (thread, socket) = digits.split_at(split);
    let thread = usize::from_str_radix(thread, 16).ok()?.checked_sub(1)?;
    let socket = SocketId::from_bits(u64::from_str_radix(socket, 16).ok()?);
    (thread < context.live.threads).then_some((thread, socket))
}

fn write_line(context: &RuntimeContext, thread: usize, session: &SessionView, out: &mut String) {
    let frontend = &context.live.frontends[session.bind.frontend];
    let backend = session.backend.map(|at| &context.live.backends[at]);
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
