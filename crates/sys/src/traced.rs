//! Events of traced threads (`ptrace(2)`, called by `platform::trace`).

/// An event of a traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The thread number.
    pub thread: u32,
    /// The event.
    pub state: TracedState,
}

/// An event of a traced thread. Unless the thread has ended, it is stopped until it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedState {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by a signal.
    Killed(i32),
    /// It enters or leaves a system call.
    Call,
    /// It created a thread, which is traced as well.
    MadeThread,
    /// It created a process, which is traced as well.
    MadeProcess,
    /// It executed another program. It may have had another number before, returned by
    /// [`event_thread`](crate::event_thread).
    Executed,
    /// It was stopped by job control (`SIGSTOP`, Ctrl-Z) until it is continued.
    Stopped(i32),
    /// A signal is about to be delivered.
    Signal(i32),
    /// Tracing begins, or the thread was interrupted.
    Paused,
}

/// The system call at which a thread is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStop {
    /// Before the call.
    Enter {
        /// The number of the system call.
        number: u64,
        /// The arguments.
        arguments: [u64; 6],
        /// False if the number is of another calling convention, such as a 32-bit call.
        native: bool,
    },
    /// After the call.
    Return {
        /// The return value; a negative error number on failure.
        result: i64,
    },
}
