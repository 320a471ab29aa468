//! fulmar's client and libcurl's: the sides of the experiments of clients.

use std::path::PathBuf;
use std::process::Command;

use crate::Error;
use crate::lab::{Lab, Peer};
use crate::report::{Column, Outcome, Whose};

/// Who takes part.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) all: Vec<Side>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) whose: Whose,
    /// `None` if it is not here.
    start: Option<Start>,
}

/// How it is started.
#[derive(Debug)]
enum Start {
    Fulmar,
    Libcurl { program: PathBuf, how: &'static [&'static str] },
}

impl Sides {
    /// libcurl among many transfers, as before and after project Hiper.
    pub(super) fn hiper(lab: &Lab, outcome: &mut Outcome) -> Result<Self, Error> {
        let uses = [
            ("libcurl multi_perform", ["--use", "perform"].as_slice()),
            ("libcurl multi_socket", &["--use", "socket"]),
        ];
        Self::new(lab, &Peer::HIPER, uses, outcome)
    }

    /// libcurl with transfers that begin again, as its example does it, and with as few calls as its
    /// options allow.
    pub(super) fn hyper(lab: &Lab, outcome: &mut Outcome) -> Result<Self, Error> {
        let uses = [
            ("libcurl", ["--use", "plain"].as_slice()),
            ("libcurl, at its best", &["--use", "best", "--buffer", "131072"]),
        ];
        Self::new(lab, &Peer::LIBCURL, uses, outcome)
    }

    fn new(
        lab: &Lab,
        peer: &Peer,
        uses: [(&'static str, &'static [&'static str]); 2],
        outcome: &mut Outcome,
    ) -> Result<Self, Error> {
        let program = match peer.program(lab)? {
            Ok(program) => Some(program),
            Err(why) => {
                outcome.missing.push(why);
                None
            }
        };
        let libcurl = uses.into_iter().map(|(name, how)| Side {
            name,
            whose: Whose::Peer,
            start: program.clone().map(|program| Start::Libcurl { program, how }),
        });
        let fulmar = Side { name: "fulmar", whose: Whose::Fulmar, start: Some(Start::Fulmar) };
        Ok(Self { all: libcurl.chain([fulmar]).collect() })
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = Column> {
        let columns = self.all.iter();
        columns.map(|side| Column { name: side.name.to_owned(), whose: side.whose })
    }
}

impl Side {
    /// Its process, without the words of a run; fulmar's is this worker.
    pub(super) fn command(&self, lab: &Lab, worker: &str) -> Option<Command> {
        Some(match self.start.as_ref()? {
            Start::Fulmar => lab.worker(worker),
            Start::Libcurl { program, how } => {
                let mut command = Command::new(program);
                command.args(*how);
                command
            }
        })
    }

    /// Why there is no figure.
    pub(super) fn absent(&self) -> &'static str {
        if self.start.is_some() { "not measured" } else { "not installed" }
    }

    pub(super) fn is_here(&self) -> bool {
        self.start.is_some()
    }
}
