//! The resolver: who waits for what, and what is known already.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant, SystemTime};

use fulmar_drive::{Answer, Ready, Resolver, Watch};
use fulmar_engine::{LookupId, ResolveError};

use crate::cache::{Addresses, Cache};
use crate::choice::{self, LOOPBACK};
use crate::hostname;
use crate::options::Options;
use crate::question::{Question, TTL_MIN, Verdict};
use crate::servers::{Notes, Servers};
use crate::sockets::Sockets;

/// Resolves names for a reactor; see [`fulmar_drive::Reactor::set_resolver`].
///
/// All who wait for the same name share one question. Answers are kept for as long as they hold,
/// and while nobody waits there is no open socket and no deadline.
#[derive(Debug)]
pub struct Names {
    options: Options,
    servers: Option<Servers>, // from the first question on
    notes: Notes,
    sockets: Sockets,
    cache: Cache,
    questions: BTreeMap<u64, Question>, // by age, which is also the order of their deadlines
    numbers: HashMap<Box<str>, u64>,    // of questions
    lookups: HashMap<LookupId, Place>,  // who waits, and where
    unasked: VecDeque<u64>,             // questions that wait until others are answered
    hurried: VecDeque<(Instant, u64)>,  // questions with enough for an answer, and until when
    answers: VecDeque<Answer>,
    next: u64, // the number of the next question or waiter
    timeout: Option<Instant>,
    checked: Option<Instant>, // when `resolv.conf` was looked at
    modified: Option<SystemTime>,
    scratch: String,
}

/// Where somebody waits.
#[derive(Clone, Copy, Debug)]
struct Place {
    question: u64,
    waiter: u64,
}

impl Names {
    /// Nothing is opened or read before the first question.
    pub fn new(options: Options) -> Self {
        Self {
            cache: Cache::new(options.cache_len_max),
            options,
            servers: None,
            notes: Notes::default(),
            sockets: Sockets::default(),
            questions: BTreeMap::new(),
            numbers: HashMap::new(),
            lookups: HashMap::new(),
            unasked: VecDeque::new(),
            hurried: VecDeque::new(),
            answers: VecDeque::new(),
            next: 0,
            timeout: None,
            checked: None,
            modified: None,
            scratch: String::new(),
        }
    }

    /// What can be said of a normal name without asking anybody.
    fn known(&self, now: Instant, name: &str) -> Option<Addresses> {
        if let Some(addresses) = self.options.overrides.find(name, None) {
            return Some(told(choice::choose(addresses, self.options.family, false)));
        }
        if hostname::is_localhost(name) {
            return Some(self.choose(&LOOPBACK));
        }
        if hostname::is_onion(name) {
            return Some(Err(ResolveError::NotFound));
        }
        self.cache.get(now, name)
    }

    /// What is told of the addresses that were found.
    fn choose(&self, found: &[IpAddr]) -> Addresses {
        told(choice::choose(found, self.options.family, self.options.public_only))
    }

    /// Joins those who wait for the name.
    fn wait(&mut self, now: Instant, lookup: LookupId, name: &str) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| self.begin(now, name));
        let question = self.questions.get_mut(&number).expect("numbers are of questions");
        question.waiters.insert(self.next, lookup);
        self.lookups.insert(lookup, Place { question: number, waiter: self.next });
        self.next += 1;
    }

    fn begin(&mut self, now: Instant, name: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        let deadline = now + self.options.deadline.min(DEADLINE_MAX);
        self.questions.insert(number, Question::new(name.into(), deadline, self.options.family));
        self.numbers.insert(name.into(), number);
        self.unasked.push_back(number);
        number
    }

    /// Asks what waits, hears what there is to hear, and answers, until nothing is left to be
    /// done now: the one place where these things change together.
    fn settle(&mut self, now: Instant) {
        loop {
            self.ask(now);
            if self.questions.is_empty() {
                self.servers.iter_mut().for_each(Servers::cancel);
            }
            let said = self.notes.take();
            if said.sockets.is_empty() && said.replies.is_empty() {
                break;
            }
            for (socket, interest) in said.sockets {
                self.sockets.note(socket, interest);
            }
            for (number, kind, reply) in said.replies {
                let Some(question) = self.questions.get_mut(&number) else { continue };
                question.handle_reply(kind, reply);
                if question.is_answered() {
                    self.decide(now, number);
                } else if question.may_hurry() {
                    let delay = self.options.resolution_delay.min(DEADLINE_MAX);
                    self.hurried.push_back((now + delay, number));
                }
            }
        }
        while self.hurried.front().is_some_and(|(_, number)| !self.questions.contains_key(number)) {
            self.hurried.pop_front();
        }
        self.timeout = self.next_timeout(now);
    }

    fn ask(&mut self, now: Instant) {
        if self.unasked.is_empty() {
            return;
        }
        if let Err(error) = self.refresh(now) {
            return self.fail_all(now, error);
        }
        while let Some(servers) = &mut self.servers
            && servers.has_room()
            && let Some(number) = self.unasked.pop_front()
        {
            let Some(question) = self.questions.get(&number) else { continue };
            let found = servers.hosts(&question.name, self.options.family);
            if found.is_empty() {
                question.open_kinds().for_each(|kind| servers.ask(number, kind, &question.name));
            } else {
                self.answer(now, number, Verdict { found: Ok(found), ttl: Some(TTL_MIN) });
            }
        }
    }

    /// Opens the servers, again if `resolv.conf` has changed: what was asked of the old ones is
    /// asked of the new ones.
    fn refresh(&mut self, now: Instant) -> Result<(), ResolveError> {
        let is_recent = self.checked.is_some_and(|checked| now < checked + CHECK_INTERVAL);
        if is_recent && self.servers.is_some() {
            return Ok(());
        }
        self.checked = Some(now);
        let modified =
            fs::metadata(&self.options.resolv_conf).and_then(|file| file.modified()).ok();
        if self.servers.is_none() || modified != self.modified {
            self.servers = None; // closes the old sockets before there are new ones
            self.modified = modified;
            self.servers = Some(Servers::open(&self.options, &self.notes)?);
            self.unasked = self.questions.keys().copied().collect();
        }
        Ok(())
    }

    /// Answers from what is known of it.
    fn decide(&mut self, now: Instant, number: u64) {
        let Some(question) = self.questions.get(&number) else { return };
        let mut verdict = question.verdict();
        if verdict.found == Err(ResolveError::Unreachable) && is_exhausted() {
            verdict.found = Err(ResolveError::Exhausted);
        }
        self.answer(now, number, verdict);
    }

    fn answer(&mut self, now: Instant, number: u64, verdict: Verdict) {
        let Some(question) = self.questions.remove(&number) else { return };
        let addresses = verdict.found.and_then(|found| self.choose(&found));
        for lookup in question.waiters.into_values() {
            self.lookups.remove(&lookup);
            self.answers.push_back(Answer { lookup, addresses: addresses.clone() });
        }
        self.numbers.remove(&question.name);
        if let Some(ttl) = verdict.ttl {
            self.cache.insert(now, question.name, &addresses, ttl);
        }
    }

    fn fail_all(&mut self, now: Instant, error: ResolveError) {
        while let Some((number, _)) = self.questions.first_key_value() {
            self.answer(now, *number, Verdict { found: Err(error), ttl: None });
        }
        self.unasked.clear();
    }

    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let (_, oldest) = self.questions.first_key_value()?;
        let hurried = self.hurried.front().map(|(time, _)| *time);
        // c-ares reads the clock itself, after `now`.
        let servers = self.servers.as_ref().and_then(Servers::timeout);
        let servers = servers.map(|timeout| now + timeout + CLOCK_SKEW_MAX);
        [Some(oldest.deadline), hurried, servers].into_iter().flatten().min()
    }
}

impl Resolver for Names {
    fn resolve(&mut self, now: Instant, lookup: LookupId, name: &str) {
        let mut normal = std::mem::take(&mut self.scratch);
        let known = match hostname::normalize(name, &mut normal) {
            Ok(()) => self.known(now, &normal),
            Err(error) => Some(Err(error)),
        };
        match known {
            Some(addresses) => self.answers.push_back(Answer { lookup, addresses }),
            None => {
                self.wait(now, lookup, &normal);
                self.settle(now);
            }
        }
        self.scratch = normal;
    }

    fn abandon(&mut self, now: Instant, lookup: LookupId) {
        let Some(place) = self.lookups.remove(&lookup) else {
            return self.answers.retain(|answer| answer.lookup != lookup);
        };
        let question = self.questions.get_mut(&place.question).expect("somebody waits for it");
        question.waiters.remove(&place.waiter);
        if question.waiters.is_empty() {
            let question = self.questions.remove(&place.question).expect("it was there");
            self.numbers.remove(&question.name);
            if let Ok(at) = self.unasked.binary_search(&place.question) {
                self.unasked.remove(at);
            }
            self.settle(now);
        }
    }

    fn handle_ready(&mut self, now: Instant, socket: RawFd, ready: Ready) {
        if let Some(servers) = &mut self.servers {
            servers.handle_ready(socket, ready);
        }
        self.settle(now);
    }

    fn handle_unwatched(&mut self, now: Instant, _: RawFd, _: &io::Error) {
        self.fail_all(now, ResolveError::Exhausted);
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(servers) = &mut self.servers {
            servers.handle_timeout();
        }
        self.settle(now);
        while let Some((time, number)) = self.hurried.front().copied()
            && time <= now
        {
            self.hurried.pop_front();
            self.decide(now, number);
        }
        while let Some((number, question)) = self.questions.first_key_value()
            && question.deadline <= now
        {
            self.decide(now, *number);
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn poll_watch(&mut self) -> Option<Watch> {
        self.sockets.poll()
    }

    fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }
}

fn told(chosen: Vec<IpAddr>) -> Addresses {
    if chosen.is_empty() { Err(ResolveError::NoAddress) } else { Ok(chosen.into()) }
}

/// True if no descriptor is to be had, which c-ares calls a refused connection.
fn is_exhausted() -> bool {
    let error = fs::File::open("/dev/null").err();
    error.is_some_and(|error| matches!(error.raw_os_error(), Some(EMFILE | ENFILE)))
}

/// Nobody waits longer, and no clock overflows.
const DEADLINE_MAX: Duration = Duration::from_secs(60 * 60);
/// `resolv.conf` is looked at again by the first question after so long.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// A deadline that is told too early would be told twice.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(1);
/// `errno(3)` on Linux.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
