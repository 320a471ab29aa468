//! The access log, metrics, and reload at SIGHUP.

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use fulmar_host::{Host, Running};
use fulmar_observe::{Format, Metrics, Output};
use fulmar_semantics::clock::Clock;
use fulmar_server::{HandlerApp, HandlerFailure, Limits, Observer};
use fulmar_sys as sys;
use fulmar_tls::ServerTls;

use super::arguments::{AccessLogFormat, ServeArguments};
use super::failure;
use crate::files::OutputFile;
use crate::output::{ToolFailure, warn};
use crate::signals;

/// The access log, shared by all threads.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub(super) output: Output,
    pub(super) format: Format,
    file: OutputFile,
}

impl LogFile {
    pub(super) fn open(arguments: &ServeArguments) -> Result<Option<Self>, ToolFailure> {
        let Some(file) = &arguments.logging.access_log else { return Ok(None) };
        let fd = open(file).map_err(|error| ToolFailure::new(file.name().display(), error))?;
        let format = match arguments.logging.log_format {
            AccessLogFormat::Combined => Format::Combined,
            AccessLogFormat::Json => Format::Json,
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

/// If true, messages go to standard error.
pub(super) fn logs_to_stdout(arguments: &ServeArguments) -> bool {
    arguments.logging.access_log == Some(OutputFile::Stdout)
}

/// Prints on standard error why a request got status 500 or was aborted.
#[derive(Debug)]
pub(super) struct FailureLog;

impl Observer for FailureLog {
    fn observes_requests(&self) -> bool {
        false
    }

    fn handler_failed(&mut self, _: Instant, _: &Clock, failure: &HandlerFailure<'_>) {
        warn(&describe(failure));
    }
}

/// The failed request and its client, if known, and the cause.
fn describe(failure: &HandlerFailure<'_>) -> String {
    let mut text = String::new();
    if let Some((id, request)) = &failure.request {
        let method = String::from_utf8_lossy(request.method);
        let target = String::from_utf8_lossy(request.target);
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

/// The files that SIGHUP reloads.
#[derive(Debug)]
pub(super) struct Reload {
    log: Option<LogFile>,
    tls: Option<ServerTls>,
}

impl Reload {
    pub(super) fn new(log: Option<LogFile>, tls: Option<ServerTls>) -> Self {
        Self { log: log.filter(|log| log.file != OutputFile::Stdout), tls }
    }

    /// Reloads at every SIGHUP. Without files to reload, the signal ends the process as usual.
    pub(super) fn watch(self) -> Result<(), ToolFailure> {
        if self.log.is_none() && self.tls.is_none() {
            return Ok(());
        }
        signals::on_hangup(move || self.reload())
            .map_err(|error| ToolFailure::new("cannot install signal handlers", error))
    }

    fn reload(&self) {
        if let Some(LogFile { output, file, .. }) = &self.log {
            match open(file) {
                Ok(fd) => output.reopen(fd),
                Err(error) => warn(&format!(
                    "{}: {error}; still writing to the old access log",
                    file.name().display()
                )),
            }
        }
        if let Some(tls) = &self.tls {
            match tls.reload() {
                Ok(()) => warn("certificates reloaded"),
                Err(error) => warn(&format!("{error}; keeping the old certificates")),
            }
        }
    }
}

/// Serves metrics on a separate listener and thread: they are available if all other threads are
/// busy, and not through the listener of the files.
pub(super) fn serve_metrics(
    arguments: &ServeArguments,
    metrics: Metrics,
) -> Result<Running<()>, ToolFailure> {
    let place = arguments.logging.metrics.as_ref().expect("--metrics is given");
    let limits = Limits { connections_max: METRICS_CONNECTIONS_MAX, ..Limits::default() };
    let calls = move || HandlerApp::new(metrics.page(), sys::now(), sys::wall_clock);
    Host::new(move |_| Ok(calls().with_observer(FailureLog)))
        .listen(place.listen())
        .limits(limits)
        .start()
        .map_err(failure)
}

/// Connections of metrics clients.
const METRICS_CONNECTIONS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use fulmar_proto::UsageError;
    use fulmar_server::{HandlerError, RequestId, RequestSummary};

    use super::*;

    #[test]
    fn failures_name_request_client_and_cause() {
        let error = HandlerError::Usage(UsageError::BadHead);
        let request = RequestSummary { method: b"GET", target: b"/a", ..RequestSummary::default() };
        let id = RequestId { server: 1, number: 2 };
        let peer = Some(([192, 0, 2, 7], 80).into());
        let line = |request, peer| describe(&HandlerFailure { error: &error, peer, request });
        assert_eq!(
            line(Some((id, request)), peer),
            format!("GET /a (request {id}) from 192.0.2.7:80: {error}")
        );
        let kept_nothing = Some((id, RequestSummary::default()));
        assert_eq!(line(kept_nothing, None), format!("request {id}: {error}"));
        assert_eq!(line(None, peer), format!("connection from 192.0.2.7:80: {error}"));
    }
}
