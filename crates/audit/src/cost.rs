//! What counting costs whom it counts: measured on this machine, while nobody is counted.
//!
//! In the kernel: a thread of ours makes the cheapest call there is, again and again, with no
//! counter, beside one, and under one; and if operations of io_uring were counted, the same with the
//! cheapest of these. The fastest round of each is taken, as what else a machine does only makes
//! rounds slower. By tracing, which nobody can do to a thread of its own: a shell makes a call again
//! and again, and is slower by what tracing costs.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use fulmar_sys as sys;

use crate::counter::{Counter, Method, Scope};
use crate::counts::{Backend, Counts};
use crate::error::AuditError;
use crate::kernel::{Extent, Kernel, Seed};

/// What counting adds to the time of a call.
///
/// ```no_run
/// use fulmar_audit::{Backend, Cost, Counts, Scope};
/// let counts = Counts::none(Backend::Ebpf);
/// let cost = Cost::measure(&counts, Scope::default()).expect("the kernel lets us count");
/// println!("{} ns for each call", cost.call.as_nanos());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// To each call that is counted.
    pub call: Duration,
    /// To each operation of io_uring that is counted. `None` if there were none, or it cannot be
    /// measured.
    pub operation: Option<Duration>,
    /// To each call of all other programs on the machine: none by tracing.
    pub other_call: Duration,
}

impl Cost {
    /// Measures it for what made these counts, while nobody else counts, with all that the scope asks
    /// for: some hundredths of a second. `None` if it cannot be measured: the kernel refuses, or there
    /// is no shell to trace.
    pub fn measure(counts: &Counts, scope: Scope) -> Option<Self> {
        match counts.backend {
            Backend::Ebpf => {
                let operations = counts.ring.as_ref().is_some_and(|ring| !ring.is_empty());
                in_the_kernel(scope, if operations { Operations::new() } else { None })
            }
            Backend::Ptrace => by_tracing(Scope { method: Method::Trace, ..scope }).ok(),
        }
    }
}

fn in_the_kernel(scope: Scope, mut operations: Option<Operations>) -> Option<Cost> {
    let bare = fastest_round();
    let bare_operations = operations.as_mut().map(Operations::fastest_round);
    let extent = Extent { rings: operations.is_some(), ..Extent::default() };
    let mut kernel = Kernel::load(scope.feed(), extent).ok()?;
    let beside = fastest_round();
    kernel.plant(Seed::Process(std::process::id())).ok()?;
    let under = fastest_round();
    let under_operations = operations.as_mut().map(Operations::fastest_round);
    drop(kernel);
    // Once more: a machine that was busy then makes counting look cheap.
    let bare = bare.min(fastest_round());
    let bare_operations = bare_operations.min(operations.as_mut().map(Operations::fastest_round));
    let each = |round: Duration, bare| round.saturating_sub(bare) / ROUND;
    Some(Cost {
        call: each(under, bare),
        operation: operations
            .filter(|it| it.ring.fault().is_none())
            .and_then(|_| Some(each(under_operations?, bare_operations?))),
        other_call: each(beside, bare),
    })
}

/// [`ROUND`] calls without anything between them.
fn fastest_round() -> Duration {
    fastest(|| {
        for _ in 0..ROUND {
            let _ = sys::user(); // it always succeeds
        }
    })
}

fn fastest(mut round: impl FnMut()) -> Duration {
    let mut timed = |_| {
        let begin = sys::now();
        round();
        sys::now().saturating_duration_since(begin)
    };
    (0..ROUNDS).map(&mut timed).min().expect("there is a round")
}

/// The cheapest operations of io_uring: sends of nothing, as many as a ring takes at a time.
struct Operations {
    ring: sys::Ring,
    socket: UnixStream,
    _other: UnixStream,
}

impl Operations {
    /// `None` if there is no ring to be had.
    fn new() -> Option<Self> {
        let (socket, _other) = UnixStream::pair().ok()?;
        Some(Self { ring: sys::Ring::new().ok()?, socket, _other })
    }

    /// [`ROUND`] operations, and one call for each list of them.
    fn fastest_round(&mut self) -> Duration {
        let Self { ring, socket, .. } = self;
        fastest(|| {
            let mut left = ROUND as usize;
            while left > 0 {
                let mut list = [(); sys::RING_LEN_MAX];
                let list = &mut list[..left.min(sys::RING_LEN_MAX)];
                left -= list.len();
                ring.send(list, |()| (socket.as_fd(), &[], false), |(), _| ());
            }
        })
    }
}

fn by_tracing(scope: Scope) -> Result<Cost, AuditError> {
    let (mut bare, mut traced, mut calls) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..SHELLS {
        let begin = sys::now();
        shell().status().map_err(AuditError::Wait)?;
        bare = bare.min(sys::now().saturating_duration_since(begin));
        let begin = sys::now();
        let counter = Counter::start(shell(), scope)?;
        counter.wait(Some(SHELL_TIME_MAX))?;
        traced = traced.min(sys::now().saturating_duration_since(begin));
        calls = counter.snapshot()?.total();
    }
    let calls = u32::try_from(calls).unwrap_or(u32::MAX).max(1);
    let call = traced.saturating_sub(bare) / calls;
    Ok(Cost { call, operation: None, other_call: Duration::ZERO })
}

/// A signal that is none, to itself: a call that a shell makes without starting another program.
fn shell() -> Command {
    let script = format!("i=0; while [ $i -lt {SHELL_CALLS} ]; do kill -0 $$; i=$((i+1)); done");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).env_clear();
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Some tenths of a millisecond: shorter than a time slice, so that some rounds have it to
/// themselves.
const ROUND: u32 = 2_000;
const ROUNDS: u32 = 7;
/// More than a shell makes to begin and to end.
const SHELL_CALLS: u32 = 500;
const SHELLS: u32 = 3;
/// Long enough for any machine; whatever then runs on ends by itself.
const SHELL_TIME_MAX: Duration = Duration::from_secs(10);
