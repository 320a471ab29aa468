//! Flags about how event loops work.

use clap::Args;
use fulmar_host::{Driven, Driver, LoopOptions, Spin};

use crate::output::{Failure, complain};

/// How event loops work.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LoopArguments {
    /// What does the system calls: `epoll` (a call for each), `ring` (io_uring, one for a list of
    /// them), or `auto` [default: auto, or $FULMAR_DRIVER]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<Driver>,

    /// Poll before sleeping: `off`, `auto`, or for at most so many microseconds
    /// [default: off, or $FULMAR_SPIN]
    #[arg(long, value_name = "SPIN")]
    spin: Option<Spin>,
}

impl LoopArguments {
    /// What was asked for here, or else in the environment.
    pub(crate) fn options(self) -> Result<LoopOptions, Failure> {
        chosen(self.driver, self.spin).map_err(Failure::Message)
    }
}

/// What was asked for, or else what the environment says.
pub(crate) fn chosen(driver: Option<Driver>, spin: Option<Spin>) -> Result<LoopOptions, String> {
    let usual = LoopOptions::from_environment()?;
    Ok(LoopOptions { driver: driver.unwrap_or(usual.driver), spin: spin.unwrap_or(usual.spin) })
}

/// Says why there is no ring, if there would have been one.
pub(crate) fn tell(driven: &Driven) {
    if let Some(text) = absence(driven) {
        complain(&text);
    }
}

/// Why there is no ring, if there would have been one.
pub(crate) fn absence(driven: &Driven) -> Option<String> {
    let why = driven.without_ring.as_ref()?;
    Some(format!("running on epoll, there is no io_uring: {why}"))
}

/// Says why a thread that began with a ring has ended without one, if one has.
pub(crate) fn tell_loss<'d>(began: &Driven, mut ended: impl Iterator<Item = &'d Driven>) {
    if let Some(lost) = ended.find(|ended| ended.driver != began.driver) {
        let why = lost.without_ring.as_deref().unwrap_or("unknown");
        complain(&format!("a thread gave io_uring up and went on with epoll: {why}"));
    }
}
