//! Options of event loops.

use std::collections::BTreeSet;

use clap::Args;
use fulmar_host::{Driver, DriverInfo, LoopOptions, Spin};

use crate::output::{ToolFailure, warn};

/// Options of event loops.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LoopArguments {
    /// I/O driver: `epoll` (edge-triggered), `level` (level-triggered epoll), `poll`, `ring`
    /// (io_uring; `ring:N`: only for lists of at least N operations), or `auto`
    /// [default: auto, or $FULMAR_DRIVER]
    #[arg(long, value_name = "DRIVER")]
    driver: Option<Driver>,

    /// Busy-poll before sleeping: `off`, `auto`, or a maximum in microseconds
    /// [default: off, or $FULMAR_SPIN]
    #[arg(long, value_name = "SPIN")]
    spin: Option<Spin>,
}

impl LoopArguments {
    /// The options from the command line, or else from the environment.
    pub(crate) fn options(self) -> Result<LoopOptions, ToolFailure> {
        LoopOptions::chosen(self.driver, self.spin).map_err(ToolFailure::Usage)
    }
}

/// Warns if io_uring was requested or automatic but is not available.
pub(crate) fn warn_without_ring(threads: &[DriverInfo]) {
    if let Some(text) = missing_ring(threads) {
        warn(&text);
    }
}

/// Why some threads run without io_uring, if they should use it.
pub(crate) fn missing_ring(threads: &[DriverInfo]) -> Option<String> {
    let mut reasons = threads.iter().filter_map(|info| info.ring_error.as_ref());
    let (why, others) = (reasons.next()?, reasons.count());
    let (without, all) = (others + 1, threads.len());
    Some(match without == all {
        true => format!("io_uring is not available, using epoll: {why}"),
        false => {
            format!("io_uring is not available to {without} of {all} threads, using epoll: {why}")
        }
    })
}

/// Warns if a thread has changed from io_uring to epoll.
pub(crate) fn warn_ring_lost<'d>(
    began: &[DriverInfo],
    ended: impl IntoIterator<Item = &'d DriverInfo>,
) {
    if let Some(text) = lost_ring(began, ended) {
        warn(&text);
    }
}

/// Why a thread has changed from io_uring to epoll, if one has.
fn lost_ring<'d>(
    began: &[DriverInfo],
    ended: impl IntoIterator<Item = &'d DriverInfo>,
) -> Option<String> {
    let reason = |(began, ended): (&DriverInfo, &'d DriverInfo)| {
        ended.ring_error.as_ref().filter(|_| began.ring_error.is_none())
    };
    let why = began.iter().zip(ended).find_map(reason)?;
    Some(format!("a thread has changed from io_uring to epoll: {why}"))
}

/// The names of the drivers of all threads; usually there is only one.
pub(crate) fn names<'d>(threads: impl Iterator<Item = &'d DriverInfo>) -> String {
    let all: BTreeSet<_> = threads.map(DriverInfo::to_string).collect();
    Vec::from_iter(all).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infos(reasons: &[Option<&str>]) -> Vec<DriverInfo> {
        let of = |why: &Option<&str>| DriverInfo {
            driver: if why.is_some() { "epoll" } else { "ring" }.to_owned(),
            spin: Spin::Off,
            ring_error: why.map(str::to_owned),
        };
        reasons.iter().map(of).collect()
    }

    #[test]
    fn threads_without_io_uring_are_counted() {
        let (none, one, all) = ([None; 3], [None, Some("full"), None], [Some("forbidden"); 3]);
        let message = |reasons| missing_ring(&infos(reasons));
        assert_eq!(message(&none), None);
        let some = "io_uring is not available to 1 of 3 threads, using epoll: full";
        assert_eq!(message(&one), Some(some.to_owned()));
        let every = "io_uring is not available, using epoll: forbidden";
        assert_eq!(message(&all), Some(every.to_owned()));
        assert_eq!(names(infos(&one).iter()), "epoll, ring");
    }

    #[test]
    fn only_a_thread_with_io_uring_can_lose_it() {
        let began = infos(&[Some("full"), None]);
        assert_eq!(lost_ring(&began, &infos(&[Some("full"), None])), None);
        let text = lost_ring(&began, &infos(&[Some("full"), Some("broken")])).unwrap();
        assert!(text.contains("changed from io_uring") && text.ends_with(": broken"), "{text}");
    }
}
