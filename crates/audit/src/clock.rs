//! Clock reads through the vDSO (`vdso(7)`), which are no system calls. A small preloaded library
//! (`clock.c`) counts them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::error::AuditError;

/// The compiled library for one command, and the file with its counts.
#[derive(Debug)]
pub struct ClockShim {
    folder: TempDir,
}

impl ClockShim {
    /// Compiles the library with the machine's C compiler and preloads it into the command and its
    /// children. Statically linked programs and programs with elevated rights do not load it.
    ///
    /// # Errors
    /// `ClockShim` if there is no compiler or no disk space.
    pub fn prepare(command: &mut Command) -> Result<Self, AuditError> {
        let this = Self { folder: tempfile::tempdir().map_err(AuditError::Clock)? };
        this.build().map_err(AuditError::Clock)?;
        let mut libraries = OsString::from(this.shim());
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            libraries.push(":");
            libraries.push(others);
        }
        command.env("LD_PRELOAD", libraries).env("FULMAR_CLOCK_READS", this.counts());
        Ok(this)
    }

    /// Clock reads so far. `None` if no program has loaded the library.
    pub(crate) fn reads(&self) -> Option<u64> {
        let bytes = fs::read(self.counts()).ok()?;
        let (programs, reads) = bytes.split_first_chunk()?;
        let reads = u64::from_ne_bytes(*reads.first_chunk()?);
        (u64::from_ne_bytes(*programs) > 0).then_some(reads)
    }

    fn build(&self) -> io::Result<()> {
        let source = self.folder.path().join("clock.c");
        fs::write(&source, SOURCE)?;
        fs::write(self.counts(), [0; COUNTS_SIZE])?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(self.shim()).arg(source);
        compiler.stdin(Stdio::null());
        let done = compiler.output().map_err(|e| named(&e))?;
        match done.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned())),
        }
    }

    fn shim(&self) -> PathBuf {
        self.folder.path().join("clock.so")
    }

    fn counts(&self) -> PathBuf {
        self.folder.path().join("reads")
    }
}

fn named(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the C compiler `cc`: {error}"))
}

const SOURCE: &str = include_str!("clock.c");
/// Size of `struct counts`.
const COUNTS_SIZE: usize = 16;
