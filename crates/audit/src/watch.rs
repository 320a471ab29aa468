//! Processes watched by the eBPF counter: seeds them and waits until all have ended.
//!
//! The kernel follows threads and children by itself. This module only waits: for the process
//! itself, then for its orphaned descendants, which this process adopts (`PR_SET_CHILD_SUBREAPER`).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use crate::counts::CallCounts;
use crate::end::{CounterEnd, CounterStopper};
use crate::error::AuditError;
use crate::kernel::{Kernel, Seed};
use crate::timeline::Timeline;

/// Processes watched by the eBPF counter.
pub(crate) struct KernelWatch {
    kernel: Mutex<Kernel>,
    subject: Mutex<WaitTarget>,
    stop: Arc<sys::Wakeup>,
}

/// What to wait for.
enum WaitTarget {
    /// A command that this process started.
    Command { pid: u32, process: OwnedFd },
    /// The command has ended; its adopted descendants may still run.
    Orphans { status: ExitStatus },
    /// An existing process.
    Joined { process: OwnedFd },
}

impl KernelWatch {
    /// Starts the command with counting enabled; returns its process number.
    pub(crate) fn start(
        mut kernel: Kernel,
        command: &mut Command,
    ) -> Result<(Self, u32), AuditError> {
        let parent = Seed::Parent(sys::thread_number().map_err(AuditError::Wait)?);
        kernel.plant(parent)?;
        let child = command.spawn();
        kernel.lift(parent)?;
        let child = child.map_err(|cause| spawn_error(command, cause))?;
        let pid = child.id(); // not reaped by others, so the number stays valid
        let process = sys::open_process(pid).map_err(AuditError::Wait)?;
        Ok((Self::new(kernel, WaitTarget::Command { pid, process })?, pid))
    }

    /// Watches a running process and its descendants.
    pub(crate) fn join(mut kernel: Kernel, pid: u32) -> Result<Self, AuditError> {
        let process = sys::open_process(pid).map_err(|cause| watch_error(pid, cause))?;
        // The process first: the kernel follows children that it creates meanwhile.
        let mut found = vec![pid];
        while let Some(pid) = found.pop() {
            kernel.plant(Seed::Process(pid))?;
            found.extend(children(pid));
        }
        Self::new(kernel, WaitTarget::Joined { process })
    }

    fn new(kernel: Kernel, subject: WaitTarget) -> Result<Self, AuditError> {
        let stop = sys::Wakeup::new().map_err(AuditError::Wait)?;
        Ok(Self { kernel: kernel.into(), subject: subject.into(), stop: stop.into() })
    }

    pub(crate) fn snapshot(&self) -> Result<CallCounts, AuditError> {
        locked(&self.kernel).snapshot()
    }

    /// As [`Counter::record`](crate::Counter::record).
    pub(crate) fn record(&self) -> Result<(), AuditError> {
        locked(&self.kernel).record()
    }

    /// As [`Counter::timeline`](crate::Counter::timeline).
    pub(crate) fn timeline(&self) -> Result<Option<Timeline>, AuditError> {
        locked(&self.kernel).timeline()
    }

    pub(crate) fn stopper(&self) -> CounterStopper {
        CounterStopper(Arc::clone(&self.stop))
    }

    /// As [`Counter::wait`](crate::Counter::wait).
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<Option<CounterEnd>, AuditError> {
        let until = timeout.map(|timeout| sys::now() + timeout);
        loop {
            let (mut processes, mut orphans) = (Vec::new(), Vec::new());
            match &*locked(&self.subject) {
                WaitTarget::Command { process, .. } | WaitTarget::Joined { process } => {
                    processes.push(process.try_clone().map_err(AuditError::Wait)?);
                }
                WaitTarget::Orphans { status } => {
                    let kernel = locked(&self.kernel);
                    if !kernel.has_tasks()? {
                        return Ok(Some(CounterEnd::Ended(*status)));
                    }
                    (orphans, processes) = adopted(&kernel)?.into_iter().unzip();
                }
            }
            let stopped = self.is_stopped(&processes, until)?;
            orphans.into_iter().try_for_each(|pid| sys::reap(pid).map(drop)).or_else(reaped)?;
            if stopped {
                return Ok(Some(CounterEnd::Stopped));
            }
            if let Some(end) = self.check_end()? {
                return Ok(Some(end));
            }
            if until.is_some_and(|until| sys::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// Waits until one of the processes ends or the deadline has passed. True if the stopper was
    /// used.
    fn is_stopped(
        &self,
        processes: &[OwnedFd],
        until: Option<Instant>,
    ) -> Result<bool, AuditError> {
        let mut left = until.map(|until| until.saturating_duration_since(sys::now()));
        if processes.is_empty() {
            left = Some(left.map_or(ADOPTED_POLL, |left| left.min(ADOPTED_POLL)));
        }
        if locked(&self.kernel).drain() {
            left = Some(left.map_or(DRAIN_POLL, |left| left.min(DRAIN_POLL)));
        }
        let watched = processes.iter().map(AsFd::as_fd);
        let all = std::iter::once(self.stop.as_fd()).chain(watched);
        let mut entries: Vec<_> = all.map(sys::PollEntry::reading).collect();
        match sys::poll(&mut entries, left) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(AuditError::Wait(e)),
            _ => {}
        }
        let stopped = entries[0].events().is_readable();
        if stopped {
            self.stop.drain().map_err(AuditError::Wait)?;
        }
        Ok(stopped)
    }

    /// The watched processes among this process's children: the command and its adopted
    /// descendants.
    pub(crate) fn children(&self) -> Result<Vec<u32>, AuditError> {
        watched_children(&locked(&self.kernel))
    }

    /// Checks whether the command or process has ended.
    fn check_end(&self) -> Result<Option<CounterEnd>, AuditError> {
        let mut subject = locked(&self.subject);
        match &*subject {
            WaitTarget::Command { pid, .. } => {
                if let Some(status) = sys::reap(*pid).map_err(AuditError::Wait)? {
                    *subject = WaitTarget::Orphans { status };
                }
            }
            WaitTarget::Orphans { .. } => {}
            WaitTarget::Joined { process } => {
                let mut entry = [sys::PollEntry::reading(process.as_fd())];
                sys::poll_now(&mut entry).map_err(AuditError::Wait)?;
                return Ok(entry[0].events().is_readable().then_some(CounterEnd::Gone));
            }
        }
        Ok(None)
    }
}

/// For a directory the kernel reports `EACCES`; this reports that it is a directory.
pub(crate) fn spawn_error(command: &Command, cause: io::Error) -> AuditError {
    let program = command.get_program();
    let cause = match Path::new(program).is_dir() && !program.is_empty() {
        true => io::ErrorKind::IsADirectory.into(),
        false => cause,
    };
    let program = program.to_string_lossy().into_owned();
    AuditError::Command { program, cause }
}

pub(crate) fn watch_error(pid: u32, cause: io::Error) -> AuditError {
    match (cause.raw_os_error(), tracer_of(pid)) {
        (Some(sys::errno::ESRCH | ENDED_BEFORE_6_15 | ENDED_SINCE_6_15), _) => {
            AuditError::Gone { pid }
        }
        (Some(sys::errno::EPERM), Some(by)) => AuditError::Traced { pid, by },
        _ => AuditError::Process { pid, cause },
    }
}

/// Refuses the number of a zombie and of a thread that is not the main thread (`proc(5)`). Other
/// failures appear when the process is watched.
pub(crate) fn joinable(pid: u32) -> Result<(), AuditError> {
    if status(pid, "State:").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return Err(AuditError::Gone { pid });
    }
    match process_of(pid) {
        Some(process) if process != pid => Err(AuditError::PartOf { thread: pid, process }),
        _ => Ok(()),
    }
}

/// The thread that traces a process, if any (`proc(5)`).
pub(crate) fn tracer_of(pid: u32) -> Option<u32> {
    status(pid, "TracerPid:")?.parse().ok().filter(|tracer| *tracer != 0)
}

/// The process of a thread. `None` if it has ended.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    status(thread, "Tgid:")?.parse().ok()
}

/// A field of `/proc/PID/status`. `None` if the process has ended.
fn status(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().to_owned())
}

/// Watched processes that this process has adopted. Only this process reaps them, so their numbers
/// stay valid.
fn adopted(kernel: &Kernel) -> Result<Vec<(u32, OwnedFd)>, AuditError> {
    let open = |pid| Ok((pid, sys::open_process(pid).map_err(AuditError::Wait)?));
    watched_children(kernel)?.into_iter().map(open).collect()
}

fn watched_children(kernel: &Kernel) -> Result<Vec<u32>, AuditError> {
    let mut watched = Vec::new();
    for pid in children(std::process::id()) {
        if kernel.watches(pid)? {
            watched.push(pid);
        }
    }
    Ok(watched)
}

/// Ignores `ECHILD`: another thread may have reaped the child.
fn reaped(error: io::Error) -> Result<(), AuditError> {
    match error.raw_os_error() {
        Some(sys::errno::ECHILD) => Ok(()),
        _ => Err(AuditError::Wait(error)),
    }
}

/// The children of a process, from `/proc`; empty if it has ended.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    threads(pid).into_iter().flat_map(children_of_thread).collect()
}

/// The children that one thread created or adopted.
pub(crate) fn children_of_thread(thread: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{thread}/task/{thread}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The threads of a process; empty if it has ended.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// After a panic in another thread the counts are still usable.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Errors of pidfd_open(2) for a process that has just ended and not been reaped:
/// before Linux 6.15, and since then.
const ENDED_BEFORE_6_15: i32 = libc::EINVAL;
const ENDED_SINCE_6_15: i32 = libc::ENOENT;
/// Poll interval for tasks that another process has adopted.
const ADOPTED_POLL: Duration = Duration::from_millis(50);
/// Poll interval for events: short enough that the buffer does not fill up.
const DRAIN_POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::CounterOptions;
    use crate::error::KernelRefusal;
    use crate::kernel::Extent;

    #[test]
    fn a_process_that_has_just_ended_is_gone_for_each_errno() {
        for errno in [libc::ESRCH, libc::EINVAL, libc::ENOENT] {
            let error = watch_error(u32::MAX, io::Error::from_raw_os_error(errno));
            assert!(matches!(error, AuditError::Gone { pid: u32::MAX }), "{errno}: {error:?}");
        }
        let error = watch_error(u32::MAX, io::Error::from_raw_os_error(libc::EPERM));
        assert!(matches!(error, AuditError::Process { .. }), "{error:?}");
    }

    /// If a program calls faster than events are read, phased calls and lost calls add up to all
    /// calls.
    #[test]
    fn unread_events_are_counted_as_lost() {
        let feed = CounterOptions { phases: true, ..CounterOptions::default() }.feed();
        let extent = Extent { rings: false, drained_max: 100, ..Extent::default() };
        let kernel = match Kernel::load(feed, extent) {
            Ok(kernel) => kernel,
            Err(KernelRefusal::Privileges) => return,
            Err(refusal) => panic!("{refusal}"),
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "i=0; while [ $i -lt 500 ]; do kill -0 $$; i=$((i+1)); done"]);
        let (watch, pid) = KernelWatch::start(kernel, &mut shell).unwrap();
        let stat = format!("/proc/{pid}/stat");
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::yield_now(); // reads no events meanwhile
        }
        for taken in [100, 200] {
            let counts = watch.snapshot().unwrap();
            let phases = counts.by_phase.iter().flatten().flat_map(|(_, calls)| calls.values());
            assert_eq!(phases.map(|tally| tally.count).sum::<u64>(), taken);
            assert_eq!(counts.lost, counts.total() - taken, "{counts:?}");
        }
    }

    #[test]
    fn tasks_beyond_the_limit_are_counted_as_lost() {
        let kernel = match Kernel::load(None, Extent { tasks_max: 2, ..Extent::default() }) {
            Ok(kernel) => kernel,
            Err(KernelRefusal::Privileges) => return,
            Err(refusal) => panic!("{refusal}"),
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait"]);
        let (watch, _) = KernelWatch::start(kernel, &mut shell).unwrap();
        let end = watch.wait(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(end, Some(CounterEnd::Ended(status)) if status.success()), "{end:?}");
        let counts = watch.snapshot().unwrap();
        assert!(counts.lost >= 6 && counts.calls["execve"].count >= 1, "{counts:?}");
        assert_eq!(counts.foreign, 0);
    }
}
