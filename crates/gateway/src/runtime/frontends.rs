//! Commands that change frontends.

use std::sync::atomic::Ordering;

use fulmar_proxy::LiveFrontend;

use super::call::Call;
use super::world::Reply;

pub(super) fn disable(call: &mut Call<'_>) -> Reply {
    with(call, |it| {
        if it.stopped.load(Ordering::Relaxed) {
            return Err("Frontend was previously shut down, cannot disable.\n");
        }
        let was = it.paused.swap(true, Ordering::Relaxed);
        if was { Err("All sockets are already disabled.\n") } else { Ok(()) }
    })
}

pub(super) fn enable(call: &mut Call<'_>) -> Reply {
    with(call, |it| {
        if it.stopped.load(Ordering::Relaxed) {
            return Err("Frontend was previously shut down, cannot enable.\n");
        }
        let was = it.paused.swap(false, Ordering::Relaxed);
        if was { Ok(()) } else { Err("All sockets are already enabled.\n") }
    })
}

pub(super) fn shutdown(call: &mut Call<'_>) -> Reply {
    with(call, |it| {
        let was = it.stopped.swap(true, Ordering::Relaxed);
        if was { Err("Frontend was already shut down.\n") } else { Ok(()) }
    })
}

pub(super) fn set_maxconn(call: &mut Call<'_>) -> Reply {
    match (find(call), call.word(1)) {
        (Err(text), _) => text.into(),
        (Ok(_), None) => "Integer value expected.\n".into(),
        (Ok(it), Some(text)) => {
            // As with HAProxy, what is no number is 0: nobody comes in.
            it.connections_max.set(Some(text.parse().unwrap_or(0)));
            call.world.live.announce();
            Reply::done()
        }
    }
}

fn with(call: &Call<'_>, act: impl Fn(&LiveFrontend) -> Result<(), &'static str>) -> Reply {
    match find(call).and_then(act) {
        Err(text) => text.into(),
        Ok(()) => {
            call.world.live.announce();
            Reply::done()
        }
    }
}

/// The frontend that is named, by its name or, behind `#`, its number.
fn find<'a>(call: &Call<'a>) -> Result<&'a LiveFrontend, &'static str> {
    let name = call.word(0).ok_or("A frontend name is expected.\n")?;
    let is = |it: &&LiveFrontend| match name.strip_prefix('#') {
        Some(number) => number.parse() == Ok(it.config.id),
        None => it.config.name == name,
    };
    call.world.live.frontends.iter().find(is).ok_or("No such frontend.\n")
}
