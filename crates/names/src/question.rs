//! A name that is being resolved, and the lookups that wait for it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use fulmar_engine::{LookupId, ResolveError};

use crate::options::Family;
use crate::reply::{FoundAddresses, Reply};

/// The record type of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressKind {
    A,
    Aaaa,
}

/// One name: a query for each address family, and one result for all waiters.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: Box<str>,
    /// Pending lookups by number: the oldest is completed first.
    pub(crate) waiters: BTreeMap<u64, LookupId>,
    /// The lookup completes at this time with the replies so far.
    pub(crate) deadline: Instant,
    a: QueryState,
    aaaa: QueryState,
}

#[derive(Debug)]
enum QueryState {
    Unwanted,
    Open,
    Replied(Reply),
}

/// The result of a lookup, and its time to live.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LookupResult {
    /// The addresses in the order of the replies, IPv4 first.
    pub(crate) found: Result<Vec<IpAddr>, ResolveError>,
    /// `None`: the result is not cached.
    pub(crate) ttl: Option<Duration>,
}

impl Question {
    pub(crate) fn new(name: Box<str>, deadline: Instant, family: Family) -> Self {
        let part = |wanted| if wanted { QueryState::Open } else { QueryState::Unwanted };
        let a = part(family != Family::V6);
        let aaaa = part(family != Family::V4);
        Self { name, waiters: BTreeMap::new(), deadline, a, aaaa }
    }

    /// The address families without a reply.
    pub(crate) fn open_kinds(&self) -> impl Iterator<Item = AddressKind> + use<> {
        let a = matches!(self.a, QueryState::Open).then_some(AddressKind::A);
        let aaaa = matches!(self.aaaa, QueryState::Open).then_some(AddressKind::Aaaa);
        a.into_iter().chain(aaaa)
    }

    pub(crate) fn handle_reply(&mut self, kind: AddressKind, reply: Reply) {
        match kind {
            AddressKind::A => self.a = QueryState::Replied(reply),
            AddressKind::Aaaa => self.aaaa = QueryState::Replied(reply),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.open_kinds().next().is_none()
    }

    /// True if there are IPv4 addresses but no reply for IPv6. Some servers never reply to IPv6
    /// queries, so the wait is limited (RFC 8305 §3).
    pub(crate) fn has_enough(&self) -> bool {
        matches!((&self.a, &self.aaaa), (QueryState::Replied(Ok(_)), QueryState::Open))
    }

    /// The result of the replies so far.
    pub(crate) fn result(&self) -> LookupResult {
        let found: Vec<&FoundAddresses> =
            self.replies().filter_map(|reply| reply.as_ref().ok()).collect();
        let Some(first) = found.first() else { return self.failure() };
        // Results for two names of the search list belong to two hosts: the first one counts.
        let of_one = found.iter().filter(|more| more.name == first.name);
        let all = of_one.flat_map(|more| more.addresses.iter().copied());
        let ttl =
            found.iter().map(|more| more.ttl).min().expect("at least one reply has addresses");
        let ttl = Duration::from_secs(ttl.into()).clamp(TTL_MIN, TTL_MAX);
        let whole = self.is_complete() && self.failures().next().is_none();
        LookupResult {
            found: Ok(all.collect()),
            ttl: Some(if whole { ttl } else { ttl.min(DOUBTFUL_TTL) }),
        }
    }

    fn replies(&self) -> impl Iterator<Item = &Reply> {
        [&self.a, &self.aaaa].into_iter().filter_map(|part| match part {
            QueryState::Replied(reply) => Some(reply),
            QueryState::Open | QueryState::Unwanted => None,
        })
    }

    /// Replies that are failures, not statements about the name.
    fn failures(&self) -> impl Iterator<Item = ResolveError> {
        let errors = self.replies().filter_map(|reply| reply.as_ref().err());
        let is_failure =
            |e: &ResolveError| !matches!(e, ResolveError::NotFound | ResolveError::NoAddress);
        errors.copied().filter(is_failure)
    }

    /// `NotFound` applies to both families. After `NoAddress` for one family, the other may still
    /// have addresses.
    fn failure(&self) -> LookupResult {
        let not_found = self.replies().any(|reply| *reply == Err(ResolveError::NotFound));
        let doubt = || (!self.is_complete()).then_some(ResolveError::TimedOut);
        let error = match self.failures().next() {
            _ if not_found => ResolveError::NotFound,
            Some(error) => error,
            None => doubt().unwrap_or(ResolveError::NoAddress),
        };
        let holds = matches!(error, ResolveError::NotFound | ResolveError::NoAddress);
        LookupResult { found: Err(error), ttl: holds.then_some(DOUBTFUL_TTL) }
    }
}

/// Minimum TTL: a thousand connections in a second make one query, even if the TTL is 0.
pub(crate) const TTL_MIN: Duration = Duration::from_secs(1);
/// Maximum TTL: longer TTLs outlive the move of a server.
const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// TTL of negative and partial results. It is shorter than that of nearly every zone (RFC 2308 §5),
/// which c-ares does not return.
const DOUBTFUL_TTL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "tests need a start time")]
    fn start() -> Instant {
        Instant::now()
    }

    const V4: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const V6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

    fn found(address: IpAddr, name: &str, ttl: u32) -> Option<Reply> {
        Some(Ok(FoundAddresses { name: name.into(), addresses: vec![address], ttl }))
    }

    fn result(a: Option<Reply>, aaaa: Option<Reply>) -> LookupResult {
        let mut question = Question::new("a".into(), start(), Family::Any);
        if let Some(reply) = a {
            question.handle_reply(AddressKind::A, reply);
        }
        if let Some(reply) = aaaa {
            question.handle_reply(AddressKind::Aaaa, reply);
        }
        question.result()
    }

    #[test]
    fn both_families_make_one_result() {
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
                LookupResult { found: Ok(addresses), ttl: Some(Duration::from_secs(seconds)) };
            assert_eq!(result(a.clone(), aaaa.clone()), expected, "{a:?} {aaaa:?}");
        }
    }

    #[test]
    fn only_negative_answers_are_cached() {
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
            let result = result(a.map(Err), aaaa.map(Err));
            assert_eq!(result.found, Err(error), "{a:?} {aaaa:?}");
            assert_eq!(result.ttl, kept.then_some(DOUBTFUL_TTL), "{a:?} {aaaa:?}");
        }
    }
}
