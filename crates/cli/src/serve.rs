//! `fulmar serve`: starts the server, and reports when it ends.

mod arguments;
mod connection_log;
mod fields;
mod listen;
mod listen_address;
mod logging;
mod report;
mod users;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Once, mpsc};

use fulmar_host::{Host, Running};
use fulmar_observe::{AccessLog, Metrics};
use fulmar_serve::{Files, FilesOptions, Options, OutdatedHook, Site, UploadOptions};
use fulmar_server::{HandlerApp, Limits};
use fulmar_sys as sys;
use fulmar_web::cors::Cors;

pub(crate) use arguments::ServeArguments;

use crate::output::{ToolFailure, print_stdout, warn};
use crate::signals::{self, INTERRUPTED, Interrupt};
use crate::{descriptors, loops};
use connection_log::ConnectionLog;
use listen::Listeners;
use logging::{FailureLog, LogFile, Reload};

pub(crate) fn run(arguments: ServeArguments) -> Result<ExitCode, ToolFailure> {
    let limits = limits(&arguments)?;
    let listeners = Listeners::new(&arguments)?;
    let log = LogFile::open(&arguments)?;
    let metrics = arguments.logging.metrics.as_ref().map(|_| Metrics::new());
    let failures = ConnectionLog::default();
    let host = host(&arguments, limits, (log.as_ref(), &failures), metrics.as_ref())?;
    let host = listeners.listens().into_iter().fold(host, Host::listen);
    let (sender, interrupts) = mpsc::channel();
    let stopper = host.stopper();
    signals::watch(move |interrupt| {
        let _ = sender.send(interrupt); // fails only while the process exits
        stopper.stop();
    })
    .map_err(|error| ToolFailure::new("cannot install signal handlers", error))?;
    Reload::new(log, listeners.tls()).watch()?;
    let shown = metrics.map(|metrics| logging::serve_metrics(&arguments, metrics)).transpose()?;
    let running = host.start().map_err(failure)?;
    greet(&arguments, &listeners, &running, shown.as_ref())?;
    let began = running.drivers().to_vec();
    loops::warn_without_ring(&began);
    let outcomes = running.join().map_err(failure)?;
    drop(shown);
    failures.finish();
    loops::warn_ring_lost(&began, outcomes.iter().map(|outcome| &outcome.driver));
    report::print(&arguments, &outcomes)?;
    Ok(match interrupts.try_recv() {
        Ok(Interrupt::Interrupt) => ExitCode::from(INTERRUPTED),
        Ok(Interrupt::Terminate) | Err(_) => ExitCode::SUCCESS,
    })
}

fn failure(error: fulmar_host::Error) -> ToolFailure {
    ToolFailure::Message(error.to_string())
}

fn limits(arguments: &ServeArguments) -> Result<Limits, ToolFailure> {
    let threads = usize::from(arguments.threads);
    let requested = &arguments.limits;
    let budget = descriptors::for_connections(threads)?;
    // The cache of files needs descriptors too.
    let files = threads * Options::default().entries_max;
    let all = budget.connections();
    let budget = budget.within(all.saturating_sub(files).max(all / 2));
    let fits = budget.connections();
    let (connections, message) = match requested.max_connections {
        Some(wanted) => budget.fit(usize::try_from(wanted).unwrap_or(usize::MAX)),
        None => (fits, budget.warning()),
    };
    message.iter().for_each(|message| warn(message));
    let usual = Limits::default();
    let each = requested.max_connections_per_address;
    let each = each.map(|n| usize::try_from(n).unwrap_or(usize::MAX).div_ceil(threads));
    Ok(Limits {
        connections_max: connections.div_ceil(threads),
        address_connections_max: each.unwrap_or(usual.address_connections_max),
        loopback_connections_max: each.unwrap_or(usual.loopback_connections_max),
        http2: arguments.http2.limits(),
        response_buffer_max: usize::try_from(requested.response_buffer).unwrap_or(usize::MAX),
        idle_timeout: requested.idle_timeout,
        head_timeout: requested.head_timeout,
        body_timeout: requested.body_timeout,
        send_timeout: requested.send_timeout,
        drain_timeout: requested.drain_timeout,
        rate_min: usual.rate_min.filter(|_| requested.min_rate > 0).map(|mut rate| {
            rate.bytes_per_second = requested.min_rate;
            rate
        }),
        ..usual
    })
}

/// The host, without its listeners.
fn host(
    arguments: &ServeArguments,
    limits: Limits,
    (log, failures): (Option<&LogFile>, &ConnectionLog),
    metrics: Option<&Metrics>,
) -> Result<Host<HandlerApp<Files>, u64>, ToolFailure> {
    let files = files(arguments)?;
    let fields = fields::of(&arguments.content.headers)?;
    let sends_ids = arguments.content.request_ids;
    let (log, metrics, shown) = (log.cloned(), metrics.cloned(), metrics.cloned());
    let failures = failures.clone();
    let host = Host::new(move |_| {
        let mut app = HandlerApp::new(Files::open(&files)?, sys::now(), sys::wall_clock)
            .with_fields(fields.clone())
            .with_observer(FailureLog)
            .with_observer(failures.clone());
        if sends_ids {
            app = app.with_request_ids();
        }
        if let Some(log) = &log {
            let observer = AccessLog::new(log.output.clone(), log.format);
            app = app.with_observer(observer.on_trouble(|news| warn(&news.to_string())));
        }
        if let Some(metrics) = &metrics {
            app = app.with_observer(metrics.observer());
        }
        Ok(app)
    });
    let host = match &arguments.hand_over {
        Some(path) => host.hand_over(path),
        None => host,
    };
    let host = host.loop_options(arguments.loops.options()?);
    let host = match shown {
        None => host,
        Some(metrics) => host.on_driver(move |worker, info| {
            metrics.set_loop(worker.number, info.driver.clone(), info.spin.to_string());
        }),
    };
    Ok(host.threads(arguments.threads.into()).limits(limits).at_end(|calls| {
        fulmar_server::ServerApp::finish(calls, sys::now());
        calls.requests()
    }))
}

fn files(arguments: &ServeArguments) -> Result<FilesOptions, ToolFailure> {
    let (dir, content) = (&arguments.dir, &arguments.content);
    std::fs::read_dir(dir).map_err(|error| ToolFailure::usage(dir.display(), error))?;
    let origins = content.cors.iter().map(String::as_str);
    let cors = match origins.clone().any(|origin| origin == "*") {
        _ if content.cors.is_empty() => None,
        true => Some(Cors::any()),
        false => Some(Cors::only(origins).map_err(|error| ToolFailure::usage("--cors", error))?),
    };
    let methods = if content.upload { "GET, HEAD, PUT" } else { "GET, HEAD" };
    users::warn_if_insecure(arguments);
    let site = Options {
        hidden: content.hidden,
        list: content.list,
        precompressed: content.precompressed,
        on_outdated: content.precompressed.then(outdated_hook),
        single_page: content.spa,
        upload: content.upload.then_some(UploadOptions { size_max: content.upload_max }),
        ..Options::default()
    };
    warn_without_index(dir, &site)?;
    Ok(FilesOptions {
        site,
        cors: cors.map(|cors| cors.methods(methods)),
        guard: users::guard(arguments)?,
        test_endpoints: arguments.test_endpoints,
        ..FilesOptions::new(dir)
    })
}

/// Warns if the page for unknown names does not exist. It may be created later.
fn warn_without_index(dir: &Path, options: &Options) -> Result<(), ToolFailure> {
    if !options.single_page {
        return Ok(());
    }
    let site = Site::open(dir, options.clone());
    if !site.map_err(|error| ToolFailure::usage(dir.display(), error))?.has_index() {
        let dir = dir.display();
        warn(&format!(
            "{dir} has no index.html for --spa: unknown names get status 404 until it exists"
        ));
    }
    Ok(())
}

/// Warns once if a compressed file is older than its original.
fn outdated_hook() -> OutdatedHook {
    let first = Once::new();
    OutdatedHook::new(move |name| {
        first.call_once(|| {
            warn(&format!(
                "'{}' is older than the original file, and is sent nevertheless; compress it again \
                 if the original has changed (further files are not reported)",
                name.escape_ascii()
            ));
        });
    })
}

/// Prints a line for each listener.
fn greet(
    arguments: &ServeArguments,
    listeners: &Listeners,
    running: &Running<u64>,
    shown: Option<&Running<()>>,
) -> Result<(), ToolFailure> {
    let mut text = String::new();
    for url in listeners.urls(running.addresses()) {
        text += &format!("serving {} on {url}\n", arguments.dir.display());
    }
    for address in shown.iter().flat_map(|shown| shown.addresses()) {
        text += &format!("metrics on {}\n", listen::url(address, false, "metrics"));
    }
    if logging::logs_to_stdout(arguments) {
        text.lines().for_each(warn);
        return Ok(());
    }
    print_stdout(&text)
}
