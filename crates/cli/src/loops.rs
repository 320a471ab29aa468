//! Flags about how event loops work.

use std::collections::BTreeSet;

use clap::Args;
use fulmar_host::{Driven, Driver, LoopOptions, Spin};

use crate::output::{Failure, complain};

/// How event loops work.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LoopArguments {
    /// What does the system calls: `epoll` (a call for each), `ring` (io_uring, one for a list of
    /// them; `ring:N`: of N or more), or `auto` [default: auto, or $FULMAR_DRIVER]
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
        LoopOptions::chosen(self.driver, self.spin).map_err(Failure::Message)
    }
}

/// Says why there is no ring, if there would have been one.
pub(crate) fn tell(driven: &[Driven]) {
    if let Some(text) = absence(driven) {
        complain(&text);
    }
}

/// Why there is no ring in some loops of this program, if there would have been one.
pub(crate) fn absence(driven: &[Driven]) -> Option<String> {
    let mut reasons = driven.iter().filter_map(|driven| driven.without_ring.as_ref());
    let (why, others) = (reasons.next()?, reasons.count());
    let (without, all) = (others + 1, driven.len());
    Some(match without == all {
        true => format!("running on epoll, there is no io_uring: {why}"),
        false => {
            format!("{without} of {all} threads run on epoll, there is no io_uring for them: {why}")
        }
    })
}

/// Says why a thread that began with a ring has ended without one, if one has.
pub(crate) fn tell_loss<'d>(began: &[Driven], ended: impl IntoIterator<Item = &'d Driven>) {
    if let Some(text) = loss(began, ended) {
        complain(&text);
    }
}

/// Why a thread that began with a ring has ended without one, if one has.
fn loss<'d>(began: &[Driven], ended: impl IntoIterator<Item = &'d Driven>) -> Option<String> {
    let reason = |(began, ended): (&Driven, &'d Driven)| {
        ended.without_ring.as_ref().filter(|_| began.without_ring.is_none())
    };
    let why = began.iter().zip(ended).find_map(reason)?;
    Some(format!("a thread gave io_uring up and went on with epoll: {why}"))
}

/// What drove several loops: mostly there is one.
pub(crate) fn names<'d>(driven: impl Iterator<Item = &'d Driven>) -> String {
    let all: BTreeSet<_> = driven.map(Driven::to_string).collect();
    Vec::from_iter(all).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driven(reasons: &[Option<&str>]) -> Vec<Driven> {
        let of = |why: &Option<&str>| Driven {
            driver: if why.is_some() { "epoll" } else { "ring" }.to_owned(),
            spin: Spin::Off,
            without_ring: why.map(str::to_owned),
        };
        reasons.iter().map(of).collect()
    }

    #[test]
    fn who_has_no_ring_is_counted() {
        let (none, one, all) = ([None; 3], [None, Some("full"), None], [Some("forbidden"); 3]);
        let told = |reasons| absence(&driven(reasons));
        assert_eq!(told(&none), None);
        let some = "1 of 3 threads run on epoll, there is no io_uring for them: full";
        assert_eq!(told(&one), Some(some.to_owned()));
        let nobody = "running on epoll, there is no io_uring: forbidden";
        assert_eq!(told(&all), Some(nobody.to_owned()));
        assert_eq!(names(driven(&one).iter()), "epoll, ring");
    }

    #[test]
    fn only_who_had_a_ring_can_give_it_up() {
        let began = driven(&[Some("full"), None]);
        assert_eq!(loss(&began, &driven(&[Some("full"), None])), None);
        let text = loss(&began, &driven(&[Some("full"), Some("broken")])).unwrap();
        assert!(text.contains("gave io_uring up") && text.ends_with(": broken"), "{text}");
    }
}
