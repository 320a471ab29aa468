//! What signals mean to a process that serves.

use std::io;
use std::thread;

use fulmar_host::Stopper;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From now on SIGUSR1 is a soft stop: nobody new is accepted, and the process ends with its last
/// client. SIGTERM and SIGINT end it at once, as they end other processes, but with the files of
/// its sockets removed. `on_hangup` is called at SIGHUP; SIGUSR2 is for masters and means nothing.
///
/// # Errors
/// There can be no thread.
pub fn watch(stopper: Stopper, on_hangup: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP])?;
    let body = move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => stopper.stop(),
                SIGHUP => on_hangup(),
                SIGTERM | SIGINT => {
                    stopper.stop();
                    let _ = emulate_default_handler(signal); // it does not return
                }
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(body).map(drop)
}
