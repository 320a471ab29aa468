//! Access control: a request is handled only if its user is known.
//!
//! ```no_run
//! use fulmar_proto::Request;
//! use fulmar_server::{HandlerResult, Responder};
//! use fulmar_semantics::auth::{Gate, GateOptions};
//! use fulmar_web::auth::{Guard, secret};
//! use fulmar_web::htpasswd::Htpasswd;
//!
//! # fn handler() -> Result<(), Box<dyn std::error::Error>> {
//! let users = Htpasswd::parse(&std::fs::read_to_string("users")?)?;
//! let guard = Guard::new(Gate::new(GateOptions::basic("private"), users, secret()?)?)?;
//! let handler = move |responder: &mut Responder<'_>, request: &Request<'_>| -> HandlerResult {
//!     let Some(user) = guard.admit(responder, request)? else { return Ok(()) };
//!     responder.text(200, format!("hello, {user}\n"))
//! };
//! # let _ = handler;
//! # Ok(())
//! # }
//! ```
//!
//! **Hashing runs outside of the event loop.** Worker threads hash passwords. Meanwhile the request
//! is deferred ([`Responder::defer`]); then the handler is called with it again. So call
//! [`Guard::admit`] first in a handler. A program with its own event loop gives the server's
//! mailbox a waker ([`fulmar_server::Mailbox::set_waker`]), as for all work on other threads.
//!
//! **Guessing is limited.** A client (an IPv4 address, or an IPv6 /64) with ten failures within a
//! minute receives 429 with `Retry-After`. Credentials that were correct before are not limited,
//! even if other clients fail from the same address. All limits are in [`GuardOptions`].

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fulmar_proto::{HeaderBuf, Request, Response, UsageError};
use fulmar_semantics::auth::{self, AuthDecision, Authorization, Gate};
use fulmar_server::{HandlerResult, Responder};

pub use crate::guard_options::GuardOptions;
use crate::hashing::{HashPool, LoginAttempt, PasswordVerdict, Rejection};

/// Admits the users of a [`Gate`]. Clones share their limits and threads: give one to each thread
/// of a server.
#[derive(Clone)]
pub struct Guard {
    gate: Gate,
    shared: Arc<GuardShared>,
}

struct GuardShared {
    pool: HashPool,
    /// Computes the marks of credentials with random keys.
    marker: RandomState,
    marks: RwLock<CredentialMarks>,
}

impl Guard {
    /// Admits the users of `gate`, with the default limits.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new(gate: Gate) -> io::Result<Self> {
        Self::with_options(gate, GuardOptions::default())
    }

    /// Like [`Guard::new`], with other limits.
    ///
    /// # Errors
    /// See [`Guard::new`].
    pub fn with_options(gate: Gate, options: GuardOptions) -> io::Result<Self> {
        let number = GUARDS.fetch_add(1, Ordering::Relaxed);
        let shared = GuardShared {
            pool: HashPool::new(options, number, secret()?),
            marker: RandomState::new(),
            marks: RwLock::default(),
        };
        Ok(Self { gate, shared: Arc::new(shared) })
    }

    /// The user of the request. `None`: return from the handler without further action. Either the
    /// response is queued (401, 429 or 503), or the password is being hashed and the handler will
    /// be called with the request again.
    ///
    /// # Errors
    /// Passed on from `responder`.
    pub fn admit(
        &self,
        responder: &mut Responder<'_>,
        request: &Request<'_>,
    ) -> Result<Option<String>, UsageError> {
        let pool = &self.shared.pool;
        let mark = self.mark(request);
        let unix_now = responder.clock().unix();
        let is_ours = |checked: &&PasswordVerdict| checked.pool == pool.number();
        let checked = responder.notes().find(is_ours).map(|checked| checked.user.clone());
        if let Some(user) = checked {
            return match user {
                Some(user) => Ok(Some(self.admitted(user, mark))),
                None => refuse(responder, &self.gate.challenges(unix_now)),
            };
        }
        let (now, network) = (responder.now(), responder.peer_network());
        let is_recognized = mark.is_some_and(|mark| self.shared.recognizes(mark));
        if mark.is_some()
            && !is_recognized
            && let Some(wait) = pool.wait(network, now)
        {
            return retry(responder, 429, wait, LIMITED);
        }
        let asked =
            auth::AuthRequest { method: request.method, target: request.target, body: None };
        match self.gate.decide(unix_now, asked, request.headers.get_all("Authorization")) {
            AuthDecision::Admitted(user) => Ok(Some(self.admitted(user, mark))),
            AuthDecision::Refused(challenges) => refuse(responder, &challenges),
            AuthDecision::Failed(challenges) => match pool.charge(network, now) {
                Ok(()) => refuse(responder, &challenges),
                Err(wait) => retry(responder, 429, wait, LIMITED),
            },
            AuthDecision::Undecided(password) => {
                let attempt = LoginAttempt { network, now, is_recognized };
                match pool.submit(password, attempt, || responder.defer(request)) {
                    Ok(()) => Ok(None),
                    Err(Rejection::Limited(wait)) => retry(responder, 429, wait, LIMITED),
                    Err(Rejection::Busy) => retry(responder, 503, BUSY_RETRY, BUSY),
                    Err(Rejection::Usage(error)) => Err(error),
                }
            }
        }
    }

    fn admitted(&self, user: String, mark: Option<u64>) -> String {
        if let Some(mark) = mark {
            self.shared.recognize(mark);
        }
        user
    }

    /// A mark to recognize credentials that were correct before: of the whole field for Basic, of
    /// the user and the nonce for Digest. `None` if the request has no credentials to check.
    fn mark(&self, request: &Request<'_>) -> Option<u64> {
        let mut fields = request.headers.get_all("Authorization");
        let field = fields.next().filter(|_| fields.next().is_none())?;
        let marker = &self.shared.marker;
        let scheme = field.split(|byte| *byte == b' ').next().unwrap_or_default();
        if scheme.eq_ignore_ascii_case(b"Basic") {
            return Some(marker.hash_one(field));
        }
        match Authorization::parse(field)? {
            Authorization::Digest(proof) => Some(marker.hash_one((proof.user()?, proof.nonce()))),
            _ => None, // non-exhaustive
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("gate", &self.gate)
            .field("pool", &self.shared.pool)
            .finish_non_exhaustive()
    }
}

impl GuardShared {
    fn recognizes(&self, mark: u64) -> bool {
        self.marks.read().unwrap_or_else(PoisonError::into_inner).known.contains(&mark)
    }

    fn recognize(&self, mark: u64) {
        if !self.recognizes(mark) {
            self.marks.write().unwrap_or_else(PoisonError::into_inner).insert(mark);
        }
    }
}

/// Marks of credentials that were correct. They bypass the limit; the gate still decides.
#[derive(Default)]
struct CredentialMarks {
    known: HashSet<u64>,
    order: VecDeque<u64>, // oldest first
}

impl CredentialMarks {
    fn insert(&mut self, mark: u64) {
        if !self.known.insert(mark) {
            return;
        }
        self.order.push_back(mark);
        if self.order.len() > MARKS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// Responds 401 with these challenges.
fn refuse(
    responder: &mut Responder<'_>,
    challenges: &[String],
) -> Result<Option<String>, UsageError> {
    let mut headers = HeaderBuf::new();
    for challenge in challenges {
        headers.push("WWW-Authenticate", challenge.as_bytes())?;
    }
    respond(responder, 401, headers, "user and password are required\n")?;
    Ok(None)
}

/// Responds that the client may retry after `wait`.
fn retry(
    responder: &mut Responder<'_>,
    status: u16,
    wait: Duration,
    text: &'static str,
) -> Result<Option<String>, UsageError> {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let mut headers = HeaderBuf::new();
    headers.push("Retry-After", seconds.max(1).to_string().as_bytes())?;
    respond(responder, status, headers, text)?;
    Ok(None)
}

fn respond(
    responder: &mut Responder<'_>,
    status: u16,
    mut headers: HeaderBuf,
    text: &'static str,
) -> HandlerResult {
    headers.push("Content-Type", b"text/plain; charset=utf-8")?;
    responder.reply(Response::new(status, headers.as_headers()), text)
}

/// Random bytes for a [`Gate`], from the kernel.
///
/// # Errors
/// The kernel has no random bytes.
pub fn secret() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

/// Numbers the guards of the process.
static GUARDS: AtomicU64 = AtomicU64::new(0);

const LIMITED: &str = "too many failed logins from this address; try again later\n";
const BUSY: &str = "too many logins at the moment; try again later\n";
/// `Retry-After` of 503, in which some hashes finish.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Maximum number of marks, 16 bytes each: more than the credentials in use at a time.
const MARKS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_bounded_and_the_oldest_is_dropped() {
        let mut marks = CredentialMarks::default();
        for mark in 0..=MARKS_MAX as u64 {
            marks.insert(mark);
            marks.insert(mark);
        }
        assert_eq!((marks.known.len(), marks.order.len()), (MARKS_MAX, MARKS_MAX));
        assert!(!marks.known.contains(&0) && marks.known.contains(&1));
    }
}
