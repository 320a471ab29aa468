//! SIGINT and SIGTERM as calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;

/// Somebody wants us to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// Calls `act` at a signal from now on, on a thread of its own; a second signal ends the process at
/// once, whatever it is waiting for.
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

/// Calls `act` at each SIGHUP from now on, on a thread of its own.
pub(crate) fn on_hangup(act: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP])?;
    let body = move || signals.forever().for_each(|_| act());
    thread::Builder::new().name("hang-ups".into()).spawn(body).map(drop)
}

/// A write beyond the limit on a file's size (`ulimit -f`) is an error from now on, as on a disk
/// that is full, and does not kill us. Programs that we start have it as usual.
pub(crate) fn survive_file_limit() -> io::Result<()> {
    let nobody_asks = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, nobody_asks).map(drop)
}

/// The status of a tool that was interrupted.
pub(crate) const INTERRUPTED: u8 = 130;
