//! Measures on this machine how much counting slows a program down, while nothing is being counted.
//!
//! eBPF: a thread makes the cheapest system call repeatedly: without a counter, while another
//! thread is counted, and while being counted itself. If operations of io_uring were counted, the
//! same is done with the cheapest operation. The fastest round of each counts, because other load
//! only makes rounds slower.
//!
//! ptrace: a thread cannot trace itself, so a shell makes a call repeatedly, traced and untraced.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use fulmar_sys as sys;

use crate::counter::{BackendChoice, Counter, CounterOptions};
use crate::counts::{CallCounts, CountingBackend};
use crate::error::AuditError;
use crate::kernel::{Extent, Kernel, Seed};

/// The overhead of counting, for each call.
///
/// ```no_run
/// use fulmar_audit::{CountingBackend, Cost, CallCounts, CounterOptions};
/// let counts = CallCounts::none(CountingBackend::Ebpf);
/// let cost = Cost::measure(&counts, CounterOptions::default()).expect("counting is permitted");
/// println!("{} ns for each call", cost.call.as_nanos());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Added to each counted call.
    pub call: Duration,
    /// Added to each counted operation of io_uring. `None` without such operations, or if it cannot
    /// be measured.
    pub operation: Option<Duration>,
    /// Added to each call of every other program on the machine. Zero with ptrace.
    pub other_call: Duration,
}

impl Cost {
    /// Measures the cost for the backend of these counts and for everything the scope enables;
    /// takes some hundredths of a second. Nothing else may be counted meanwhile. `None` if it
    /// cannot be measured: the kernel refuses, or no shell can be traced.
    pub fn measure(counts: &CallCounts, scope: CounterOptions) -> Option<Self> {
        match counts.backend {
            CountingBackend::Ebpf => {
                let operations = counts.ring.as_ref().is_some_and(|ring| !ring.is_empty());
                in_the_kernel(scope, if operations { Operations::new() } else { None })
            }
            CountingBackend::Ptrace => {
                by_tracing(CounterOptions { method: BackendChoice::Trace, ..scope }).ok()
            }
        }
    }
}

fn in_the_kernel(scope: CounterOptions, mut operations: Option<Operations>) -> Option<Cost> {
    let bare = fastest_round();
    let bare_operations = operations.as_mut().map(Operations::fastest_round);
    let extent = Extent { rings: operations.is_some(), ..Extent::default() };
    let mut kernel = Kernel::load(scope.feed(), extent).ok()?;
    let beside = fastest_round();
    kernel.plant(Seed::Process(std::process::id())).ok()?;
    let under = fastest_round();
    let under_operations = operations.as_mut().map(Operations::fastest_round);
    drop(kernel);
    // Measure once more: if the machine was busy the first time, counting would look cheap.
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

/// The time of [`ROUND`] calls in a row.
fn fastest_round() -> Duration {
    fastest(|| {
        for _ in 0..ROUND {
            let _ = sys::user(); // never fails
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

/// The cheapest operations of io_uring: empty sends, as many at a time as a ring holds.
struct Operations {
    ring: sys::Ring,
    socket: UnixStream,
    _other: UnixStream,
}

impl Operations {
    /// `None` if no ring can be created.
    fn new() -> Option<Self> {
        let (socket, _other) = UnixStream::pair().ok()?;
        Some(Self { ring: sys::Ring::new().ok()?, socket, _other })
    }

    /// The time of [`ROUND`] operations, with one system call for each batch.
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

fn by_tracing(scope: CounterOptions) -> Result<Cost, AuditError> {
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

/// A shell that sends itself signal 0: a system call that starts no other program.
fn shell() -> Command {
    let script = format!("i=0; while [ $i -lt {SHELL_CALLS} ]; do kill -0 $$; i=$((i+1)); done");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]).env_clear();
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

/// Some tenths of a millisecond. Shorter than a time slice, so that some rounds run undisturbed.
const ROUND: u32 = 2_000;
const ROUNDS: u32 = 7;
/// More calls than a shell makes to start and to exit.
const SHELL_CALLS: u32 = 500;
const SHELLS: u32 = 3;
/// Long enough for any machine. A shell that runs longer ends by itself.
const SHELL_TIME_MAX: Duration = Duration::from_secs(10);
