//! What signals mean to a process that serves.

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
use crate::states;

/// What signals are about.
pub(crate) struct Subject {
    pub(crate) live: Arc<Live>,
    pub(crate) logs: Logs,
    pub(crate) stopper: Stopper,
}

/// From now on SIGUSR1 is a soft stop: nobody new is accepted, and the process ends with its last
/// client. SIGTERM and SIGINT end it at once, as they end other processes, but with the files of
/// its sockets removed and its logs written. SIGHUP has `tell` told how servers are; at SIGTTOU
/// nobody is accepted until SIGTTIN. SIGUSR2 is for masters, SIGQUIT for those who have pools of
/// memory to show: they mean nothing.
///
/// # Errors
/// There can be no thread.
pub(crate) fn watch(subject: Subject, tell: impl Fn(&str) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(HEARD)?;
    let body = move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => subject.stopper.stop(),
                SIGHUP => states::dump(&subject.live, &tell),
                SIGTTOU => pause(&subject.live, true, &tell),
                SIGTTIN => pause(&subject.live, false, &tell),
                SIGTERM | SIGINT => {
                    subject.stopper.stop();
                    subject.logs.flush();
                    let _ = emulate_default_handler(signal); // it does not return
                }
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

/// Pauses all frontends, or has them go on: as `disable frontend` and `enable frontend`.
fn pause(live: &Live, on: bool, tell: impl Fn(&str)) {
    for frontend in live.frontends.iter().filter(|it| !it.stopped.load(Ordering::Relaxed)) {
        if frontend.paused.swap(on, Ordering::Relaxed) != on {
            let kind = if frontend.config.is_listen { "proxy" } else { "frontend" };
            let what = if on { "Paused" } else { "Resumed" };
            tell(&format!("{what} {kind} {}.", frontend.config.name));
        }
    }
    live.wakers.wake_all();
}

const HEARD: [i32; 8] = [SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTTOU, SIGTTIN];
