//! What is heard of a thread that is traced (`ptrace(2)`, which `platform::trace` calls).

/// A traced thread that has something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its number.
    pub thread: u32,
    /// What happened to it.
    pub state: TracedState,
}

/// What happened to a traced thread. Unless it is gone, it stands still until it is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedState {
    /// It ended, with this status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// It enters a system call, or returns from one.
    Call,
    /// It made another thread, which is traced as well.
    MadeThread,
    /// It made another process, which is traced as well.
    MadeProcess,
    /// It became another program. Until then it may have had another number, that of
    /// [`event_thread`](crate::event_thread).
    Executed,
    /// It is to be stopped until somebody continues it (`SIGSTOP`, Ctrl-Z).
    Stopped(i32),
    /// A signal is about to reach it.
    Signal(i32),
    /// It begins to be traced, or was interrupted.
    Paused,
}

/// Where in a system call a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStop {
    /// About to enter it.
    Enter {
        /// The number of the call.
        number: u64,
        /// What it was given.
        arguments: [u64; 6],
        /// True if the number has the meaning that it has for this program: no 32-bit one's.
        native: bool,
    },
    /// About to return.
    Return {
        /// What it returns; an error number less than zero.
        result: i64,
    },
}
