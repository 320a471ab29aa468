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
    if let Some(why) = &driven.without_ring {
        complain(&format!("running on epoll, there is no io_uring: {why}"));
    }
}
