//! Flags about how event loops work.

use clap::Args;
use fulmar_host::{Driver, LoopOptions, Spin};

/// How event loops work.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Arguments {
    /// What does the system calls: `ring` (io_uring, one call for a list of operations), `epoll`
    /// (a call for each), or `auto`: a ring where there is one
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    driver: Driver,

    /// Poll before sleeping: off, auto, or for at most so many microseconds. It answers sooner, and
    /// may take what is left of a core
    #[arg(long, value_name = "SPIN", default_value = "off")]
    spin: Spin,
}

impl Arguments {
    pub(crate) fn options(self) -> LoopOptions {
        LoopOptions { driver: self.driver, spin: self.spin }
    }
}
