//! The resolver: cache, pending lookups and their waiters.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant, SystemTime};

use fulmar_drive::{Ready, Resolution, Resolver, Watch};
use fulmar_engine::{LookupId, ResolveError};

use crate::cache::{NameCache, ResolvedAddresses};
use crate::choice::{self, LOOPBACK};
use crate::hostname;
use crate::options::Options;
use crate::question::{LookupResult, Question, TTL_MIN};
use crate::servers::{CallbackQueue, Servers};
use crate::sockets::SocketChanges;

/// Resolves names for a reactor; see [`fulmar_drive::Reactor::set_resolver`].
///
/// Lookups of the same name share one question. Results are cached until their TTL expires. Without
/// pending lookups there is no open socket and no deadline.
#[derive(Debug)]
pub struct Names {
    options: Options,
    servers: Option<Servers>, // opened by the first question
    callbacks: CallbackQueue,
    sockets: SocketChanges,
    cache: NameCache,
    questions: BTreeMap<u64, Question>, // by age, which is also the order of their deadlines
    numbers: HashMap<Box<str>, u64>,    // of questions
    lookups: HashMap<LookupId, WaiterPosition>, // pending lookups
    queued: VecDeque<u64>,              // questions that wait for free query slots
    delayed: VecDeque<(Instant, u64)>, // questions with partial results, and the end of their delay
    answers: VecDeque<Resolution>,
    next: u64, // the number of the next question or waiter
    timeout: Option<Instant>,
    checked: Option<Instant>, // the last check of `resolv.conf`
    modified: Option<SystemTime>,
    scratch: String,
}

/// The position of a pending lookup: its question, and its key in `waiters`.
#[derive(Clone, Copy, Debug)]
struct WaiterPosition {
    question: u64,
    waiter: u64,
}

impl Names {
    /// Opens and reads nothing before the first question.
    pub fn new(options: Options) -> Self {
        Self {
            cache: NameCache::new(options.cache_len_max),
            options,
            servers: None,
            callbacks: CallbackQueue::default(),
            sockets: SocketChanges::default(),
            questions: BTreeMap::new(),
            numbers: HashMap::new(),
            lookups: HashMap::new(),
            queued: VecDeque::new(),
            delayed: VecDeque::new(),
            answers: VecDeque::new(),
            next: 0,
            timeout: None,
            checked: None,
            modified: None,
            scratch: String::new(),
        }
    }

    /// The result for a normalized name, if no query is needed.
    fn known(&self, now: Instant, name: &str) -> Option<ResolvedAddresses> {
        if let Some(addresses) = self.options.overrides.find(name, None) {
            return Some(non_empty(choice::choose(addresses, self.options.family, false)));
        }
        if hostname::is_localhost(name) {
            return Some(self.choose(&LOOPBACK));
        }
        if hostname::is_onion(name) {
            return Some(Err(ResolveError::NotFound));
        }
        self.cache.get(now, name)
    }

    /// Filters and sorts the addresses that were found.
    fn choose(&self, found: &[IpAddr]) -> ResolvedAddresses {
        non_empty(choice::choose(found, self.options.family, self.options.public_only))
    }

    /// Adds the lookup to the waiters of the question for `name`.
    fn wait(&mut self, now: Instant, lookup: LookupId, name: &str) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| self.begin(now, name));
        let question =
            self.questions.get_mut(&number).expect("a number exists as long as its question");
        question.waiters.insert(self.next, lookup);
        self.lookups.insert(lookup, WaiterPosition { question: number, waiter: self.next });
        self.next += 1;
    }

    fn begin(&mut self, now: Instant, name: &str) -> u64 {
        let number = self.next;
        self.next += 1;
        let deadline = now + self.options.deadline.min(DEADLINE_MAX);
        self.questions.insert(number, Question::new(name.into(), deadline, self.options.family));
        self.numbers.insert(name.into(), number);
        self.queued.push_back(number);
        number
    }

    /// Sends queued questions, processes the events of c-ares and completes lookups, until nothing
    /// is left to do. All changes of joint state happen here.
    fn process(&mut self, now: Instant) {
        loop {
            self.send_queued(now);
            if self.questions.is_empty() {
                self.servers.iter_mut().for_each(Servers::cancel);
            }
            let events = self.callbacks.take();
            if events.sockets.is_empty() && events.replies.is_empty() {
                break;
            }
            for (socket, interest) in events.sockets {
                self.sockets.note(socket, interest);
            }
            for (number, kind, reply) in events.replies {
                let Some(question) = self.questions.get_mut(&number) else { continue };
                question.handle_reply(kind, reply);
                if question.is_complete() {
                    self.complete_with_replies(now, number);
                } else if question.has_enough() {
                    let delay = self.options.resolution_delay.min(DEADLINE_MAX);
                    self.delayed.push_back((now + delay, number));
                }
            }
        }
        while self.delayed.front().is_some_and(|(_, number)| !self.questions.contains_key(number)) {
            self.delayed.pop_front();
        }
        self.timeout = self.next_timeout(now);
    }

    fn send_queued(&mut self, now: Instant) {
        if self.queued.is_empty() {
            return;
        }
        if let Err(error) = self.refresh(now) {
            return self.fail_all(now, error);
        }
        while let Some(servers) = &mut self.servers
            && servers.has_room()
            && let Some(number) = self.queued.pop_front()
        {
            let Some(question) = self.questions.get(&number) else { continue };
            let found = servers.hosts(&question.name, self.options.family);
            if found.is_empty() {
                question
                    .open_kinds()
                    .for_each(|kind| servers.start_query(number, kind, &question.name));
            } else {
                self.complete(now, number, LookupResult { found: Ok(found), ttl: Some(TTL_MIN) });
            }
        }
    }

    /// Opens the servers, and reopens them if `resolv.conf` has changed. All pending questions are
    /// sent again to the new servers.
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
            self.servers = Some(Servers::open(&self.options, &self.callbacks)?);
            self.queued = self.questions.keys().copied().collect();
        }
        Ok(())
    }

    /// Completes a question with the replies so far.
    fn complete_with_replies(&mut self, now: Instant, number: u64) {
        let Some(question) = self.questions.get(&number) else { return };
        let mut result = question.result();
        if result.found == Err(ResolveError::Unreachable) && is_exhausted() {
            result.found = Err(ResolveError::Exhausted);
        }
        self.complete(now, number, result);
    }

    fn complete(&mut self, now: Instant, number: u64, result: LookupResult) {
        let Some(question) = self.questions.remove(&number) else { return };
        let addresses = result.found.and_then(|found| self.choose(&found));
        for lookup in question.waiters.into_values() {
            self.lookups.remove(&lookup);
            self.answers.push_back(Resolution { lookup, addresses: addresses.clone() });
        }
        self.numbers.remove(&question.name);
        if let Some(ttl) = result.ttl {
            self.cache.insert(now, question.name, &addresses, ttl);
        }
    }

    fn fail_all(&mut self, now: Instant, error: ResolveError) {
        while let Some((number, _)) = self.questions.first_key_value() {
            self.complete(now, *number, LookupResult { found: Err(error), ttl: None });
        }
        self.queued.clear();
    }

    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let (_, oldest) = self.questions.first_key_value()?;
        let delayed = self.delayed.front().map(|(time, _)| *time);
        // c-ares reads the clock itself, after `now`.
        let servers = self.servers.as_ref().and_then(Servers::timeout);
        let servers = servers.map(|timeout| now + timeout + CLOCK_SKEW_MAX);
        [Some(oldest.deadline), delayed, servers].into_iter().flatten().min()
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
            Some(addresses) => self.answers.push_back(Resolution { lookup, addresses }),
            None => {
                self.wait(now, lookup, &normal);
                self.process(now);
            }
        }
        self.scratch = normal;
    }

    fn abandon(&mut self, now: Instant, lookup: LookupId) {
        let Some(place) = self.lookups.remove(&lookup) else {
            return self.answers.retain(|answer| answer.lookup != lookup);
        };
        let question =
            self.questions.get_mut(&place.question).expect("a pending lookup has a question");
        question.waiters.remove(&place.waiter);
        if question.waiters.is_empty() {
            let question = self.questions.remove(&place.question).expect("found above");
            self.numbers.remove(&question.name);
            if let Ok(at) = self.queued.binary_search(&place.question) {
                self.queued.remove(at);
            }
            self.process(now);
        }
    }

    fn handle_ready(&mut self, now: Instant, socket: RawFd, ready: Ready) {
        if let Some(servers) = &mut self.servers {
            servers.handle_ready(socket, ready);
        }
        self.process(now);
    }

    fn handle_unwatched(&mut self, now: Instant, _: RawFd, _: &io::Error) {
        self.fail_all(now, ResolveError::Exhausted);
        self.process(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(servers) = &mut self.servers {
            servers.handle_timeout();
        }
        self.process(now);
        while let Some((time, number)) = self.delayed.front().copied()
            && time <= now
        {
            self.delayed.pop_front();
            self.complete_with_replies(now, number);
        }
        while let Some((number, question)) = self.questions.first_key_value()
            && question.deadline <= now
        {
            self.complete_with_replies(now, *number);
        }
        self.process(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timeout
    }

    fn poll_watch(&mut self) -> Option<Watch> {
        self.sockets.poll()
    }

    fn poll_resolution(&mut self) -> Option<Resolution> {
        self.answers.pop_front()
    }
}

fn non_empty(chosen: Vec<IpAddr>) -> ResolvedAddresses {
    if chosen.is_empty() { Err(ResolveError::NoAddress) } else { Ok(chosen.into()) }
}

/// True if no file descriptor is available. c-ares reports this as a refused connection.
fn is_exhausted() -> bool {
    let error = fs::File::open("/dev/null").err();
    error.is_some_and(|error| matches!(error.raw_os_error(), Some(EMFILE | ENFILE)))
}

/// Maximum deadline; prevents overflow of `Instant`.
const DEADLINE_MAX: Duration = Duration::from_secs(60 * 60);
/// Minimum time between two checks of `resolv.conf`.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Added to the timeouts of c-ares, which reads the clock after `now`. A timeout that fires too
/// early would fire twice.
const CLOCK_SKEW_MAX: Duration = Duration::from_millis(1);
/// `errno(3)` on Linux.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
