//! `fulmar serve`: arguments, messages, the end.

mod arguments;
mod fields;
mod listen;
mod report;
mod users;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Once, mpsc};

use fulmar_host::{Host, Running};
use fulmar_observe::{AccessLog, Metrics};
use fulmar_serve::{Files, FilesOptions, Options, OutdatedHook, Site, UploadOptions};
use fulmar_server::{Calls, Limits};
use fulmar_sys as sys;
use fulmar_web::cors::Cors;

pub(crate) use arguments::Arguments;

use crate::output::{Failure, complain, say};
use crate::signals::{self, INTERRUPTED, Interrupt};
use crate::{descriptors, loops};
use listen::Doors;
use watch::{FailureLog, Log, Reload};

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let limits = limits(&arguments)?;
    let doors = Doors::new(&arguments)?;
    let log = Log::open(&arguments)?;
    let metrics = arguments.watching.metrics.as_ref().map(|_| Metrics::new());
    let host = host(&arguments, limits, log.as_ref(), metrics.as_ref())?;
    let host = doors.listens().into_iter().fold(host, Host::listen);
    let (sender, interrupts) = mpsc::channel();
    let stopper = host.stopper();
    signals::watch(move |interrupt| {
        let _ = sender.send(interrupt); // nobody listens any more: the end is near
        stopper.stop();
    })
    .map_err(|error| Failure::new("cannot wait for signals", error))?;
    Reload::new(log, doors.tls()).watch()?;
    let shown = metrics.map(|metrics| watch::show(&arguments, metrics)).transpose()?;
    let running = host.start().map_err(failure)?;
    greet(&arguments, &doors, &running, shown.as_ref())?;
    let began = running.driven().to_vec();
    loops::tell(&began);
    let outcomes = running.join().map_err(failure)?;
    drop(shown);
    loops::tell_loss(&began, outcomes.iter().map(|outcome| &outcome.driven));
    report::print(&arguments, &outcomes)?;
    Ok(match interrupts.try_recv() {
        Ok(Interrupt::Interrupt) => ExitCode::from(INTERRUPTED),
        Ok(Interrupt::Terminate) | Err(_) => ExitCode::SUCCESS,
    })
}

fn failure(error: fulmar_host::Error) -> Failure {
    Failure::Message(error.to_string())
}

fn limits(arguments: &Arguments) -> Result<Limits, Failure> {
    let threads = usize::from(arguments.threads);
    let asked = &arguments.limits;
    let budget = descriptors::for_connections(threads)?;
    // What is remembered of files keeps descriptors too.
    let files = threads * Options::default().entries_max;
    let all = budget.connections();
    let budget = budget.within(all.saturating_sub(files).max(all / 2));
    let fits = budget.connections();
    let (connections, message) = match asked.max_connections {
        Some(wanted) => budget.fit(usize::try_from(wanted).unwrap_or(usize::MAX)),
        None => (fits, budget.warning()),
    };
    message.iter().for_each(|message| complain(message));
    let usual = Limits::default();
    let each = asked.max_connections_per_address;
    let each = each.map(|n| usize::try_from(n).unwrap_or(usize::MAX).div_ceil(threads));
    Ok(Limits {
        connections_max: connections.div_ceil(threads),
        address_connections_max: each.unwrap_or(usual.address_connections_max),
        loopback_connections_max: each.unwrap_or(usual.loopback_connections_max),
        response_buffer_max: usize::try_from(asked.response_buffer).unwrap_or(usize::MAX),
        idle_timeout: asked.idle_timeout,
        head_timeout: asked.head_timeout,
        body_timeout: asked.body_timeout,
        send_timeout: asked.send_timeout,
        drain_timeout: asked.drain_timeout,
        rate_min: usual.rate_min.filter(|_| asked.min_rate > 0).map(|mut rate| {
            rate.bytes_per_second = asked.min_rate;
            rate
        }),
        ..usual
    })
}

/// What runs; where it listens is still to be said.
fn host(
    arguments: &Arguments,
    limits: Limits,
    log: Option<&Log>,
    metrics: Option<&Metrics>,
) -> Result<Host<Calls<Files>, u64>, Failure> {
    let files = files(arguments)?;
    let fields = fields::of(&arguments.answers.headers)?;
    let tells_ids = arguments.answers.request_ids;
    let (log, metrics, shown) = (log.cloned(), metrics.cloned(), metrics.cloned());
    let host = Host::new(move |_| {
        let mut calls = Calls::new(Files::open(&files)?, sys::now(), sys::wall_clock)
            .with_fields(fields.clone())
            .with_observer(FailureLog);
        if tells_ids {
            calls = calls.with_request_ids();
        }
        if let Some(log) = &log {
            let observer = AccessLog::new(log.output.clone(), log.format);
            calls = calls.with_observer(observer.on_trouble(|news| complain(&news.to_string())));
        }
        if let Some(metrics) = &metrics {
            calls = calls.with_observer(metrics.observer());
        }
        Ok(calls)
    });
    let host = match &arguments.hand_over {
        Some(path) => host.hand_over(path),
        None => host,
    };
    let host = host.loop_options(arguments.loops.options()?);
    let host = match shown {
        None => host,
        Some(metrics) => host.on_driven(move |worker, driven| {
            metrics.set_loop(worker.number, driven.driver.clone(), driven.spin.to_string());
        }),
    };
    Ok(host.threads(arguments.threads.into()).limits(limits).at_end(|calls| {
        fulmar_server::Application::finish(calls, sys::now());
        calls.requests()
    }))
}

fn files(arguments: &Arguments) -> Result<FilesOptions, Failure> {
    let (dir, answers) = (&arguments.dir, &arguments.answers);
    std::fs::read_dir(dir).map_err(|error| Failure::new(dir.display(), error))?;
    let origins = answers.cors.iter().map(String::as_str);
    let cors = match origins.clone().any(|origin| origin == "*") {
        _ if answers.cors.is_empty() => None,
        true => Some(Cors::any()),
        false => Some(Cors::only(origins).map_err(|error| usage("--cors", error))?),
    };
    let methods = if answers.upload { "GET, HEAD, PUT" } else { "GET, HEAD" };
    users::warn(arguments);
    let site = Options {
        hidden: answers.hidden,
        list: answers.list,
        precompressed: answers.precompressed,
        on_outdated: answers.precompressed.then(outdated_hook),
        single_page: answers.spa,
        upload: answers.upload.then_some(UploadOptions { size_max: answers.upload_max }),
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

/// Warns if the page for all names does not exist. It may be built later.
fn warn_without_index(dir: &Path, options: &Options) -> Result<(), Failure> {
    if !options.single_page {
        return Ok(());
    }
    let site = Site::open(dir, options.clone());
    if !site.map_err(|error| Failure::new(dir.display(), error))?.has_index() {
        let dir = dir.display();
        complain(&format!(
            "{dir} has no index.html for --spa: unknown names get 404 until there is one"
        ));
    }
    Ok(())
}

/// Warns of the first compressed file that is older than its original: where one is, all may be.
fn outdated_hook() -> OutdatedHook {
    let first = Once::new();
    OutdatedHook::new(move |name| {
        first.call_once(|| {
            complain(&format!(
                "'{}' is older than the file that it was compressed from, and is sent all the \
                 same; compress it again if that file has changed (further ones are not reported)",
                name.escape_ascii()
            ));
        });
    })
}

fn usage(flag: &str, error: impl std::fmt::Display) -> Failure {
    Failure::Usage(format!("{flag}: {error}"))
}

/// One line for each place where it listens.
fn greet(
    arguments: &Arguments,
    doors: &Doors,
    running: &Running<u64>,
    shown: Option<&Running<()>>,
) -> Result<(), Failure> {
    let mut text = String::new();
    for url in doors.urls(running.addresses()) {
        text += &format!("serving {} on {url}\n", arguments.dir.display());
    }
    for address in shown.iter().flat_map(|shown| shown.addresses()) {
        text += &format!("metrics on {}\n", listen::url(address, false, "metrics"));
    }
    if watch::logs_to_stdout(arguments) {
        text.lines().for_each(complain);
        return Ok(());
    }
    say(&text)
}
