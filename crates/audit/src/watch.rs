//! Watched processes with the counter in the kernel: who is planted, and when all have ended.
//!
//! The kernel follows threads and children by itself. Here is only waited: for the process itself,
//! and then for those whom it left behind, which are adopted by then (`PR_SET_CHILD_SUBREAPER`).

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fulmar_sys as sys;

use crate::counter::{End, Stopper};
use crate::counts::Counts;
use crate::error::AuditError;
use crate::kernel::{Kernel, Seed};
use crate::timeline::Timeline;

/// Processes that the kernel watches for us.
pub(crate) struct Watch {
    kernel: Mutex<Kernel>,
    subject: Mutex<Subject>,
    stop: Arc<sys::Wakeup>,
}

/// Whom we wait for.
enum Subject {
    /// A child of ours.
    Command { pid: u32, process: OwnedFd },
    /// It has ended, and so will those whom it left behind.
    Orphans { status: ExitStatus },
    /// Somebody else's process.
    Joined { process: OwnedFd },
}

impl Watch {
    /// Starts the command under the eyes of the kernel; its process number.
    pub(crate) fn start(
        mut kernel: Kernel,
        command: &mut Command,
    ) -> Result<(Self, u32), AuditError> {
        let parent = Seed::Parent(sys::thread_number().map_err(AuditError::Wait)?);
        kernel.plant(parent)?;
        let child = command.spawn();
        kernel.lift(parent)?;
        let child = child.map_err(|cause| unstartable(command, cause))?;
        let pid = child.id(); // not reaped before we do it, so the number stays its own
        let process = sys::open_process(pid).map_err(AuditError::Wait)?;
        Ok((Self::new(kernel, Subject::Command { pid, process })?, pid))
    }

    /// Watches a running process and its descendants.
    pub(crate) fn join(mut kernel: Kernel, pid: u32) -> Result<Self, AuditError> {
        let process = sys::open_process(pid).map_err(|cause| unwatchable(pid, cause))?;
        // The process first: a child that it makes meanwhile is followed by the kernel.
        let mut found = vec![pid];
        while let Some(pid) = found.pop() {
            kernel.plant(Seed::Process(pid))?;
            found.extend(children(pid));
        }
        Self::new(kernel, Subject::Joined { process })
    }

    fn new(kernel: Kernel, subject: Subject) -> Result<Self, AuditError> {
        let stop = sys::Wakeup::new().map_err(AuditError::Wait)?;
        Ok(Self { kernel: kernel.into(), subject: subject.into(), stop: stop.into() })
    }

    pub(crate) fn snapshot(&self) -> Result<Counts, AuditError> {
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

    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// As [`Counter::wait`](crate::Counter::wait).
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Result<Option<End>, AuditError> {
        let until = timeout.map(|timeout| sys::now() + timeout);
        loop {
            let (mut processes, mut orphans) = (Vec::new(), Vec::new());
            match &*locked(&self.subject) {
                Subject::Command { process, .. } | Subject::Joined { process } => {
                    processes.push(process.try_clone().map_err(AuditError::Wait)?);
                }
                Subject::Orphans { status } => {
                    let kernel = locked(&self.kernel);
                    if !kernel.has_tasks()? {
                        return Ok(Some(End::Ended(*status)));
                    }
                    (orphans, processes) = adopted(&kernel)?.into_iter().unzip();
                }
            }
            let stopped = self.is_stopped(&processes, until)?;
            orphans.into_iter().try_for_each(|pid| sys::reap(pid).map(drop)).or_else(reaped)?;
            if stopped {
                return Ok(Some(End::Stopped));
            }
            if let Some(end) = self.look()? {
                return Ok(Some(end));
            }
            if until.is_some_and(|until| sys::now() >= until) {
                return Ok(None);
            }
        }
    }

    /// Waits until one of the processes ends or the time has come; true if somebody stopped us.
    fn is_stopped(
        &self,
        processes: &[OwnedFd],
        until: Option<Instant>,
    ) -> Result<bool, AuditError> {
        let mut left = until.map(|until| until.saturating_duration_since(sys::now()));
        if processes.is_empty() {
            left = Some(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
        }
        if locked(&self.kernel).drain() {
            left = Some(left.map_or(DRAIN_AGAIN, |left| left.min(DRAIN_AGAIN)));
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

    /// The watched processes among our children: the command, and whom it left behind.
    pub(crate) fn children(&self) -> Result<Vec<u32>, AuditError> {
        watched_children(&locked(&self.kernel))
    }

    /// What has ended by now.
    fn look(&self) -> Result<Option<End>, AuditError> {
        let mut subject = locked(&self.subject);
        match &*subject {
            Subject::Command { pid, .. } => {
                if let Some(status) = sys::reap(*pid).map_err(AuditError::Wait)? {
                    *subject = Subject::Orphans { status };
                }
            }
            Subject::Orphans { .. } => {}
            Subject::Joined { process } => {
                let mut entry = [sys::PollEntry::reading(process.as_fd())];
                sys::poll_now(&mut entry).map_err(AuditError::Wait)?;
                return Ok(entry[0].events().is_readable().then_some(End::Gone));
            }
        }
        Ok(None)
    }
}

/// Of a directory the system says that nobody may execute it, which is not what is wrong with it.
pub(crate) fn unstartable(command: &Command, cause: io::Error) -> AuditError {
    let program = command.get_program();
    let cause = match Path::new(program).is_dir() && !program.is_empty() {
        true => io::ErrorKind::IsADirectory.into(),
        false => cause,
    };
    let program = program.to_string_lossy().into_owned();
    AuditError::Command { program, cause }
}

pub(crate) fn unwatchable(pid: u32, cause: io::Error) -> AuditError {
    match (cause.raw_os_error(), tracer_of(pid)) {
        (Some(sys::errno::ESRCH | PASSED_AWAY | NO_PROCESS), _) => AuditError::Gone { pid },
        (Some(sys::errno::EPERM), Some(by)) => AuditError::Traced { pid, by },
        _ => AuditError::Process { pid, cause },
    }
}

/// Refuses the number of a process that has ended, which nobody has heard of yet, and of a thread that
/// is not the first of its process (`proc(5)`). Others are for those to judge who watch them.
pub(crate) fn joinable(pid: u32) -> Result<(), AuditError> {
    if status(pid, "State:").is_some_and(|state| state.starts_with(['Z', 'X'])) {
        return Err(AuditError::Gone { pid });
    }
    match process_of(pid) {
        Some(process) if process != pid => Err(AuditError::PartOf { thread: pid, process }),
        _ => Ok(()),
    }
}

/// Who traces a process: the number of a thread, if somebody does (`proc(5)`).
pub(crate) fn tracer_of(pid: u32) -> Option<u32> {
    status(pid, "TracerPid:")?.parse().ok().filter(|tracer| *tracer != 0)
}

/// The process of a thread; none if it is gone.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    status(thread, "Tgid:")?.parse().ok()
}

/// A field of `/proc/PID/status`; none if it is gone.
fn status(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(value.trim().to_owned())
}

/// Watched processes that have become our children. Nobody else reaps them, so their numbers stay
/// theirs.
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

/// Another thread that waits for children may have been faster.
fn reaped(error: io::Error) -> Result<(), AuditError> {
    match error.raw_os_error() {
        Some(sys::errno::ECHILD) => Ok(()),
        _ => Err(AuditError::Wait(error)),
    }
}

/// The children of a process, by `/proc`; none if it is gone.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    threads(pid).into_iter().flat_map(children_of_thread).collect()
}

/// Those that one thread has made, or was given when their parent ended.
pub(crate) fn children_of_thread(thread: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{thread}/task/{thread}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The threads of a process; none if it is gone.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A panic of another thread leaves counts as they are.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What pidfd_open(2) says of a number that is a process's no more, but is not free yet: who ended
/// between two steps of the call. One before Linux 6.15, and another since then.
const PASSED_AWAY: i32 = libc::EINVAL;
const NO_PROCESS: i32 = libc::ENOENT;
/// How soon is looked again for tasks that nobody tells us of: another process has adopted them.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How soon is looked again for what the kernel tells of calls: before there is no room for more.
const DRAIN_AGAIN: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Refusal;
    use crate::kernel::Extent;

    #[test]
    fn who_has_just_ended_is_gone_by_whatever_name() {
        for errno in [libc::ESRCH, libc::EINVAL, libc::ENOENT] {
            let error = unwatchable(u32::MAX, io::Error::from_raw_os_error(errno));
            assert!(matches!(error, AuditError::Gone { pid: u32::MAX }), "{errno}: {error:?}");
        }
        let error = unwatchable(u32::MAX, io::Error::from_raw_os_error(libc::EPERM));
        assert!(matches!(error, AuditError::Process { .. }), "{error:?}");
    }

    #[test]
    fn a_task_for_which_there_is_no_room_is_told_as_lost() {
        let kernel = match Kernel::load(None, Extent { tasks_max: 2, ..Extent::default() }) {
            Ok(kernel) => kernel,
            Err(Refusal::Privileges) => return,
            Err(refusal) => panic!("{refusal}"),
        };
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait"]);
        let (watch, _) = Watch::start(kernel, &mut shell).unwrap();
        let end = watch.wait(Some(Duration::from_secs(20))).unwrap();
        assert!(matches!(end, Some(End::Ended(status)) if status.success()), "{end:?}");
        let counts = watch.snapshot().unwrap();
        assert!(counts.lost >= 6 && counts.calls["execve"].count >= 1, "{counts:?}");
        assert_eq!(counts.foreign, 0);
    }
}
