//! What is told of it: the access log, figures, and what SIGHUP does to files.

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use fulmar_host::{Host, Running};
use fulmar_observe::{Format, Metrics, Output};
use fulmar_semantics::clock::Clock;
use fulmar_server::{Calls, HandlerFailure, Limits, Observer};
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

/// Prints on standard error why this program responded with 500 or cut a request off.
#[derive(Debug)]
pub(super) struct FailureLog;

impl Observer for FailureLog {
    fn observes_requests(&self) -> bool {
        false
    }

    fn handler_failed(&mut self, _: Instant, _: &Clock, failure: &HandlerFailure<'_>) {
        complain(&describe(failure));
    }
}

/// Which request of which client failed, as far as it is known, and why.
fn describe(failure: &HandlerFailure<'_>) -> String {
    let mut text = String::new();
    if let Some((id, asked)) = &failure.request {
        let method = String::from_utf8_lossy(asked.method);
        let target = String::from_utf8_lossy(asked.target);
        let _ = match (&*method, &*target) {
            ("", _) => write!(text, "request {id}"),
            (method, target) => write!(text, "{method} {target} (request {id})"),
        };
    } else {
        text.push_str("connection");
    }
    if let Some(peer) = failure.peer {
        let _ = write!(text, " from {peer}");
    }
    text + ": " + &failure.error.to_string()
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
    let calls = move || Calls::new(metrics.page(), sys::now(), sys::wall_clock);
    Host::new(move |_| Ok(calls().with_observer(FailureLog)))
        .listen(place.listen())
        .limits(limits)
        .start()
        .map_err(failure)
}

/// Who reads figures has one connection.
const READERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use fulmar_proto::Misuse;
    use fulmar_server::{Asked, HandlerError, RequestId};

    use super::*;

    #[test]
    fn failures_name_request_client_and_cause() {
        let error = HandlerError::Misuse(Misuse::BadHead);
        let asked = Asked { method: b"GET", target: b"/a", ..Asked::default() };
        let id = RequestId { server: 1, number: 2 };
        let peer = Some(([192, 0, 2, 7], 80).into());
        let line = |request, peer| describe(&HandlerFailure { error: &error, peer, request });
        assert_eq!(
            line(Some((id, asked)), peer),
            format!("GET /a (request {id}) from 192.0.2.7:80: {error}")
        );
        let kept_nothing = Some((id, Asked::default()));
        assert_eq!(line(kept_nothing, None), format!("request {id}: {error}"));
        assert_eq!(line(None, peer), format!("connection from 192.0.2.7:80: {error}"));
    }
}
