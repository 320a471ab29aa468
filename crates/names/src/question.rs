//! A name that is being asked for, and all who wait for it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fulmar_engine::{LookupId, ResolveError};

use crate::options::Family;
use crate::reply::{Found, Reply};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    A,
    Aaaa,
}

/// One name: a question for each kind of address, and one answer for all who wait.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: Box<str>,
    /// By their numbers: who came first is answered first.
    pub(crate) waiters: BTreeMap<u64, LookupId>,
    /// When it is answered, whatever is known by then.
    pub(crate) deadline: Instant,
    a: Part,
    aaaa: Part,
}

#[derive(Debug)]
enum Part {
    Unwanted,
    Open,
    Replied(Reply),
}

/// An answer and for how long it holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// As they came, IPv4 first.
    pub(crate) found: Result<Vec<IpAddr>, ResolveError>,
    /// `None`: it is not to be kept.
    pub(crate) ttl: Option<Duration>,
}

impl Question {
    pub(crate) fn new(name: Box<str>, deadline: Instant, family: Family) -> Self {
        let part = |wanted| if wanted { Part::Open } else { Part::Unwanted };
        let a = part(family != Family::V6);
        let aaaa = part(family != Family::V4);
        Self { name, waiters: BTreeMap::new(), deadline, a, aaaa }
    }

    /// What there is to ask for, or to ask again.
    pub(crate) fn open_kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let a = matches!(self.a, Part::Open).then_some(Kind::A);
        let aaaa = matches!(self.aaaa, Part::Open).then_some(Kind::Aaaa);
        a.into_iter().chain(aaaa)
    }

    pub(crate) fn handle_reply(&mut self, kind: Kind, reply: Reply) {
        match kind {
            Kind::A => self.a = Part::Replied(reply),
            Kind::Aaaa => self.aaaa = Part::Replied(reply),
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.open_kinds().next().is_none()
    }

    /// IPv4 addresses are there, and the server may be one that never says anything about IPv6:
    /// nobody waits for it for long (RFC 8305 §3).
    pub(crate) fn may_hurry(&self) -> bool {
        matches!((&self.a, &self.aaaa), (Part::Replied(Ok(_)), Part::Open))
    }

    /// The answer from what is known.
    pub(crate) fn verdict(&self) -> Verdict {
        let found: Vec<&Found> = self.replies().filter_map(|reply| reply.as_ref().ok()).collect();
        let Some(first) = found.first() else { return self.failure() };
        // Two kinds from two names of the search list are two hosts: the first one counts.
        let of_one = found.iter().filter(|more| more.name == first.name);
        let all = of_one.flat_map(|more| more.addresses.iter().copied());
        let ttl = found.iter().map(|more| more.ttl).min().expect("one was found");
        let ttl = Duration::from_secs(ttl.into()).clamp(TTL_MIN, TTL_MAX);
        let whole = self.is_answered() && self.failures().next().is_none();
        Verdict {
            found: Ok(all.collect()),
            ttl: Some(if whole { ttl } else { ttl.min(DOUBTFUL_TTL) }),
        }
    }

    fn replies(&self) -> impl Iterator<Item = &Reply> {
        [&self.a, &self.aaaa].into_iter().filter_map(|part| match part {
            Part::Replied(reply) => Some(reply),
            Part::Open | Part::Unwanted => None,
        })
    }

    /// Why we cannot tell: nothing that would be an answer about the name.
    fn failures(&self) -> impl Iterator<Item = ResolveError> {
        let errors = self.replies().filter_map(|reply| reply.as_ref().err());
        let is_failure =
            |e: &ResolveError| !matches!(e, ResolveError::NotFound | ResolveError::NoAddress);
        errors.copied().filter(is_failure)
    }

    /// A name that does not exist has no addresses of either kind; one without addresses of one
    /// kind may have others that we could not hear of.
    fn failure(&self) -> Verdict {
        let not_found = self.replies().any(|reply| *reply == Err(ResolveError::NotFound));
        let doubt = || (!self.is_answered()).then_some(ResolveError::TimedOut);
        let error = match self.failures().next() {
            _ if not_found => ResolveError::NotFound,
            Some(error) => error,
            None => doubt().unwrap_or(ResolveError::NoAddress),
        };
        let holds = matches!(error, ResolveError::NotFound | ResolveError::NoAddress);
        Verdict { found: Err(error), ttl: holds.then_some(DOUBTFUL_TTL) }
    }
}

/// A thousand connections in one second are one question, even if the answer is for once only.
pub(crate) const TTL_MIN: Duration = Duration::from_secs(1);
/// Nobody moves a server and remembers that a year was promised.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// That there is nothing, or that half of it could not be heard, is believed for so long: shorter
/// than nearly every zone says (RFC 2308 §5), whose word c-ares does not pass on.
const DOUBTFUL_TTL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs some moment to start from")]
    fn start() -> Instant {
        Instant::now()
    }

    const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

    fn found(address: IpAddr, name: &str, ttl: u32) -> Option<Reply> {
        Some(Ok(Found { name: name.into(), addresses: vec![address], ttl }))
    }

    fn verdict(a: Option<Reply>, aaaa: Option<Reply>) -> Verdict {
        let mut question = Question::new("a".into(), start(), Family::Any);
        if let Some(reply) = a {
            question.handle_reply(Kind::A, reply);
        }
        if let Some(reply) = aaaa {
            question.handle_reply(Kind::Aaaa, reply);
        }
        question.verdict()
    }

    #[test]
    fn both_kinds_make_one_answer() {
        let no = |error| Some(Err(error));
        for (a, aaaa, addresses, seconds) in [
            (found(V4, "a", 60), found(V6, "a", 50), vec![V4, V6], 50),
            (found(V4, "a.x", 60), found(V6, "a.y", 50), vec![V4], 50),
            (found(V4, "a", 60), no(ResolveError::NoAddress), vec![V4], 60),
            (found(V4, "a", 60), no(ResolveError::ServerFailed), vec![V4], 10),
            (found(V4, "a", 60), None, vec![V4], 10),
            (found(V4, "a", 0), no(ResolveError::NoAddress), vec![V4], 1),
            (found(V4, "a", u32::MAX), no(ResolveError::NoAddress), vec![V4], 86_400),
            (no(ResolveError::NotFound), found(V6, "a", 60), vec![V6], 60),
            (None, found(V6, "a", 60), vec![V6], 10),
        ] {
            let expected =
                Verdict { found: Ok(addresses), ttl: Some(Duration::from_secs(seconds)) };
            assert_eq!(verdict(a.clone(), aaaa.clone()), expected, "{a:?} {aaaa:?}");
        }
    }

    #[test]
    fn a_failure_is_told_for_what_it_is_and_kept_only_if_it_is_an_answer() {
        use ResolveError::{NoAddress, NotFound, ServerFailed, TimedOut, Unreachable};
        for (a, aaaa, error, kept) in [
            (Some(NotFound), Some(NotFound), NotFound, true),
            (Some(NoAddress), Some(NoAddress), NoAddress, true),
            (Some(NoAddress), Some(NotFound), NotFound, true),
            (Some(ServerFailed), Some(NotFound), NotFound, true),
            (Some(NoAddress), Some(ServerFailed), ServerFailed, false),
            (Some(TimedOut), Some(NoAddress), TimedOut, false),
            (Some(Unreachable), Some(Unreachable), Unreachable, false),
            (Some(NoAddress), None, TimedOut, false),
            (Some(ServerFailed), None, ServerFailed, false),
            (None, None, TimedOut, false),
        ] {
            let verdict = verdict(a.map(Err), aaaa.map(Err));
            assert_eq!(verdict.found, Err(error), "{a:?} {aaaa:?}");
            assert_eq!(verdict.ttl, kept.then_some(DOUBTFUL_TTL), "{a:?} {aaaa:?}");
        }
    }
}
