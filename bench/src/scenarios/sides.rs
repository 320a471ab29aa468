//! The sides of scenarios with many transfers on one thread: libcurl, fulmar's client, and
//! fulmar's library in place of libcurl, each in several loops.

use std::process::Command;

use crate::BenchError;
use crate::lab::{CPeer, Lab, wrapped};
use crate::report::{FULMAR, Metric, Sheet};

/// A client in a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientSide {
    /// Its column.
    pub(super) name: &'static str,
    program: SideProgram,
    /// What its program is started with.
    words: &'static [&'static str],
}

/// What runs the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideProgram {
    /// fulmar's client in a worker of this program.
    Worker,
    /// A C program with the installed libcurl.
    Libcurl,
    /// The same file with fulmar's library.
    FulmarLibrary,
    /// A C program with the installed libcurl in the loop of libevent.
    Libevent,
    /// The same file with fulmar's library.
    FulmarLibevent,
}

/// The programs of a scenario: a C program in the loop of epoll and of libevent, and a worker with
/// the same options.
#[derive(Clone, Copy, Debug)]
pub(super) struct SidePrograms {
    pub(super) epoll: CPeer,
    pub(super) libevent: CPeer,
    pub(super) worker: &'static str,
}

impl ClientSide {
    /// fulmar's client.
    pub(super) const fn worker(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, program: SideProgram::Worker, words }
    }

    /// The C program with libcurl.
    pub(super) const fn libcurl(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, program: SideProgram::Libcurl, words }
    }

    /// The same in the loop of libevent.
    pub(super) const fn libevent(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, program: SideProgram::Libevent, words }
    }

    /// The C program with fulmar's library.
    pub(super) const fn library(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, program: SideProgram::FulmarLibrary, words }
    }

    /// The same in the loop of libevent.
    pub(super) const fn library_libevent(
        name: &'static str,
        words: &'static [&'static str],
    ) -> Self {
        Self { name, program: SideProgram::FulmarLibevent, words }
    }

    /// The command without options of the scenario. [`ClientSide::finish`] completes it.
    pub(super) fn command(
        &self,
        lab: &Lab,
        programs: &SidePrograms,
    ) -> Result<Command, BenchError> {
        let mut command = match self.program {
            SideProgram::Worker => lab.worker(programs.worker),
            SideProgram::Libcurl | SideProgram::FulmarLibrary => {
                Command::new(programs.epoll.program(lab)?)
            }
            SideProgram::Libevent | SideProgram::FulmarLibevent => {
                Command::new(programs.libevent.program(lab)?)
            }
        };
        command.args(self.words);
        Ok(command)
    }

    /// The complete command, which may be a wrapped one, with the library of this side.
    pub(super) fn finish(&self, lab: &Lab, command: Command) -> Result<Command, BenchError> {
        match self.program {
            SideProgram::FulmarLibrary | SideProgram::FulmarLibevent => {
                with_fulmar_library(lab, &command)
            }
            SideProgram::Worker | SideProgram::Libcurl | SideProgram::Libevent => Ok(command),
        }
    }

    fn is_fulmar(&self) -> bool {
        !matches!(self.program, SideProgram::Libcurl | SideProgram::Libevent)
    }

    /// Adds the figure of a round. Sides of fulmar other than the main one are not compared.
    pub(super) fn add(&self, sheet: &mut Sheet, metric: &Metric, row: &str, value: f64) {
        match self.is_fulmar() && self.name != FULMAR {
            true => sheet.beside(metric, row, self.name, value),
            false => sheet.add(metric, row, self.name, value),
        }
    }
}

/// The sides whose programs can be built and have their library. The reasons of the others are in
/// the report.
pub(super) fn available(
    lab: &Lab,
    sheet: &mut Sheet,
    sides: &[ClientSide],
    programs: &SidePrograms,
) -> Result<Vec<ClientSide>, BenchError> {
    let mut found = Vec::new();
    for side in sides {
        let command = side.command(lab, programs).and_then(|command| side.finish(lab, command));
        match command {
            Ok(_) => found.push(*side),
            Err(BenchError::Missing(why)) => {
                sheet.report.miss(why);
                if !side.is_fulmar() {
                    sheet.column(side.name, "not installed");
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The command with fulmar's library in place of the installed one.
pub(super) fn with_fulmar_library(lab: &Lab, command: &Command) -> Result<Command, BenchError> {
    let folder = lab.options.fulmar.with_file_name("lib");
    if !folder.join(LIBRARY).is_file() {
        let why = format!("{} is not built: run 'make capi'", folder.join(LIBRARY).display());
        return Err(BenchError::Missing(why));
    }
    Ok(wrapped("/usr/bin/env", &[&format!("LD_LIBRARY_PATH={}", folder.display())], command))
}

const LIBRARY: &str = "libcurl.so.4";
