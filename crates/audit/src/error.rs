//! Why nothing is counted, or why eBPF is not used.

use std::fmt;
use std::io;

/// Why nothing is counted.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// The command could not be started.
    Command {
        /// Its program.
        program: String,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// There is no such process.
    Gone {
        /// The process number.
        pid: u32,
    },
    /// The process cannot be watched.
    Process {
        /// The process number.
        pid: u32,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// The number is that of a thread. All threads of a process are counted together.
    PartOf {
        /// The thread number.
        thread: u32,
        /// The number of the thread's process.
        process: u32,
    },
    /// Another process already traces it. Only one can.
    Traced {
        /// The process number.
        pid: u32,
        /// The tracing thread.
        by: u32,
    },
    /// The kernel refuses the eBPF counter.
    Refused(KernelRefusal),
    /// `ptrace(2)` is not permitted here, for example by a container's seccomp filter.
    Untraceable(io::Error),
    /// The library that counts clock reads could not be built.
    Clock(io::Error),
    /// The counts could not be read.
    Read(String),
    /// Waiting for the watched processes failed.
    Wait(io::Error),
    /// The tracing thread could not be started.
    Thread(io::Error),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, cause } => write!(f, "{program}: {cause}"),
            Self::Gone { pid } => write!(f, "no such process: {pid}"),
            Self::Process { pid, cause } => {
                write!(f, "cannot watch process {pid}: {cause}")?;
                if cause.kind() == io::ErrorKind::PermissionDenied {
                    f.write_str("; run as root or as the owner of the process")?;
                }
                Ok(())
            }
            Self::PartOf { thread, process } => write!(
                f,
                "{thread} is a thread of process {process}, whose threads are counted together: \
                 use --pid {process}"
            ),
            Self::Traced { pid, by } => write!(
                f,
                "process {pid} is already traced by {by}: end that tracer, or count with \
                 counted in the kernel"
            ),
            Self::Untraceable(cause) => write!(
                f,
                "ptrace(2) is not permitted here: {cause} (a container's seccomp filter?)"
            ),
            Self::Refused(refusal) => write!(f, "cannot use eBPF: {refusal}"),
            Self::Clock(cause) => write!(f, "cannot count clock reads: {cause}"),
            Self::Read(why) => write!(f, "cannot read the counts: {why}"),
            Self::Thread(cause) => write!(f, "cannot start the tracing thread: {cause}"),
            Self::Wait(cause) => write!(f, "waiting for the program failed: {cause}"),
        }
    }
}

impl std::error::Error for AuditError {}

/// Why the eBPF counter cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelRefusal {
    /// `bpf(2)` needs privileges that are missing.
    Privileges,
    /// The kernel is too old or was built without the feature.
    Kernel {
        /// The missing ability.
        what: &'static str,
        /// The error of the operating system.
        why: String,
    },
    /// The eBPF counter reads registers, and supports only those of x86-64.
    Machine,
    /// The caller chose ptrace.
    Requested,
}

impl fmt::Display for KernelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges => f.write_str("eBPF needs root or CAP_BPF and CAP_PERFMON"),
            Self::Kernel { what, why } => write!(f, "this kernel does not support {what}: {why}"),
            Self::Machine => f.write_str("the eBPF counter is for x86-64 only"),
            Self::Requested => f.write_str("ptrace was requested"),
        }
    }
}
