//! Signal handlers as callbacks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// A request to exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Calls `act` on a separate thread at SIGINT or SIGTERM. A second signal ends the process at once.
pub(crate) fn watch(act: impl Fn(Interrupt) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let body = move || {
        let mut seen = signals.forever();
        for (count, signal) in seen.by_ref().enumerate() {
            if count > 0 {
                signal_hook::low_level::exit(INTERRUPTED.into());
            }
            act(if signal == SIGINT { Interrupt::Interrupt } else { Interrupt::Terminate });
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}

/// Calls `act` on a separate thread at each SIGHUP.
pub(crate) fn on_hangup(act: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    let body = move || signals.forever().for_each(|_| act());
    thread::Builder::new().name("hang-ups".into()).spawn(body).map(drop)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error instead of killing the
/// process. Child processes keep the default.
pub(crate) fn survive_file_limit() -> io::Result<()> {
    let unused = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, unused).map(drop)
}

/// The exit status of an interrupted tool.
pub(crate) const INTERRUPTED: u8 = 130;
