//! What is told of it: the access log, figures, and what SIGHUP does to files.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fulmar_host::{Host, Running};
use fulmar_observe::{Format, Metrics, Output};
use fulmar_server::{Calls, Limits};
use fulmar_sys as sys;
use fulmar_tls::ServerTls;

use super::arguments::{Arguments, LogFormat};
use super::failure;
use crate::files::OutputFile;
use crate::output::{Failure, complain};
use crate::signals;

/// The access log of all threads.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) output: Output,
    pub(super) format: Format,
    file: OutputFile,
}

impl Log {
    pub(super) fn open(arguments: &Arguments) -> Result<Option<Self>, Failure> {
        let Some(file) = &arguments.watching.access_log else { return Ok(None) };
        let fd = open(file).map_err(|error| Failure::new(file.name().display(), error))?;
        let format = match arguments.watching.log_format {
            LogFormat::Combined => Format::Combined,
            LogFormat::Json => Format::Json,
        };
        Ok(Some(Self { output: Output::new(fd), format, file: file.clone() }))
    }
}

fn open(file: &OutputFile) -> io::Result<OwnedFd> {
    match file {
        OutputFile::Stdout => io::stdout().as_fd().try_clone_to_owned(),
        OutputFile::Path(path) => sys::open_log(path),
    }
}

/// Then people are talked to on the other stream.
pub(super) fn logs_to_stdout(arguments: &Arguments) -> bool {
    arguments.watching.access_log == Some(OutputFile::Stdout)
}

/// What may change while it serves.
#[derive(Debug)]
pub(super) struct Reload {
    log: Option<Log>,
    tls: Option<ServerTls>,
}

impl Reload {
    pub(super) fn new(log: Option<Log>, tls: Option<ServerTls>) -> Self {
        Self { log: log.filter(|log| log.file != OutputFile::Stdout), tls }
    }

    /// Does it at every SIGHUP; where nothing may change, the signal ends the process as usual.
    pub(super) fn watch(self) -> Result<(), Failure> {
        if self.log.is_none() && self.tls.is_none() {
            return Ok(());
        }
        signals::on_hangup(move || self.reload())
            .map_err(|error| Failure::new("cannot wait for signals", error))
    }

    fn reload(&self) {
        if let Some(Log { output, file, .. }) = &self.log {
            match open(file) {
                Ok(fd) => output.reopen(fd),
                Err(error) => complain(&format!(
                    "{}: {error}; the access log goes on where it was",
                    file.name().display()
                )),
            }
        }
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => complain("certificates were read anew"),
                Err(error) => complain(&format!("{error}; certificates stay as they were")),
            }
        }
    }
}

/// Shows figures on a listener and a thread of their own, so that they are seen also when
/// everything else is busy, and by nobody who only reaches the files.
pub(super) fn show(arguments: &Arguments, metrics: Metrics) -> Result<Running<()>, Failure> {
    let place = arguments.watching.metrics.as_ref().expect("there are figures to be shown");
    let limits = Limits { connections_max: READERS_MAX, ..Limits::default() };
    Host::new(move |_| Ok(Calls::new(metrics.page(), sys::now(), sys::wall_clock)))
        .listen(place.listen())
        .limits(limits)
        .start()
        .map_err(failure)
}

/// Who reads figures has one connection.
const READERS_MAX: usize = 16;
