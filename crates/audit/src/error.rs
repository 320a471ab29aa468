//! Why nothing is counted, or not in the kernel.

use std::fmt;
use std::io;

/// Why nothing is counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// The command cannot be started.
    Command {
        /// Its program.
        program: String,
        /// What the system says.
        cause: io::Error,
    },
    /// There is no such process, or none any more.
    Gone {
        /// Its number.
        pid: u32,
    },
    /// The process cannot be watched.
    Process {
        /// Its number.
        pid: u32,
        /// What the system says.
        cause: io::Error,
    },
    /// That is the number of one thread, and all threads of a process are counted together.
    PartOf {
        /// Its number.
        thread: u32,
        /// The number of its process.
        process: u32,
    },
    /// Somebody traces the process already, which only one can.
    Traced {
        /// Its number.
        pid: u32,
        /// The thread that traces it.
        by: u32,
    },
    /// The counter in the kernel cannot be had.
    Refused(Refusal),
    /// Nobody is traced here either: a filter forbids `ptrace(2)`.
    Untraceable(io::Error),
    /// The library that counts clock reads cannot be made.
    Clock(io::Error),
    /// The counts cannot be read.
    Read(String),
    /// Waiting for the watched processes failed.
    Wait(io::Error),
    /// A thread to trace from could not be had.
    Thread(io::Error),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, cause } => write!(f, "{program}: {cause}"),
            Self::Gone { pid } => write!(f, "no process has the number {pid}"),
            Self::Process { pid, cause } => {
                write!(f, "process {pid} cannot be watched: {cause}")?;
                if cause.kind() == io::ErrorKind::PermissionDenied {
                    f.write_str("; root may, or its owner")?;
                }
                Ok(())
            }
            Self::PartOf { thread, process } => write!(
                f,
                "{thread} is a thread of process {process}, whose threads are counted together: \
                 join {process}"
            ),
            Self::Traced { pid, by } => write!(
                f,
                "process {pid} is traced already, by {by}, and only one can: end that, or have it \
                 counted in the kernel"
            ),
            Self::Untraceable(cause) => write!(
                f,
                "nothing can be traced here: {cause}; does a container's filter forbid ptrace(2)?"
            ),
            Self::Refused(refusal) => write!(f, "cannot count in the kernel: {refusal}"),
            Self::Clock(cause) => write!(f, "clock reads cannot be counted: {cause}"),
            Self::Read(why) => write!(f, "the counts cannot be read: {why}"),
            Self::Thread(cause) => write!(f, "no thread to trace from: {cause}"),
            Self::Wait(cause) => write!(f, "waiting for the program failed: {cause}"),
        }
    }
}

impl std::error::Error for AuditError {}

/// Why the kernel takes no counter from us.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// `bpf(2)` is for those with privileges.
    Privileges,
    /// The kernel lacks something: an old one, or one built without it.
    Kernel {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        why: String,
    },
    /// The counter reads registers, and knows those of x86-64 only.
    Machine,
    /// The caller asked for tracing.
    Asked,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges => f.write_str("eBPF needs root or CAP_BPF and CAP_PERFMON"),
            Self::Kernel { what, why } => write!(f, "this kernel cannot {what}: {why}"),
            Self::Machine => f.write_str("the eBPF counter is for x86-64 only"),
            Self::Asked => f.write_str("tracing was asked for"),
        }
    }
}
