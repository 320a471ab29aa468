//! Signal handling of a serving process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use fulmar_host::Stopper;
use fulmar_proxy::Live;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::logs::Logs;
use crate::state_reports;

/// What the signal handlers act on.
pub(crate) struct SignalContext {
    pub(crate) live: Arc<Live>,
    pub(crate) logs: Logs,
    pub(crate) stopper: Stopper,
}

/// Starts a thread that handles signals as HAProxy does:
///
/// - SIGUSR1: soft stop. Listeners are closed, and the process exits after its last client.
/// - SIGTERM, SIGINT: hard stop, after removing Unix sockets and flushing logs.
/// - SIGHUP: passes the state of servers to `report`.
/// - SIGTTOU, SIGTTIN: pause and resume accepting.
/// - SIGUSR2, SIGQUIT: ignored. In HAProxy they are for masters and memory pools.
///
/// # Errors
/// The thread cannot be started.
pub(crate) fn watch(
    subject: SignalContext,
    report: impl Fn(&str) + Send + 'static,
) -> io::Result<()> {
    let mut signals = Signals::new(SIGNALS)?;
    let body = move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => subject.stopper.stop(),
                SIGHUP => state_reports::dump(&subject.live, &report),
                SIGTTOU => pause(&subject.live, true, &report),
                SIGTTIN => pause(&subject.live, false, &report),
                SIGTERM | SIGINT => {
                    // Not a stop: the process could exit before the signal ends it.
                    subject.stopper.remove_socket_files();
                    subject.logs.flush();
                    let _ = emulate_default_handler(signal); // does not return
                }
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

/// Pauses or resumes all frontends, as `disable frontend` and `enable frontend` do.
fn pause(live: &Live, on: bool, report: impl Fn(&str)) {
    for frontend in live.frontends.iter().filter(|it| !it.stopped.load(Ordering::Relaxed)) {
        if frontend.paused.swap(on, Ordering::Relaxed) != on {
            let kind = if frontend.config.is_listen { "proxy" } else { "frontend" };
            let what = if on { "Paused" } else { "Resumed" };
            report(&format!("{what} {kind} {}.", frontend.config.name));
        }
    }
    live.announce();
}

const SIGNALS: [i32; 8] = [SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTTOU, SIGTTIN];
