//! Commands that change frontends.

use std::sync::atomic::Ordering;

use fulmar_proxy::LiveFrontend;

use super::call::CommandCall;
use super::context::CommandReply;

pub(super) fn disable(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |it| {
        if it.stopped.load(Ordering::Relaxed) {
            return Err("Frontend was previously shut down, cannot disable.\n");
        }
        let was = it.paused.swap(true, Ordering::Relaxed);
        if was { Err("All sockets are already disabled.\n") } else { Ok(()) }
    })
}

pub(super) fn enable(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |it| {
        if it.stopped.load(Ordering::Relaxed) {
            return Err("Frontend was previously shut down, cannot enable.\n");
        }
        let was = it.paused.swap(false, Ordering::Relaxed);
        if was { Ok(()) } else { Err("All sockets are already enabled.\n") }
    })
}

pub(super) fn shutdown(call: &mut CommandCall<'_>) -> CommandReply {
    with(call, |it| {
        let was = it.stopped.swap(true, Ordering::Relaxed);
        if was { Err("Frontend was already shut down.\n") } else { Ok(()) }
    })
}

pub(super) fn set_maxconn(call: &mut CommandCall<'_>) -> CommandReply {
    match (find(call), call.word(1)) {
        (Err(text), _) => text.into(),
        (Ok(_), None) => "Integer value expected.\n".into(),
        (Ok(it), Some(text)) => {
            // As in HAProxy, an invalid number counts as 0: no connection is accepted.
            it.connections_max.set(Some(text.parse().unwrap_or(0)));
            call.context.live.announce();
            CommandReply::done()
        }
    }
}

fn with(
    call: &CommandCall<'_>,
    act: impl Fn(&LiveFrontend) -> Result<(), &'static str>,
) -> CommandReply {
    match find(call).and_then(act) {
        Err(text) => text.into(),
        Ok(()) => {
            call.context.live.announce();
            CommandReply::done()
        }
    }
}

/// The frontend with this name or, after `#`, this number.
fn find<'a>(call: &CommandCall<'a>) -> Result<&'a LiveFrontend, &'static str> {
    let name = call.word(0).ok_or("A frontend name is expected.\n")?;
    let is = |it: &&LiveFrontend| match name.strip_prefix('#') {
        Some(number) => number.parse() == Ok(it.config.id),
        None => it.config.name == name,
    };
    call.context.live.frontends.iter().find(is).ok_or("No such frontend.\n")
}
